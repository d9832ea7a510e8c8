//! What the daemon shows of itself: where its provers' time goes, what its last partitions took, and both as metrics and
//! traces.
pub mod activity;
pub mod history;
pub mod metrics;
pub mod trace;

pub use activity::{Activity, Spent, Wait, Waiting, Writing};
pub use history::{End, History, Past};
pub use metrics::Stages;

/// All instruments; shared by those who tell and those who ask.
pub struct Instruments {
    /// Where the provers' time goes.
    pub activity: Activity,
    /// The last partitions.
    pub history: History,
    /// How long stages take.
    pub stages: Stages,
}

impl Instruments {
    /// For provers with so many slots each, of which some are the host itself.
    pub fn new(provers: impl IntoIterator<Item = (usize, bool)>) -> Self {
        Self { activity: Activity::new(provers), history: History::default(), stages: Stages::default() }
    }

    /// A partition has ended.
    pub fn ended(&self, past: Past) {
        if past.end == End::Proved {
            for span in &past.spans {
                self.stages.observe(&past.circuit, span.stage, span.duration);
            }
        }
        self.history.push(past);
    }
}
