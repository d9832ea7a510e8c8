//! Circuits that come, change and go; circuits that cannot be served; and who pays.
use super::*;
use std::{fs, time::Duration};

const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/circom/merkle.zkey");
const R1CS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/circom/merkle.r1cs");
const HEADROOM: u64 = 1 << 20;

struct Bench {
    dir: tempfile::TempDir,
    budget: Budget,
    registry: Registry,
}

impl Bench {
    fn new(budget: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("circuits")).unwrap();
        let budget = Budget::new(budget);
        let registry = Registry::new(LoadSettings {
            budget: budget.clone(),
            state_dir: dir.path().to_owned(),
            threads: 1,
            headroom: Arc::new(|_, _| Ok(HEADROOM)),
        });
        Self { dir, budget, registry }
    }

    fn define(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join("circuits").join(name).with_extension("toml"), text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.path().join("circuits").join(name).with_extension("toml")).unwrap();
    }

    fn read(&self) -> Changes {
        self.registry.read(&self.dir.path().join("circuits")).unwrap()
    }

    fn tier(&self, name: &str) -> KeyTier {
        self.registry.infos().into_iter().find(|i| i.name == name).unwrap().tier
    }

    async fn code(&self, name: &str) -> ErrorCode {
        self.registry.get(name).await.err().unwrap().code
    }
}

fn merkle(preload: bool) -> String {
    format!("key = '{KEY}'\npreload = {preload}")
}

#[tokio::test]
async fn a_circuit_is_loaded_with_its_first_use_or_at_the_start() {
    let bench = Bench::new(1 << 30);
    bench.define("early", &merkle(true));
    bench.define("late", &merkle(false));
    assert_eq!(bench.read().added, ["early", "late"]);
    bench.registry.preload();
    bench.registry.settled().await;
    assert_eq!((bench.tier("early"), bench.tier("late")), (KeyTier::Host, KeyTier::NotLoaded));
    assert_eq!(bench.registry.progress(), Progress { hot: 1, ..Progress::default() });

    assert!(bench.registry.try_get("late").unwrap().is_none());
    assert_eq!(bench.tier("late"), KeyTier::Loading);
    let loaded = bench.registry.get("late").await.unwrap();
    assert!(Arc::ptr_eq(&loaded, &bench.registry.try_get("late").unwrap().unwrap()));
    assert_eq!(loaded.circuit.num_inputs(), 3, "ONE, an output, a public input");

    let info = &bench.registry.infos()[1];
    assert_eq!((info.public_inputs, info.auxiliary, info.domain_log2), (2, 1682 - 3, 11));
    assert_eq!(info.constraints, 1677);
    assert_eq!((info.circuit_id, info.key_id), (Some(loaded.circuit_id), Some(ContentId(loaded.key.id))));
    assert_eq!(bench.code("other").await, ErrorCode::UnknownCircuit);
    assert!(
        fs::read_dir(bench.dir.path())
            .unwrap()
            .any(|f| { f.unwrap().path().extension().is_some_and(|e| e == "validated") })
    );
}

/// What one circuit takes, headroom apart.
async fn for_one() -> u64 {
    let bench = Bench::new(1 << 30);
    bench.define("one", &merkle(true));
    bench.read();
    bench.registry.get("one").await.unwrap();
    bench.budget.usage().used()
}

#[tokio::test]
async fn idle_circuits_make_room_and_used_ones_do_not() {
    // Room for two, and half a circuit more: what the loading begins with is an estimate.
    let one = for_one().await;
    let bench = Bench::new(2 * one + one / 2 + HEADROOM);
    for (name, preload) in [("early", true), ("late", false), ("later", false)] {
        bench.define(name, &merkle(preload));
    }
    bench.read();
    let room = tokio::spawn({
        let registry = bench.registry.clone();
        async move { registry.make_room().await }
    });
    let tiers = || ["early", "late", "later"].map(|name| bench.tier(name));
    let (hot, cold) = (KeyTier::Host, KeyTier::NotLoaded);
    let early = bench.registry.get("early").await.unwrap();
    drop(early);
    drop(bench.registry.get("late").await.unwrap());
    assert_eq!(tiers(), [hot, hot, cold], "there is no need yet");
    // The one that is not loaded at the start goes first, though it was used last.
    drop(bench.registry.get("later").await.unwrap());
    assert_eq!(tiers(), [hot, cold, hot]);
    let later = bench.registry.get("later").await.unwrap();
    drop(bench.registry.get("late").await.unwrap());
    assert_eq!(tiers(), [cold, hot, hot], "a circuit in use stays");
    // Both are in use: the third waits until one is not.
    let late = bench.registry.get("late").await.unwrap();
    let registry = bench.registry.clone();
    let waits = tokio::spawn(async move { registry.get("early").await.map(drop) });
    bench.budget.short().await;
    assert_eq!((bench.tier("late"), bench.tier("later")), (hot, hot));
    drop(late);
    waits.await.unwrap().unwrap();
    assert_eq!(tiers(), [hot, cold, hot]);
    drop(later);
    room.abort();
}

#[tokio::test]
async fn a_circuit_that_cannot_be_served_says_why_and_disturbs_nobody() {
    let bench = Bench::new(1 << 30);
    bench.define("good", &merkle(true));
    bench.define("syntax", "key = 1");
    bench.define("absent", "key = '/nonexistent/key'\ncircuit = '/nonexistent/circuit'");
    bench.define("bad-name!", &merkle(true));
    let cut = bench.dir.path().join("cut.zkey");
    fs::write(&cut, &fs::read(KEY).unwrap()[..100_000]).unwrap();
    bench.define("cut", &format!("key = '{}'", cut.display()));
    bench.define("wrong", &format!("key = '{R1CS}'\ncircuit = '{R1CS}'"));
    bench.read();
    bench.registry.preload();
    bench.registry.settled().await;
    assert!(bench.registry.get("good").await.is_ok());
    for (name, needle) in [
        ("syntax", "syntax.toml"),
        ("absent", "/nonexistent/"),
        ("bad-name!", "bad-name!"),
        ("cut", "cut.zkey"),
        ("wrong", "merkle.r1cs"),
    ] {
        let error = bench.registry.get(name).await.err().unwrap();
        assert_eq!(error.code, ErrorCode::CircuitUnavailable);
        assert!(error.message.contains(needle), "{error}");
        let infos = bench.registry.infos();
        let info = infos.iter().find(|i| i.name == name).unwrap();
        assert!(info.tier == KeyTier::Failed && info.problem.contains(needle), "{info:?}");
    }
    assert_eq!(bench.registry.progress().failed.len(), 5);
}

#[tokio::test]
async fn a_reading_adds_changes_and_drops() {
    let bench = Bench::new(1 << 30);
    let copy = bench.dir.path().join("copy.zkey");
    fs::copy(KEY, &copy).unwrap();
    bench.define("same", &merkle(true));
    bench.define("touched", &format!("key = '{}'", copy.display()));
    bench.define("redefined", &merkle(true));
    bench.define("gone", &merkle(true));
    bench.define("mended", "key = '/nonexistent'");
    bench.read();
    bench.registry.preload();
    bench.registry.settled().await;
    let old: Vec<_> = ["same", "gone"].map(|n| bench.registry.try_get(n).unwrap().unwrap()).into();
    assert_eq!(bench.read(), Changes { changed: vec!["mended".into()], ..Changes::default() });

    let newer = bench.dir.path().join("newer.zkey");
    fs::copy(KEY, &newer).unwrap();
    fs::rename(&newer, &copy).unwrap();
    bench.define("redefined", &merkle(false));
    bench.define("mended", &merkle(true));
    bench.define("new", &merkle(true));
    bench.remove("gone");
    let wanted = Changes {
        added: vec!["new".into()],
        changed: ["mended", "redefined", "touched"].map(String::from).into(),
        dropped: vec!["gone".into()],
    };
    assert_eq!(bench.read(), wanted);
    assert_eq!(bench.tier("redefined"), KeyTier::NotLoaded);
    bench.registry.preload();
    bench.registry.settled().await;
    assert!(Arc::ptr_eq(&old[0], &bench.registry.get("same").await.unwrap()));
    assert_eq!(bench.code("gone").await, ErrorCode::UnknownCircuit);
    assert_eq!(old[1].circuit.num_inputs(), 3, "whoever uses a dropped circuit keeps it");
    assert!(bench.registry.get("touched").await.is_ok() && bench.registry.get("mended").await.is_ok());
}

#[tokio::test]
async fn a_directory_that_cannot_be_read_changes_nothing() {
    let bench = Bench::new(1 << 30);
    bench.define("good", &merkle(false));
    bench.read();
    assert!(bench.registry.read(&bench.dir.path().join("absent")).is_err());
    assert!(bench.registry.get("good").await.is_ok());
}

#[tokio::test]
async fn keys_and_circuits_are_charged_while_anyone_has_them() {
    let bench = Bench::new(1 << 30);
    bench.define("merkle", &merkle(true));
    bench.read();
    assert_eq!(bench.budget.usage().used(), 0);
    let loaded = bench.registry.get("merkle").await.unwrap();
    let usage = bench.budget.usage();
    assert_eq!(usage.keys, fs::metadata(KEY).unwrap().len());
    assert_eq!(usage.circuits, loaded.circuit.num_bytes());
    let demand = loaded.lease_demand(4096);
    assert_eq!(
        (demand.leases, demand.headroom, demand.beside),
        (4096, HEADROOM, usage.keys + usage.circuits)
    );
    assert!(bench.budget.draw(HEADROOM).is_ok());
    bench.remove("merkle");
    bench.read();
    assert_eq!(bench.budget.usage().keys, usage.keys);
    drop(loaded);
    assert_eq!(bench.budget.usage().used(), 0);
    assert!(bench.budget.draw(1).is_err());
}

#[tokio::test]
async fn a_key_is_charged_as_it_is_when_it_is_opened() {
    let bench = Bench::new(1 << 30);
    let key = bench.dir.path().join("key.zkey");
    let mut bytes = fs::read(KEY).unwrap();
    fs::write(&key, &bytes).unwrap();
    bench.define("merkle", &format!("key = '{}'\npreload = false", key.display()));
    bench.read();
    // Then comes a section that no reader wants, of 1,000 bytes: type 99, after the ten there are.
    bytes[8] += 1;
    bytes.extend(99u32.to_le_bytes());
    bytes.extend(1000u64.to_le_bytes());
    bytes.extend([0; 1000]);
    fs::write(&key, &bytes).unwrap();
    let _loaded = bench.registry.get("merkle").await.unwrap();
    assert_eq!(bench.budget.usage().keys, bytes.len() as u64);
}

#[tokio::test]
async fn a_circuit_larger_than_the_budget_is_refused_with_the_figures() {
    for budget in [1 << 20, (1 << 20) + (1 << 20)] {
        let bench = Bench::new(budget);
        bench.define("merkle", &merkle(true));
        bench.read();
        let error = bench.registry.get("merkle").await.err().unwrap();
        assert_eq!(error.code, ErrorCode::CircuitUnavailable);
        assert!(error.message.contains("the budget has"), "{error}");
        assert_eq!(bench.budget.usage().used(), 0);
    }
}

#[tokio::test]
async fn loading_waits_for_memory_and_then_goes_on() {
    let need = fs::metadata(KEY).unwrap().len() * 3 / 2 + HEADROOM;
    let bench = Bench::new(need);
    let lease = Demand { leases: HEADROOM, ..Demand::default() };
    // First there is no room for anything, then none for the headroom only.
    for held in [need, HEADROOM] {
        let held = bench.budget.try_reserve(Demand { leases: held, ..lease }).unwrap().unwrap();
        bench.define("merkle", &merkle(true));
        bench.read();
        assert!(bench.registry.try_get("merkle").unwrap().is_none());
        while bench.budget.usage().waiting == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(held);
        bench.registry.get("merkle").await.unwrap();
        bench.remove("merkle");
        bench.read();
    }
}
