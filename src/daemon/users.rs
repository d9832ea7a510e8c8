//! What each user (uid) holds, against its limits. A [`Charge`] is a value that moves with the thing it counts
//! and is released by its drop.
use super::config::Limits;
use crate::proto::{ErrorCode, ProtocolError};
use crate::units::{about_bytes, show_bytes};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Countable {
    /// A connection.
    Connection,
    /// A job, until it is forgotten, whose result takes so many bytes.
    Job(u64),
    /// A witness buffer of so many bytes.
    Buffer(u64),
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    connections: u32,
    jobs: u32,
    results: u64,
    buffers: u32,
    bytes: u64,
}

struct State {
    limits: Limits,
    all: Counts,
    users: HashMap<u32, Counts>,
}

/// The counts of all users; clones share them.
#[derive(Clone)]
pub struct Users(Arc<Mutex<State>>);

/// A limit that one more thing would pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// The user holds as many as allowed.
    #[error("user {uid} has {found} {things}, wanted at most {key} = {limit}")]
    User {
        /// The user.
        uid: u32,
        /// How many there are.
        found: u32,
        /// Of what.
        things: &'static str,
        /// The setting.
        key: &'static str,
        /// Its value.
        limit: u32,
    },
    /// All users together hold as many as allowed.
    #[error("the daemon has {found} {things}, wanted at most {key} = {limit}")]
    All {
        /// How many there are.
        found: u32,
        /// Of what.
        things: &'static str,
        /// The setting.
        key: &'static str,
        /// Its value.
        limit: u32,
    },
    /// The user's buffers would be too large.
    #[error(
        "user {uid} has witness buffers of {} and wants {} more, wanted at most limits.bytes_per_uid = {}",
        about_bytes(*found), about_bytes(*more), show_bytes(*limit)
    )]
    Bytes {
        /// The user.
        uid: u32,
        /// Bytes held.
        found: u64,
        /// Bytes asked for.
        more: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The results of the user's jobs would be too large.
    #[error(
        "the results of user {uid}'s jobs take up to {} and this one's {} more, \
         wanted at most limits.result_bytes_per_uid = {}",
        about_bytes(*found), about_bytes(*more), show_bytes(*limit)
    )]
    UserResults {
        /// The user.
        uid: u32,
        /// Bytes that its jobs have been admitted with.
        found: u64,
        /// Bytes of this job.
        more: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The results of all users would be too large.
    #[error(
        "the results of all jobs take up to {} and this one's {} more, wanted at most limits.result_bytes = {}",
        about_bytes(*found), about_bytes(*more), show_bytes(*limit)
    )]
    Results {
        /// Bytes that jobs have been admitted with.
        found: u64,
        /// Bytes of this job.
        more: u64,
        /// Bytes allowed.
        limit: u64,
    },
}

impl From<QuotaError> for ProtocolError {
    fn from(error: QuotaError) -> Self {
        Self::new(ErrorCode::QuotaExceeded, error.to_string())
    }
}

/// One counted thing.
pub struct Charge {
    users: Users,
    uid: u32,
    what: Countable,
}

impl Counts {
    fn add(&mut self, what: Countable) {
        match what {
            Countable::Connection => self.connections += 1,
            Countable::Job(results) => {
                self.jobs += 1;
                self.results = self.results.saturating_add(results);
            }
            Countable::Buffer(bytes) => {
                self.buffers += 1;
                self.bytes = self.bytes.saturating_add(bytes);
            }
        }
    }

    fn remove(&mut self, what: Countable) {
        match what {
            Countable::Connection => self.connections -= 1,
            Countable::Job(results) => {
                self.jobs -= 1;
                self.results -= results;
            }
            Countable::Buffer(bytes) => {
                self.buffers -= 1;
                self.bytes -= bytes;
            }
        }
    }
}

impl State {
    fn add(&mut self, uid: u32, what: Countable) {
        self.all.add(what);
        self.users.entry(uid).or_default().add(what);
    }
}

impl Users {
    /// Nobody holds anything yet.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(State { limits, all: Counts::default(), users: HashMap::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts change in single steps: a poisoned state is still a consistent one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// New limits: what is held already stays.
    pub fn set_limits(&self, limits: Limits) {
        self.lock().limits = limits;
    }

    /// Unanswered requests that one connection may have.
    pub fn requests_per_connection(&self) -> u32 {
        self.lock().limits.requests_per_connection
    }

    /// Connections of all users.
    pub fn connections(&self) -> u32 {
        self.lock().all.connections
    }

    /// Counts one more thing of user `uid`.
    ///
    /// # Errors
    /// [`QuotaError`] names the limit that it would pass.
    pub fn charge(&self, uid: u32, what: Countable) -> Result<Charge, QuotaError> {
        let mut state = self.lock();
        let State { limits, all, users } = &*state;
        let held = users.get(&uid).copied().unwrap_or_default();
        let user = |things, key, found, limit| match found < limit {
            true => Ok(()),
            false => Err(QuotaError::User { uid, found, things, key, limit }),
        };
        let together = |things, key, found, limit| match found < limit {
            true => Ok(()),
            false => Err(QuotaError::All { found, things, key, limit }),
        };
        match what {
            Countable::Connection => {
                user(
                    "connections",
                    "limits.connections_per_uid",
                    held.connections,
                    limits.connections_per_uid,
                )?;
                together("connections", "limits.connections", all.connections, limits.connections)?;
            }
            Countable::Job(more) => {
                let things = "jobs that are unfinished or not acknowledged";
                user(things, "limits.jobs_per_uid", held.jobs, limits.jobs_per_uid)?;
                together(things, "limits.jobs", all.jobs, limits.jobs)?;
                let (found, limit) = (held.results, limits.result_bytes_per_uid);
                if found.checked_add(more).is_none_or(|sum| sum > limit) {
                    return Err(QuotaError::UserResults { uid, found, more, limit });
                }
                let (found, limit) = (all.results, limits.result_bytes);
                if found.checked_add(more).is_none_or(|sum| sum > limit) {
                    return Err(QuotaError::Results { found, more, limit });
                }
            }
            Countable::Buffer(more) => {
                user("witness buffers", "limits.leases_per_uid", held.buffers, limits.leases_per_uid)?;
                let found = held.bytes;
                if let Some(limit) = limits.bytes_per_uid
                    && found.checked_add(more).is_none_or(|sum| sum > limit)
                {
                    return Err(QuotaError::Bytes { uid, found, more, limit });
                }
            }
        }
        state.add(uid, what);
        Ok(Charge { users: self.clone(), uid, what })
    }

    /// Counts what an earlier process has admitted, whatever the limits are now.
    pub fn charge_anyway(&self, uid: u32, what: Countable) -> Charge {
        self.lock().add(uid, what);
        Charge { users: self.clone(), uid, what }
    }
}

impl Charge {
    /// What is counted.
    pub fn what(&self) -> Countable {
        self.what
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = self.users.lock();
        state.all.remove(self.what);
        if let Some(counts) = state.users.get_mut(&self.uid) {
            counts.remove(self.what);
            if *counts == Counts::default() {
                state.users.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::config::Config;

    fn users() -> Users {
        Users::new(Limits {
            connections: 3,
            connections_per_uid: 2,
            jobs: 3,
            jobs_per_uid: 2,
            leases_per_uid: 2,
            bytes_per_uid: Some(100),
            ..Config::default().limits
        })
    }

    #[test]
    fn each_limit_is_named() {
        for (what, own, shared) in [
            (
                Countable::Connection,
                "user 1 has 2 connections, wanted at most limits.connections_per_uid = 2",
                "the daemon has 3 connections, wanted at most limits.connections = 3",
            ),
            (Countable::Job(1), "limits.jobs_per_uid = 2", "limits.jobs = 3"),
        ] {
            let users = users();
            let _held = [users.charge(1, what).unwrap(), users.charge(1, what).unwrap()];
            let error = users.charge(1, what).err().unwrap().to_string();
            assert!(error.contains(own), "{error}");
            let other = users.charge(2, what).unwrap();
            let error = users.charge(2, what).err().unwrap().to_string();
            assert!(error.contains(shared), "{error}");
            drop(other);
            assert!(users.charge(2, what).is_ok());
        }
    }

    #[test]
    fn buffers_are_limited_by_number_and_by_bytes() {
        let users = users();
        let first = users.charge(1, Countable::Buffer(60)).unwrap();
        let error = users.charge(1, Countable::Buffer(41)).err().unwrap();
        assert_eq!(error, QuotaError::Bytes { uid: 1, found: 60, more: 41, limit: 100 });
        assert!(error.to_string().contains("limits.bytes_per_uid = 100B"), "{error}");
        assert!(users.charge(1, Countable::Buffer(u64::MAX)).is_err());
        let second = users.charge(1, Countable::Buffer(40)).unwrap();
        let error = users.charge(1, Countable::Buffer(0)).err().unwrap().to_string();
        assert!(error.contains("2 witness buffers"), "{error}");
        assert!(users.charge(2, Countable::Buffer(100)).is_ok(), "each user has limits of its own");
        drop((first, second));
        assert!(users.charge(1, Countable::Buffer(100)).is_ok());
    }

    #[test]
    fn results_are_limited_for_each_and_together() {
        let users = users();
        users.set_limits(Limits { result_bytes: 100, result_bytes_per_uid: 60, ..Config::default().limits });
        let error = users.charge(1, Countable::Job(61)).err().unwrap();
        assert_eq!(error, QuotaError::UserResults { uid: 1, found: 0, more: 61, limit: 60 });
        assert!(error.to_string().contains("limits.result_bytes_per_uid = 60B"), "{error}");
        let first = users.charge(1, Countable::Job(60)).unwrap();
        let error = users.charge(2, Countable::Job(41)).err().unwrap();
        assert_eq!(error, QuotaError::Results { found: 60, more: 41, limit: 100 });
        assert!(error.to_string().contains("limits.result_bytes = 100B"), "{error}");
        assert!(users.charge(2, Countable::Job(u64::MAX)).is_err());
        assert!(users.charge(2, Countable::Job(40)).is_ok());
        drop(first);
        assert!(users.charge(2, Countable::Job(60)).is_ok());
    }

    #[test]
    fn nothing_stays_behind() {
        let users = users();
        let charges = [Countable::Connection, Countable::Job(5), Countable::Buffer(7)]
            .map(|w| users.charge(1, w).unwrap());
        assert_eq!(users.connections(), 1);
        drop(charges);
        let state = users.lock();
        assert!(state.users.is_empty() && state.all == Counts::default());
    }

    #[test]
    fn lowered_limits_let_go_on_what_is_there() {
        let users = users();
        let held = users.charge(1, Countable::Job(1)).unwrap();
        users.set_limits(Limits { jobs_per_uid: 1, ..Config::default().limits });
        assert!(users.charge(1, Countable::Job(1)).is_err());
        drop(held);
        assert!(users.charge(1, Countable::Job(1)).is_ok());
    }
}
