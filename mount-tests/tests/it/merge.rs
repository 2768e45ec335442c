//! R4 and the merge rules: what becomes of two saves that meet.

use mount_tests::{Instance, samples};

const THREE: &str = "## Pending\n- one\n- two\n- three\n\n## In Progress\n\n## Done\n";

/// Two programs that looked at the same version save one after the other.
fn both(text: &str, first: &str, second: &str) -> Instance {
    let it = Instance::with(&[("missions.md", text)]);
    let (mut a, mut b) = (it.python(), it.python());
    for p in [&mut a, &mut b] {
        p.run("text = open('missions.md', newline='').read()");
    }
    for (p, change) in [(&mut a, first), (&mut b, second)] {
        p.run(&format!("new = {change}\nopen('missions.md', 'w', newline='').write(new)"));
    }
    it
}

#[test]
fn changes_of_different_missions_are_both_there() {
    let it = both(THREE, "text.replace('- one', '- ONE')", "text.replace('- three', '- THREE')");
    assert_eq!(it.texts("pending"), ["ONE", "two", "THREE"]);
}

#[test]
fn changes_of_neighbouring_missions_are_both_there() {
    let it = both(THREE, "text.replace('- one', '- one a')", "text.replace('- two', '- two b')");
    assert_eq!(it.texts("pending"), ["one a", "two b", "three"]);
}

#[test]
fn the_later_of_two_edits_of_one_mission_wins() {
    let it = both(THREE, "text.replace('- two', '- two a')", "text.replace('- two', '- two b')");
    assert_eq!(it.texts("pending"), ["one", "two b", "three"]);
}

#[test]
fn the_same_change_on_both_sides_is_one_change() {
    let it = both(
        THREE,
        "text.replace('- two\\n', '- two\\n- new\\n')",
        "text.replace('- two\\n', '- two\\n- new\\n')",
    );
    assert_eq!(it.texts("pending"), ["one", "two", "new", "three"]);
}

#[test]
fn insertions_at_the_same_place_are_both_there_the_earlier_first() {
    let it = both(
        THREE,
        "text.replace('- two\\n', '- two\\n- from a\\n')",
        "text.replace('- two\\n', '- two\\n- from b\\n')",
    );
    assert_eq!(it.texts("pending"), ["one", "two", "from a", "from b", "three"]);
}

#[test]
fn a_removal_does_not_beat_a_change_made_since_the_look() {
    let it = both(THREE, "text.replace('- two', '- two, changed')", "text.replace('- two\\n', '')");
    assert_eq!(it.texts("pending"), ["one", "two, changed", "three"]);
}

#[test]
fn an_edit_brings_a_removed_mission_back() {
    let it = both(THREE, "text.replace('- two\\n', '')", "text.replace('- two', '- two, better')");
    let mut texts = it.texts("pending");
    texts.sort();
    assert_eq!(texts, ["one", "three", "two, better"]);
}

#[test]
fn text_and_state_of_one_mission_merge_apart() {
    let it = both(
        THREE,
        "text.replace('- two', '- two with more words')",
        "text.replace('- two\\n', '').replace('## Done\\n', '## Done\\n- two\\n')",
    );
    assert_eq!(it.texts("done"), ["two with more words"]);
    assert_eq!(it.texts("pending"), ["one", "three"]);
}

#[test]
fn moving_a_line_changes_the_state_of_the_same_row() {
    let it = Instance::with(&[("missions.md", THREE)]);
    let id = |text: &str| -> (i64, Option<String>, Option<String>) {
        it.database()
            .query_row(
                "select id, started_at, completed_at from missions where text = ?1",
                [text],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .expect("row")
    };
    let before = id("two");
    it.actor()
        .python(
            "t=open('missions.md').read()\n\
             open('missions.md','w').write(t.replace('- two\\n','').replace('## In Progress\\n','## In Progress\\n- two\\n'))",
            &[],
        )
        .ok();
    let started = id("two");
    assert_eq!(started.0, before.0, "the same row");
    assert!(started.1.is_some_and(|t| t.len() == 16), "started_at is stamped");
    it.actor()
        .python(
            "t=open('missions.md').read().splitlines()\n\
             t.remove(next(l for l in t if l.startswith('- two')))\n\
             t.insert(t.index('## Done')+1, '- two')\n\
             open('missions.md','w').write('\\n'.join(t)+'\\n')",
            &[],
        )
        .ok();
    let done = id("two");
    assert!(done.2.is_some(), "completed_at is stamped");
    assert_eq!(done.0, before.0);
}

#[test]
fn an_edited_and_moved_mission_keeps_its_row() {
    let it = Instance::with(&[("missions.md", THREE)]);
    let id = |text: &str| -> i64 {
        it.database()
            .query_row("select id from missions where text = ?1", [text], |row| row.get(0))
            .expect(text)
    };
    let before = id("two");
    it.actor()
        .python(
            "t=open('missions.md').read()\n\
             open('missions.md','w').write(t.replace('- two\\n','').replace('## Done\\n','## Done\\n- two (commit abc)\\n'))",
            &[],
        )
        .ok();
    assert_eq!(id("two (commit abc)"), before);
}

#[test]
fn a_new_position_in_pending_is_a_new_place_in_the_queue() {
    let it = Instance::with(&[("missions.md", THREE)]);
    it.actor()
        .python(
            "t=open('missions.md').read()\n\
             open('missions.md','w').write(t.replace('- three\\n','').replace('## Pending\\n','## Pending\\n- three\\n'))",
            &[],
        )
        .ok();
    assert_eq!(it.texts("pending"), ["three", "one", "two"]);
}

#[test]
fn an_unrecognised_header_over_seen_missions_is_refused() {
    let it = Instance::with(&[("missions.md", THREE)]);
    let ran = it.actor().python(
        "t=open('missions.md').read()\nwith open('missions.md','w') as f: f.write(t.replace('## Pending','## Pendng'))",
        &[],
    );
    ran.failed();
    assert_eq!(it.read("missions.md"), THREE);
    assert!(it.refused("missions.md").contains("## Pendng"));
}

#[test]
fn a_formatter_that_turns_items_into_stars_is_refused() {
    let it = Instance::with(&[("missions.md", THREE)]);
    it.actor().bash("cat missions.md >/dev/null; sed -i 's/^- /* /' missions.md").failed();
    assert_eq!(it.read("missions.md"), THREE);
    assert_eq!(it.rows().len(), 3);
}

#[test]
fn comments_merge_like_lines() {
    let it = both(
        samples::MISSIONS,
        "text.replace('# a comment between', '# a changed comment between')",
        "text.replace('Nothing here is', 'Nothing at all here is')",
    );
    let text = it.read("missions.md");
    assert!(text.contains("# a changed comment between"), "{text}");
    assert!(text.contains("Nothing at all here is"), "{text}");
    assert_eq!(it.rows().len(), 6);
}

#[test]
fn a_line_end_is_kept_and_does_not_count_as_a_change() {
    let crlf = THREE.replace('\n', "\r\n");
    let it = both(&crlf, "text.replace('- one', '- ONE')", "text.replace('\\r\\n', '\\n')");
    assert_eq!(it.texts("pending"), ["ONE", "two", "three"]);
}

#[test]
fn config_saves_merge_by_key_path() {
    let it = Instance::with(&[("config.json", samples::CONFIG_JSON)]);
    let (mut a, mut b) = (it.python(), it.python());
    for p in [&mut a, &mut b] {
        p.run("data = json.load(open('config.json'))");
    }
    a.run("data['alpha']['deep']['a'] = 2\njson.dump(data, open('config.json', 'w'))");
    b.run("data['alpha']['keep'] = False\ndel data['name']\njson.dump(data, open('config.json', 'w'))");
    assert_eq!(
        it.sh("jq -c '[.alpha.deep.a, .alpha.keep, .name]' config.json").trim(),
        "[2,false,null]"
    );
}

#[test]
fn a_removed_config_key_that_was_changed_meanwhile_stays() {
    let it = Instance::with(&[("config.json", "{\"a\": {\"x\": 1}, \"b\": 1}\n")]);
    let (mut a, mut b) = (it.python(), it.python());
    for p in [&mut a, &mut b] {
        p.run("data = json.load(open('config.json'))");
    }
    a.run("data['a']['x'] = 2\njson.dump(data, open('config.json', 'w'))");
    b.run("del data['a']\njson.dump(data, open('config.json', 'w'))");
    assert_eq!(it.sh("jq -c .a config.json").trim(), "{\"x\":2}");
}

#[test]
fn config_arrays_of_named_objects_merge_by_name() {
    let it = Instance::with(&[(
        "config.json",
        "{\"m\": [{\"id\": \"a\", \"v\": 1}, {\"id\": \"b\", \"v\": 1}]}\n",
    )]);
    let (mut a, mut b) = (it.python(), it.python());
    for p in [&mut a, &mut b] {
        p.run("data = json.load(open('config.json'))");
    }
    a.run("data['m'][0]['v'] = 2\njson.dump(data, open('config.json', 'w'))");
    b.run("data['m'].append({'id': 'c', 'v': 3})\njson.dump(data, open('config.json', 'w'))");
    assert_eq!(
        it.sh("jq -c '.m | map([.id,.v])' config.json").trim(),
        "[[\"a\",2],[\"b\",1],[\"c\",3]]"
    );
}

#[test]
fn a_merge_that_would_be_invalid_is_refused_to_the_later_saver() {
    let schema = "{\"type\":\"object\",\"maxProperties\":2}";
    let it = Instance::with(&[("config.json", "{\"a\": 1}\n"), ("config.schema.json", schema)]);
    let (mut a, mut b) = (it.python(), it.python());
    for p in [&mut a, &mut b] {
        p.run("data = json.load(open('config.json'))");
    }
    a.run("data['b'] = 1\njson.dump(data, open('config.json', 'w'))");
    b.run("data['c'] = 1\nf = open('config.json', 'w')\njson.dump(data, f)");
    assert_eq!(b.errno("f.close()"), libc::EIO);
    assert_eq!(it.sh("jq -Sc . config.json").trim(), "{\"a\":1,\"b\":1}");
}
