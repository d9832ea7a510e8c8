//! A plan's memory while it is carried out: hands out the plan's buffers and refuses any departure from it.
//!
//! The plan sees one arena; its memory comes in two parts that may lie anywhere, so that circuits which are
//! on a device together each keep what is resident, and share the rest.
use super::{
    DeviceSlice, GpuError,
    plan::{Ledger, Slot},
};

/// Device memory that one queue alone works in, so that the order of claims is the order of uses.
pub struct Space {
    resident: DeviceSlice<u8>,
    work: DeviceSlice<u8>,
    ledger: Ledger<()>,
}

impl Space {
    /// The plan's first bytes are `resident`, the others `work`; nothing is claimed.
    pub fn new(resident: DeviceSlice<u8>, work: DeviceSlice<u8>) -> Self {
        let capacity = resident.len() as u64 + work.len() as u64;
        Self { resident, work, ledger: Ledger::new(capacity) }
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
        let end = slot.offset() + slot.num_bytes();
        let (part, offset) = match slot.offset().checked_sub(self.resident.len() as u64) {
            Some(offset) => (self.work, offset),
            None if end <= self.resident.len() as u64 => (self.resident, slot.offset()),
            None => {
                let (found, wanted) = (self.resident.len() as u64, end);
                return Err(GpuError::OutOfMemory { what: slot.name().into(), found, wanted });
            }
        };
        // SAFETY: the ledger has checked that the slot lies in the memory, it lies in one part of it, and it
        // holds that many values; all begin at multiples of at least 16 bytes. The length fits: the part's does.
        Ok(unsafe { DeviceSlice::from_raw(part.address() + offset, len as usize) })
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

    /// Memory that nothing uses.
    fn memory(address: u64, bytes: u64) -> DeviceSlice<u8> {
        // SAFETY: nobody accesses it.
        unsafe { DeviceSlice::from_raw(address, bytes as usize) }
    }

    #[test]
    fn buffers_lie_where_the_plan_says() {
        let mut plan = Planner::new();
        let a = plan.claim::<u64>("a", 40).unwrap();
        let b = plan.claim::<u8>("b", 10).unwrap();
        let mut space = Space::new(DeviceSlice::empty(), memory(1 << 20, plan.peak()));
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
        let mut small = Space::new(memory(1 << 20, 512), DeviceSlice::empty());
        assert!(matches!(small.claim::<u8>(b, 1), Err(GpuError::OutOfMemory { .. })));
    }

    #[test]
    fn resident_and_other_buffers_lie_apart() {
        let mut plan = Planner::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| plan.claim::<u8>(name, 256).unwrap());
        let mut space = Space::new(memory(1 << 30, 512), memory(1 << 20, 256));
        let addresses = [a, b, c].map(|slot| space.claim::<u8>(slot, 256).unwrap().address());
        assert_eq!(addresses, [1 << 30, (1 << 30) + 256, 1 << 20]);
        // A buffer may not lie in both.
        let mut cut = Space::new(memory(1 << 30, 256 + 128), memory(1 << 20, 1 << 10));
        cut.claim::<u8>(a, 1).unwrap();
        assert!(matches!(cut.claim::<u8>(b, 1), Err(GpuError::OutOfMemory { .. })));
    }
}
