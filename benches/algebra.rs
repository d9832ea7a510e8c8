//! Costs of the multi-exponentiation and of the transforms: nanoseconds a point and a butterfly, as CPU time over all
//! threads and as wall time; blst's own multi-exponentiation beside it, alternating in the same run.
//!
//! `cargo bench --bench algebra [-- FILTER [REPETITIONS]]`: FILTER selects lines by a part of their name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a program for developers: a panic is the report"
)]
use blst::MultiPoint;
use cuzk::algebra::{CancelToken, Canonical, Curve, Domain, Fr, G1, G2, PointStore, TwoAdicRoot, msm};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use std::{hint::black_box, time::Instant};

/// CPU and wall time in nanoseconds.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
}

fn measure(work: impl FnOnce()) -> Cost {
    let cpu = || {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of this process");
        (usage.user_time() + usage.system_time()).num_microseconds() as f64 * 1e3
    };
    let (start_cpu, start) = (cpu(), Instant::now());
    work();
    Cost { cpu: cpu() - start_cpu, wall: start.elapsed().as_secs_f64() * 1e9 }
}

/// The median of each time, an operation.
fn median(costs: &[Cost], operations: f64) -> Cost {
    let of = |time: fn(&Cost) -> f64| {
        let mut times: Vec<_> = costs.iter().map(time).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] / operations
    };
    Cost { cpu: of(|c| c.cpu), wall: of(|c| c.wall) }
}

/// Uniform scalars, the same in every run.
fn scalars(count: usize) -> Vec<Canonical> {
    let mut reader = blake3::Hasher::new().finalize_xof();
    let mut wide = [0; 64];
    (0..count)
        .map(|_| {
            reader.fill(&mut wide);
            Fr::from_wide_le_bytes(&wide).to_canonical()
        })
        .collect()
}

/// A group as blst has it.
trait Peer: Curve {
    type Point: Copy;
    fn deserialize(uncompressed: &[u8]) -> Self::Point;
    /// Σ scalar · point, 32 bytes a scalar, as a compressed point.
    fn msm(points: &[Self::Point], scalars: &[u8]) -> Vec<u8>;
}

macro_rules! peer {
    ($group:ty, $point:ty, $bytes:literal, $deserialize:ident, $compress:ident) => {
        impl Peer for $group {
            type Point = $point;
            fn deserialize(uncompressed: &[u8]) -> $point {
                let bytes: &[u8; $bytes] = uncompressed.try_into().expect("an uncompressed point");
                let mut point = <$point>::default();
                // SAFETY: reads as many bytes as the array has.
                let found = unsafe { blst::$deserialize(&mut point, bytes.as_ptr()) };
                assert_eq!(found, blst::BLST_ERROR::BLST_SUCCESS);
                point
            }
            fn msm(points: &[$point], scalars: &[u8]) -> Vec<u8> {
                let sum = points.mult(scalars, 255);
                let mut bytes = vec![0; $bytes / 2];
                // SAFETY: writes as many bytes as the vector has.
                unsafe { blst::$compress(bytes.as_mut_ptr(), &sum) };
                bytes
            }
        }
    };
}

peer!(G1, blst::blst_p1_affine, 96, blst_p1_deserialize, blst_p1_compress);
peer!(G2, blst::blst_p2_affine, 192, blst_p2_deserialize, blst_p2_compress);

fn points<C: Curve>(count: usize) -> Vec<C::Affine> {
    let generator = C::to_projective(&C::generator());
    let step = C::to_affine(&C::mul(&generator, &Fr::from_u64(0x9e37_79b9_7f4a_7c15)));
    let points: Vec<_> =
        std::iter::successors(Some(generator), |p| Some(C::add_affine(p, &step))).take(count).collect();
    C::batch_to_affine(&points)
}

struct Bench {
    filter: String,
    repetitions: usize,
}

impl Bench {
    fn selects(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    fn msm<C: Peer>(&self, log_count: u32) {
        let count = 1 << log_count;
        let names = ["uniform", "71 % bits"];
        if !names.iter().any(|name| self.selects(&format!("{} 2^{log_count} {name}", C::NAME))) {
            return;
        }
        let points = points::<C>(count);
        let mut encoded = vec![0; C::UNCOMPRESSED];
        let encode = |p| {
            C::to_uncompressed(p, &mut encoded);
            C::deserialize(&encoded)
        };
        let peer_points: Vec<_> = points.iter().map(encode).collect();
        let store = PointStore::<C>::Owned(points);
        let uniform = scalars(count);
        // As in the witness of a Sapling Spend.
        let bits = |(i, s): (usize, &Canonical)| match i % 100 {
            0..36 => Canonical::ZERO,
            36..71 => Canonical::ONE,
            _ => *s,
        };
        let mostly_bits: Vec<_> = uniform.iter().enumerate().map(bits).collect();
        for (name, scalars) in names.into_iter().zip([uniform, mostly_bits]) {
            let name = format!("{} 2^{log_count} {name}", C::NAME);
            if !self.selects(&name) {
                continue;
            }
            let bytes: Vec<u8> = scalars.iter().flat_map(|s| s.to_le_bytes()).collect();
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..self.repetitions {
                let mut found = C::identity();
                ours.push(measure(|| {
                    found = msm(&store, None, &scalars, &CancelToken::new()).expect("not cancelled")
                }));
                let mut wanted = Vec::new();
                theirs.push(measure(|| wanted = C::msm(&peer_points, &bytes)));
                let mut compressed = vec![0; C::UNCOMPRESSED / 2];
                C::to_compressed(&C::to_affine(&found), &mut compressed);
                assert_eq!(compressed, wanted, "{name}");
            }
            let (ours, theirs) = (median(&ours, count as f64), median(&theirs, count as f64));
            println!(
                "{name:<24} {:>9.0} {:>9.0}   {:>9.0} {:>9.0}   {:>6.2} {:>6.2}",
                ours.cpu,
                ours.wall,
                theirs.cpu,
                theirs.wall,
                ours.cpu / theirs.cpu,
                ours.wall / theirs.wall
            );
        }
    }

    fn ntt(&self, log_size: u32) {
        let domain = Domain::new(log_size, TwoAdicRoot::Seven).expect("a domain that exists");
        let cancel = CancelToken::new();
        let mut values = scalars(domain.size());
        type Transform = fn(&Domain, &mut [Canonical], &CancelToken) -> Result<(), cuzk::algebra::Cancelled>;
        let transforms: [(&str, Transform); 4] = [
            ("fft", Domain::fft),
            ("ifft", Domain::ifft),
            ("coset_fft", Domain::coset_fft),
            ("coset_ifft", Domain::coset_ifft),
        ];
        for (name, transform) in transforms {
            let name = format!("NTT 2^{log_size} {name}");
            if !self.selects(&name) {
                continue;
            }
            let costs: Vec<_> = (0..self.repetitions)
                .map(|_| {
                    measure(|| transform(&domain, black_box(&mut values), &cancel).expect("not cancelled"))
                })
                .collect();
            let butterflies = (domain.size() / 2) as f64 * f64::from(log_size);
            let cost = median(&costs, butterflies);
            println!("{name:<24} {:>9.1} {:>9.1}", cost.cpu, cost.wall);
        }
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let bench = Bench {
        filter: arguments.first().cloned().unwrap_or_default(),
        repetitions: arguments.get(1).map_or(5, |n| n.parse().expect("a number of repetitions")),
    };
    println!("medians of {} runs, {} threads", bench.repetitions, rayon::current_num_threads());
    println!("{:<24} {:>19}   {:>19}   {:>13}", "", "cuzk, ns a point", "blst, ns a point", "ratio");
    println!(
        "{:<24} {:>9} {:>9}   {:>9} {:>9}   {:>6} {:>6}",
        "", "CPU", "wall", "CPU", "wall", "CPU", "wall"
    );
    for log_count in [14, 16, 18] {
        bench.msm::<G1>(log_count);
        bench.msm::<G2>(log_count);
    }
    println!("{:<24} {:>19}", "", "ns a butterfly");
    for log_size in [16, 20] {
        bench.ntt(log_size);
    }
}
