//! The table: each step's time beside the floor that the device's rates set, and beside the fastest peer's time.
//!
//! Rates and peers were measured on one NVIDIA H200 (132 multiprocessors, PCIe 5 x16, driver 580.159) on
//! 2026-11-30, peers built with native code for it. On another device they are no yardstick.

/// Bytes a second, read and written, of a copy within the device.
const MEMORY: f64 = 4.3e12;
/// Bytes a second from pinned host memory to the device.
const BUS: f64 = 55.5e9;
/// Montgomery products a second of 255 and of 381 bits, by the straightforward chains of carries.
const FR_PRODUCTS: f64 = 61.3e9;
const FP_PRODUCTS: f64 = 28.2e9;
/// Products in Fp of an affine addition that shares its inversion: 5 multiplications and a squaring; in Fp2
/// a multiplication is 3 and a squaring 2.
const G1_ADDITION: f64 = 6.0;
const G2_ADDITION: f64 = 17.0;

/// Milliseconds by log2 of the size.
pub type Figures = &'static [(u32, f64)];

/// sppark 0.1.16, one transform in natural order, data resident.
pub const SPPARK_NTT: Figures = &[(20, 0.268), (22, 1.090), (24, 4.616), (26, 23.33), (27, 43.09)];
/// sppark 0.1.16, the transforms of a proof (seven, where six are enough).
pub const SPPARK_QUOTIENT: Figures = &[(20, 2.00), (22, 8.12), (24, 34.1), (26, 165.7), (27, 319.2)];
/// sppark 0.1.16, random scalars, points and scalars resident.
pub const SPPARK_G1: Figures = &[(20, 20.6), (22, 53.7), (24, 154.6), (26, 565.5)];
pub const SPPARK_G2: Figures = &[(20, 47.9), (22, 138.2), (24, 446.7)];
/// One proof, a, b, c and assignment given, keys loaded: the fastest of supraseal-c2 0.1.2 and a fork of it with pinned
/// memory; for full-width witnesses of those and bellperson 0.27.
pub const PROOF_OF_BITS: Figures = &[(20, 65.0), (22, 169.0), (24, 611.0)];
pub const PROOF_DENSE: Figures = &[(20, 884.0), (22, 2464.0)];

/// Milliseconds that moving so many bytes within the device takes at least.
pub fn memory(bytes: f64) -> f64 {
    bytes / MEMORY * 1e3
}

/// Milliseconds from the host's memory, likewise.
pub fn bus(bytes: f64) -> f64 {
    bytes / BUS * 1e3
}

/// Milliseconds of products in Fr.
pub fn fr(products: f64) -> f64 {
    products / FR_PRODUCTS * 1e3
}

/// Of a transform of 2^log_size values that reads and writes them once.
pub fn transform(log_size: u32) -> f64 {
    let size = f64::from(log_size).exp2();
    memory(64.0 * size).max(fr(size / 2.0 * f64::from(log_size)))
}

/// Of a sum of `whole` points with full-width scalars and `ones` with the scalar 1, with the window width that makes
/// the fewest additions; `g2`: in G2.
pub fn sum(whole: f64, ones: f64, g2: bool) -> f64 {
    let additions = |width: u32| (255f64 / f64::from(width)).ceil() * (whole + f64::from(width - 1).exp2());
    let fewest = (3..=24).map(additions).fold(f64::INFINITY, f64::min);
    let (fewest, products) =
        (if whole > 0.0 { fewest } else { 0.0 }, if g2 { G2_ADDITION } else { G1_ADDITION });
    (fewest + ones) * products / FP_PRODUCTS * 1e3
}

pub fn print_head() {
    println!("| step | size | ms | floor ms | of floor | peer ms | of peer |");
    println!("|---|---|---|---|---|---|---|");
}

/// One step; 0 for a floor that has not been worked out.
pub fn print_row(step: &str, log_size: u32, ms: f64, floor: f64, peer: Figures) {
    let (floor, of_floor) = match floor > 0.0 {
        true => (format!("{floor:.3}"), format!("{:.1}", ms / floor)),
        false => Default::default(),
    };
    let (peer, of_peer) = match peer.iter().find(|(size, _)| *size == log_size) {
        Some((_, peer)) => (format!("{peer:.3}"), format!("{:.2}", ms / peer)),
        None => Default::default(),
    };
    println!("| {step} | 2^{log_size} | {ms:.3} | {floor} | {of_floor} | {peer} | {of_peer} |");
}
