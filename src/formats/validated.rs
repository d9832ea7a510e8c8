//! Full validation of a key, done once and remembered by the file's content hash.
//!
//! A record is a small file named by the hash, whose whole content is fixed by the hash and by the
//! version of the checks: anything else in its place means nothing. It is a memory, not a proof: the
//! directory belongs to the service's own user, as the keys do.
use super::{FormatError, bellman, error::Defect, files, zkey};
use crate::{
    algebra::{Curve, PointEncoding, PointStore},
    groth16::ProvingKey,
};
use std::path::{Path, PathBuf};

/// Raised whenever the checks below become stricter; older records then count for nothing.
const CHECKS: u32 = 1;

/// Points between two reports of progress.
const TILE: usize = 1 << 16;

/// Validates every point of the long queries (encoding, curve, subgroup, infinity where the format
/// forbids it) unless `memory` (a directory) remembers this very content; remembers it then.
/// `memory` None: always validates. `progress` gets (points done, points total).
///
/// Errors name the section, the first bad point's index and its byte in the mapped file; the file
/// itself is the caller's to name ([`FormatError::in_file`]).
pub fn validate_key(
    key: &ProvingKey,
    memory: Option<&Path>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(), FormatError> {
    let record = memory.map(|directory| Record::of(directory, &key.id));
    let total = [key.h.len(), key.l.len(), key.a.points().len(), key.b_g1.points().len()]
        .into_iter()
        .fold(key.b_g2.points().len() as u64, |sum, len| sum + len as u64);
    if record.as_ref().is_some_and(Record::is_there) {
        progress(total, total);
        return Ok(());
    }
    let mut validation = Validation { done: 0, total, progress };
    validation.query(0, &key.h, false)?;
    validation.query(1, &key.l, true)?;
    validation.query(2, key.a.points(), true)?;
    validation.query(3, key.b_g1.points(), true)?;
    validation.query(4, key.b_g2.points(), true)?;
    match record {
        Some(record) => record.write(),
        None => Ok(()),
    }
}

struct Validation<'a> {
    done: u64,
    total: u64,
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl Validation<'_> {
    /// `place`: of the query in the name tables. Only snarkjs keeps points at infinity, and only those
    /// of variables that a matrix does not mention.
    fn query<C: Curve>(
        &mut self,
        place: usize,
        points: &PointStore<C>,
        zkey_keeps_infinity: bool,
    ) -> Result<(), FormatError> {
        let (section, first, allow_infinity) = match *points {
            PointStore::Mapped { encoding: PointEncoding::MontgomeryLe, offset, .. } => {
                (zkey::QUERIES[place], offset as u64, zkey_keeps_infinity)
            }
            PointStore::Mapped { encoding: PointEncoding::ZcashUncompressed, offset, .. } => {
                (bellman::QUERIES[place], offset as u64, false)
            }
            PointStore::Owned(_) => (bellman::QUERIES[place], 0, false),
        };
        (self.progress)(self.done, self.total);
        for (start, tile) in tiles(points) {
            tile.validate(allow_infinity).map_err(|(index, error)| {
                let index = (start + index) as u64;
                let defect = Defect::Point { group: C::NAME, index, error };
                FormatError::malformed(section, first + index * C::UNCOMPRESSED as u64, defect)
            })?;
            self.done += tile.len() as u64;
            (self.progress)(self.done, self.total);
        }
        Ok(())
    }
}

/// The points in stores of at most [`TILE`] points, with the index of each one's first.
fn tiles<C: Curve>(points: &PointStore<C>) -> impl Iterator<Item = (usize, PointStore<C>)> + '_ {
    (0..points.len()).step_by(TILE).map(move |start| {
        let len = TILE.min(points.len() - start);
        let tile = match points {
            PointStore::Owned(points) => PointStore::Owned(points[start..start + len].to_vec()),
            PointStore::Mapped { map, offset, encoding, .. } => PointStore::Mapped {
                map: map.clone(),
                offset: offset + start * C::UNCOMPRESSED,
                len,
                encoding: *encoding,
            },
        };
        (start, tile)
    })
}

/// That this content was validated.
struct Record {
    path: PathBuf,
    content: String,
}

impl Record {
    fn of(directory: &Path, id: &[u8; 32]) -> Self {
        let id = blake3::Hash::from_bytes(*id).to_hex();
        let content = format!("cuzk: every point of this key was validated\nchecks {CHECKS}\nblake3 {id}\n");
        Self { path: directory.join(format!("{id}.validated")), content }
    }

    fn is_there(&self) -> bool {
        // One that is missing, unreadable or different in any byte is as good as none.
        std::fs::read(&self.path).is_ok_and(|found| found == self.content.as_bytes())
    }

    fn write(&self) -> Result<(), FormatError> {
        files::write_whole(&self.path, |out| {
            out.write_all(self.content.as_bytes()).map_err(FormatError::io(&self.path))
        })
    }
}
