//! `cuzk generate`: manual pages and shell completions, made from the command line's own definition.
use super::{Cli, Exit, Failure, failure::Outcome};
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// Write manual pages or shell completions.
#[derive(Args, Debug)]
pub struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Write a manual page for the command and for each verb into a directory.
    Man {
        /// Where to, e.g. /usr/share/man/man1; made where it is missing.
        dir: PathBuf,
    },
    /// Print a shell's completions.
    Completions {
        /// Which shell's.
        shell: Shell,
    },
}

/// Runs the verb.
///
/// # Errors
/// The directory or standard output cannot be written to.
pub fn run(verb: &Generate) -> Outcome {
    let mut command = Cli::command();
    match &verb.what {
        What::Man { dir } => {
            fs::create_dir_all(dir).map_err(Failure::at(dir))?;
            command.build();
            manual(&command, dir)?;
            #[cfg(feature = "daemon")]
            page(&crate::daemon::arguments::Arguments::command(), "8", dir)?;
        }
        What::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command, "cuzk", &mut script);
            std::io::stdout().write_all(&script).map_err(Failure::file)?;
        }
    }
    Ok(Exit::Ok)
}

/// The pages of a command and, recursively, of its verbs: cuzk.1, cuzk-prove.1, …
fn manual(command: &clap::Command, dir: &Path) -> Result<(), Failure> {
    page(command, "1", dir)?;
    command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        .try_for_each(|verb| manual(verb, dir))
}

/// One page, in a section of the manual.
fn page(command: &clap::Command, section: &str, dir: &Path) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let path = dir.join(format!("{name}.{section}"));
    let mut page = Vec::new();
    let manual = clap_mangen::Man::new(command.clone()).title(name).section(section);
    manual.render(&mut page).map_err(Failure::at(&path))?;
    fs::write(&path, page).map_err(Failure::at(&path))
}
