//! Where events go: to the journal with their fields where stderr is the journal's, otherwise to stderr.
use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
};
use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::{Layer, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

/// Whether stderr is the stream that the service manager says goes to the journal (`JOURNAL_STREAM`).
fn stderr_is_the_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    let Ok(stat) = nix::sys::stat::fstat(io::stderr().as_fd()) else { return false };
    stream == format!("{}:{}", stat.st_dev, stat.st_ino)
}

/// Starts logging; the function that comes back changes the level.
///
/// # Errors
/// Something logs already, or the journal does not take what it promised to.
pub fn start(level: Level) -> io::Result<impl Fn(Level) + Send + Sync> {
    let (filter, handle) = reload::Layer::new(LevelFilter::from_level(level));
    let output: Box<dyn Layer<Registry> + Send + Sync> = if stderr_is_the_journal() {
        Box::new(tracing_journald::layer()?.with_field_prefix(None))
    } else {
        Box::new(
            tracing_subscriber::fmt::layer()
                .with_writer(io::stderr)
                .with_ansi(io::stderr().is_terminal())
                .with_target(false),
        )
    };
    tracing_subscriber::registry().with(output.with_filter(filter)).try_init().map_err(io::Error::other)?;
    Ok(move |level| {
        // Fails only once the subscriber is gone, which it never is.
        let _ = handle.reload(LevelFilter::from_level(level));
    })
}
