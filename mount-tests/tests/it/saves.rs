//! R2 and section 5: when a save is complete, and what it returns.

use mount_tests::{Instance, eventually, samples};

const A: &str = "{\"a\": 1}\n";

fn config() -> Instance {
    Instance::with(&[("config.json", A), ("missions.md", samples::MISSIONS)])
}

fn nothing_kept(it: &Instance) {
    assert_eq!(it.kept(), Vec::<String>::new());
}

// ---- R2 ----

#[test]
fn a_command_may_read_what_it_overwrites() {
    let it = config();
    it.sh("jq '.a=2' config.json > config.json");
    assert_eq!(it.sh("jq -c . config.json").trim(), "{\"a\":2}");
    it.sh("sort missions.md > missions.md || exit 1; test -s missions.md");
    nothing_kept(&it);
}

#[test]
fn sort_onto_its_own_input_keeps_every_line() {
    let it = Instance::with(&[("missions.md", "## Pending\n- b\n- a\n- c\n")]);
    it.sh("sort missions.md > missions.md");
    let mut lines: Vec<String> = it.read("missions.md").lines().map(str::to_owned).collect();
    lines.sort();
    let text = it.read("missions.md");
    for line in ["## Pending", "- a", "- b", "- c"] {
        assert_eq!(lines.iter().filter(|l| *l == line).count(), 1, "{line} in:\n{text}");
    }
    assert_eq!(it.rows().len(), 3);
}

#[test]
fn an_uncommitted_save_is_seen_by_nobody_else() {
    let it = config();
    let mut p = it.python();
    p.run("f = open('config.json', 'w')\nf.write('{\"a\": 5')\nf.flush()");
    assert_eq!(it.read("config.json"), A);
    p.run("f.write('5}\\n')\nf.close()");
    assert_eq!(it.read("config.json"), "{\"a\": 55}\n");
}

#[test]
fn after_close_the_next_open_by_anyone_sees_the_save() {
    let it = config();
    let mut p = it.python();
    for i in 0..100 {
        p.run(&format!("open('config.json', 'w').write('{{\"a\": {i}}}\\n')"));
        assert_eq!(p.text("open('config.json').read()"), format!("{{\"a\": {i}}}\n"));
        assert_eq!(it.bytes("config.json"), format!("{{\"a\": {i}}}\n").as_bytes());
    }
}

// ---- rule 1 ----

#[test]
fn rule_1_edits_in_place_with_truncation_before_or_after() {
    let it = config();
    let edit = |code: &str, want: &str| {
        it.actor().python(code, &[]).ok();
        assert_eq!(it.read("config.json"), want, "{code}");
    };
    edit(
        "f=open('config.json','r+'); f.read(); f.seek(0); f.truncate(); f.write('{\"b\": 2}\\n'); f.close()",
        "{\"b\": 2}\n",
    );
    edit(
        "f=open('config.json','r+'); f.read(); f.seek(0); f.write('{}\\n'); f.truncate(); f.close()",
        "{}\n",
    );
    edit(
        "import os\nfd=os.open('config.json',os.O_RDWR); os.read(fd,99); os.ftruncate(fd,0); os.pwrite(fd,b'{\"c\": 3}\\n',0); os.close(fd)",
        "{\"c\": 3}\n",
    );
    edit(
        "import os\nopen('config.json').read(); fd=os.open('config.json',os.O_WRONLY|os.O_TRUNC); os.write(fd,b'{\"d\"'); os.write(fd,b': 4}\\n'); os.close(fd)",
        "{\"d\": 4}\n",
    );
    nothing_kept(&it);
}

#[test]
fn rule_1_truncate_by_path_then_write_through_an_open_handle() {
    let it = config();
    it.actor()
        .node(
            "const fs=require('fs'); const t=fs.readFileSync('config.json','utf8');\
             const fd=fs.openSync('config.json','r+'); fs.ftruncateSync(fd,0);\
             fs.writeSync(fd, '{\"a\": 9}\\n', 0); fs.closeSync(fd);",
            &[],
        )
        .ok();
    assert_eq!(it.read("config.json"), "{\"a\": 9}\n");
    nothing_kept(&it);
}

#[test]
fn rule_1_dd_without_truncation_edits_bytes_in_place() {
    let it = config();
    it.sh("cat config.json; printf 7 | dd of=config.json bs=1 seek=6 conv=notrunc status=none");
    assert_eq!(it.read("config.json"), "{\"a\": 7}\n");
    nothing_kept(&it);
}

// ---- rule 2 ----

#[test]
fn rule_2_the_flush_right_after_the_shells_open_commits_nothing() {
    let it = config();
    it.sh("echo '{\"a\": 3}' > $SCRATCH/new; cat $SCRATCH/new > config.json");
    assert_eq!(it.read("config.json"), "{\"a\": 3}\n");
    it.sh("echo '{\"a\": 4}' > config.json");
    assert_eq!(it.read("config.json"), "{\"a\": 4}\n");
    it.sh("cat > config.json <<E\n{\"a\": 5}\nE");
    assert_eq!(it.read("config.json"), "{\"a\": 5}\n");
    nothing_kept(&it);
}

// ---- rule 3 ----

#[test]
fn rule_3_a_group_of_commands_is_one_save() {
    let it = config();
    it.sh("echo '{\"x\":' > $SCRATCH/a; echo '1}' > $SCRATCH/b; \
           { /bin/cat $SCRATCH/a; /bin/cat $SCRATCH/b; } > config.json");
    assert_eq!(it.sh("jq -c .x config.json").trim(), "1");
    nothing_kept(&it);
}

#[test]
fn rule_3_builtin_lines_to_a_descriptor_are_one_save() {
    let it = config();
    it.sh("exec 3> config.json; echo '{' >&3; echo '\"y\": 2' >&3; echo '}' >&3; exec 3>&-");
    assert_eq!(it.sh("jq -c '[.a,.y]' config.json").trim(), "[1,2]");
    nothing_kept(&it);
}

#[test]
fn rule_3_a_fork_that_closes_what_it_inherited_commits_nothing() {
    let it = config();
    it.actor()
        .python(
            "import os, subprocess\n\
             f = open('config.json', 'w'); f.write('{\"z\": '); f.flush()\n\
             os.set_inheritable(f.fileno(), True)\n\
             subprocess.run(['/bin/true'], check=True)\n\
             subprocess.run(['/bin/true'], check=True, close_fds=False)\n\
             pid = os.fork()\n\
             if pid == 0: os.close(f.fileno()); os._exit(0)\n\
             os.waitpid(pid, 0)\n\
             f.write('3}\\n'); f.close()\n",
            &[],
        )
        .ok();
    assert_eq!(it.sh("jq -c .z config.json").trim(), "3");
    nothing_kept(&it);
}

#[test]
fn rule_3_a_child_that_outlives_the_opener_completes_the_save() {
    let it = config();
    it.sh("( { echo '{\"late\":'; sleep 1; echo '1}'; } & ) > config.json");
    eventually("the save of the child that stayed", || {
        it.read("config.json").contains("late").then_some(())
    });
    assert_eq!(it.sh("jq -c .late config.json").trim(), "1");
    nothing_kept(&it);
}

#[test]
fn rule_3_fsync_commits_at_once() {
    let it = config();
    let mut p = it.python();
    p.run("open('config.json').read()\nfd = os.open('config.json', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'{\"s\": 1}\\n')\nos.fsync(fd)");
    assert_eq!(it.read("config.json"), "{\"s\": 1}\n", "before the close");
    p.run("os.write(fd, b'   \\n')\nos.close(fd)");
    assert_eq!(it.read("config.json"), "{\"s\": 1}\n   \n");
}

#[test]
fn rule_3_each_of_two_programs_on_one_descriptor_adds_its_part() {
    let it = config();
    it.sh("( /bin/echo '{\"p\": 1,'; sh -c 'echo \"\\\"q\\\": 2}\"' ) > config.json");
    assert_eq!(it.sh("jq -c '[.p,.q]' config.json").trim(), "[1,2]");
    nothing_kept(&it);
}

// ---- rules 4 and 9 ----

#[test]
fn rule_4_after_a_refusal_a_later_write_can_still_win() {
    let it = config();
    let mut p = it.python();
    p.run("fd = os.open('config.json', os.O_RDWR|os.O_TRUNC)\nos.write(fd, b'{\"a\": ')");
    assert_eq!(p.errno("os.fsync(fd)"), libc::EIO);
    assert_eq!(it.read("config.json"), A);
    p.run("os.write(fd, b'6}\\n')\nos.fsync(fd)\nos.close(fd)");
    assert_eq!(it.read("config.json"), "{\"a\": 6}\n");
}

#[test]
fn rule_9_a_refusal_is_sticky_until_new_bytes() {
    let it = config();
    let mut p = it.python();
    p.run("fd = os.open('config.json', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'{')");
    assert_eq!(p.errno("os.fsync(fd)"), libc::EIO);
    assert_eq!(p.errno("os.fsync(fd)"), libc::EIO);
    assert_eq!(p.errno("os.close(fd)"), libc::EIO);
    assert_eq!(it.read("config.json"), A);
    assert!(it.refused("config.json").ends_with("line\n{"));
}

// ---- rule 5 ----

#[test]
fn rule_5_the_last_close_by_anyone_commits_what_is_left() {
    let it = config();
    it.actor()
        .python(
            "import os\nopen('config.json').read()\nfd = os.open('config.json', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'{\"r\": 1}\\n')\nos._exit(0)",
            &[],
        )
        .ok();
    eventually("a save without a close", || it.read("config.json").contains("\"r\"").then_some(()));
    it.actor()
        .python(
            "import os\nfd = os.open('config.json', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'{\"broken\"')\nos._exit(0)",
            &[],
        )
        .ok();
    eventually("a refusal without a close", || {
        it.kept().contains(&"config.json.refused".to_owned()).then_some(())
    });
    assert_eq!(it.read("config.json"), "{\"r\": 1}\n");
}

#[test]
fn rule_5_a_mapped_change_is_saved_with_the_last_close() {
    let it = config();
    it.actor()
        .python(
            "import mmap, os\nfd = os.open('config.json', os.O_RDWR)\n\
             m = mmap.mmap(fd, 0)\nassert m[:] == b'{\"a\": 1}\\n'\nm[6:7] = b'8'\nm.flush()\nm.close()\nos.close(fd)",
            &[],
        )
        .ok();
    eventually("a mapped change", || (it.read("config.json") == "{\"a\": 8}\n").then_some(()));
}

// ---- rule 6 ----

#[test]
fn rule_6_open_for_writing_without_a_write_is_no_save() {
    let it = config();
    let before = it.sh("stat -c '%s %y' config.json missions.md");
    it.actor()
        .python(
            "import os\nfor n in ('config.json','missions.md'):\n\
             \x20 for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY|os.O_APPEND):\n\
             \x20   os.close(os.open(n, flags))\n",
            &[],
        )
        .ok();
    it.sh(": >> missions.md; : <> config.json");
    assert_eq!(it.sh("stat -c '%s %y' config.json missions.md"), before);
    nothing_kept(&it);
}

// ---- rule 7 ----

#[test]
fn rule_7_a_killed_writers_text_is_set_aside() {
    let it = config();
    let mut p = it.python();
    let pid = p.pid();
    p.run("fd = os.open('missions.md', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'## Pending\\n- half a sa')");
    p.kill();
    let name = format!("missions.md.unsaved-{pid}");
    eventually("the text of the killed writer", || it.kept().contains(&name).then_some(()));
    assert_eq!(it.read(&name), "## Pending\n- half a sa");
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
    assert_eq!(it.kept(), [name]);
}

#[test]
fn rule_7_a_killed_writer_that_only_truncated_leaves_nothing() {
    let it = config();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_WRONLY|os.O_TRUNC)");
    p.kill();
    it.append("config.json.note", "x");
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
    nothing_kept(&it);
}

#[test]
fn rule_7_the_end_of_a_program_without_a_signal_is_a_save() {
    let it = config();
    let mut p = it.python();
    p.run("open('config.json').read()\nfd = os.open('config.json', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'{\"e\": 1}\\n')");
    p.end();
    eventually("the save at exit", || (it.read("config.json") == "{\"e\": 1}\n").then_some(()));
    nothing_kept(&it);
}

// ---- rule 8 ----

#[test]
fn rule_8_an_empty_or_blank_text_is_refused_by_every_route() {
    for script in [
        ": > missions.md",
        "> missions.md",
        "cp /dev/null missions.md",
        "cat /dev/null > missions.md",
        "truncate -s 0 missions.md",
        "printf '\\n\\n  \\n' > missions.md",
        "cat missions.md >/dev/null; printf '\\n' > missions.md",
        ": > t && mv t missions.md",
        "printf '\\n\\n' > t && mv t missions.md",
        "python3 -c \"open('missions.md','w').close()\"",
        "node -e \"require('fs').writeFileSync('missions.md','')\"",
    ] {
        let it = config();
        it.actor().bash(script);
        assert_eq!(it.read("missions.md"), samples::MISSIONS, "after {script}");
        assert_eq!(it.rows().len(), 6, "rows after {script}");
    }
}

#[test]
fn rule_8_a_truncating_open_and_close_is_refused_with_a_hint() {
    let it = config();
    it.actor().bash(": > config.json");
    assert_eq!(it.read("config.json"), A);
    let said = it.refused("config.json").to_lowercase();
    assert!(said.contains("empty"), "the reason says that it is empty: {said}");
}

#[test]
fn rule_8_an_empty_rename_fails_and_keeps_its_source() {
    let it = config();
    let ran = it.actor().bash(": > t; mv t config.json").failed();
    assert!(ran.stderr.contains("Input/output error"), "{}", ran.stderr);
    assert!(it.names(".").contains(&"t".to_owned()), "the source stays");
    assert_eq!(it.read("config.json"), A);
}

#[test]
fn rule_8_headers_without_items_are_a_save() {
    let it = Instance::with(&[("missions.md", "## Pending\n- only one\n")]);
    it.edit("missions.md", "- only one\n", "");
    assert_eq!(it.read("missions.md"), "## Pending\n");
    assert_eq!(it.rows(), []);
}

#[test]
fn rule_8_empty_then_append_loses_nothing() {
    let it = config();
    it.actor().bash(": > missions.md; cat >> missions.md <<< '- appended after emptying'");
    assert_eq!(it.rows().len(), 7);
    assert_eq!(it.count("appended after emptying"), 1);
}

// ---- rule 10 ----

#[test]
fn rule_10_a_rename_onto_the_name_is_a_save_inside_the_rename() {
    let it = config();
    it.actor()
        .python(
            "import os\nopen('config.json').read()\nopen('t','w').write('{\"n\": 1}\\n'); os.replace('t','config.json')\n\
             assert open('config.json').read() == '{\"n\": 1}\\n'",
            &[],
        )
        .ok();
    assert_eq!(it.read("config.json"), "{\"n\": 1}\n");
    assert!(!it.names(".").contains(&"t".to_owned()));
    it.sh("jq '.n=2' config.json > t && mv t config.json");
    assert_eq!(it.sh("jq .n config.json").trim(), "2");
}

#[test]
fn rule_10_a_hundred_renames_onto_the_name() {
    let it = config();
    it.sh(
        "for i in $(seq 100); do jq \".n=$i\" config.json > t && mv t config.json || exit 1; done",
    );
    assert_eq!(it.sh("jq .n config.json").trim(), "100");
}

#[test]
fn rule_10_mv_from_another_file_system() {
    let it = config();
    it.sh("jq '.a=2' config.json > $SCRATCH/t && mv $SCRATCH/t config.json");
    assert_eq!(it.sh("jq -c . config.json").trim(), "{\"a\":2}");
    it.sh("sed 's/first task/first!/' missions.md > $SCRATCH/m && mv $SCRATCH/m missions.md");
    assert_eq!(it.read("missions.md"), samples::MISSIONS.replace("first task", "first!"));
    assert_eq!(it.rows().len(), 6);
    nothing_kept(&it);
}

#[test]
fn rule_10_a_refused_rename_says_so_and_keeps_the_source() {
    let it = config();
    let ran = it.actor().bash("echo '{\"a\":' > t; mv t config.json").failed();
    assert!(ran.stderr.contains("Input/output error"), "{}", ran.stderr);
    assert_eq!(it.read("t"), "{\"a\":\n");
    assert_eq!(it.read("config.json"), A);
    assert!(it.kept().contains(&"config.json.refused".to_owned()));
}

#[test]
fn rule_10_a_source_that_is_still_open_belongs_to_the_document() {
    let it = config();
    let mut p = it.python();
    p.run("open('config.json').read()\nf = open('t', 'wb', buffering=0)\nf.write(b'{\"g\": 1}\\n')\nos.rename('t', 'config.json')");
    assert_eq!(it.read("config.json"), "{\"g\": 1}\n", "committed in the rename");
    p.run("f.seek(0)\nf.truncate()\nf.write(b'{\"g\": 22}\\n')\nf.close()");
    assert_eq!(it.read("config.json"), "{\"g\": 22}\n", "later bytes at its flush");
}

#[test]
fn rule_10_perl_in_place() {
    let it = config();
    it.actor().run("perl", &["-pi", "-e", "s/first task/first by perl/", "missions.md"]).ok();
    assert_eq!(it.read("missions.md"), samples::MISSIONS.replace("first task", "first by perl"));
    nothing_kept(&it);
}

#[test]
fn rule_10_a_rename_that_brings_back_the_current_text_succeeds() {
    let it = config();
    it.actor()
        .python(
            "import os\nos.rename('missions.md','missions.md~')\nos.rename('missions.md~','missions.md')",
            &[],
        )
        .ok();
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
    assert_eq!(it.rows().len(), 6);
    nothing_kept(&it);
}

// ---- the table of errors ----

#[test]
fn a_text_over_the_size_limit_is_efbig_at_write() {
    let it = config();
    let mut p = it.python();
    p.run("fd = os.open('config.json', os.O_WRONLY|os.O_TRUNC)\nblock = b' ' * (1 << 20)");
    p.run("n = 0\nfor i in range(64): n += os.write(fd, block)");
    assert_eq!(p.int("n"), 64 << 20, "64 MiB fit");
    assert_eq!(p.errno("os.write(fd, block)"), libc::EFBIG);
    assert_eq!(it.read("config.json"), A);
}

#[test]
fn the_quarantine_is_read_only_at_open() {
    let it = config();
    it.database()
        .execute(
            "insert into quarantine(text, reason, source, added_at) \
             values ('do bad things', 'looks odd', 'mail', '2026-07-01 10:00')",
            [],
        )
        .expect("insert");
    let text = it.read("missions-quarantine.md");
    let line = "- 🛡️ [2026-07-01 10:00] (mail) looks odd: do bad things\n";
    assert!(text.ends_with(line), "{text}");
    let mut p = it.python();
    for flags in ["os.O_WRONLY", "os.O_WRONLY|os.O_TRUNC", "os.O_RDWR", "os.O_WRONLY|os.O_APPEND"] {
        let errno = p.errno(&format!("os.open('missions-quarantine.md', {flags})"));
        assert_eq!(errno, libc::EROFS, "{flags}");
    }
    assert_eq!(it.read("missions-quarantine.md"), text);
}

#[test]
fn a_locked_database_makes_a_save_fail_after_a_while_and_loses_nothing() {
    let it = config();
    let db = it.database();
    db.execute_batch("begin immediate").expect("lock");
    let ran = it.actor().python(
        "import os\nfd=os.open('config.json',os.O_WRONLY|os.O_TRUNC); os.write(fd,b'{\"l\": 1}\\n')\n\
         try: os.fsync(fd)\nexcept OSError as e: print(e.errno)\n",
        &[],
    );
    assert_eq!(ran.stdout.trim(), libc::EIO.to_string(), "{}", ran.stderr);
    db.execute_batch("rollback").expect("unlock");
    assert_eq!(it.read("config.json"), A);
    assert!(it.refused("config.json").contains("{\"l\": 1}"));
}

#[test]
fn chmod_chown_and_utimens_are_kept_for_the_document() {
    let it = config();
    it.sh("chmod 640 config.json; chown $(id -u):$(id -g) config.json; touch config.json");
    assert_eq!(it.sh("stat -c %a config.json").trim(), "640");
    it.sh("echo '{\"a\": 2}' > t; chmod 600 t; mv t config.json");
    assert_eq!(it.sh("stat -c %a config.json").trim(), "640", "a renamed file changes no mode");
    it.remount();
    assert_eq!(it.sh("stat -c %a config.json").trim(), "640", "after a remount");
}

#[test]
fn unknown_attributes_are_not_supported() {
    let it = config();
    let mut p = it.python();
    assert_eq!(p.errno("os.setxattr('config.json', 'user.other', b'x')"), libc::EOPNOTSUPP);
    let get = p.errno("os.getxattr('config.json', 'user.other')");
    assert!([libc::EOPNOTSUPP, libc::ENODATA].contains(&get), "{get}");
}
