//! Whose turn it is on a device: the most urgent of those who wait, and among those the one who has waited longest. A
//! critical one has whoever is on the device make way, unless that one is critical, too.
use crate::algebra::{CancelToken, Cancelled};
use crate::proto::Priority;
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long one who waits takes to notice that it is not to wait any more; also a sign of life.
const LOOK: Duration = Duration::from_millis(20);

/// The most urgent first, then the one who came first.
type Place = (Reverse<Priority>, u64);

#[derive(Default)]
struct State {
    holder: Option<(Priority, CancelToken)>,
    waiting: BTreeSet<Place>,
    arrivals: u64,
}

/// The gate before a device.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

/// The turn; dropping it lets the next one in.
pub struct Turn<'a>(&'a Gate);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state changes in single steps: a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// The token was raised first.
    pub fn enter(&self, priority: Priority, token: &CancelToken) -> Result<Turn<'_>, Cancelled> {
        let mut state = self.lock();
        state.arrivals += 1;
        let place = (Reverse(priority), state.arrivals);
        state.waiting.insert(place);
        loop {
            if let Err(cancelled) = token.check() {
                state.waiting.remove(&place);
                drop(state);
                self.moved.notify_all();
                return Err(cancelled);
            }
            match &state.holder {
                None if state.waiting.first() == Some(&place) => {
                    state.waiting.remove(&place);
                    state.holder = Some((priority, token.clone()));
                    return Ok(Turn(self));
                }
                Some((other, holder)) if priority == Priority::Critical && *other < priority => {
                    holder.preempt();
                }
                _ => {}
            }
            let waited = self.moved.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().holder = None;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    /// Waits until so many wait.
    fn until_waiting(gate: &Gate, number: usize) {
        while gate.lock().waiting.len() < number {
            thread::yield_now();
        }
    }

    #[test]
    fn the_most_urgent_first_then_in_the_order_of_coming() {
        let gate = Gate::default();
        let (sender, order) = mpsc::sync_channel(4);
        let first = gate.enter(Priority::Normal, &CancelToken::new()).unwrap();
        thread::scope(|scope| {
            for (number, priority) in
                [Priority::Low, Priority::Normal, Priority::High, Priority::Normal].into_iter().enumerate()
            {
                let (gate, sender) = (&gate, sender.clone());
                scope.spawn(move || {
                    let turn = gate.enter(priority, &CancelToken::new()).unwrap();
                    sender.send(number).unwrap();
                    drop(turn);
                });
                until_waiting(gate, number + 1);
            }
            drop(first);
        });
        drop(sender);
        assert_eq!(order.iter().collect::<Vec<_>>(), [2, 1, 3, 0]);
    }

    #[test]
    fn a_critical_one_has_the_holder_make_way() {
        let gate = Gate::default();
        let holder = CancelToken::new();
        let turn = gate.enter(Priority::High, &holder).unwrap();
        thread::scope(|scope| {
            let urgent = scope.spawn(|| drop(gate.enter(Priority::Critical, &CancelToken::new()).unwrap()));
            while !holder.is_preempted() {
                thread::yield_now();
            }
            drop(turn);
            urgent.join().unwrap();
        });
        let (critical, late) = (CancelToken::new(), CancelToken::new());
        let turn = gate.enter(Priority::Critical, &critical).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| gate.enter(Priority::Critical, &late).is_ok());
            until_waiting(&gate, 1);
            late.cancel();
            assert!(!waits.join().unwrap(), "who is cancelled waits no longer");
        });
        assert!(!critical.is_preempted());
        drop(turn);
        assert!(gate.enter(Priority::Low, &CancelToken::new()).is_ok(), "nobody is left in the way");
    }
}
