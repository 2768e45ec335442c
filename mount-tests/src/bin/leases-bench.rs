//! How soon the files of a killed process are gone.
//!
//! usage: `leases-bench [ROUNDS]`
//!
//! Each round starts a process that leaves a marker and holds a lease, kills it with SIGKILL, waits
//! for it and then looks until both files are gone: once with `stat`, once by creating the lease
//! exclusively. Prints the time from the return of `wait`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mount_tests::{ARRIVES, Builder, eventually};

fn main() -> Result<(), String> {
    let rounds: usize = match std::env::args().nth(1) {
        Some(n) => n.parse().map_err(|e| format!("{n}: {e}"))?,
        None => 200,
    };
    let it = Builder::default().watchdog(Duration::from_secs(600)).start();
    let (dir, lock) = (it.path("sessions.live"), it.path("scheduler.lock"));
    fs::create_dir(&dir).map_err(|e| e.to_string())?;
    let (mut gone, mut free, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let script = format!(
            "set -C; echo $$ > {lock}; echo $$ > {dir}/$$; exec sleep 600",
            lock = lock.display(),
            dir = dir.display()
        );
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|e| e.to_string())?;
        let marker = dir.join(child.id().to_string());
        eventually("the marker", || fs::read(&marker).ok().filter(|text| !text.is_empty()));
        child.kill().map_err(|e| e.to_string())?;
        child.wait().map_err(|e| e.to_string())?;
        let start = Instant::now();
        until(start, || !marker.exists());
        gone.push(start.elapsed());
        until(start, || created(&lock));
        free.push(start.elapsed());
        fs::remove_file(&lock).map_err(|e| e.to_string())?;
        let below = it.store().join("sessions.live").join(child.id().to_string());
        until(start, || !below.exists());
        stored.push(start.elapsed());
    }
    println!("| after the parent's wait, {rounds} kills | median | worst |\n|---|---:|---:|");
    for (what, times) in [
        ("the marker is gone from the mount", &mut gone),
        ("the lease can be taken", &mut free),
        ("the marker is gone from the store", &mut stored),
    ] {
        times.sort_unstable();
        let ms = |d: Option<&Duration>| d.map_or(0.0, |d| d.as_secs_f64() * 1e3);
        let (median, worst) = (ms(times.get(times.len() / 2)), ms(times.last()));
        println!("| {what} | {median:.2} ms | {worst:.2} ms |");
    }
    Ok(())
}

fn created(path: &Path) -> bool {
    match File::options().write(true).create_new(true).open(path) {
        Ok(_) => true,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
        Err(e) => panic!("{}: {e}", path.display()),
    }
}

fn until(start: Instant, done: impl Fn() -> bool) {
    while !done() {
        assert!(start.elapsed() < ARRIVES, "not within {ARRIVES:?}");
    }
}
