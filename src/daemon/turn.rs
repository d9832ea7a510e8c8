//! Whose turn it is, for what only one at a time may do: the most urgent first, users of one priority in turn, and
//! for one user in the order of asking.
use super::queue::{Queue, Rank};
use crate::proto::Priority;
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// A turn that one has and others wait for.
#[derive(Default)]
pub struct Turn {
    state: Mutex<State>,
    asked: AtomicU64,
}

#[derive(Default)]
struct State {
    taken: bool,
    waiting: Queue<Waiter>,
}

struct Waiter {
    id: u64,
    served: oneshot::Sender<()>,
}

impl Turn {
    /// Waits for the turn. Dropping the future gives the place up.
    pub async fn wait(&self, uid: u32, priority: Priority) -> Taken<'_> {
        let id = self.asked.fetch_add(1, Ordering::Relaxed);
        let (served, told) = oneshot::channel();
        {
            let mut state = self.lock();
            if !state.taken {
                state.taken = true;
                return Taken(self);
            }
            let rank = Rank { priority, uid, since: Instant::now(), deadline: None };
            state.waiting.push(rank, Waiter { id, served });
        }
        let mut place = Place { turn: self, uid, priority, id, told, served: false };
        // The entry goes unsent only with its place.
        place.served = (&mut place.told).await.is_ok();
        debug_assert!(place.served);
        Taken(self)
    }

    /// Whether somebody has it.
    pub fn is_taken(&self) -> bool {
        self.lock().taken
    }

    /// How many wait for it.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two related changes, so that a poisoned state is still a consistent one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands it to the next; who has given up meanwhile is passed over.
    fn next(&self) {
        let mut state = self.lock();
        while let Some(waiter) = state.waiting.pop(Instant::now(), Duration::ZERO, |_| false) {
            if waiter.served.send(()).is_ok() {
                return;
            }
        }
        state.taken = false;
    }
}

/// The turn, until it is dropped.
pub struct Taken<'a>(&'a Turn);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.next();
    }
}

/// A place among those who wait.
struct Place<'a> {
    turn: &'a Turn,
    uid: u32,
    priority: Priority,
    id: u64,
    told: oneshot::Receiver<()>,
    served: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        self.told.close();
        if self.told.try_recv().is_ok() {
            // Served, but nobody takes it any more.
            return self.turn.next();
        }
        let id = self.id;
        self.turn.lock().waiting.retain(self.priority, self.uid, |waiter| waiter.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    type Asking<'a> = Pin<Box<dyn Future<Output = Taken<'a>> + 'a>>;

    fn poll<'a>(asking: &mut Asking<'a>) -> Option<Taken<'a>> {
        match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    /// Asks, and waits.
    fn ask<'a>(turn: &'a Turn, uid: u32, priority: Priority) -> Asking<'a> {
        let mut asking: Asking<'a> = Box::pin(turn.wait(uid, priority));
        assert!(poll(&mut asking).is_none());
        asking
    }

    #[test]
    fn urgent_first_and_users_in_turn() {
        let turn = Turn::default();
        let mut held = poll(&mut (Box::pin(turn.wait(1, Priority::Low)) as Asking<'_>));
        assert!(held.is_some() && turn.is_taken());
        let asked = [
            (1, Priority::Normal),
            (1, Priority::Normal),
            (1, Priority::Normal),
            (2, Priority::Normal),
            (3, Priority::Critical),
        ];
        let mut asking: Vec<_> =
            asked.into_iter().map(|(uid, priority)| Some(ask(&turn, uid, priority))).collect();
        assert_eq!(turn.waiting(), 5);
        // The second one gives up.
        asking[1] = None;
        assert_eq!(turn.waiting(), 4);
        for expected in [4, 0, 3, 2] {
            drop(held.take());
            for (index, other) in asking.iter_mut().enumerate() {
                let Some(waiting) = other else { continue };
                let taken = poll(waiting);
                assert_eq!(taken.is_some(), index == expected, "{index}");
                if taken.is_some() {
                    held = taken;
                    *other = None;
                }
            }
        }
        assert_eq!(turn.waiting(), 0);
        drop(held);
        assert!(!turn.is_taken());
    }

    #[test]
    fn a_turn_that_nobody_takes_goes_to_the_next() {
        let turn = Turn::default();
        let held = poll(&mut (Box::pin(turn.wait(1, Priority::Normal)) as Asking<'_>)).unwrap();
        let served = ask(&turn, 2, Priority::Normal);
        let mut next = ask(&turn, 3, Priority::Normal);
        drop(held);
        drop(served);
        assert!(poll(&mut next).is_some());
        drop(next);
        assert!(!turn.is_taken());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_at_a_time() {
        let turn = std::sync::Arc::new(Turn::default());
        let inside = std::sync::Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..200u32)
            .map(|i| {
                let (turn, inside) = (turn.clone(), inside.clone());
                tokio::spawn(async move {
                    let asking = turn.wait(i % 7, Priority::Normal);
                    if i % 5 == 0 {
                        // Gives up soon, in whatever state it is.
                        let _ = tokio::time::timeout(Duration::from_micros(u64::from(i)), asking).await;
                        return;
                    }
                    let _taken = asking.await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(!turn.is_taken() && turn.waiting() == 0);
    }
}
