//! R1: a read is one version.

use mount_tests::{Instance, eventually, samples};

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.json", samples::CONFIG_JSON)])
}

#[test]
fn a_handle_keeps_its_version_to_the_end_of_file_and_then_moves_on() {
    let it = instance();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_RDONLY)\nhead = os.read(fd, 20)");
    it.append("missions.md", "- came later");
    p.run("tail = b''\nwhile True:\n  b = os.read(fd, 50)\n  if not b: break\n  tail += b");
    assert_eq!(p.text("(head + tail).decode()"), samples::MISSIONS, "one version to its end");
    p.run("os.lseek(fd, 0, 0)");
    let next = p.text("os.read(fd, 100000).decode()");
    assert!(next.contains("- came later\n"), "after end of file the current version: {next}");
}

#[test]
fn the_version_is_taken_at_the_first_read_not_at_open() {
    let it = instance();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_RDONLY)");
    it.append("missions.md", "- between open and read");
    assert!(p.text("os.read(fd, 100000).decode()").contains("- between open and read\n"));
}

#[test]
fn a_stat_after_open_pins_the_size_that_was_told() {
    let it = instance();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_RDONLY)\nsize = os.fstat(fd).st_size");
    it.append("missions.md", "- after the stat");
    assert_eq!(p.text("os.read(fd, 100000).decode()"), samples::MISSIONS);
    assert_eq!(p.int("size"), samples::MISSIONS.len() as i64);
}

#[test]
fn size_is_exact_and_mtime_moves_with_the_content_only() {
    let it = instance();
    let stat = || {
        let told = it.sh("stat -c '%s %y' missions.md");
        let (size, mtime) = told.trim().split_once(' ').expect("two fields");
        (size.parse::<usize>().expect("size"), mtime.to_owned())
    };
    let before = stat();
    assert_eq!(before.0, samples::MISSIONS.len());
    it.sh("cat missions.md >/dev/null; touch -a missions.md; sed -n p missions.md > missions.md");
    assert_eq!(stat(), before, "reading, and saving what is there, is no new version");
    let mut last = before;
    for i in 0..5 {
        it.append("missions.md", &format!("- more {i}"));
        let now = stat();
        assert_eq!(now.0, it.read("missions.md").len(), "size is that of the text");
        assert!(now.1 > last.1, "every version has a later mtime: {now:?} after {last:?}");
        last = now;
    }
}

#[test]
fn an_explicit_utimens_is_honoured_until_the_next_version() {
    let it = instance();
    it.sh("touch -m -d '2020-02-03 04:05:06 UTC' missions.md");
    assert_eq!(it.sh("stat -c %Y missions.md").trim(), "1580702706");
    it.append("missions.md", "- newer");
    assert_ne!(it.sh("stat -c %Y missions.md").trim(), "1580702706");
}

#[test]
fn inode_numbers_are_stable_over_saves_waiting_and_remounts() {
    let it = instance();
    let numbers = || it.sh("stat -c %i missions.md config.json .");
    let before = numbers();
    it.append("missions.md", "- one");
    it.edit("missions.md", "first task", "first task, edited");
    assert_eq!(numbers(), before, "over saves");
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(numbers(), before, "over waiting");
    it.remount();
    assert_eq!(numbers(), before, "over a remount");
    let mut listed: Vec<&str> = before.lines().collect();
    listed.dedup();
    assert_eq!(listed.len(), 3, "three files, three numbers");
}

#[test]
fn listing_and_stat_agree_about_inode_numbers() {
    let it = instance();
    it.sh("echo x > plain.txt; mkdir dir");
    for name in ["missions.md", "config.json", "plain.txt", "dir"] {
        let stat = it.sh(&format!("stat -c %i {name}"));
        let listed = it.actor().python(
            "import os,sys\nprint([e.inode() for e in os.scandir('.') if e.name == sys.argv[1]][0])",
            &[name],
        );
        assert_eq!(listed.ok(), stat, "{name}");
    }
}

#[test]
fn after_a_rename_onto_the_name_the_document_has_the_renamed_files_number() {
    let it = instance();
    let told = it.sh("sed 's/first task/first task!/' missions.md > t.tmp; stat -c %i t.tmp; \
         mv t.tmp missions.md; stat -c %i missions.md; ls -i missions.md | awk '{print $1}'");
    let numbers: Vec<&str> = told.lines().collect();
    assert_eq!(numbers[0], numbers[1], "stat");
    assert_eq!(numbers[0], numbers[2], "ls -i");
    it.remount();
    assert_eq!(it.sh("stat -c %i missions.md").trim(), numbers[0], "after a remount");
}

#[test]
fn a_writer_is_told_the_size_of_its_own_buffer_and_reads_its_own_text() {
    let it = instance();
    let mut p = it.python();
    p.run("f = open('config.json', 'w+')\nf.write('{\"a\": 1}')\nos.pwrite(f.fileno(), b'', 0)");
    p.run("os.write(f.fileno(), b'{\"bb\": 22}\\n')");
    assert_eq!(p.int("os.fstat(f.fileno()).st_size"), 11);
    assert_eq!(p.text("os.pread(f.fileno(), 100, 0)"), "{\"bb\": 22}\n");
    assert_eq!(it.read("config.json"), samples::CONFIG_JSON, "nobody else sees it");
    assert_eq!(
        it.sh("stat -c %s config.json").trim(),
        samples::CONFIG_JSON.len().to_string(),
        "nor its size"
    );
}

#[test]
fn the_same_version_gives_the_same_bytes() {
    let it = instance();
    it.append("missions.md", "- x");
    let once = it.bytes("missions.md");
    assert_eq!(it.bytes("missions.md"), once);
    it.remount();
    assert_eq!(it.bytes("missions.md"), once);
    assert_eq!(
        it.sh("dd if=missions.md bs=7 status=none | cksum"),
        it.sh("cksum < missions.md"),
        "read in small pieces"
    );
}

#[test]
fn tail_f_follows() {
    let it = instance();
    let mut tail = it.actor().spawn("tail", &["-n", "1", "-f", "missions.md"]);
    tail.until("1. neither");
    for i in 0..3 {
        // The text grows at its end when the last section is written to.
        it.sh(&format!(
            "{{ cat missions.md; echo 'note {i}'; }} > $SCRATCH/new; cp $SCRATCH/new missions.md"
        ));
        tail.until(&format!("note {i}\n"));
    }
}

#[test]
fn tail_f_shows_an_appended_mission() {
    let it = Instance::with(&[("missions.md", "## Done\n\n## Pending\n- first\n")]);
    let mut tail = it.actor().spawn("tail", &["-f", "missions.md"]);
    tail.until("- first");
    for i in 0..5 {
        it.append("missions.md", &format!("- followed {i}"));
        tail.until(&format!("- followed {i}"));
    }
}

#[test]
fn a_mapping_shows_the_text() {
    let it = instance();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_RDONLY)\nm = mmap.mmap(fd, 0, prot=mmap.PROT_READ)");
    assert_eq!(p.text("m[:].decode()"), samples::MISSIONS);
}

#[test]
fn sparse_seeks_see_one_piece_of_data() {
    let it = instance();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_RDONLY)");
    assert_eq!(p.int("os.lseek(fd, 0, os.SEEK_HOLE)"), samples::MISSIONS.len() as i64);
    assert_eq!(p.int("os.lseek(fd, 5, os.SEEK_DATA)"), 5);
    assert_eq!(p.int("os.lseek(fd, 0, os.SEEK_END)"), samples::MISSIONS.len() as i64);
}

const COUNTER: &str = r#"
import fcntl, json, os, sys
kind, rounds = sys.argv[1], int(sys.argv[2])
for _ in range(rounds):
    with open('config.json', 'r+') as f:
        if kind == 'flock': fcntl.flock(f, fcntl.LOCK_EX)
        else: fcntl.lockf(f, fcntl.LOCK_EX)
        data = json.load(f)
        data['counter'] += 1
        f.seek(0); f.truncate(); json.dump(data, f, indent=2); f.flush()
        if kind == 'flock': fcntl.flock(f, fcntl.LOCK_UN)
        else: fcntl.lockf(f, fcntl.LOCK_UN)
"#;

fn four_times_fifty(kind: &str) {
    let it = Instance::with(&[("config.json", "{\"counter\": 0}\n")]);
    let all: Vec<_> = (0..4).map(|_| it.actor().spawn_python(COUNTER, &[kind, "50"])).collect();
    for one in all {
        one.wait().ok();
    }
    assert_eq!(it.sh("jq .counter config.json").trim(), "200");
}

#[test]
fn read_modify_write_under_flock_counts_to_200() {
    four_times_fifty("flock");
}

#[test]
fn read_modify_write_under_fcntl_locks_counts_to_200() {
    four_times_fifty("lockf");
}

#[test]
fn read_modify_write_under_the_shells_flock_counts_to_200() {
    let it = Instance::with(&[("config.json", "{\"counter\": 0}\n")]);
    let script = "for i in $(seq 50); do (flock 9; n=$(jq .counter config.json); \
                  jq \".counter=$((n+1))\" config.json > $SCRATCH/t$$ && cat $SCRATCH/t$$ > config.json) \
                  9< config.json || exit 1; done";
    let all: Vec<_> = (0..4).map(|_| it.actor().spawn_bash(script)).collect();
    for one in all {
        one.wait().ok();
    }
    assert_eq!(it.sh("jq .counter config.json").trim(), "200");
}

#[test]
fn a_read_under_a_lock_sees_what_was_written_under_a_lock_and_is_not_closed_yet() {
    let it = Instance::with(&[("config.json", "{\"counter\": 0}\n")]);
    let (mut a, mut b) = (it.python(), it.python());
    a.run("f = open('config.json', 'r+b', buffering=0)\nfcntl.flock(f, fcntl.LOCK_EX)\nf.read()");
    a.run(
        "f.seek(0); f.truncate(); f.write(b'{\"counter\": 7}\\n')\nfcntl.flock(f, fcntl.LOCK_UN)",
    );
    b.run("g = open('config.json', 'rb', buffering=0)\nfcntl.flock(g, fcntl.LOCK_EX)");
    assert_eq!(b.text("g.read()"), "{\"counter\": 7}\n");
}

#[test]
fn open_handles_and_locks_stay_with_the_document_over_a_rename_onto_it() {
    let it = Instance::with(&[("config.json", "{\"a\": 1}\n")]);
    let mut p = it.python();
    p.run("f = open('config.json', 'rb', buffering=0)\nfcntl.flock(f, fcntl.LOCK_EX)");
    it.sh("echo '{\"a\": 2}' > t; mv t config.json");
    assert_eq!(p.text("f.read()"), "{\"a\": 2}\n", "an old handle reads the document");
    it.actor().run("flock", &["-n", "config.json", "true"]).failed();
    p.run("f.close()");
    eventually("the lock is free", || {
        it.actor().run("flock", &["-n", "config.json", "true"]).code().filter(|c| *c == 0)
    });
}

#[test]
fn no_request_hangs_when_a_program_execs_with_a_document_open() {
    let it = instance();
    it.actor()
        .node(
            "const fs = require('fs'), cp = require('child_process');\
             for (let i = 0; i < 20; i++) {\
               const fd = fs.openSync('config.json', 'r+');\
               fs.readFileSync(fd);\
               const r = cp.spawnSync('/bin/true', [], {stdio: ['ignore', fd, 'ignore']});\
               if (r.status !== 0) throw new Error('status ' + r.status);\
               fs.closeSync(fd);\
             }",
            &[],
        )
        .ok();
    it.actor()
        .python(
            "import os, subprocess\n\
             for i in range(20):\n\
             \x20 f = open('missions.md', 'r+'); f.read(); os.set_inheritable(f.fileno(), True)\n\
             \x20 g = open('config.json', 'a'); os.set_inheritable(g.fileno(), True)\n\
             \x20 subprocess.run(['/bin/true'], close_fds=False, check=True)\n\
             \x20 f.close(); g.close()\n",
            &[],
        )
        .ok();
    it.actor()
        .python(
            "import os, subprocess\n\
             f = open('config.json', 'r+'); t = f.read(); f.seek(0); f.write(t.replace('koi', 'kio')); f.flush()\n\
             subprocess.run(['/bin/cat', 'missions.md'], close_fds=True, check=True, stdout=subprocess.DEVNULL)\n\
             subprocess.run(['/bin/true'], close_fds=False, check=True)\n\
             f.truncate(); f.close()\n",
            &[],
        )
        .ok();
    assert!(it.read("config.json").contains("kio"));
}
