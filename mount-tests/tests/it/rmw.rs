//! Many programs that read, change and write back without any lock.

use std::time::Duration;

use mount_tests::Instance;

fn naive_writers(procs: &str, rounds: &str) {
    let it = Instance::builder()
        .file("missions.md", "# Missions\n\n## Pending\n\n## In Progress\n\n## Done\n\n## Failed\n")
        .file("config.json", "{}\n")
        .watchdog(Duration::from_secs(170))
        .start();
    let program = mount_tests::programs_dir().join("rmw.py");
    let told = it
        .actor()
        .limit(Duration::from_secs(160))
        .run("python3", &[program.as_os_str(), ".".as_ref(), procs.as_ref(), rounds.as_ref()])
        .ok();
    let result: serde_json::Value = serde_json::from_str(told.trim()).expect(&told);
    for what in ["lost", "doubled", "torn", "errors", "stale"] {
        assert_eq!(result[what], 0, "{what}: {result}");
    }
    assert!(result["reads"].as_u64() > Some(10), "readers read: {result}");
    let want: usize = procs.parse::<usize>().expect("n") * rounds.parse::<usize>().expect("n");
    assert_eq!(it.rows().len(), want);
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn eight_naive_writers_lose_and_double_nothing() {
    naive_writers("8", "20");
}

#[test]
fn sixteen_naive_writers_lose_and_double_nothing() {
    naive_writers("16", "25");
}

#[test]
fn the_measuring_program_finds_losses_on_a_plain_directory() {
    // The same program must be able to fail: without instancefs it loses most of the work.
    let it = Instance::builder().unmounted().start();
    let dir = it.scratch("bare");
    std::fs::create_dir(&dir).expect("mkdir");
    std::fs::write(dir.join("missions.md"), "## Pending\n").expect("write");
    std::fs::write(dir.join("config.json"), "{}\n").expect("write");
    let program = mount_tests::programs_dir().join("rmw.py");
    let ran = it
        .outside()
        .run("python3", &[program.as_os_str(), dir.as_os_str(), "8".as_ref(), "20".as_ref()])
        .failed();
    let result: serde_json::Value = serde_json::from_str(ran.stdout.trim()).expect(&ran.stdout);
    assert!(result["lost"].as_u64() > Some(0), "{result}");
}
