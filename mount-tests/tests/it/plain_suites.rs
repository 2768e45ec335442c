//! R10: test suites of others, on the disk and in the mount, with kernel passthrough and without.
//! `scripts/programs.sh` installs them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mount_tests::{Builder, Instance, programs, programs_dir};

/// Tests of pjdfstest that pass on ext4 and cannot pass in a mount, and why.
const CANNOT: &[(&str, &str)] = &[(
    "link::link_count_max",
    "skips itself: the C library answers pathconf(_PC_LINK_MAX) by the file system's magic \
     number, which for every FUSE mount is FUSE's",
)];

fn start(args: &[&str]) -> Instance {
    start_in(Instance::builder(), args)
}

fn start_in(builder: Builder, args: &[&str]) -> Instance {
    let builder = builder.watchdog(Duration::from_secs(220));
    let it = args.iter().fold(builder, |b, arg| b.mount_arg(arg)).start();
    it.sh("mkdir w; chmod 777 w");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(it.mount_point(), open).expect("chmod");
    it
}

fn program(name: &str) -> PathBuf {
    let path = programs::installed().join("bin").join(name);
    assert!(path.is_file(), "{} is missing: scripts/programs.sh installs it", path.display());
    path
}

/// What became of each test of pjdfstest in `dir`.
fn pjdfstest(it: &Instance, dir: &Path) -> BTreeMap<String, String> {
    let config = programs_dir().join("pjdfstest.toml");
    // At a short path that every user may walk: the names of its sockets must not be longer
    // than 107 bytes.
    let script = r#"mount --bind "$0" /mnt && cd / && exec "$1" -c "$2" -p /mnt"#;
    let args = ["-m", "--propagation", "private", "sh", "-c", script].map(OsStr::new);
    let suite = program("pjdfstest");
    let more = [dir.as_os_str(), suite.as_os_str(), config.as_os_str()];
    let patient = it.outside().limit(Duration::from_secs(150));
    let ran = patient.run("unshare", &[&args[..], &more[..]].concat());
    let result = |line: &str| {
        let (name, outcome) = line.split_once(char::is_whitespace)?;
        let of_a_test = name.contains("::") && !line.starts_with(char::is_whitespace);
        of_a_test.then(|| (name.to_owned(), outcome.trim().to_owned()))
    };
    let all: BTreeMap<_, _> = ran.stdout.lines().filter_map(result).collect();
    assert!(all.len() > 300, "pjdfstest did not run: {} {}", ran.stdout, ran.stderr);
    all
}

fn pjdfstest_as_on_the_disk(args: &[&str]) {
    // Half of it switches users.
    if !mount_tests::is_root() {
        return;
    }
    let it = start(&[&["--allow-other"], args].concat());
    let disk = it.scratch("pjd");
    fs::create_dir(&disk).expect("mkdir");
    fs::set_permissions(&disk, fs::Permissions::from_mode(0o777)).expect("chmod");
    let (wanted, mut got) = (pjdfstest(&it, &disk), pjdfstest(&it, &it.path("w")));
    for (test, _) in CANNOT {
        // One that can pass now has no place in the list.
        if wanted.get(*test).is_some_and(|outcome| outcome == "ok") {
            assert_eq!(got.get(*test).map(String::as_str), Some("skipped"), "{test}");
            got.insert((*test).to_owned(), "ok".to_owned());
        }
    }
    let differ: Vec<_> = wanted
        .iter()
        .filter(|(test, outcome)| got.get(*test) != Some(outcome))
        .map(|(test, outcome)| format!("{test}: {outcome}, in the mount {:?}", got.get(test)))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
    assert_eq!(wanted.len(), got.len());
    let failed: Vec<_> = got.iter().filter(|(_, o)| *o != "ok" && *o != "skipped").collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn pjdfstest_with_passthrough() {
    pjdfstest_as_on_the_disk(&[]);
}

#[test]
fn pjdfstest_without_passthrough() {
    pjdfstest_as_on_the_disk(&["--no-passthrough"]);
}

/// fsx on two files at once, each checked against what fsx knows to be in it: one run per seed.
/// Many runs instead of a long one: fsx 0.3 leaves a mapping behind at every mapped read, so its
/// time grows with the square of the operations.
fn fsx(it: &Instance, operations: usize, seeds: [&[u64]; 2]) {
    let config = programs_dir().join("fsx.toml");
    let run = |seed: u64| {
        let (operations, seed) = (operations.to_string(), seed.to_string());
        let file = it.path("w").join(&seed);
        let all = ["-f".as_ref(), config.as_os_str(), "-N".as_ref(), operations.as_ref()];
        let more = ["-S".as_ref(), seed.as_ref(), "-P".as_ref()];
        let artifacts = it.scratch("");
        let args = [&all[..], &more[..], &[artifacts.as_os_str(), file.as_os_str()]].concat();
        let ran = it.outside().limit(Duration::from_secs(120)).run(program("fsx"), &args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(ran.code() == Some(0) && said.contains("A-OK"), "{said}");
    };
    std::thread::scope(|s| {
        for seeds in seeds {
            s.spawn(|| seeds.iter().copied().for_each(run));
        }
    });
}

/// 100,000 operations.
const LONG: (usize, [&[u64]; 2]) = (20_000, [&[1, 2, 3], &[4, 5]]);

#[test]
fn fsx_with_passthrough() {
    fsx(&start_in(Instance::builder().in_memory(), &[]), LONG.0, LONG.1);
}

#[test]
fn fsx_without_passthrough() {
    fsx(&start_in(Instance::builder().in_memory(), &["--no-passthrough"]), LONG.0, LONG.1);
}

#[test]
fn fsx_strict() {
    let args = ["--strict", "--no-passthrough"];
    fsx(&start_in(Instance::builder().in_memory(), &args), 10_000, [&[6], &[7]]);
}

#[test]
fn fsx_on_the_disk() {
    fsx(&start(&[]), 3_000, [&[8], &[9]]);
    fsx(&start(&["--no-passthrough"]), 3_000, [&[10], &[11]]);
}

/// What became of each test of one of Python's own test modules, run in `dir`.
fn python_tests(it: &Instance, module: &str, dir: &Path) -> Vec<String> {
    let here = it.actor().within(dir).env("TMPDIR", dir).limit(Duration::from_secs(200));
    let ran = here.run("python3", &["-m", "test", "-v", module]);
    assert!(ran.stdout.contains("Total tests"), "{}\n{}", ran.stdout, ran.stderr);
    let of_a_test = |line: &&str| line.starts_with("test_") && line.contains(" ... ");
    let of_all = |line: &&str| line.starts_with("Total tests") || line.starts_with("Result:");
    let lines = ran.stdout.lines().chain(ran.stderr.lines());
    let mut all: Vec<_> = lines.filter(|l| of_a_test(l) || of_all(l)).map(str::to_owned).collect();
    all.sort();
    all
}

fn python_as_on_the_disk(module: &str) {
    let it = start(&[]);
    let disk = it.scratch("py");
    fs::create_dir(&disk).expect("mkdir");
    let (wanted, got) =
        (python_tests(&it, module, &disk), python_tests(&it, module, &it.path("w")));
    let differ: Vec<_> = wanted.iter().filter(|line| !got.contains(line)).collect();
    let extra: Vec<_> = got.iter().filter(|line| !wanted.contains(line)).collect();
    assert!(differ.is_empty() && extra.is_empty(), "disk: {differ:#?}\nmount: {extra:#?}");
    assert!(wanted.len() > 10, "{wanted:?}");
}

#[test]
fn python_test_os() {
    python_as_on_the_disk("test_os");
}

#[test]
fn python_test_shutil() {
    python_as_on_the_disk("test_shutil");
}

#[test]
fn python_test_tempfile() {
    python_as_on_the_disk("test_tempfile");
}

#[test]
fn python_test_mailbox() {
    python_as_on_the_disk("test_mailbox");
}

#[test]
fn python_test_dbm() {
    python_as_on_the_disk("test_dbm");
}
