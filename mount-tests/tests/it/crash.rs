//! R8: committed means it survives the daemon.

use std::time::Duration;

use mount_tests::{Instance, samples};

/// Saves in several ways and notes, outside the mount, every save that was acknowledged.
const WRITER: &str = r#"
import json, os, sys, tempfile
who, log = sys.argv[1], open(sys.argv[2], 'a')
def note(line): log.write(line + '\n'); log.flush()
i = 0
while True:
    line = f'w{who} n{i}.'
    tried.write(line + '\n') if False else None
    try:
        style = i % 4
        if style == 0:
            fd = os.open('missions.md', os.O_WRONLY|os.O_APPEND)
            os.write(fd, f'- {line}\n'.encode()); os.close(fd)
        elif style == 1:
            t = open('missions.md').read()
            f = open('missions.md', 'w'); f.write(t.replace('## Pending\n', f'## Pending\n- {line}\n', 1)); f.close()
        elif style == 2:
            t = open('missions.md').read()
            tmp = f'.tmp-{who}'
            f = open(tmp, 'w'); f.write(t.replace('## Pending\n', f'## Pending\n- {line}\n', 1)); f.close()
            os.rename(tmp, 'missions.md')
        else:
            d = json.load(open('config.json')); d[line] = i
            f = open('config.json', 'w'); json.dump(d, f); f.close()
            note('k ' + line); i += 1; continue
    except (OSError, ValueError) as e:
        print('stopped', e, flush=True)
        break
    note('m ' + line); i += 1
"#;

fn kill_amid_writers(rounds: u32) {
    let it = Instance::builder()
        .file("missions.md", "# M\n\n## Pending\n\n## Done\n")
        .file("config.json", "{}\n")
        .watchdog(Duration::from_secs(150))
        .start();
    let program = WRITER.replace("    tried.write(line + '\\n') if False else None\n", "");
    for round in 0..rounds {
        let all: Vec<_> = (0..8)
            .map(|w| {
                let who = format!("{round}{w}");
                let log = it.scratch(&format!("log{who}"));
                it.actor().spawn_python(&program, &[&who, log.to_str().expect("path")])
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1500));
        it.kill_daemon();
        for one in all {
            one.wait();
        }
        assert!(it.mounted(), "the dead mount is still there");
        it.mount();
        let text = it.read("missions.md");
        let config: serde_json::Value =
            serde_json::from_str(&it.read("config.json")).expect("json");
        let rows = it.rows();
        let mut acknowledged = 0;
        for r in 0..=round {
            for w in 0..8 {
                let log =
                    std::fs::read_to_string(it.scratch(&format!("log{r}{w}"))).unwrap_or_default();
                for line in log.lines() {
                    acknowledged += 1;
                    let (kind, what) = line.split_once(' ').expect("log line");
                    if kind == "m" {
                        let n = rows.iter().filter(|(text, _)| text == what).count();
                        assert_eq!(n, 1, "{what} in the rows");
                        let n = text.lines().filter(|l| l.trim_start_matches("- ") == what).count();
                        assert_eq!(n, 1, "{what} in the text");
                    } else {
                        assert!(config.get(what).is_some(), "{what} in the config");
                    }
                }
            }
        }
        assert!(acknowledged > 20, "only {acknowledged} saves: nothing was tested");
        for (text, _) in &rows {
            assert!(text.starts_with('w') && text.ends_with('.'), "half a save: {text:?}");
        }
        let ok: String =
            it.database().query_row("pragma integrity_check", [], |r| r.get(0)).expect("check");
        assert_eq!(ok, "ok");
    }
}

#[test]
fn kill_9_amid_eight_writers_loses_no_acknowledged_save() {
    kill_amid_writers(3);
}

#[test]
fn an_acknowledged_save_survives_a_kill_right_after() {
    let it = Instance::with(&[
        ("missions.md", samples::MISSIONS),
        ("config.yaml", samples::CONFIG_YAML),
    ]);
    for i in 0..5 {
        it.append("missions.md", &format!("- append {i}"));
        it.edit("config.yaml", "interval: ", &format!("k{i}: 1\ninterval: "));
        let (missions, config) = (it.bytes("missions.md"), it.bytes("config.yaml"));
        it.kill_daemon();
        it.mount();
        assert_eq!(it.bytes("missions.md"), missions);
        assert_eq!(it.bytes("config.yaml"), config);
    }
}

#[test]
fn mount_cleans_up_a_dead_mount_point() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.kill_daemon();
    let dead = std::fs::metadata(it.mount_point());
    assert_eq!(dead.err().and_then(|e| e.raw_os_error()), Some(libc::ENOTCONN));
    it.mount();
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let at = format!(" {} ", it.mount_point().display());
    assert_eq!(table.lines().filter(|l| l.contains(&at)).count(), 1, "one mount, not two");
}

#[test]
fn mount_right_after_a_kill_waits_for_the_dying_daemon() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    for i in 0..10 {
        it.append("missions.md", &format!("- before kill {i}"));
        it.shoot_daemon();
        it.mount();
        assert_eq!(it.count(&format!("before kill {i}")), 1);
    }
}

#[test]
fn a_save_cut_off_by_a_kill_is_wholly_absent() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut p = it.python();
    p.run(
        "fd = os.open('missions.md', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'## Pending\\n- half')",
    );
    it.kill_daemon();
    assert_ne!(p.errno("os.fsync(fd)"), 0);
    it.mount();
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
}

#[test]
fn files_of_a_dead_mount_do_not_keep_later_saves_open() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut p = it.outside().python_steps();
    let path = it.path("missions.md");
    p.run(&format!("path = {path:?}\nold = os.open(path, os.O_RDWR)"));
    it.kill_daemon();
    it.mount();
    for _ in 0..2 {
        p.run("fd = os.open(path, os.O_RDWR)\nos.write(fd, b'  ')\nos.ftruncate(fd, 2)");
        assert_eq!(p.errno("os.close(fd)"), libc::EIO, "an empty text");
        // Also when the daemon has been at work for some time.
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
}

#[test]
fn the_store_opens_by_itself_after_a_crash_with_a_torn_log() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.append("missions.md", "- whole");
    it.kill_daemon();
    // What a power cut can leave behind: bytes that are no frame at the end of the log.
    let wal = it.store().join("missions.db-wal");
    if wal.exists() {
        let mut file = std::fs::File::options().append(true).open(&wal).expect("wal");
        std::io::Write::write_all(&mut file, &[0xa5; 3000]).expect("write");
    }
    it.mount();
    assert_eq!(it.count("whole"), 1);
}

#[test]
fn fsync_of_a_save_and_of_the_directory_succeed() {
    let it = Instance::with(&[("config.json", "{\"a\": 1}\n")]);
    it.actor()
        .python(
            "import os\nt=open('config.json').read()\nf=open('t','w'); f.write(t.replace('1','2')); f.flush(); os.fsync(f.fileno()); f.close()\n\
             os.rename('t','config.json'); d=os.open('.',os.O_RDONLY); os.fsync(d); os.close(d)\n\
             f=open('config.json','r+'); f.read(); f.write(' '); f.flush(); os.fdatasync(f.fileno()); f.close()",
            &[],
        )
        .ok();
    assert_eq!(it.read("config.json"), "{\"a\": 2}\n ");
}
