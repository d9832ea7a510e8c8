//! The promises of docs/SPECIFICATION.md are numbered without a gap, and every one names tests that there are.
use std::{fs, path::Path};

#[test]
fn every_promise_names_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/SPECIFICATION.md")).unwrap();
    let (mut promises, mut held) = (0, 0);
    for line in text.lines() {
        if let Some((number, _)) = line.split_once(". ").filter(|(n, _)| n.parse::<u32>().is_ok()) {
            assert!(promises == 0 || held > 0, "promise {promises} has no test");
            promises += 1;
            held = 0;
            assert_eq!(number, promises.to_string());
        }
        for named in line.split('`').skip(1).step_by(2).filter(|named| named.contains(".rs::")) {
            let (file, function) = named.split_once("::").unwrap();
            let code = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let (before, _) = code
                .split_once(&format!("fn {function}("))
                .unwrap_or_else(|| panic!("promise {promises}: {file} has no {function}"));
            let attributes = before.rsplit("\n\n").next().unwrap();
            let is_test =
                ["#[test]", "#[tokio::test]", "#[tokio::test("].iter().any(|a| attributes.contains(a));
            assert!(is_test, "promise {promises}: {function} is no test");
            held += 1;
        }
    }
    assert!(promises > 20 && held > 0);
}
