//! The order of work: by priority; within one, users in turn; for one user, by deadline, then first come first
//! served. Whoever takes an entry may prefer some; the one whose turn it is then waits, but not longer than patience allows.
use crate::proto::{Priority, QueueStatus};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Entries that are looked at for one that is preferred.
const LOOKS: usize = 1024;

/// Where an entry belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How urgent it is.
    pub priority: Priority,
    /// Whose it is.
    pub uid: u32,
    /// Since when it waits.
    pub since: Instant,
    /// Until when it is of any use.
    pub deadline: Option<Instant>,
}

/// Waiting entries.
pub struct Queue<T> {
    /// Most urgent first.
    classes: [Turns<T>; 4],
}

/// The users of one priority that have entries, the one whose turn it is first.
struct Turns<T>(VecDeque<(u32, VecDeque<(Rank, T)>)>);

/// The priorities, most urgent first.
const CLASSES: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { classes: std::array::from_fn(|_| Turns(VecDeque::new())) }
    }
}

fn class(priority: Priority) -> usize {
    match priority {
        Priority::Critical => 0,
        Priority::High => 1,
        Priority::Normal => 2,
        Priority::Low => 3,
    }
}

impl<T> Queue<T> {
    /// Adds an entry behind the user's others of its priority, but before those whose deadline is later.
    pub fn push(&mut self, rank: Rank, entry: T) {
        let turns = &mut self.classes[class(rank.priority)].0;
        match turns.iter_mut().find(|(owner, _)| *owner == rank.uid) {
            Some((_, entries)) => {
                let later = |(other, _): &&(Rank, T)| match (other.deadline, rank.deadline) {
                    (Some(other), Some(own)) => other > own,
                    (None, Some(_)) => true,
                    (_, None) => false,
                };
                let behind = entries.iter().rev().take_while(later).count();
                entries.insert(entries.len() - behind, (rank, entry));
            }
            None => turns.push_back((rank.uid, VecDeque::from([(rank, entry)]))),
        }
    }

    /// Gives an entry back that had to make way: it is the next of its priority.
    pub fn push_front(&mut self, rank: Rank, entry: T) {
        let turns = &mut self.classes[class(rank.priority)].0;
        let own = turns.iter().position(|(owner, _)| *owner == rank.uid);
        let (_, mut entries) = own.and_then(|own| turns.remove(own)).unwrap_or_default();
        entries.push_front((rank, entry));
        turns.push_front((rank.uid, entries));
    }

    /// Takes the entry whose turn it is, or another of its priority that is preferred, unless the first has
    /// waited for as long as patience allows.
    pub fn pop(&mut self, now: Instant, patience: Duration, prefers: impl Fn(&T) -> bool) -> Option<T> {
        let turns = self.classes.iter_mut().map(|c| &mut c.0).find(|turns| !turns.is_empty())?;
        let (rank, first) = turns.front()?.1.front()?;
        let bides = now.saturating_duration_since(rank.since) < patience && !prefers(first);
        let preferred = || {
            let all = turns.iter().enumerate().flat_map(|(user, (_, entries))| {
                entries.iter().enumerate().map(move |(place, (_, entry))| (user, place, entry))
            });
            let found = all.take(LOOKS).find(|(_, _, entry)| prefers(entry));
            found.map(|(user, place, _)| (user, place))
        };
        let (user, place) = if bides { preferred() } else { None }.unwrap_or((0, 0));
        let (uid, mut entries) = turns.remove(user)?;
        let taken = entries.remove(place);
        if !entries.is_empty() {
            turns.push_back((uid, entries));
        }
        taken.map(|(_, entry)| entry)
    }

    /// What waits, by priority, most urgent first.
    pub fn statuses(&self, now: Instant) -> Vec<QueueStatus> {
        let status = |(priority, turns): (Priority, &Turns<T>)| {
            let since = turns.0.iter().flat_map(|(_, entries)| entries).map(|(rank, _)| rank.since).min()?;
            let partitions: usize = turns.0.iter().map(|(_, entries)| entries.len()).sum();
            Some(QueueStatus {
                priority,
                partitions: u32::try_from(partitions).unwrap_or(u32::MAX),
                users: u32::try_from(turns.0.len()).unwrap_or(u32::MAX),
                oldest: now.saturating_duration_since(since),
            })
        };
        CLASSES.into_iter().zip(&self.classes).filter_map(status).collect()
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.classes.iter().flat_map(|class| &class.0).map(|(_, entries)| entries.len()).sum()
    }

    /// Removes the entries that `keep` does not want, in one user's entries of one priority.
    pub fn retain(&mut self, priority: Priority, uid: u32, keep: impl Fn(&T) -> bool) {
        let turns = &mut self.classes[class(priority)].0;
        if let Some(position) = turns.iter().position(|(owner, _)| *owner == uid) {
            turns[position].1.retain(|(_, entry)| keep(entry));
            if turns[position].1.is_empty() {
                turns.remove(position);
            }
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.classes.iter().all(|c| c.0.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn push<T>(queue: &mut Queue<T>, priority: Priority, uid: u32, entry: T) {
        queue.push(Rank { priority, uid, since: Instant::now(), deadline: None }, entry);
    }

    fn pop<T>(queue: &mut Queue<T>) -> Option<T> {
        queue.pop(Instant::now(), Duration::ZERO, |_| false)
    }

    fn drain(queue: &mut Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| pop(queue)).collect()
    }

    #[test]
    fn urgent_first_then_users_in_turn_then_first_come() {
        let mut queue = Queue::default();
        for (priority, uid, entry) in [
            (Priority::Low, 1, "l1"),
            (Priority::Normal, 1, "n1a"),
            (Priority::Normal, 1, "n1b"),
            (Priority::Normal, 1, "n1c"),
            (Priority::Normal, 2, "n2a"),
            (Priority::Normal, 2, "n2b"),
            (Priority::Normal, 3, "n3"),
            (Priority::High, 3, "h3"),
            (Priority::Critical, 2, "c2"),
        ] {
            push(&mut queue, priority, uid, entry);
        }
        assert_eq!(drain(&mut queue), ["c2", "h3", "n1a", "n2a", "n3", "n1b", "n2b", "n1c", "l1"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_newcomer_waits_one_turn() {
        let mut queue = Queue::default();
        for entry in ["a", "b", "c"] {
            push(&mut queue, Priority::Normal, 1, entry);
        }
        assert_eq!(pop(&mut queue), Some("a"));
        push(&mut queue, Priority::Normal, 2, "new");
        assert_eq!(drain(&mut queue), ["b", "new", "c"]);
    }

    #[test]
    fn removed_entries_do_not_come() {
        let mut queue = Queue::default();
        for (uid, entry) in [(1, "a"), (1, "b"), (2, "c")] {
            push(&mut queue, Priority::High, uid, entry);
        }
        queue.retain(Priority::High, 1, |e| *e != "a");
        queue.retain(Priority::High, 2, |_| false);
        queue.retain(Priority::Low, 1, |_| false);
        queue.retain(Priority::High, 7, |_| false);
        assert_eq!(drain(&mut queue), ["b"]);
    }

    #[test]
    fn earlier_deadlines_go_first_within_a_user() {
        let (mut queue, since) = (Queue::default(), Instant::now());
        let at = |seconds| Some(since + Duration::from_secs(seconds));
        for (uid, entry, deadline) in [
            (1, "none", None),
            (1, "late", at(9)),
            (1, "soon", at(3)),
            (1, "late too", at(9)),
            (2, "b", None),
        ] {
            queue.push(Rank { priority: Priority::Normal, uid, since, deadline }, entry);
        }
        assert_eq!(drain(&mut queue), ["soon", "b", "late", "late too", "none"]);
    }

    #[test]
    fn what_is_preferred_overtakes_for_a_while() {
        let (mut queue, now, patience) = (Queue::default(), Instant::now(), Duration::from_secs(2));
        for (uid, entry) in [(1, "cold"), (1, "hot a"), (2, "cold too"), (2, "hot b")] {
            queue.push(Rank { priority: Priority::Normal, uid, since: now, deadline: None }, entry);
        }
        queue.push(Rank { priority: Priority::Low, uid: 3, since: now, deadline: None }, "hot but low");
        let hot = |entry: &&str| entry.starts_with("hot");
        assert_eq!(queue.pop(now, patience, hot), Some("hot a"));
        assert_eq!(queue.pop(now + patience, patience, hot), Some("cold too"), "user 1 has had a turn");
        assert_eq!(queue.pop(now, patience, hot), Some("hot b"));
        assert_eq!(queue.pop(now, patience, hot), Some("cold"), "nothing of its priority is preferred");
        assert_eq!(queue.pop(now, patience, hot), Some("hot but low"));
    }

    #[test]
    fn who_made_way_is_next() {
        let (mut queue, since) = (Queue::default(), Instant::now());
        let rank = |priority, uid| Rank { priority, uid, since, deadline: None };
        for (uid, entry) in [(1, "a"), (2, "b"), (1, "c")] {
            queue.push(rank(Priority::Normal, uid), entry);
        }
        queue.push_front(rank(Priority::Normal, 2), "back");
        queue.push_front(rank(Priority::Low, 5), "alone");
        assert_eq!(queue.len(), 5);
        let found: Vec<_> =
            queue.statuses(since).iter().map(|it| (it.priority, it.partitions, it.users)).collect();
        assert_eq!(found, [(Priority::Normal, 4, 2), (Priority::Low, 1, 1)]);
        assert_eq!(drain(&mut queue), ["back", "a", "b", "c", "alone"]);
    }

    proptest! {
        /// While users have work, none is served twice before another is served once; nothing is lost.
        #[test]
        fn turns_are_fair(owners in proptest::collection::vec(0..5u32, 0..60)) {
            let mut queue = Queue::default();
            for (entry, uid) in owners.iter().enumerate() {
                push(&mut queue, Priority::Normal, *uid, (*uid, entry));
            }
            let served: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).collect();
            prop_assert_eq!(served.len(), owners.len());
            for uid in 0..5 {
                let own: Vec<_> = served.iter().filter(|(u, _)| *u == uid).map(|(_, e)| *e).collect();
                prop_assert!(own.is_sorted());
                for other in 0..5 {
                    let total = owners.iter().filter(|u| **u == other).count();
                    let (mut mine, mut theirs) = (0usize, 0usize);
                    for (u, _) in &served {
                        mine += usize::from(*u == uid);
                        theirs += usize::from(*u == other);
                        prop_assert!(theirs == total || mine <= theirs + 1);
                    }
                }
            }
        }
    }
}
