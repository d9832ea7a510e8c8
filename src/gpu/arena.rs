//! One allocation of device memory, handed out as a plan says.
//!
//! A region is in use from its claim to its drop, on the device until the work that its streams had by then
//! is over: whoever claims the same bytes afterwards has their stream wait for that work.
use super::{
    DeviceSlice, GpuError,
    driver::{Context, DeviceMemory, Event, Stream},
    plan::{Ledger, Slot},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The arena of a device.
pub struct Arena {
    memory: DeviceMemory,
    ledger: Mutex<Ledger<Arc<Event>>>,
}

impl Arena {
    /// Allocates the arena.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Arc<Self>, GpuError> {
        let memory = DeviceMemory::new(context, bytes)?;
        Ok(Arc::new(Self { memory, ledger: Mutex::new(Ledger::new(bytes)) }))
    }

    /// Its size in bytes.
    pub fn capacity(&self) -> u64 {
        self.memory.num_bytes()
    }

    /// Claims a planned buffer for work in `stream`.
    pub fn claim(self: &Arc<Self>, slot: Slot, stream: &Arc<Stream>) -> Result<Region, GpuError> {
        let waits = {
            let mut ledger = self.ledger();
            ledger.sweep(|event| event.is_over());
            ledger.claim(slot)?
        };
        let region = Region { arena: self.clone(), slot, streams: vec![stream.clone()] };
        for event in waits {
            stream.wait(&event)?;
        }
        Ok(region)
    }

    /// The highest byte ever claimed, to be compared with the plan's.
    pub fn peak(&self) -> u64 {
        self.ledger().peak()
    }

    /// Refuses a peak other than the planned one: the plan was not the computation's.
    pub fn check_peak(&self, planned: u64) -> Result<(), GpuError> {
        match self.peak() {
            found if found == planned => Ok(()),
            found => Err(GpuError::Peak { found, wanted: planned }),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger<Arc<Event>>> {
        // The ledger's operations do not panic half-way.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer in an arena.
pub struct Region {
    arena: Arc<Arena>,
    slot: Slot,
    streams: Vec<Arc<Stream>>,
}

impl Region {
    /// The first `len` values of the buffer, in device memory for as long as this region lives and after
    /// that until the work in its streams is over.
    pub fn slice<T>(&self, len: usize) -> Result<DeviceSlice<T>, GpuError> {
        let most = self.slot.num_bytes() / size_of::<T>() as u64;
        if len as u64 > most {
            return Err(GpuError::Length { what: self.slot.name(), found: most, wanted: len as u64 });
        }
        // SAFETY: the slot lies in the arena, and it holds that many values; buffers are aligned to 256 bytes.
        Ok(unsafe { DeviceSlice::from_raw(self.arena.memory.address() + self.slot.offset(), len) })
    }

    /// Says that another stream works on it too, which the region's end then waits for. The caller orders
    /// that stream after the claim.
    pub fn used_by(&mut self, stream: &Arc<Stream>) {
        self.streams.push(stream.clone());
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let ends: Result<Vec<_>, GpuError> =
            self.streams.iter().map(|stream| stream.record().map(Arc::new)).collect();
        // A stream that takes no event has lost its device: then the region stays claimed for good.
        if let Ok(ends) = ends {
            self.arena.ledger().release(self.slot, ends);
        }
    }
}
