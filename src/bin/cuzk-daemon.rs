//! The daemon's command line: what it is told, where it listens, and how it says what went wrong.
use anyhow::Context;
use clap::Parser;
use cuzk::daemon::{
    arguments::Arguments,
    config::{Config, ConfigSource, Memory},
    devices::{self, NoProver, Provers},
    host::HostFiles,
    lifecycle::{
        self, RunError, Setup, StartError,
        listener::{self, Inherited},
        logging, notify, signals,
    },
    store::{Handover, ServiceManager},
};
use std::{os::fd::OwnedFd, process::ExitCode};
use tokio_seqpacket::UnixSeqpacketListener;

/// A fault while running.
const EXIT_FAULT: u8 = 1;
/// The socket cannot be had (EX_CANTCREAT of sysexits.h).
const EXIT_SOCKET: u8 = 73;
/// The configuration is wrong (EX_CONFIG of sysexits.h).
const EXIT_CONFIG: u8 = 78;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let source = ConfigSource::new(arguments.config);
    let config = match source.load() {
        Ok(config) => config,
        Err(problems) => {
            if arguments.check_config {
                println!("{problems}");
            } else {
                eprintln!("{problems}");
            }
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    if arguments.check_config {
        return check(&config);
    }
    #[cfg(feature = "fault-injection")]
    let config =
        Config { prover: cuzk::daemon::config::Prover { fault: arguments.fault, ..config.prover }, ..config };
    match start(config, source) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cuzk-daemon: {}", in_words(&error));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The error with its causes, but for those that it quotes itself.
fn in_words(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        match (text.is_empty(), text.contains(&cause)) {
            (true, _) => cause,
            (_, true) => text,
            _ => format!("{text}: {cause}"),
        }
    })
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<listener::ListenError>() {
        return if error.is_taken() { EXIT_SOCKET } else { EXIT_FAULT };
    }
    if let Some(NoProver::NoDevice { .. } | NoProver::NotThere { .. }) = error.downcast_ref() {
        return EXIT_CONFIG;
    }
    match error.downcast_ref() {
        Some(RunError::Start(StartError::Circuits(_) | StartError::State { .. } | StartError::Host(_))) => {
            EXIT_CONFIG
        }
        _ => EXIT_FAULT,
    }
}

/// Checks what the files' text alone does not tell.
fn check(config: &Config) -> ExitCode {
    let mut problems = lifecycle::definition_problems(&config.circuits_dir);
    if config.memory == Memory::Auto
        && let Err(error) = HostFiles::default().budget(config.memory_margin)
    {
        problems.push(error.to_string());
    }
    if problems.is_empty() {
        println!("OK");
        return ExitCode::SUCCESS;
    }
    for problem in problems {
        println!("{problem}");
    }
    ExitCode::from(EXIT_CONFIG)
}

fn start(config: Config, source: ConfigSource) -> anyhow::Result<()> {
    // First of all: the descriptor's number must not have been given to anything else.
    let inherited = listener::inherited()?;
    let set_log_level = logging::start(config.log).context("logging cannot be started")?;
    keep_secrets()?;
    allow_descriptors()?;
    let Inherited { socket, stored } = inherited;
    let (socket, guard) = match socket {
        Some(socket) => (socket, None),
        None => {
            let (socket, guard) = listener::bound(&config.socket, config.socket_mode)?;
            (socket, Some(guard))
        }
    };
    tracing::info!("cuzk-daemon {} starts, process {}", cuzk::BUILD_ID, std::process::id());
    let provers = devices::start(&config.prover, config.threads)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("io")
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let manager = ServiceManager::from_environment().context("NOTIFY_SOCKET names no service manager")?;
    let store = Handover { manager, entries: stored };
    let result = runtime.block_on(serve(socket, config, source, provers, store, Box::new(set_log_level)));
    // A worker or a loading thread that does not end must not keep the process.
    runtime.shutdown_background();
    drop(guard);
    result
}

async fn serve(
    socket: OwnedFd,
    config: Config,
    source: ConfigSource,
    provers: Provers,
    store: Handover,
    set_log_level: Box<dyn Fn(tracing::Level) + Send + Sync>,
) -> anyhow::Result<()> {
    let listener = UnixSeqpacketListener::try_from(socket).context("the socket cannot be listened at")?;
    let controls = signals::controls().context("signals cannot be handled")?;
    let watchdog = sd_notify::watchdog_enabled();
    let notify = Box::new(notify::ServiceManager);
    let Provers { backends, quarantined } = provers;
    let setup = Setup { config, source, backends, quarantined, notify, watchdog, store, set_log_level };
    Ok(lifecycle::run(listener, setup, controls).await?)
}

/// Witnesses are secrets: no core dump, and no other process of this user may look inside.
fn keep_secrets() -> anyhow::Result<()> {
    nix::sys::prctl::set_dumpable(false).context("core dumps cannot be switched off")?;
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0)
        .context("core dumps cannot be switched off")
}

/// Connections and leases are descriptors: as many as the service manager allows, not the 1,024 that programs
/// begin with for the sake of `select`.
fn allow_descriptors() -> anyhow::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit on descriptors cannot be read")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("the limit on descriptors cannot be raised")
}
