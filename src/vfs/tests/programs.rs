//! The call sequences of real programs, each once with a concurrent change in between.

use super::*;

const EDITED: &str = "# Missions\n\n## Pending\n- a\n- B\n";

/// `read` looks, somebody appends, `write` saves EDITED: both changes are there.
fn both(program: &str, read: impl Fn(P<'_>), write: impl Fn(P<'_>)) {
    for concurrent in [false, true] {
        let w = World::new();
        let sh = w.stranger("bash");
        let p = sh.fork(program);
        read(p);
        if concurrent {
            w.stranger("other").append("missions.md", "- other\n").unwrap();
        }
        let before = w.docs.count();
        write(p);
        assert_eq!(w.docs.count(), before + 1, "{program}: one save");
        let text = w.text();
        if concurrent {
            for line in ["- a\n", "- B\n", "- other\n"] {
                assert!(text.contains(line), "{program}: {line:?} in {text:?}");
            }
            assert!(!text.contains("- b\n"), "{program}: {text:?}");
        } else {
            assert_eq!(text, EDITED, "{program}");
        }
        let left = w.names("");
        assert!(left.is_empty(), "{program} left {left:?}");
    }
}

fn look(p: P<'_>) {
    p.cat("missions.md").unwrap();
}

fn probe_4913(p: P<'_>) {
    let fd = p.open("4913", WR | CREAT | EXCL).unwrap();
    p.close(fd).unwrap();
    p.unlink("4913").unwrap();
}

fn vim_write(p: P<'_>) {
    let fd = p.open("missions.md", WR | CREAT).unwrap();
    p.ftruncate(fd, 0).unwrap();
    p.write(fd, EDITED).unwrap();
    p.fsync(fd).unwrap();
    p.close(fd).unwrap();
}

#[test]
fn vim_renaming_the_original_away() {
    both("vim", look, |p| {
        probe_4913(p);
        p.rename("missions.md", "missions.md~").unwrap();
        vim_write(p);
        p.unlink("missions.md~").unwrap();
    });
}

#[test]
fn vim_copying_the_original() {
    both("vim", look, |p| {
        p.save("missions.md~", &p.cat("missions.md").unwrap()).unwrap();
        vim_write(p);
        p.unlink("missions.md~").unwrap();
    });
}

#[test]
fn vim_without_a_backup() {
    both("vim", look, vim_write);
}

#[test]
fn vim_restores_after_a_refusal() {
    let w = World::new();
    let p = w.stranger("vim");
    p.cat("config.json").unwrap();
    p.rename("config.json", "config.json~").unwrap();
    let fd = p.open("config.json", WR | CREAT).unwrap();
    p.ftruncate(fd, 0).unwrap();
    refused(p.write(fd, "{bad"));
    refused(p.fsync(fd));
    refused(p.close(fd));
    w.docs.publish(DocId::Config, Some("{\"a\":1,\"z\":1}\n"));
    p.rename("config.json~", "config.json").unwrap();
    assert_eq!(w.config(), "{\"a\":1,\"z\":1}\n");
    assert_eq!(w.names("config.json"), ["config.json.refused"]);
}

#[test]
fn neovim_and_emacs() {
    both("nvim", look, |p| {
        probe_4913(p);
        p.rename("missions.md", "missions.md~").unwrap();
        p.save("missions.md", EDITED).unwrap();
        p.unlink("missions.md~").unwrap();
    });
    both("emacs", look, |p| {
        p.rename("missions.md", "missions.md~").unwrap();
        let fd = p.open("missions.md", WR | CREAT | TRUNC).unwrap();
        p.write(fd, EDITED).unwrap();
        p.fsync(fd).unwrap();
        p.close(fd).unwrap();
        let fd = p.open("missions.md", WR).unwrap();
        p.close(fd).unwrap();
        p.unlink("missions.md~").unwrap();
    });
}

#[test]
fn micro_opens_for_writing_at_load() {
    both(
        "micro",
        |p| {
            let fd = p.open("missions.md", WR).unwrap();
            p.close(fd).unwrap();
            look(p);
        },
        |p| {
            let fd = p.open_by(&p.thread(2), "missions.md", WR | CREAT | TRUNC).unwrap();
            p.write_by(&p.thread(3), fd, EDITED.as_bytes()).unwrap();
            p.close_by(&p.thread(4), fd).unwrap();
        },
    );
}

#[test]
fn busybox_vi_writes_and_cuts() {
    both("vi", look, |p| {
        let fd = p.open("missions.md", WR).unwrap();
        p.write(fd, EDITED).unwrap();
        p.ftruncate(fd, EDITED.len() as u64).unwrap();
        p.close(fd).unwrap();
    });
}

#[test]
fn sed_in_place_with_and_without_a_backup() {
    let temp = |p: P<'_>| {
        let fd = p.open("sedAbCdE", WR | CREAT | EXCL).unwrap();
        p.write(fd, EDITED).unwrap();
        p.close(fd).unwrap();
    };
    both("sed", look, |p| {
        temp(p);
        p.rename("sedAbCdE", "missions.md").unwrap();
    });
    both("sed", look, |p| {
        temp(p);
        p.rename("missions.md", "missions.md.bak").unwrap();
        p.rename("sedAbCdE", "missions.md").unwrap();
        p.unlink("missions.md.bak").unwrap();
    });
}

#[test]
fn perl_renames_while_the_target_is_open() {
    let w = World::new();
    let p = w.stranger("perl");
    let old = p.open("missions.md", RD).unwrap();
    p.read_on(old);
    let fd = p.open("XXtemp", WR | CREAT | EXCL).unwrap();
    p.write(fd, EDITED).unwrap();
    p.close(fd).unwrap();
    p.rename("XXtemp", "missions.md").unwrap();
    p.close(old).unwrap();
    assert_eq!(w.text(), EDITED);
}

#[test]
fn gio_closes_the_temporary_after_the_rename() {
    both("gio", look, |p| {
        assert!(matches!(p.open("missions.md", WR | CREAT | EXCL), Err(Error::Exists)));
        let t = p.open("missions.md", WR).unwrap();
        let fd = p.open(".goutputstream-X", WR | CREAT | EXCL).unwrap();
        p.close(t).unwrap();
        p.write(fd, EDITED).unwrap();
        p.fsync(fd).unwrap();
        p.rename(".goutputstream-X", "missions.md").unwrap();
        p.close(fd).unwrap();
    });
}

#[test]
fn claude_codes_temporary_keeps_size_and_number() {
    both("claude", look, |p| {
        let fd = p.open_by(&p.thread(1), "missions.md.tmp.9.0123", WR | CREAT | EXCL).unwrap();
        p.write_by(&p.thread(2), fd, EDITED.as_bytes()).unwrap();
        p.fsync(fd).unwrap();
        p.close_by(&p.thread(3), fd).unwrap();
        let temp = p.stat("missions.md.tmp.9.0123").unwrap();
        p.rename("missions.md.tmp.9.0123", "missions.md").unwrap();
        assert_eq!(p.stat("missions.md").unwrap().ino, temp.ino);
    });
}

#[test]
fn in_place_fallback_that_unlinks_after_a_refusal() {
    let w = World::new();
    let p = w.stranger("claude");
    p.cat("config.json").unwrap();
    let fd = p.open("config.json", WR | CREAT | TRUNC).unwrap();
    refused(p.write(fd, "{bad"));
    refused(p.fsync(fd));
    p.unlink("config.json").unwrap();
    let _ = p.close(fd);
    assert_eq!(w.config(), "{\"a\": 1, \"b\": 2}\n");
    assert!(w.file("config.json.refused").is_some());
    assert!(w.stranger("q").stat("config.json").is_ok());
}

#[test]
fn jq_through_a_temporary_and_mv() {
    let w = World::new();
    let sh = w.stranger("bash");
    let jq = sh.fork("jq");
    let out = jq.open("t", WR | CREAT | TRUNC).unwrap();
    jq.dup(out);
    jq.close(out).unwrap();
    jq.cat("config.json").unwrap();
    w.docs.publish(DocId::Config, Some("{\"a\":1,\"b\":2,\"z\":26}\n"));
    jq.write(out, "{\"a\": 7, \"b\": 2}\n").unwrap();
    jq.exit();
    sh.fork("mv").rename("t", "config.json").unwrap();
    assert_eq!(w.config(), "{\"a\":7,\"b\":2,\"z\":26}\n");
}

#[test]
fn jq_onto_the_file_that_it_reads() {
    let w = World::new();
    let sh = w.stranger("bash");
    let jq = sh.fork("bash");
    let out = jq.open("config.json", WR | CREAT | TRUNC).unwrap();
    jq.dup(out);
    jq.close(out).unwrap();
    jq.exec("jq");
    assert_eq!(jq.cat("config.json").unwrap(), "{\"a\": 1, \"b\": 2}\n");
    jq.write(out, "{\"a\": 7, \"b\": 2}\n").unwrap();
    jq.close(out).unwrap();
    jq.exit();
    assert_eq!(w.config(), "{\"a\": 7, \"b\": 2}\n");
    assert_eq!(w.docs.last().actor.program, "jq");
}

#[test]
fn mv_across_file_systems_unlinks_and_creates() {
    let w = World::new();
    let sh = w.stranger("bash");
    let jq = sh.fork("jq");
    jq.cat("config.json").unwrap();
    jq.exit();
    w.docs.publish(DocId::Config, Some("{\"a\":1,\"b\":2,\"z\":26}\n"));
    let mv = sh.fork("mv");
    mv.unlink("config.json").unwrap();
    let fd = mv.open("config.json", WR | CREAT | EXCL).unwrap();
    mv.write(fd, "{\"a\": 7}\n").unwrap();
    mv.close(fd).unwrap();
    assert_eq!(w.config(), "{\"a\":7,\"z\":26}\n");
    assert!(sh.stat("config.json").is_ok());
}

#[test]
fn sponge_reads_through_a_pipe() {
    let w = World::new();
    let sh = w.stranger("bash");
    let (cat, sponge) = (sh.fork("cat"), sh.fork("sponge"));
    look(cat);
    cat.exit();
    sponge.save("missions.md", EDITED).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert_eq!(w.text(), EDITED);
}

#[test]
fn a_look_in_the_shell_does_not_let_an_echo_wipe_the_queue() {
    let w = World::new();
    let sh = w.stranger("bash");
    let cat = sh.fork("cat");
    look(cat);
    cat.exit();
    let fd = sh.open("missions.md", WR | CREAT | TRUNC).unwrap();
    sh.dup(fd);
    sh.close(fd).unwrap();
    sh.write(fd, "- x\n").unwrap();
    sh.close(fd).unwrap();
    assert_eq!(w.docs.last().seen, None);
    assert!(w.text().contains("- a\n- b\n"));
}

#[test]
fn python_edits_in_place() {
    for cut_first in [false, true] {
        let w = World::new();
        let p = w.stranger("python");
        let fd = p.open("missions.md", RW).unwrap();
        assert_eq!(p.read_on(fd), FIRST);
        w.stranger("other").append("missions.md", "- other\n").unwrap();
        p.seek(fd, 0);
        let text = "## Pending\n- a\n";
        if cut_first {
            p.ftruncate(fd, text.len() as u64).unwrap();
        }
        p.write(fd, text).unwrap();
        p.ftruncate(fd, text.len() as u64).unwrap();
        p.close(fd).unwrap();
        assert_eq!(w.docs.last().written, text);
        assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
        assert_eq!(w.text(), "## Pending\n- a\n- other\n");
    }
}

#[test]
fn fileinput_reads_the_backup() {
    let w = World::new();
    let p = w.stranger("python");
    p.rename("missions.md", "missions.md.bak").unwrap();
    let bak = p.open("missions.md.bak", RD).unwrap();
    let out = p.open("missions.md", WR | CREAT | TRUNC).unwrap();
    p.read_on(bak);
    w.stranger("other").append("missions.md", "- other\n").unwrap();
    p.write(out, EDITED).unwrap();
    p.close(out).unwrap();
    p.unlink("missions.md.bak").unwrap();
    p.close(bak).unwrap();
    assert!(w.text().contains("- B\n") && w.text().contains("- other\n"));
    assert!(!w.text().contains("- b\n"));
}

#[test]
fn node_copies_a_file_over_the_document() {
    let w = World::new();
    let p = w.stranger("node");
    look(p);
    p.save("src", EDITED).unwrap();
    let from = p.open_by(&p.thread(1), "src", RD).unwrap();
    let to = p.open_by(&p.thread(2), "missions.md", WR | CREAT).unwrap();
    p.ftruncate(to, 0).unwrap();
    let (a, b) = (p.get(from), p.get(to));
    let who = p.thread(3);
    w.tree.copy_file_range(&who, a.node, a.fh, 0, b.node, b.fh, 0, 1 << 30).unwrap();
    p.close_by(&p.thread(1), to).unwrap();
    assert_eq!(w.text(), EDITED);
}

#[test]
fn dd_without_truncation_changes_its_bytes_only() {
    let w = World::new();
    let p = w.stranger("dd");
    let fd = p.open("missions.md", WR).unwrap();
    p.seek(fd, FIRST.find("- b").unwrap() as u64);
    p.write(fd, "- B").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.text(), EDITED);
}

#[test]
fn install_tar_and_git_unlink_first() {
    both("git", look, |p| {
        p.unlink("missions.md").unwrap();
        let fd = p.open("missions.md", WR | CREAT | EXCL).unwrap();
        p.write(fd, EDITED).unwrap();
        assert_eq!(p.fstat(fd).size, EDITED.len() as u64);
        p.close(fd).unwrap();
        p.stat("missions.md").unwrap();
    });
}

#[test]
fn rsyncs_receiver_is_a_fork_of_a_fork() {
    let w = World::new();
    let agent = w.stranger("agent");
    let sh = agent.fork("bash");
    let sed = sh.fork("sed");
    look(sed);
    sed.exit();
    w.stranger("other").append("missions.md", "- other\n").unwrap();
    let receiver = sh.fork("rsync").fork("rsync").fork("rsync");
    let fd = receiver.open(".missions.md.Xy", WR | CREAT | EXCL).unwrap();
    receiver.write(fd, EDITED).unwrap();
    receiver.close(fd).unwrap();
    receiver.rename(".missions.md.Xy", "missions.md").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert!(w.text().contains("- other\n") && !w.text().contains("- b\n"));
}
