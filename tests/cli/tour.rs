//! The README's tour, run as it is written there: only the build and the folder /tmp are replaced.
use std::{fs, path::Path, process::Command};

/// The commands of the section's `sh` blocks, one after another.
fn commands(readme: &str, section: &str) -> String {
    let section = readme.split("\n## ").find(|s| s.starts_with(section)).expect("the section");
    let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect()
}

#[test]
fn the_tour_works_as_it_is_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().display().to_string();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let tour = commands(&readme, "A tour of five minutes");
    let built = Path::new(env!("CARGO_BIN_EXE_cuzk")).parent().unwrap().display().to_string();

    let mut script = String::from("set -euo pipefail\n");
    let (mut daemons, mut verified) = (0, 0);
    for line in tour.lines() {
        // First the folder: what is built may lie below /tmp, too.
        let line = line.replace("/tmp/", &format!("{scratch}/"));
        let line = line.replace("cargo build --release && ", "").replace("$PWD/target/release", &built);
        match line.strip_prefix("target/release/cuzk-daemon ") {
            // The second terminal.
            Some(arguments) => {
                daemons += 1;
                let arguments = arguments.split('#').next().unwrap();
                script += &format!(
                    "(cd {} && exec {built}/cuzk-daemon {arguments}) 2>{scratch}/log & daemon=$!\n\
                     trap 'kill $daemon; wait $daemon' EXIT\n\
                     until [ -S {scratch}/cuzk/sock ]; do kill -0 $daemon; sleep 0.05; done\n",
                    root.display()
                );
            }
            None => script += &format!("{line}\n"),
        }
        verified += u32::from(line.starts_with("cuzk verify"));
    }
    assert_eq!((daemons, verified), (1, 2), "{script}");

    let output = Command::new("bash").arg("-c").arg(&script).current_dir(root).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    assert!(out.matches("verified").count() >= 2, "{out}");
}
