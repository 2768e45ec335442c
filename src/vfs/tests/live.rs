//! The tree over real documents, a real database and real plain files.

use super::*;
use crate::documents::config::ConfigDocument;
use crate::documents::live::Live;
use crate::documents::missions::Missions;
use crate::model::SystemClock;
use crate::store::{self, Store};
use crate::vfs::plain::Plain;

/// A world whose documents are those of a store; its fakes for documents and clock are idle.
fn world() -> World {
    let mut w = World::new();
    let dir = w.dir.path();
    drop(Store::create(dir).unwrap());
    let store = Arc::new(Store::open(dir, store::Options::default()).unwrap());
    let config = ConfigDocument::new(Some(dir.to_owned()), None);
    let kinds: Vec<Arc<dyn crate::documents::Document>> =
        vec![Arc::new(Missions::default()), Arc::new(config)];
    let live = Live::open(store, kinds, Arc::new(SystemClock)).unwrap();
    let parts = Parts {
        documents: Arc::new(live),
        plain: Arc::new(Plain::new(dir).unwrap()),
        processes: w.procs.clone(),
        memory: w.memory.clone(),
        clock: Arc::new(SystemClock),
        rules: None,
    };
    w.tree = Tree::new(parts, Options::new(dir.to_owned())).unwrap();
    w.uid = rustix::process::geteuid().as_raw();
    w
}

fn count(w: &World, state: &str) -> i64 {
    let db = rusqlite::Connection::open(w.dir.path().join("missions.db")).unwrap();
    let sql = "select count(*) from missions where state = ?1";
    db.query_row(sql, [state], |r| r.get(0)).unwrap()
}

const TEXT: &str = "# My list\n\nintro\n\n## Pending\n\n*  odd\n- a\n- b\n\n## Done\n";

#[test]
fn an_append_is_a_row_and_a_save_reads_back_as_it_was_written() {
    let w = world();
    let p = w.stranger("bash");
    p.append("missions.md", "- fix login\n").unwrap();
    assert_eq!(count(&w, "pending"), 1);
    let text = p.cat("missions.md").unwrap().replace("- fix login\n", "- fix login\n- and more\n");
    p.save("missions.md", &text).unwrap();
    assert_eq!(p.cat("missions.md").unwrap(), text);
    assert_eq!(p.stat("missions.md").unwrap().size, text.len() as u64);
    assert_eq!(count(&w, "pending"), 2);
}

#[test]
fn a_renamed_file_keeps_bytes_and_number_and_others_appends_survive() {
    let w = world();
    let p = w.stranger("agent");
    p.save("missions.md", "## Pending\n- a\n- b\n").unwrap();
    let text = p.cat("missions.md").unwrap();
    let fd = p.open("missions.md.tmp.1", WR | CREAT | EXCL).unwrap();
    let edited = text.replace("- b\n", "- B\n");
    p.write(fd, &edited).unwrap();
    p.fsync(fd).unwrap();
    p.close(fd).unwrap();
    let ino = p.stat("missions.md.tmp.1").unwrap().ino;
    w.stranger("other").append("missions.md", "- other\n").unwrap();
    p.rename("missions.md.tmp.1", "missions.md").unwrap();
    let now = p.cat("missions.md").unwrap();
    for line in ["- a\n", "- B\n", "- other\n"] {
        assert!(now.contains(line), "{line:?} in {now:?}");
    }
    assert!(!now.contains("- b\n"));
    assert_eq!(p.stat("missions.md").unwrap().ino, ino);
    assert!(!p.ls().contains(&"missions.md.tmp.1".to_owned()));
    assert_eq!(count(&w, "pending"), 3);
}

#[test]
fn a_blind_save_only_adds() {
    let w = world();
    let p = w.stranger("a");
    p.append("missions.md", "- a\n").unwrap();
    w.stranger("b").save("missions.md", "## Pending\n- b\n").unwrap();
    assert_eq!(count(&w, "pending"), 2);
}

#[test]
fn vims_way_keeps_hand_styled_text() {
    let w = world();
    let p = w.stranger("vim");
    p.append("missions.md", "- a\n- b\n").unwrap();
    p.cat("missions.md").unwrap();
    p.rename("missions.md", "missions.md~").unwrap();
    let fd = p.open("missions.md", WR | CREAT).unwrap();
    p.ftruncate(fd, 0).unwrap();
    p.write(fd, TEXT).unwrap();
    p.fsync(fd).unwrap();
    p.close(fd).unwrap();
    p.unlink("missions.md~").unwrap();
    assert_eq!(p.cat("missions.md").unwrap(), TEXT);
    assert!(count(&w, "pending") >= 2);
}

#[test]
fn broken_configs_are_refused_and_both_names_are_one_document() {
    let w = world();
    let p = w.stranger("node");
    assert!(matches!(p.stat("config.json"), Err(Error::NotFound)));
    refused(p.save("config.json", "{\n  \"a\": ,\n}\n"));
    assert!(w.file("config.json.refused").unwrap().contains("line 2"));
    p.save("config.json", "{\"a\": 1.50}\n").unwrap();
    assert_eq!(w.names(".refused"), [""; 0]);
    assert_eq!(p.cat("config.json").unwrap(), "{\"a\": 1.50}\n");
    p.append("config.yaml", "b: two\n").unwrap();
    let json: serde_json::Value = serde_json::from_str(&p.cat("config.json").unwrap()).unwrap();
    assert_eq!(json["b"], "two");
}

#[test]
fn a_good_save_under_the_other_name_takes_the_refused_text_away_too() {
    let w = world();
    let p = w.stranger("node");
    p.save("config.json", "{\"a\": 1}\n").unwrap();
    refused(p.save("config.json", "{\"a\": ,}\n"));
    w.stranger("other").append("config.yaml", "b: 2\n").unwrap();
    assert_eq!(w.names(".refused"), ["config.json.refused"], "another program's save");
    p.append("config.yaml", "c: 3\n").unwrap();
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn a_row_changed_with_sqlite_is_in_the_next_read_and_merges() {
    let w = world();
    let p = w.stranger("editor");
    p.append("missions.md", "- a\n- b\n").unwrap();
    let text = p.cat("missions.md").unwrap();
    let db = rusqlite::Connection::open(w.dir.path().join("missions.db")).unwrap();
    db.execute("update missions set state = 'done' where text = 'a'", []).unwrap();
    assert!(p.cat("missions.md").unwrap().contains("## Done\n- a") || count(&w, "done") == 1);
    p.save("missions.md", &text.replace("- b\n", "- b\n- c\n")).unwrap();
    // The text is nearer to what it had read first: the other program's change stays.
    assert_eq!((count(&w, "done"), count(&w, "pending")), (1, 2));
}
