//! Random saves, writes behind the mount and restarts against a model.

use proptest::prelude::*;

use super::*;
use crate::documents::Save;
use crate::model::Stamp;

#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    /// By a writer that has seen the version of so many steps ago.
    Whole(u8, usize),
    Blind(u8),
    Remove,
    Outside(u8),
    OutsideAppend(u8),
    OutsideRemove,
    Look,
    Tick,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Append),
        4 => (any::<u8>(), 0usize..4).prop_map(|(n, age)| Step::Whole(n, age)),
        1 => any::<u8>().prop_map(Step::Blind),
        1 => Just(Step::Remove),
        2 => any::<u8>().prop_map(Step::Outside),
        2 => any::<u8>().prop_map(Step::OutsideAppend),
        1 => Just(Step::OutsideRemove),
        2 => Just(Step::Look),
        2 => Just(Step::Tick),
        1 => Just(Step::Restart),
    ]
}

/// What a save of `text` by somebody who saw `seen` makes of `current`.
fn merged(text: &str, seen: Option<&Arc<Version>>, current: Option<&str>) -> Option<String> {
    let document = FileDocument::new(id("a.md"), FileKind::Text);
    let current = document.state(current.map(str::as_bytes));
    let save = Save {
        view: View::File(id("a.md")),
        seen: seen.map(|v| &v.state),
        written: Written::Whole(text.as_bytes()),
        current: &current,
        outside_since_seen: false,
        rows: None,
    };
    let plan = document.plan(&save, &Context { now: Stamp(0) }).unwrap();
    plan.next.view(save.view).map(|c| String::from_utf8(c.to_vec()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_file_the_version_and_the_history_agree(steps in prop::collection::vec(step(), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        let mut files = new_store(dir.path());
        let path = dir.path().join("a.md");
        let mut model: Option<String> = None;
        let mut seen: Vec<Arc<Version>> = Vec::new();
        for step in steps {
            match step {
                Step::Append(n) => {
                    append(&files, "a.md", &format!("{n}\n"));
                    model.get_or_insert_default().push_str(&format!("{n}\n"));
                }
                Step::Whole(n, age) => {
                    let text = format!("whole {n}\n");
                    let Some(base) = seen.iter().rev().nth(age) else { continue };
                    whole(&files, "a.md", Some(base), &text);
                    model = merged(&text, Some(base), model.as_deref());
                }
                Step::Blind(n) => {
                    whole(&files, "a.md", None, &format!("blind {n}\n"));
                    model = Some(format!("blind {n}\n"));
                }
                Step::Remove => {
                    files.save(request("a.md", None, Written::Removed)).unwrap();
                    model = None;
                }
                Step::Outside(n) => {
                    fs::write(&path, format!("outside {n}\n")).unwrap();
                    model = Some(format!("outside {n}\n"));
                }
                Step::OutsideAppend(n) => {
                    use std::io::Write;
                    let file = fs::File::options().append(true).create(true).open(&path);
                    writeln!(file.unwrap(), "more {n}").unwrap();
                    model.get_or_insert_default().push_str(&format!("more {n}\n"));
                }
                Step::OutsideRemove => {
                    let _ = fs::remove_file(&path);
                    model = None;
                }
                Step::Look => seen.push(files.current(id("a.md")).unwrap()),
                Step::Tick => files.tick(),
                Step::Restart => {
                    drop(files);
                    files = open(dir.path());
                }
            }
            if !matches!(step, Step::Outside(_) | Step::OutsideAppend(_) | Step::OutsideRemove) {
                prop_assert_eq!(&read(&files, "a.md"), &model);
            }
            prop_assert_eq!(&fs::read_to_string(&path).ok(), &model);
        }
        prop_assert_eq!(&read(&files, "a.md"), &model);
        prop_assert!(files.settle().unwrap());
        let now = files.current(id("a.md")).unwrap();
        if now.rev != Rev(0) {
            let on_record = files.text_at(id("a.md"), now.rev).unwrap();
            prop_assert_eq!(on_record.map(|c| String::from_utf8(c.to_vec()).unwrap()), model);
        }
        // Numbers and times only grow, and what was seen is what is on record.
        let doc = DocId::File(id("a.md"));
        let all = files.store().history_from(Some(doc), Rev(0), 1000).unwrap();
        prop_assert!(all.is_sorted_by(|a, b| a.rev < b.rev && a.at < b.at));
        for version in seen.iter().filter(|v| v.rev != Rev(0)) {
            if files.made(id("a.md"), version.rev).unwrap() == Some(version.mtime) {
                let on_record = files.text_at(id("a.md"), version.rev).unwrap();
                prop_assert_eq!(on_record.map(|c| c.to_vec()), version.view(View::File(id("a.md"))).map(|c| c.to_vec()));
            }
        }
        drop(files);
        prop_assert!(names(dir.path()).iter().all(|n| n == "a.md"));
    }
}
