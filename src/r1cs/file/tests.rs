//! Round trips, and everything that can be wrong with a compiled circuit file.
use super::*;
use crate::{
    algebra::{CancelToken, Canonical, Fr},
    r1cs::{
        CircuitBuilder,
        test_circuits::{circuit, circuits, dense_product},
    },
};
use proptest::prelude::*;
use std::{fs, path::PathBuf};

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn path(&self) -> PathBuf {
        self.0.path().join("circuit.cuzk")
    }
    fn written(&self, circuit: &Circuit) -> Vec<u8> {
        write(circuit, &self.path()).unwrap();
        fs::read(self.path()).unwrap()
    }
    fn open(&self, bytes: &[u8]) -> Result<Circuit, FileError> {
        fs::write(self.path(), bytes).unwrap();
        open(&self.path())
    }
}

/// z = (1, x; y, w): two rows with coefficients other than ±1, in all three matrices.
fn sample() -> Circuit {
    let value = Fr::from_u64;
    let mut builder = CircuitBuilder::new(2, 2);
    builder.constraint(&[(1, value(5)), (2, -Fr::ONE)], &[(3, value(9))], &[(0, value(77))]).unwrap();
    builder.constraint(&[(3, value(9))], &[(0, Fr::ONE)], &[(1, value(5)), (3, Fr::ONE)]).unwrap();
    builder.finish().unwrap()
}

fn without_c() -> Circuit {
    let mut builder = CircuitBuilder::new(1, 1);
    builder.constraint(&[(1, Fr::from_u64(5))], &[(1, Fr::from_u64(6))], &[]).unwrap();
    builder.finish_without_c().unwrap()
}

fn wide_table() -> Circuit {
    let mut builder = CircuitBuilder::new(1, 0);
    for i in 0..70_000 {
        builder.constraint(&[(0, Fr::from_u64(i))], &[], &[]).unwrap();
    }
    builder.finish().unwrap()
}

/// Gives a changed file the hashes, checksum and id that it would have had.
fn reseal(bytes: &mut [u8]) {
    let c = u64::from_le_bytes(bytes[72..80].try_into().unwrap());
    let sections = if c == u64::MAX { 7 } else { 10 };
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let counts = Counts {
        inputs: number(bytes, 24),
        aux: number(bytes, 32),
        constraints: number(bytes, 40),
        coefficients: number(bytes, 48),
        a: number(bytes, 56),
        b: number(bytes, 64),
        c: (c != u64::MAX).then_some(c),
    };
    if let Some(layout) = Layout::new(&counts) {
        let mut hashes = Vec::new();
        for (i, placed) in layout.sections.iter().enumerate() {
            let range = placed.offset as usize..(placed.offset + placed.length) as usize;
            if let Some(section) = bytes.get(range) {
                let hash = SectionHash::of(placed.section, section);
                hashes.push(hash);
                let at = layout::FIXED_BYTES + 64 * i + 24;
                bytes[at..at + 32].copy_from_slice(&hash.hash);
            }
        }
        bytes[88..120].copy_from_slice(&circuit_id(&counts, &hashes));
    }
    let end = layout::FIXED_BYTES + 64 * sections;
    let checksum = *blake3::hash(&bytes[..end]).as_bytes();
    bytes[end..end + 32].copy_from_slice(&checksum);
}

/// Section, offset and the other parts of a refusal.
fn malformed(result: Result<Circuit, FileError>) -> (&'static str, u64, &'static str, String, String) {
    match result {
        Err(FileError::Malformed { section, offset, what, found, wanted }) => {
            (section, offset, what, found, wanted)
        }
        Err(FileError::Io(error)) => panic!("{error}"),
        Ok(_) => panic!("opened"),
    }
}

#[test]
fn files_give_back_the_circuit() {
    let directory = Directory::new();
    for circuit in [sample(), without_c(), wide_table(), CircuitBuilder::new(1, 0).finish().unwrap()] {
        let bytes = directory.written(&circuit);
        let opened = directory.open(&bytes).unwrap();
        assert_eq!(opened.id(), circuit.id());
        assert_eq!(opened.counts(), circuit.counts());
        assert!(opened.sections().zip(circuit.sections()).all(|(x, y)| x == y));
        assert_eq!(directory.written(&opened), bytes, "a mapped circuit may replace its own file");
    }
}

#[test]
fn the_written_file_has_the_mode_of_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    write(&sample(), &directory.path()).unwrap();
    let other = directory.0.path().join("other");
    fs::write(&other, b"").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&directory.path()), mode(&other));
}

#[test]
fn a_file_of_empty_sections_is_refused_when_its_padding_is_cut() {
    let directory = Directory::new();
    let bytes = directory.written(&CircuitBuilder::new(1, 0).finish().unwrap());
    directory.open(&bytes).unwrap();
    for end in 0..bytes.len() {
        assert!(directory.open(&bytes[..end]).is_err(), "cut at {end} of {}", bytes.len());
    }
}

#[test]
fn every_prefix_is_refused_and_names_what_is_cut() {
    let directory = Directory::new();
    for circuit in [sample(), without_c()] {
        let bytes = directory.written(&circuit);
        let layout = Layout::new(&circuit.counts()).unwrap();
        for end in 0..bytes.len() {
            let (section, ..) = malformed(directory.open(&bytes[..end]));
            // The first section that does not end before the cut, padding before it included.
            let cut = layout.sections.iter().find(|p| p.length > 0 && p.offset + p.length > end as u64);
            let wanted = if (end as u64) < layout.header { "header" } else { cut.unwrap().section.name() };
            assert_eq!(section, wanted, "cut at {end}");
        }
        let last = bytes.len() - 1;
        let (section, offset, what, found, wanted) = malformed(directory.open(&bytes[..last]));
        let placed = *layout.sections.last().unwrap();
        assert_eq!((section, offset, what), (placed.section.name(), placed.offset, "the bytes there are"));
        assert_eq!((found, wanted), ((placed.length - 1).to_string(), placed.length.to_string()));
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let directory = Directory::new();
    for circuit in [sample(), without_c()] {
        let bytes = directory.written(&circuit);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(directory.open(&changed).is_err(), "byte {at}, bit {}", at % 8);
        }
    }
}

#[test]
fn trailing_bytes_are_refused() {
    let directory = Directory::new();
    let mut bytes = directory.written(&sample());
    let length = bytes.len() as u64;
    bytes.extend([0; 64]);
    let (section, offset, what, found, wanted) = malformed(directory.open(&bytes));
    assert_eq!((section, offset, what), ("end", length, "the bytes after the last section"));
    assert_eq!((found.as_str(), wanted.as_str()), ("64", "0"));
}

#[test]
fn headers_that_promise_something_else_are_refused() {
    let directory = Directory::new();
    let bytes = directory.written(&sample());
    // (field's offset, new value, what the refusal names)
    let numbers: [(usize, u64, &str); 15] = [
        (0, 0, "the magic"),
        (16, 1, "the file's length"),
        (24, 0, "the number of inputs"),
        (24, 1 << 40, "the number of auxiliary variables"),
        (32, u64::MAX, "the number of auxiliary variables"),
        (32, u32::MAX.into(), "the number of auxiliary variables"),
        (40, u64::MAX, "the sections' length"),
        (40, 1 << 60, "a section's length"),
        (48, 0, "the number of coefficients"),
        (48, u64::MAX, "the number of coefficients"),
        (56, u64::MAX, "the sections' length"),
        (56, 1 << 33, "a section's element size"),
        (64, 1 << 31, "a section's length"),
        (80, 9, "the number of sections"),
        (120, 1, "a reserved field"),
    ];
    for (at, value, wanted) in numbers {
        let mut changed = bytes.clone();
        changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
        reseal(&mut changed);
        let (_, offset, what, ..) = malformed(directory.open(&changed));
        assert_eq!(what, wanted, "{value} at byte {at}, found at {offset}");
    }
    for (at, value, wanted) in [(8, 2u32, "the version"), (12, 2, "the convention for input rows")] {
        let mut changed = bytes.clone();
        changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
        reseal(&mut changed);
        let (section, offset, what, found, _) = malformed(directory.open(&changed));
        assert_eq!((section, offset, what, found.as_str()), ("header", at as u64, wanted, "2"));
    }
}

/// What a resealed header promises must be there, whatever it promises, before anything is made of it.
#[test]
fn absurd_counts_allocate_nothing() {
    let directory = Directory::new();
    let counts = Counts {
        inputs: 1,
        aux: u64::from(u32::MAX) - 1,
        constraints: 1 << 50,
        coefficients: 1 << 32,
        a: 1 << 55,
        b: 1 << 55,
        c: Some(1 << 55),
    };
    let layout = Layout::new(&counts).unwrap();
    let hashes: Vec<SectionHash> =
        layout.sections.iter().map(|p| SectionHash { section: p.section, hash: [0; 32] }).collect();
    let mut bytes = layout::write_header(&counts, &layout, &hashes, [0; 32]);
    bytes.resize(4096, 0);
    let (section, _, what, found, wanted) = malformed(directory.open(&bytes));
    assert_eq!((section, what), ("coefficient table", "the bytes there are"));
    assert_eq!((found, wanted), ((4096 - layout.sections[0].offset).to_string(), (1u64 << 37).to_string()));
}

/// Content that no writer makes, under hashes that fit it.
#[test]
fn content_that_is_no_circuit_is_refused() {
    let directory = Directory::new();
    let circuit = sample();
    let bytes = directory.written(&circuit);
    let layout = Layout::new(&circuit.counts()).unwrap();
    let offset =
        |section| layout.sections.iter().find(|p| p.section == section).map(|p| p.offset as usize).unwrap();
    let table = offset(Section::Coefficients);
    let part = |name, part| offset(Section::Matrix(name, part));
    let (offsets, columns, indices) =
        (part('A', Part::Offsets), part('A', Part::Columns), part('A', Part::Indices));
    let value = |i: usize| bytes[table + 32 * i..table + 32 * (i + 1)].to_vec();
    let u32s = |values: &[u32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let swapped = [value(3), value(2)].concat();
    // A: rows [x: 5, y: -1], [w: 9], [ONE: 1], [x: 1].
    let cases: Vec<(usize, Vec<u8>, &str, usize, &str)> = vec![
        (table, value(1), "a coefficient", table, "1 in Montgomery form"),
        (table + 32, value(2), "a coefficient", table + 32, "-1 in Montgomery form"),
        (table + 64, vec![0xff; 32], "a coefficient", table + 64, "a value below r"),
        (table + 64, vec![0; 32], "a coefficient", table + 64, "none of 0, 1 and -1"),
        (table + 64, value(0), "a coefficient", table + 64, "none of 0, 1 and -1"),
        (table + 64, swapped, "a coefficient", table + 96, "one above its predecessor"),
        (table + 96, value(2), "a coefficient", table + 96, "one above its predecessor"),
        (offsets, u32s(&[1]), "a row's offset", offsets, "0"),
        (offsets + 8, u32s(&[1]), "a row's offset", offsets + 8, "at least 2"),
        (offsets + 16, u32s(&[6]), "the last row's end", offsets + 16, "5, the entries"),
        (columns, u32s(&[4]), "a column", columns, "one below 4"),
        (columns, u32s(&[2]), "a column", columns + 4, "at least 3: columns of a row ascend"),
        (columns, u32s(&[3]), "a column", columns + 4, "at least 4: columns of a row ascend"),
        (indices, vec![5, 0], "a coefficient's index", indices, "one below 5"),
        (indices + 6, vec![1, 0], "an input's row", columns + 12, "[(0, 0)]"),
        (columns + 16, u32s(&[2]), "an input's row", columns + 16, "[(1, 0)]"),
        (offsets + 12, u32s(&[3]), "an input's row", columns + 12, "[(0, 0)]"),
    ];
    for (at, new, what, wrong_at, wanted) in cases {
        let mut changed = bytes.clone();
        changed[at..at + new.len()].copy_from_slice(&new);
        assert_ne!(changed, bytes, "{what} at {at}: the case changes nothing");
        reseal(&mut changed);
        let (_, found_at, found_what, _, found_wanted) = malformed(directory.open(&changed));
        assert_eq!((found_what, found_at, found_wanted.as_str()), (what, wrong_at as u64, wanted));
    }
}

#[test]
fn coefficients_that_nobody_uses_are_refused() {
    let directory = Directory::new();
    let mut builder = CircuitBuilder::new(1, 0);
    builder.constraint(&[(0, Fr::from_u64(3))], &[], &[]).unwrap();
    let circuit = builder.finish().unwrap();
    let mut bytes = directory.written(&circuit);
    let layout = Layout::new(&circuit.counts()).unwrap();
    let indices = layout.sections.iter().find(|p| p.section == Section::Matrix('A', Part::Indices)).unwrap();
    bytes[indices.offset as usize] = 1;
    reseal(&mut bytes);
    let (section, _, what, found, wanted) = malformed(directory.open(&bytes));
    assert_eq!((section, what), ("coefficient table", "the uses of a coefficient"));
    assert_eq!((found.as_str(), wanted.as_str()), ("0", "at least 1"));
}

#[test]
fn what_is_no_file_is_an_error() {
    let directory = Directory::new();
    assert!(matches!(open(&directory.path()), Err(FileError::Io(_))));
    assert!(matches!(open(directory.0.path()), Err(FileError::Io(_))));
    assert_eq!(malformed(directory.open(b"")).0, "header");
}

proptest! {
    // Each case flushes files to the disk.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn opened_circuits_compute_alike((rows, z) in circuits()) {
        let directory = Directory::new();
        let made = circuit(&rows);
        write(&made, &directory.path()).unwrap();
        let opened = open(&directory.path()).unwrap();
        let cancel = &CancelToken::new();
        prop_assert_eq!(opened.id(), made.id());
        prop_assert_eq!(opened.first_unsatisfied(&z, cancel), made.first_unsatisfied(&z, cancel));
        prop_assert_eq!(opened.a_density(), made.a_density());
        let mut out = vec![Canonical::ZERO; opened.num_rows()];
        opened.a().evaluate(opened.coefficients(), &z, &mut out, &CancelToken::new()).unwrap();
        prop_assert_eq!(out, dense_product(&rows, 0, &z, opened.num_rows()));
    }

    #[test]
    fn damaged_files_are_refused(
        (rows, _) in circuits(),
        at in any::<prop::sample::Index>(),
        change in 1u8..,
        cut in any::<prop::sample::Index>(),
    ) {
        let directory = Directory::new();
        let bytes = directory.written(&circuit(&rows));
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= change;
        prop_assert!(directory.open(&changed).is_err());
        prop_assert!(directory.open(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn resealed_files_of_arbitrary_content_do_no_harm(
        (rows, z) in circuits(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let directory = Directory::new();
        let mut bytes = directory.written(&circuit(&rows));
        let length = bytes.len();
        for (at, value) in changes {
            // The content, not the header.
            let header = 128 + 64 * 10 + 32;
            bytes[header + at.index(length - header)] = value;
        }
        reseal(&mut bytes);
        if let Ok(opened) = directory.open(&bytes) {
            opened.first_unsatisfied(&z, &CancelToken::new()).unwrap();
            prop_assert_eq!(opened.b_density().len(), z.len());
        }
    }
}
