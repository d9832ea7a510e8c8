//! One memory budget in bytes for everything the daemon holds. What is held is a [`Reservation`], a value
//! that moves with the thing it pays for and gives the bytes back when it is dropped. Requests that do not fit wait in
//! the order of their arrival; one that can never fit is refused at once.
//!
//! A loaded circuit also sets aside *headroom*: the working memory that proving it takes. Provers draw their
//! working memory from there, so that witnesses can never fill the memory that it takes to prove them.
use crate::units::about_bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, oneshot};

/// What a request wants, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Witness buffers.
    pub leases: u64,
    /// Proving keys.
    pub keys: u64,
    /// Circuits.
    pub circuits: u64,
    /// Working memory that must remain available to provers while the reservation lives. Demands for
    /// headroom do not add up: the largest one counts.
    pub headroom: u64,
    /// Bytes of other reservations without which this one makes no sense (a lease's circuit and key). They
    /// count only when judging whether the request can ever fit.
    pub beside: u64,
}

impl Demand {
    fn resident(&self) -> u64 {
        self.leases.saturating_add(self.keys).saturating_add(self.circuits)
    }
}

/// The bytes in use, by consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole budget.
    pub total: u64,
    /// Witness buffers.
    pub leases: u64,
    /// Proving keys.
    pub keys: u64,
    /// Circuits.
    pub circuits: u64,
    /// What provers hold while they work.
    pub working: u64,
    /// Requests that wait for memory.
    pub waiting: usize,
    /// The most that was ever used.
    pub peak: u64,
}

impl Usage {
    /// All consumers together.
    pub fn used(&self) -> u64 {
        self.leases + self.keys + self.circuits + self.working
    }
}

/// The request needs more than the budget has in all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("needs {} of memory, and the budget has {} in all", about_bytes(*needed), about_bytes(*total))]
pub struct NeverFits {
    /// Bytes needed, those of `beside` and headroom included.
    pub needed: u64,
    /// Bytes of the budget.
    pub total: u64,
}

/// More working memory than the loaded circuits have set aside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a prover wants {} of working memory, and {} is set aside", about_bytes(*wanted), about_bytes(*available))]
pub struct HeadroomExceeded {
    /// Bytes asked for.
    pub wanted: u64,
    /// Bytes of the headroom that are not drawn.
    pub available: u64,
}

/// The budget; clones share it.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Told each time a request is left waiting.
    short: Notify,
}

struct State {
    usage: Usage,
    /// How many reservations demand each amount of headroom.
    headroom: BTreeMap<u64, usize>,
    waiting: VecDeque<(Demand, oneshot::Sender<Reservation>)>,
}

impl State {
    fn headroom(&self) -> u64 {
        self.headroom.last_key_value().map_or(0, |(bytes, _)| *bytes)
    }

    fn fits(&self, demand: &Demand) -> bool {
        let usage = &self.usage;
        let working = usage.working.max(self.headroom()).max(demand.headroom);
        let resident = usage.leases + usage.keys + usage.circuits;
        resident
            .checked_add(demand.resident())
            .and_then(|r| r.checked_add(working))
            .is_some_and(|n| n <= usage.total)
    }

    fn charge(&mut self, demand: &Demand) {
        self.usage.leases += demand.leases;
        self.usage.keys += demand.keys;
        self.usage.circuits += demand.circuits;
        if demand.headroom > 0 {
            *self.headroom.entry(demand.headroom).or_default() += 1;
        }
        self.note_peak();
    }

    fn note_peak(&mut self) {
        self.usage.peak = self.usage.peak.max(self.usage.used());
    }

    fn release(&mut self, demand: &Demand) {
        self.usage.leases -= demand.leases;
        self.usage.keys -= demand.keys;
        self.usage.circuits -= demand.circuits;
        if let Some(count) = self.headroom.get_mut(&demand.headroom) {
            *count -= 1;
            if *count == 0 {
                self.headroom.remove(&demand.headroom);
            }
        }
    }
}

/// Bytes of the budget that are held; dropping it gives them back.
pub struct Reservation {
    budget: Budget,
    demand: Demand,
}

impl Reservation {
    /// What is held.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Holds `demand` instead, where that fits now; whoever waits is not asked, for this one has been
    /// served already. A smaller demand always fits.
    ///
    /// # Errors
    /// [`NeverFits`]; the reservation is as it was.
    pub fn try_resize(&mut self, demand: Demand) -> Result<bool, NeverFits> {
        self.budget.never_fits(&demand)?;
        let mut state = self.budget.lock();
        state.release(&self.demand);
        let fits = state.fits(&demand);
        state.charge(if fits { &demand } else { &self.demand });
        drop(state);
        if fits {
            self.demand = demand;
            self.budget.admit();
        }
        Ok(fits)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.lock().release(&self.demand);
        self.budget.admit();
    }
}

/// Working memory drawn from the headroom; dropping it gives the bytes back.
pub struct Working {
    budget: Budget,
    bytes: u64,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.budget.lock().usage.working -= self.bytes;
        self.budget.admit();
    }
}

impl Budget {
    /// A budget of `total` bytes.
    pub fn new(total: u64) -> Self {
        let usage = Usage { total, ..Usage::default() };
        let state = State { usage, headroom: BTreeMap::new(), waiting: VecDeque::new() };
        Self(Arc::new(Shared { state: Mutex::new(state), short: Notify::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two related changes, so that a poisoned state is still a consistent one.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn never_fits(&self, demand: &Demand) -> Result<(), NeverFits> {
        let total = self.lock().usage.total;
        let needed = demand.resident().saturating_add(demand.headroom).saturating_add(demand.beside);
        if needed > total { Err(NeverFits { needed, total }) } else { Ok(()) }
    }

    /// Reserves now or not at all (None); a request never overtakes those that wait.
    ///
    /// # Errors
    /// [`NeverFits`].
    pub fn try_reserve(&self, demand: Demand) -> Result<Option<Reservation>, NeverFits> {
        self.never_fits(&demand)?;
        let mut state = self.lock();
        state.waiting.retain(|(_, waiter)| !waiter.is_closed());
        if !state.waiting.is_empty() || !state.fits(&demand) {
            return Ok(None);
        }
        state.charge(&demand);
        Ok(Some(Reservation { budget: self.clone(), demand }))
    }

    /// Reserves, after all requests that came earlier. Dropping the future gives the place in the queue up.
    ///
    /// # Errors
    /// [`NeverFits`], at once.
    pub async fn reserve(&self, demand: Demand) -> Result<Reservation, NeverFits> {
        if let Some(reservation) = self.try_reserve(demand)? {
            return Ok(reservation);
        }
        loop {
            let (sender, receiver) = oneshot::channel();
            self.lock().waiting.push_back((demand, sender));
            let place = Place(self, receiver);
            self.admit();
            if let Ok(reservation) = place.wait().await {
                return Ok(reservation);
            }
        }
    }

    /// Draws working memory for one proof.
    ///
    /// # Errors
    /// [`HeadroomExceeded`]: the proof's circuit is not loaded, or more proofs run at once than it was loaded for.
    pub fn draw(&self, bytes: u64) -> Result<Working, HeadroomExceeded> {
        let mut state = self.lock();
        let available = state.headroom().saturating_sub(state.usage.working);
        if bytes > available {
            return Err(HeadroomExceeded { wanted: bytes, available });
        }
        state.usage.working += bytes;
        state.note_peak();
        Ok(Working { budget: self.clone(), bytes })
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        let state = self.lock();
        let waiting = state.waiting.iter().filter(|(_, waiter)| !waiter.is_closed()).count();
        Usage { waiting, ..state.usage }
    }

    /// Returns once a request waits for memory that others hold.
    pub async fn short(&self) {
        loop {
            let told = self.0.short.notified();
            if self.usage().waiting > 0 {
                return;
            }
            told.await;
        }
    }

    /// Serves waiting requests from the front for as long as they fit.
    fn admit(&self) {
        let mut abandoned = Vec::new();
        let mut state = self.lock();
        while let Some((demand, waiter)) = state.waiting.front() {
            if !waiter.is_closed() && !state.fits(demand) {
                break;
            }
            let Some((demand, waiter)) = state.waiting.pop_front() else { break };
            if waiter.is_closed() {
                continue;
            }
            state.charge(&demand);
            let reservation = Reservation { budget: self.clone(), demand };
            // The receiver may go between the look and the send; its reservation must not be dropped under the lock.
            abandoned.extend(waiter.send(reservation).err());
        }
        let short = !state.waiting.is_empty();
        drop(state);
        drop(abandoned);
        if short {
            self.0.short.notify_waiters();
        }
    }
}

/// A place in the queue. Giving it up lets those behind it move up.
struct Place<'a>(&'a Budget, oneshot::Receiver<Reservation>);

impl Place<'_> {
    async fn wait(mut self) -> Result<Reservation, oneshot::error::RecvError> {
        (&mut self.1).await
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.1.close();
        // Sent, but not taken any more.
        mem::drop(self.1.try_recv());
        self.0.admit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    fn leases(bytes: u64) -> Demand {
        Demand { leases: bytes, ..Demand::default() }
    }

    /// Nothing is used, and nobody waits.
    fn assert_all_free(budget: &Budget, total: u64) {
        let usage = budget.usage();
        assert!(usage.peak > 0 && usage.peak <= total, "{usage:?}");
        assert_eq!(usage, Usage { total, peak: usage.peak, ..Usage::default() });
    }

    /// Polls once.
    fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn short_of_memory_is_told_while_a_request_waits() {
        let budget = Budget::new(100);
        let held = budget.try_reserve(leases(60)).unwrap().unwrap();
        let mut short = Box::pin(budget.short());
        assert!(poll(&mut short).is_none());
        let mut request = Box::pin(budget.reserve(leases(50)));
        assert!(poll(&mut request).is_none());
        assert!(poll(&mut short).is_some());
        drop(held);
        assert!(poll(&mut request).is_some());
        assert!(poll(&mut Box::pin(budget.short())).is_none());
    }

    #[test]
    fn bytes_come_back_with_the_drop() {
        let budget = Budget::new(100);
        let first = budget.try_reserve(leases(60)).unwrap().unwrap();
        assert!(budget.try_reserve(leases(41)).unwrap().is_none());
        let second = budget.try_reserve(leases(40)).unwrap().unwrap();
        assert_eq!(budget.usage().used(), 100);
        drop(first);
        assert_eq!(budget.usage().leases, 40);
        drop(second);
        assert_all_free(&budget, 100);
    }

    #[test]
    fn what_never_fits_is_refused_with_the_figures() {
        let budget = Budget::new(100);
        let demand = Demand { leases: 40, headroom: 30, beside: 31, ..Demand::default() };
        assert_eq!(budget.try_reserve(demand).err(), Some(NeverFits { needed: 101, total: 100 }));
        assert_eq!(budget.try_reserve(leases(u64::MAX)).err().map(|e| e.total), Some(100));
        let demand = Demand { keys: u64::MAX, circuits: u64::MAX, beside: 7, ..Demand::default() };
        assert!(poll(&mut Box::pin(budget.reserve(demand))).unwrap().is_err());
        assert!(budget.try_reserve(Demand { beside: 30, ..demand }).is_err());
        assert!(
            budget
                .try_reserve(Demand { leases: 40, headroom: 30, beside: 30, ..Demand::default() })
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn requests_are_served_in_order() {
        let budget = Budget::new(100);
        let held = budget.try_reserve(leases(100)).unwrap().unwrap();
        let mut large = Box::pin(budget.reserve(leases(80)));
        let mut small = Box::pin(budget.reserve(leases(10)));
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
        assert_eq!(budget.usage().waiting, 2);
        assert!(budget.try_reserve(leases(1)).unwrap().is_none(), "no overtaking");
        drop(held);
        let first = poll(&mut large).unwrap().unwrap();
        let second = poll(&mut small).unwrap().unwrap();
        assert_eq!(budget.usage().leases, 90);
        drop((first, second));
        assert_all_free(&budget, 100);
    }

    #[test]
    fn a_small_request_waits_behind_a_large_one() {
        let budget = Budget::new(100);
        let held = budget.try_reserve(leases(50)).unwrap().unwrap();
        let mut large = Box::pin(budget.reserve(leases(80)));
        let mut small = Box::pin(budget.reserve(leases(10)));
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
        drop(large);
        let got = poll(&mut small).expect("the place of a request that was given up is taken by the next");
        drop((held, got));
        assert_eq!(budget.usage().used(), 0);
    }

    #[test]
    fn a_reservation_that_nobody_takes_comes_back() {
        let budget = Budget::new(10);
        let held = budget.try_reserve(leases(10)).unwrap().unwrap();
        let mut waiting = Box::pin(budget.reserve(leases(10)));
        assert!(poll(&mut waiting).is_none());
        drop(held);
        assert_eq!(budget.usage().leases, 10, "sent to the waiting request");
        drop(waiting);
        assert_eq!(budget.usage().leases, 0);
    }

    #[test]
    fn headroom_is_kept_for_provers() {
        let budget = Budget::new(100);
        let circuit = Demand { keys: 20, circuits: 10, headroom: 30, ..Demand::default() };
        let loaded = budget.try_reserve(circuit).unwrap().unwrap();
        let other =
            budget.try_reserve(Demand { keys: 10, headroom: 25, ..Demand::default() }).unwrap().unwrap();
        assert!(budget.try_reserve(leases(31)).unwrap().is_none(), "the larger headroom stays free");
        let lease = budget.try_reserve(leases(30)).unwrap().unwrap();
        let working = budget.draw(30).unwrap();
        assert_eq!(budget.usage().used(), 100);
        assert_eq!(budget.draw(1).err(), Some(HeadroomExceeded { wanted: 1, available: 0 }));
        drop(working);
        drop(loaded);
        assert_eq!(budget.draw(26).err(), Some(HeadroomExceeded { wanted: 26, available: 25 }));
        drop((other, lease));
        assert_eq!(budget.draw(1).err(), Some(HeadroomExceeded { wanted: 1, available: 0 }));
    }

    #[test]
    fn working_memory_outlives_its_headroom() {
        let budget = Budget::new(100);
        let loaded = budget.try_reserve(Demand { headroom: 60, ..Demand::default() }).unwrap().unwrap();
        let working = budget.draw(60).unwrap();
        drop(loaded);
        assert!(budget.try_reserve(leases(41)).unwrap().is_none());
        drop(working);
        assert!(budget.try_reserve(leases(100)).unwrap().is_some());
    }

    #[test]
    fn a_reservation_changes_its_size_where_that_fits() {
        let budget = Budget::new(100);
        let mut held =
            budget.try_reserve(Demand { keys: 60, circuits: 20, ..Demand::default() }).unwrap().unwrap();
        let mut waiting = Box::pin(budget.reserve(leases(30)));
        assert!(poll(&mut waiting).is_none());
        let larger = Demand { keys: 60, circuits: 20, headroom: 20, ..Demand::default() };
        assert_eq!(held.try_resize(larger), Ok(true), "ahead of who waits");
        assert_eq!(
            held.try_resize(Demand { headroom: 21, ..larger }),
            Err(NeverFits { needed: 101, total: 100 })
        );
        assert_eq!(*held.demand(), larger);
        let smaller = Demand { keys: 60, circuits: 5, headroom: 5, ..Demand::default() };
        assert_eq!(held.try_resize(smaller), Ok(true));
        let lease = poll(&mut waiting).expect("who waits is served with what came free").unwrap();
        assert_eq!(held.try_resize(larger), Ok(false));
        assert_eq!(*held.demand(), smaller);
        drop((held, lease));
        assert_all_free(&budget, 100);
    }

    #[tokio::test]
    async fn many_tasks_at_once_stay_within_the_budget() {
        let budget = Budget::new(64);
        let tasks = (0..200u64).map(|i| {
            let budget = budget.clone();
            tokio::spawn(async move {
                let reservation = budget.reserve(leases(1 + i * 37 % 64)).await.unwrap();
                assert!(budget.usage().used() <= 64);
                tokio::task::yield_now().await;
                drop(reservation);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_all_free(&budget, 64);
    }

    proptest! {
        /// Whatever comes and goes, the books are right and nobody who fits at the front is left waiting.
        #[test]
        fn the_books_balance(steps in proptest::collection::vec((0..4u8, 0..60u64, 0..8usize), 1..80)) {
            let budget = Budget::new(100);
            let mut held: Vec<Reservation> = Vec::new();
            type Waiting = std::pin::Pin<Box<dyn Future<Output = Result<Reservation, NeverFits>>>>;
            let mut waiting: VecDeque<(u64, Waiting)> = VecDeque::new();
            for (step, bytes, index) in steps {
                match step {
                    0 => {
                        let budget = budget.clone();
                        waiting.push_back((bytes, Box::pin(async move { budget.reserve(leases(bytes)).await })));
                    }
                    1 if !held.is_empty() => drop(held.swap_remove(index % held.len())),
                    2 if !waiting.is_empty() => drop(waiting.remove(index % waiting.len())),
                    _ => held.extend(budget.try_reserve(leases(bytes)).unwrap()),
                }
                let mut still = VecDeque::new();
                while let Some((bytes, mut future)) = waiting.pop_front() {
                    match poll(&mut future) {
                        Some(reservation) => held.push(reservation.unwrap()),
                        None => still.push_back((bytes, future)),
                    }
                }
                waiting = still;
                let usage = budget.usage();
                prop_assert_eq!(usage.leases, held.iter().map(|r| r.demand().leases).sum::<u64>());
                prop_assert_eq!(usage.waiting, waiting.len());
                prop_assert!(usage.used() <= 100);
                if let Some((bytes, _)) = waiting.front() {
                    prop_assert!(usage.used() + bytes > 100);
                }
            }
        }
    }
}
