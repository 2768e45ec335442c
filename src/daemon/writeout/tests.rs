use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use super::*;
use crate::model::DocId;
use crate::store::Store;

fn instance(dir: &Path) -> Instance {
    Instance::with(dir, Store::create(dir).unwrap()).unwrap()
}

fn put(instance: &Instance, view: View, text: &str) {
    let seen = Some(instance.live.current(view.doc()).unwrap());
    assert!(merge(instance, view, text.as_bytes(), seen).unwrap().is_some());
}

fn shown(instance: &Instance, view: View) -> String {
    let version = instance.live.current(view.doc()).unwrap();
    String::from_utf8(version.view(view).unwrap().to_vec()).unwrap()
}

const A: &str = "# Missions\n\n## Pending\n- a\n\n## Done\n";
const B: &str = "# Missions\n\n## Pending\n- a\n- b\n\n## Done\n";

#[test]
fn a_fresh_store_has_no_files() {
    let dir = tempfile::tempdir().unwrap();
    write_out(&instance(dir.path())).unwrap();
    for view in View::ALL {
        assert!(!dir.path().join(view.name()).exists(), "{view:?}");
    }
}

#[test]
fn what_is_written_out_is_what_was_shown_and_no_edit() {
    let dir = tempfile::tempdir().unwrap();
    let it = instance(dir.path());
    put(&it, View::MissionsMd, A);
    put(&it, View::ConfigYaml, "a: 1\n");
    write_out(&it).unwrap();
    for view in [View::MissionsMd, View::ConfigYaml, View::ConfigJson] {
        let path = dir.path().join(view.name());
        assert_eq!(fs::read_to_string(&path).unwrap(), shown(&it, view));
        let version = it.live.current(view.doc()).unwrap();
        let meta = path.metadata().unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec() as u32), version.mtime.parts());
    }
    assert_eq!(take_in(&it).unwrap(), []);
}

#[test]
fn a_file_that_is_right_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let it = instance(dir.path());
    put(&it, View::MissionsMd, A);
    let path = dir.path().join("missions.md");
    fs::write(&path, A).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
    write_out(&it).unwrap();
    assert_eq!(path.metadata().unwrap().modified().unwrap(), long_ago);
    // It keeps its mode when it has to be replaced.
    put(&it, View::MissionsMd, B);
    write_out(&it).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), B);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn an_older_file_is_no_edit_and_an_edit_is_merged_with_what_was_written_out() {
    let dir = tempfile::tempdir().unwrap();
    let it = instance(dir.path());
    put(&it, View::MissionsMd, A);
    write_out(&it).unwrap();
    put(&it, View::MissionsMd, B);
    // The daemon was killed: the file is older than the rows.
    assert_eq!(take_in(&it).unwrap(), []);
    assert_eq!(shown(&it, View::MissionsMd), B);
    // Somebody who sees only the old file takes `a` out and adds `c`.
    fs::write(dir.path().join("missions.md"), A.replace("- a\n", "- c\n")).unwrap();
    let taken = take_in(&it).unwrap();
    assert_eq!(taken, [TakenIn::Merged { view: View::MissionsMd, overlaps: 0 }]);
    let merged = shown(&it, View::MissionsMd);
    assert!(merged.contains("- b\n") && merged.contains("- c\n"), "{merged}");
    assert!(!merged.contains("- a\n"), "{merged}");
    write_out(&it).unwrap();
    assert_eq!(take_in(&it).unwrap(), []);
}

#[test]
fn a_deleted_file_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let it = instance(dir.path());
    put(&it, View::MissionsMd, A);
    write_out(&it).unwrap();
    fs::remove_file(dir.path().join("missions.md")).unwrap();
    assert_eq!(take_in(&it).unwrap(), []);
    write_out(&it).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("missions.md")).unwrap(), A);
}

#[test]
fn a_refused_edit_is_kept_beside_and_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let it = instance(dir.path());
    put(&it, View::ConfigJson, "{\"a\": 1}\n");
    write_out(&it).unwrap();
    fs::write(dir.path().join("config.json"), "{\"a\": ").unwrap();
    let taken = take_in(&it).unwrap();
    let [TakenIn::Refused { view: View::ConfigJson, kept_as, .. }] = &taken[..] else {
        panic!("{taken:?}");
    };
    let kept = fs::read_to_string(dir.path().join(kept_as)).unwrap();
    assert!(kept.ends_with("{\"a\": "), "{kept}");
    assert_eq!(it.store.refusals(9).unwrap().len(), 1);
    write_out(&it).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("config.json")).unwrap(), "{\"a\": 1}\n");
    assert_eq!(it.live.current(DocId::Config).unwrap().rev.0, 1);
}

#[test]
fn a_symlink_in_the_store_is_neither_read_nor_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::write(&outside, "- mine").unwrap();
    let store = dir.path().join("s");
    fs::create_dir(&store).unwrap();
    std::os::unix::fs::symlink(&outside, store.join("missions.md")).unwrap();
    let it = instance(&store);
    assert_eq!(take_in(&it).unwrap(), []);
    put(&it, View::MissionsMd, A);
    write_out(&it).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "- mine");
    assert_eq!(fs::read_to_string(store.join("missions.md")).unwrap(), A);
}
