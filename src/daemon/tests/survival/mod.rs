//! Nothing is lost when something fails: every call on the store's files fails in turn, the
//! process is killed before every one of them, power goes at every one of them (R7, R8).
//!
//! The whole core works here on a real store in one thread, without a mount; the kernel asks this
//! test before each call of that thread on a file of the store ([`mount_tests::calls`]). What is
//! done is in [`scenarios`]; each of them tells its [`Story`]: which line or key it saved where,
//! and whether that was acknowledged. Whatever happened in between, afterwards an acknowledged
//! line is there once, one that was not is there once or not at all, everything that was there
//! before still is, and nothing that nobody wrote.

mod commands;
mod faults;
mod losses;
mod scenarios;
mod story;
mod world;

use std::path::Path;

use self::scenarios::Scenario;
use self::story::Story;
use self::world::World;

/// How much is tried: a sample, or everything (`INSTANCEFS_EXHAUSTIVE=1`, in `make soak`).
fn exhaustive() -> bool {
    std::env::var_os("INSTANCEFS_EXHAUSTIVE").is_some_and(|v| v != "0")
}

/// `INSTANCEFS_UNTIL`, in seconds since 1970, is over: what is not everything yet stays a sample.
fn late() -> bool {
    let until = std::env::var("INSTANCEFS_UNTIL").ok().and_then(|s| s.parse::<u64>().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    until.is_some_and(|until| now.as_secs() > until)
}

/// A directory for stores, in memory where there is such a file system.
fn scratch() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    tempfile::tempdir_in(shm).or_else(|_| tempfile::tempdir()).unwrap()
}

/// Copies a store that nobody has open.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Runs in a thread of its own, which may be watched from then on.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|s| {
        let thread = s.spawn(work);
        thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e))
    })
}

/// The store before a scenario, made once.
fn template(scenario: &Scenario) -> tempfile::TempDir {
    let dir = scratch();
    scenarios::furnish(dir.path());
    (scenario.prepare)(dir.path());
    dir
}

/// What has to be so whenever the store is open again, and after one more save of each kind.
fn check(dir: &Path, story: &mut Story, acknowledged: usize, what: &str) {
    let world = World::open(dir).unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
    story.check(&world, acknowledged, what);
    let sound = world.instance.store.integrity().unwrap();
    assert!(sound.is_empty(), "{what}: {sound:?}");
    story.goes_on(&world, acknowledged, what);
    world.close().unwrap_or_else(|e| panic!("{what}: does not close: {e}"));
    world::nothing_left(dir, what);
}
