//! The memory of validated keys.
use super::{Scratch, assert_refused, small, with};
use cuzk::{
    algebra::PointError,
    formats::{Defect, bellman, validated::validate_key},
};
use std::sync::Mutex;

#[test]
fn only_the_very_record_counts() {
    let (circuit, key) = small();
    let scratch = Scratch::new("key.params");
    bellman::write_params(&key, &scratch.path).unwrap();
    let bytes = std::fs::read(&scratch.path).unwrap();
    // A bad last point, which only a full validation notices.
    let last = bytes.len() - 192;
    let damaged = with(&bytes, last, &{
        let mut infinity = [0; 192];
        infinity[0] = 0x40;
        infinity
    });
    let damaged_file = Scratch::new("damaged.params");
    let good = bellman::open_params(&scratch.path, &circuit).unwrap();
    let bad = bellman::open_params(damaged_file.holding(&damaged), &circuit).unwrap();
    let memory = tempfile::tempdir().unwrap();
    let record = |id: [u8; 32]| memory.path().join(format!("{}.validated", blake3::Hash::from_bytes(id)));
    let refused = |what: &str| {
        let result = validate_key(&bad, Some(memory.path()), &|_, _| {});
        let index = bad.b_g2.points().len() as u64 - 1;
        let defect = Defect::Point { group: "G2", index, error: PointError::Infinity };
        assert_refused(what, result, "b_g2", last, defect);
    };
    refused("no record");
    assert!(!record(bad.id).exists());

    let steps = Mutex::new(Vec::new());
    let remember = |done, total| steps.lock().unwrap().push((done, total));
    validate_key(&good, Some(memory.path()), &remember).unwrap();
    let total = steps.lock().unwrap().last().unwrap().1;
    let points = good.h.len() + good.l.len() + good.a.points().len() + 2 * good.b_g2.points().len();
    assert_eq!(total, points as u64);
    assert_eq!(steps.lock().unwrap().first(), Some(&(0, total)));
    assert_eq!(steps.lock().unwrap().last(), Some(&(total, total)));
    // Remembered: nothing is read but the record.
    steps.lock().unwrap().clear();
    validate_key(&good, Some(memory.path()), &remember).unwrap();
    assert_eq!(*steps.lock().unwrap(), [(total, total)]);

    // Another content's record, a damaged one, one of other checks.
    let content = std::fs::read(record(good.id)).unwrap();
    std::fs::write(record(bad.id), &content).unwrap();
    refused("another key's record");
    let text = String::from_utf8(content.clone()).unwrap();
    let hex = |id| blake3::Hash::from_bytes(id).to_hex().to_string();
    let own = text.replace(&hex(good.id), &hex(bad.id));
    assert_ne!(own, text);
    for damaged in
        [own.replace("checks 1", "checks 0"), own.replace('\n', ""), own.clone() + "\n", String::new()]
    {
        assert_ne!(damaged, own);
        std::fs::write(record(bad.id), damaged).unwrap();
        refused("a damaged record");
    }
    // The very record is believed: that is what it is for.
    std::fs::write(record(bad.id), own).unwrap();
    validate_key(&bad, Some(memory.path()), &|_, _| {}).unwrap();

    // A directory that is not there is an error, after the validation.
    let error = validate_key(&good, Some(&memory.path().join("missing")), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}
