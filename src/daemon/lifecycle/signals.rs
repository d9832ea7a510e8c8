//! Signals as controls: SIGTERM and SIGINT stop, SIGHUP reloads.
use super::Control;
use std::io;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Controls that may wait to be looked at. More signals than that of one kind say nothing new.
const WAITING: usize = 8;

/// Turns signals into controls from now on.
///
/// # Errors
/// The handlers cannot be installed.
pub fn controls() -> io::Result<mpsc::Receiver<Control>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let control = tokio::select! {
                Some(()) = terminate.recv() => Control::Stop,
                Some(()) = interrupt.recv() => Control::Stop,
                Some(()) = hangup.recv() => Control::Reload,
                else => return,
            };
            if sender.send(control).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
