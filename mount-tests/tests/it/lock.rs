//! `instancefs lock` and `instancefs sessions`, with and without a mount.

use std::path::Path;

use mount_tests::{Instance, Ran, Running, eventually, instancefs};
use serde_json::Value;

/// Instances with and without a mount.
fn both() -> [Instance; 2] {
    [Instance::fresh(), Instance::builder().unmounted().start()]
}

fn ifs(it: &Instance, args: &[&str]) -> Ran {
    let store = it.store();
    let mut all = vec!["-C", store.to_str().expect("path")];
    all.extend(args);
    it.outside().instancefs(&all)
}

fn start(it: &Instance, args: &[&str]) -> Running {
    let store = it.store();
    let mut all = vec!["-C", store.to_str().expect("path")];
    all.extend(args);
    it.outside().spawn(instancefs(), &all)
}

/// The lines of `lock ls --json`.
fn leases(it: &Instance) -> Vec<Value> {
    let told = ifs(it, &["lock", "ls", "--json"]).ok();
    told.lines().map(|l| serde_json::from_str(l).expect("json")).collect()
}

fn there(it: &Instance, name: &str) -> bool {
    it.store().join(name).exists()
}

/// The command line of the program in a script.
fn program(it: &Instance) -> String {
    format!("{} -C {}", instancefs().display(), it.store().display())
}

#[test]
fn run_holds_the_lease_and_ends_as_the_command_does() {
    for it in both() {
        let script = "echo $INSTANCEFS_LOCK_TOKEN; cat $STORE/scheduler.lock; exit 7";
        let ran = ifs(&it, &["lock", "run", "scheduler.lock", "--", "sh", "-c", script]).exits(7);
        let told: Vec<u64> = ran.stdout.lines().map(|l| l.parse().expect("number")).collect();
        assert_eq!(told.len(), 2);
        assert!(told[0] > 0);
        assert!(!there(&it, "scheduler.lock"));
        let again =
            ifs(&it, &["lock", "run", "scheduler.lock", "--", "printenv", "INSTANCEFS_LOCK_TOKEN"]);
        let next: u64 = again.ok().trim().parse().expect("number");
        assert!(next > told[0]);
        ifs(&it, &["lock", "run", "scheduler.lock", "--", "sh", "-c", "kill -9 $$"]).exits(128 + 9);
        ifs(&it, &["lock", "run", "scheduler.lock", "--", "no-such-program"]).exits(127);
        ifs(&it, &["lock", "run", "../x", "--", "true"]).exits(2);
        assert!(!there(&it, "scheduler.lock"));
        // Any name will do.
        ifs(&it, &["lock", "run", "jobs", "--", "sh", "-c", "test -s $STORE/jobs"]).ok();
        assert!(!there(&it, "jobs"));
    }
}

#[test]
fn try_does_not_wait_and_says_who_has_it() {
    for it in both() {
        let holder = start(&it, &["lock", "run", "telegram.lock", "--", "sleep", "60"]);
        eventually("the lease", || there(&it, "telegram.lock").then_some(()));
        let pid = holder.pid();
        let ran = ifs(&it, &["lock", "try", "telegram.lock", "--", "true"]).exits(3);
        assert!(ran.stderr.contains(&format!("(pid {pid})")), "{}", ran.stderr);
        ifs(&it, &["lock", "try", "telegram.lock"]).exits(3);
        ifs(&it, &["lock", "wait", "telegram.lock", "--timeout", "0.1"]).exits(1);
        let lease = &leases(&it)[0];
        assert_eq!(
            (lease["name"].as_str(), lease["pid"].as_u64()),
            (Some("telegram.lock"), Some(pid.into()))
        );
        holder.signal(libc::SIGKILL);
        ifs(&it, &["lock", "wait", "telegram.lock"]).ok();
        ifs(&it, &["lock", "try", "telegram.lock", "--", "sh", "-c", "exit 5"]).exits(5);
        assert_eq!(leases(&it), [Value::Null; 0]);
    }
}

#[test]
fn try_without_a_command_takes_it_for_who_runs_it() {
    for it in both() {
        let mut shell = it.outside().shell();
        let program = program(&it);
        shell.run(&format!("{program} lock try scheduler.lock"));
        assert_eq!(leases(&it)[0]["pid"].as_u64(), Some(shell.pid().into()));
        assert_eq!(shell.attempt(&format!("{program} lock try scheduler.lock")).0, 3);
        shell.run(&format!("{program} lock leader"));
        assert_eq!(shell.attempt("sh -c 'exit 4'").0, 4);
        shell.end();
        ifs(&it, &["lock", "wait", "scheduler.lock"]).ok();
        ifs(&it, &["lock", "try", "scheduler.lock", "--", "true"]).ok();
    }
}

#[test]
fn waiters_are_served_in_order_and_dead_ones_are_passed_over() {
    for it in both() {
        let holder = start(&it, &["lock", "run", "scheduler.lock", "--", "sleep", "60"]);
        eventually("the lease", || there(&it, "scheduler.lock").then_some(()));
        let mut waiters = Vec::new();
        for n in 0..5 {
            let script = format!("echo {n} >> order");
            waiters.push(start(&it, &["lock", "run", "scheduler.lock", "--", "sh", "-c", &script]));
            eventually("a place in the queue", || {
                let waiting = leases(&it)[0]["waiting"].as_array().expect("list").len();
                (waiting == n + 1).then_some(())
            });
        }
        let dead = waiters.remove(2);
        dead.signal(libc::SIGKILL);
        assert_eq!(dead.wait().signal(), Some(libc::SIGKILL));
        holder.signal(libc::SIGKILL);
        for waiter in waiters {
            waiter.wait().ok();
        }
        let order = std::fs::read_to_string(it.scratch("order")).expect("order");
        assert_eq!(order, "0\n1\n3\n4\n");
    }
}

#[test]
fn signals_reach_the_command_and_a_kill_takes_it_along() {
    for it in both() {
        let script = "trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
        let mut run = start(&it, &["lock", "run", "scheduler.lock", "--", "bash", "-c", script]);
        run.until("ready");
        run.signal(libc::SIGTERM);
        let ran = run.wait().exits(9);
        assert!(ran.stdout.contains("told"));
        assert!(!there(&it, "scheduler.lock"));
        let mut run = start(
            &it,
            &["lock", "run", "scheduler.lock", "--", "bash", "-c", "echo $$; exec sleep 60"],
        );
        run.until("\n");
        let pid: i32 = run.stdout().trim().parse().expect("pid");
        run.signal(libc::SIGKILL);
        assert_eq!(run.wait().signal(), Some(libc::SIGKILL));
        eventually("the end of the command", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            (status.is_empty() || status.contains("State:\tZ")).then_some(())
        });
        ifs(&it, &["lock", "try", "scheduler.lock", "--", "true"]).ok();
    }
}

#[test]
fn many_contenders_with_commands_are_alone_in_turn() {
    for it in both() {
        let script = "n=$(cat count); sleep 0.02; echo $((n + 1)) > count";
        std::fs::write(it.scratch("count"), "0\n").expect("write");
        let all: Vec<Running> = (0..8)
            .map(|_| start(&it, &["lock", "run", "scheduler.lock", "--", "sh", "-c", script]))
            .collect();
        for one in all {
            one.wait().ok();
        }
        assert_eq!(std::fs::read_to_string(it.scratch("count")).expect("count"), "8\n");
    }
}

#[test]
fn a_lease_taken_without_a_mount_is_one_with_it() {
    let it = Instance::builder().unmounted().start();
    let mut run = start(
        &it,
        &["lock", "run", "scheduler.lock", "--", "sh", "-c", "echo $INSTANCEFS_LOCK_TOKEN; read x"],
    );
    run.until("\n");
    run.signal(libc::SIGSTOP);
    run.signal(libc::SIGCONT);
    let ran = run.wait().exits(1);
    let first: u64 = ran.stdout.trim().parse().expect("number");
    let held = start(&it, &["lock", "run", "scheduler.lock", "--", "sleep", "60"]);
    eventually("the lease", || there(&it, "scheduler.lock").then_some(()));
    it.mount();
    let unlink = it.actor().bash("rm -f scheduler.lock").failed();
    assert!(unlink.stderr.contains("not permitted"), "{}", unlink.stderr);
    let token = it.sh("getfattr --only-values -n user.instancefs.token scheduler.lock");
    assert!(token.parse::<u64>().expect("number") > first);
    held.signal(libc::SIGTERM);
    held.wait().exits(128 + 15);
    assert!(!it.path("scheduler.lock").exists(), "given back through the mount");
}

#[test]
fn the_holder_of_telegram_lock_leads_else_that_of_scheduler_lock() {
    for it in both() {
        assert_eq!(ifs(&it, &["lock", "leader"]).failed().code(), Some(1));
        let none: Value =
            serde_json::from_str(&ifs(&it, &["lock", "leader", "--json"]).exits(1).stdout)
                .expect("json");
        assert_eq!(none["leader"], Value::Null);
        let second = start(&it, &["lock", "run", "scheduler.lock", "--", "sleep", "60"]);
        eventually("the lease", || there(&it, "scheduler.lock").then_some(()));
        let leads = || -> Value {
            serde_json::from_str(&ifs(&it, &["lock", "leader", "--json"]).exits(3).stdout)
                .expect("json")
        };
        assert_eq!(leads()["leader"]["pid"].as_u64(), Some(second.pid().into()));
        let first = start(&it, &["lock", "run", "telegram.lock", "--", "sleep", "60"]);
        eventually("the lease", || there(&it, "telegram.lock").then_some(()));
        assert_eq!(leads()["leader"]["pid"].as_u64(), Some(first.pid().into()));
        let speaks = it.outside().env("INSTANCEFS_SESSION_PARENT_PID", first.pid().to_string());
        let store = it.store();
        let args = [Path::new("-C"), &store, "lock".as_ref(), "leader".as_ref()];
        speaks.instancefs(&args).ok();
        first.signal(libc::SIGKILL);
        first.wait();
        assert_eq!(leads()["leader"]["pid"].as_u64(), Some(second.pid().into()));
        let inner = format!("{} lock leader", program(&it));
        ifs(&it, &["lock", "run", "telegram.lock", "--", "sh", "-c", &inner]).ok();
    }
}

#[test]
fn sessions_lists_the_living_and_knows_its_own() {
    for it in both() {
        let dir = it.store().join("sessions.live");
        std::fs::create_dir_all(&dir).expect("mkdir");
        let mark =
            |pid: u32| std::fs::write(dir.join(pid.to_string()), pid.to_string()).expect("write");
        let mut ended = it.outside().spawn_bash("true");
        let ended_pid = ended.pid();
        eventually("its end", || ended.ended().then_some(()));
        mark(ended_pid);
        assert_eq!(ifs(&it, &["sessions", "--others"]).failed().code(), Some(1));
        eventually("the marker of a process that has ended goes", || {
            let _ = it.path("sessions.live").join(ended_pid.to_string()).exists();
            (!dir.join(ended_pid.to_string()).exists()).then_some(())
        });
        let mut shell = it.outside().shell();
        mark(shell.pid());
        std::fs::write(dir.join("notes"), "1").expect("write");
        let program = program(&it);
        let others = format!("{program} sessions --others");
        assert_eq!(shell.attempt(&others).0, 1, "its own does not count");
        ifs(&it, &["sessions", "--others"]).ok();
        let told: Value =
            serde_json::from_str(&shell.run(&format!("{program} sessions --json"))).expect("json");
        let only = &told["sessions"][0];
        assert_eq!(
            (only["pid"].as_u64(), only["own"].as_bool()),
            (Some(shell.pid().into()), Some(true))
        );
        assert_eq!(told["sessions"].as_array().map(Vec::len), Some(1));
        let other = it.outside().spawn_bash("exec sleep 60");
        mark(other.pid());
        assert_eq!(shell.attempt(&others).0, 0);
        for name in ["INSTANCEFS_SESSION_PARENT_PID", "ATOMIC_AGENT_SESSION_PARENT_PID"] {
            assert_eq!(shell.attempt(&format!("{name}={} {others}", other.pid())).0, 1, "{name}");
            assert_eq!(shell.attempt(&format!("{name}=x {others}")).0, 0, "no number: ignored");
        }
        assert!(
            it.outside()
                .instancefs(&["-C".as_ref(), it.store().as_os_str(), "sessions".as_ref()])
                .ok()
                .contains("sleep")
        );
    }
}
