//! The history as a Chrome trace (Trace Event Format, Google, 2016), which Perfetto and chrome://tracing show: a process for
//! each prover with a track for each slot, and one for the time before, with a track for each partition.
use super::history::Past;
use crate::groth16::Stage;
use serde_json::{Value, json};
use std::time::Duration;

/// The process of what waits.
const WAITING: usize = 0;

fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn name(what: &str, process: usize, thread: Option<usize>, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": process, "tid": thread.unwrap_or(0), "args": { "name": name } })
}

fn waits(stage: Stage) -> bool {
    matches!(stage, Stage::Lease | Stage::Witness | Stage::Queued)
}

/// The trace's JSON. Times are in microseconds since the daemon's start.
pub fn document(history: &[Past]) -> String {
    let mut provers: Vec<&str> = history.iter().map(|past| &past.prover.0[..]).collect();
    provers.sort_unstable();
    provers.dedup();
    let mut events = vec![name("process_name", WAITING, None, "waiting")];
    for (prover, process) in provers.iter().zip(1..) {
        events.push(name("process_name", process, None, prover));
    }
    for (track, past) in history.iter().enumerate() {
        let process = provers.binary_search(&&past.prover.0[..]).map_or(WAITING, |index| index + 1);
        events.push(name("thread_name", WAITING, Some(track), &format!("{}/{}", past.job, past.partition)));
        for span in &past.spans {
            let (process, thread) =
                if waits(span.stage) { (WAITING, track) } else { (process, past.prover.1) };
            events.push(json!({
                "ph": "X", "name": span.stage.name(), "cat": past.circuit, "pid": process, "tid": thread,
                "ts": microseconds(past.start + span.start), "dur": microseconds(span.duration),
                "args": {
                    "job": past.job.to_string(), "partition": past.partition, "uid": past.uid,
                    "circuit": past.circuit, "end": past.end.name(),
                },
            }));
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::instruments::history::End;
    use crate::groth16::Span;
    use crate::proto::JobId;

    #[test]
    fn spans_lie_on_the_tracks_of_who_spent_the_time() {
        let span = |stage, start, duration| Span {
            stage,
            start: Duration::from_micros(start),
            duration: Duration::from_nanos(duration),
        };
        let past = Past {
            job: JobId([7; 16]),
            partition: 3,
            uid: 1000,
            circuit: "spend".into(),
            prover: ("cuda:GPU-6f0a1b2c".into(), 1),
            end: End::Proved,
            start: Duration::from_millis(2),
            spans: vec![span(Stage::Queued, 0, 5000), span(Stage::MsmH, 5, 1500)],
        };
        let trace: Value = serde_json::from_str(&document(&[past])).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let [queued, msm] = spans[..] else { panic!("{trace}") };
        assert_eq!(
            (&queued["name"], &queued["pid"], &queued["tid"]),
            (&json!("queued"), &json!(0), &json!(0))
        );
        assert_eq!((&msm["name"], &msm["pid"], &msm["tid"]), (&json!("msm_h"), &json!(1), &json!(1)));
        assert_eq!((&msm["ts"], &msm["dur"]), (&json!(2005.0), &json!(1.5)));
        assert_eq!(msm["args"]["job"], JobId([7; 16]).to_string());
        let named = |process: u64, what: &str| {
            events
                .iter()
                .any(|e| e["name"] == "process_name" && e["pid"] == process && e["args"]["name"] == what)
        };
        assert!(named(0, "waiting") && named(1, "cuda:GPU-6f0a1b2c"), "{trace}");
    }

    #[test]
    fn an_empty_history_is_a_trace() {
        let trace: Value = serde_json::from_str(&document(&[])).unwrap();
        assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 1);
    }
}
