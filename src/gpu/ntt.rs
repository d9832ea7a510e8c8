//! Transforms on the device: which passes make up one, see `cuda/ntt.cuh` for a pass and the mathematics.
//!
//! Inverse transforms go from natural to bit-reversed order, forward ones back; in both directions the
//! last (first) pass can permute instead, out of place, for natural order on both sides.
use super::{
    DeviceSlice, GpuError, Grid, Launcher,
    launch::{FrArg, KernelArgs, launch},
};
use crate::algebra::{Canonical, Fr, TwoAdicRoot};

/// The largest transform has 2^28 elements.
pub const MAX_LOG_SIZE: u32 = 28;
/// A pass connects at most 2^9 elements.
const MAX_LOG_RADIX: u32 = 9;
/// Elements that a block holds in shared memory, and threads of a block.
const LOG_TILE: u32 = 10;
const THREADS: u32 = 1 << (LOG_TILE - 3);
const SHARED_BYTES: u32 = (size_of::<Canonical>() as u32) << LOG_TILE;

/// Logarithms of the tables of roots: see `ntt::Roots`.
const LOG_RADIX_ROOTS: u32 = 10;
const LOG_HIGH: u32 = 19;
const LOG_LOW: u32 = 10;

/// Mirrors `ntt::Pass`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Pass {
    pub(super) source: [u64; 3],
    pub(super) target: [u64; 3],
    roots: [u64; 3],
    log_n: u32,
    log_radix: u32,
    log_stride: u32,
    odd: u32,
    pub(super) natural: u32,
    scaled: u32,
    scale: FrArg,
    pub(super) right: u64,
    pub(super) left: u64,
    pub(super) product_scale: FrArg,
    pub(super) minuend: u64,
}
// SAFETY: integers in C layout, as in the kernel.
unsafe impl KernelArgs for Pass {}
const _: () = assert!(size_of::<Pass>() == 192);

/// Where the transform's values lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coset {
    /// At the powers of w.
    Domain,
    /// At the powers of w times a primitive 2m-th root, m the size.
    Odd,
}

/// The powers of one two-adic root that all transforms over it need.
pub struct RootTable;

impl RootTable {
    /// Number of values.
    pub const LEN: usize = (1 << LOG_RADIX_ROOTS) + (1 << LOG_HIGH) + (1 << LOG_LOW);

    /// The values, to be copied to the device.
    pub fn compute(root: TwoAdicRoot) -> Vec<Fr> {
        let powers = |log_order: u32, count: usize| {
            // 29 and less are below the two-adicity 32.
            let w = root.of_order(log_order).unwrap_or_default();
            std::iter::successors(Some(Fr::ONE), move |p| Some(*p * w)).take(count)
        };
        powers(LOG_RADIX_ROOTS, 1 << LOG_RADIX_ROOTS)
            .chain(powers(LOG_HIGH, 1 << LOG_HIGH))
            .chain(powers(MAX_LOG_SIZE + 1, 1 << LOG_LOW))
            .collect()
    }
}

/// A table of roots in a device's memory.
#[derive(Clone, Copy)]
pub struct Roots {
    radix: u64,
    high: u64,
    low: u64,
}

impl Roots {
    /// Roots in `table`, which holds what [`RootTable::compute`] gave.
    pub fn new(table: DeviceSlice<Fr>) -> Result<Self, GpuError> {
        let (found, wanted) = (table.len() as u64, RootTable::LEN as u64);
        if found != wanted {
            return Err(GpuError::Length { what: "the table of roots", found, wanted });
        }
        let radix = table.address();
        let high = radix + (size_of::<Fr>() << LOG_RADIX_ROOTS) as u64;
        Ok(Self { radix, high, low: high + (size_of::<Fr>() << LOG_HIGH) as u64 })
    }
}

/// log2 of the radices of the passes over 2^log_size elements, from the highest index bits to the lowest.
fn log_radices(log_size: u32) -> Vec<u32> {
    let passes = log_size.div_ceil(MAX_LOG_RADIX);
    (0..passes).map(|i| (log_size + i) / passes).collect()
}

/// The transforms of one size and root.
pub struct Transform {
    roots: Roots,
    log_size: u32,
    log_radices: Vec<u32>,
}

impl Transform {
    /// Over 2^log_size elements, 0 < log_size ≤ 28.
    pub fn new(roots: Roots, log_size: u32) -> Result<Self, GpuError> {
        if log_size == 0 || log_size > MAX_LOG_SIZE {
            let (found, wanted) = (log_size.into(), MAX_LOG_SIZE.into());
            return Err(GpuError::TooLarge { what: "log2 of a transform's size", found, wanted });
        }
        Ok(Self { roots, log_size, log_radices: log_radices(log_size) })
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        1 << self.log_size
    }

    /// Values, in natural order, → coefficients in natural order. `source` is overwritten; `target` is
    /// another vector.
    ///
    /// # Safety
    /// Both vectors and the roots are valid until the launches have run.
    pub unsafe fn inverse(
        &self,
        launcher: &impl Launcher,
        coset: Coset,
        source: DeviceSlice<Canonical>,
        target: DeviceSlice<Canonical>,
    ) -> Result<(), GpuError> {
        self.check(source)?;
        self.check(target)?;
        for i in 0..self.num_passes() {
            let mut pass = self.pass(i, coset, &[source]);
            if i + 1 == self.num_passes() {
                pass.target[0] = target.address();
                pass.natural = 1;
                pass.scaled = 1;
                pass.scale = FrArg::montgomery(self.size_inverse());
            }
            // SAFETY: the caller's promise; the pass stays within the vectors, whose lengths are checked.
            unsafe { self.launch_inverse(launcher, &pass, 1)? };
        }
        Ok(())
    }

    /// Coefficients, in natural order, → values in natural order. `target` is another vector.
    ///
    /// # Safety
    /// Both vectors and the roots are valid until the launches have run.
    pub unsafe fn forward(
        &self,
        launcher: &impl Launcher,
        coset: Coset,
        source: DeviceSlice<Canonical>,
        target: DeviceSlice<Canonical>,
    ) -> Result<(), GpuError> {
        self.check(source)?;
        self.check(target)?;
        for i in (0..self.num_passes()).rev() {
            let mut pass = self.pass(i, coset, &[target]);
            if i + 1 == self.num_passes() {
                pass.source[0] = source.address();
                pass.natural = 1;
            }
            // SAFETY: the caller's promise; the pass stays within the vectors, whose lengths are checked.
            unsafe { self.launch_forward(launcher, &pass, 1)? };
        }
        Ok(())
    }

    /// Refuses a vector of another size.
    pub(super) fn check(&self, vector: DeviceSlice<Canonical>) -> Result<(), GpuError> {
        let (found, wanted) = (vector.len() as u64, self.size() as u64);
        if found != wanted {
            return Err(GpuError::Length { what: "a vector to transform", found, wanted });
        }
        Ok(())
    }

    /// Passes of a transform; pass 0 connects the highest index bits.
    pub(super) fn num_passes(&self) -> usize {
        self.log_radices.len()
    }

    /// 1/m, m the size.
    pub(super) fn size_inverse(&self) -> Fr {
        // r is odd: a power of two has an inverse.
        Fr::from_u64(1 << self.log_size).inverse().unwrap_or_default()
    }

    /// Pass `i`, in place on up to three vectors.
    pub(super) fn pass(&self, i: usize, coset: Coset, vectors: &[DeviceSlice<Canonical>]) -> Pass {
        let mut addresses = [0; 3];
        for (address, vector) in addresses.iter_mut().zip(vectors) {
            *address = vector.address();
        }
        Pass {
            source: addresses,
            target: addresses,
            roots: [self.roots.radix, self.roots.high, self.roots.low],
            log_n: self.log_size,
            log_radix: self.log_radices[i],
            log_stride: self.log_radices[i + 1..].iter().sum(),
            odd: (coset == Coset::Odd).into(),
            natural: 0,
            scaled: 0,
            scale: FrArg::default(),
            right: 0,
            left: 0,
            product_scale: FrArg::default(),
            minuend: 0,
        }
    }

    /// # Safety
    /// The pass's addresses are 0, where that is allowed, or vectors of this size on `vectors` vectors.
    pub(super) unsafe fn launch_inverse(
        &self,
        launcher: &impl Launcher,
        pass: &Pass,
        vectors: u32,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { launch(launcher, "cuzk_ntt_inverse_pass", self.grid(vectors), pass) }
    }

    /// # Safety
    /// As for [`Self::launch_inverse`].
    pub(super) unsafe fn launch_forward(
        &self,
        launcher: &impl Launcher,
        pass: &Pass,
        vectors: u32,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { launch(launcher, "cuzk_ntt_forward_pass", self.grid(vectors), pass) }
    }

    /// The last inverse pass on the domain and the first forward pass on the odd coset in one.
    ///
    /// # Safety
    /// As for [`Self::launch_inverse`].
    pub(super) unsafe fn launch_middle(
        &self,
        launcher: &impl Launcher,
        pass: &Pass,
        vectors: u32,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { launch(launcher, "cuzk_ntt_middle_pass", self.grid(vectors), pass) }
    }

    fn grid(&self, vectors: u32) -> Grid {
        // Whatever the radix R: a tile holds 2^10 / R of the m / R columns.
        let blocks = 1 << self.log_size.saturating_sub(LOG_TILE);
        Grid { blocks: (blocks, vectors), threads: THREADS, shared_bytes: SHARED_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radices_cover_the_size_and_rise() {
        for log_size in 1..=MAX_LOG_SIZE {
            let radices = log_radices(log_size);
            assert_eq!(radices.iter().sum::<u32>(), log_size);
            assert!(radices.is_sorted() && radices.iter().all(|r| (1..=MAX_LOG_RADIX).contains(r)));
            // The fewest passes possible.
            assert_eq!(radices.len() as u32, log_size.div_ceil(MAX_LOG_RADIX));
        }
        assert_eq!(log_radices(22), [7, 7, 8]);
        assert_eq!(log_radices(27), [9, 9, 9]);
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        // SAFETY: an address that no launch uses.
        let table = unsafe { DeviceSlice::from_raw(16, RootTable::LEN) };
        let roots = Roots::new(table).unwrap();
        assert!(Transform::new(roots, 0).is_err());
        assert!(Transform::new(roots, 29).is_err());
        assert_eq!(Transform::new(roots, 28).unwrap().size(), 1 << 28);
        assert!(Roots::new(DeviceSlice::empty()).is_err());
    }
}
