//! Tests of saves of managed files.

use std::sync::Arc;

use super::*;
use crate::documents::{Context, Plan, Save, State, Written};
use crate::model::{Reason, Refusal, Stamp, View};

const CX: Context = Context { now: Stamp(0) };

/// A file and its versions.
struct File(FileDocument);

impl File {
    fn of(kind: FileKind) -> File {
        File(FileDocument::new(FileId::of("a/file"), kind))
    }

    fn at(&self, text: &str) -> State {
        self.0.state(Some(text.as_bytes()))
    }

    fn none(&self) -> State {
        self.0.state(None)
    }

    fn save(
        &self,
        seen: Option<&State>,
        written: Written<'_>,
        current: &State,
    ) -> Result<Plan, Refusal> {
        let view = View::File(self.0.id());
        let save = Save { view, seen, written, current, outside_since_seen: false, rows: None };
        self.0.plan(&save, &CX)
    }

    fn whole(&self, seen: Option<&State>, text: &str, current: &State) -> Plan {
        self.save(seen, Written::Whole(text.as_bytes()), current).unwrap()
    }

    /// The text after a save by one who has seen `seen`, while `now` is there.
    fn merge(&self, seen: &str, written: &str, now: &str) -> String {
        text(&self.whole(Some(&self.at(seen)), written, &self.at(now)).next)
    }

    fn blind(&self, written: &str, now: &str) -> String {
        text(&self.whole(None, written, &self.at(now)).next)
    }

    fn append(&self, new: &str, now: &str) -> String {
        let now = self.at(now);
        text(&self.save(Some(&now), Written::Fragment(new.as_bytes()), &now).unwrap().next)
    }

    fn remove(&self, seen: Option<&str>, now: &str) -> Option<String> {
        let seen = seen.map(|s| self.at(s));
        let plan = self.save(seen.as_ref(), Written::Removed, &self.at(now)).unwrap();
        let left = FileState::of(&plan.next).text().map(|_| text(&plan.next));
        let believed = FileState::of(&plan.believed).text().map(|_| text(&plan.believed));
        assert_eq!(believed, left.as_ref().map(|_| String::new()), "none of the lines are its own");
        left
    }

    fn refused(&self, written: &[u8], now: &str) -> Refusal {
        let now = self.at(now);
        match self.save(Some(&now), Written::Whole(written), &now) {
            Ok(plan) => panic!("accepted: {}", plan.summary),
            Err(r) => r,
        }
    }
}

fn text(s: &State) -> String {
    String::from_utf8(s.view(View::File(FileId::of("a/file"))).unwrap().to_vec()).unwrap()
}

#[test]
fn text_merges_by_line() {
    let f = File::of(FileKind::Text);
    let base = "a\nb\nc\n";
    assert_eq!(f.merge(base, "a\nB\nc\n", "a\nb\nc\nd\n"), "a\nB\nc\nd\n");
    assert_eq!(f.merge(base, "b\nc\n", "a\nb\nC\n"), "b\nC\n");
    // Neighbours are no overlap; both at one place are kept, the earlier first.
    assert_eq!(f.merge(base, "A\nb\nc\n", "a\nB\nc\n"), "A\nB\nc\n");
    assert_eq!(f.merge(base, "a\nb\nc\nw\n", "a\nb\nc\nx\n"), "a\nb\nc\nx\nw\n");
    // The same addition is one; the same line, the later.
    assert_eq!(f.merge(base, "a\nn\nb\nc\n", "a\nn\nb\nc\n"), "a\nn\nb\nc\n");
    assert_eq!(f.merge(base, "a\nn\nm\nb\nc\n", "a\nn\nb\nc\n"), "a\nn\nm\nb\nc\n");
    assert_eq!(f.merge(base, "a\nw\nc\n", "a\nx\nc\n"), "a\nw\nc\n");
    // A removal never beats a change.
    assert_eq!(f.merge(base, "a\nc\n", "a\nB\nc\n"), "a\nB\nc\n");
    assert_eq!(f.merge(base, "a\nB\nc\n", "a\nc\n"), "a\nB\nc\n");
    assert_eq!(f.merge(base, "", "a\nb\nc\nd\n"), "d\n");
}

#[test]
fn overlaps_are_recorded() {
    let f = File::of(FileKind::Text);
    let plan = f.whole(Some(&f.at("a\nb\nc\n")), "a\nw\nc\n", &f.at("0\na\nx\nc\n"));
    let [o] = &plan.overlaps[..] else { panic!("{:?}", plan.overlaps) };
    assert_eq!((&*o.what, &*o.earlier, &*o.later), ("line 3", "x", "w"));
    let plan = f.whole(Some(&f.at("a\nb\n")), "a\n", &f.at("a\nbb\n"));
    assert_eq!(plan.overlaps.len(), 1);
    let plan = f.whole(Some(&f.at("a\nb\nc\n")), "a\nB\nc\n", &f.at("A\nb\nC\n"));
    assert!(plan.overlaps.is_empty());
}

#[test]
fn an_added_line_is_not_taken_for_an_edit() {
    let f = File::of(FileKind::Text);
    let base = "the build runs on port 80\nend\n";
    let theirs = "written by somebody else\nthe build runs on port 8080\nend\n";
    let mine = "the build runs on port 81\nend\n";
    assert_eq!(
        f.merge(base, mine, theirs),
        "written by somebody else\nthe build runs on port 81\nend\n"
    );
}

#[test]
fn line_ends_belong_to_the_file() {
    let f = File::of(FileKind::Text);
    assert_eq!(f.merge("a\r\nb\r\n", "a\nB\n", "a\r\nb\r\nc\r\n"), "a\nB\nc\n");
    assert_eq!(f.merge("a\nb\n", "a\nB\n", "a\r\nb\r\nc\r\n"), "a\r\nB\r\nc\r\n");
    assert_eq!(f.merge("a\nb\n", "A\nb", "a\nb\nc\n"), "A\nb\nc");
    assert_eq!(f.merge("a\nb", "A\nb", "a\nb\nc\n"), "A\nb\nc\n");
    assert_eq!(f.merge("a\nb", "a\nb\nw", "a\nb\nc"), "a\nb\nc\nw");
    // Blanks lose to content, and win over nothing.
    assert_eq!(f.merge("a  \nb\n", "a\nb\n", "a  \nb\nc\n"), "a\nb\nc\n");
    assert_eq!(f.merge("a\nb\n", "a  \nb\n", "A\nb\n"), "A\nb\n");
}

#[test]
fn text_may_be_anything() {
    let f = File::of(FileKind::Text);
    let now = f.at("a\n");
    let odd: &[u8] = b"\xff\0\r\rb\n\n";
    let plan = f.save(Some(&now), Written::Whole(odd), &now).unwrap();
    assert!(FileState::of(&plan.next).text().unwrap().equals(odd));
    assert!(Arc::ptr_eq(&plan.next, &plan.believed));
    assert_eq!(f.blind("x\n", "a\n"), "x\n");
    assert_eq!(f.blind("", "a\n"), "");
    assert_eq!(f.append("b", "a"), "ab");
    assert_eq!(f.remove(None, "a\n"), None);
    assert_eq!(f.remove(Some("a\n"), "a\nb\n"), None);
    assert_eq!(text(&f.whole(Some(&f.at("a\nb\n")), "a\n", &f.none()).next), "a\n");
    let created = f.save(None, Written::Fragment(b""), &f.none()).unwrap();
    assert_eq!((text(&created.next).as_str(), &*created.summary), ("", "created"));
}

#[test]
fn huge_texts_are_merged_in_bounded_time() {
    let (text, queue) = (File::of(FileKind::Text), File::of(FileKind::Queue));
    let base: String =
        (0..30_000u32).map(|n| format!("entry {} of the journal\n", n % 7)).collect();
    let mine: String = (0..30_000u32).map(|n| format!("entry {} of a journal\n", n % 11)).collect();
    let theirs = base.replace("journal", "diary") + "last\n";
    assert!(text.merge(&base, &mine, &theirs).ends_with("last\n"));
    let both = queue.merge(&base, &mine, &theirs);
    assert_eq!(both.lines().count(), 60_001);
    // Too many lines to compare: the later text, and all entries.
    let many = "\n".repeat(700_000);
    assert_eq!(text.merge(&many, "x\n", &format!("{many}y\n{many}")), "x\n");
    assert_eq!(queue.merge(&many, "x\n", &format!("y\n{many}")), format!("y\n{many}x\n"));
    assert_eq!(queue.merge(&many, "", &format!("{many}y\n")), "y\n");
}

#[test]
fn queue_keeps_every_addition() {
    let f = File::of(FileKind::Queue);
    assert_eq!(f.merge("a\n", "a\nx\n", "a\nx\n"), "a\nx\nx\n");
    assert_eq!(f.blind("x\n", "x\n"), "x\nx\n");
    assert_eq!(f.blind("x\n", "a"), "a\nx\n");
    assert_eq!(f.blind("x", "a\n"), "a\nx");
    assert_eq!(f.blind("", "a\n"), "a\n");
    assert_eq!(f.append("x\n", "a"), "a\nx\n");
    // Two edits of one entry: neither is lost.
    assert_eq!(f.merge("a\n", "a1\n", "a2\n"), "a2\na1\n");
    // An edit stays in its place.
    assert_eq!(f.merge("a\nb\n", "a1\nb\n", "a\nb\nc\n"), "a1\nb\nc\n");
}

#[test]
fn queue_gives_up_only_what_was_read() {
    let f = File::of(FileKind::Queue);
    assert_eq!(f.merge("a\nb\n", "", "a\nb\nc\nd\n"), "c\nd\n");
    assert_eq!(f.merge("a\nb\n", "b\n", "a\nb\nc\n"), "b\nc\n");
    assert_eq!(f.merge("ab\nc\n", "b\nc\n", "ab\nc\nd\n"), "b\nc\nd\n");
    assert_eq!(f.merge("a\nb", "", "a\nb\nc\n"), "c\n");
    // Another drain was first, and new entries came.
    assert_eq!(f.merge("a\nb\n", "", "c\n"), "c\n");
    assert_eq!(f.merge("a\n", "a2\n", "c\n"), "c\na2\n");
    assert_eq!(f.merge("a\n", "", "a\na\n"), "a\n");
    assert_eq!(f.remove(Some("a\n"), "a\nb\nc\n").as_deref(), Some("b\nc\n"));
    assert_eq!(f.remove(Some("a\n"), "a\n"), None);
    assert_eq!(f.remove(Some("a\n"), "a\n\n"), None);
    assert_eq!(f.remove(Some(""), "a\n").as_deref(), Some("a\n"));
    assert_eq!(f.remove(None, "a\n"), None);
    let gone = f.none();
    assert_eq!(text(&f.whole(Some(&f.at("a\n")), "a\nb\n", &gone).next), "b\n");
    assert_eq!(text(&f.whole(Some(&f.at("a\n")), "a\n", &gone).next), "a\n");
    assert_eq!(text(&f.whole(Some(&gone), "w\n", &f.at("a\n")).next), "a\nw\n");
}

#[test]
fn what_the_writer_believes() {
    let f = File::of(FileKind::Queue);
    let (seen, now) = (f.at("a\n"), f.at("a\nb\n"));
    let plan = f.save(Some(&seen), Written::Fragment(b"w\n"), &now).unwrap();
    assert_eq!((text(&plan.next).as_str(), text(&plan.believed).as_str()), ("a\nb\nw\n", "a\nw\n"));
    let plan = f.save(Some(&f.at("x")), Written::Fragment(b"w\n"), &now).unwrap();
    assert_eq!(text(&plan.believed), "x\nw\n");
    let plan = f.save(None, Written::Fragment(b"w\n"), &now).unwrap();
    assert_eq!(text(&plan.believed), "w\n");
    let plan = f.whole(Some(&seen), "a\nx\n", &now);
    assert_eq!((text(&plan.next).as_str(), text(&plan.believed).as_str()), ("a\nb\nx\n", "a\nx\n"));
}

#[test]
fn json_merges_by_key() {
    let f = File::of(FileKind::Json);
    let base = "{\n  \"a\": 1,\n  \"b\": [1, 2],\n  \"n\": 1.0\n}\n";
    let mine = base.replace("\"a\": 1", "\"a\": 2");
    let theirs = base.replace("[1, 2]", "[1, 2, 3]");
    assert_eq!(
        f.merge(base, &mine, &theirs),
        "{\n  \"a\": 2,\n  \"b\": [1, 2, 3],\n  \"n\": 1.0\n}\n"
    );
    // Blind: keys are set, none is removed.
    assert_eq!(f.blind("{\"z\": 1}", "{\"a\": 1}"), "{\"a\": 1, \"z\": 1}");
    assert_eq!(f.merge(base, "{}", base), "{}");
    // A list of objects, and a blind save of it.
    let list = "[\n  {\"id\": \"x\", \"n\": 1},\n  {\"id\": \"y\", \"n\": 1}\n]\n";
    let mine = list.replace("\"x\", \"n\": 1", "\"x\", \"n\": 2");
    let theirs = list.replace("\"y\", \"n\": 1", "\"y\", \"n\": 3");
    let both = mine.replace("\"y\", \"n\": 1", "\"y\", \"n\": 3");
    assert_eq!(f.merge(list, &mine, &theirs), both);
    assert!(f.blind("[]", list).contains("\"x\""));
    assert_eq!(f.blind("[1, 2, 2]", "[2, 3]"), "[2, 3, 1, 2]");
    assert_eq!(f.merge("[1, 2]", "[1, 2, 4]", "[0, 1, 2]"), "[0, 1, 2, 4]");
    assert_eq!(f.merge("3", "4", "3"), "4");
}

#[test]
fn comments_alone_are_not_replaced_by_one_who_has_not_seen_them() {
    let f = File::of(FileKind::Yaml);
    let ours = "# off for now\n#a: 1\n";
    assert_eq!(f.merge("a: 1\n", "a: 1\n", ours), ours);
    assert_eq!(f.merge("a: 1\n", "a: 2\n", ours), format!("{ours}a: 2\n"));
    assert_eq!(f.blind("b: 1\n", ours), format!("{ours}b: 1\n"));
    assert_eq!(f.merge(ours, "b: 1\n", ours), "b: 1\n");
}

#[test]
fn json_is_never_reset() {
    let f = File::of(FileKind::Json);
    let list = "[\n  {\"id\": \"x\", \"n\": 1},\n  {\"id\": \"y\", \"n\": 1}\n]\n";
    let r = f.refused(&list.as_bytes()[..list.len() - 10], list);
    assert_eq!((r.reason, r.line), (Reason::Invalid, Some(3)), "{r}");
    for blank in ["", " \n", "\u{feff}"] {
        assert_eq!(f.refused(blank.as_bytes(), list).reason, Reason::Empty);
        assert_eq!(f.blind(blank, ""), blank);
        assert_eq!(text(&f.whole(None, blank, &f.none()).next), blank);
    }
    assert!(f.refused(b"{\"a\": \"\xff\"}", list).message.contains("UTF-8"));
    let r = f.save(None, Written::Whole(b"{}"), &f.at(list)).err().unwrap();
    assert!(r.message.contains("array"), "{r}");
    // What somebody broke behind the mount is replaced.
    let plan = f.whole(None, "{}", &f.at("{\"a\": "));
    assert_eq!(
        (text(&plan.next).as_str(), &*plan.summary),
        ("{}", "replaced what was not valid JSON")
    );
    assert_eq!(f.append("\n", "{\"a\": 1}"), "{\"a\": 1}\n");
    let r = f.save(None, Written::Fragment(b"{}"), &f.at("{}")).err().unwrap();
    assert!(r.hint.contains("appended"), "{r:?}");
    assert_eq!(f.remove(Some("{}"), "{\"a\": 1}"), None);
}

#[test]
fn events_say_what_and_when() {
    let f = File::of(FileKind::Event);
    let good = "{\"mission\": \"- x\", \"run_at\": \"2026-07-01T09:00\"}";
    assert_eq!(text(&f.whole(None, good, &f.none()).next), good);
    for (bad, key, word) in [
        ("[1]", None, "array"),
        ("{\"run_at\": \"2026-07-01T09:00\"}", Some("mission"), "missing"),
        ("{\"mission\": \" \", \"run_at\": \"2026-07-01T09:00\"}", Some("mission"), "empty"),
        ("{\"mission\": 1, \"run_at\": \"2026-07-01T09:00\"}", Some("mission"), "number"),
        ("{\"mission\": \"x\"}", Some("run_at"), "missing"),
        ("{\"mission\": \"x\",\n\"run_at\": \"soon\"}", Some("run_at"), "soon"),
        ("{\"mission\": \"x\", \"run_at\": 5}", Some("run_at"), "number"),
    ] {
        let r = f.refused(bad.as_bytes(), "");
        assert_eq!(r.key.as_deref(), key, "{bad}");
        assert!(r.message.contains(word) && !r.hint.is_empty(), "{r:?}");
    }
    assert_eq!(f.refused(b"{\"mission\": \"x\",\n\"run_at\": \"soon\"}", "").line, Some(2));
}

#[test]
fn yaml_keeps_comments() {
    let f = File::of(FileKind::Yaml);
    let base = "# projects\na: 1 # one\nb:\n  - x\n";
    let mine = base.replace("a: 1", "a: 2");
    let theirs = format!("{base}  - y # why\n");
    assert_eq!(f.merge(base, &mine, &theirs), "# projects\na: 2 # one\nb:\n  - x\n  - y # why\n");
    assert_eq!(f.append("a: 3\n", base), base.replace("a: 1", "a: 3"));
    assert_eq!(f.append("c: 3\n", base), format!("{base}c: 3\n"));
    assert_eq!(f.append("k: v\n", "# none yet"), "# none yet\nk: v\n");
    assert_eq!(f.append("- z\n", "- x\n- y\n"), "- x\n- y\n- z\n");
    assert_eq!(
        f.merge("- a\n- b\n", "- a\n- b\n- w\n", "- a # A\n- b\n- c\n"),
        "- a # A\n- b\n- c\n- w\n"
    );
    assert_eq!(f.refused(b"# all gone\n", base).reason, Reason::Empty);
    assert!(f.refused(b"a: 1\na: 2\n", base).message.contains("twice"));
    assert!(f.refused(b"a: [1\nb: 2\n", base).line.is_some());
}
