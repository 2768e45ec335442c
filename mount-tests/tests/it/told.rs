//! Section 7: being told of new versions; and compare-and-swap by extended attributes.

use std::time::{Duration, Instant};

use mount_tests::{Instance, Running, eventually};

const FIRST: &str = "## Done\n\n## Pending\n- a\n- b\n";

fn insert(it: &Instance, text: &str) {
    it.sh(&format!(
        "sqlite3 -cmd '.timeout 10000' missions.db \"insert into missions(text,state,sequence) \
         values('{text}','pending',(select max(sequence)+1 from missions))\""
    ));
}

/// A save by rename of a text with `old` replaced by `new`.
fn rename_save(it: &Instance, name: &str, old: &str, new: &str) {
    it.sh(&format!("sed 's/{old}/{new}/' {name} > {name}.tmp && mv {name}.tmp {name}"));
}

/// `inotifywait -m` on names of the mount; returns when it watches. It prints `NAME EVENTS`.
fn watch(it: &Instance, names: &[&str]) -> Running {
    let script = format!("exec inotifywait -m --format '%w %e' {} 2>&1", names.join(" "));
    let mut watcher = it.actor().spawn_bash(&script);
    watcher.until("Watches established");
    watcher
}

/// Lines that the watcher has printed for a name, without reads and closes.
fn changes(watcher: &mut Running, name: &str) -> Vec<String> {
    let all = watcher.stdout();
    let of = |l: &&str| l.starts_with(name) && (l.contains("MODIFY") || l.contains("ATTRIB"));
    all.lines().filter(of).map(str::to_owned).collect()
}

#[test]
fn inotify_tells_of_a_row_inserted_with_sqlite3() {
    let it = Instance::with(&[("missions.md", FIRST)]);
    let before = it.path("missions.md").metadata().expect("stat").modified().expect("mtime");
    let mut watcher = watch(&it, &["missions.md"]);
    insert(&it, "from sql");
    watcher.until("missions.md MODIFY");
    watcher.until("missions.md ATTRIB");
    watcher.until("missions.md CLOSE_WRITE,CLOSE");
    let meta = it.path("missions.md").metadata().expect("stat");
    let after = meta.modified().expect("mtime");
    assert!(after > before);
    let count = changes(&mut watcher, "missions.md").len();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(changes(&mut watcher, "missions.md").len(), count, "one change, told once");
    let now = it.path("missions.md").metadata().expect("stat").modified().expect("mtime");
    assert_eq!(now, after, "being told moves no time");
    assert!(it.read("missions.md").contains("- from sql\n"));
    assert_eq!(it.kept(), [""; 0]);
}

#[test]
fn inotify_tells_of_each_of_many_rows() {
    let it = Instance::with(&[("missions.md", FIRST)]);
    let delays = mount_tests::told::delays(&it, 30);
    println!("median {:?}, longest {:?}", delays[15], delays[29]);
    assert_eq!(it.texts("pending").len(), 32);
}

#[test]
fn inotify_tells_a_watcher_when_the_new_text_can_be_read() {
    // What fs.watch of Node sees of a save in place: the write comes before the commit.
    let it = Instance::with(&[("missions.md", FIRST)]);
    let program = "
        const fs = require('fs');
        fs.watch('missions.md', () => {
            if (fs.readFileSync('missions.md', 'utf8').includes('- new')) console.log('new');
        });
        console.log('watching');
        setTimeout(() => process.exit(1), 30000);
    ";
    let mut node = it.actor().spawn("node", &["-e", program]);
    node.until("watching");
    let mut writer = it.python();
    writer.run("f = open('missions.md', 'a', buffering=1)");
    // Committed 200 ms after the last write, by nobody's call.
    writer.run("f.write('- new\\n')");
    node.until("new");
}

#[test]
fn inotify_tells_of_the_other_view_of_a_config() {
    let it = Instance::with(&[("config.json", "{\n  \"a\": 1\n}\n")]);
    let mut watcher = watch(&it, &["config.yaml", "config.json"]);
    it.edit("config.json", "1", "2");
    watcher.until("config.yaml MODIFY");
    assert_eq!(it.read("config.yaml"), "a: 2\n");
    rename_save(&it, "config.yaml", "2", "3");
    eventually("news of the second save", || {
        (changes(&mut watcher, "config.json").len() > 3).then_some(())
    });
    assert_eq!(it.read("config.json"), "{\n  \"a\": 3\n}\n");
}

/// Everything that a watcher of `memory` sees of `memory/a.md` while `script` runs and for a while
/// after it, without reads: one word for each event.
fn seen_of(script: &str) -> Vec<String> {
    let it = Instance::with(&[("memory/a.md", "# a\n- one\n")]);
    assert_eq!(it.read("memory/a.md"), "# a\n- one\n");
    let mut watcher = it.actor().spawn_bash("exec inotifywait -m --format '%f %e' memory 2>&1");
    watcher.until("Watches established");
    it.sh(script);
    std::thread::sleep(Duration::from_millis(500));
    let all = watcher.stdout();
    println!("{script}\n{all}");
    let of_file = |line: &str| line.strip_prefix("a.md ").map(str::to_owned);
    let silent = ["OPEN", "ACCESS", "CLOSE_NOWRITE,CLOSE"];
    all.lines().filter_map(of_file).filter(|e| !silent.contains(&e.as_str())).collect()
}

/// What the daemon makes when a version can be read.
const TOLD: [&str; 3] = ["MODIFY", "ATTRIB", "CLOSE_WRITE,CLOSE"];

#[test]
fn a_version_whose_writes_were_seen_is_told_once_more_after_a_moment() {
    let saves = [
        "printf '# a\\n- two\\n' > memory/a.md",
        "printf -- '- two\\n' >> memory/a.md",
        "printf 'b' | dd of=memory/a.md bs=1 seek=2 conv=notrunc status=none",
        "printf '# a\\n- two\\n' | dd of=memory/a.md conv=fsync status=none",
    ];
    for save in saves {
        let events = seen_of(save);
        // What comes at once may come between the commit and the return of the writer's close.
        let from = events.len().saturating_sub(2);
        assert_eq!(events[from..], [TOLD[2], "MODIFY"], "{save}: {events:?}");
        assert!(events.contains(&TOLD[1].to_owned()), "{save}: {events:?}");
    }
}

#[test]
fn a_rename_is_told_once() {
    let events = seen_of("printf '# a\\n- two\\n' > x.tmp && mv x.tmp memory/a.md");
    assert_eq!(events, [&["MOVED_TO"][..], &TOLD[..]].concat());
}

#[test]
fn our_own_reads_and_saves_leave_no_access_time() {
    let it = Instance::with(&[("memory/a.md", "# a\n")]);
    let times = |name: &str| {
        let it = it.path(name).metadata().expect("stat");
        (it.accessed().expect("atime"), it.modified().expect("mtime"))
    };
    // Most file systems note only the first access after a change.
    it.sh("touch -a -d '2020-01-01' $STORE/memory/a.md && touch -m $STORE/memory/a.md");
    let before = times("memory/a.md");
    assert_eq!(it.read("memory/a.md"), "# a\n");
    assert_eq!(times("memory/a.md"), before);
    it.append("memory/a.md", "- b");
    it.sh("echo '# new' > memory/new.md; cat memory/new.md memory/a.md");
    for name in ["memory/a.md", "memory/new.md"] {
        let (atime, mtime) = times(name);
        assert!(atime <= mtime, "{name}: {atime:?} after {mtime:?}");
    }
}

#[test]
fn a_killed_daemon_does_not_wait_for_its_own_touch() {
    let it = Instance::with(&[("missions.md", FIRST)]);
    let mut hits = 0;
    for _ in 0..4 {
        let mut busy = it.outside().spawn_python(
            r#"
import sqlite3, os
db = sqlite3.connect(os.environ['STORE'] + '/missions.db', isolation_level=None, timeout=10)
print('busy', flush=True)
while True:
    db.execute("insert into missions(text,state,sequence) values('x','pending',9)")
    db.execute("delete from missions where text='x'")
"#,
            &[],
        );
        busy.until("busy");
        let pid = it.daemon();
        hits += usize::from(kill_in_a_request(pid));
        drop(busy);
        // The process is a zombie at once, but it is not over while a thread is in the kernel.
        eventually("end of every thread", || {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
            let left = threads.map_or(0, Iterator::count);
            (left <= 1).then_some(())
        });
        it.mount();
    }
    println!("{hits} times it had just asked itself");
    assert_eq!(it.count("a"), 1);
}

/// Kills the daemon when its telling thread waits for an answer of the mount; after 3 s anyway.
/// Whether it did wait, as far as the kernel tells.
fn kill_in_a_request(pid: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
    let teller = tasks
        .filter_map(|task| Some(task.ok()?.path()))
        .find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|c| c == "watchers\n"))
        .expect("the thread that tells watchers");
    let end = Instant::now() + Duration::from_secs(3);
    let mut waits = false;
    while !waits && Instant::now() < end {
        let place = std::fs::read_to_string(teller.join("wchan")).unwrap_or_default();
        waits = place.contains("request_wait");
    }
    // SAFETY: plain kill; the pid is that of the daemon which the instance started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    waits
}

/// Appends through the mount, by SQL and by a rename, and how `program` shows each.
fn follows(program: &str, args: &[&str]) {
    let it = Instance::with(&[("missions.md", FIRST)]);
    let mut follower = it.actor().spawn(program, args);
    follower.until("- b");
    it.append("missions.md", "- appended");
    follower.until("- appended");
    insert(&it, "inserted");
    follower.until("- inserted");
    it.sh("{ cat missions.md; echo '- renamed'; } > x.tmp && mv x.tmp missions.md");
    follower.until("- renamed");
    it.append("missions.md", "- after that");
    follower.until("- after that");
}

#[test]
fn tail_f_follows_a_document() {
    follows("tail", &["-n", "+1", "-f", "missions.md"]);
}

#[test]
fn tail_capital_f_follows_a_document() {
    follows("tail", &["-n", "+1", "-F", "-s", "0.2", "missions.md"]);
}

#[test]
fn less_follows_a_document() {
    // less wants a terminal; script gives it one.
    follows("script", &["-qfec", "TERM=xterm less +F missions.md", "/dev/null"]);
}

#[test]
fn entr_runs_for_every_kind_of_save() {
    let it = Instance::with(&[("missions.md", FIRST)]);
    let script = "echo missions.md | exec entr -n sh -c 'tail -1 missions.md'";
    let mut entr = it.actor().spawn_bash(script);
    let mut shows = |text: &str| {
        entr.until(text);
        // For 50 ms after a run entr drops what it is told.
        std::thread::sleep(Duration::from_millis(500));
    };
    shows("- b");
    it.append("missions.md", "- appended");
    shows("- appended");
    insert(&it, "inserted");
    shows("- inserted");
    it.sh("{ cat missions.md; echo '- renamed'; } > x.tmp && mv x.tmp missions.md");
    shows("- renamed");
    insert(&it, "again");
    shows("- again");
}

#[test]
fn poll_wakes_at_a_new_version() {
    let it = Instance::with(&[("missions.md", FIRST), ("plain.txt", "x\n")]);
    let program = r#"
import os, select, sys
fd = os.open('missions.md', os.O_RDONLY)
p = select.poll()
p.register(fd, select.POLLIN | select.POLLOUT | select.POLLPRI)
assert p.poll(0) == [(fd, select.POLLIN | select.POLLOUT)], p.poll(0)
plain = os.open('plain.txt', os.O_RDONLY)
q = select.poll()
q.register(plain, select.POLLIN | select.POLLPRI)
assert q.poll(0) == [(plain, select.POLLIN)], q.poll(0)
p.modify(fd, select.POLLPRI)
assert p.poll(0) == []
while os.read(fd, 4096): pass
for i in range(3):
    print('waiting', i, flush=True)
    assert p.poll(20000) == [(fd, select.POLLPRI)]
    assert p.poll(0) == [(fd, select.POLLPRI)], 'until it is read'
    assert select.select([], [], [fd], 0)[2] == [fd]
    os.lseek(fd, 0, 0)
    text = b''
    while part := os.read(fd, 4096): text += part
    print('got', i, text.decode().strip().splitlines()[-1], flush=True)
    assert p.poll(0) == []
"#;
    let mut poller = it.actor().spawn_python(program, &[]);
    poller.until("waiting 0");
    insert(&it, "inserted");
    poller.until("got 0 - inserted");
    poller.until("waiting 1");
    it.append("missions.md", "- appended");
    poller.until("got 1 - appended");
    poller.until("waiting 2");
    it.sh("{ cat missions.md; echo '- renamed'; } > x.tmp && mv x.tmp missions.md");
    poller.until("got 2 - renamed");
    poller.wait().ok();
}

#[test]
fn epoll_takes_documents_and_a_waiter_survives_the_unmount() {
    let it = Instance::with(&[("missions.md", FIRST)]);
    let program = r#"
import os, select, threading
fd = os.open('missions.md', os.O_RDONLY)
e = select.epoll()
e.register(fd, select.EPOLLPRI)
print('waiting', flush=True)
print('events', e.poll(20), flush=True)
"#;
    let mut waiter = it.actor().spawn_python(program, &[]);
    waiter.until("waiting");
    std::thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    it.signal_daemon(libc::SIGTERM);
    // The end of the connection is an event of its own; what matters is that it ends.
    waiter.until("events");
    assert!(start.elapsed() < Duration::from_secs(15));
    it.mount();
}

#[test]
fn the_attributes_tell_hash_and_revision() {
    let it = Instance::with(&[("config.json", "{\"a\": 1}\n"), ("missions.md", FIRST)]);
    let hash = "getfattr --only-values -n user.instancefs.sha256";
    for name in ["missions.md", "config.json", "config.yaml"] {
        let out = it.sh(&format!("{hash} {name}; echo; sha256sum < {name}"));
        let (told, real) = out.split_once('\n').expect("two lines");
        assert_eq!(told, real.split_whitespace().next().expect("a hash"), "{name}");
    }
    let rev = || {
        let rev = it.sh("getfattr --only-values -n user.instancefs.rev missions.md");
        rev.parse::<u64>().unwrap_or_else(|e| panic!("{rev}: {e}"))
    };
    let before = rev();
    it.append("missions.md", "- c");
    assert!(rev() > before);
    // Copies with attributes work, and get none of ours.
    it.sh(
        "cp -a missions.md $SCRATCH/copy && cp -a missions.md copy.md && cp -a copy.md missions.md",
    );
    assert_eq!(it.sh("getfattr -d -m - copy.md missions.md $SCRATCH/copy"), "");
    let mut p = it.python();
    let set = |value: &str, name: &str| {
        format!("import os\nos.setxattr('missions.md', 'user.{name}', b'{value}')")
    };
    assert_eq!(p.errno(&set("1", "instancefs.rev")), libc::EPERM);
    assert_eq!(p.errno(&set("1", "instancefs.sha256")), libc::EPERM);
    assert_eq!(p.errno(&set("xyz", "instancefs.expect-sha256")), libc::EINVAL);
    assert_eq!(p.errno(&set("1", "other")), libc::EOPNOTSUPP);
}

#[test]
fn a_save_that_expects_another_hash_is_refused_and_says_so() {
    let it = Instance::with(&[("config.json", "{\"a\": 1}\n")]);
    let mut shell = it.shell();
    shell.run("h=$(sha256sum < config.json | cut -c-64); cat config.json > $SCRATCH/seen");
    it.edit("config.json", "1", "2");
    shell.run("setfattr -n user.instancefs.expect-sha256 -v $h config.json");
    let (code, said) = shell.attempt("echo '{\"a\": 9}' > $SCRATCH/n; cp $SCRATCH/n config.json");
    assert_ne!(code, 0, "{said}");
    assert!(said.contains("Input/output error"), "{said}");
    assert_eq!(it.read("config.json"), "{\"a\": 2}\n");
    let refused = it.refused("config.json");
    assert!(refused.contains("changed since it was read"), "{refused}");
    assert!(refused.contains("{\"a\": 9}"), "{refused}");
    shell.run("h=$(getfattr --only-values -n user.instancefs.sha256 config.json)");
    shell.run("setfattr -n user.instancefs.expect-sha256 -v ${h^^} config.json");
    shell.run("cp $SCRATCH/n config.json");
    assert_eq!(it.read("config.json"), "{\"a\": 9}\n");
    assert_eq!(it.kept(), [""; 0], "the good save took the refused one away");
}

/// A counter that each of two processes raises 50 times, expecting what it has read; one saves in
/// place through the handle that it read, or by path, or by rename.
const COUNT: &str = r#"
import errno, hashlib, json, os, sys
how = sys.argv[1]
retries = 0
for i in range(50):
    while True:
        f = open('config.json', 'r+b')
        old = f.read()
        text = json.dumps({'n': json.loads(old)['n'] + 1}).encode() + b'\n'
        want = hashlib.sha256(old).hexdigest().encode()
        try:
            if how == 'handle':
                os.setxattr(f.fileno(), 'user.instancefs.expect-sha256', want)
                f.seek(0); f.write(text); f.truncate(); f.flush(); os.fsync(f.fileno())
                f.close()
            else:
                f.close()
                os.setxattr('config.json', 'user.instancefs.expect-sha256', want)
                if how == 'path':
                    fd = os.open('config.json', os.O_WRONLY | os.O_TRUNC)
                    os.write(fd, text); os.close(fd)
                else:
                    tmp = f'config.json.{os.getpid()}'
                    open(tmp, 'wb').write(text)
                    os.rename(tmp, 'config.json')
            break
        except OSError as e:
            assert e.errno == errno.EIO, e
            retries += 1
            try: f.close()
            except OSError: pass
print(retries)
"#;

fn count(how: &str) {
    let it = Instance::with(&[("config.json", "{\"n\": 0}\n")]);
    let actor = it.actor().limit(Duration::from_secs(90));
    let both = [actor.spawn_python(COUNT, &[how]), actor.spawn_python(COUNT, &[how])];
    for one in both {
        one.wait().ok();
    }
    assert_eq!(it.read("config.json"), "{\"n\": 100}\n");
}

#[test]
fn no_update_is_lost_between_two_that_swap_through_a_handle() {
    count("handle");
}

#[test]
fn no_update_is_lost_between_two_that_swap_by_path() {
    count("path");
}

#[test]
fn no_update_is_lost_between_two_that_swap_by_rename() {
    count("rename");
}
