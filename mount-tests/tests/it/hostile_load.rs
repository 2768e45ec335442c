//! Programs that never stop, never read, never close or are stopped: everybody else goes on, the
//! mount can be left, and what the daemon takes is bounded.

use std::time::Duration;

use mount_tests::machine::{Stopped, Usage};
use mount_tests::{Instance, eventually, samples};

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.json", "{\"a\": 1}\n")])
}

/// What a save in one write ends with.
const SAVE: &str = "
def save(name, text):
  f = os.open(name, os.O_WRONLY | os.O_TRUNC)
  try:
    n = 0
    while n < len(text): n += os.write(f, text[n:])
  except OSError as e:
    try: os.close(f)
    except OSError: pass
    return e.errno
  try: os.close(f)
  except OSError as e: return e.errno
  return 0
";

#[test]
fn hostile_texts_are_kept_or_refused_whole() {
    let it = Instance::with(&[
        ("missions.md", samples::MISSIONS),
        ("config.yaml", samples::CONFIG_YAML),
    ]);
    let mut p = it.actor().limit(Duration::from_secs(60)).python_steps();
    p.run(SAVE);
    let bombs = [
        ("config.json", "b'{\"a\":' * 100000 + b'1' + b'}' * 100000"),
        ("config.json", "b'[' * 100000 + b']' * 100000"),
        ("config.json", "b'{\"a\": \"\\\\ud800\"}'"),
        ("config.json", "b'{\"a\": 1, \"\\\\u0061\": 2}'"),
        ("config.json", "b'{\"a\": \"nul \\x00\"}'"),
        ("config.json", "b'\\xff\\xfe{\\x00}\\x00'"),
        ("config.yaml", "b'? ' * 100000 + b'x'"),
        ("config.yaml", "b'{a: ' * 100000 + b'1' + b'}' * 100000"),
        (
            "config.yaml",
            "b'a: &a [' + b'x,' * 1000 + b'x]\\n' + b''.join(b'%c: &%c [%s]\\n' % (98 + i, 98 + i, b','.join([b'*%c' % (97 + i)] * 60)) for i in range(12))",
        ),
        ("config.yaml", "b'a: &a\\n  b: *a\\n'"),
        ("config.yaml", "b'a: 1\\na: 2\\n'"),
        ("config.yaml", "b'a: !!python/object/apply:os.system [id]\\n<<: [*x]\\n'"),
        ("missions.md", "b'## Pending\\n- \\x00\\n'"),
        ("missions.md", "b'## Pending\\n- \\xed\\xa0\\x80 lone surrogate\\n'"),
    ];
    for (name, text) in bombs {
        p.run(&format!("got = save('{name}', {text})"));
        assert_eq!(p.int("got"), i64::from(libc::EIO), "{name} {text}");
        assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML, "{text}");
        assert_eq!(it.read("missions.md"), samples::MISSIONS, "{text}");
        it.sh("rm -f *.refused*");
    }
    // Odd, but what they say is clear: kept as they are.
    let it = instance();
    let mut p = it.actor().limit(Duration::from_secs(60)).python_steps();
    p.run(SAVE);
    for text in [
        "b'{\"n\": 1' + b'0' * 100000 + b', \"e\": 1e999999, \"m\": -0.0, \"p\": 1.' + b'3' * 5000 + b'}'",
        "b'{\\r\\n  \"crlf\": 1\\r\\n}\\r\\n'",
        "b'{\"long\": \"' + b'x' * 3000000 + b'\"}'",
        "b'{' + b', '.join(b'\"k%d\": %d' % (i, i) for i in range(50000)) + b'}'",
    ] {
        p.run(&format!(
            "open('config.json').read()\ntext = {text}\ngot = save('config.json', text)"
        ));
        if p.int("got") == 0 {
            assert_eq!(p.eval("open('config.json', 'rb').read() == text"), true, "{text}");
        } else {
            assert_eq!(p.int("got"), i64::from(libc::EIO), "{text}");
        }
        it.sh("rm -f *.refused*");
    }
    it.goes_on("the texts");
}

#[test]
fn thousands_of_open_handles_and_then_work_as_usual() {
    handles(2_000);
}

/// The same at length, see below.
#[test]
#[ignore = "a minute"]
fn ten_thousand_open_handles_and_then_work_as_usual() {
    handles(10_000);
}

/// Four programs hold so many handles together, a tenth of them for writing.
fn handles(count: usize) {
    let builder = Instance::builder().watchdog(Duration::from_secs(600));
    let it =
        builder.file("missions.md", samples::MISSIONS).file("config.json", "{\"a\": 1}\n").start();
    it.sh("mkdir memory; for f in outbox.md memory/{a,b,c}.md plain; do echo text > $f; done");
    let before = Usage::of(it.daemon());
    let mut holders: Vec<_> = (0..4).map(|_| it.python()).collect();
    for p in &mut holders {
        p.run("import resource\nn = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nresource.setrlimit(resource.RLIMIT_NOFILE, (n, n))\nfds = []");
        p.run(&format!("COUNT = {}", count / 200));
        // In pieces: a busy machine must not take one for a hang.
        for _ in 0..5 {
            p.run(
                "for i in range(COUNT * 9):\n  n = ['missions.md', 'config.json', 'config.yaml', 'outbox.md', \
                 'memory/a.md', 'memory/b.md', 'memory/c.md', 'plain'][i % 8]\n  \
                 f = os.open(n, os.O_RDONLY); os.read(f, 7); fds.append(f)",
            );
            p.run("for i in range(COUNT): fds.append(os.open('config.json', os.O_RDWR))");
        }
    }
    // Some of them have begun to write and do not go on.
    holders[0].run("for f in fds[-COUNT:]: os.pwrite(f, b'{', 0)");
    it.goes_on("ten thousand");
    let full = Usage::of(it.daemon());
    assert!(full.descriptors < before.descriptors + 1300, "{before:?} {full:?}");
    assert!(full.memory < before.memory + 100_000, "{before:?} {full:?}");
    for p in &mut holders {
        p.kill();
    }
    drop(holders);
    eventually("all closed", || {
        let open = it.status()["operations"]["documents"]["handles"].as_array().map(Vec::len);
        (open == Some(0)).then_some(())
    });
    it.goes_on("their end");
    it.unmount();
}

#[test]
fn stopped_programs_hold_up_nobody_and_the_mount_can_be_left() {
    let it = instance();
    let loops = [
        "open('missions.md').read()",
        "f = os.open('missions.md', os.O_WRONLY | os.O_APPEND); os.write(f, b'- x\\n'); os.close(f)",
        "open('config.json', 'w').write('{\"a\": 1}')",
        "f = open('missions.md', 'a'); fcntl.flock(f, fcntl.LOCK_EX); f.write('- y\\n'); f.close()",
        "n = 't%d' % os.getpid(); open(n, 'w').write('{\"a\": 3}'); os.rename(n, 'config.json')",
        "f = os.open('outbox.md', os.O_WRONLY | os.O_APPEND | os.O_CREAT); os.write(f, b'z\\n'); os.fsync(f); os.close(f)",
        "c = __import__('sqlite3').connect('missions.db'); c.execute('select * from missions').fetchall(); c.close()",
        "m = mmap.mmap(os.open('missions.md', os.O_RDONLY), 10, prot=mmap.PROT_READ); m[:]; m.close()",
        "os.stat('config.json'); os.listdir('.'); os.getxattr('config.json', 'user.instancefs.sha256')",
    ];
    let mut running = Vec::new();
    let mut stopped = Vec::new();
    for what in loops {
        let code = format!(
            "import os, fcntl, mmap, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n\
             while True:\n  try:\n    {}\n  except OSError: pass\n  except MemoryError: os._exit(1)",
            what.replace("; ", "\n    ").replace("\n    write", "; write")
        );
        for _ in 0..2 {
            running.push(it.actor().spawn("python3", &["-c", &code]));
        }
    }
    std::thread::sleep(Duration::from_millis(700));
    for program in &running {
        stopped.push(Stopped::now(program.pid()));
        it.sh("cat missions.md config.json > /dev/null; echo '- in between' >> missions.md");
    }
    it.goes_on("they were stopped");
    let usage = Usage::of(it.daemon());
    assert!(usage.threads < 64, "{usage:?}");
    // Leaving says who is still there, and does not wait for them.
    let mount = it.mount_point();
    let left = it
        .outside()
        .limit(Duration::from_secs(30))
        .instancefs(&["unmount".as_ref(), mount.as_os_str()]);
    assert!(!it.mounted(), "{left:?}");
    assert!(left.stderr.contains("used by") && left.stderr.contains("python3"), "{left:?}");
    drop(running);
    drop(stopped);
    it.mount();
    it.goes_on("their end");
}

#[test]
fn a_writer_that_never_closes_and_readers_that_never_read() {
    let it = instance();
    let mut p = it.python();
    p.run("block = b'x' * (1 << 20)\nfds = [os.open('config.json', os.O_RDWR) for i in range(4)]");
    p.run("for f in fds:\n  for i in range(30): os.write(f, block)");
    let mut watcher = it.python();
    watcher.run("import select, ctypes\nlibc = ctypes.CDLL(None)\nino = libc.inotify_init1(0)");
    watcher.run("for n in [b'missions.md', b'config.json', b'.']: assert libc.inotify_add_watch(ino, n, 0xfff) > 0");
    watcher.run("polls = []\nfor i in range(50):\n  e = select.epoll(); f = os.open('missions.md', os.O_RDONLY); e.register(f, select.EPOLLPRI); polls.append((e, f))");
    let stopped = Stopped::now(watcher.pid());
    let before = Usage::of(it.daemon());
    for i in 0..100 {
        it.append("missions.md", &format!("- meanwhile {i}"));
    }
    assert_eq!(it.rows().len(), 106);
    it.goes_on("a hundred changes");
    let after = Usage::of(it.daemon());
    assert!(after.memory < before.memory + 60_000, "{before:?} {after:?}");
    drop(stopped);
    watcher.run("assert len(os.read(ino, 1 << 20)) > 0");
    p.kill();
    drop(watcher);
    it.unmount();
    let kept = it.outside().bash("ls \"$STORE\" | grep -c unsaved").stdout;
    assert_eq!(kept.trim(), "4", "what was never closed is kept beside the document");
}

#[test]
fn odd_calls_get_errnos() {
    let it = instance();
    it.sh("echo hello > outbox.md; echo hello > plain");
    let mut p = it.python();
    p.run("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)");
    p.run("def call(name, *args):\n  r = getattr(libc, name)(*args)\n  return 0 if r >= 0 else ctypes.get_errno()");
    for name in ["missions.md", "config.json", "outbox.md"] {
        let before = it.bytes(name);
        p.run(&format!("f = os.open('{name}', os.O_RDWR); g = os.open('plain', os.O_RDWR)"));
        // What each of them answers is the system's business; that it answers is ours.
        for odd in [
            "call('ioctl', f, 0x5401, 0)",
            "call('ioctl', f, 0x40086602, ctypes.byref(ctypes.c_long(0x10)))",
            "call('ioctl', f, 0x40049409, g)",
            "call('ioctl', f, 0xffffffff, 0)",
            "call('fallocate', f, 3, 0, 10)",
            "call('fallocate', f, 0x20, 0, 10)",
            "call('fallocate', f, -1, -1, -1)",
            "call('copy_file_range', f, None, g, None, 5, 0)",
            "call('copy_file_range', f, None, f, None, 5, 0)",
            "call('sync_file_range', f, 0, 0, 7)",
            "call('posix_fadvise', f, 0, 0, 4)",
            "call('fsetxattr', f, b'user.x', b'y' * 70000, 70000, 0)",
            "call('fsetxattr', f, b'security.capability', b'\\x01\\0\\0\\x02' + b'\\xff' * 16, 20, 0)",
            "call('fsetxattr', f, b'trusted.x', b'y', 1, 0)",
            "call('fremovexattr', f, b'system.posix_acl_access')",
            "call('flistxattr', f, None, -1)",
            "call('lseek', f, ctypes.c_long(-5), 0)",
            "call('lseek', f, ctypes.c_long(1 << 62), 3)",
            "call('splice', f, None, g, None, 5, 0)",
            "call('sendfile', g, f, None, 5)",
            "call('getdents64', f, ctypes.create_string_buffer(100), 100)",
            "call('fcntl', f, 1024, 1)",
            "call('fcntl', f, 1033, 0xf)",
            "call('mknod', b'missions.md', 0o20666, 0x103)",
            "call('swapon', b'config.json', 0)",
            "call('acct', b'config.json')",
        ] {
            p.run(&format!("got = {odd}"));
        }
        p.run("m = mmap.mmap(f, 0, prot=mmap.PROT_READ); n = len(m[:]); m.close()\nos.close(f); os.close(g)");
        if name != "outbox.md" {
            assert_eq!(it.bytes(name), before, "{name}");
        }
    }
    it.sh("rm -f *.refused* plain");
    it.goes_on("odd calls");
}

#[test]
fn thousands_of_short_lived_writers_leave_nothing_in_memory() {
    churn(500, 60_000);
}

/// The same at length: `cargo nextest run -p mount-tests --run-ignored all -E 'test(fifty)'`.
#[test]
#[ignore = "minutes"]
fn fifty_thousand_short_lived_writers_leave_nothing_in_memory() {
    churn(50_000, 60_000);
}

/// So many processes each save something; the memory may grow by so many KiB after the first
/// fifth of them.
fn churn(processes: usize, growth: u64) {
    let mut builder = Instance::builder()
        .file("missions.md", samples::MISSIONS)
        .in_memory()
        .watchdog(Duration::from_secs(3600));
    let keys: Vec<String> = (0..3000).map(|i| format!("  \"key_{i:05}\": \"value {i}\"")).collect();
    builder = builder.file("config.json", format!("{{\n  \"a\": 0,\n{}\n}}\n", keys.join(",\n")));
    let it = builder.start();
    let program = "
import os, sys, time
first, count = map(int, sys.argv[1:])
def one(i):
    s = open('config.json').read()
    if i % 5 == 0:
        with open('config.json', 'w') as f: f.write(s.replace('\"a\": %d,' % (i // 5), '\"a\": %d,' % (i // 5 + 1)))
    elif i % 5 == 1:
        with open('missions.md', 'a') as f: f.write('- one\\n' if i < 100 else '')
    elif i % 5 == 2:
        with open('t%d' % i, 'w') as f: f.write(s)
        os.rename('t%d' % i, 'config.json')
    elif i % 5 == 3:
        with open('outbox.md', 'a') as f: f.write('x\\n')
        os.getxattr('config.json', 'user.instancefs.sha256')
    else:
        with open('config.json', 'w') as f: f.write('{bad %d' % i); f.flush(); os.fsync(f.fileno())
for i in range(first, first + count):
    pid = os.fork()
    if pid == 0:
        os.setsid()
        try: one(i)
        except OSError: pass
        os._exit(0)
    os.waitpid(pid, 0)
";
    let part = processes / 5;
    let mut memory = Vec::new();
    for n in 0..5 {
        let (first, count) = ((n * part).to_string(), part.to_string());
        let actor = it.actor().limit(Duration::from_secs(3000));
        actor.python(program, &[&first, &count]).ok();
        memory.push(Usage::of(it.daemon()).memory);
    }
    println!("memory of the daemon in KiB after each {part} of {processes} writers: {memory:?}");
    assert!(memory[4] < memory[1] + growth, "{memory:?}");
    let refused = it.names(".").iter().filter(|n| n.contains(".refused")).count();
    assert!(refused <= 100, "{refused} refused texts");
    it.goes_on("thousands");
}
