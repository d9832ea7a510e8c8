//! What the service manager is told.
use crate::daemon::slow::slowly;
use sd_notify::NotifyState;
use std::time::Duration;

/// One thing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The start, or a reload, is done.
    Ready,
    /// A reload begins.
    Reloading,
    /// The end begins.
    Stopping,
    /// A line for people.
    Status(&'a str),
    /// The start or reload may take this much longer from now.
    ExtendTimeout(Duration),
    /// A sign of life.
    Watchdog,
}

/// Whoever wants to know.
pub trait Notify: Send + Sync {
    /// Tells events that belong together.
    fn notify(&self, events: &[Event<'_>]);
}

/// The service manager, where there is one (`NOTIFY_SOCKET`); otherwise nobody.
pub struct ServiceManager;

impl Notify for ServiceManager {
    fn notify(&self, events: &[Event<'_>]) {
        let mut states = Vec::with_capacity(events.len() + 1);
        for event in events {
            match *event {
                Event::Ready => states.push(NotifyState::Ready),
                Event::Stopping => states.push(NotifyState::Stopping),
                Event::Status(line) => states.push(NotifyState::Status(line)),
                Event::Watchdog => states.push(NotifyState::Watchdog),
                Event::ExtendTimeout(by) => {
                    let micros = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
                    states.push(NotifyState::ExtendTimeoutUsec(micros));
                }
                Event::Reloading => {
                    states.push(NotifyState::Reloading);
                    // The manager orders reloads by this; the clock cannot fail on Linux.
                    states.extend(NotifyState::monotonic_usec_now());
                }
            }
        }
        // A manager that does not read holds up whoever tells it.
        slowly(|| {
            if let Err(error) = sd_notify::notify(&states) {
                tracing::warn!("the service manager cannot be told {events:?}: {error}");
            }
        });
    }
}
