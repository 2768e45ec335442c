//! Files that belong to processes: leases and live-session markers.

use mount_tests::{Instance, Python, eventually, programs_dir};

const EPERM: i32 = libc::EPERM;

/// Somebody who works in the mount without being in it, so that it can be unmounted meanwhile.
fn somebody(it: &Instance) -> Python {
    let mut python = it.outside().python_steps();
    python.run(&format!("os.chdir('/'); M = {:?}", it.mount_point().display().to_string()));
    python.run(
        "def take(name, text=''):\n  fd = os.open(f'{M}/{name}', os.O_CREAT | os.O_EXCL | os.O_WRONLY)\n  \
           os.write(fd, text.encode()); os.close(fd)\n\
         def put(name, text):\n  with open(f'{M}/{name}', 'w') as f: f.write(text)",
    );
    python
}

/// A process that holds `name` with this text, in which PID stands for its own.
fn holder(it: &Instance, name: &str, text: &str) -> Python {
    let mut python = somebody(it);
    python.run(&format!("take({name:?}, {text:?}.replace('PID', str(os.getpid())))"));
    python
}

fn there(it: &Instance, name: &str) -> bool {
    it.path(name).exists()
}

fn token(it: &Instance, name: &str) -> u64 {
    let text = it.sh(&format!("getfattr --only-values -n user.instancefs.token {name}"));
    text.parse().expect("a number")
}

/// A pid that nobody has any more.
fn dead() -> u32 {
    let mut child = std::process::Command::new("true").spawn().expect("true");
    child.wait().expect("wait");
    child.id()
}

#[test]
fn a_lock_is_gone_with_its_owner_and_the_next_create_wins() {
    let it = Instance::fresh();
    for text in ["", "PID", "PID\n", "{\"pid\": PID, \"host\": \"x\"}\n"] {
        let mut owner = holder(&it, "scheduler.lock", text);
        assert!(there(&it, "scheduler.lock"));
        owner.kill();
        assert!(!there(&it, "scheduler.lock"), "gone when the parent has waited: {text:?}");
        assert!(!it.names(".").contains(&"scheduler.lock".to_owned()));
        let mut next = holder(&it, "scheduler.lock", "");
        next.end();
        assert!(!there(&it, "scheduler.lock"), "also when the owner ends by itself");
    }
    eventually("the file is gone from the store", || {
        (!it.store().join("scheduler.lock").exists()).then_some(())
    });
}

#[test]
fn of_sixteen_contenders_for_a_killed_owners_lock_one_wins_200_times() {
    let it = Instance::fresh();
    let program = programs_dir().join("contend.py");
    let lock = it.path("scheduler.lock");
    let args = [program.as_os_str(), lock.as_os_str(), "200".as_ref(), "16".as_ref()];
    let told = it.outside().limit(std::time::Duration::from_secs(110)).run("python3", &args).ok();
    assert_eq!(told, "200 rounds\n");
}

#[test]
fn nobody_else_takes_a_lease_from_a_living_owner() {
    let it = Instance::fresh();
    for text in ["", "PID", "{\"pid\": PID}"] {
        let mut owner = holder(&it, "telegram.lock", text);
        let said = it.read("telegram.lock");
        let mut other = somebody(&it);
        other.run("put('mine', 'x')");
        for attempt in [
            "os.unlink(f'{M}/telegram.lock')",
            "os.rename(f'{M}/mine', f'{M}/telegram.lock')",
            "os.rename(f'{M}/telegram.lock', f'{M}/away')",
            "open(f'{M}/telegram.lock', 'w')",
            "open(f'{M}/telegram.lock', 'a')",
            "open(f'{M}/telegram.lock', 'r+')",
            "os.truncate(f'{M}/telegram.lock', 0)",
            "os.setxattr(f'{M}/telegram.lock', 'user.instancefs.token', b'1')",
        ] {
            assert_eq!(other.errno(attempt), EPERM, "{attempt}");
        }
        assert_eq!(other.errno("take('telegram.lock')"), libc::EEXIST);
        assert_eq!(it.actor().bash("mv missions.md telegram.lock").failed().stdout, "");
        assert_eq!(it.read("telegram.lock"), said, "and it says what it said");
        // The owner itself may.
        owner.run(
            "put('telegram.lock', str(os.getpid()) + ' '); os.truncate(f'{M}/telegram.lock', 0)",
        );
        owner.run("put('new', str(os.getpid())); os.rename(f'{M}/new', f'{M}/telegram.lock')");
        assert_eq!(other.errno("os.unlink(f'{M}/telegram.lock')"), EPERM);
        owner.run("os.unlink(f'{M}/telegram.lock')");
        other.run("take('telegram.lock', str(os.getpid()))");
        assert_eq!(owner.errno("os.unlink(f'{M}/telegram.lock')"), EPERM, "it has a new owner");
        other.run("os.unlink(f'{M}/telegram.lock')");
    }
}

#[test]
fn a_descriptor_that_a_child_has_inherited_goes_on() {
    let it = Instance::fresh();
    let mut owner = somebody(&it);
    owner.run(
        "fd = os.open(f'{M}/scheduler.lock', os.O_CREAT | os.O_EXCL | os.O_RDWR)\n\
         import subprocess\n\
         done = subprocess.run(['sh', '-c', f'echo {os.getpid()} >&{fd}; rm -f {M}/scheduler.lock'], pass_fds=[fd])",
    );
    assert_ne!(owner.int("done.returncode"), 0, "a child is another process");
    assert_eq!(it.read("scheduler.lock"), format!("{}\n", owner.pid()));
}

#[test]
fn the_release_by_a_loser_leaves_the_winners_lock() {
    let it = Instance::fresh();
    let mut winner = holder(&it, "scheduler.lock", "PID");
    let mut loser = somebody(&it);
    assert_eq!(loser.errno("take('scheduler.lock', str(os.getpid()))"), libc::EEXIST);
    assert_eq!(loser.errno("os.unlink(f'{M}/scheduler.lock')"), EPERM);
    loser.end();
    assert_eq!(it.read("scheduler.lock"), winner.int("os.getpid()").to_string());
    winner.end();
    assert!(!there(&it, "scheduler.lock"));
}

#[test]
fn a_lease_belongs_to_the_process_that_its_content_names() {
    let it = Instance::fresh();
    let mut named = somebody(&it);
    let mut creator = somebody(&it);
    creator.run(&format!("take('scheduler.lock', '{{\"pid\": {}}}')", named.pid()));
    creator.kill();
    assert!(there(&it, "scheduler.lock"));
    named.run("os.rename(f'{M}/scheduler.lock', f'{M}/telegram.lock')");
    assert_eq!(somebody(&it).errno("os.unlink(f'{M}/telegram.lock')"), EPERM);
    named.kill();
    assert!(!there(&it, "telegram.lock"));
}

#[test]
fn links_and_exclusive_renames_make_leases_too() {
    let it = Instance::fresh();
    for make in [
        "put('t', str(os.getpid())); os.link(f'{M}/t', f'{M}/scheduler.lock'); os.unlink(f'{M}/t')",
        "put('t', str(os.getpid())); import ctypes\n\
         if ctypes.CDLL(None, use_errno=True).renameat2(-100, f'{M}/t'.encode(), -100, f'{M}/scheduler.lock'.encode(), 1): raise OSError(ctypes.get_errno(), 'x')",
        "put('t', ''); os.link(f'{M}/t', f'{M}/scheduler.lock'); os.unlink(f'{M}/t')",
    ] {
        let (mut one, mut two) = (somebody(&it), somebody(&it));
        one.run(make);
        assert_eq!(two.errno(make), libc::EEXIST, "{make}");
        assert_eq!(two.errno("os.unlink(f'{M}/scheduler.lock')"), EPERM, "{make}");
        assert!(token(&it, "scheduler.lock") > 0);
        one.kill();
        assert!(!there(&it, "scheduler.lock"), "{make}");
        two.run("os.path.exists(f'{M}/t') and os.unlink(f'{M}/t')");
        two.run(make);
        two.run("os.unlink(f'{M}/scheduler.lock')");
    }
}

#[test]
fn other_files_are_left_alone() {
    let it = Instance::fresh();
    let mut maker = somebody(&it);
    maker.run("os.makedirs(f'{M}/sessions.live'); os.makedirs(f'{M}/sub')");
    let dead = dead();
    maker.run("take('uv.lock', str(os.getpid())); take('sub/scheduler.lock', str(os.getpid()))");
    maker.run("take('discord.lock', '[[package]]')");
    // Opened and locked, not created exclusively.
    maker.run("put('telegram.lock', str(os.getpid()))");
    maker.run("put('sessions.live/agent', str(os.getpid())); put('sessions.live/README.md', '1')");
    maker.run(&format!("put('sessions.live/{dead}', 'notes of a person')"));
    let mut other = somebody(&it);
    other.run(
        "put('telegram.lock', 'x'); put('discord.lock', 'x'); put('discord.lock', '[[package]]')",
    );
    maker.kill();
    it.sh("git init -q -b main . && git add -A && git commit -qm one && git gc -q");
    for name in [
        "uv.lock",
        "sub/scheduler.lock",
        "discord.lock",
        "telegram.lock",
        "sessions.live/agent",
        "sessions.live/README.md",
    ] {
        assert!(there(&it, name), "{name}");
    }
    it.remount();
    for name in ["discord.lock", "telegram.lock", &format!("sessions.live/{dead}")] {
        assert!(there(&it, name), "{name}");
    }
}

#[test]
fn a_marker_is_gone_with_its_process_after_kill_9_too() {
    let it = Instance::fresh();
    it.sh("mkdir -p models/sessions sessions.live");
    for dir in ["models/sessions", "sessions.live"] {
        let (mut one, mut two) = (somebody(&it), somebody(&it));
        for process in [&mut one, &mut two] {
            process.run(&format!("put(f'{dir}/{{os.getpid()}}', f'{{os.getpid()}}\\n')"));
        }
        let marker = |process: &Python| format!("{dir}/{}", process.pid());
        assert_eq!(it.names(dir).len(), 2);
        let pid = one.pid();
        one.kill();
        assert!(!it.path(&format!("{dir}/{pid}")).exists());
        assert_eq!(it.names(dir), [two.pid().to_string()]);
        // Markers guard nothing: others may remove them.
        it.sh(&format!("rm {}", marker(&two)));
        two.run(&format!("take(f'{dir}/{{os.getpid()}}')"));
        let gone = marker(&two);
        two.end();
        assert!(!there(&it, &gone), "an empty one too");
    }
}

#[test]
fn whoever_watches_the_directory_is_told() {
    let it = Instance::fresh();
    it.sh("mkdir sessions.live");
    let script = "exec inotifywait -m -e delete --format '%w%f %e' . sessions.live 2>&1";
    let mut watcher = it.actor().spawn_bash(script);
    watcher.until("Watches established");
    let mut owner = holder(&it, "scheduler.lock", "PID");
    let marker = format!("sessions.live/{}", owner.pid());
    owner.run(&format!("take({marker:?}, str(os.getpid()))"));
    owner.kill();
    watcher.until("./scheduler.lock DELETE");
    watcher.until(&format!("{marker} DELETE"));
}

#[test]
fn a_lock_or_marker_in_a_restored_backup_blocks_nobody() {
    let it = Instance::fresh();
    it.sh("mkdir sessions.live");
    let mut owner = holder(&it, "scheduler.lock", "PID");
    owner.run("take('telegram.lock')");
    let marker = format!("sessions.live/{}", owner.pid());
    owner.run(&format!("put({marker:?}, str(os.getpid()))"));
    it.sh("cp -a scheduler.lock telegram.lock sessions.live $SCRATCH");
    let mut living = somebody(&it);
    // A number that somebody else has by now.
    std::fs::write(it.scratch("discord.lock"), living.pid().to_string()).expect("write");
    it.outside().bash("touch -d '2 hours ago' discord.lock telegram.lock").ok();
    owner.kill();
    let restore = "cp -a $SCRATCH/scheduler.lock $SCRATCH/telegram.lock $SCRATCH/discord.lock \
                   $SCRATCH/sessions.live";
    let free = |it: &Instance, living: &mut Python| {
        for name in ["scheduler.lock", "telegram.lock", "discord.lock"] {
            eventually(name, || (living.outcome(&format!("take('{name}')")) == 0).then_some(()));
            living.run(&format!("os.unlink(f'{{M}}/{name}')"));
        }
        assert!(!there(it, &marker));
    };
    // Into the store while it is not mounted.
    it.unmount();
    it.outside().bash(&format!("{restore} $STORE")).ok();
    it.mount();
    free(&it, &mut living);
    // Behind the back of the mount, and through it.
    it.outside().bash(&format!("{restore} $STORE && rm $STORE/telegram.lock")).ok();
    free(&it, &mut living);
    it.sh(&format!("{restore} . && rm -f telegram.lock"));
    free(&it, &mut living);
}

#[test]
fn a_restarted_daemon_knows_whose_they_are() {
    let it = Instance::fresh();
    it.sh("mkdir sessions.live");
    let mut living = holder(&it, "scheduler.lock", "");
    let mut ending = holder(&it, "telegram.lock", "");
    let mut named = holder(&it, "discord.lock", "PID");
    named.run("put(f'sessions.live/{os.getpid()}', str(os.getpid()))");
    let marker = format!("sessions.live/{}", named.pid());
    let first = token(&it, "scheduler.lock");
    it.kill_daemon();
    ending.kill();
    it.mount();
    assert!(!there(&it, "telegram.lock"), "its owner ended while no daemon looked");
    assert_eq!(token(&it, "scheduler.lock"), first);
    let mut other = somebody(&it);
    assert_eq!(other.errno("os.unlink(f'{M}/scheduler.lock')"), EPERM);
    assert_eq!(other.errno("open(f'{M}/discord.lock', 'w')"), EPERM);
    it.unmount();
    assert!(it.store().join("scheduler.lock").exists(), "the store has the files of the living");
    it.mount();
    assert_eq!(other.errno("os.unlink(f'{M}/scheduler.lock')"), EPERM);
    named.kill();
    assert!(!there(&it, "discord.lock") && !there(&it, &marker));
    living.run("os.unlink(f'{M}/scheduler.lock')");
}

#[test]
fn fencing_numbers_only_grow() {
    let it = Instance::fresh();
    let mut last = 0;
    for round in 0..6 {
        let mut owner = holder(&it, "scheduler.lock", "PID");
        let now = token(&it, "scheduler.lock");
        assert!(now > last, "{now} after {last}");
        assert!(it.sh("getfattr -d scheduler.lock").contains("user.instancefs.token"));
        last = now;
        owner.end();
        match round {
            1 => it.remount(),
            3 => {
                it.kill_daemon();
                it.mount();
            }
            _ => {}
        }
    }
    assert_eq!(
        it.actor().bash("getfattr -n user.instancefs.token missions.lock").failed().stdout,
        ""
    );
}

#[test]
fn a_process_of_another_pid_namespace_is_not_judged_by_its_number() {
    let it = Instance::fresh();
    it.sh("mkdir sessions.live");
    let dead = dead();
    let inside = format!(
        "set -eC; echo {dead} > scheduler.lock; echo '{{\"pid\": {dead}}}' > telegram.lock; \
         echo {dead} > sessions.live/{dead}"
    );
    // SAFETY: a call without arguments.
    let root = unsafe { libc::geteuid() } == 0;
    let user: &[&str] = if root { &[] } else { &["--user", "--map-root-user"] };
    let args = [user, &["--pid", "--fork", "bash", "-c", &inside]].concat();
    it.actor().run("unshare", &args).ok();
    for _ in 0..2 {
        for name in ["scheduler.lock", "telegram.lock", &format!("sessions.live/{dead}")] {
            assert!(there(&it, name), "{name}");
        }
        it.remount();
    }
    it.sh("rm scheduler.lock telegram.lock");
}

#[test]
fn a_directory_that_is_moved_takes_its_markers_along() {
    let it = Instance::fresh();
    it.sh("mkdir sessions.live");
    let mut owner = somebody(&it);
    owner.run("put(f'sessions.live/{os.getpid()}', str(os.getpid()))");
    let pid = owner.pid();
    it.sh("mv sessions.live old");
    owner.kill();
    assert!(there(&it, &format!("old/{pid}")), "there it is no marker");
    it.sh("mv old sessions.live");
    // The kernel may believe for a second what it was told of the other place.
    eventually("here it is", || (!there(&it, &format!("sessions.live/{pid}"))).then_some(()));
}

#[test]
fn nobody_sees_a_lock_after_the_end_of_its_owner() {
    let it = Instance::fresh();
    let program = programs_dir().join("vanish.py");
    let lock = it.path("scheduler.lock");
    let args = [program.as_os_str(), lock.as_os_str(), "800".as_ref()];
    let patient = it.outside().limit(std::time::Duration::from_secs(110));
    assert_eq!(patient.run("python3", &args).ok(), "800 rounds\n");
}

#[test]
fn status_counts_leases_and_sessions_with_and_without_a_mount() {
    let it = Instance::fresh();
    let counts = |it: &Instance| {
        let status = it.status();
        (status["leases"].clone(), status["sessions"].clone())
    };
    assert_eq!(counts(&it), (0.into(), 0.into()));
    it.sh("mkdir sessions.live && echo x > sessions.live/README && echo x > telegram.lock");
    let mut owner = holder(&it, "scheduler.lock", "PID");
    owner.run("put(f'sessions.live/{os.getpid()}', str(os.getpid()))");
    let other = holder(&it, "discord.lock", "");
    assert_eq!(counts(&it), (2.into(), 1.into()));
    let shown: serde_json::Value =
        serde_json::from_str(&it.read(".instancefs/status.json")).expect("JSON");
    assert_eq!((shown["leases"].as_u64(), shown["sessions"].as_u64()), (Some(2), Some(1)));
    it.unmount();
    assert_eq!(counts(&it), (2.into(), 1.into()));
    owner.kill();
    assert_eq!(counts(&it), (1.into(), 0.into()));
    it.mount();
    assert_eq!(counts(&it), (1.into(), 0.into()));
    drop(other);
}
