//! What a verb says: one JSON document or text for people on standard output, progress on standard
//! error while somebody is watching.
use super::{Exit, Failure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

/// Where answers and progress go.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// `json`: one JSON document instead of text, and no progress.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Gives the answer: `document` as JSON, or `text`. A reader who has gone away (`| head`) is no error.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn answer(&self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let mut out = if self.json {
            serde_json::to_string_pretty(document).map_err(Failure::internal)?
        } else {
            text()
        };
        if !out.ends_with('\n') {
            out.push('\n');
        }
        let mut stdout = io::stdout().lock();
        match stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::file(format_args!("standard output: {e}")))
            }
            _ => Ok(()),
        }
    }

    /// Says why the verb failed. Returns its exit status.
    pub fn failure(&self, failure: &Failure) -> Exit {
        if self.json {
            let error = json!({
                "exit": failure.exit as u8, "code": failure.code, "message": failure.message,
            });
            // Where even this cannot be said, the exit status still tells.
            let _ = self.answer(&json!({ "error": error }), String::new);
        } else {
            self.note(&format!("cuzk: {failure}"));
        }
        failure.exit
    }

    /// A line for people, on standard error, that is no part of the answer.
    pub fn note(&self, line: &str) {
        // Nowhere is left to report that standard error is closed.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// A progress bar over `total` units, drawn on standard error where that is a terminal.
    pub fn bar(&self, what: &str, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:30!} {bar:30} {percent:>3} %  {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.progress(ProgressBar::with_draw_target(Some(total), self.target()), style, what)
    }

    /// A spinner for work whose length is unknown, under the same condition.
    pub fn spinner(&self, what: &str) -> ProgressBar {
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = self.progress(ProgressBar::with_draw_target(None, self.target()), style, what);
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn progress(&self, bar: ProgressBar, style: ProgressStyle, what: &str) -> ProgressBar {
        bar.set_style(style);
        bar.set_message(what.to_owned());
        bar
    }

    fn target(&self) -> ProgressDrawTarget {
        if !self.json && io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        }
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A number of bytes for people, with a binary unit.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = n as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A duration for people: seconds with milliseconds.
pub fn seconds(d: Duration) -> String {
    format!("{:.3} s", d.as_secs_f64())
}

/// Lines of columns, each as wide as its widest cell.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(hex(&[0, 0x0f, 0xff]), "000fff");
        for (n, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB")] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(bytes(47 << 30), "47.0 GiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        let rows = [vec!["a".into(), "long cell".into()], vec!["wider".into(), "b".into()]];
        assert_eq!(table(&rows), "a      long cell\nwider  b");
        assert_eq!(table(&[]), "");
        assert_eq!(seconds(Duration::from_millis(1234)), "1.234 s");
    }
}
