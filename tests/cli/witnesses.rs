//! A bad witness gets the same answer through the daemon and from `cuzk prove --local`.
use crate::{
    service::{ask, serving},
    support::{changed, line},
};

/// Where the number of values stands in a .wtns, where its second section's length, and its values.
const NUMBER: usize = 60;
const LENGTH: usize = 68;
const VALUES: usize = 76;
/// The fixture's values.
const COUNT: usize = 1682;

/// r, little-endian.
const MODULUS: [u8; 32] = [
    0x01, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x5b, 0xfe, 0xff, 0x02, 0xa4, 0xbd, 0x53, 0x05,
    0xd8, 0xa1, 0x09, 0x08, 0xd8, 0x39, 0x33, 0x48, 0x7d, 0x9d, 0x29, 0x53, 0xa7, 0xed, 0x73,
];

/// Gives the file another number of values.
fn resize(bytes: &mut Vec<u8>, count: usize) {
    bytes.resize(VALUES + 32 * count, 0);
    bytes[NUMBER..NUMBER + 4].copy_from_slice(&(count as u32).to_le_bytes());
    bytes[LENGTH..LENGTH + 8].copy_from_slice(&(32 * count as u64).to_le_bytes());
}

#[test]
fn daemon_and_local_prover_answer_alike() {
    let daemon = serving();
    let directory = tempfile::tempdir().unwrap();
    type Change = fn(&mut Vec<u8>);
    // What is wrong, the exit status and code, and what the message says.
    let cases: [(&str, Change, (i32, &str), &str); 10] = [
        ("the first value is 2", |b| b[VALUES] = 2, (6, "file"), "byte 76: value 0 is "),
        ("the first value is 0", |b| b[VALUES] = 0, (6, "file"), "byte 76: value 0 is "),
        (
            "one value too many",
            |b| resize(b, COUNT + 1),
            (6, "file"),
            "byte 60: the number of values is 1683, wanted 1682",
        ),
        (
            "one value too few",
            |b| resize(b, COUNT - 1),
            (6, "file"),
            "byte 60: the number of values is 1681, wanted 1682",
        ),
        ("no value", |b| resize(b, 0), (6, "file"), "byte 60: the number of values is 0, wanted"),
        (
            "a value is r",
            |b| b[VALUES + 64..VALUES + 96].copy_from_slice(&MODULUS),
            (6, "file"),
            "byte 140: scalar 2 is ",
        ),
        (
            "the last value is 2^256 - 1",
            |b| b[VALUES + 32 * (COUNT - 1)..].fill(0xff),
            (6, "file"),
            "scalar 1681 is ",
        ),
        (
            "cut",
            |b| b.truncate(VALUES + 32 * COUNT - 16),
            (6, "file"),
            "byte 76: 53808 bytes are left, wanted 53824",
        ),
        (
            "the last value is another",
            |b| b[VALUES + 32 * (COUNT - 1)] ^= 1,
            (1, "unsatisfied"),
            "constraint ",
        ),
        ("a public input is another", |b| b[VALUES + 32] ^= 1, (1, "unsatisfied"), "constraint "),
    ];
    for (what, change, (status, code), message) in cases {
        let witness = changed(directory.path(), "merkle.wtns", change);
        let witness = format!("--json --witness {}", witness.display());
        let local = format!("prove --local --key-file merkle.zkey --circuit-file merkle.r1cs {witness}");
        let local = line(&local).failed(status, code);
        let through = ask(&daemon, &format!("prove merkle {witness}")).failed(status, code);
        assert!(local.contains(message) && through.contains(message), "{what}: {local}\n{through}");
        match code {
            "file" => assert_eq!(local, through, "{what}"),
            // The daemon tells the job, the local prover the file; both the constraint.
            _ => assert_eq!(constraint(&local), constraint(&through), "{what}"),
        }
    }
    ask(&daemon, "prove merkle --witness merkle.wtns").ended(0);
}

/// The constraint that a message names.
fn constraint(message: &str) -> Option<u64> {
    let number: String =
        message.split_once("constraint ")?.1.chars().take_while(char::is_ascii_digit).collect();
    number.parse().ok()
}
