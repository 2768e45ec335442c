//! Tests of the rules which paths are managed.

use super::*;
use crate::documents::settings::{NAME, Settings};

fn rules(settings: &str) -> RuleSet {
    RuleSet::new(&Settings::parse(settings).unwrap()).unwrap()
}

fn class(rules: &RuleSet, path: &str) -> Class {
    rules.find(path).map_or(Class::Plain, |r| r.class)
}

use Class::Managed;
use FileKind::{Event, Json, Queue, Text, Yaml};

#[test]
fn defaults_fit_koan_and_atomic_agent() {
    let r = rules("");
    for (path, want) in [
        ("events/a.json", Managed(Event)),
        ("events/.state.json", Managed(Json)),
        ("events/done/a.json", Class::Plain),
        ("recurring.json", Managed(Json)),
        (".koan-tracker.json", Managed(Json)),
        ("state/x.json", Class::Plain),
        ("projects.yaml", Managed(Yaml)),
        ("automation_rules.yaml", Managed(Yaml)),
        ("other.yaml", Class::Plain),
        ("memory/a.md", Managed(Text)),
        ("memory/projects/x/y.md", Managed(Text)),
        ("soul.md", Managed(Text)),
        ("outbox.md", Managed(Queue)),
        ("memory/outbox.md", Managed(Text)),
        ("journal/pending.md", Managed(Queue)),
        ("journal/2026-07-01/p.md", Managed(Queue)),
        ("journal/2026-07-01/p.txt", Class::Plain),
        ("missions.md", Class::Document),
        ("missions-quarantine.md", Class::Document),
        ("config.json", Class::Document),
        ("config.yaml", Class::Document),
        ("config.schema.json", Managed(Json)),
        ("missions.db", Class::Database),
        ("missions.db-wal", Class::Database),
        ("memory/notes.sqlite", Class::Database),
        ("missions.lock", Class::Lock),
        ("scheduler.lock", Class::Lease),
        ("telegram-7.lock", Class::Lease),
        ("uv.lock", Class::Plain),
        ("sessions.live/12", Class::Marker),
        ("instancefs.toml", Class::Own),
        (".instancefs-lock", Class::Own),
        (".instancefs/README", Class::Own),
        ("hooks/a.py", Class::Plain),
        ("Outbox.md", Managed(Text)),
        ("RECURRING.JSON", Class::Plain),
    ] {
        assert_eq!(class(&r, path), want, "{path}");
    }
}

#[test]
fn temporary_names_and_tools_are_plain() {
    let r = rules("[files]\n\"**\" = \"text\"\n");
    for path in [
        "a.json.tmp",
        "tmpab12cd_9.json",
        "tmpab12cd_9",
        ".tmpXYZ.json",
        ".#outbox.md",
        "#outbox.md#",
        "4913",
        "memory/4913",
        "outbox.md~",
        ".outbox.md.swp",
        "memory/a.md.refused",
        "recurring.json.refused-2",
        "outbox.md.unsaved-17",
        "a.md.tmp.12.1700",
    ] {
        assert_eq!(class(&r, path), Class::Plain, "{path}");
        assert_eq!(r.find(path).unwrap().about, "a temporary name", "{path}");
    }
    for path in ["memory/.git/a.md", ".git/config", "x/node_modules/p/a.json", ".git"] {
        assert_eq!(class(&r, path), Class::Plain, "{path}");
    }
    for path in ["x/y.txt", "tmp.json", "tmp-notes.json", "tmpab.json"] {
        assert_eq!(class(&r, path), Managed(Text), "{path}");
    }
}

#[test]
fn settings_come_before_defaults_and_after_what_is_fixed() {
    let r = rules(
        "[files]\n\"journal/keep/**\" = \"plain\"\n\"journal/**\" = \"text\"\n\"*.bak\" = \"text\"\n\
         \"**/*.d?\" = \"text\"\n\"missions*.md\" = \"text\"\n\"a/?.md\" = \"queue\"\n\
         [names]\nleases = [\"my.lock\"]\n",
    );
    for (path, want) in [
        ("journal/keep/a.md", Class::Plain),
        ("journal/a.md", Managed(Text)),
        ("a.bak", Managed(Text)),
        ("missions.md", Class::Document),
        ("x.db", Class::Database),
        ("a/b.md", Managed(Queue)),
        ("a/bb.md", Class::Plain),
        ("a/b/c.md", Class::Plain),
        ("my.lock", Class::Lease),
        ("scheduler.lock", Class::Plain),
        ("sessions.live/1", Class::Marker),
    ] {
        assert_eq!(class(&r, path), want, "{path}");
    }
    let at = |glob: &str| r.rules().position(|rule| rule.glob == glob).unwrap();
    let order = ["missions.md", "my.lock", "journal/**", "**/*~", "*.json"].map(at);
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_setting_that_can_never_count_is_an_error() {
    for glob in ["missions.md", "**/*.db", "missions.db", ".git/config", "scheduler.lock"] {
        let text = format!("\n[files]\n\"{glob}\" = \"text\"\n");
        let e = RuleSet::new(&Settings::parse(&text).unwrap()).unwrap_err();
        assert_eq!(e.line, Some(3), "{e}");
        assert!(e.message.starts_with("counts for nothing: "), "{e}");
    }
}

#[test]
fn reasons_name_the_glob_and_where_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(NAME), "[files]\n\"notes/*\" = \"queue\"\n").unwrap();
    let rules = StoreRules::open(dir.path()).unwrap();
    let why = |path: &str| rules.judge(path).why;
    assert_eq!(why("notes/a"), "\"notes/*\" = \"queue\" (instancefs.toml line 2)");
    assert_eq!(why("notes/a~"), "a temporary name, \"**/*~\" (default)");
    assert_eq!(why("outbox.md"), "\"outbox.md\" = \"queue\" (default)");
    assert_eq!(why("x/y"), "no glob fits");
    assert_eq!(rules.kind("notes/a"), Some(Queue));
    assert_eq!(rules.judge("missions.md").kind, None);
}

#[test]
fn changed_settings_hold_and_broken_ones_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(NAME);
    let rules = StoreRules::open(dir.path()).unwrap();
    assert_eq!(rules.kind("notes/a"), None);
    std::fs::write(&file, "[files]\n\"notes/*\" = \"queue\"\n").unwrap();
    rules.reload();
    assert_eq!(rules.kind("notes/a"), Some(Queue));
    std::fs::write(&file, "[files]\n\"notes/*\" = \"quue\"\n").unwrap();
    rules.reload();
    assert_eq!(rules.kind("notes/a"), Some(Queue));
    assert_eq!(rules.problem().unwrap().line, Some(2));
    assert!(StoreRules::open(dir.path()).is_err());
    assert_eq!(StoreRules::lenient(dir.path()).unwrap().kind("notes/a"), None);
    std::fs::remove_file(&file).unwrap();
    rules.reload();
    assert_eq!((rules.kind("notes/a"), rules.problem()), (None, None));
}
