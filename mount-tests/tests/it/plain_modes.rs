//! R10 with kernel passthrough and without, and `--strict`: what programs do with plain files,
//! and what others do to the store behind the mount.

use std::fs;
use std::os::unix::fs::FileExt;

use mount_tests::{Instance, eventually};

const MODES: [&[&str]; 4] =
    [&[], &["--no-passthrough"], &["--strict"], &["--strict", "--no-passthrough"]];

fn each(modes: &[&[&str]], test: impl Fn(&Instance, &str)) {
    for mode in modes {
        let it = mode.iter().fold(Instance::builder(), |b, arg| b.mount_arg(arg)).start();
        test(&it, &mode.join(" "));
    }
}

#[test]
fn strict_shows_at_once_what_others_do_to_the_store() {
    each(&MODES[2..], |it, mode| {
        it.sh("mkdir d");
        let (real, ours) = (it.store().join("d"), it.path("d"));
        fs::write(real.join("open"), "0000").expect("store");
        let open = fs::File::open(ours.join("open")).expect("mount");
        for round in 0..50 {
            let text = format!("{round:04}");
            for name in ["f", "open"] {
                fs::write(real.join(name), &text).expect("store");
                assert_eq!(fs::read_to_string(ours.join(name)).expect("mount"), text, "{mode}");
            }
            let mut bytes = [0; 4];
            open.read_exact_at(&mut bytes, 0).expect("mount");
            assert_eq!(bytes, text.as_bytes(), "through an open file; {mode}");
            fs::write(real.join("f"), format!("{text}, longer")).expect("store");
            assert_eq!(fs::metadata(ours.join("f")).expect("mount").len(), 12, "{mode}");
            fs::rename(real.join("f"), real.join("g")).expect("store");
            assert!(!ours.join("f").exists() && ours.join("g").exists(), "{mode}");
            let names = fs::read_dir(&ours).expect("mount").count();
            assert_eq!(names, 2, "{mode}");
        }
    });
}

#[test]
fn others_changes_arrive() {
    each(&MODES[..2], |it, mode| {
        it.sh("mkdir d; echo one > d/f; cat d/f");
        let real = it.store().join("d/f");
        for text in ["two\n", "six\n", "longer\n"] {
            fs::write(&real, text).expect("store");
            eventually(mode, || (it.read("d/f") == text).then_some(()));
        }
        fs::remove_file(&real).expect("store");
        eventually(mode, || (!it.path("d/f").exists()).then_some(()));
    });
}

/// `stat` of a mode alone: the kernel forgets size and times at a write, but no mode.
#[test]
fn setuid_goes_and_shows_so_at_once() {
    let test = r#"
        import os, sys
        def mode(): return oct(os.stat("s").st_mode & 0o7777)
        def shown():
            import subprocess
            return subprocess.run(["stat", "-c", "%a", "s"], capture_output=True, text=True).stdout
        os.close(os.open("s", os.O_CREAT | os.O_WRONLY))
        os.chown("s", 65534, 65534)
        for bits in (0o6755, 0o4755, 0o2755):
            os.chmod("s", bits); shown()
            if os.fork() == 0:
                os.setresgid(65534, 65534, 65534); os.setgroups([])
                os.setresuid(65534, 65534, 65534)
                fd = os.open("s", os.O_WRONLY); os.write(fd, b"x"); print(shown(), end="", flush=True)
                os._exit(0)
            os.wait()
            os.chmod("s", bits); shown(); os.chown("s", -1, -1); print(shown(), end="", flush=True)
    "#;
    if !mount_tests::is_root() {
        return;
    }
    const OTHERS: [&[&str]; 3] = [
        &["--allow-other"],
        &["--allow-other", "--no-passthrough"],
        &["--allow-other", "--strict"],
    ];
    each(&OTHERS, |it, mode| {
        let it_is = it.sh(&format!("mkdir -m 777 d; cd d; python3 - <<'E'\n{}\nE", undented(test)));
        assert_eq!(it_is, "755\n".repeat(6), "{mode}");
    });
}

/// Without the indentation of its first line.
fn undented(script: &str) -> String {
    let lines = script.trim_start_matches('\n').lines();
    lines.map(|l| l.strip_prefix("        ").unwrap_or(l)).collect::<Vec<_>>().join("\n")
}

#[test]
fn times_before_1970_to_the_nanosecond() {
    each(&MODES[..2], |it, mode| {
        for (seconds, nanos) in [(-1, 999_999_995), (-2, 500_000_000), (-7, 0), (7, 1)] {
            it.sh(&format!(
                "touch -d @{seconds}.0 f; python3 -c 'import os; os.utime(\"f\", ns=({0}, {0}))'",
                i64::from(seconds) * 1_000_000_000 + i64::from(nanos)
            ));
            for at in [it.path("f"), it.store().join("f")] {
                use std::os::unix::fs::MetadataExt;
                let st = fs::metadata(&at).expect("stat");
                let (s, n) = (i64::from(seconds), i64::from(nanos));
                assert_eq!((st.mtime(), st.mtime_nsec()), (s, n), "{mode}: {}", at.display());
                assert_eq!((st.atime(), st.atime_nsec()), (s, n), "{mode}: {}", at.display());
            }
        }
    });
}

#[test]
fn git_clone_checkout_gc_and_status() {
    each(&MODES[..3], |it, _| {
        it.sh(r#"
            set -e
            mkdir src; cd src; git init -q -b main .
            for i in $(seq 120); do mkdir -p d$((i % 7)); seq $i $((i * 9)) > d$((i % 7))/f$i; done
            git add -A; git commit -qm one
            git checkout -qb other; git mv d1 e1; for f in d2/*; do echo more >> $f; done
            git commit -qam two; git checkout -q main; test -z "$(git status --porcelain)"
            git clone -q . ../copy; cd ../copy; git checkout -q other; git checkout -q main
            git merge -q other; git gc -q --aggressive --prune=now; git fsck --strict --full
            test -z "$(git status --porcelain)"; git reset -q --hard HEAD~1
            git stash list | wc -l | grep -qx 0; git log --oneline | wc -l | grep -qx 1
            git worktree add -q ../tree other; cd ../tree; test -z "$(git status --porcelain)"
        "#);
    });
}

#[test]
fn sqlite_in_wal_mode_with_four_writers() {
    let writer = r#"
import sqlite3, sys
db = sqlite3.connect('own.db', timeout=60)
for i in range(60):
    with db:
        db.execute('insert into t values (?, ?)', (sys.argv[1], i))
        n, = db.execute('select count(*) from t where who = ?', (sys.argv[1],)).fetchone()
        assert n == i + 1, (n, i)
"#;
    each(&MODES, |it, mode| {
        it.sh("sqlite3 own.db 'pragma journal_mode=wal; create table t(who, n);' > /dev/null");
        let all: Vec<_> =
            (0..4).map(|who| it.actor().spawn_python(writer, &[&who.to_string()])).collect();
        for one in all {
            one.wait().ok();
        }
        let out = it.sh("sqlite3 own.db 'select count(*), count(distinct who) from t; \
             pragma integrity_check; pragma journal_mode'");
        assert_eq!(out, "240|4\nok\nwal\n", "{mode}");
    });
}

#[test]
fn as_many_links_as_the_store_allows() {
    /// More than ext4 allows (65,000).
    const MANY: usize = 65_100;
    let it = Instance::fresh();
    it.sh("mkdir d; echo x > d/f");
    let dir = it.store().join("d");
    let refused = (0..MANY).find_map(|i| {
        fs::hard_link(dir.join("f"), dir.join(i.to_string())).err().map(|e| e.raw_os_error())
    });
    // On a file system without a limit there is nothing to compare.
    let Some(errno) = refused else { return };
    let ours = fs::hard_link(it.path("d/f"), it.path("d/one-more")).expect_err("a link");
    assert_eq!(ours.raw_os_error(), errno);
}
