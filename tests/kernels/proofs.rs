//! What every device must do: whole proofs, equal byte for byte to the CPU prover's. Run on the emulation and
//! on devices.
#[path = "../support/circuits.rs"]
pub mod circuits;
#[path = "../support/fixtures.rs"]
mod fixtures;

use crate::properties::{Backend, minus_one, scalars};
use circuits::{canonical, montgomery, packed};
use cuzk::{
    algebra::{CancelToken, Canonical, Curve, Fr, G1, G2, PointStore, TwoAdicRoot},
    formats::{bellman, iden3_wtns, zkey},
    gpu::{
        DeviceSlice, GpuError, Queue,
        msm_plan::MsmDevice,
        msm_sort::Windows,
        prover::{
            ContentIds, DeviceError, DeviceProver, KnownAnswer, KnownAnswerError, LoadPlan, Loaded,
            MULTIPLES, ProofJob, ProofPlan, Residence, Tables, Upload,
        },
    },
    groth16::{
        CpuProver, HBasis, PreparedVerifyingKey, Proof, ProvingKey, Query, Randomness, Stage, Timeline,
        setup::insecure_setup,
    },
    r1cs::{Circuit, CircuitBuilder, WitnessEncoding, WitnessError, decode_into},
};
use fixtures::fixture;
use std::{path::Path, ptr::NonNull, sync::OnceLock};

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
    /// The CPU prover's proof, once it was asked for.
    cpu: OnceLock<Proof>,
}

pub fn fixed() -> Randomness {
    Randomness::fixed_for_tests(Fr::from_u64(0x1234_5678), -Fr::from_u64(0x9abc_def0))
}

impl Case {
    pub fn new(circuit: Circuit, key: ProvingKey, z: Vec<Canonical>) -> Self {
        Self { circuit, key, z, cpu: OnceLock::new() }
    }

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
        assert_eq!(circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
        let key = insecure_setup(&circuit, [7; 32]).unwrap();
        Self::new(circuit, key, z)
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
        Self::new(self.circuit, self.key, self.z)
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
        let (key, circuit) = zkey::open(&fixture("circom/merkle.zkey")).unwrap();
        Self::new(circuit, key, iden3_wtns::read(&fixture("circom/merkle.wtns")).unwrap())
    }

    pub fn cpu_proof(&self) -> Proof {
        *self.cpu.get_or_init(|| {
            let (never, mut timeline) = (CancelToken::new(), Timeline::new());
            CpuProver::prove(&self.circuit, &self.key, &self.z, fixed(), &never, &mut timeline, &mut |_| {})
                .unwrap()
        })
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
        self.job(encoding, witness, Upload::Staged(&mut [0; 1000]), |job| {
            // SAFETY: the case and the queue that loaded.
            unsafe { loaded.prove(queue, job) }
        })
    }

    /// Has a job done, which has to begin and to end with the right stages.
    fn job<T>(
        &self,
        encoding: WitnessEncoding,
        witness: &[u8],
        upload: Upload<'_>,
        prove: impl FnOnce(ProofJob<'_>) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let mut told = Vec::new();
        let claim = prove(ProofJob {
            circuit: &self.circuit,
            key: &self.key,
            encoding,
            witness: &witness,
            upload,
            randomness: fixed(),
            cancel: &CancelToken::new(),
            timeline: &mut Timeline::new(),
            on_stage: &mut |stage| told.push(stage),
        })?;
        // A prover of several circuits may have to load the key first.
        let told = told.strip_prefix(&[Stage::Key]).unwrap_or(&told);
        assert_eq!((told.first(), told.last()), (Some(&Stage::Copy), Some(&Stage::Assemble)));
        assert_eq!(told[told.len() - 2], Stage::Wipe);
        Ok(claim)
    }

    fn ids(&self) -> ContentIds {
        ContentIds { circuit: self.circuit.id(), key: self.key.id }
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
                queue.scope(|| {
                    case.check(queue, size, &name);
                    case.in_snarkjs_form().check(queue, size, &format!("{name}, snarkjs"));
                });
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

/// Arenas down to the least, with keys of both forms.
pub fn less_and_less_memory(queue: &(impl Backend + Queue), size: Size, rows: usize) {
    let directory = tempfile::tempdir().unwrap();
    let case = Case::random(3, rows - 3, "random").in_bellman_form(directory.path());
    queue.scope(|| less_and_less_memory_for(&case, queue, size));
    less_and_less_memory_for(&case.in_snarkjs_form(), queue, size);
}

/// Points come in pieces and the proof stays the same; below the least memory, a refusal.
fn less_and_less_memory_for(case: &Case, queue: &(impl Backend + Queue), size: Size) {
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
    // The matrices too come in pieces, and the witness comes twice.
    assert!(least.plan().pieces().iter().any(|piece| piece.name == "matrices"));
    let streamed = [some, least].map(|loaded| loaded.plan().streamed_bytes());
    assert!(0 < streamed[0] && streamed[0] <= streamed[1] && 2 * streamed[1] > key_bytes, "{streamed:?}");
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

/// A witness reaches the device in any pieces, or from a mapping.
pub fn uploads(queue: &(impl Backend + Queue), size: Size) {
    let case = Case::random(2, 12, "random");
    let loaded = case.check(queue, size, "staged");
    let wanted = case.cpu_proof();
    for (encoding, witness) in [
        (WitnessEncoding::Canonical, canonical(&case.z)),
        (WitnessEncoding::Montgomery, montgomery(&case.z)),
        (WitnessEncoding::Packed, packed(&case.z, case.circuit.num_inputs())),
    ] {
        let mapped = NonNull::from(&witness[..]).cast();
        let [mut one, mut odd, mut all] = [vec![1; 32], vec![1; 33], vec![1; 1 << 12]];
        for upload in [
            Upload::Direct(mapped),
            Upload::Staged(&mut one),
            Upload::Staged(&mut odd),
            Upload::Staged(&mut all),
        ] {
            // SAFETY: the case and the queue that loaded; the witness is alive.
            let made = case.job(encoding, &witness, upload, |job| unsafe { loaded.prove(queue, job) });
            assert!(made.unwrap().0 == wanted, "{encoding:?}");
        }
        // What was staged is wiped.
        assert!(one.iter().chain(&odd).all(|byte| *byte == 0));
        let mut small = [0; 31];
        let small = Upload::Staged(&mut small);
        // SAFETY: as above.
        let refused = case.job(encoding, &witness, small, |job| unsafe { loaded.prove(queue, job) });
        assert!(matches!(refused, Err(DeviceError::Gpu(GpuError::Length { wanted: 32, .. }))));
    }
}

/// Circuits share an arena: the least recently used one leaves for one that does not fit beside the others,
/// the places that they leave are taken again, and every proof is as before.
pub fn several_circuits(queue: &(impl Backend + Queue), multiprocessors: u32, rows: usize) {
    let cases = [rows, 2 * rows, 3 * rows, rows - 1].map(|rows| Case::random(2, rows, "random"));
    let plan = |case: &Case, memory| {
        let device = MsmDevice { memory, multiprocessors };
        LoadPlan::new(&case.circuit, &case.key, device).unwrap()
    };
    // Room for the residents of two, whichever, and for either at work in the least memory: not for three.
    let planned: Vec<_> = cases.iter().map(|case| plan(case, 1 << 28)).collect();
    let least_work = |planned: &LoadPlan| {
        let mut least = planned.plan().num_bytes();
        while let Ok(plan) =
            ProofPlan::new(planned.plan().shape(), MsmDevice { memory: least - 256, multiprocessors })
            && plan.streamed_bytes() == 0
        {
            least = plan.num_bytes();
        }
        least - planned.plan().resident_bytes()
    };
    let work = planned.iter().map(least_work).max().unwrap();
    let resident = planned.iter().map(|p| p.plan().resident_bytes()).max().unwrap();
    let capacity = 2 * resident + work;
    // SAFETY: memory of the backend, for this alone.
    let mut prover =
        unsafe { DeviceProver::new(queue, queue.alloc::<u8>(capacity as usize + 100), multiprocessors) };
    assert_eq!((prover.capacity(), prover.loaded().count()), (capacity, 0));
    let mut prove = |index: usize, wanted: &[usize]| {
        let (case, ids) = (&cases[index], cases[index].ids());
        let staging = Upload::Staged(&mut [0; 64]);
        // SAFETY: the ids are the case's.
        let made = case.job(WitnessEncoding::Canonical, &canonical(&case.z), staging, |job| unsafe {
            prover.prove(ids, job)
        });
        assert!(made.unwrap().0 == case.cpu_proof(), "{index}");
        let found: Vec<_> =
            prover.loaded().map(|ids| cases.iter().position(|case| case.ids() == ids).unwrap()).collect();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, wanted, "after {index}");
        let bytes: u64 = wanted.iter().map(|&index| planned[index].plan().resident_bytes()).sum();
        assert_eq!(prover.resident_bytes(), bytes);
        found
    };
    prove(0, &[0]);
    prove(1, &[0, 1]);
    prove(0, &[0, 1]);
    // 1 was used least recently, though it came last.
    prove(2, &[0, 2]);
    prove(0, &[0, 2]);
    // The place at the start is free again, and large enough for 3, but not for 1.
    prove(2, &[0, 2]);
    prove(3, &[2, 3]);
    prove(1, &[1, 3]);

    // One that cannot fit at all makes nobody leave.
    let mut least = planned[0].plan().num_bytes();
    while let Ok(plan) =
        ProofPlan::new(planned[0].plan().shape(), MsmDevice { memory: least - 256, multiprocessors })
    {
        least = plan.num_bytes();
    }
    // SAFETY: as above.
    let mut small = unsafe { DeviceProver::new(queue, queue.alloc::<u8>(least as usize), multiprocessors) };
    let mut prove = |case: &Case| {
        let (ids, staging) = (case.ids(), Upload::Staged(&mut [0; 64]));
        // SAFETY: as above.
        case.job(WitnessEncoding::Canonical, &canonical(&case.z), staging, |job| unsafe {
            small.prove(ids, job)
        })
    };
    prove(&cases[0]).unwrap();
    match prove(&cases[2]) {
        Err(DeviceError::Gpu(GpuError::OutOfMemory { found, wanted, .. })) => assert!(found < wanted),
        other => panic!("{:?}", other.err()),
    }
    assert_eq!(small.loaded().collect::<Vec<_>>(), [cases[0].ids()]);
}

/// Keys with multiples of all queries' points, or of some, in both forms.
pub fn multiples(queue: &(impl Backend + Queue), size: Size, rows: usize) {
    let directory = tempfile::tempdir().unwrap();
    let case = Case::random(3, rows - 3, "random").in_bellman_form(directory.path());
    let windows = |width, tables| Some(Windows { width, tables });
    let tables = [
        Tables([windows(8, 4); 5]),
        Tables([None, windows(6, 2), None, windows(7, 37), windows(5, 3)]),
        Tables([windows(9, 29), None, windows(4, 8), None, None]),
    ];
    for tables in tables {
        queue.scope(|| multiples_for(&case, queue, size, tables));
    }
    let case = case.in_snarkjs_form();
    for tables in tables {
        queue.scope(|| multiples_for(&case, queue, size, tables));
    }
}

fn multiples_for(case: &Case, queue: &(impl Backend + Queue), size: Size, tables: Tables) {
    let device = MsmDevice { memory: size.memory as u64, multiprocessors: size.multiprocessors };
    let planned = LoadPlan::new(&case.circuit, &case.key, device).unwrap();
    let plan = ProofPlan::with_tables(planned.plan().shape(), device, tables).unwrap();
    let multiples = plan.pieces().iter().filter(|piece| piece.name == MULTIPLES);
    assert_eq!(multiples.count(), tables.0.iter().flatten().count());
    let resident = plan.pieces().iter().filter(|piece| piece.residence == Residence::Resident);
    assert_eq!(resident.map(|piece| piece.bytes).sum::<u64>(), plan.resident_bytes());
    let memory = queue.alloc::<u8>(plan.num_bytes() as usize);
    let middle = plan.resident_bytes() as usize;
    let parts = (memory.slice(0..middle).unwrap(), memory.slice(middle..memory.len()).unwrap());
    let never = CancelToken::new();
    let planned = planned.with(plan);
    // SAFETY: memory of the backend, for this alone.
    let loaded = unsafe { Loaded::planned(queue, planned, parts, &case.circuit, &case.key, &never) }.unwrap();
    for name in ["first", "second"] {
        case.compare(queue, &loaded, WitnessEncoding::Canonical, &canonical(&case.z), name);
    }
}

/// A circuit keeps multiples where it is alone. They go, and no circuit, when another one comes that has room
/// without them.
pub fn multiples_make_nobody_leave(queue: &(impl Backend + Queue), multiprocessors: u32, rows: usize) {
    let cases = [rows, rows - 1].map(|rows| Case::random(2, rows, "random"));
    let device = |memory| MsmDevice { memory, multiprocessors };
    let plan = |case: &Case, memory| LoadPlan::new(&case.circuit, &case.key, device(memory)).unwrap();
    let plain = [0, 1].map(|i| plan(&cases[i], 1 << 28).plan().resident_bytes());
    // The least memory in which the first has multiples, and both have room.
    let mut capacity = plain[0] + plan(&cases[1], 1 << 28).plan().num_bytes();
    let chosen = loop {
        let alone = plan(&cases[0], capacity);
        let tables = Tables::choose(alone.plan(), device(capacity), 1).unwrap();
        if !tables.is_none() {
            break ProofPlan::with_tables(alone.plan().shape(), device(capacity), tables).unwrap();
        }
        capacity += 1 << 16;
    };
    // SAFETY: memory of the backend, for this alone.
    let prover = unsafe { DeviceProver::new(queue, queue.alloc::<u8>(capacity as usize), multiprocessors) };
    let mut prover = prover.with_multiples_from(1);
    let mut prove = |index: usize| {
        let (case, staging) = (&cases[index], Upload::Staged(&mut [0; 64]));
        // SAFETY: the ids are the case's.
        let made = case.job(WitnessEncoding::Canonical, &canonical(&case.z), staging, |job| unsafe {
            prover.prove(case.ids(), job)
        });
        assert!(made.unwrap().0 == case.cpu_proof(), "{index}");
        (prover.loaded().count(), prover.resident_bytes())
    };
    assert_eq!(prove(0), (1, chosen.resident_bytes()));
    assert_eq!(prove(0), (1, chosen.resident_bytes()));
    prove(1);
    assert_eq!(prove(0), (2, plain[0] + plain[1]));
    assert_eq!(prove(1), (2, plain[0] + plain[1]));
}

/// The known answer, from a device that proves and from one that does not.
pub fn known_answer(queue: &(impl Backend + Queue), size: Size, rows: usize) {
    let known = KnownAnswer::new(rows).unwrap();
    // SAFETY: memory of the backend, for this alone.
    let prover =
        |memory| unsafe { DeviceProver::new(queue, queue.alloc::<u8>(memory), size.multiprocessors) };
    known.check(&mut prover(size.memory)).unwrap();
    let refused = known.check(&mut prover(1 << 20)).unwrap_err();
    assert!(
        matches!(refused, KnownAnswerError::Device(DeviceError::Gpu(GpuError::OutOfMemory { .. }))),
        "{refused}"
    );
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

/// snarkjs' own key and witness: the same job, `times` over.
pub fn circom(queue: &(impl Backend + Queue), size: Size, times: usize) {
    let case = Case::circom();
    case.check_verifies();
    let loaded = case.load(queue, size).unwrap();
    let (wanted, witness) = (case.cpu_proof(), canonical(&case.z));
    for time in 0..times {
        let (proof, _) = case.prove(queue, &loaded, WitnessEncoding::Canonical, &witness).unwrap();
        assert!(proof == wanted, "proof {time}");
    }
}
