//! The daemon's command line, from which its manual page is made, too.
use clap::Parser;
use std::{path::PathBuf, sync::LazyLock};

/// The table of exit statuses, for the help and the manual page.
const EXIT_STATUS: &str = "\
Exit status:
  0    stopped as it was told to, or the configuration is good
  1    a fault while running
  73   the socket cannot be had; another daemon may be serving there
  78   the configuration is wrong";

/// The build, and the architectures of devices that it has kernels for.
fn long_version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| format!("{}\n{}", crate::BUILD_ID, kernels()));
    &VERSION
}

#[cfg(feature = "cuda")]
fn kernels() -> String {
    use crate::gpu::kernels::{TOOLKIT, architectures};
    format!("kernels of CUDA {TOOLKIT}: {}", architectures())
}

#[cfg(not(feature = "cuda"))]
fn kernels() -> String {
    "without CUDA: proves on the CPU".into()
}

/// Proves Groth16 circuits for local clients. SIGTERM stops it, SIGHUP makes it read its configuration again.
#[derive(Parser, Debug)]
#[command(name = "cuzk-daemon", version = crate::BUILD_ID, long_version = long_version(), after_help = EXIT_STATUS)]
pub struct Arguments {
    /// The configuration file, with drop-ins in FILE.d/ [default: /etc/cuzk/cuzk.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print OK or every problem of the configuration, and start nothing
    #[arg(long)]
    pub check_config: bool,
    /// A fault of every device, with the N-th result of a sum that is copied from it
    #[cfg(feature = "fault-injection")]
    #[arg(long, value_name = "FAULT@N")]
    pub fault: Option<crate::gpu::fault::Injection>,
}
