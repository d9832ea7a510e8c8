//! The thread that has the service manager keep what must outlive this process. It is told which memfds are in use,
//! and makes the store agree: what came while it waited for the manager is done together, with one wait for all.
//!
//! A lock guards the list of what is wanted, and is never held while the manager is waited for: letting go of something
//! never waits, and is safe under any other lock.
use super::manager::{Answer, ServiceManager};
use super::names::MAX_NAMES_BYTES;
use crate::proto::{ErrorCode, ProtocolError};
use std::{
    collections::{BTreeSet, HashMap},
    io, mem,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// When whoever was refused for want of room may ask again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Whether there is a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The manager has not answered yet.
    Unknown,
    /// What is kept outlives this process.
    There,
    /// There is none, and why.
    None(String),
}

/// Why something is not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no room.
    #[error(
        "the service manager's store is full with {entries} entries, one for each job and each witness of an \
         unfinished partition; wanted room for {more} more (FileDescriptorStoreMax= of the unit)"
    )]
    Full {
        /// Entries that it has.
        entries: usize,
        /// Entries that were to be added.
        more: usize,
    },
    /// The manager does not answer, or cannot be told.
    #[error("the service manager does not keep the job: {0}")]
    Failed(String),
}

impl From<StoreError> for ProtocolError {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorCode::Busy, error.to_string()).with_retry_after(RETRY_AFTER)
    }
}

/// The keeper; clones share it.
#[derive(Clone)]
pub struct Keeper(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    offer: watch::Sender<Offer>,
    /// The store can outlive a stop, too.
    outlives_stop: bool,
}

#[derive(Default)]
struct State {
    entries: HashMap<String, Entry>,
    /// Entries of which something has changed.
    changed: BTreeSet<String>,
    waiting: Vec<Waiting>,
}

/// What is, or was, wanted in the store.
#[derive(Default)]
struct Entry {
    /// How many want it.
    uses: u32,
    stored: bool,
    /// Until it is stored.
    descriptor: Option<Arc<OwnedFd>>,
}

/// Someone who must know that these entries are stored.
struct Waiting {
    names: Vec<String>,
    done: oneshot::Sender<Result<(), StoreError>>,
}

impl Keeper {
    /// Starts the thread. `kept` are the names of what the manager has handed over, none of which is in use yet.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(manager: ServiceManager, kept: impl IntoIterator<Item = String>) -> io::Result<Self> {
        let mut state = State::default();
        for name in kept {
            state.entries.insert(name, Entry { stored: true, ..Entry::default() });
        }
        let offer = if state.entries.is_empty() { Offer::Unknown } else { Offer::There };
        let offer = watch::Sender::new(offer);
        // A systemd that can keep the store over a stop tells how large it is.
        let outlives_stop = std::env::var_os("FDSTORE").is_some();
        let (state, wake) = (Mutex::new(state), Condvar::new());
        let keeper = Self(Arc::new(Shared { state, wake, offer, outlives_stop }));
        let thread = keeper.clone();
        thread::Builder::new().name("store".into()).spawn(move || thread.work(&manager))?;
        Ok(keeper)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two related changes, so that a poisoned state is still a consistent one.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a store, once that is known.
    pub async fn is_there(&self) -> bool {
        let mut offer = self.0.offer.subscribe();
        // The sender lives as long as this keeper.
        offer.wait_for(|offer| *offer != Offer::Unknown).await.is_ok_and(|offer| *offer == Offer::There)
    }

    /// Whether there is a store, as far as that is known.
    pub fn offer(&self) -> Offer {
        self.0.offer.borrow().clone()
    }

    /// What becomes of so many jobs when the process ends in good order, in a few words.
    pub fn at_a_stop(&self, jobs: usize) -> String {
        match self.offer() {
            Offer::There if self.0.outlives_stop => format!("{jobs} jobs stay with the service manager"),
            Offer::There => format!(
                "{jobs} jobs stay with the service manager over a restart, and are dropped by a stop (systemd before 254)"
            ),
            Offer::Unknown | Offer::None(_) => format!("{jobs} jobs are dropped"),
        }
    }

    /// Has these kept, one use each; when the receiver says so, they outlive the process. After an error none is used.
    pub fn keep(
        &self,
        entries: impl IntoIterator<Item = (String, OwnedFd)>,
    ) -> oneshot::Receiver<Result<(), StoreError>> {
        let (done, told) = oneshot::channel();
        let mut state = self.lock();
        let mut names = Vec::new();
        for (name, descriptor) in entries {
            let entry = state.entries.entry(name.clone()).or_default();
            entry.uses += 1;
            entry.descriptor = (!entry.stored).then(|| Arc::new(descriptor));
            state.changed.insert(name.clone());
            names.push(name);
        }
        state.waiting.push(Waiting { names, done });
        drop(state);
        self.0.wake.notify_one();
        told
    }

    /// Counts one more use of what the manager has handed over.
    pub fn take_up(&self, name: &str) {
        self.lock().entries.entry(name.to_owned()).or_default().uses += 1;
    }

    /// Ends one use; what nobody uses leaves the store. Never waits.
    pub fn release(&self, name: &str) {
        self.change(name, |uses| *uses = uses.saturating_sub(1));
    }

    /// Ends all uses. Never waits.
    pub fn forget(&self, name: &str) {
        self.change(name, |uses| *uses = 0);
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut u32)) {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(name) else { return };
        change(&mut entry.uses);
        if entry.uses == 0 {
            state.changed.insert(name.to_owned());
            drop(state);
            self.0.wake.notify_one();
        }
    }

    /// Lets go of what was handed over and is not in use.
    pub fn forget_unused(&self) {
        let mut state = self.lock();
        let unused: Vec<_> =
            state.entries.iter().filter(|(_, entry)| entry.uses == 0).map(|(name, _)| name.clone()).collect();
        state.changed.extend(unused);
        drop(state);
        self.0.wake.notify_one();
    }

    /// The thread.
    fn work(&self, manager: &ServiceManager) {
        if self.offer() == Offer::Unknown {
            let offer = match manager.settle() {
                Ok(Answer::Kept) => Offer::There,
                Ok(Answer::NoRoom) => Offer::None("the unit has none (FileDescriptorStoreMax=)".into()),
                Ok(Answer::Silent) => Offer::None("the service manager does not answer".into()),
                Err(error) => Offer::None(format!("the service manager cannot be told: {error}")),
            };
            if let Offer::None(why) = &offer {
                tracing::warn!("jobs will not outlive this process, as there is no store for them: {why}");
            }
            self.0.offer.send_replace(offer);
        }
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && state.changed.is_empty() {
                state = self.0.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let waiting = mem::take(&mut state.waiting);
            drop(state);
            match self.agree(manager, &waiting) {
                Ok(()) => waiting.into_iter().for_each(|it| drop(it.done.send(Ok(())))),
                // One of them may fit where all together do not.
                Err(StoreError::Full { .. }) if waiting.len() > 1 => {
                    for it in waiting {
                        let agreed = self.agree(manager, std::slice::from_ref(&it));
                        self.answer(it, agreed);
                    }
                }
                Err(error) => waiting.into_iter().for_each(|it| self.answer(it, Err(error.clone()))),
            }
        }
    }

    fn answer(&self, waiting: Waiting, agreed: Result<(), StoreError>) {
        if let Err(error) = &agreed {
            tracing::warn!("{error}");
            waiting.names.iter().for_each(|name| self.release(name));
        }
        // Nobody may wait for it any more; what is kept stays until it is released.
        let _ = waiting.done.send(agreed);
    }

    /// Removes what nobody uses, and adds what these wait for.
    fn agree(&self, manager: &ServiceManager, waiting: &[Waiting]) -> Result<(), StoreError> {
        let failed = |error: io::Error| StoreError::Failed(error.to_string());
        let (removed, added, entries, bytes) = {
            let mut state = self.lock();
            let changed = mem::take(&mut state.changed);
            let mut removed = Vec::new();
            for name in changed {
                if state.entries.get(&name).is_some_and(|entry| entry.uses == 0)
                    && state.entries.remove(&name).is_some_and(|entry| entry.stored)
                {
                    removed.push(name);
                }
            }
            let wanted: BTreeSet<_> = waiting.iter().flat_map(|it| &it.names).collect();
            let added: Vec<_> = wanted
                .into_iter()
                .filter_map(|name| {
                    let entry = state.entries.get(name).filter(|entry| !entry.stored)?;
                    Some((name.clone(), entry.descriptor.clone()?))
                })
                .collect();
            let stored = state.entries.iter().filter(|(_, entry)| entry.stored).map(|(name, _)| name);
            let entries = stored.clone().count();
            let bytes: usize =
                stored.chain(added.iter().map(|(name, _)| name)).map(|name| name.len() + 1).sum();
            (removed, added, entries, bytes)
        };
        // First: what is added in vain would otherwise go with what was removed under the same name.
        for name in &removed {
            manager.let_go(name).map_err(failed)?;
        }
        if added.is_empty() {
            return Ok(());
        }
        let full = StoreError::Full { entries, more: added.len() };
        if bytes > MAX_NAMES_BYTES {
            return Err(full);
        }
        let mut told = added.iter().try_for_each(|(name, descriptor)| manager.keep(name, descriptor.as_fd()));
        let answer = match told {
            Ok(()) => manager.settle(),
            Err(error) => Err(error),
        };
        let outcome = match answer {
            Ok(Answer::Kept) => Ok(()),
            Ok(Answer::NoRoom) => Err(full),
            Ok(Answer::Silent) => Err(StoreError::Failed("it does not answer".into())),
            Err(error) => Err(failed(error)),
        };
        if outcome.is_ok() {
            let mut state = self.lock();
            for (name, _) in &added {
                if let Some(entry) = state.entries.get_mut(name) {
                    (entry.stored, entry.descriptor) = (true, None);
                    if entry.uses == 0 {
                        // Released while it was on its way.
                        state.changed.insert(name.clone());
                    }
                }
            }
        } else {
            // Whichever were taken: none is in use.
            told = added.iter().try_for_each(|(name, _)| manager.let_go(name));
            if let Err(error) = told {
                tracing::warn!("the service manager cannot be told what it need not keep: {error}");
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
