//! The order of work: by priority; within one, users in turn; for one user, first come first served.
use crate::proto::Priority;
use std::collections::VecDeque;

/// Waiting entries. An entry is pushed with the priority and the user that it belongs to.
pub struct Queue<T> {
    /// Most urgent first.
    classes: [Turns<T>; 4],
}

/// The users of one priority that have entries, the one whose turn it is first.
struct Turns<T>(VecDeque<(u32, VecDeque<T>)>);

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
    /// Adds an entry behind the user's others of this priority.
    pub fn push(&mut self, priority: Priority, uid: u32, entry: T) {
        let turns = &mut self.classes[class(priority)].0;
        match turns.iter_mut().find(|(owner, _)| *owner == uid) {
            Some((_, entries)) => entries.push_back(entry),
            None => turns.push_back((uid, VecDeque::from([entry]))),
        }
    }

    /// Takes the entry whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let turns = self.classes.iter_mut().map(|c| &mut c.0).find(|turns| !turns.is_empty())?;
        let (uid, mut entries) = turns.pop_front()?;
        let entry = entries.pop_front();
        if !entries.is_empty() {
            turns.push_back((uid, entries));
        }
        entry
    }

    /// Removes the entries that `keep` does not want, in one user's entries of one priority.
    pub fn retain(&mut self, priority: Priority, uid: u32, keep: impl Fn(&T) -> bool) {
        let turns = &mut self.classes[class(priority)].0;
        if let Some(position) = turns.iter().position(|(owner, _)| *owner == uid) {
            turns[position].1.retain(keep);
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

    fn drain(queue: &mut Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop()).collect()
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
            queue.push(priority, uid, entry);
        }
        assert_eq!(drain(&mut queue), ["c2", "h3", "n1a", "n2a", "n3", "n1b", "n2b", "n1c", "l1"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_newcomer_waits_one_turn() {
        let mut queue = Queue::default();
        for entry in ["a", "b", "c"] {
            queue.push(Priority::Normal, 1, entry);
        }
        assert_eq!(queue.pop(), Some("a"));
        queue.push(Priority::Normal, 2, "new");
        assert_eq!(drain(&mut queue), ["b", "new", "c"]);
    }

    #[test]
    fn removed_entries_do_not_come() {
        let mut queue = Queue::default();
        for (uid, entry) in [(1, "a"), (1, "b"), (2, "c")] {
            queue.push(Priority::High, uid, entry);
        }
        queue.retain(Priority::High, 1, |e| *e != "a");
        queue.retain(Priority::High, 2, |_| false);
        queue.retain(Priority::Low, 1, |_| false);
        queue.retain(Priority::High, 7, |_| false);
        assert_eq!(drain(&mut queue), ["b"]);
    }

    proptest! {
        /// While users have work, none is served twice before another is served once; nothing is lost.
        #[test]
        fn turns_are_fair(owners in proptest::collection::vec(0..5u32, 0..60)) {
            let mut queue = Queue::default();
            for (entry, uid) in owners.iter().enumerate() {
                queue.push(Priority::Normal, *uid, (*uid, entry));
            }
            let served: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
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
