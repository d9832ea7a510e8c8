//! The daemon in Prometheus' text format: what a status counts, as it is when it is asked for, and how long each stage of
//! each circuit's proofs takes. Labels are names of circuits, provers and stages, of which there are few.
use crate::groth16::Stage;
use crate::proto::{BackendStatus, Status};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text::encode},
    metrics::{
        counter::ConstCounter,
        family::Family,
        gauge::ConstGauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use std::{fmt, time::Duration};

/// A stage of a circuit's proofs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    circuit: String,
    stage: &'static str,
}

/// A millisecond to 18 minutes, by factors of two.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 21))
}

/// How long stages take.
#[derive(Clone)]
pub struct Stages(Family<OfStage, Histogram>);

impl Default for Stages {
    fn default() -> Self {
        Self(Family::new_with_constructor(histogram as fn() -> Histogram))
    }
}

impl Stages {
    /// One more time.
    pub fn observe(&self, circuit: &str, stage: Stage, time: Duration) {
        let labels = OfStage { circuit: circuit.to_owned(), stage: stage.name() };
        self.0.get_or_create(&labels).observe(time.as_secs_f64());
    }
}

/// The text: a status, and the times of its circuits' stages.
///
/// # Errors
/// Writing to memory fails.
pub fn text(status: Status, stages: &Stages) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("cuzk");
    registry.register_with_unit("stage", "Time of a stage of a partition", Unit::Seconds, stages.0.clone());
    registry.register_collector(Box::new(Snapshot(status)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// A status as metrics.
#[derive(Debug)]
struct Snapshot(Status);

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// One metric with all its label sets.
fn family<'a, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<&Unit>),
    metrics: impl IntoIterator<Item = (Labels<'a>, M)>,
) -> fmt::Result {
    let mut metrics = metrics.into_iter().peekable();
    let Some((_, first)) = metrics.peek() else { return Ok(()) };
    let mut family = encoder.encode_descriptor(name, help, unit, first.metric_type())?;
    for (labels, metric) in metrics {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(status) = self;
        let encoder = &mut encoder;
        let gauge = |value: u64| ConstGauge::new(value as f64);
        let count = ConstCounter::new;
        let one = |value| [(Labels::new(), value)];

        let build = vec![("build", &status.build[..]), ("state", status.state.name())];
        family(encoder, ("daemon", "The daemon, with its build and state", None), [(build, gauge(1))])?;
        let uptime = ConstGauge::new(status.uptime.as_secs_f64());
        family(encoder, ("uptime", "Time since the start", Some(&Unit::Seconds)), one(uptime))?;
        family(encoder, ("connections", "Open connections", None), one(gauge(status.connections.into())))?;

        let memory = &status.memory;
        let used = [
            ("leases", memory.leases),
            ("keys", memory.keys),
            ("circuits", memory.circuits),
            ("working", memory.working),
        ];
        family(
            encoder,
            ("memory_used", "Memory of the budget that is used", Some(&Unit::Bytes)),
            used.map(|(consumer, bytes)| (vec![("consumer", consumer)], gauge(bytes))),
        )?;
        for (name, help, bytes) in [
            ("memory_budget", "The memory budget", memory.total),
            ("memory_peak", "The most of the budget that was ever used", memory.peak),
            ("memory_locked", "Memory of the budget that is locked for devices", memory.locked),
            ("memory_resident", "What the kernel counts as the process's own", memory.resident),
        ] {
            family(encoder, (name, help, Some(&Unit::Bytes)), one(gauge(bytes)))?;
        }
        family(
            encoder,
            ("memory_waiting", "Requests that wait for memory", None),
            one(gauge(memory.waiting.into())),
        )?;

        let queues = status.queues.iter();
        family(
            encoder,
            ("queue", "Partitions that wait for a prover", None),
            queues.map(|q| (vec![("priority", q.priority.name())], gauge(q.partitions.into()))),
        )?;
        let buffers = status.buffers.iter();
        family(
            encoder,
            ("buffers", "Witness buffers in flight", Some(&Unit::Bytes)),
            buffers.map(|b| (vec![("stage", &b.stage[..])], gauge(b.bytes))),
        )?;

        let provers = || status.backends.iter();
        family(
            encoder,
            ("prover_state", "Each prover, with its state", None),
            provers().map(|p| (vec![("prover", &p.name[..]), ("state", p.state.name())], gauge(1))),
        )?;
        family(
            encoder,
            ("prover_busy", "Time in which a prover computed or copied", Some(&Unit::Seconds)),
            provers().map(|p| (vec![("prover", &p.name[..])], ConstCounter::new(p.busy.as_secs_f64()))),
        )?;
        let idle = provers().flat_map(|p| {
            p.idle.by_cause().map(|(cause, time)| {
                (vec![("prover", &p.name[..]), ("cause", cause)], ConstCounter::new(time.as_secs_f64()))
            })
        });
        family(encoder, ("prover_idle", "Time in which it did not", Some(&Unit::Seconds)), idle)?;
        family(
            encoder,
            ("prover_retries", "Proofs that did not verify and were made again", None),
            provers().map(|p| (vec![("prover", &p.name[..])], count(p.retries))),
        )?;
        for (name, help, bytes) in [
            (
                "prover_memory",
                "A device's memory that is taken",
                (|p: &BackendStatus| p.memory) as fn(&_) -> u64,
            ),
            ("prover_memory_kept", "What circuits and keys keep of it", |p: &BackendStatus| p.memory_kept),
        ] {
            family(
                encoder,
                (name, help, Some(&Unit::Bytes)),
                provers().map(|p| (vec![("prover", &p.name[..])], gauge(bytes(p)))),
            )?;
        }

        family(
            encoder,
            ("circuit_tier", "Each circuit, with where its key is", None),
            status
                .circuits
                .iter()
                .map(|c| (vec![("circuit", &c.name[..]), ("tier", c.tier.name())], gauge(1))),
        )?;

        let counters = &status.counters;
        let ends = [
            ("submitted", counters.submitted),
            ("proved", counters.proved),
            ("failed", counters.failed),
            ("cancelled", counters.cancelled),
        ];
        family(
            encoder,
            ("partitions", "Partitions since the start", None),
            ends.map(|(end, n)| (vec![("event", end)], count(n))),
        )?;
        family(
            encoder,
            ("requests_refused", "Requests answered with an error", None),
            [(Labels::new(), count(counters.refused))],
        )
    }
}
