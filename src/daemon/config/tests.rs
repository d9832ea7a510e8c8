//! What is accepted, what is refused and how, and that the shipped file and the documentation tell the truth.
use super::*;

fn load(main: &str, drop_ins: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cuzk.toml");
    fs::write(&file, main).unwrap();
    fs::create_dir(dir.path().join("cuzk.toml.d")).unwrap();
    for (name, text) in drop_ins {
        fs::write(dir.path().join("cuzk.toml.d").join(name), text).unwrap();
    }
    ConfigSource::new(Some(file)).load()
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(load("", &[]).unwrap(), Config::default());
}

#[test]
fn every_setting_is_read() {
    let config = load(
        r#"
        socket = "/tmp/s"
        socket_mode = "0600"
        state_dir = "/tmp/state"
        circuits_dir = "/tmp/circuits"
        memory = "16GiB"
        threads = 3
        result_ttl = "10min"
        stop_timeout = "5s"
        log = "debug"
        http = "[::1]:9464"
        [prover]
        backend = "auto"
        devices = ["0000:3b:00.0", "GPU-6f0a1b2c"]
        device_memory = "8GiB"
        slots = 3
        cpu_beside = true
        patience = "5s"
        cpu_fallback = true
        [limits]
        connections = 10
        connections_per_uid = 9
        requests_per_connection = 8
        jobs = 7
        jobs_per_uid = 6
        result_bytes = "1MiB"
        result_bytes_per_uid = "512KiB"
        leases_per_uid = 5
        bytes_per_uid = "4GiB"
        "#,
        &[],
    )
    .unwrap();
    let wanted = Config {
        socket: "/tmp/s".into(),
        socket_mode: 0o600,
        state_dir: "/tmp/state".into(),
        circuits_dir: "/tmp/circuits".into(),
        memory: Memory::Bytes(16 << 30),
        memory_margin: 1 << 30,
        threads: 3,
        prover: Prover {
            backend: Proving::Auto,
            devices: Devices::Named(vec!["0000:3b:00.0".into(), "GPU-6f0a1b2c".into()]),
            device_memory: Some(8 << 30),
            slots: 3,
            cpu_beside: true,
            patience: Duration::from_secs(5),
            cpu_fallback: true,
            #[cfg(feature = "fault-injection")]
            fault: None,
        },
        result_ttl: Duration::from_secs(600),
        stop_timeout: Duration::from_secs(5),
        log: tracing::Level::DEBUG,
        http: Some("[::1]:9464".parse().unwrap()),
        limits: Limits {
            connections: 10,
            connections_per_uid: 9,
            requests_per_connection: 8,
            jobs: 7,
            jobs_per_uid: 6,
            result_bytes: 1 << 20,
            result_bytes_per_uid: 512 << 10,
            leases_per_uid: 5,
            bytes_per_uid: Some(4 << 30),
        },
    };
    assert_eq!(config, wanted);
}

#[test]
fn drop_ins_replace_in_the_order_of_their_names() {
    let drop_ins = [
        ("20.toml", "threads = 2"),
        ("10.toml", "threads = 1\nlimits.jobs_per_uid = 11"),
        ("30.toml.off", "threads = 'nonsense'"),
    ];
    let config = load("threads = 9\nlog = 'warn'", &drop_ins).unwrap();
    assert_eq!((config.threads, config.log, config.limits.jobs_per_uid), (2, tracing::Level::WARN, 11));
}

#[test]
fn each_refusal_names_line_key_found_and_wanted() {
    for (text, line, key, needles) in [
        ("\ncolour = 1", 2, "colour", &["unknown key", "threads"][..]),
        ("[limits]\njob = 1", 2, "limits.job", &["unknown key", "limits.jobs"]),
        ("[limit]\njobs = 1", 1, "limit", &["unknown key"]),
        ("limits = 3", 1, "limits", &["unknown key"]),
        ("threads.a = 3", 1, "threads", &["found a value of type table", "\"auto\""]),
        ("socket = 'run/s'", 1, "socket", &["\"run/s\"", "absolute"]),
        ("socket = 3", 1, "socket", &["found 3", "absolute"]),
        ("socket = '/'", 1, "socket", &["file"]),
        ("socket_mode = 660", 1, "socket_mode", &["found 660", "octal"]),
        ("socket_mode = '0777'", 1, "socket_mode", &["0777", "0666"]),
        ("socket_mode = '0060'", 1, "socket_mode", &["0060", "0600"]),
        ("socket_mode = '+660'", 1, "socket_mode", &["+660"]),
        ("state_dir = ''", 1, "state_dir", &["\"\"", "absolute"]),
        ("memory = '16GB'", 1, "memory", &["16GB", "GiB", "auto"]),
        ("memory = 17", 1, "memory", &["found 17", "GiB"]),
        ("memory = '0B'", 1, "memory", &["0B"]),
        ("memory_margin = 'much'", 1, "memory_margin", &["much", "GiB"]),
        ("threads = 0", 1, "threads", &["found 0", "from 1"]),
        ("threads = -1", 1, "threads", &["found -1"]),
        ("threads = 1.5", 1, "threads", &["found 1.5"]),
        ("threads = true", 1, "threads", &["found true"]),
        ("result_ttl = '60'", 1, "result_ttl", &["\"60\"", "min"]),
        ("stop_timeout = 60", 1, "stop_timeout", &["found 60", "30s"]),
        ("prover.backend = 'gpu'", 1, "prover.backend", &["\"gpu\"", "\"cuda\""]),
        ("prover.devices = 0", 1, "prover.devices", &["found 0", "\"all\""]),
        ("prover.devices = []", 1, "prover.devices", &["array", "\"all\""]),
        ("prover.devices = [0]", 1, "prover.devices", &["found 0", "UUID"]),
        ("prover.devices = ['GPU-6f0a1b2c', true]", 1, "prover.devices", &["found true", "UUID"]),
        ("prover.devices = [-1]", 1, "prover.devices", &["found -1"]),
        ("prover.device_memory = '0B'", 1, "prover.device_memory", &["0B"]),
        ("prover.device_memory = 8", 1, "prover.device_memory", &["found 8", "GiB"]),
        ("prover.cpu_fallback = 'yes'", 1, "prover.cpu_fallback", &["yes", "true"]),
        (
            "[prover]\nbackend = 'cuda'\ncpu_fallback = true",
            3,
            "prover.cpu_fallback",
            &["found prover.backend = \"cuda\"", "wanted \"auto\""],
        ),
        (
            "[prover]\ndevices = ['GPU-6f0a1b2c']\nbackend = 'cpu'",
            2,
            "prover.devices",
            &["found prover.backend = \"cpu\""],
        ),
        ("log = 'verbose'", 1, "log", &["verbose", "debug"]),
        ("limits.jobs = 0", 1, "limits.jobs", &["found 0"]),
        ("limits.jobs = 99999999999999999999", 1, "limits.jobs", &["99999999999999999999", "1000000"]),
        ("limits.bytes_per_uid = 'all'", 1, "limits.bytes_per_uid", &["all", "unlimited"]),
        ("threads = 1\nthreads = 2", 2, "", &["duplicate"]),
        ("threads =", 1, "", &[]),
        ("memory = '1GiB'\nmemory_margin = '1MiB'", 2, "memory_margin", &["auto"]),
        ("[limits]\njobs = 2\njobs_per_uid = 3", 3, "limits.jobs_per_uid", &["found 3", "limits.jobs = 2"]),
        ("[limits]\nconnections_per_uid = 300", 2, "limits.connections_per_uid", &["found 300", "= 256"]),
    ] {
        let ConfigError(problems) = load(text, &[]).expect_err(text);
        let [problem] = &problems[..] else { panic!("{text:?}: {problems:?}") };
        assert_eq!((problem.line, &problem.key[..]), (Some(line), key), "{text:?}: {problem}");
        for needle in needles {
            assert!(problem.message.contains(needle), "{text:?}: {problem} lacks {needle}");
        }
        assert!(problem.to_string().contains(&format!("cuzk.toml:{line}: ")), "{problem}");
    }
}

#[test]
fn a_long_socket_path_is_refused() {
    let longest = format!("/{}", "s".repeat(102));
    assert!(load(&format!("socket = '{longest}'"), &[]).is_ok());
    let ConfigError(problems) = load(&format!("socket = '{longest}s'"), &[]).unwrap_err();
    assert!(problems[0].message.contains("104 bytes, wanted at most 103"), "{}", problems[0]);
}

#[test]
fn all_problems_are_reported_at_once() {
    let error =
        load("threads = 0\nlog = 1\n", &[("a.toml", "colour = 1"), ("b.toml", "threads =")]).unwrap_err();
    assert_eq!(error.0.len(), 4);
    let text = error.to_string();
    for needle in ["cuzk.toml:1: threads", "cuzk.toml:2: log", "a.toml:1: colour", "b.toml:1: "] {
        assert!(text.contains(needle), "{text} lacks {needle}");
    }
    assert_eq!(text.lines().count(), 4);
}

#[test]
fn only_the_default_file_may_be_absent() {
    let absent = PathBuf::from("/nonexistent/cuzk.toml");
    let error = ConfigSource::new(Some(absent.clone())).load().unwrap_err();
    assert_eq!(error.0.len(), 1);
    assert_eq!(error.0[0].file, absent);
    let optional = ConfigSource { file: absent, required: false };
    assert_eq!(optional.load().unwrap(), Config::default());
}

#[test]
fn unreadable_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    fs::write(&file, b"log = '\xff'").unwrap();
    assert!(ConfigSource::new(Some(file.clone())).load().unwrap_err().to_string().contains("UTF-8"));
    fs::write(&file, "#".repeat(MAX_FILE as usize + 1)).unwrap();
    assert!(ConfigSource::new(Some(file)).load().unwrap_err().to_string().contains("at most 1MiB"));
    assert!(ConfigSource::new(Some(dir.path().into())).load().is_err());
}

#[test]
fn a_reload_keeps_what_needs_a_restart_and_says_so() {
    let old = Config::default();
    let new =
        load("socket = '/s'\nthreads = 4000\nstop_timeout = '1s'\nlimits.jobs_per_uid = 3", &[]).unwrap();
    assert_eq!(old.needs_restart(&new), ["socket", "threads"]);
    let merged = old.reloaded(&new);
    assert_eq!((merged.stop_timeout, merged.limits.jobs_per_uid), (Duration::from_secs(1), 3));
    assert_eq!((&merged.socket, merged.threads), (&old.socket, old.threads));
    assert!(old.needs_restart(&merged).is_empty());
}

/// The shipped file with every "#key = value" line made active.
fn shipped() -> String {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/cuzk.toml")).unwrap();
    let active = text.lines().map(|l| match l.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest,
        _ => l,
    });
    active.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_shipped_file_shows_every_setting_with_its_default() {
    let as_shipped = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/cuzk.toml")).unwrap();
    assert_eq!(load(&as_shipped, &[]).unwrap(), Config::default());
    let text = shipped();
    assert_eq!(load(&text, &[]).unwrap(), Config::default());
    for setting in SETTINGS {
        let name = setting.key.rsplit('.').next().unwrap();
        let found = text.lines().any(|l| l.split('=').next().is_some_and(|k| k.trim() == name));
        assert!(found, "packaging/cuzk.toml lacks {}", setting.key);
    }
}

#[test]
fn the_documentation_describes_every_setting() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap();
    for setting in SETTINGS {
        let takes = if setting.takes == Takes::Reload { "reload" } else { "restart" };
        let default = match setting.key {
            "threads" => "\"auto\"".into(),
            _ => (setting.show)(&Config::default()),
        };
        let row = format!("| `{}` | `{default}` | {takes} |", setting.key);
        assert!(text.contains(&row), "docs/configuration.md lacks {row}");
    }
}

#[test]
fn http_is_answered_on_loopback_only() {
    assert_eq!(load("http = \"127.0.0.1:1\"", &[]).unwrap().http, Some("127.0.0.1:1".parse().unwrap()));
    assert_eq!(load("http = \"off\"", &[]).unwrap().http, None);
    for address in
        ["0.0.0.0:9464", "192.168.0.1:9464", "[::]:9464", "127.0.0.1:0", "127.0.0.1", "localhost:9464"]
    {
        let refusal = load(&format!("http = \"{address}\""), &[]).unwrap_err().to_string();
        assert!(refusal.contains("loopback") && refusal.contains(address), "{refusal}");
    }
}
