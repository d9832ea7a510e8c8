//! The device's kernels, and the launches that the library makes of them, on the host emulation: the same
//! text that `nvcc` compiles, without a GPU. Each case runs with the threads of a block in both orders, as
//! a missing barrier would tell them apart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
mod devices;
mod host;
mod properties;

/// Part of the library only in builds for tests on devices.
#[path = "../../src/gpu/fault.rs"]
mod fault;
/// Where `fault` finds what it is made of.
mod gpu {
    pub use cuzk::gpu::{DeviceSlice, GpuError, Grid, Launcher, PageLocks, Queue, field};
}

use cuzk::{
    algebra::TwoAdicRoot,
    gpu::{
        DeviceSlice,
        ntt::{Coset, Transform},
        spmv,
    },
};
use host::Host;
use properties::Backend;

#[test]
fn field_arithmetic() {
    properties::arithmetic(&Host::new(false));
}

#[test]
fn conversions() {
    properties::conversions(&Host::new(false));
}

#[test]
fn transforms_of_every_small_size() {
    for (root, descending, kinds) in
        [(TwoAdicRoot::Seven, false, 6), (TwoAdicRoot::Seven, true, 1), (TwoAdicRoot::Five, false, 1)]
    {
        let host = Host::new(descending);
        let roots = properties::roots(&host, root);
        for log_size in 1..=12 {
            properties::transforms(&host, roots, root, log_size, kinds);
        }
    }
}

#[test]
fn transforms_against_what_is_known_of_polynomials() {
    let host = Host::new(true);
    let roots = properties::roots(&host, TwoAdicRoot::Seven);
    for coset in [Coset::Domain, Coset::Odd] {
        properties::monomials(&host, roots, TwoAdicRoot::Seven, 10, coset);
        properties::interpolation(&host, roots, TwoAdicRoot::Seven, 10, coset);
    }
}

#[test]
fn a_transform_of_three_passes() {
    // From 2^19 on there are three passes, and factors from two tables.
    let host = Host::new(false);
    let roots = properties::roots(&host, TwoAdicRoot::Seven);
    properties::transforms(&host, roots, TwoAdicRoot::Seven, 19, 1);
}

#[test]
fn quotients_in_both_bases() {
    for (root, descending) in [(TwoAdicRoot::Seven, false), (TwoAdicRoot::Five, true)] {
        let host = Host::new(descending);
        let roots = properties::roots(&host, root);
        for log_size in 1..=12 {
            properties::quotients(&host, roots, root, log_size);
        }
    }
}

#[test]
fn evaluations_of_rows_of_every_length() {
    for descending in [false, true] {
        properties::evaluations(&Host::new(descending));
    }
}

#[test]
fn vectors_of_other_lengths_are_refused() {
    let host = Host::new(false);
    let transform = Transform::new(properties::roots(&host, TwoAdicRoot::Seven), 5).unwrap();
    let (right, wrong) = (host.alloc(32), host.alloc(31));
    // SAFETY: slices of the backend.
    unsafe {
        let error = transform.forward(&host, Coset::Domain, right, wrong).unwrap_err();
        assert_eq!(error.to_string(), "a vector to transform has 31 values, wanted 32");
        assert!(transform.inverse(&host, Coset::Odd, wrong, right).is_err());
    }
    let matrix = spmv::DeviceMatrix {
        offsets: host.alloc(4 * 3 + 1),
        columns: DeviceSlice::empty(),
        indices: DeviceSlice::empty(),
        segments: DeviceSlice::empty(),
        long_rows: DeviceSlice::empty(),
        segment_sums: DeviceSlice::empty(),
        rows: 2,
        first_entry: 0,
    };
    // SAFETY: slices of the backend.
    let refused =
        unsafe { spmv::evaluate(&host, [&matrix, &matrix], DeviceSlice::empty(), right, [right, right]) };
    assert_eq!(refused.unwrap_err().to_string(), "row offsets has 13 values, wanted 12");
}

mod sums;

use cuzk::{
    algebra::{G1, G2},
    gpu::{msm_plan::MsmDevice, msm_sort::Windows, points::DeviceCurve},
};

/// A device small enough to be emulated.
const SMALL: MsmDevice = MsmDevice { memory: 1 << 30, multiprocessors: 1 };

fn fields_and_points<C: DeviceCurve>() {
    let host = Host::new(false);
    sums::field_arithmetic::<C>(&host);
    sums::curve_arithmetic::<C>(&host);
    sums::decoding::<C>(&host);
    sums::multiples::<C>(&host, 1, 70);
}

#[test]
fn fields_and_points_of_g1() {
    fields_and_points::<G1>();
}

#[test]
fn fields_and_points_of_g2() {
    fields_and_points::<G2>();
}

#[test]
fn sums_over_g1() {
    // Emulated barriers are slow: the device's own tests have the large sizes.
    sums::sums::<G1>(&Host::new(false), SMALL, &[0, 1, 2, 33]);
}

#[test]
fn sums_over_g1_in_descending_order() {
    sums::large_sums::<G1>(&Host::new(true), SMALL, 2, 3);
}

#[test]
fn sums_over_unusual_points_of_g1() {
    sums::unusual_points::<G1>(&Host::new(false), SMALL, 20);
}

#[test]
fn indexed_sums_over_g1() {
    sums::indexed::<G1>(&Host::new(false), SMALL, 20);
}

#[test]
fn sums_over_g1_in_pieces() {
    sums::in_pieces::<G1>(&Host::new(false), SMALL, 300);
}

#[test]
fn sums_over_multiples_in_g1() {
    sums::with_multiples::<G1>(&Host::new(false), SMALL, 10, &[Windows { width: 8, tables: 3 }]);
}

#[test]
fn sums_over_g2() {
    let host = Host::new(false);
    sums::sums::<G2>(&host, SMALL, &[0, 3]);
    sums::unusual_points::<G2>(&host, SMALL, 10);
    sums::indexed::<G2>(&host, SMALL, 5);
    sums::with_multiples::<G2>(&host, SMALL, 5, &[Windows { width: 8, tables: 3 }]);
}

mod proofs;
mod unpacking;

#[test]
fn packed_witnesses_are_unpacked() {
    unpacking::unpacking(&Host::new(false), &[0, 1, 2, 3, 4]);
    unpacking::unpacking(&Host::new(true), &[3]);
}

/// Room for the roots of unity, 17 MB, and for any circuit of these tests.
const ARENA: proofs::Size = proofs::Size { memory: 24 << 20, multiprocessors: 1 };

#[test]
fn proofs_of_circuits_around_powers_of_two() {
    proofs::circuits(&Host::new(false), ARENA, &[2, 4]);
}

#[test]
fn proofs_of_uniform_witnesses() {
    proofs::witnesses(&Host::new(true), ARENA, 10);
}

#[test]
fn proofs_under_a_key_of_snarkjs() {
    proofs::circom(&Host::new(false), ARENA, 2);
}

#[test]
fn witnesses_come_from_a_mapping_or_piece_by_piece() {
    proofs::uploads(&Host::new(false), ARENA);
}

#[test]
fn circuits_share_an_arena() {
    proofs::several_circuits(&Host::new(false), 1, 5);
}

#[test]
fn proofs_with_multiples_of_the_key_s_points() {
    proofs::multiples(&Host::new(false), ARENA, 20);
}

#[test]
fn multiples_make_no_circuit_leave() {
    proofs::multiples_make_nobody_leave(&Host::new(false), 1, 9);
}

#[test]
fn the_known_answer_is_given() {
    proofs::known_answer(&Host::new(true), ARENA, 20);
}

#[test]
fn proofs_in_less_and_less_memory() {
    proofs::less_and_less_memory(&Host::new(false), ARENA, 20);
}

#[test]
fn bad_witnesses_are_refused() {
    proofs::refusals(&Host::new(false), ARENA);
}

#[test]
fn witnesses_are_wiped() {
    proofs::wiping(&Host::new(false), ARENA);
}

mod setup;

#[test]
fn keys_are_the_ones_of_the_host_s_setup() {
    setup::keys(&Host::new(false), 1, &[(1, 0), (3, 14), (2, 127)]);
    setup::refusals(&Host::new(true), 1);
}
