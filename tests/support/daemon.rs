//! The real `cuzk-daemon` in a folder of its own, under a service manager that the test plays: its
//! notifications arrive here. Whatever happens to the test, the process is gone afterwards.
#![allow(dead_code)]
use std::{
    fs, io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// How long anything may take before the test fails; nothing is expected to take that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// The daemon under test: the one beside the test's own binary, where both were brought to another machine, or
/// else the one that was built with it.
pub fn binary() -> PathBuf {
    let beside = std::env::current_exe().unwrap().with_file_name("cuzk-daemon");
    if beside.exists() { beside } else { env!("CARGO_BIN_EXE_cuzk-daemon").into() }
}

/// What a daemon is started with.
pub struct Builder {
    dir: tempfile::TempDir,
    config: String,
    environment: Vec<(&'static str, String)>,
}

/// A running daemon.
pub struct Daemon {
    dir: tempfile::TempDir,
    child: Child,
    manager: UnixDatagram,
    told: Vec<String>,
}

impl Builder {
    /// A daemon with its socket, state and circuits in a new folder, no circuits, and otherwise the defaults.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("circuits")).unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let config = format!(
            "socket = '{}'\nstate_dir = '{}'\ncircuits_dir = '{}'\nthreads = 2\nlog = 'debug'\n",
            at("socket"),
            at("state"),
            at("circuits")
        );
        Self { dir, config, environment: Vec::new() }
    }

    /// Adds settings, as TOML.
    pub fn config(mut self, settings: &str) -> Self {
        self.config += settings;
        self.config.push('\n');
        self
    }

    /// Sets a variable of its environment.
    pub fn environment(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Adds a circuit's definition.
    pub fn circuit(self, name: &str, definition: &str) -> Self {
        define(self.dir.path(), name, definition);
        self
    }

    /// The daemon's folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the configuration and returns its path.
    pub fn write_config(&self) -> PathBuf {
        let path = self.dir.path().join("cuzk.toml");
        fs::write(&path, &self.config).unwrap();
        path
    }

    /// The command that starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.arg("--config").arg(self.write_config());
        self.arrange(&mut command);
        command
    }

    /// The environment and the output that the test wants.
    pub fn arrange(&self, command: &mut Command) {
        let log = fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify")).env_remove("WATCHDOG_USEC");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
    }

    /// Starts it, without waiting for anything.
    pub fn spawn(self) -> Daemon {
        let command = self.command();
        self.spawn_command(command)
    }

    /// Starts it with this command.
    pub fn spawn_command(self, mut command: Command) -> Daemon {
        let manager = UnixDatagram::bind(self.dir.path().join("notify")).unwrap();
        let child = command.spawn().unwrap();
        Daemon { dir: self.dir, child, manager, told: Vec::new() }
    }

    /// Starts it, and waits until it is ready.
    pub fn start(self) -> Daemon {
        let mut daemon = self.spawn();
        daemon.wait_for("READY=1");
        daemon
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

fn define(dir: &Path, name: &str, definition: &str) {
    fs::write(dir.join("circuits").join(format!("{name}.toml")), definition).unwrap();
}

impl Daemon {
    /// Its folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Adds or replaces a circuit's definition.
    pub fn define(&self, name: &str, definition: &str) {
        define(self.dir.path(), name, definition);
    }

    /// Removes a circuit's definition.
    pub fn undefine(&self, name: &str) {
        fs::remove_file(self.dir.path().join("circuits").join(format!("{name}.toml"))).unwrap();
    }

    /// The configuration as it is now.
    pub fn config(&self) -> String {
        fs::read_to_string(self.dir.path().join("cuzk.toml")).unwrap()
    }

    /// Replaces the configuration.
    pub fn set_config(&self, text: &str) {
        fs::write(self.dir.path().join("cuzk.toml"), text).unwrap();
    }

    /// Everything that the service manager has been told, one assignment a line.
    pub fn told(&self) -> &[String] {
        &self.told
    }

    /// Waits until the service manager is told `assignment` (or what begins with it) from now on, and
    /// returns all that came with it in the same message.
    pub fn wait_for(&mut self, assignment: &str) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            // Its end is looked for before its messages: what it told last is not missed.
            let ended = self.child.try_wait().unwrap();
            let within = if ended.is_some() { Duration::ZERO } else { Duration::from_millis(100) };
            match self.next_message(within) {
                Some(message) if message.iter().any(|line| line.starts_with(assignment)) => return message,
                Some(_) => {}
                None => assert!(
                    ended.is_none() && Instant::now() < until,
                    "not told {assignment:?}, but {:#?}; ended: {ended:?}\nlog:\n{}",
                    self.told,
                    self.log()
                ),
            }
        }
    }

    /// The next message within this time.
    pub fn next_message(&mut self, within: Duration) -> Option<Vec<String>> {
        self.manager.set_read_timeout(Some(within.max(Duration::from_millis(1)))).unwrap();
        let mut buffer = [0; 8192];
        match self.manager.recv(&mut buffer) {
            Ok(length) => {
                let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
                let message: Vec<String> = text.lines().map(String::from).collect();
                self.told.extend(message.iter().cloned());
                Some(message)
            }
            // A signal to this process is no news of the daemon either.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                while self.next_message(Duration::ZERO).is_some() {}
                return status;
            }
            assert!(Instant::now() < until, "it does not end; log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts another one in the same folder, once this one has ended, and waits until it is ready.
    pub fn restart(mut self) -> Self {
        self.wait();
        let mut command = Command::new(binary());
        let log = fs::File::options().append(true).open(self.dir.path().join("log")).unwrap();
        command.arg("--config").arg(self.dir.path().join("cuzk.toml"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify"));
        self.told.clear();
        self.child = command.spawn().unwrap();
        self.wait_for("READY=1");
        self
    }

    /// Stops it as a service manager does; it must exit with 0.
    pub fn stop(mut self) {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let status = self.wait();
        assert!(status.success(), "{status}; log:\n{}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail if it has ended already, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
