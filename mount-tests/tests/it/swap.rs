//! Compare-and-swap of the config by commands, while others save the file in their own ways.

use std::time::Duration;

use mount_tests::{Instance, instancefs, programs_dir};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// `swappers` programs raise one counter `rounds` times each, `config set - --expect-sha256`,
/// while four others save through the mount. Not one step is lost, and every exit code is 0 or 3.
fn race(swappers: usize, rounds: u64) {
    const START: &str = "{\n  \"all\": 0,\n  \"swaps\": {},\n  \"saves\": {}\n}\n";
    let limit = Duration::from_secs(220);
    let it = Instance::builder().file("config.json", START).watchdog(limit).start();
    let actor = it.actor().limit(limit);
    let script = programs_dir().join("swap.py");
    let run = |args: &[&str]| {
        let mut all = vec![script.to_str().expect("a path in UTF-8")];
        all.extend(args);
        actor.spawn("python3", &all)
    };
    let stop = it.scratch("stop");
    let savers: Vec<_> = [("in-place", "a"), ("in-place", "b"), ("rename", "c"), ("rename", "d")]
        .into_iter()
        .map(|(role, id)| (id, run(&[role, id, stop.to_str().expect("UTF-8")])))
        .collect();
    let program = instancefs();
    let program = program.to_str().expect("UTF-8");
    let swapping: Vec<_> = (0..swappers)
        .map(|i| run(&["swap", program, &format!("p{i}"), &rounds.to_string()]))
        .collect();
    let (mut done, mut again) = (0, 0);
    for one in swapping {
        let told = json(&one.wait().ok());
        assert_eq!(told["odd"], serde_json::json!([]), "only 0 and 3, with the right words");
        done += told["codes"]["0"].as_u64().unwrap_or(0);
        again += told["codes"]["3"].as_u64().unwrap_or(0);
    }
    std::fs::write(&stop, "").expect("stop");
    let mut saves = Vec::new();
    for (id, one) in savers {
        saves.push((id, json(&one.wait().ok())["saves"].as_u64().expect("a number")));
    }
    assert_eq!(done, swappers as u64 * rounds);
    let now = json(&it.read("config.json"));
    let total: u64 = saves.iter().map(|(_, n)| n).sum();
    println!("{done} swaps, {again} times again, {total} saves through the mount");
    assert_eq!(now["all"].as_u64(), Some(done), "no step is lost: {now}");
    for i in 0..swappers {
        assert_eq!(now["swaps"][format!("p{i}")].as_u64(), Some(rounds), "{now}");
    }
    for (id, n) in &saves {
        assert_eq!(now["saves"][id].as_u64(), Some(*n), "{now}");
    }
    assert!(again > 0 && total > 0, "they did meet");
    assert!(it.kept().is_empty(), "nothing was refused: {:?}", it.kept());
}

#[test]
fn no_swap_is_lost_among_sixteen_programs_and_four_that_save_the_file() {
    race(16, 50);
}
