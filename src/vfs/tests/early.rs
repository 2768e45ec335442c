//! Refusals before the end of a text: which writes answer, which do not, and what is kept.

use super::*;

const REFUSED: &str = "config.json.refused";
const GOOD: &str = "{\"a\": 4}\n";

impl World {
    /// The text in the one `.refused` file there is.
    fn kept(&self) -> String {
        assert_eq!(self.names(".refused"), [REFUSED]);
        let all = self.file(REFUSED).unwrap();
        all.split_once("the refused text follows this line\n").unwrap().1.to_owned()
    }
}

#[test]
fn the_write_that_makes_a_text_hopeless_answers_and_so_does_all_that_follows() {
    let w = World::new();
    let p = w.stranger("bash");
    let before = w.config();
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\n").unwrap();
    let why = refused(p.write(fd, "  \"a\": x,\n"));
    assert_eq!((why.line, why.key.as_deref()), (Some(2), Some("a")));
    assert_eq!(w.kept(), "{\n  \"a\": x,\n");
    // What hears nothing goes on, at the place where the kernel has left it.
    assert_eq!(refused(p.write(fd, "  \"b\": 2\n")), why);
    assert_eq!(refused(p.write(fd, "}\n")), why);
    assert_eq!(refused(p.fsync(fd)), why);
    assert_eq!(refused(p.close(fd)), why);
    assert_eq!(w.kept(), "{\n  \"a\": x,\n  \"b\": 2\n}\n");
    assert_eq!(w.config(), before);
    assert_eq!((w.docs.count(), w.tree.status().refused), (0, 1));
    p.save("config.json", GOOD).unwrap();
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn a_program_that_hears_nothing_at_all_leaves_the_whole_text() {
    let w = World::new();
    let p = w.stranger("kak");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    let o = p.get(fd);
    // It counts for itself where it is, and never closes.
    let mut at = 0;
    for piece in ["{\"a\": [1,,", " 2],\n", "\"c\": 3}\n"] {
        refused(w.tree.write(&p.who(), o.node, o.fh, at, piece.as_bytes(), 0));
        at += piece.len() as u64;
    }
    p.exit();
    assert_eq!(w.kept(), "{\"a\": [1,, 2],\n\"c\": 3}\n");
    assert_eq!(w.tree.status().refused, 1);
}

#[test]
fn the_same_bytes_again_are_no_more_of_the_text() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"a\": ").unwrap();
    refused(p.write(fd, "x, "));
    // A buffer that could not be written is written again with what has come since.
    refused(p.write(fd, "x, \"b\": 1}\n"));
    refused(p.write(fd, "x, \"b\": 1}\n"));
    refused(p.write(fd, "x, "));
    refused(p.close(fd));
    assert_eq!(w.kept(), "{\"a\": x, \"b\": 1}\n");
}

#[test]
fn a_text_in_order_can_be_begun_anew() {
    let w = World::new();
    let p = w.stranger("node");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    refused(p.write(fd, "{bad"));
    p.ftruncate(fd, 0).unwrap();
    assert_eq!(w.kept(), "{bad", "until something else is there");
    p.write(fd, GOOD).unwrap();
    p.close(fd).unwrap();
    assert_eq!((w.config(), w.docs.count()), ("{\"a\":4,\"b\":2}\n".to_owned(), 1));
    assert_eq!(w.names(".refused"), [""; 0]);
    // And is judged anew.
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    refused(p.write(fd, "{bad"));
    p.ftruncate(fd, 0).unwrap();
    refused(p.write(fd, "{worse"));
    refused(p.close(fd));
    assert_eq!(w.kept(), "{worse");
}

#[test]
fn a_text_that_was_emptied_after_its_refusal_is_kept() {
    let w = World::new();
    let p = w.stranger("editor");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    refused(p.write(fd, "{bad"));
    p.ftruncate(fd, 0).unwrap();
    refused(p.close(fd));
    assert_eq!(w.kept(), "{bad");
}

#[test]
fn a_write_elsewhere_opens_the_case_again_and_for_good() {
    let w = World::new();
    let p = w.stranger("patcher");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"a\": #").unwrap_err();
    let o = p.get(fd);
    // It has begun at 0, which is where it would go on: nobody can tell these two apart.
    refused(w.tree.write(&p.who(), o.node, o.fh, 0, b"{}", 0));
    p.ftruncate(fd, 0).unwrap();
    p.write(fd, "{\"n\": 1, ").unwrap();
    p.write(fd, "# ").unwrap_err();
    let patch = |at, text: &str| w.tree.write(&p.who(), o.node, o.fh, at, text.as_bytes(), 0);
    // What failed is not there.
    patch(1, "\"m\": 2}\n").unwrap();
    assert_eq!(p.fstat(fd).size, 9);
    patch(0, "x").unwrap();
    patch(0, "{").unwrap();
    p.close(fd).unwrap();
    assert!(w.config().contains("\"m\":2"), "{}", w.config());
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn what_was_mended_and_never_flushed_is_saved_at_its_end() {
    let w = World::new();
    let p = w.stranger("mapper");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{").unwrap();
    refused(p.write(fd, "bad"));
    p.ftruncate(fd, 0).unwrap();
    p.seek(fd, 0);
    p.write(fd, GOOD).unwrap();
    let o = p.get(fd);
    w.tree.release(o.node, o.fh).unwrap();
    assert_eq!(w.docs.last().written, GOOD);
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn a_text_that_can_still_be_mended_is_not_refused_before_its_end() {
    let w = World::new();
    let p = w.stranger("bash");
    // In place, beyond the end, before the end, appended, made longer first.
    let in_place = p.open("config.json", RW).unwrap();
    p.write(in_place, "x").unwrap();
    let gap = p.open("config.json", WR | TRUNC).unwrap();
    p.seek(gap, 4);
    p.write(gap, "x").unwrap();
    let patched = p.open("config.json", WR | TRUNC).unwrap();
    p.write(patched, "{\"a\": ").unwrap();
    p.seek(patched, 1);
    p.write(patched, "bad").unwrap();
    let append = p.open("config.json", WR | APPEND).unwrap();
    p.write(append, "x").unwrap();
    let emptied = p.open("config.json", WR | TRUNC | APPEND).unwrap();
    p.write(emptied, "x").unwrap();
    let long = p.open("config.json", WR | TRUNC).unwrap();
    p.ftruncate(long, 100).unwrap();
    p.write(long, "x").unwrap();
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn a_text_after_a_commit_goes_on_in_order() {
    let w = World::new();
    let p = w.stranger("writer");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"a\": 3}").unwrap();
    p.fsync(fd).unwrap();
    p.write(fd, "\n").unwrap();
    refused(p.write(fd, "{}"));
    refused(p.close(fd));
    assert_eq!(w.kept(), "{\"a\": 3}\n{}");
    assert!(w.config().contains('3'));
}

#[test]
fn setting_the_size_that_it_has_ends_a_text() {
    for (text, good) in [("{\"a\": 3", false), (" \n", false), ("{\"a\": 3}\n", true)] {
        let w = World::new();
        let p = w.stranger("busybox");
        let fd = p.open("config.json", WR | TRUNC).unwrap();
        p.write(fd, text).unwrap();
        let told = p.ftruncate(fd, text.len() as u64);
        assert_eq!(told.is_ok(), good, "{text:?}");
        assert_eq!(w.docs.count(), 0, "the commit is for the end");
        if good {
            p.close(fd).unwrap();
        } else {
            assert_eq!(w.kept(), text);
            let why = refused(told);
            assert_eq!(refused(p.close(fd)), why);
            assert_eq!(w.kept(), text);
        }
        let counts = (w.docs.count(), w.tree.status().refused, w.names(".refused").len());
        assert_eq!(counts, if good { (1, 0, 0) } else { (0, 1, 1) }, "{text:?}");
    }
}

#[test]
fn after_the_end_more_text_can_still_win() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"a\": 3").unwrap();
    refused(p.ftruncate(fd, 7));
    p.write(fd, "}\n").unwrap();
    p.ftruncate(fd, 9).unwrap();
    p.close(fd).unwrap();
    assert!(w.config().contains('3'));
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn the_size_of_a_hopeless_text_mends_nothing_and_another_one_may() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, GOOD).unwrap();
    refused(p.write(fd, "{}"));
    refused(p.ftruncate(fd, GOOD.len() as u64 + 2));
    refused(p.fsync(fd));
    p.ftruncate(fd, GOOD.len() as u64).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().written, GOOD);
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn missions_that_are_no_text_are_told_at_once() {
    let w = World::new();
    let p = w.stranger("git");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.write_by(&p.who(), fd, b"## Pending\n- \xc3").unwrap();
    p.write_by(&p.who(), fd, b"\xa9\n").unwrap();
    assert_eq!(refused(p.write_by(&p.who(), fd, b"- \xff\n")).line, Some(3));
    refused(p.close(fd));
    assert_eq!(w.text(), FIRST);
    assert_eq!(w.names(".refused"), ["missions.md.refused"]);
}

#[test]
fn a_hopeless_text_of_a_killed_writer_is_kept_once() {
    let w = World::new();
    let p = w.stranger("cat");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    refused(p.write(fd, "{bad"));
    refused(p.write(fd, " and more"));
    p.kill();
    assert_eq!(w.kept(), "{bad and more");
    assert_eq!(w.names(".unsaved-"), [""; 0]);
}

#[test]
fn what_comes_before_the_end_of_the_mount_is_kept() {
    let w = World::new();
    let p = w.stranger("bash");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    refused(p.write(fd, "{bad"));
    refused(p.write(fd, ", more"));
    w.tree.shutdown();
    assert_eq!(w.kept(), "{bad, more");
    assert_eq!(w.names(".unsaved-"), [""; 0]);
}
