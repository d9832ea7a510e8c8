//! Locks on the pages of witness memory: with them a device copies a witness by itself, straight from where
//! its submitter has written it. Locking takes a while, so that a lock stays for as long as the mapping.
use std::{
    any::Any,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Bytes that are locked, of all mappings.
static LOCKED: AtomicU64 = AtomicU64::new(0);

/// Bytes of witness memory that are locked.
pub fn locked_bytes() -> u64 {
    LOCKED.load(Ordering::Relaxed)
}

/// What keeps pages locked until it is dropped.
pub struct HeldPages {
    bytes: u64,
    _lock: Box<dyn Any + Send + Sync>,
}

impl HeldPages {
    /// So many bytes are locked by this.
    pub fn new(bytes: u64, lock: impl Any + Send + Sync) -> Self {
        LOCKED.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, _lock: Box::new(lock) }
    }
}

impl Drop for HeldPages {
    fn drop(&mut self) {
        LOCKED.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The lock on a mapping's pages. Its owner drops it before it unmaps them.
#[derive(Default)]
pub struct PageLock(OnceLock<Option<HeldPages>>);

impl PageLock {
    /// Whether the pages are locked. The first call has `lock` try that; a refusal is for good.
    pub fn is_held(&self, lock: impl FnOnce() -> Option<HeldPages>) -> bool {
        self.0.get_or_init(lock).is_some()
    }

    /// Unlocks the pages.
    pub fn release(&mut self) {
        self.0.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn pages_are_locked_once_and_until_the_end() {
        let pages = Arc::new(());
        let mut lock = PageLock::default();
        let held = pages.clone();
        assert!(lock.is_held(|| Some(HeldPages::new(4096, held))));
        assert!(lock.is_held(|| panic!("they are locked")));
        assert_eq!(Arc::strong_count(&pages), 2);
        lock.release();
        assert_eq!(Arc::strong_count(&pages), 1);
        assert!(!lock.is_held(|| None));
        assert!(!lock.is_held(|| panic!("it was refused")));
    }
}
