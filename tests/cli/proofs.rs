//! Proving without a daemon, and verifying, with the files of both worlds.
use crate::support::{changed, fixtures, line};
use std::fs;

const PROVE: &str = "prove --local --key-file merkle.zkey";

#[test]
fn verifies_what_snarkjs_proved() {
    for vk in ["merkle.verification_key.json", "merkle.zkey"] {
        let verify = format!("verify --vk {vk} --proof merkle.proof.json --public merkle.public.json");
        assert_eq!(line(&verify).ended(0).stdout, "verified\n");
        let document = line(&format!("{verify} --json")).ended(0).json();
        assert_eq!(document["verified"], true);
        assert_eq!(document["proofs"], 1);
    }
}

#[test]
fn outputs_destroy_neither_inputs_nor_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let copy = |name: &str| changed(directory.path(), name, |_| {}).display().to_string();
    let (key, witness) = (copy("merkle.zkey"), copy("merkle.wtns"));
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&witness, &link).unwrap();
    let prove = format!("prove --json --local --key-file {key} --witness {witness}");
    let same = directory.path().join("same").display().to_string();
    for outputs in [
        format!("--out {key}"),
        format!("--out {witness}"),
        format!("--public {}", link.display()),
        format!("--out {same} --public {}/./same", directory.path().display()),
    ] {
        let message = line(&format!("{prove} {outputs}")).failed(2, "usage");
        assert!(message.contains("would replace"), "{outputs}: {message}");
    }
    for name in ["merkle.zkey", "merkle.wtns"] {
        assert_eq!(fs::read(directory.path().join(name)).unwrap(), fs::read(fixtures().join(name)).unwrap());
    }
    let setup = format!("setup --json --insecure --circuit {} --out {same}", copy("merkle.r1cs"));
    line(&format!("{setup} --vk-out {same}")).failed(2, "usage");
    // What is written to and stays may be named twice.
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _reader = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    line(&format!("{prove} --out {0} --public {0}", fifo.display())).ended(0);
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&fs::metadata(&fifo).unwrap().file_type()));
}

#[test]
fn files_that_would_block_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fifo = fifo.display();
    for arguments in [
        format!("{PROVE} --witness {fifo}"),
        format!("prove --local --key-file {fifo} --witness merkle.wtns"),
        format!("verify --vk {fifo} --proof merkle.proof.json --public merkle.public.json"),
        format!("circuit show {fifo}"),
        format!("circuit add fifo --key {fifo} --dir {}", directory.path().display()),
    ] {
        let message = line(&format!("{arguments} --json")).failed(6, "file");
        assert!(message.contains("is a FIFO, wanted a regular file"), "{arguments}: {message}");
    }
}

#[test]
fn a_false_proof_ends_with_1_and_a_damaged_one_with_6() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let verify = |proof: &str, public: &str| {
        line(&format!("verify --json --vk merkle.zkey --proof {proof} --public {public}"))
    };
    let public = fs::read_to_string(fixtures().join("merkle.public.json")).unwrap();
    let mut inputs: Vec<String> = serde_json::from_str(&public).unwrap();
    inputs.swap(0, 1);
    fs::write(path("swapped.json"), serde_json::to_string(&inputs).unwrap()).unwrap();
    let run = verify("merkle.proof.json", &path("swapped.json")).ended(1).json();
    assert_eq!((&run["verified"], &run["first_rejected"]), (&false.into(), &0.into()));

    inputs.push("1".into());
    fs::write(path("three.json"), serde_json::to_string(&inputs).unwrap()).unwrap();
    let message = verify("merkle.proof.json", &path("three.json")).failed(6, "file");
    assert!(message.contains('3') && message.contains('2'), "{message}");

    for (name, content) in [
        ("empty", ""),
        ("cut", "{\"pi_a\": [\"1\""),
        ("number", "7"),
        ("array", "[1, 2]"),
        (
            "point",
            "{\"pi_a\":[\"1\",\"1\",\"1\"],\"pi_b\":[[\"1\",\"0\"],[\"1\",\"0\"],[\"1\",\"0\"]],\"pi_c\":[\"1\",\"1\",\"1\"]}",
        ),
    ] {
        fs::write(path(name), content).unwrap();
        let message = verify(&path(name), "merkle.public.json").failed(6, "file");
        assert!(message.contains(name), "{message}");
        if name != "empty" {
            let message = verify("merkle.proof.json", &path(name)).failed(6, "file");
            assert!(message.contains(name), "{message}");
        }
        let vk = format!(
            "verify --json --vk {} --proof merkle.proof.json --public merkle.public.json",
            path(name)
        );
        line(&vk).failed(6, "file");
    }
    for length in [191, 193, 383] {
        fs::write(path("binary"), vec![0xc0; length]).unwrap();
        let message = verify(&path("binary"), "merkle.public.json").failed(6, "file");
        assert!(message.contains(&length.to_string()), "{message}");
    }
    fs::write(path("binary"), [0xff; 192]).unwrap();
    verify(&path("binary"), "merkle.public.json").failed(6, "file");
    verify("/nonexistent", "merkle.public.json").failed(6, "file");
}

#[test]
fn proves_locally_in_both_encodings() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for proof in [path("proof.json"), path("proof.bin")] {
        let public = path("public.json");
        let files = format!("--out {proof} --public {public}");
        let run = line(&format!("{PROVE} --witness merkle.wtns {files} --json")).ended(0).json();
        assert_eq!(run["backend"], "cpu");
        assert_eq!(run["proofs"][0]["proof"].as_str().unwrap().len(), 384);
        let stages = run["proofs"][0]["timeline"].as_array().unwrap();
        assert!(stages.iter().any(|s| s["stage"] == "verify" && s["duration_ns"].as_u64() > Some(0)));
        let published: Vec<String> = serde_json::from_str(&fs::read_to_string(&public).unwrap()).unwrap();
        let expected = fs::read_to_string(fixtures().join("merkle.public.json")).unwrap();
        assert_eq!(published, serde_json::from_str::<Vec<String>>(&expected).unwrap());
        assert_eq!(run["proofs"][0]["public_inputs"], serde_json::json!(published));
        line(&format!("verify --vk merkle.verification_key.json --proof {proof} --public {public}")).ended(0);
    }
    assert_eq!(fs::read(path("proof.bin")).unwrap().len(), 192);
    // Without --out the proof is printed, and no two are the same.
    let print = || line(&format!("{PROVE} --witness merkle.wtns")).ended(0).stdout;
    let (first, second) = (print(), print());
    let proof = |text: &str| text.lines().find(|l| l.len() == 384).map(str::to_owned);
    assert!(proof(&first).is_some() && proof(&first) != proof(&second), "{first}{second}");
}

#[test]
fn several_witnesses_are_several_proofs_in_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for proof in [path("proofs.json"), path("proofs.bin")] {
        let public = path("publics.json");
        let files = format!("--out {proof} --public {public}");
        line(&format!("{PROVE} --witness merkle.wtns --witness merkle.wtns {files}")).ended(0);
        let verify = format!("verify --vk merkle.zkey --proof {proof} --json");
        let run = line(&format!("{verify} --public {public}")).ended(0).json();
        assert_eq!(run["proofs"], 2);
        let message = line(&format!("{verify} --public merkle.public.json")).failed(6, "file");
        assert!(message.contains("of 1 proofs") && message.contains("holds 2"), "{message}");
    }
    assert_eq!(fs::read(path("proofs.bin")).unwrap().len(), 384);
}

#[test]
fn a_witness_that_is_none_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let wrong = changed(directory.path(), "merkle.wtns", |bytes| bytes[76 + 1681 * 32] ^= 1);
    let wrong = wrong.to_str().unwrap();
    let message = line(&format!("{PROVE} --json --witness {wrong}")).failed(1, "unsatisfied");
    assert!(message.contains(wrong), "{message}");
    let message = line(&format!("{PROVE} --json --circuit-file merkle.r1cs --witness {wrong}"));
    let message = message.failed(1, "unsatisfied");
    assert!(message.contains("constraint "), "{message}");
    // Not below r, and cut.
    changed(directory.path(), "merkle.wtns", |bytes| bytes[76 + 32..76 + 64].fill(0xff));
    let message = line(&format!("{PROVE} --json --witness {wrong}")).failed(6, "file");
    assert!(message.contains("scalar 1"), "{message}");
    changed(directory.path(), "merkle.wtns", |bytes| bytes.truncate(bytes.len() - 16));
    line(&format!("{PROVE} --json --witness {wrong}")).failed(6, "file");
}

#[test]
fn validated_keys_are_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let remember = directory.path().to_str().unwrap();
    let prove = format!("{PROVE} --witness merkle.wtns --validated {remember}");
    line(&prove).ended(0);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    line(&prove).ended(0);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
