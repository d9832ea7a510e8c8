//! Circuits and keys on disk: show, check, add, and the insecure setup.
use crate::support::{changed, cuzk, fixtures, line};
use std::{fs, path::Path};

#[test]
fn show_tells_counts_and_densities() {
    let run = line("circuit show merkle.zkey --json").ended(0).json();
    let circuit = &run["circuit"];
    for (field, value) in [("constraints", 1677), ("rows", 1680), ("public_inputs", 2), ("auxiliary", 1679)] {
        assert_eq!(circuit[field], value, "{field}");
    }
    // formats.md of iden3 and the file itself: 806 of 1,682 points of A are at infinity.
    assert_eq!(circuit["a"]["columns"], 876);
    assert_eq!(circuit["c"], serde_json::Value::Null);
    assert_eq!(run["key"]["points"]["h"], 2048);

    let from_r1cs = line("circuit show merkle.r1cs --json").ended(0).json();
    assert_eq!(from_r1cs["key"], serde_json::Value::Null);
    assert_eq!(from_r1cs["circuit"]["a"], circuit["a"]);
    assert_eq!(from_r1cs["circuit"]["b"], circuit["b"]);
    assert!(from_r1cs["circuit"]["c"]["entries"].as_u64() > Some(0));
    let text = line("circuit show merkle.r1cs --key merkle.zkey").ended(0).stdout;
    for part in ["1677", "2048", circuit["a"]["entries"].to_string().as_str(), "matrix C"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn check_accepts_what_belongs_together() {
    let run = line("circuit check merkle.zkey merkle.r1cs --witness merkle.wtns --json").ended(0).json();
    assert_eq!(run["ok"], true);
    assert_eq!(run["witnesses"][0]["satisfied"], true);
    let text = line("circuit check merkle.r1cs --witness merkle.wtns").ended(0).stdout;
    assert!(text.contains("satisfies the circuit"), "{text}");
    // Without C nothing can be said of a witness.
    let run = line("circuit check merkle.zkey --witness merkle.wtns --json").ended(0).json();
    assert_eq!(run["witnesses"][0]["satisfied"], serde_json::Value::Null);
}

#[test]
fn check_names_the_first_unsatisfied_constraint() {
    let directory = tempfile::tempdir().unwrap();
    // The last value; 76 bytes stand before the first one.
    let wrong = changed(directory.path(), "merkle.wtns", |bytes| bytes[76 + 1681 * 32] ^= 1);
    let wrong = wrong.to_str().unwrap();
    let run = line(&format!("circuit check merkle.r1cs --witness merkle.wtns --witness {wrong} --json"));
    let run = run.ended(1).json();
    assert_eq!(run["ok"], false);
    assert_eq!(run["witnesses"][0]["satisfied"], true);
    let row = run["witnesses"][1]["first_unsatisfied"].as_u64().unwrap();
    assert!(row < 1677, "{row}");
    let text = line(&format!("circuit check merkle.r1cs --witness {wrong}")).ended(1).stdout;
    assert!(text.contains(&format!("constraint {row} is not satisfied")), "{text}");
}

#[test]
fn check_tells_damage_from_disagreement() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    changed(directory.path(), "merkle.zkey", |bytes| bytes.truncate(bytes.len() - 7));
    let message = line(&format!("circuit check {} --json", path("merkle.zkey"))).failed(6, "file");
    assert!(message.contains("merkle.zkey"), "{message}");

    // A point of the last section that is read, off the curve.
    changed(directory.path(), "merkle.zkey", |bytes| {
        let original = bytes.clone();
        let needle = original.windows(96).rposition(|w| w.iter().all(|b| *b == 0)).unwrap();
        bytes[needle] = 1;
    });
    line(&format!("circuit check {} --json", path("merkle.zkey"))).failed(6, "file");

    // One coefficient of the circuit differs from the key's.
    changed(directory.path(), "merkle.r1cs", |_| {});
    let other = other_circuit(directory.path());
    let message = line(&format!("circuit check merkle.zkey {other} --json")).failed(1, "mismatch");
    assert!(message.contains("other.r1cs"), "{message}");
    line("circuit check /nonexistent --json").failed(6, "file");
    line("circuit check merkle.zkey --witness /nonexistent --json").failed(6, "file");
    line(&format!("circuit check merkle.zkey --witness {} --json", path("merkle.r1cs"))).failed(6, "file");
}

/// An r1cs file whose first coefficient is another, as a path.
fn other_circuit(directory: &Path) -> String {
    let mut bytes = fs::read(fixtures().join("merkle.r1cs")).unwrap();
    let constraints = constraints_section(&bytes);
    // Section: u32 number of terms of A, then u32 wire and 32 bytes of coefficient.
    // Its highest byte, so that it stays below r, which begins with 0x73.
    bytes[constraints + 8 + 31] ^= 0x40;
    let path = directory.join("other.r1cs");
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Where the bytes of section 2 begin.
fn constraints_section(bytes: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 12;
    loop {
        let length = u64::from_le_bytes(bytes[at + 4..at + 12].try_into().unwrap());
        if word(at) == 2 {
            return at + 12;
        }
        at += 12 + length as usize;
    }
}

#[test]
fn setup_says_that_it_is_insecure_and_makes_a_usable_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (key, vk, json, again) = (path("k.params"), path("k.vk"), path("vk.json"), path("again.params"));
    let seed = "5e".repeat(32);
    let run = line(&format!(
        "setup --insecure --circuit merkle.r1cs --out {key} --vk-out {vk} --seed {seed} --json"
    ))
    .ended(0);
    assert!(run.stderr.contains("INSECURE"), "{run:?}");
    assert_eq!(run.json()["insecure"], true);
    line(&format!("setup --insecure --circuit merkle.r1cs --out {again} --vk-out {json} --seed {seed}"))
        .ended(0);
    assert_eq!(fs::read(&key).unwrap(), fs::read(&again).unwrap(), "the same seed is the same key");
    line(&format!("setup --insecure --circuit merkle.r1cs --out {again}")).ended(0);
    assert_ne!(fs::read(&key).unwrap(), fs::read(&again).unwrap(), "without a seed it is another key");
    line(&format!("circuit check {key} merkle.r1cs")).ended(0);

    let (proof, public) = (path("p.bin"), path("public.json"));
    let files = format!("--out {proof} --public {public}");
    line(&format!("prove --local --key-file {key} --circuit-file merkle.r1cs --witness merkle.wtns {files}"))
        .ended(0);
    for vk in [&key, &vk, &json] {
        line(&format!("verify --vk {vk} --proof {proof} --public {public}")).ended(0);
    }
    line(&format!("verify --vk {again} --proof {proof} --public {public}")).ended(1);
    // A key of one circuit with another one of the same shape in file, but not in rows.
    line(&format!("setup --insecure --circuit merkle.zkey --out {again} --json")).failed(6, "file");
    line("setup --insecure --circuit merkle.r1cs --out /nonexistent/k --json").failed(6, "file");
}

#[test]
fn add_defines_a_circuit_once() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let run = line(&format!("circuit add merkle --key merkle.zkey --dir {dir} --json")).ended(0).json();
    let path = directory.path().join("merkle.toml");
    assert_eq!(run["definition"], path.to_str().unwrap());
    assert_eq!(run["preload"], true);
    let text = fs::read_to_string(&path).unwrap();
    let absolute = fixtures().canonicalize().unwrap().join("merkle.zkey");
    assert!(text.contains(absolute.to_str().unwrap()), "{text}");

    line(&format!("circuit add merkle --key merkle.zkey --dir {dir} --json")).failed(1, "exists");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let flags = "--circuit merkle.r1cs --no-preload --force";
    let run = line(&format!("circuit add merkle --key merkle.zkey --dir {dir} {flags}")).ended(0);
    assert!(run.stdout.contains("systemctl reload cuzk"), "{run:?}");
    let replaced = fs::read_to_string(&path).unwrap();
    assert!(replaced.contains("preload = false") && replaced.contains("merkle.r1cs"), "{replaced}");
    // What was written is what show and check read.
    let path = path.to_str().unwrap();
    line(&format!("circuit show {path}")).ended(0);
    line(&format!("circuit check {path} --witness merkle.wtns")).ended(0);
    line(&format!("circuit check {path} merkle.r1cs --json")).failed(2, "usage");
}

#[test]
fn add_writes_nothing_for_what_is_not_good() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("circuits");
    fs::create_dir(&dir).unwrap();
    let cut = changed(directory.path(), "merkle.zkey", |bytes| bytes.truncate(1 << 20));
    let add = |name: &str, rest: &[&str]| {
        let mut arguments = vec!["circuit", "add", name, "--json", "--dir", dir.to_str().unwrap(), "--key"];
        arguments.extend(rest);
        cuzk(arguments)
    };
    add("m", &[cut.to_str().unwrap()]).failed(6, "file");
    add("m", &["/nonexistent"]).failed(6, "file");
    add("m", &["merkle.zkey", "--circuit", "merkle.wtns"]).failed(6, "file");
    add("m", &["merkle.zkey", "--circuit", &other_circuit(directory.path())]).failed(1, "mismatch");
    add("a/b", &["merkle.zkey"]).failed(2, "usage");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn plan_tells_every_piece() {
    let run = line("plan merkle.zkey --vram 8GiB --memory 1GiB --json").ended(0).json();
    let (host, device) = (&run["host"], &run["device"]);
    let sum = |part: &serde_json::Value, wanted: &dyn Fn(&str) -> bool| -> u64 {
        let pieces = part["pieces"].as_array().unwrap().iter();
        let pieces = pieces.filter(|piece| wanted(piece["tier"].as_str().unwrap()));
        pieces.map(|piece| piece["bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!(host["bytes"], sum(host, &|_| true));
    let key = fs::metadata(fixtures().join("merkle.zkey")).unwrap().len();
    assert_eq!(sum(host, &|tier| tier == "mapped"), key);
    // 1, two public inputs, 1679 auxiliary values, in the whole pages that the daemon's budget is charged.
    assert_eq!(sum(host, &|tier| tier == "leased"), (32u64 * 1682).next_multiple_of(4096));
    assert_eq!(device["resident_bytes"], sum(device, &|tier| tier == "resident"));
    assert_eq!((&device["streamed_bytes"], &device["memory"]), (&0.into(), &(8u64 << 30).into()));
    assert!(device["bytes"].as_u64() > device["resident_bytes"].as_u64());

    // In little memory, the key comes anew for each proof.
    let little = line("plan merkle.zkey --vram 17MiB --json").ended(0).json();
    assert_eq!(little["device"]["streamed_bytes"], sum(&little["device"], &|tier| tier == "streamed"));
    assert!(little["device"]["streamed_bytes"].as_u64() > Some(0));
    assert!(little["device"]["bytes"].as_u64() <= Some(17 << 20));

    // With the daemon's names, and for the CPU.
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().display();
    line(&format!("circuit add merkle --key merkle.zkey --dir {dir}")).ended(0);
    let named = line(&format!("plan merkle --dir {dir} --threads 2 --json")).ended(0).json();
    assert_eq!(named["device"], serde_json::Value::Null);
    let more = line(&format!("plan merkle --dir {dir} --threads 3 --json")).ended(0).json();
    assert_eq!(more["host"]["bytes"].as_u64().unwrap() - named["host"]["bytes"].as_u64().unwrap(), 1 << 20);
    let text = line("plan merkle.r1cs --key merkle.zkey --vram 8GiB").ended(0).stdout;
    for part in ["proving key", "points of h", "roots of unity", "resident", "transient", "MiB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn plan_refuses_what_does_not_fit_with_the_figures() {
    let device = line("plan merkle.zkey --vram 10MiB --json").failed(1, "memory");
    assert!(device.contains("circuit merkle.zkey") && device.contains("the device has 10485760"), "{device}");
    let host = line("plan merkle.zkey --memory 1MiB --json").failed(1, "memory");
    assert!(host.contains("bytes of host memory") && host.contains("1048576"), "{host}");
    for (arguments, status, code) in [
        ("plan merkle.r1cs --json", 2, "usage"),
        ("plan merkle.zkey --vram 16 --json", 2, "usage"),
        ("plan merkle.zkey --vram 1GiB --multiprocessors 0 --json", 2, "usage"),
        ("plan nothing --json", 6, "file"),
        ("plan ../nothing --json", 6, "file"),
    ] {
        line(arguments).failed(status, code);
    }
}
