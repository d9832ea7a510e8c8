//! Fresh keys, witnesses and verdicts of the `snarkjs` and `circom2` commands, which
//! `scripts/install-deps test` puts beside this file. Without them this test fails: nothing else says
//! that somebody other than us accepts our proofs from a `.zkey`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
use cuzk::{
    algebra::{CancelToken, Canonical},
    formats::{iden3_r1cs, iden3_wtns, snarkjs_json as json, validated::validate_key, zkey},
    groth16::{CpuProver, PreparedVerifyingKey, Proof, ProvingKey, Randomness, Timeline},
    r1cs::Circuit,
};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A directory in which the commands run.
struct Bench {
    directory: tempfile::TempDir,
}

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snarkjs")
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn output(&self, tool: &str, arguments: &str) -> Output {
        let program = here().join("node_modules/.bin").join(tool);
        let output =
            Command::new(&program).args(arguments.split(' ')).current_dir(self.directory.path()).output();
        output.unwrap_or_else(|e| panic!("{}: {e}; run scripts/install-deps test", program.display()))
    }

    fn run(&self, tool: &str, arguments: &str) {
        let output = self.output(tool, arguments);
        let said = [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
        assert!(output.status.success(), "{tool} {arguments}: {}\n{}", output.status, said.concat());
    }

    /// What `snarkjs groth16 verify` says.
    fn snarkjs_accepts(&self, vk: &str, public: &str, proof: &str) -> bool {
        let output = self.output("snarkjs", &format!("groth16 verify {vk} {public} {proof}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match (output.status.success(), said.contains("OK!"), said.contains("Invalid proof")) {
            (true, true, false) => true,
            (false, false, true) => false,
            _ => panic!("neither yes nor no: {}\n{said}", output.status),
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

fn open(path: &Path) -> (ProvingKey, Circuit) {
    let (key, circuit) = zkey::open(path).unwrap();
    key.check_circuit(&circuit).unwrap();
    validate_key(&key, None, &|_, _| {}).unwrap();
    (key, circuit)
}

fn prove(circuit: &Circuit, key: &ProvingKey, z: &[Canonical]) -> Proof {
    let randomness = Randomness::from_os().unwrap();
    CpuProver::prove(circuit, key, z, randomness, &CancelToken::new(), &mut Timeline::new(), &mut |_| {})
        .unwrap()
}

#[test]
fn snarkjs_command_accepts_our_proofs_from_its_fresh_keys() {
    let bench = Bench { directory: tempfile::tempdir().unwrap() };
    let circom = here().join("chain.circom");
    bench.run("circom2", &format!("{} --r1cs --wasm --prime bls12381 -o .", circom.display()));
    bench.run("snarkjs", "powersoftau new bls12-381 7 new.ptau");
    // Before any contribution tau is 1, a point of the domain: IC and H would be infinite.
    bench.run("snarkjs", "powersoftau contribute new.ptau contributed.ptau -e=entropy");
    bench.run("snarkjs", "powersoftau prepare phase2 contributed.ptau final.ptau");
    // setup and contribute write the sections in different orders.
    bench.run("snarkjs", "groth16 setup chain.r1cs final.ptau setup.zkey");
    bench.run("snarkjs", "zkey contribute setup.zkey contributed.zkey -e=entropy");
    bench.run("snarkjs", "zkey export verificationkey contributed.zkey contributed.vk.json");
    bench.write("input.json", r#"{"start": "3", "claim": "16"}"#);
    bench.run("snarkjs", "wtns calculate chain_js/chain.wasm input.json chain.wtns");

    let z = iden3_wtns::read(&bench.path("chain.wtns")).unwrap();
    let r1cs = iden3_r1cs::read(&bench.path("chain.r1cs")).unwrap();
    assert_eq!(r1cs.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
    let public = &z[1..r1cs.num_inputs()];
    bench.write("public.json", &json::public_to_json(public));

    // Under the contributed key, judged with snarkjs' verification key.
    let (key, circuit) = open(&bench.path("contributed.zkey"));
    let proof = prove(&circuit, &key, &z);
    bench.write("proof.json", &json::proof_to_json(&proof));
    assert!(bench.snarkjs_accepts("contributed.vk.json", "public.json", "proof.json"));
    let mut wrong = public.to_vec();
    wrong[1] += Canonical::ONE;
    bench.write("wrong.json", &json::public_to_json(&wrong));
    assert!(!bench.snarkjs_accepts("contributed.vk.json", "wrong.json", "proof.json"));

    // Under the first key, judged with the verification key that we write; the proof by the circuit of
    // the .r1cs, which is the zkey's with C.
    let (key, circuit) = open(&bench.path("setup.zkey"));
    assert_eq!(circuit.num_rows(), r1cs.num_rows());
    bench.write("setup.vk.json", &json::vk_to_json(&key.vk));
    bench.write("proof.json", &json::proof_to_json(&prove(&r1cs, &key, &z)));
    assert!(bench.snarkjs_accepts("setup.vk.json", "public.json", "proof.json"));

    // And snarkjs' proof is accepted by us.
    bench.run("snarkjs", "groth16 prove contributed.zkey chain.wtns theirs.json their-public.json");
    let vk = json::vk_from_json(&bench.read("contributed.vk.json")).unwrap();
    let theirs = json::proof_from_json(&bench.read("theirs.json")).unwrap();
    let their_public = json::public_from_json(&bench.read("their-public.json")).unwrap();
    assert_eq!(their_public, public);
    PreparedVerifyingKey::new(&vk).verify(&theirs, public).unwrap();
}
