//! What every device must do: the trusted setup's keys, equal byte for byte to the host's. Run on the emulation
//! and on devices.
use crate::{proofs::Case, properties::Backend};
use cuzk::{
    algebra::{Curve, Fr, PointStore},
    gpu::{
        GpuError, Queue,
        setup::{SetupError, insecure_setup, num_bytes},
    },
    groth16::{KeyError, ProvingKey, Query, setup},
    r1cs::{Circuit, CircuitBuilder},
};

fn device_setup(
    queue: &(impl Backend + Queue),
    multiprocessors: u32,
    circuit: &Circuit,
    seed: [u8; 32],
) -> Result<ProvingKey, SetupError> {
    let memory = queue.alloc::<u8>(num_bytes(circuit, multiprocessors)? as usize);
    // SAFETY: memory of the backend, for this alone.
    unsafe { insecure_setup(queue, memory, multiprocessors, circuit, seed, &mut |_| {}) }
}

fn all<C: Curve>(store: &PointStore<C>) -> Vec<C::Affine> {
    let mut points = Vec::new();
    store.read(0..store.len(), &mut points);
    points
}

fn compare<C: Curve>(name: &str, found: &Query<C>, wanted: &Query<C>) {
    assert_eq!(found.variables(), wanted.variables(), "{name}");
    assert!(all(found.points()) == all(wanted.points()), "{name}");
}

/// Keys of circuits with so many inputs and constraints; the largest one's windows are wider than the host's
/// table.
pub fn keys(queue: &(impl Backend + Queue), multiprocessors: u32, sizes: &[(usize, usize)]) {
    for &(num_inputs, constraints) in sizes {
        let circuit = Case::random(num_inputs, constraints, "random").circuit;
        let seed = [constraints as u8; 32];
        let wanted = setup::insecure_setup(&circuit, seed).unwrap();
        let found = device_setup(queue, multiprocessors, &circuit, seed).unwrap();
        let name = format!("{num_inputs} inputs, {constraints} constraints");
        assert_eq!(found.vk, wanted.vk, "{name}");
        assert_eq!((found.beta_g1, found.delta_g1), (wanted.beta_g1, wanted.delta_g1), "{name}");
        assert_eq!((found.id, found.h_basis, found.root), (wanted.id, wanted.h_basis, wanted.root), "{name}");
        assert!(all(&found.h) == all(&wanted.h), "h, {name}");
        assert!(all(&found.l) == all(&wanted.l), "l, {name}");
        compare(&format!("a, {name}"), &found.a, &wanted.a);
        compare(&format!("b_g1, {name}"), &found.b_g1, &wanted.b_g1);
        compare(&format!("b_g2, {name}"), &found.b_g2, &wanted.b_g2);
    }
}

/// Circuits without a key, and memory that is too small.
pub fn refusals(queue: &(impl Backend + Queue), multiprocessors: u32) {
    let (one, seed) = (Fr::from_u64(1), [1; 32]);
    let rows = |build: fn(CircuitBuilder) -> Circuit| {
        let mut builder = CircuitBuilder::new(1, 3);
        builder.constraint(&[(1, one)], &[(3, one)], &[(0, one)]).unwrap();
        build(builder)
    };
    let unconstrained = rows(|builder| builder.finish().unwrap());
    let wanted = KeyError::Unconstrained { index: 1 };
    assert_eq!(setup::insecure_setup(&unconstrained, seed).err(), Some(wanted.clone()));
    let found = device_setup(queue, multiprocessors, &unconstrained, seed).err();
    assert_eq!(found, Some(SetupError::Key(wanted)));
    let without_c = rows(|builder| builder.finish_without_c().unwrap());
    let found = device_setup(queue, multiprocessors, &without_c, seed).err();
    assert_eq!(found, Some(SetupError::Key(KeyError::NoC)));

    let circuit = Case::random(2, 5, "random").circuit;
    let bytes = num_bytes(&circuit, multiprocessors).unwrap();
    let memory = queue.alloc::<u8>(bytes as usize - 256);
    // SAFETY: memory of the backend, for this alone.
    let refused =
        unsafe { insecure_setup(queue, memory, multiprocessors, &circuit, seed, &mut |_| {}) }.err();
    match refused {
        Some(SetupError::Gpu(GpuError::OutOfMemory { found, .. })) => assert_eq!(found, bytes - 256),
        other => panic!("{other:?}"),
    }
}
