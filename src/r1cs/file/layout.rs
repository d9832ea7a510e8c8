//! Where things lie in a compiled circuit file: all of it follows from the circuit's numbers.
//! `docs/circuit-file.md` describes the same in prose.
use super::FileError;
use crate::r1cs::{
    identity::{Counts, INPUT_ROWS_EXPLICIT, Part, Section, SectionHash},
    store::{Indices, Offsets},
};

/// The first bytes of every compiled circuit file.
pub(super) const MAGIC: [u8; 8] = *b"cuzkr1cs";
/// The only version so far.
pub(super) const VERSION: u32 = 1;
/// Sections begin at multiples of this.
pub(super) const ALIGNMENT: u64 = 64;
/// Bytes of the header before the section table.
pub(super) const FIXED_BYTES: usize = 128;
/// Bytes of one entry of the section table.
const ENTRY_BYTES: usize = 64;
/// Bytes of a BLAKE3 hash.
const HASH_BYTES: usize = 32;
/// The number of C's entries where C is absent.
const ABSENT: u64 = u64::MAX;

/// The name of the header in messages.
pub(super) const HEADER: &str = "header";
const TABLE: &str = "section table";

/// A section's place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) section: Section,
    /// Bytes of one element.
    pub(super) element: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The places of all sections in file order.
pub(super) struct Layout {
    pub(super) sections: Vec<Placed>,
    /// Bytes of the header, section table and checksum included.
    pub(super) header: u64,
    /// Bytes of the file.
    pub(super) total: u64,
}

/// Sections of a file with or without C.
fn num_sections(c: Option<u64>) -> usize {
    if c.is_some() { 10 } else { 7 }
}

impl Layout {
    /// None where an offset would pass 64 bits.
    pub(super) fn new(counts: &Counts) -> Option<Self> {
        let header = FIXED_BYTES + ENTRY_BYTES * num_sections(counts.c) + HASH_BYTES;
        let mut layout = Self { sections: Vec::new(), header: header as u64, total: header as u64 };
        layout.append(Section::Coefficients, 32, counts.coefficients)?;
        let index = if Indices::narrow(counts.coefficients) { 2 } else { 4 };
        let rows = counts.constraints.checked_add(counts.inputs)?;
        let matrices = [
            ('A', rows, Some(counts.a)),
            ('B', counts.constraints, Some(counts.b)),
            ('C', counts.constraints, counts.c),
        ];
        for (name, rows, entries) in matrices {
            let Some(entries) = entries else { continue };
            let offset = if Offsets::narrow(entries) { 4 } else { 8 };
            layout.append(Section::Matrix(name, Part::Offsets), offset, rows.checked_add(1)?)?;
            layout.append(Section::Matrix(name, Part::Columns), 4, entries)?;
            layout.append(Section::Matrix(name, Part::Indices), index, entries)?;
        }
        Some(layout)
    }

    fn append(&mut self, section: Section, element: u32, count: u64) -> Option<()> {
        let offset = self.total.checked_next_multiple_of(ALIGNMENT)?;
        let length = count.checked_mul(element.into())?;
        self.total = offset.checked_add(length)?;
        self.sections.push(Placed { section, element, offset, length });
        Some(())
    }
}

/// The header of a circuit with these numbers and sections.
pub(super) fn write_header(
    counts: &Counts,
    layout: &Layout,
    hashes: &[SectionHash],
    id: [u8; 32],
) -> Vec<u8> {
    let mut header = Vec::with_capacity(layout.header as usize);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(INPUT_ROWS_EXPLICIT.to_le_bytes());
    let numbers = [
        layout.total,
        counts.inputs,
        counts.aux,
        counts.constraints,
        counts.coefficients,
        counts.a,
        counts.b,
        counts.c.unwrap_or(ABSENT),
        layout.sections.len() as u64,
    ];
    header.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    header.extend(id);
    header.resize(FIXED_BYTES, 0);
    for (placed, hash) in layout.sections.iter().zip(hashes) {
        header.extend(placed.section.code().to_le_bytes());
        header.extend(placed.element.to_le_bytes());
        header.extend(placed.offset.to_le_bytes());
        header.extend(placed.length.to_le_bytes());
        header.extend(hash.hash);
        header.resize(header.len().next_multiple_of(ENTRY_BYTES), 0);
    }
    let checksum = *blake3::hash(&header).as_bytes();
    header.extend(checksum);
    header
}

/// What a header says.
pub(super) struct Header {
    pub(super) counts: Counts,
    pub(super) layout: Layout,
    pub(super) hashes: Vec<SectionHash>,
    pub(super) id: [u8; 32],
}

/// Reads fields of a header whose length has been checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }
    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

/// Reads and checks the header of a whole file, and the file's length against it.
pub(super) fn read_header(file: &[u8]) -> Result<Header, FileError> {
    let wrong = |offset: usize, what, found: &dyn std::fmt::Display, wanted: &dyn std::fmt::Display| {
        Err(FileError::malformed(HEADER, offset as u64, what, found, wanted))
    };
    let length = file.len();
    if length < FIXED_BYTES {
        return wrong(length, "the file's length", &length, &format_args!("at least {FIXED_BYTES}"));
    }
    let fields = Fields(file);
    if fields.bytes(0) != MAGIC {
        let found = fields.bytes::<8>(0).escape_ascii().to_string();
        return wrong(0, "the magic", &found, &MAGIC.escape_ascii());
    }
    if fields.u32(8) != VERSION {
        return wrong(8, "the version", &fields.u32(8), &VERSION);
    }
    let absent = fields.u64(72) == ABSENT;
    let counts = Counts {
        inputs: fields.u64(24),
        aux: fields.u64(32),
        constraints: fields.u64(40),
        coefficients: fields.u64(48),
        a: fields.u64(56),
        b: fields.u64(64),
        c: (!absent).then(|| fields.u64(72)),
    };
    let sections = num_sections(counts.c);
    let table_end = FIXED_BYTES + ENTRY_BYTES * sections;
    if length < table_end + HASH_BYTES {
        let wanted = table_end + HASH_BYTES;
        return wrong(length, "the file's length", &length, &format_args!("at least {wanted}"));
    }
    let checksum = *blake3::hash(&file[..table_end]).as_bytes();
    if fields.bytes(table_end) != checksum {
        let found = hex(&fields.bytes::<32>(table_end));
        return wrong(table_end, "the header's BLAKE3 checksum", &found, &hex(&checksum));
    }

    // From here on the header is what somebody wrote, though perhaps not this program.
    if fields.u32(12) != INPUT_ROWS_EXPLICIT {
        return wrong(12, "the convention for input rows", &fields.u32(12), &INPUT_ROWS_EXPLICIT);
    }
    if counts.inputs == 0 {
        return wrong(24, "the number of inputs", &0, &"at least 1 (ONE)");
    }
    match counts.inputs.checked_add(counts.aux) {
        Some(sum) if sum <= u32::MAX.into() => (),
        _ => {
            return wrong(
                32,
                "the number of auxiliary variables",
                &counts.aux,
                &"below 2^32 with the inputs",
            );
        }
    }
    if !(2..=1 << 32).contains(&counts.coefficients) {
        return wrong(48, "the number of coefficients", &counts.coefficients, &"2 to 2^32");
    }
    if fields.u64(80) != sections as u64 {
        return wrong(80, "the number of sections", &fields.u64(80), &sections);
    }
    if fields.u64(120) != 0 {
        return wrong(120, "a reserved field", &fields.u64(120), &0);
    }
    let Some(layout) = Layout::new(&counts) else {
        return wrong(40, "the sections' length", &"above 64 bits", &"that of a file");
    };
    let hashes = read_table(&fields, &layout)?;
    check_length(length as u64, &layout)?;
    if fields.u64(16) != layout.total {
        return wrong(16, "the file's length", &fields.u64(16), &layout.total);
    }
    Ok(Header { counts, layout, hashes, id: fields.bytes(88) })
}

/// The section table must say what follows from the numbers.
fn read_table(fields: &Fields<'_>, layout: &Layout) -> Result<Vec<SectionHash>, FileError> {
    let entry = |(i, placed): (usize, &Placed)| {
        let at = FIXED_BYTES + ENTRY_BYTES * i;
        let numbers = [
            (0, "a section's code", fields.u32(at).into(), placed.section.code().into()),
            (4, "a section's element size", fields.u32(at + 4).into(), placed.element.into()),
            (8, "a section's offset", fields.u64(at + 8), placed.offset),
            (16, "a section's length", fields.u64(at + 16), placed.length),
            (56, "a reserved field", fields.u64(at + 56), 0),
        ];
        match numbers.iter().find(|(.., found, wanted)| found != wanted) {
            Some((field, what, found, wanted)) => {
                Err(FileError::malformed(TABLE, (at + field) as u64, what, found, wanted))
            }
            None => Ok(SectionHash { section: placed.section, hash: fields.bytes(at + 24) }),
        }
    };
    layout.sections.iter().enumerate().map(entry).collect()
}

/// The file must end where its last section does.
fn check_length(length: u64, layout: &Layout) -> Result<(), FileError> {
    for Placed { section, offset, length: wanted, .. } in &layout.sections {
        let found = length.saturating_sub(*offset);
        if found < *wanted {
            return Err(FileError::malformed(section.name(), *offset, "the bytes there are", &found, wanted));
        }
    }
    // The last sections may be empty, and what is missing the padding before them.
    if length < layout.total {
        return Err(FileError::malformed("end", length, "the file's length", &length, &layout.total));
    }
    if length > layout.total {
        let surplus = length - layout.total;
        let what = "the bytes after the last section";
        return Err(FileError::malformed("end", layout.total, what, &surplus, &0));
    }
    Ok(())
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
