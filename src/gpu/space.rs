//! An arena while a plan is carried out: hands out the plan's buffers and refuses any departure from it.
use super::{
    DeviceSlice, GpuError,
    plan::{Ledger, Slot},
};

/// Device memory that one queue alone works in, so that the order of claims is the order of uses.
pub struct Space {
    memory: DeviceSlice<u8>,
    ledger: Ledger<()>,
}

impl Space {
    /// All of `memory`, nothing claimed.
    pub fn new(memory: DeviceSlice<u8>) -> Self {
        Self { memory, ledger: Ledger::new(memory.len() as u64) }
    }

    /// Claims a planned buffer; its first `len` values.
    pub fn claim<T>(&mut self, slot: Slot, len: u64) -> Result<DeviceSlice<T>, GpuError> {
        self.ledger.claim(slot)?;
        self.slice(slot, len)
    }

    /// The first `len` values of a buffer that is claimed.
    pub fn slice<T>(&self, slot: Slot, len: u64) -> Result<DeviceSlice<T>, GpuError> {
        let found = slot.num_bytes() / size_of::<T>() as u64;
        if len > found {
            return Err(GpuError::Length { what: slot.name(), found, wanted: len });
        }
        // SAFETY: the ledger has checked that the slot lies in the memory, and it holds that many values;
        // both begin at multiples of at least 16 bytes. The length fits: the memory's does.
        Ok(unsafe { DeviceSlice::from_raw(self.memory.address() + slot.offset(), len as usize) })
    }

    /// Ends a buffer's use.
    pub fn release(&mut self, slot: Slot) {
        self.ledger.release(slot, Vec::new());
        self.ledger.sweep(|()| true);
    }

    /// The highest byte ever claimed.
    pub fn peak(&self) -> u64 {
        self.ledger.peak()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::plan::Planner;

    #[test]
    fn buffers_lie_where_the_plan_says() {
        let mut plan = Planner::new();
        let a = plan.claim::<u64>("a", 40).unwrap();
        let b = plan.claim::<u8>("b", 10).unwrap();
        // SAFETY: an address that nothing uses.
        let mut space = Space::new(unsafe { DeviceSlice::from_raw(1 << 20, plan.peak() as usize) });
        let values = space.claim::<u64>(a, 40).unwrap();
        assert_eq!((values.address(), values.len()), (1 << 20, 40));
        assert!(matches!(space.claim::<u64>(a, 1), Err(GpuError::Overlap { .. })));
        let longer = space.slice::<u64>(a, 65).err();
        assert_eq!(longer, Some(GpuError::Length { what: "a", found: 64, wanted: 65 }));
        space.release(a);
        space.claim::<u64>(a, 1).unwrap();
        assert_eq!(space.peak(), 512);
        let values = space.claim::<u8>(b, 3).unwrap();
        assert_eq!((values.address(), space.peak()), ((1 << 20) + 512, plan.peak()));
        // SAFETY: as above.
        let mut small = Space::new(unsafe { DeviceSlice::from_raw(1 << 20, 512) });
        assert!(matches!(small.claim::<u8>(b, 1), Err(GpuError::OutOfMemory { .. })));
    }
}
