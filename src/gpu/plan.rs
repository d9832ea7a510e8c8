//! Memory plans: where every buffer of a computation will lie in one arena, decided before anything runs.
//!
//! A dry run claims and releases buffers in the order of the computation; [`Planner`] gives each the lowest
//! place that is free and knows the peak. When the computation runs, [`Ledger`] watches that it claims
//! what was planned: it refuses overlaps, and says which earlier uses of the same bytes have to end first.
use super::GpuError;

/// Buffers start at multiples of this many bytes.
pub const ALIGNMENT: u64 = 256;

/// A buffer's place in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    name: &'static str,
    offset: u64,
    bytes: u64,
}

impl Slot {
    /// What it is for.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Bytes from the arena's start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its size.
    pub fn num_bytes(&self) -> u64 {
        self.bytes
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    fn overlaps(&self, other: &Slot) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// A dry run over an arena of unknown size.
#[derive(Default)]
pub struct Planner {
    /// By offset.
    live: Vec<Slot>,
    peak: u64,
}

impl Planner {
    /// Nothing claimed.
    pub fn new() -> Self {
        Self::default()
    }

    /// A place for `len` values of `T`, from here until it is released.
    pub fn claim<T>(&mut self, name: &'static str, len: u64) -> Result<Slot, GpuError> {
        let bytes =
            len.checked_mul(size_of::<T>() as u64).and_then(|b| b.checked_next_multiple_of(ALIGNMENT));
        let too_large = || GpuError::TooLarge { what: name, found: len, wanted: i64::MAX as u64 };
        let bytes = bytes.filter(|&b| b <= i64::MAX as u64).ok_or_else(too_large)?;
        let mut offset = 0u64;
        let mut index = 0;
        while let Some(next) = self.live.get(index) {
            if offset.checked_add(bytes).ok_or_else(too_large)? <= next.offset {
                break;
            }
            offset = next.end();
            index += 1;
        }
        let end = offset.checked_add(bytes).ok_or_else(too_large)?;
        let slot = Slot { name, offset, bytes };
        self.live.insert(index, slot);
        self.peak = self.peak.max(end);
        Ok(slot)
    }

    /// Ends a buffer's life.
    pub fn release(&mut self, slot: Slot) {
        self.live.retain(|s| *s != slot);
    }

    /// Claims a released buffer's place for it again.
    pub fn claim_again(&mut self, slot: Slot) -> Result<(), GpuError> {
        if let Some(found) = self.live.iter().find(|s| s.overlaps(&slot)) {
            return Err(GpuError::Overlap { found: found.name.into(), wanted: slot.name.into() });
        }
        let index = self.live.partition_point(|s| s.offset < slot.offset);
        self.live.insert(index, slot);
        Ok(())
    }

    /// Bytes that an arena must have.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}

/// What is claimed of an arena while a plan is carried out. `E` stands for the end of a use, on the device
/// an event.
pub struct Ledger<E> {
    capacity: u64,
    live: Vec<Slot>,
    /// Released, but work that was enqueued before may still use it.
    ending: Vec<(Slot, Vec<E>)>,
    peak: u64,
}

impl<E: Clone> Ledger<E> {
    /// Of an arena of this many bytes.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, live: Vec::new(), ending: Vec::new(), peak: 0 }
    }

    /// Claims `slot` and hands over the ends of earlier uses that the claimant has to wait for.
    pub fn claim(&mut self, slot: Slot) -> Result<Vec<E>, GpuError> {
        if slot.end() > self.capacity {
            let (found, wanted) = (self.capacity, slot.end());
            return Err(GpuError::OutOfMemory { what: slot.name.into(), found, wanted });
        }
        if let Some(found) = self.live.iter().find(|s| s.overlaps(&slot)) {
            return Err(GpuError::Overlap { found: found.name.into(), wanted: slot.name.into() });
        }
        // Where only a part is claimed, the claimant waits for the whole, and so does whoever claims the rest.
        let mut waits = Vec::new();
        self.ending.retain(|(ended, ends)| {
            if !ended.overlaps(&slot) {
                return true;
            }
            waits.extend(ends.iter().cloned());
            ended.offset < slot.offset || slot.end() < ended.end()
        });
        self.live.push(slot);
        self.peak = self.peak.max(slot.end());
        Ok(waits)
    }

    /// Releases `slot`, whose uses end with `ends`.
    pub fn release(&mut self, slot: Slot, ends: Vec<E>) {
        if let Some(i) = self.live.iter().position(|s| *s == slot) {
            self.live.swap_remove(i);
            self.ending.push((slot, ends));
        }
    }

    /// Forgets ended uses that `ended` says are over.
    pub fn sweep(&mut self, ended: impl Fn(&E) -> bool) {
        self.ending.retain(|(_, ends)| !ends.iter().all(&ended));
    }

    /// The highest end of a buffer so far.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_the_lowest_gap() {
        let mut plan = Planner::new();
        let a = plan.claim::<u8>("a", 1000).unwrap();
        let b = plan.claim::<u64>("b", 32).unwrap();
        let c = plan.claim::<u8>("c", 1).unwrap();
        assert_eq!((a.offset(), b.offset(), c.offset()), (0, 1024, 1280));
        assert_eq!(plan.peak(), 1536);
        // A released place is to be had again, once.
        plan.release(b);
        plan.claim_again(b).unwrap();
        assert!(matches!(plan.claim_again(b), Err(GpuError::Overlap { .. })));
        plan.release(a);
        // Too large for the gap; then one that fits.
        assert_eq!(plan.claim::<u8>("d", 1025).unwrap().offset(), 1536);
        assert_eq!(plan.claim::<u8>("e", 1024).unwrap().offset(), 0);
        plan.release(c);
        plan.release(b);
        assert_eq!(plan.claim::<u8>("f", 512).unwrap().offset(), 1024);
        assert_eq!(plan.peak(), 1536 + 1280);
        // Nothing takes no place, and absurd sizes are refused, not wrapped.
        assert_eq!(plan.claim::<u8>("g", 0).unwrap().num_bytes(), 0);
        assert!(plan.claim::<u64>("h", u64::MAX / 4).is_err());
        assert!(plan.claim::<u8>("i", u64::MAX - 10).is_err());
    }

    #[test]
    fn the_ledger_refuses_what_is_not_free() {
        let mut plan = Planner::new();
        let a = plan.claim::<u8>("a", 512).unwrap();
        let b = plan.claim::<u8>("b", 512).unwrap();
        plan.release(a);
        let c = plan.claim::<u8>("c", 256).unwrap();
        let mut ledger = Ledger::new(plan.peak());
        assert_eq!(ledger.claim(a).unwrap(), Vec::<u32>::new());
        ledger.claim(b).unwrap();
        assert_eq!(ledger.claim(c).unwrap_err(), GpuError::Overlap { found: "a".into(), wanted: "c".into() });
        // The successor in the same bytes waits for their last use.
        ledger.release(a, vec![7]);
        assert_eq!(ledger.claim(c).unwrap(), [7]);
        assert_eq!(ledger.peak(), plan.peak());
        // Once over, uses keep nobody waiting.
        ledger.release(c, vec![8]);
        ledger.sweep(|end| [7, 8].contains(end));
        assert_eq!(ledger.claim(a).unwrap(), Vec::<u32>::new());
        // Whoever claims the rest of a use's bytes waits for it too, also after another has claimed a part.
        let rest = Slot { name: "rest", offset: 256, bytes: 256 };
        let mut ledger = Ledger::new(plan.peak());
        ledger.claim(a).unwrap();
        ledger.release(a, vec![9]);
        assert_eq!(ledger.claim(c).unwrap(), [9]);
        assert_eq!(ledger.claim(rest).unwrap(), [9]);
        let small = Ledger::<u32>::new(256).claim(a).unwrap_err();
        assert_eq!(small, GpuError::OutOfMemory { what: "a".into(), found: 256, wanted: 512 });
    }

    proptest::proptest! {
        #[test]
        fn plans_never_overlap(sizes in proptest::collection::vec((0u64..5000, 0usize..8), 1..60)) {
            let mut plan = Planner::new();
            let mut live: Vec<Slot> = Vec::new();
            let mut ledger = Ledger::<()>::new(u64::MAX);
            for (bytes, drop) in sizes {
                let slot = plan.claim::<u8>("x", bytes).unwrap();
                // The ledger agrees that it is free.
                ledger.claim(slot).unwrap();
                assert!(slot.end() <= plan.peak());
                live.push(slot);
                if drop < live.len() {
                    let old = live.swap_remove(drop);
                    plan.release(old);
                    ledger.release(old, vec![]);
                }
            }
            assert_eq!(ledger.peak(), plan.peak());
        }
    }
}
