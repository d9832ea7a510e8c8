//! What became of a job, from the events of its journal. A partition that a prover had begun with and that neither came
//! back nor ended was being proved when the process died: each such death counts, for a witness that kills the
//! daemon must not do so for ever.
use super::event::{Admitted, Event, StoredWitness, Timed};
use crate::proto::{PartitionProof, ProtocolError};
use std::time::Duration;

/// Events that do not make a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There are none: the process died before the job was admitted.
    #[error("it has no entries")]
    Empty,
    /// It does not begin with the job's admission, or that comes again.
    #[error("entry {index} is out of place")]
    Order {
        /// The entry's number, from 0.
        index: usize,
    },
    /// An entry is about a partition that the job does not have.
    #[error("entry {index} is about partition {found}, the job has {partitions}")]
    Partition {
        /// The entry's number, from 0.
        index: usize,
        /// The partition.
        found: u32,
        /// How many there are.
        partitions: u32,
    },
    /// A proof is not one of this job's.
    #[error("entry {index} is no proof of one partition of the job")]
    Proof {
        /// The entry's number, from 0.
        index: usize,
    },
}

/// A partition, as the journal tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Its witness, unless it is proved.
    pub witness: Option<StoredWitness>,
    /// Its proof.
    pub proof: Option<Box<PartitionProof>>,
    /// How often the process died while this partition was being proved.
    pub deaths: u32,
}

/// A job, as its journal tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// The job.
    pub admitted: Admitted,
    /// Its partitions.
    pub partitions: Vec<Past>,
    /// Backends that have proved partitions.
    pub backends: Vec<String>,
    /// The build that made the last proof.
    pub build: String,
    /// How it failed, if it did.
    pub failure: Option<ProtocolError>,
    /// Whether nobody wants it any more.
    pub forgotten: bool,
    /// When it was admitted, since the system was started.
    pub created: Duration,
    /// When something happened to it last.
    pub touched: Duration,
}

impl Story {
    /// Whether a verdict is reached.
    pub fn has_ended(&self) -> bool {
        self.failure.is_some() || self.partitions.iter().all(|past| past.proof.is_some())
    }
}

/// Tells the story of a journal's events.
///
/// # Errors
/// [`ReplayError`].
pub fn replay(events: Vec<Timed>) -> Result<Story, ReplayError> {
    let mut events = events.into_iter().enumerate();
    let (created, admitted) = match events.next() {
        None => return Err(ReplayError::Empty),
        Some((_, Timed { at, event: Event::Admitted(admitted) })) => (at, admitted),
        Some((index, _)) => return Err(ReplayError::Order { index }),
    };
    let partitions = admitted.partitions;
    let mut begun = vec![false; partitions as usize];
    let mut story = Story {
        partitions: vec![Past::default(); partitions as usize],
        backends: Vec::new(),
        build: admitted.build.clone(),
        admitted,
        failure: None,
        forgotten: false,
        created,
        touched: created,
    };
    for (index, Timed { at, event }) in events {
        story.touched = story.touched.max(at);
        let partition = match &event {
            Event::Admitted(_) => return Err(ReplayError::Order { index }),
            Event::Submitted(partition, _)
            | Event::Began(partition)
            | Event::Returned(partition)
            | Event::Proved(partition, _) => *partition,
            Event::Failed(_) | Event::Forgotten => 0,
        };
        let at = partition as usize;
        let (Some(past), Some(begun)) = (story.partitions.get_mut(at), begun.get_mut(at)) else {
            return Err(ReplayError::Partition { index, found: partition, partitions });
        };
        match event {
            Event::Submitted(_, witness) => {
                past.witness = Some(witness);
                *begun = false;
            }
            // Begun twice: the process before the last died over it.
            Event::Began(_) => past.deaths += u32::from(std::mem::replace(begun, true)),
            Event::Returned(_) => *begun = false,
            Event::Proved(_, result) => {
                let ours = result.job == story.admitted.job;
                let Ok([proof]) = <[PartitionProof; 1]>::try_from(result.proofs) else {
                    return Err(ReplayError::Proof { index });
                };
                if !ours {
                    return Err(ReplayError::Proof { index });
                }
                *past = Past { proof: Some(Box::new(proof)), witness: None, deaths: past.deaths };
                *begun = false;
                story.build = result.build;
                if !story.backends.contains(&result.backend) {
                    story.backends.push(result.backend);
                }
            }
            Event::Failed(error) => story.failure = Some(error),
            Event::Forgotten => story.forgotten = true,
            Event::Admitted(_) => {}
        }
    }
    for (past, begun) in story.partitions.iter_mut().zip(begun) {
        past.deaths += u32::from(begun);
    }
    if story.failure.is_some() {
        story.partitions.iter_mut().for_each(|past| past.witness = None);
    }
    Ok(story)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{ContentId, ErrorCode, IdempotencyKey, JobId, JobResult, Priority};
    use crate::r1cs::WitnessEncoding;

    fn admitted() -> Event {
        Event::Admitted(Admitted {
            job: JobId([1; 16]),
            uid: 7,
            key: IdempotencyKey::new(b"k").unwrap(),
            circuit: "spend".into(),
            circuit_id: ContentId([2; 32]),
            key_id: ContentId([3; 32]),
            partitions: 3,
            priority: Priority::High,
            deadline: None,
            build: "old".into(),
            result_bytes: 9,
        })
    }

    fn submitted(partition: u32) -> Event {
        let encoding = WitnessEncoding::Canonical;
        let name = format!("cuzk-w{partition}");
        Event::Submitted(partition, StoredWitness { name, leased: true, offset: 0, length: 64, encoding })
    }

    fn proved(partition: u32, job: u8) -> Event {
        let proof = PartitionProof {
            proof: [9; 192],
            public_inputs_hash: ContentId([4; 32]),
            public_inputs: Vec::new(),
            attempts: 1,
            timeline: Vec::new(),
        };
        let result = JobResult {
            job: JobId([job; 16]),
            circuit: "spend".into(),
            circuit_id: ContentId([2; 32]),
            key_id: ContentId([3; 32]),
            build: "new".into(),
            backend: "cpu".into(),
            proofs: vec![proof],
        };
        Event::Proved(partition, result)
    }

    fn told(events: impl IntoIterator<Item = Event>) -> Result<Story, ReplayError> {
        let timed = |(at, event)| Timed { at: Duration::from_secs(at), event };
        replay((1..).zip([admitted()].into_iter().chain(events)).map(timed).collect())
    }

    #[test]
    fn a_job_is_where_it_was() {
        let story = told([submitted(0), submitted(2), Event::Began(0), proved(0, 1)]).unwrap();
        assert_eq!((story.admitted.uid, story.admitted.priority), (7, Priority::High));
        assert!(story.partitions[0].proof.is_some() && story.partitions[0].witness.is_none());
        assert_eq!(story.partitions[1], Past::default());
        assert_eq!(story.partitions[2].witness.as_ref().unwrap().name, "cuzk-w2");
        assert_eq!((&story.build[..], &story.backends[..]), ("new", &["cpu".to_owned()][..]));
        assert_eq!((story.created.as_secs(), story.touched.as_secs()), (1, 5));
        assert!(!story.has_ended() && !story.forgotten);
        assert!(told([proved(0, 1), proved(1, 1), proved(2, 1)]).unwrap().has_ended());
    }

    #[test]
    fn only_what_ran_when_the_process_died_is_blamed() {
        let deaths = |events: Vec<Event>| {
            told(events).unwrap().partitions.iter().map(|past| past.deaths).collect::<Vec<_>>()
        };
        assert_eq!(deaths(vec![submitted(0), submitted(1)]), [0, 0, 0]);
        assert_eq!(deaths(vec![submitted(0), submitted(1), Event::Began(0)]), [1, 0, 0]);
        assert_eq!(deaths(vec![submitted(0), Event::Began(0), Event::Returned(0)]), [0, 0, 0]);
        assert_eq!(deaths(vec![submitted(0), Event::Began(0), Event::Began(0), Event::Began(0)]), [3, 0, 0]);
        assert_eq!(
            deaths(vec![submitted(0), Event::Began(0), Event::Began(0), Event::Returned(0), Event::Began(0)]),
            [2, 0, 0]
        );
        assert_eq!(deaths(vec![submitted(0), Event::Began(0), Event::Began(0), proved(0, 1)]), [1, 0, 0]);
    }

    #[test]
    fn what_has_failed_stays_so() {
        let error = ProtocolError::new(ErrorCode::JobCancelled, "cancelled");
        let failed = || Event::Failed(error.clone());
        for events in [vec![submitted(0), failed()], vec![submitted(0), failed(), proved(0, 1)]] {
            let story = told(events).unwrap();
            assert_eq!(story.failure.as_ref(), Some(&error));
            assert!(story.has_ended() && story.partitions.iter().all(|past| past.witness.is_none()));
        }
        assert!(told([Event::Forgotten]).unwrap().forgotten);
    }

    #[test]
    fn events_that_make_no_job_are_refused() {
        assert!(matches!(replay(Vec::new()), Err(ReplayError::Empty)));
        let first = Timed { at: Duration::ZERO, event: Event::Began(0) };
        assert!(matches!(replay(vec![first]), Err(ReplayError::Order { index: 0 })));
        assert!(matches!(told([admitted()]), Err(ReplayError::Order { index: 1 })));
        let error = told([Event::Began(3)]).unwrap_err().to_string();
        assert_eq!(error, "entry 1 is about partition 3, the job has 3");
        assert!(matches!(told([proved(0, 2)]), Err(ReplayError::Proof { index: 1 })));
    }
}
