//! The harness itself: it must not be able to hang, and it must be able to fail.

use std::time::Duration;

use mount_tests::{Instance, abort_connection, is_mounted};

#[test]
fn commands_do_not_share_a_session_and_have_no_surroundings() {
    let it = Instance::builder().unmounted().start();
    let told = it.outside().bash("ps -o sid= -p $$ | tr -d ' '; echo $$; umask; readlink /proc/self/fd/0; env | grep -c CARGO").stdout;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], lines[1], "a session of its own");
    assert_eq!(lines[2..], ["0022", "/dev/null", "0"]);
    let mut shell = it.outside().shell();
    let one = shell.run("ps -o sid= -p $$ ; ps -o sid= -p $BASHPID");
    let sids: Vec<&str> = one.split_whitespace().collect();
    assert_eq!(sids[0], sids[1]);
    assert_eq!(sids[0], shell.pid().to_string());
}

#[test]
#[should_panic(expected = "timed out")]
fn a_command_that_hangs_fails_the_test() {
    let it = Instance::builder().unmounted().start();
    it.outside().limit(Duration::from_millis(200)).bash("sleep 60");
}

#[test]
fn an_aborted_mount_is_cleaned_up() {
    let it = Instance::fresh();
    let mount = it.mount_point();
    assert!(abort_connection(&mount).expect("abort"));
    assert!(std::fs::read(mount.join("missions.md")).is_err());
    drop(it);
    assert!(!is_mounted(&mount));
}

#[test]
fn two_instances_do_not_meet() {
    let (a, b) = (Instance::fresh(), Instance::fresh());
    a.append("missions.md", "- only in a");
    assert!(!b.read("missions.md").contains("only in a"));
}
