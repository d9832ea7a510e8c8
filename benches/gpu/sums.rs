//! Multi-exponentiations, resident, each compared with the sum that the points' logarithms give.
use crate::{
    machine::{Machine, RUNS, mostly_bits, scalars},
    table::{self, Figures},
};
use cuzk::{
    algebra::{Canonical, Fr},
    gpu::{
        GpuError, Grid, Launcher,
        driver::{Event, Stream},
        msm::{Chunk, Msm},
        msm_plan::{MsmPlan, MsmSize},
        points::DeviceCurve,
    },
};
use rayon::prelude::*;
use std::{cell::RefCell, collections::BTreeMap, error::Error, ffi::c_void};

/// A stream that notes the time of every launch.
struct Timed<'a> {
    stream: &'a Stream,
    launches: RefCell<Vec<(&'static str, Event, Event)>>,
}

impl Launcher for Timed<'_> {
    unsafe fn launch_raw(
        &self,
        kernel: &'static str,
        grid: Grid,
        args: *const c_void,
        args_bytes: usize,
    ) -> Result<(), GpuError> {
        let start = self.stream.record()?;
        // SAFETY: the caller's promise.
        unsafe { self.stream.launch_raw(kernel, grid, args, args_bytes)? };
        self.launches.borrow_mut().push((kernel, start, self.stream.record()?));
        Ok(())
    }
}

impl Timed<'_> {
    /// What each kernel took.
    fn print(&self) -> Result<(), GpuError> {
        let mut shares: BTreeMap<&str, (u32, f32)> = BTreeMap::new();
        for (kernel, start, end) in self.launches.borrow().iter() {
            let share = shares.entry(kernel).or_default();
            *share = (share.0 + 1, share.1 + end.milliseconds_since(start)?);
        }
        for (kernel, (launches, ms)) in shares {
            println!("    {kernel}: {launches} launches, {ms:.2} ms");
        }
        Ok(())
    }
}

pub fn measure<C: DeviceCurve>(
    machine: &Machine,
    log_size: u32,
    kernels: bool,
) -> Result<(), Box<dyn Error>> {
    let count = 1usize << log_size;
    let stream = &*machine.stream;
    let mut buffers = machine.buffers();
    let (points, logs) = buffers.points::<C>(count)?;
    let scalars_slice = buffers.alloc::<Canonical>("scalars", count)?;
    let size = MsmSize { points: count as u64, at_once: count as u64, multiples: None };
    let plan = MsmPlan::<C>::new(size, machine.device(buffers.free()))?;
    let memory = buffers.alloc::<u8>("working memory", plan.num_bytes() as usize)?;
    let results = buffers.alloc("results", plan.results())?;
    let in_g2 = C::LANES > 1;
    let uniform: Figures = if in_g2 { table::SPPARK_G2 } else { table::SPPARK_G1 };
    let windows = plan.windows();
    for (name, values, peer) in [("uniform", scalars(count), uniform), ("98 % bits", mostly_bits(count), &[])]
    {
        // SAFETY: slices of the arena, in one stream.
        unsafe { stream.upload(scalars_slice, &values) }?;
        let all = Chunk { points, table_stride: 0, scalars: scalars_slice, index: None };
        // SAFETY: as above.
        let ms = machine.time(|| unsafe { Msm::new(&plan, stream, memory)?.run(&all, results) })?;
        // SAFETY: as above.
        let found = plan.combine(&unsafe { stream.download(results)? })?;
        let log = values.par_iter().zip(&logs).map(|(&s, &l)| Fr::from_canonical(s) * l);
        let log = log.reduce(|| Fr::ZERO, |a, b| a + b);
        if found != C::mul(&C::to_projective(&C::generator()), &log) {
            return Err(format!("the sum over 2^{log_size} points of {} ({name}) is wrong", C::NAME).into());
        }
        let ones = values.par_iter().filter(|value| **value == Canonical::ONE).count();
        let zeros = values.par_iter().filter(|value| **value == Canonical::ZERO).count();
        let floor = table::sum((count - ones - zeros) as f64, ones as f64, in_g2);
        let step = format!("{} sum, {name}, {} windows of {}", C::NAME, windows.count(), windows.width);
        table::print_row(&step, log_size, ms, floor, peer);
        if kernels {
            let timed = Timed { stream, launches: RefCell::default() };
            // SAFETY: as above.
            unsafe { Msm::new(&plan, &timed, memory)?.run(&all, results)? };
            stream.synchronize()?;
            println!("    one of {} runs, in {:.2} GB:", RUNS + 3, plan.num_bytes() as f64 / 1e9);
            timed.print()?;
        }
    }
    Ok(())
}
