//! Witness memory that the daemon has lent to a connection. A lease is used by at most one partition at a
//! time, and is free again when that use is dropped.
use super::{
    budget::Reservation,
    instruments::{Activity, Writing},
    pages::PageLock,
    users::Charge,
};
use crate::proto::{ErrorCode, ProtocolError};
use crate::shm::LeasedBuffer;
use std::{
    any::Any,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// One lease. It ends when its connection and the partition that uses it have let go of it.
pub struct Lease {
    id: u64,
    pages: PageLock,
    buffer: LeasedBuffer,
    in_use: AtomicBool,
    given_back: AtomicBool,
    holder: Mutex<Holder>,
    activity: Option<Activity>,
    /// The memory is also in the store, from where another process may read it.
    stored: AtomicBool,
    /// Held, so that the circuit cannot make room for others while a witness is made for it.
    _circuit: Arc<dyn Any + Send + Sync>,
    _reservation: Reservation,
    _charge: Charge,
}

/// What is known of the client that has the memory.
#[derive(Default)]
struct Holder {
    /// When it asked for the memory, and when it got it; taken by the first use.
    waited: Option<(Instant, Instant)>,
    /// While no partition uses the memory.
    writing: Option<Writing>,
}

impl Lease {
    /// Makes the memory that the reservation and the charge pay for: at least `length` bytes, for a
    /// witness of `circuit`.
    ///
    /// # Errors
    /// The system has no more memory files.
    pub fn create(
        id: u64,
        length: u64,
        circuit: Arc<dyn Any + Send + Sync>,
        reservation: Reservation,
        charge: Charge,
        (asked, activity): (Instant, &Activity),
    ) -> io::Result<Arc<Self>> {
        let buffer = LeasedBuffer::create(length)?;
        let writing = Some(activity.write(buffer.size()));
        let holder = Holder { waited: Some((asked, Instant::now())), writing };
        Ok(Self::of(buffer, id, circuit, (reservation, charge), holder, Some(activity.clone())))
    }

    /// The memory of a lease that an earlier process has left. It is no connection's, and so has no name.
    pub fn restored(
        buffer: LeasedBuffer,
        circuit: Arc<dyn Any + Send + Sync>,
        reservation: Reservation,
        charge: Charge,
    ) -> Arc<Self> {
        Self::of(buffer, 0, circuit, (reservation, charge), Holder::default(), None)
    }

    fn of(
        buffer: LeasedBuffer,
        id: u64,
        circuit: Arc<dyn Any + Send + Sync>,
        (reservation, charge): (Reservation, Charge),
        holder: Holder,
        activity: Option<Activity>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            pages: PageLock::default(),
            buffer,
            in_use: AtomicBool::new(false),
            given_back: AtomicBool::new(false),
            holder: Mutex::new(holder),
            activity,
            stored: AtomicBool::new(false),
            _circuit: circuit,
            _reservation: reservation,
            _charge: charge,
        })
    }

    /// Names the lease on its connection.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The memory.
    pub fn buffer(&self) -> &LeasedBuffer {
        &self.buffer
    }

    /// Its holder has no more use for the memory: with the last hold on the lease the pages are freed, even
    /// while the holder still maps them, so that what the budget calls free is free.
    pub fn give_back(&self) {
        self.given_back.store(true, Ordering::Release);
    }

    /// Takes the lease for one partition.
    ///
    /// # Errors
    /// `LeaseInUse`.
    pub fn use_it(self: &Arc<Self>) -> Result<LeaseUse, ProtocolError> {
        if self.in_use.swap(true, Ordering::AcqRel) {
            let message = format!("lease {} holds the witness of a partition that is not finished", self.id);
            return Err(ProtocolError::new(ErrorCode::LeaseInUse, message));
        }
        let waited = {
            let mut holder = self.holder();
            holder.writing = None;
            holder.waited.take()
        };
        Ok(LeaseUse { lease: self.clone(), released: false, waited })
    }

    fn holder(&self) -> MutexGuard<'_, Holder> {
        // Set by single assignments: a poisoned one is still consistent.
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Freeing gigabytes takes a while: the last hold is dropped where blocking is allowed.
impl Drop for Lease {
    fn drop(&mut self) {
        // Pages that are locked are not freed.
        self.pages.release();
        if self.given_back.load(Ordering::Acquire)
            && !self.stored.load(Ordering::Acquire)
            && let Err(error) = self.buffer.reclaim()
        {
            tracing::warn!("the memory of lease {} is freed when its holder unmaps it: {error}", self.id);
        }
    }
}

/// The use of a lease by one partition; dropping it frees the lease for the next witness.
pub struct LeaseUse {
    lease: Arc<Lease>,
    released: bool,
    waited: Option<(Instant, Instant)>,
}

impl LeaseUse {
    /// The memory.
    pub fn buffer(&self) -> &LeasedBuffer {
        &self.lease.buffer
    }

    /// The lock on its pages.
    pub fn pages(&self) -> &PageLock {
        &self.lease.pages
    }

    /// The witness is in the store: its memory is not freed before the use is [released](Self::release).
    pub fn set_stored(&self) {
        self.lease.stored.store(true, Ordering::Release);
    }

    /// When its memory was asked for, and when it was there, if this is its first use.
    pub fn waited(&self) -> Option<(Instant, Instant)> {
        self.waited
    }

    /// Frees the lease now: nobody needs the witness any more. What is left may be the last hold on the memory,
    /// whose drop takes a while.
    pub fn release(&mut self) {
        if !self.released {
            self.lease.stored.store(false, Ordering::Release);
            self.end();
        }
    }

    fn end(&mut self) {
        self.released = true;
        if !self.lease.given_back.load(Ordering::Acquire) {
            let writing = self.lease.activity.as_ref().map(|it| it.write(self.lease.buffer.size()));
            self.lease.holder().writing = writing;
        }
        self.lease.in_use.store(false, Ordering::Release);
    }
}

impl Drop for LeaseUse {
    fn drop(&mut self) {
        if !self.released {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{
        budget::{Budget, Demand},
        config::Config,
        users::{Countable, Users},
    };

    #[test]
    fn one_use_at_a_time_and_everything_comes_back() {
        let activity = Activity::new([]);
        let (budget, users) = (Budget::new(1 << 20), Users::new(Config::default().limits));
        let demand = Demand { leases: 4096, ..Demand::default() };
        let reservation = budget.try_reserve(demand).unwrap().unwrap();
        let lease = Lease::create(
            5,
            100,
            Arc::new(()),
            reservation,
            users.charge(1, Countable::Buffer(4096)).unwrap(),
            (Instant::now(), &activity),
        )
        .unwrap();
        assert_eq!(activity.buffers(), (1, 4096), "in its client's hands");
        let first = lease.use_it().unwrap();
        assert!(first.waited().is_some() && activity.buffers() == (0, 0));
        let refused = lease.use_it().err().unwrap();
        assert_eq!(refused.code, ErrorCode::LeaseInUse);
        assert!(refused.message.contains("lease 5"), "{refused}");
        let mut first = first;
        first.release();
        assert_eq!(activity.buffers(), (1, 4096));
        let second = lease.use_it().unwrap();
        assert!(second.waited().is_none(), "it has been told with the first");
        drop(first);
        assert!(lease.use_it().is_err(), "a use that was released does not end the next one");
        drop(lease);
        assert_eq!(budget.usage().leases, 4096, "a partition in flight keeps the memory");
        drop(second);
        assert_eq!((budget.usage().leases, activity.buffers()), (0, (0, 0)));
    }

    #[test]
    fn what_is_in_the_store_is_not_freed_before_its_use_has_ended() {
        let (budget, users) = (Budget::new(1 << 20), Users::new(Config::default().limits));
        let demand = Demand { leases: 4096, ..Demand::default() };
        for ended in [false, true] {
            let reservation = budget.try_reserve(demand).unwrap().unwrap();
            let charge = users.charge(1, Countable::Buffer(4096)).unwrap();
            let lease = Lease::create(
                1,
                100,
                Arc::new(()),
                reservation,
                charge,
                (Instant::now(), &Activity::new([])),
            )
            .unwrap();
            let memfd = std::fs::File::from(lease.buffer().memfd().try_clone_to_owned().unwrap());
            std::os::unix::fs::FileExt::write_all_at(&memfd, &[7], 5).unwrap();
            let mut used = lease.use_it().unwrap();
            used.set_stored();
            // Its holder goes; then the daemon ends, or the partition does.
            lease.give_back();
            drop(lease);
            if ended {
                used.release();
            }
            drop(used);
            let mut read = [1];
            std::os::unix::fs::FileExt::read_exact_at(&memfd, &mut read, 5).unwrap();
            assert_eq!(read, [if ended { 0 } else { 7 }]);
        }
    }
}
