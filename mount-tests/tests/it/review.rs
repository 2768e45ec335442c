//! Sequences in which promises were once broken, as real programs run them.

use mount_tests::Instance;

const TWO: &str = "## Pending\n- one\n- two\n\n## Done\n";

/// A program that holds `missions.lock`, replaces all rows and exports them, without ever
/// having read the file. `$1`: how many seconds before the export.
const KOAN: &str = r"
import fcntl, os, sqlite3, sys, time
with open('missions.lock', 'a+') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    db = sqlite3.connect('missions.db', timeout=5, isolation_level=None)
    rows = db.execute('select text, state, sequence from missions order by sequence').fetchall()
    rows.append(('from koan', 'pending', 50))
    db.execute('begin immediate')
    db.execute('delete from missions')
    db.executemany('insert into missions (text, state, sequence) values (?, ?, ?)', rows)
    db.execute('commit')
    print('replaced', flush=True)
    time.sleep(float(sys.argv[1]))
    text = '# Missions\n\n'
    for state, name in [('pending', 'Pending'), ('in_progress', 'In Progress'), ('done', 'Done'), ('failed', 'Failed')]:
        text += '## ' + name + '\n' + ''.join('- ' + r[0] + '\n' for r in rows if r[1] == state) + '\n'
    with open('.tmp', 'w') as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.rename('.tmp', 'missions.md')
";

#[test]
fn an_export_under_the_lock_keeps_what_was_saved_meanwhile() {
    let it = Instance::with(&[("missions.md", TWO)]);
    let mut koan = it.actor().spawn_python(KOAN, &["2"]);
    koan.until("replaced");
    it.sh("sed -i 's/^- two$/- two, edited/' missions.md");
    it.append("missions.md", "- appended");
    koan.wait().ok();
    let mut texts = it.texts("pending");
    texts.sort();
    assert_eq!(texts, ["appended", "from koan", "one", "two, edited"]);
}

#[test]
fn a_section_removed_while_somebody_finishes_a_mission_keeps_that_mission_done() {
    let it = Instance::with(&[("missions.md", TWO)]);
    let mut p = it.python();
    p.run("text = open('missions.md').read()");
    it.edit("missions.md", "- two\n\n## Done\n", "\n## Done\n- two\n");
    p.run("with open('missions.md', 'w') as f: f.write(text[:text.index('## Done')])");
    assert_eq!(it.texts("pending"), ["one"]);
    assert_eq!(it.texts("done"), ["two"]);
    assert_eq!(it.kept(), [] as [&str; 0]);
}

#[test]
fn a_mission_queued_while_a_section_is_opened_above_it_stays_queued() {
    let it = Instance::with(&[("missions.md", TWO)]);
    let mut p = it.python();
    p.run("text = open('missions.md').read()");
    it.append("missions.md", "- queued");
    p.run(
        "with open('missions.md', 'w') as f: \
         f.write(text.replace('- two\\n', '\\n## In Progress\\n- two\\n'))",
    );
    assert_eq!(it.texts("pending"), ["one", "queued"]);
    assert_eq!(it.texts("in_progress"), ["two"]);
}

#[test]
fn a_reader_that_asks_twice_for_the_end_gets_one_version() {
    let it = Instance::with(&[("config.json", "{\"a\": 1, \"b\": 2}\n")]);
    let mut p = it.python();
    // The save comes from the same process, so that it is between the two in no time.
    p.run(
        "fd = os.open('config.yaml', os.O_RDONLY)\n\
         read = os.read(fd, 8192) + os.read(fd, 8192)\n\
         with open('config.json', 'w') as f: f.write('{\"long\": \"key\", \"a\": 1, \"b\": 2}')\n\
         read += os.read(fd, 8192)",
    );
    assert_eq!(p.text("read.decode()"), "a: 1\nb: 2\n");
    p.run("os.lseek(fd, 0, 0)");
    assert_eq!(p.text("os.read(fd, 8192).decode()"), "long: key\na: 1\nb: 2\n");
}

#[test]
fn appended_comments_and_missions_keep_their_order() {
    let it = Instance::with(&[("missions.md", TWO)]);
    for line in ["# group a", "- a1", "- a2", "# group b", "- b1"] {
        it.append("missions.md", line);
    }
    assert_eq!(
        it.read("missions.md"),
        TWO.replace("- two\n", "- two\n# group a\n- a1\n- a2\n# group b\n- b1\n")
    );
}

#[test]
fn a_small_float_is_a_float_in_the_yaml_view() {
    let it = Instance::with(&[("config.json", "{\"rate\": 1e-05}\n")]);
    assert_eq!(it.read("config.yaml"), "rate: 1.0e-05\n");
    it.append("config.yaml", "more: 1");
    assert!(it.read("config.json").contains("1e-05"), "the spelling in the source stays");
}
