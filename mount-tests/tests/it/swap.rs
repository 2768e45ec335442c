//! Compare-and-swap of the config by commands, while others save the file in their own ways.

use std::time::Duration;

use mount_tests::{Instance, Running, instancefs, programs_dir};
use serde_json::Value;

const START: &str = "{\n  \"all\": 0,\n  \"swaps\": {},\n  \"saves\": {}\n}\n";
/// Far more than it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(220);

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Starts `swap.py` with these arguments, in the mount.
fn party(it: &Instance, args: &[&str]) -> Running {
    let script = programs_dir().join("swap.py");
    let mut all = vec![script.to_str().expect("a path in UTF-8")];
    all.extend(args);
    it.actor().limit(LIMIT).env("INSTANCEFS_DIR", it.store()).spawn("python3", &all)
}

/// `count` programs raise one counter `rounds` times each with `config set - --expect-sha256`.
/// Returns when all are done: how often that was, and how often one had to read again. Every
/// exit code was 0 or 3.
fn swap(it: &Instance, count: usize, rounds: u64) -> (u64, u64) {
    let program = instancefs();
    let program = program.to_str().expect("UTF-8");
    let start = |i| party(it, &["swap", program, &format!("p{i}"), &rounds.to_string()]);
    let all: Vec<_> = (0..count).map(start).collect();
    let (mut done, mut again) = (0, 0);
    for one in all {
        let told = json(&one.wait().ok());
        assert_eq!(told["odd"], serde_json::json!([]), "only 0 and 3, with the right words");
        done += told["codes"]["0"].as_u64().unwrap_or(0);
        again += told["codes"]["3"].as_u64().unwrap_or(0);
    }
    assert_eq!(done, count as u64 * rounds);
    (done, again)
}

/// Not one step is lost.
fn all_there(now: &Value, count: usize, rounds: u64) {
    assert_eq!(now["all"].as_u64(), Some(count as u64 * rounds), "{now}");
    for i in 0..count {
        assert_eq!(now["swaps"][format!("p{i}")].as_u64(), Some(rounds), "{now}");
    }
}

#[test]
fn no_swap_is_lost_among_sixteen_programs_and_four_that_save_the_file() {
    let it = Instance::builder().file("config.json", START).watchdog(LIMIT).start();
    let stop = it.scratch("stop");
    let savers: Vec<_> = [("in-place", "a"), ("in-place", "b"), ("rename", "c"), ("rename", "d")]
        .into_iter()
        .map(|(role, id)| (id, party(&it, &[role, id, stop.to_str().expect("UTF-8")])))
        .collect();
    let (done, again) = swap(&it, 16, 50);
    std::fs::write(&stop, "").expect("stop");
    let saves: Vec<_> = savers
        .into_iter()
        .map(|(id, one)| (id, json(&one.wait().ok())["saves"].as_u64().expect("a number")))
        .collect();
    let now = json(&it.read("config.json"));
    all_there(&now, 16, 50);
    for (id, n) in &saves {
        assert_eq!(now["saves"][id].as_u64(), Some(*n), "{now}");
    }
    let total: u64 = saves.iter().map(|(_, n)| n).sum();
    println!("{done} swaps, {again} times again, {total} saves through the mount");
    assert!(again > 0 && total > 0, "they did meet");
    assert!(it.kept().is_empty(), "nothing was refused: {:?}", it.kept());
}

#[test]
fn no_swap_is_lost_without_a_mount() {
    let it = Instance::builder().file("config.json", START).watchdog(LIMIT).unmounted().start();
    let (done, again) = swap(&it, 6, 8);
    println!("{done} swaps, {again} times again");
    it.mount();
    all_there(&json(&it.read("config.json")), 6, 8);
}
