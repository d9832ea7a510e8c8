//! The trusted setup for tests on a device: `groth16::setup`'s key, byte for byte, of circuits too large for
//! a CPU. See `cuda/setup.cu`.
//!
//! The columns of A, B and C at τ stay on the device, and so do the key's scalars; multiples of the
//! generators come in pieces, and each piece goes to the host at once.
use super::{
    DeviceSlice, GpuError, Grid, Queue,
    launch::{FrArg, KernelArgs, launch},
    ntt::MAX_LOG_SIZE,
    plan::{Planner, Slot},
    points::{self, DeviceCurve},
    space::Space,
    spmv::{DeviceMatrix, MatrixArg},
};
use crate::{
    algebra::{Canonical, Curve, Domain, Fr, G1, G2},
    groth16::{
        KeyError, ProvingKey, key,
        setup::{self, FixedBase, Points, SCALAR_BITS, Trapdoor},
    },
    r1cs::{Circuit, Matrix},
};
use rayon::prelude::*;
use std::ops::Range;

const THREADS: u32 = 256;
const WARP: u64 = 32;
/// Mirrors `setup::LOG_POWERS`.
const LOG_POWERS: usize = MAX_LOG_SIZE as usize;
/// Mirrors `setup::LIMBS`.
const LIMBS: u64 = 8;
/// Window of the table that the host makes, from which the device makes a wider one.
const FIRST_WIDTH: u32 = 5;
/// The widest window: a table of G1 takes 100 MB.
const MAX_WIDTH: u32 = 16;
/// Points that are computed, and copied to the host, at a time.
const PIECE: u64 = 1 << 22;
/// Values whose memory one task makes present.
const TOUCHED_AT_ONCE: usize = 1 << 14;
const PAGE: usize = 1 << 12;

/// Mirrors `setup::Powers`.
#[derive(Clone, Copy)]
#[repr(C)]
struct PowersArgs {
    squares: [FrArg; LOG_POWERS],
    first: FrArg,
    out: u64,
    count: u64,
}
// SAFETY: integers in C layout, as in the kernels.
unsafe impl KernelArgs for PowersArgs {}

/// Mirrors `setup::Lagrange`.
#[derive(Clone, Copy)]
#[repr(C)]
struct LagrangeArgs {
    squares: [FrArg; LOG_POWERS],
    one: FrArg,
    tau: FrArg,
    factor: FrArg,
    out: u64,
    count: u64,
}
// SAFETY: as above.
unsafe impl KernelArgs for LagrangeArgs {}

/// Mirrors `setup::Columns`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ColumnsArgs {
    matrix: MatrixArg,
    coefficients: u64,
    lagrange: u64,
    sums: u64,
}
// SAFETY: as above.
unsafe impl KernelArgs for ColumnsArgs {}

/// Mirrors `setup::Reduce`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ReduceArgs {
    sums: u64,
    out: u64,
    one: FrArg,
    radix: FrArg,
    count: u64,
}
// SAFETY: as above.
unsafe impl KernelArgs for ReduceArgs {}

/// Mirrors `setup::Combine`.
#[derive(Clone, Copy)]
#[repr(C)]
struct CombineArgs {
    u: u64,
    v: u64,
    w: u64,
    alpha: FrArg,
    beta: FrArg,
    over_gamma: FrArg,
    over_delta: FrArg,
    num_inputs: u64,
    count: u64,
}
// SAFETY: as above.
unsafe impl KernelArgs for CombineArgs {}

/// Mirrors `setup::Multiples`.
#[derive(Clone, Copy)]
#[repr(C)]
struct MultiplesArgs {
    table: u64,
    scalars: u64,
    index: u64,
    out: u64,
    scratch: u64,
    bad: u64,
    count: u64,
    first: u64,
    width: u32,
    windows: u32,
    batch: u32,
    _padding: u32,
}
// SAFETY: as above.
unsafe impl KernelArgs for MultiplesArgs {}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The circuit has none, or not under this seed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The device, or its memory.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Where everything lies.
struct Layout {
    bad: Slot,
    coefficients: Slot,
    columns: [Slot; 3],
    lagrange: Slot,
    sums: Slot,
    /// A matrix: ends of rows, columns, indices.
    matrix: [Slot; 3],
    h: Slot,
    first_table: Slot,
    table_scalars: Slot,
    table: Slot,
    scratch: Slot,
    index: Slot,
    points: Slot,
    /// log2 of the window, in G1 and in G2.
    widths: [u32; 2],
    bytes: u64,
}

/// Points in G1 and in G2.
fn uses(circuit: &Circuit, domain: &Domain) -> [u64; 2] {
    let (a, b) = (circuit.a_density().count() as u64, circuit.b_density().count() as u64);
    [domain.size() as u64 + circuit.num_variables() as u64 + a + b, b]
}

impl Layout {
    fn new(circuit: &Circuit, domain: &Domain, multiprocessors: u32) -> Result<Self, SetupError> {
        let c = circuit.c().ok_or(KeyError::NoC)?;
        let largest = |bytes: fn(&Matrix) -> usize| {
            [circuit.a(), circuit.b(), c].into_iter().map(bytes).max().unwrap_or(0) as u64
        };
        let variables = circuit.num_variables() as u64;
        let uses = uses(circuit, domain);
        // A window costs 2^width points to fill and saves `uses` additions.
        let widths = uses.map(|n| (n.max(1).ilog2() * 2 / 3).clamp(FIRST_WIDTH, MAX_WIDTH));
        let table_points = widths.map(|width| u64::from(SCALAR_BITS.div_ceil(width)) << width);
        // Wide tables are made with a narrow one.
        let (first_points, scalars) = match widths.into_iter().max() {
            Some(width) if width > FIRST_WIDTH => {
                let points = |width| u64::from(SCALAR_BITS.div_ceil(width)) << width;
                (points(FIRST_WIDTH), points(width))
            }
            _ => (0, 0),
        };

        let mut plan = Planner::new();
        let bad = plan.claim::<u64>("index of a point at infinity", 1)?;
        let coefficients = plan.claim::<Fr>("coefficients", circuit.coefficients().len() as u64)?;
        let mut vector = || plan.claim::<Canonical>("columns of a matrix at tau", variables);
        let columns = [vector()?, vector()?, vector()?];
        let lagrange = plan.claim::<Canonical>("Lagrange polynomials at tau", domain.size() as u64)?;
        let sums = plan.claim::<[u64; LIMBS as usize]>("sums of columns", variables)?;
        let matrix = [
            plan.claim::<u8>("ends of rows", largest(|m| m.offset_bytes().len()))?,
            plan.claim::<u32>("columns of entries", largest(|m| m.columns().len()))?,
            plan.claim::<u8>("coefficients of entries", largest(|m| m.index_bytes().len()))?,
        ];
        for slot in [lagrange, sums].into_iter().chain(matrix) {
            plan.release(slot);
        }
        let h = plan.claim::<Canonical>("scalars of h", domain.size() as u64)?;
        // The tables of G2 come after those of G1, in the same place.
        let point = size_of::<<G1 as Curve>::Affine>() as u64;
        let both = |[g1, g2]: [u64; 2]| (g1 * point).max(2 * g2 * point);
        let first_table = plan.claim::<u8>("the first table", both([first_points; 2]))?;
        let table_scalars = plan.claim::<Canonical>("scalars of the table", scalars)?;
        let table = plan.claim::<u8>("the table", both(table_points))?;
        let scratch = plan.claim::<u8>("scratch memory", points::multiples_scratch_bytes(multiprocessors))?;
        let piece = uses.map(|n| n.min(PIECE));
        let index = plan.claim::<u32>("variables of points", piece[0])?;
        let points = plan.claim::<u8>("points", both(piece))?;
        Ok(Self {
            bad,
            coefficients,
            columns,
            lagrange,
            sums,
            matrix,
            h,
            first_table,
            table_scalars,
            table,
            scratch,
            index,
            points,
            widths,
            bytes: plan.peak(),
        })
    }
}

/// Bytes of device memory that a circuit's setup takes.
///
/// # Errors
/// [`SetupError`], for a circuit that has no setup.
pub fn num_bytes(circuit: &Circuit, multiprocessors: u32) -> Result<u64, SetupError> {
    Ok(Layout::new(circuit, &setup::domain(circuit)?, multiprocessors)?.bytes)
}

/// `groth16::setup::insecure_setup` on a device. INSECURE: the seed is the trapdoor. `on_step` is told what
/// begins.
///
/// # Errors
/// As on the CPU, and [`GpuError`] where the device fails or `memory` is less than [`num_bytes`].
///
/// # Safety
/// `memory` is valid, and no one but `queue` uses it.
pub unsafe fn insecure_setup<Q: Queue>(
    queue: &Q,
    memory: DeviceSlice<u8>,
    multiprocessors: u32,
    circuit: &Circuit,
    seed: [u8; 32],
    on_step: &mut dyn FnMut(&'static str),
) -> Result<ProvingKey, SetupError> {
    let domain = setup::domain(circuit)?;
    if domain.log_size() > MAX_LOG_SIZE {
        let (found, wanted) = (domain.log_size().into(), MAX_LOG_SIZE.into());
        return Err(GpuError::TooLarge { what: "log2 of the domain", found, wanted }.into());
    }
    on_step("densities");
    let layout = Layout::new(circuit, &domain, multiprocessors)?;
    let trapdoor = Trapdoor::draw(&seed, &domain);
    let variables = [key::a_variables(circuit), key::b_variables(circuit)];
    let mut run =
        Run { queue, multiprocessors, layout: &layout, space: Space::new(DeviceSlice::empty(), memory) };
    let num_inputs = circuit.num_inputs();
    // SAFETY: the caller's promise, here and below.
    let points = unsafe {
        on_step("columns");
        let [u, v, combined] = run.columns(circuit, &domain, &trapdoor)?;
        let h = run.powers(&domain, &trapdoor)?;
        let g1 = run.table::<G1>(layout.widths[0])?;
        on_step("l");
        let aux = Scalars::all(part(combined, num_inputs..combined.len())?);
        let l = run.multiples::<G1>(&g1, "l", aux).map_err(|error| match error {
            SetupError::Key(KeyError::Infinity { index, .. }) => KeyError::Unconstrained { index }.into(),
            other => other,
        })?;
        let ic = run.multiples::<G1>(&g1, "ic", Scalars::all(part(combined, 0..num_inputs)?))?;
        on_step("h");
        let h = run.multiples::<G1>(&g1, "h", Scalars::all(h))?;
        on_step("a");
        let a = run.multiples::<G1>(&g1, "a", Scalars { scalars: u, index: Some(&variables[0]) })?;
        on_step("b in G1");
        let b = Scalars { scalars: v, index: Some(&variables[1]) };
        let b_g1 = run.multiples::<G1>(&g1, "b_g1", b)?;
        run.space.release(layout.table);
        on_step("b in G2");
        let g2 = run.table::<G2>(layout.widths[1])?;
        let b_g2 = run.multiples::<G2>(&g2, "b_g2", b)?;
        Points { ic, h, l, a, b_g1, b_g2 }
    };
    if run.space.peak() != layout.bytes {
        return Err(GpuError::Peak { found: run.space.peak(), wanted: layout.bytes }.into());
    }
    on_step("the circuit's hash");
    Ok(setup::assemble(circuit, &seed, &domain, &trapdoor, variables, points)?)
}

/// A part of a slice that is long enough.
fn part<T>(slice: DeviceSlice<T>, range: Range<usize>) -> Result<DeviceSlice<T>, GpuError> {
    let (found, wanted) = (slice.len() as u64, range.end as u64);
    slice.slice(range).ok_or(GpuError::Length { what: "a vector on the device", found, wanted })
}

/// Multiples of a generator, on the device.
struct Table {
    address: u64,
    width: u32,
}

/// Which scalars make a vector of points.
#[derive(Clone, Copy)]
struct Scalars<'a> {
    scalars: DeviceSlice<Canonical>,
    /// The scalar of each point; None: its own number.
    index: Option<&'a [u32]>,
}

impl Scalars<'_> {
    fn all(scalars: DeviceSlice<Canonical>) -> Self {
        Self { scalars, index: None }
    }

    fn len(&self) -> usize {
        self.index.map_or(self.scalars.len(), <[u32]>::len)
    }
}

struct Run<'a, Q> {
    queue: &'a Q,
    multiprocessors: u32,
    layout: &'a Layout,
    space: Space,
}

impl<Q: Queue> Run<'_, Q> {
    /// Columns of A and of B at τ, and (β·u + α·v + w) over γ or δ, of all variables.
    ///
    /// # Safety
    /// The space's memory is this run's alone.
    unsafe fn columns(
        &mut self,
        circuit: &Circuit,
        domain: &Domain,
        trapdoor: &Trapdoor,
    ) -> Result<[DeviceSlice<Canonical>; 3], SetupError> {
        let layout = self.layout;
        let variables = circuit.num_variables() as u64;
        let table = circuit.coefficients();
        let coefficients = self.space.claim::<Fr>(layout.coefficients, table.len() as u64)?;
        let mut claim = |slot| self.space.claim::<Canonical>(slot, variables);
        let columns = [claim(layout.columns[0])?, claim(layout.columns[1])?, claim(layout.columns[2])?];
        let size = domain.size() as u64;
        let lagrange = self.space.claim::<Canonical>(layout.lagrange, size)?;
        let sums = self.space.claim::<[u64; LIMBS as usize]>(layout.sums, variables)?;
        let values = LagrangeArgs {
            squares: FrArg::squares(domain.generator()),
            one: FrArg::montgomery(Fr::ONE),
            tau: FrArg::montgomery(trapdoor.tau),
            factor: FrArg::montgomery(trapdoor.vanishing * Fr::from_u64(size).inverse().unwrap_or_default()),
            out: lagrange.address(),
            count: size,
        };
        // SAFETY: the caller's promise; slices are as long as the arguments say.
        unsafe {
            self.queue.upload(coefficients, table)?;
            launch(self.queue, "cuzk_setup_lagrange", Grid::covering(size, THREADS, 1)?, &values)?;
            let c = circuit.c().ok_or(KeyError::NoC)?;
            for (matrix, out) in [circuit.a(), circuit.b(), c].into_iter().zip(columns) {
                let matrix = self.matrix(matrix)?;
                self.queue.fill(sums, 0)?;
                let add = ColumnsArgs {
                    matrix: matrix.arg(DeviceSlice::empty())?,
                    coefficients: coefficients.address(),
                    lagrange: lagrange.address(),
                    sums: sums.address(),
                };
                let grid = Grid::covering(matrix.rows * WARP, THREADS, 1)?;
                launch(self.queue, "cuzk_setup_columns", grid, &add)?;
                let reduce = ReduceArgs {
                    sums: sums.address(),
                    out: out.address(),
                    one: FrArg::montgomery(Fr::ONE),
                    radix: FrArg::product_scale(Fr::ONE),
                    count: variables,
                };
                launch(self.queue, "cuzk_setup_reduce", Grid::covering(variables, THREADS, 1)?, &reduce)?;
                self.queue.finish()?;
                layout.matrix.into_iter().for_each(|slot| self.space.release(slot));
            }
            self.space.release(layout.lagrange);
            self.space.release(layout.sums);
            let [u, v, w] = columns;
            let combine = CombineArgs {
                u: u.address(),
                v: v.address(),
                w: w.address(),
                alpha: FrArg::montgomery(trapdoor.alpha),
                beta: FrArg::montgomery(trapdoor.beta),
                over_gamma: FrArg::montgomery(trapdoor.gamma_inverse),
                over_delta: FrArg::montgomery(trapdoor.delta_inverse),
                num_inputs: circuit.num_inputs() as u64,
                count: variables,
            };
            launch(self.queue, "cuzk_setup_combine", Grid::covering(variables, THREADS, 1)?, &combine)?;
        }
        Ok(columns)
    }

    /// Copies a matrix to the device.
    ///
    /// # Safety
    /// As for [`Self::columns`].
    unsafe fn matrix(&mut self, matrix: &Matrix) -> Result<DeviceMatrix, SetupError> {
        let [offsets, columns, indices] = self.layout.matrix;
        let uploaded = DeviceMatrix {
            offsets: self.space.claim(offsets, matrix.offset_bytes().len() as u64)?,
            columns: self.space.claim(columns, matrix.columns().len() as u64)?,
            indices: self.space.claim(indices, matrix.index_bytes().len() as u64)?,
            segments: DeviceSlice::empty(),
            long_rows: DeviceSlice::empty(),
            segment_sums: DeviceSlice::empty(),
            rows: matrix.rows() as u64,
            first_entry: 0,
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.queue.upload(uploaded.offsets, matrix.offset_bytes())?;
            self.queue.upload(uploaded.columns, matrix.columns())?;
            self.queue.upload(uploaded.indices, matrix.index_bytes())?;
        }
        Ok(uploaded)
    }

    /// The scalars of h: τⁱ·t(τ)/δ, one less than the domain has points.
    ///
    /// # Safety
    /// As for [`Self::columns`].
    unsafe fn powers(
        &mut self,
        domain: &Domain,
        trapdoor: &Trapdoor,
    ) -> Result<DeviceSlice<Canonical>, SetupError> {
        let count = domain.size() as u64 - 1;
        let out = self.space.claim::<Canonical>(self.layout.h, count)?;
        let args = PowersArgs {
            squares: FrArg::squares(trapdoor.tau),
            first: FrArg::montgomery(trapdoor.vanishing * trapdoor.delta_inverse),
            out: out.address(),
            count,
        };
        // SAFETY: the caller's promise.
        unsafe { launch(self.queue, "cuzk_setup_powers", Grid::covering(count, THREADS, 1)?, &args) }?;
        Ok(out)
    }

    /// The table of a generator's multiples: the host's or, where that is too narrow, a wider one made with it.
    ///
    /// # Safety
    /// As for [`Self::columns`].
    unsafe fn table<C: DeviceCurve>(&mut self, width: u32) -> Result<Table, SetupError> {
        let layout = self.layout;
        let host = FixedBase::<C>::with_bits(FIRST_WIDTH).table();
        if width == FIRST_WIDTH {
            let table = self.space.claim::<C::Affine>(layout.table, host.len() as u64)?;
            // SAFETY: the caller's promise.
            unsafe { self.queue.upload(table, &host) }?;
            return Ok(Table { address: table.address(), width });
        }
        let first = self.space.claim::<C::Affine>(layout.first_table, host.len() as u64)?;
        let count = SCALAR_BITS.div_ceil(width) << width;
        let scalars = self.space.claim::<[u64; 4]>(layout.table_scalars, count.into())?;
        let target = self.space.claim::<C::Affine>(layout.table, count.into())?;
        let bad = self.space.claim::<u64>(layout.bad, 1)?;
        let scratch = self.scratch()?;
        let made = Table { address: first.address(), width: FIRST_WIDTH };
        // Digit d of window w. Some of the last window's pass 255 bits: no scalar has them.
        let digits: Vec<[u64; 4]> =
            (0..count).map(|i| shifted((i % (1 << width)).into(), i / (1 << width) * width)).collect();
        // SAFETY: the caller's promise.
        unsafe {
            self.queue.upload(first, &host)?;
            self.queue.upload(scalars, &digits)?;
            // Digits of 0 are at infinity; that index is not looked at.
            self.queue.upload(bad, &[u64::MAX])?;
            let args = MultiplesArgs {
                scalars: scalars.address(),
                out: target.address(),
                count: count.into(),
                ..made.args(scratch, bad)
            };
            let grid = points::batch_grid::<C>(self.multiprocessors, count.into())?;
            launch(self.queue, C::KERNELS.setup, grid, &args)?;
            self.queue.finish()?;
        }
        for slot in [layout.first_table, layout.table_scalars, layout.bad, layout.scratch] {
            self.space.release(slot);
        }
        Ok(Table { address: target.address(), width })
    }

    fn scratch(&mut self) -> Result<DeviceSlice<u8>, GpuError> {
        self.space.claim(self.layout.scratch, points::multiples_scratch_bytes(self.multiprocessors))
    }

    /// The generator times every scalar, on the host.
    ///
    /// # Safety
    /// As for [`Self::columns`]; indices are below the scalars' number.
    unsafe fn multiples<C: DeviceCurve>(
        &mut self,
        table: &Table,
        query: &'static str,
        all: Scalars<'_>,
    ) -> Result<Vec<C::Affine>, SetupError> {
        let layout = self.layout;
        let bad = self.space.claim::<u64>(layout.bad, 1)?;
        let scratch = self.scratch()?;
        let count = all.len();
        let mut found = Vec::with_capacity(count);
        touch::<C::Affine>(&mut found);
        // SAFETY: the caller's promise.
        unsafe { self.queue.upload(bad, &[u64::MAX]) }?;
        let mut first = 0;
        while first < count {
            let range = first..count.min(first + PIECE as usize);
            let length = range.len() as u64;
            let points = self.space.claim::<C::Affine>(layout.points, length)?;
            let place = self.space.claim::<u32>(layout.index, length)?;
            // SAFETY: the caller's promise.
            unsafe {
                let (scalars, index) = match all.index {
                    None => (part(all.scalars, range)?, 0),
                    Some(index) => {
                        self.queue.upload(place, &index[range])?;
                        (all.scalars, place.address())
                    }
                };
                let args = MultiplesArgs {
                    scalars: scalars.address(),
                    index,
                    out: points.address(),
                    count: length,
                    first: first as u64,
                    ..table.args(scratch, bad)
                };
                let grid = points::batch_grid::<C>(self.multiprocessors, length)?;
                launch(self.queue, C::KERNELS.setup, grid, &args)?;
                self.queue.append(points, &mut found)?;
            }
            self.space.release(layout.points);
            self.space.release(layout.index);
            first += length as usize;
        }
        // SAFETY: the caller's promise.
        let infinite = unsafe { self.queue.download(bad) }?;
        self.space.release(layout.bad);
        self.space.release(layout.scratch);
        match infinite.first() {
            Some(&index) if index != u64::MAX => Err(KeyError::Infinity { query, index }.into()),
            _ => Ok(found),
        }
    }
}

impl Table {
    /// Arguments without the scalars, the points and their number.
    fn args(&self, scratch: DeviceSlice<u8>, bad: DeviceSlice<u64>) -> MultiplesArgs {
        MultiplesArgs {
            table: self.address,
            scalars: 0,
            index: 0,
            out: 0,
            scratch: scratch.address(),
            bad: bad.address(),
            count: 0,
            first: 0,
            width: self.width,
            windows: SCALAR_BITS.div_ceil(self.width),
            batch: points::BATCH,
            _padding: 0,
        }
    }
}

/// v · 2^bits mod 2^256.
fn shifted(v: u64, bits: u32) -> [u64; 4] {
    let (limb, bits) = ((bits / 64) as usize, bits % 64);
    let wide = u128::from(v) << bits;
    let mut limbs = [0; 4];
    for (place, part) in limbs.iter_mut().skip(limb).zip([wide as u64, (wide >> 64) as u64]) {
        *place = part;
    }
    limbs
}

/// Makes the memory that a vector has reserved present, in parallel: one copy from a device would meet its
/// pages one by one.
fn touch<T: Default + Send>(reserved: &mut Vec<T>) {
    let per_page = (PAGE / size_of::<T>()).max(1);
    reserved.spare_capacity_mut().par_chunks_mut(TOUCHED_AT_ONCE).for_each(|places| {
        for place in places.iter_mut().step_by(per_page) {
            place.write(T::default());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_shifted_to_their_window() {
        assert_eq!(shifted(5, 0), [5, 0, 0, 0]);
        assert_eq!(shifted(0xffff, 56), [0xff << 56, 0xff, 0, 0]);
        assert_eq!(shifted(3, 191), [0, 0, 1 << 63, 1]);
        assert_eq!(shifted(0xffff, 240), [0, 0, 0, 0xffff << 48]);
        assert_eq!(shifted(7, 254), [0, 0, 0, 3 << 62]);
    }
}
