//! What every device must do: whole proofs, equal byte for byte to the CPU prover's. Run on the emulation and
//! on devices.
#[path = "../support/circuits.rs"]
pub mod circuits;

use crate::properties::{Backend, minus_one, scalars};
use circuits::{canonical, montgomery, packed};
use cuzk::{
    algebra::{CancelToken, Canonical, Curve, Fr, G1, G2, PointStore, TwoAdicRoot},
    formats::{bellman, iden3_wtns, zkey},
    gpu::{
        DeviceSlice, GpuError, Queue,
        msm_plan::MsmDevice,
        prover::{DeviceError, Loaded, ProofJob, ProofPlan},
    },
    groth16::{
        CpuProver, HBasis, PreparedVerifyingKey, Proof, ProvingKey, Query, Randomness, Stage, Timeline,
        setup::insecure_setup,
    },
    r1cs::{Circuit, CircuitBuilder, WitnessEncoding, WitnessError, decode_into},
};
use std::path::{Path, PathBuf};

/// A device with this much memory for keys and proofs, and so many multiprocessors.
#[derive(Clone, Copy)]
pub struct Size {
    pub memory: usize,
    pub multiprocessors: u32,
}

/// What is needed for a proof, whatever it proves.
pub struct Case {
    pub circuit: Circuit,
    pub key: ProvingKey,
    pub z: Vec<Canonical>,
}

fn fixed() -> Randomness {
    Randomness::fixed_for_tests(Fr::from_u64(0x1234_5678), -Fr::from_u64(0x9abc_def0))
}

impl Case {
    /// Rows with up to four entries over random variables; auxiliary values of one kind.
    pub fn random(num_inputs: usize, constraints: usize, values: &str) -> Self {
        let num_aux = if constraints == 0 { 0 } else { constraints + 3 };
        let mut z = vec![Canonical::ONE];
        z.extend(scalars(num_inputs - 1, 21));
        z.extend(match values {
            "random" => scalars(num_aux, 22),
            "zero" => vec![Canonical::ZERO; num_aux],
            "one" => vec![Canonical::ONE; num_aux],
            "r - 1" => vec![minus_one(); num_aux],
            other => panic!("no values {other}"),
        });
        let mut state = constraints as u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut builder = CircuitBuilder::new(num_inputs, num_aux);
        let value = |row: &[(u32, Fr)]| {
            row.iter().fold(Fr::ZERO, |sum, (i, c)| sum + *c * Fr::from_canonical(z[*i as usize]))
        };
        for row in 0..constraints {
            let mut terms = |most: usize| -> Vec<(u32, Fr)> {
                let mut terms: Vec<(u32, Fr)> = (0..next(most + 1))
                    .map(|_| (next(z.len()) as u32, Fr::from_u64(next(5) as u64 + 1)))
                    .collect();
                terms.sort_by_key(|(column, _)| *column);
                terms.dedup_by_key(|(column, _)| *column);
                terms
            };
            // One row of each matrix is long enough to be cut into segments.
            let (a, b) = (terms(if row == 0 { 60 } else { 4 }), terms(if row == 1 { 60 } else { 3 }));
            // C takes what no other row has, and makes up the rest with ONE.
            let mut c: Vec<(u32, Fr)> = (row..num_aux)
                .step_by(constraints)
                .map(|aux| ((num_inputs + aux) as u32, Fr::from_u64(3 + aux as u64)))
                .collect();
            c.push((0, value(&a) * value(&b) - value(&c)));
            builder.constraint(&a, &b, &c).unwrap();
        }
        let circuit = builder.finish().unwrap();
        assert_eq!(circuit.first_unsatisfied(&z), None);
        let key = insecure_setup(&circuit, [7; 32]).unwrap();
        Self { circuit, key, z }
    }

    /// The same under a key in snarkjs' form: h on the odd coset of the other root, full queries with points
    /// at infinity. Its points have nothing to do with the circuit, which no prover notices.
    pub fn in_snarkjs_form(mut self) -> Self {
        fn some<C: Curve>(count: usize) -> PointStore<C> {
            let mut point = C::to_projective(&C::generator());
            let mut points = Vec::new();
            for i in 0..count {
                points.push(if i % 5 == 3 { C::identity() } else { point });
                point = C::double(&point);
            }
            PointStore::Owned(C::batch_to_affine(&points))
        }
        let variables = self.circuit.num_variables();
        let key = &mut self.key;
        key.root = TwoAdicRoot::Five;
        key.h_basis = HBasis::CosetLagrange;
        key.h = some::<G1>(key.domain(&self.circuit).unwrap().size());
        key.a = Query::full(some::<G1>(variables));
        key.b_g1 = Query::full(some::<G1>(variables));
        key.b_g2 = Query::full(some::<G2>(variables));
        self
    }

    /// The key written to a file and opened there, so that its points are decoded on the device.
    pub fn in_bellman_form(self, directory: &Path) -> Self {
        let path = directory.join("key.params");
        bellman::write_params(&self.key, &path).unwrap();
        let key = bellman::open_params(&path, &self.circuit).unwrap();
        Self { key, ..self }
    }

    /// snarkjs' own key and witness of a circom circuit.
    pub fn circom() -> Self {
        let fixture = |name: &str| -> PathBuf {
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/circom").join(name)
        };
        let (key, circuit) = zkey::open(&fixture("merkle.zkey")).unwrap();
        Self { circuit, key, z: iden3_wtns::read(&fixture("merkle.wtns")).unwrap() }
    }

    pub fn cpu_proof(&self) -> Proof {
        let (never, mut timeline) = (CancelToken::new(), Timeline::new());
        CpuProver::prove(&self.circuit, &self.key, &self.z, fixed(), &never, &mut timeline, &mut |_| {})
            .unwrap()
    }

    pub fn load(&self, queue: &(impl Backend + Queue), size: Size) -> Result<Loaded, DeviceError> {
        let memory = queue.alloc::<u8>(size.memory);
        let never = CancelToken::new();
        // SAFETY: memory of the backend, for this alone.
        unsafe { Loaded::new(queue, memory, size.multiprocessors, &self.circuit, &self.key, &never) }
    }

    pub fn prove(
        &self,
        queue: &impl Queue,
        loaded: &Loaded,
        encoding: WitnessEncoding,
        witness: &[u8],
    ) -> Result<(Proof, Vec<Canonical>), DeviceError> {
        let mut told = Vec::new();
        let job = ProofJob {
            circuit: &self.circuit,
            key: &self.key,
            encoding,
            witness: &witness,
            randomness: fixed(),
            cancel: &CancelToken::new(),
            timeline: &mut Timeline::new(),
            on_stage: &mut |stage| told.push(stage),
        };
        // SAFETY: the case and the queue that loaded.
        let claim = unsafe { loaded.prove(queue, job) }?;
        assert_eq!((told.first(), told.last()), (Some(&Stage::Copy), Some(&Stage::Assemble)));
        Ok(claim)
    }

    /// A proof, compared with the CPU prover's.
    pub fn check(&self, queue: &(impl Backend + Queue), size: Size, name: &str) -> Loaded {
        let loaded = self.load(queue, size).unwrap();
        self.compare(queue, &loaded, WitnessEncoding::Canonical, &canonical(&self.z), name);
        loaded
    }

    fn compare(
        &self,
        queue: &impl Queue,
        loaded: &Loaded,
        encoding: WitnessEncoding,
        witness: &[u8],
        name: &str,
    ) {
        let wanted = (self.cpu_proof(), self.z[1..self.circuit.num_inputs()].to_vec());
        let found = self.prove(queue, loaded, encoding, witness).unwrap();
        assert!(found == wanted, "{name}, {encoding:?}");
    }

    /// That the key fits the circuit, and so the proof its verifier.
    pub fn check_verifies(&self) {
        let inputs = &self.z[1..self.circuit.num_inputs()];
        PreparedVerifyingKey::new(&self.key.vk).verify(&self.cpu_proof(), inputs).unwrap();
    }
}

/// Circuits of sizes around powers of two, under keys of both forms.
pub fn circuits(queue: &(impl Backend + Queue), size: Size, logs: &[u32]) {
    let one_row = Case::random(1, 0, "random").in_snarkjs_form();
    one_row.check(queue, size, "one row");
    for &log in logs {
        for rows in [(1 << log) - 1, 1 << log, (1 << log) + 1] {
            for num_inputs in if rows % 2 == 0 { [1] } else { [3] } {
                let case = Case::random(num_inputs, rows - num_inputs, "random");
                let name = format!("{rows} rows, {num_inputs} inputs");
                case.check_verifies();
                case.check(queue, size, &name);
                case.in_snarkjs_form().check(queue, size, &format!("{name}, snarkjs"));
            }
        }
    }
}

/// Witnesses that are alike in all values.
pub fn witnesses(queue: &(impl Backend + Queue), size: Size, rows: usize) {
    for values in ["zero", "one", "r - 1"] {
        let case = Case::random(2, rows - 2, values);
        case.check_verifies();
        case.check(queue, size, values);
        case.in_snarkjs_form().check(queue, size, values);
    }
}

/// snarkjs' own key.
pub fn circom(queue: &(impl Backend + Queue), size: Size) {
    let case = Case::circom();
    case.check_verifies();
    case.check(queue, size, "circom");
}

/// Arenas down to the least: points come in pieces and the proof stays the same; below it, a refusal.
pub fn less_and_less_memory(queue: &(impl Backend + Queue), size: Size, rows: usize) {
    let directory = tempfile::tempdir().unwrap();
    let filtered = Case::random(3, rows - 3, "random").in_bellman_form(directory.path());
    for case in [filtered, Case::random(3, rows - 3, "random").in_snarkjs_form()] {
        let full = case.check(queue, size, "all resident");
        assert_eq!(full.plan().streamed_bytes(), 0);
        let points = full.plan().pieces().iter().filter(|piece| piece.name.starts_with("points of"));
        let key_bytes: u64 = points.map(|piece| piece.bytes).sum();
        let mut memory = full.plan().num_bytes();
        let mut first_streaming = None;
        let least = loop {
            let device = MsmDevice { memory, multiprocessors: size.multiprocessors };
            match ProofPlan::new(full.plan().shape(), device) {
                Ok(plan) => {
                    assert!(plan.num_bytes() <= memory);
                    if plan.streamed_bytes() > 0 {
                        first_streaming.get_or_insert(plan.num_bytes() as usize);
                    }
                    memory = plan.num_bytes() - 256;
                }
                Err(GpuError::OutOfMemory { found, wanted, .. }) => {
                    assert!(found == memory && wanted > found, "{found}, {wanted}");
                    break memory as usize + 256;
                }
                Err(other) => panic!("{other}"),
            }
        };
        assert!(matches!(
            case.load(queue, Size { memory: least - 256, ..size }),
            Err(DeviceError::Gpu(GpuError::OutOfMemory { .. }))
        ));
        let some = case.check(queue, Size { memory: first_streaming.unwrap(), ..size }, "streamed");
        let least = case.check(queue, Size { memory: least, ..size }, "streamed in the least memory");
        let streamed = [some, least].map(|loaded| loaded.plan().streamed_bytes());
        assert!(0 < streamed[0] && streamed[0] <= streamed[1] && 2 * streamed[1] > key_bytes, "{streamed:?}");
    }
}

/// Bad values are named, and the next proofs, from every encoding, are none the worse.
pub fn refusals(queue: &(impl Backend + Queue), size: Size) {
    let case = Case::random(3, 10, "random");
    let loaded = case.check(queue, size, "before");
    let good = canonical(&case.z);
    let prove = |encoding, witness: &[u8]| match case.prove(queue, &loaded, encoding, witness) {
        Err(DeviceError::Witness(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a proof from a bad witness"),
    };
    for encoding in [WitnessEncoding::Canonical, WitnessEncoding::Montgomery] {
        let good = if encoding == WitnessEncoding::Canonical { good.clone() } else { montgomery(&case.z) };
        for bad in [&[12usize][..], &[5, 3], &[0], &[7, 0]] {
            let mut witness = good.clone();
            for i in bad {
                witness[32 * i..32 * i + 32].fill(0xff);
            }
            let index = *bad.iter().min().unwrap() as u64;
            assert_eq!(prove(encoding, &witness), WitnessError::NotCanonical { index });
        }
        let mut witness = good.clone();
        witness[0] ^= 1;
        witness[32 * 4..32 * 5].fill(0xff);
        assert_eq!(prove(encoding, &witness), WitnessError::FirstNotOne);
        let found = good.len() as u64 - 32;
        let error = prove(encoding, &good[..good.len() - 32]);
        assert_eq!(error, WitnessError::Length { found, wanted: found + 32 });
    }
    let mut packed_bad = packed(&case.z, case.circuit.num_inputs());
    let last = packed_bad.len() - 1;
    packed_bad[last] ^= 0xff;
    assert_eq!(prove(WitnessEncoding::Packed, &packed_bad), host_refusal(&case, &packed_bad));
    // z_0 follows the auxiliary variables, as a bit of the only block's second bitmap.
    let mut not_one = packed(&case.z, case.circuit.num_inputs());
    let num_aux = case.circuit.num_aux();
    assert!(case.z.len() <= 256);
    not_one[96 + 32 + num_aux / 8] ^= 1 << (num_aux % 8);
    assert_eq!(prove(WitnessEncoding::Packed, &not_one), WitnessError::FirstNotOne);
    for (encoding, witness) in [
        (WitnessEncoding::Canonical, good),
        (WitnessEncoding::Montgomery, montgomery(&case.z)),
        (WitnessEncoding::Packed, packed(&case.z, case.circuit.num_inputs())),
    ] {
        case.compare(queue, &loaded, encoding, &witness, "after");
    }
}

/// What the host's decoder says of a packed witness.
fn host_refusal(case: &Case, witness: &[u8]) -> WitnessError {
    let mut z = vec![Canonical::ZERO; case.z.len()];
    decode_into(WitnessEncoding::Packed, &witness, case.circuit.num_inputs(), &mut z).unwrap_err()
}

/// Nothing that follows from the witness is left, after a proof and after a refusal.
pub fn wiping(queue: &(impl Backend + Queue), size: Size) {
    let case = Case::random(2, 20, "random");
    let memory: DeviceSlice<u8> = queue.alloc(size.memory);
    let never = CancelToken::new();
    // SAFETY: memory of the backend, for this alone.
    let loaded =
        unsafe { Loaded::new(queue, memory, size.multiprocessors, &case.circuit, &case.key, &never) }
            .unwrap();
    let range = loaded.plan().resident_bytes() as usize..loaded.plan().num_bytes() as usize;
    let transient = memory.slice(range.clone()).unwrap();
    assert!(queue.read(transient).iter().any(|byte| *byte != 0));
    case.prove(queue, &loaded, WitnessEncoding::Canonical, &canonical(&case.z)).unwrap();
    assert!(queue.read(transient).iter().all(|byte| *byte == 0));
    let mut witness = canonical(&case.z);
    witness[32 * 9..32 * 10].fill(0xff);
    assert!(case.prove(queue, &loaded, WitnessEncoding::Canonical, &witness).is_err());
    assert!(queue.read(transient).iter().all(|byte| *byte == 0));
}

/// The same job, `times` over.
pub fn again_and_again(queue: &(impl Backend + Queue), size: Size, times: usize) {
    let case = Case::circom();
    let loaded = case.load(queue, size).unwrap();
    let (wanted, witness) = (case.cpu_proof(), canonical(&case.z));
    for time in 0..times {
        let (proof, _) = case.prove(queue, &loaded, WitnessEncoding::Canonical, &witness).unwrap();
        assert!(proof == wanted, "proof {time}");
    }
}
