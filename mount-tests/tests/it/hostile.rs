//! Whatever programs and other users do on purpose: they get errnos, everybody else goes on, and
//! nothing grows without bound.

use mount_tests::{Instance, Python, is_root, samples};
use std::os::unix::fs::PermissionsExt;

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.json", "{\"a\": 1}\n")])
}

/// A mount for everybody, with private files, whose user `nobody` can reach it.
fn for_everybody() -> Option<Instance> {
    if !is_root() {
        return None;
    }
    let it = Instance::builder()
        .file("missions.md", samples::MISSIONS)
        .file("config.json", "{\"key\": \"precious\"}\n")
        .mount_arg("--allow-other")
        .start();
    for dir in [it.mount_point(), it.mount_point().parent().expect("parent").to_owned()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).expect("chmod");
    }
    Some(it)
}

/// A Python process that has become `nobody`.
fn nobody(it: &Instance) -> Python {
    let mut p = it.python();
    p.run("import sqlite3, subprocess\nos.umask(0o022); os.setgroups([]); os.setgid(65534); os.setuid(65534)");
    p
}

#[test]
fn another_user_reads_nothing_that_is_private_by_any_name_or_age() {
    let Some(it) = for_everybody() else { return };
    it.sh("chmod 600 config.json; mkdir private; echo precious > private/notes.md; \
           chmod 700 private; echo precious > outbox.md; chmod 600 outbox.md; \
           echo precious > plain; chmod 600 plain; echo other > outbox.md");
    let (code, _) = it.actor().orphan("echo '{\"key\": \"precious, bad' > config.json");
    assert_ne!(code, 0);
    it.sh("echo '{\"key\": \"precious too\"}' > config.json; rm outbox.md");
    let mut p = nobody(&it);
    let walk = "
found = []
def walk(path):
    try: names = sorted(os.listdir(path))
    except OSError as e: return found.append((path, e.errno))
    for name in names + (['.instancefs'] if path == '.' else []):
        at = os.path.join(path, name)
        if os.path.isdir(at) and not os.path.islink(at): walk(at)
        else:
            try: text = open(at, 'rb').read()
            except OSError as e: found.append((at, e.errno)); continue
            if b'precious' in text: leaked.append(at)
leaked = []
walk('.')
";
    p.run(walk);
    assert_eq!(p.eval("leaked"), serde_json::json!([]), "read by another user");
    let denied = p.text("' '.join(n for n, e in found if e == errno.EACCES)");
    for name in ["./config.json", "./config.yaml", "./config.json.refused", "./plain", "./private"]
    {
        assert!(denied.split(' ').any(|d| d == name), "{name} in {denied}");
    }
    for name in ["config.json", "config.yaml", "outbox.md"] {
        let errno = p.errno(&format!("os.listdir('.instancefs/history/{name}')"));
        assert_eq!(errno, libc::EACCES, "{name}");
    }
    // By name, without a listing.
    let rev = it.sh("ls .instancefs/history/config.json | head -1");
    let at = format!(".instancefs/history/config.json/{}", rev.trim());
    assert_eq!(p.errno(&format!("open('{at}')")), libc::EACCES);
    // What may be read may be read in its older versions as well.
    p.run("open('missions.md').read(); open('.instancefs/README').read()");
    p.run("n = os.listdir('.instancefs/history/missions.md')[0]");
    p.run("open('.instancefs/history/missions.md/' + n).read()");
    // Its owner reads everything.
    assert!(it.sh(&format!("cat {at} .instancefs/status.json")).contains("precious"));
}

#[test]
fn another_user_changes_nothing_that_is_not_his() {
    let Some(it) = for_everybody() else { return };
    it.sh("mkdir tmp; chmod 1777 tmp; echo x > plain; echo hello > outbox.md");
    let (missions, rows) = (it.read("missions.md"), it.rows());
    let mut p = nobody(&it);
    for (call, errno) in [
        ("open('missions.md', 'a')", libc::EACCES),
        ("open('config.json', 'w')", libc::EACCES),
        ("open('outbox.md', 'a')", libc::EACCES),
        ("open('new.md', 'w')", libc::EACCES),
        ("os.chmod('missions.md', 0o777)", libc::EPERM),
        ("os.chown('missions.md', 65534, 65534)", libc::EPERM),
        ("os.utime('config.json', (0, 0))", libc::EPERM),
        ("os.truncate('config.json', 0)", libc::EACCES),
        ("os.unlink('missions.md')", libc::EACCES),
        ("os.rename('missions.md', 'tmp/m')", libc::EACCES),
        ("os.link('plain', 'tmp/plain')", libc::EPERM),
        ("os.setxattr('missions.md', 'user.instancefs.expect-sha256', b'0' * 64)", libc::EACCES),
        ("sqlite3.connect('missions.db').execute('delete from missions')", 0),
    ] {
        match p.attempt(call) {
            Ok(()) => panic!("{call} was done"),
            Err(e) if errno == 0 => assert_eq!(e.kind, "OperationalError", "{call}: {e:?}"),
            Err(e) => assert_eq!(e.errno, errno, "{call}: {e:?}"),
        }
    }
    p.run("open('tmp/x', 'w').write('{\"evil\": 1}')");
    for name in ["config.json", "missions.md", "outbox.md", "missions.db"] {
        let errno = p.errno(&format!("os.rename('tmp/x', '{name}')"));
        assert!([libc::EACCES, libc::EPERM].contains(&errno), "{name}: {errno}");
    }
    // A program of theirs with set-id bits stays theirs, and runs without them.
    p.run("open('tmp/suid', 'w').write('#!/bin/sh\\n'); os.chmod('tmp/suid', 0o6755)");
    p.run("s = os.stat('tmp/suid'); assert (s.st_uid, s.st_mode & 0o777) == (65534, 0o755), s");
    assert_eq!((it.read("missions.md"), it.rows()), (missions, rows));
    assert_eq!(it.read("outbox.md"), "hello\n");
    it.goes_on("nobody");
}

/// A document that is not there yet is made as any file is: it is its maker's, with the maker's umask.
#[test]
fn a_config_belongs_to_whoever_makes_it() {
    for make in [
        "open('config.yaml', 'w').write('a: 1\\n')",
        "open('t', 'w').write('a: 1\\n'); os.rename('t', 'config.yaml')",
    ] {
        if !is_root() {
            return;
        }
        let it = Instance::builder().mount_arg("--allow-other").start();
        for dir in [it.mount_point(), it.mount_point().parent().expect("parent").to_owned()] {
            std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).expect("chmod");
        }
        let mut p = nobody(&it);
        p.run("os.umask(0o077)");
        p.run(make);
        let theirs = "65534 65534 600\n".repeat(2);
        let shown = "stat -c '%u %g %a' config.yaml config.json";
        assert_eq!(it.sh(shown), theirs, "{make}");
        p.run("open('config.yaml', 'a').write('b: 2\\n')");
        // Root's saves leave it where it is, also over a new start.
        it.sh("echo 'c: 3' >> config.yaml");
        drop(p);
        it.remount();
        assert_eq!(it.sh(shown), theirs, "{make}");
        assert_eq!(it.read("config.yaml"), "a: 1\nb: 2\nc: 3\n");
    }
}

#[test]
fn set_id_bits_on_documents_run_as_nobody_else() {
    let Some(it) = for_everybody() else { return };
    it.sh("echo hello > outbox.md; cp /usr/bin/id id");
    for name in ["missions.md", "config.json", "outbox.md", "id"] {
        it.sh(&format!("chmod 6755 {name}"));
    }
    let mut p = nobody(&it);
    p.run("out = subprocess.run(['./id', '-u'], capture_output=True, text=True)");
    assert_eq!(p.text("out.stdout.strip()"), "65534");
    // A save by somebody else takes them away from a file, as on any file system.
    it.sh("chmod 6777 outbox.md");
    p.run("open('outbox.md', 'a').write('by nobody\\n')");
    assert_eq!(p.int("os.stat('outbox.md').st_mode & 0o6000"), 0);
}

#[test]
fn paths_that_turn_into_symlinks_lead_nowhere_out_of_the_store() {
    let it = instance();
    let outside = it.scratch("outside");
    std::fs::create_dir_all(outside.join("memory")).expect("mkdir");
    for name in ["secret", "memory/notes.md", "memory/plain"] {
        std::fs::write(outside.join(name), "precious\n").expect("write");
    }
    it.sh("mkdir -p memory real; echo mine > memory/notes.md; echo mine > memory/plain; \
           echo mine > outbox.md; echo mine > plain");
    // In the store and in the mount directories and files turn into links and back all the time.
    let racer = "
import os, sys, itertools
top, out = sys.argv[1:]
os.chdir(top)
def swap(name, target):
    try:
        os.symlink(target, name + '.link'); os.rename(name, name + '.away'); os.rename(name + '.link', name)
    except OSError: pass
    try:
        os.unlink(name); os.rename(name + '.away', name)
    except OSError: pass
end = __import__('time').time() + 4
while __import__('time').time() < end:
    swap('memory', out + '/memory')
    swap('plain', out + '/secret')
    swap('outbox.md', out + '/secret')
";
    let store = it.store();
    let (top, out) = (store.to_str().expect("path"), outside.to_str().expect("path"));
    let racer = it.outside().spawn("python3", &["-c", racer, top, out]);
    let user = "
import os, time, errno
leaked = []
end = time.time() + 3.5
seen = {}
def attempt(what, call):
    try: got = call()
    except OSError as e: seen[e.errno] = seen.get(e.errno, 0) + 1; return
    if got and 'precious' in got: leaked.append(what)
def write(name):
    with open(name, 'a') as f: f.write('intruder\\n')
def replace(name):
    open('t', 'w').write('intruder\\n'); os.rename('t', name)
def make(name):
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY); os.write(fd, b'x'); os.close(fd); os.unlink(name)
while time.time() < end:
    for name in ['memory/notes.md', 'memory/plain', 'plain', 'outbox.md']:
        attempt(name, lambda: write(name)); attempt(name, lambda: replace(name))
        attempt(name, lambda: os.chmod(name, 0o640, follow_symlinks=True) if not os.path.islink(name) else None)
    attempt('memory/new', lambda: make('memory/new'))
print(leaked, seen)
";
    it.actor().python(user, &[]).ok();
    let _ = racer;
    // Programs that follow a link themselves reach what it names; the daemon made nothing there.
    let names: Vec<_> = std::fs::read_dir(&outside)
        .expect("dir")
        .flatten()
        .map(|e| e.file_name().into_string().expect("name"))
        .filter(|n| n.contains("refused") || n.contains("instancefs") || n.contains("unsaved"))
        .collect();
    assert_eq!(names, Vec::<String>::new());
    it.goes_on("the race");
}

#[test]
fn the_daemon_follows_no_link_in_the_store_whatever_is_put_there() {
    let it = instance();
    let victim = it.scratch("victim");
    std::fs::write(&victim, "precious\n").expect("write");
    for name in ["missions.md", "config.json", "missions.lock", ".instancefs-log"] {
        let path = it.store().join(name);
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(&victim, &path).expect("symlink");
    }
    let new = it.scratch("made-by-the-daemon");
    for name in ["missions.md.refused", "config.json.refused", "instancefs.toml"] {
        std::os::unix::fs::symlink(&new, it.store().join(name)).expect("symlink");
    }
    it.actor().bash("echo '{bad' > config.json");
    let _ = it.actor().bash("echo '- one' >> missions.md");
    for i in 0..50 {
        it.actor().bash(&format!("echo '{{bad {i}' > config.json"));
    }
    let mount = it.mount_point();
    it.outside().instancefs(&["unmount".as_ref(), mount.as_os_str()]);
    assert_eq!(std::fs::read_to_string(&victim).expect("victim"), "precious\n");
    assert!(!new.exists(), "a file was made through a link");
    let at_start = it.try_mount();
    assert_eq!(std::fs::read_to_string(&victim).expect("victim"), "precious\n", "{at_start:?}");
    assert!(!new.exists(), "a file was made through a link");
}

#[test]
fn odd_names_are_files_like_others_and_reach_no_terminal() {
    let it = instance();
    let mut p = it.python();
    p.run("os.mkdir('memory')");
    p.run(
        "names = [b'new\\nline.md', b'esc\\x1b[31m\\x07.md', b'bad\\xff\\xfe.md', b'x' * 252 + b'.md', \
         b'...', b'..md', b' ', b'-rf', b'a\\\\b', b'\\xe2\\x80\\xae.md', b'\\xc2\\x9b31m.md']",
    );
    p.run(
        "for d in [b'', b'memory/']:\n  for n in names:\n    \
           f = os.open(d + n, os.O_CREAT | os.O_WRONLY); os.write(f, b'- x\\n'); os.close(f)\n    \
           f = os.open(d + n, os.O_WRONLY | os.O_APPEND); os.write(f, b'- y\\n'); os.close(f)\n    \
           os.rename(d + n, d + b'tmp'); os.rename(d + b'tmp', d + n)\n    \
           assert open(d + n, 'rb').read() == b'- x\\n- y\\n', n\n    \
           assert n in os.listdir(d or b'.'), n",
    );
    p.run("os.mkdir('events')");
    let refused = "f = os.open(b'events/e\\n\\x1b[31m.json', os.O_CREAT | os.O_WRONLY); \
                   os.write(f, b'not json'); os.close(f)";
    assert_eq!(p.errno(refused), libc::EIO);
    assert_eq!(p.errno("open(b'x' * 256, 'w')"), libc::ENAMETOOLONG);
    p.run("open('config.json', 'w').write('{\"k\\\\u001b[31m\\\\n\": \"v\\\\u001b\\\\u0007\"}')");
    p.run("open('missions.md', 'a').write('- esc \\x1b[31m bell \\x07 and \\u202e turn\\n')");
    // A program with such a name is refused.
    it.sh("cp $(readlink -f $(which python3)) $'prog\\e[31m'; true");
    it.actor().bash("printf 'import os\\nf=os.open(\"config.json\",os.O_WRONLY|os.O_TRUNC);os.write(f,b\"{bad\")' > s.py; ./$'prog\\e[31m' s.py; rm -f s.py");
    let store = it.store();
    let at = store.as_os_str();
    for command in ["status", "log", "missions", "doctor", "sessions"] {
        let args = match command {
            "log" => vec![std::ffi::OsStr::new("log"), "missions.md".as_ref(), "-C".as_ref(), at],
            "missions" | "sessions" => vec![command.as_ref(), "-C".as_ref(), at],
            _ => vec![command.as_ref(), at],
        };
        let ran = it.outside().instancefs(&args);
        for text in [&ran.stdout, &ran.stderr] {
            let raw = text.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
            assert_eq!(raw, None, "{command}: {text:?}");
        }
    }
    it.log();
    it.remount();
    assert!(it.read("missions.md").contains("- esc \x1b[31m bell"), "the text itself is verbatim");
}
