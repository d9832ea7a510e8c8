//! Manual pages and completions, made from the command line's definition.
use crate::support::{cuzk, line};

#[test]
fn every_verb_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let man = directory.path().join("man");
    cuzk(["generate".as_ref(), "man".as_ref(), man.as_os_str()]).ended(0);
    let page = |name: &str| {
        std::fs::read_to_string(man.join(format!("{name}.1"))).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    for name in [
        "cuzk",
        "cuzk-prove",
        "cuzk-verify",
        "cuzk-circuits",
        "cuzk-circuit",
        "cuzk-circuit-add",
        "cuzk-circuit-show",
        "cuzk-circuit-check",
        "cuzk-plan",
        "cuzk-setup",
        "cuzk-status",
        "cuzk-cancel",
    ] {
        let page = page(name);
        assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page}");
        assert!(page.contains("socket"), "{name} tells of global options");
    }
    let top = page("cuzk");
    assert!(top.contains("cuzk\\-prove(1)"), "{top}");
    assert!(top.contains("no daemon answers at the socket"), "exit statuses: {top}");
    assert!(page("cuzk-setup").contains("INSECURE"));
    let daemon = std::fs::read_to_string(man.join("cuzk-daemon.8")).unwrap();
    for word in [".TH cuzk-daemon 8", "check\\-config", "SIGHUP", "78"] {
        assert!(daemon.contains(word), "{word}: {daemon}");
    }
    let pages = std::fs::read_dir(&man).unwrap().count();
    assert_eq!(pages, 15, "hidden verbs have no page");
}

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = line(&format!("generate completions {shell}")).ended(0).stdout;
        for word in ["prove", "verify", "circuits", "circuit", "plan", "setup", "status", "cancel", "witness"]
        {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    line("generate completions csh").ended(2);
}

#[test]
fn a_page_that_cannot_be_written_is_named() {
    let run = line("generate man /proc/nonexistent/man").ended(6);
    assert!(run.stderr.contains("/proc/nonexistent/man"), "{run:?}");
}
