//! Where a proof's time went.
use std::time::{Duration, Instant};
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    Queued,
    Copy,
    Evaluate,
    Quotient,
    MsmH,
    MsmL,
    MsmA,
    MsmB1,
    MsmB2,
    Assemble,
    Verify,
}
impl Stage {
    pub fn name(self) -> &'static str {
        todo!()
    }
}
/// Spans in order; times are relative to the timeline's start.
pub struct Timeline {
    pub start: Instant,
    pub spans: Vec<Span>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub stage: Stage,
    pub start: Duration,
    pub duration: Duration,
}
