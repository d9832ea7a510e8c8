//! Where a proof's time went.
use crate::algebra::{CancelToken, Cancelled};
use std::time::{Duration, Instant};

/// A stage of a job, from its arrival to its verified proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Waiting for memory for the witness.
    Lease,
    /// The client has that memory, and writes the witness.
    Witness,
    /// Waiting for a prover.
    Queued,
    /// Locking the witness's pages, for the device to copy from.
    Pin,
    /// Waiting, in a prover's slot, for the device itself.
    Slot,
    /// Circuit and key on their way to the device.
    Key,
    /// Taking the witness out of shared memory.
    Copy,
    /// a = A·z, b = B·z, c = a∘b.
    Evaluate,
    /// Transforms: the quotient's coefficients, or its values on the odd coset.
    Quotient,
    /// Multi-exponentiation of the quotient.
    MsmH,
    /// Multi-exponentiation of the auxiliary variables.
    MsmL,
    /// Multi-exponentiation for the proof's a.
    MsmA,
    /// Multi-exponentiation of b in G1.
    MsmB1,
    /// Multi-exponentiation of b in G2.
    MsmB2,
    /// Overwriting what the proof leaves in the device's memory.
    Wipe,
    /// Blinding and the sum of the parts.
    Assemble,
    /// The pairing check.
    Verify,
}

impl Stage {
    /// Lower-case name, stable: it appears in status, metrics and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Witness => "witness",
            Self::Queued => "queued",
            Self::Pin => "pin",
            Self::Slot => "slot",
            Self::Key => "key",
            Self::Copy => "copy",
            Self::Evaluate => "evaluate",
            Self::Quotient => "quotient",
            Self::MsmH => "msm_h",
            Self::MsmL => "msm_l",
            Self::MsmA => "msm_a",
            Self::MsmB1 => "msm_b1",
            Self::MsmB2 => "msm_b2",
            Self::Wipe => "wipe",
            Self::Assemble => "assemble",
            Self::Verify => "verify",
        }
    }
}

/// Spans in the order in which they ended; times are relative to the timeline's start.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The instant that all spans are relative to.
    pub start: Instant,
    /// What was done when.
    pub spans: Vec<Span>,
}

/// One stage's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What was done.
    pub stage: Stage,
    /// When it began, after the timeline's start.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
}

impl Timeline {
    /// An empty timeline that starts now.
    pub fn new() -> Self {
        Self { start: Instant::now(), spans: Vec::new() }
    }

    /// Adds a span of the past.
    pub fn record_until(&mut self, stage: Stage, began: Instant, ended: Instant) {
        let start = began.saturating_duration_since(self.start);
        self.spans.push(Span { stage, start, duration: ended.saturating_duration_since(began) });
    }

    /// Adds a span from `began` until now.
    pub fn record(&mut self, stage: Stage, began: Instant) {
        self.record_until(stage, began, Instant::now());
    }
}

/// A caller's hooks around each stage of a proof.
pub(crate) struct StageRunner<'a> {
    pub(crate) cancel: &'a CancelToken,
    pub(crate) timeline: &'a mut Timeline,
    pub(crate) on_stage: &'a mut dyn FnMut(Stage),
}

impl StageRunner<'_> {
    /// Tells that the stage begins, does its work and records its time; nothing once it is cancelled.
    pub(crate) fn run<T, E: From<Cancelled>>(
        &mut self,
        stage: Stage,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.cancel.check()?;
        (self.on_stage)(stage);
        let began = Instant::now();
        let result = work()?;
        self.timeline.record(stage, began);
        Ok(result)
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_relative_to_the_start() {
        let mut timeline = Timeline::new();
        timeline.record(Stage::Evaluate, timeline.start);
        let span = timeline.spans[0];
        assert_eq!((span.stage, span.start), (Stage::Evaluate, Duration::ZERO));
        assert!(span.duration <= timeline.start.elapsed());
    }
}
