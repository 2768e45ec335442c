//! Rows that are replaced under us: what waits for `missions.lock` survives, what is the same
//! stays the same, and a rendering of the rows is no change (R9).

use mount_tests::{Instance, eventually, samples};

use super::koan::{FRENCH, holder, lets_go, log, program};

const TWO: &str =
    "# Missions\n\n## Pending\n- one\n- two\n\n## In Progress\n\n## Done\n\n## Failed\n";

#[test]
fn a_holder_that_saves_the_file_and_then_replaces_all_rows_removes_nothing_it_has_not_seen() {
    let it = Instance::with(&[("missions.md", TWO)]);
    let mut holder = holder(&it);
    holder.run("rows = koan.missions('.')");
    it.stranger_appends("missions.md", "- waits\n");
    it.stranger("sed -i 's/^- two$/- two, by hand/' missions.md");
    // Its own saves, of every kind, under its lock: an export, an append, an edit of the file.
    holder.run("koan.export('.', koan.render(rows))");
    holder.run("open('missions.md', 'a').write('- own\\n')");
    assert!(holder.eval("[r['text'] for r in koan.missions('.')]").to_string().contains("own"));
    holder.run("text = open('missions.md').read()\nopen('missions.md', 'w').write(text.replace('- one\\n', '- one, own\\n'))");
    let rows = holder.eval("[r['text'] for r in koan.missions('.')]");
    assert_eq!(rows, serde_json::json!(["one, own", "two", "own"]), "its own changes are rows");
    // All rows again, from what it knows; twice, and an export.
    holder.run("rows[0]['text'] = 'one, own'\nrows.append(dict(rows[0], text='own'))");
    holder.run("koan.replace_all('.', rows)\nkoan.export('.')\nkoan.replace_all('.', rows)");
    let shown = it.read("missions.md");
    for line in ["- waits\n", "- two, by hand\n", "- one, own\n", "- own\n"] {
        assert_eq!(shown.matches(line).count(), 1, "{line:?} in {shown}");
    }
    lets_go(&mut holder);
    eventually("rows", || (it.count("waits") == 1 && it.count("two, by hand") == 1).then_some(()));
    assert_eq!(it.texts("pending").len(), 4, "{:?}", it.rows());
    assert_eq!(it.read("missions.md"), shown);
}

#[test]
fn a_removal_that_waits_is_not_undone_by_a_replace_all() {
    let it = Instance::with(&[("missions.md", TWO)]);
    let mut holder = holder(&it);
    holder.run("rows = koan.missions('.')");
    it.edit("missions.md", "- one\n", "");
    it.edit("missions.md", "- two\n", "");
    it.edit("missions.md", "## Done\n", "## Done\n- two\n");
    let shown = it.read("missions.md");
    holder.run(
        "koan.replace_all('.', rows)\nkoan.export('.')\nopen('missions.md', 'a').write('- own\\n')",
    );
    holder.run("rows.append(dict(rows[0], text='own'))\nkoan.replace_all('.', rows)");
    lets_go(&mut holder);
    eventually("rows", || (it.count("one") == 0).then_some(()));
    assert_eq!(
        (it.texts("pending"), it.texts("done")),
        (vec!["own".to_owned()], vec!["two".to_owned()])
    );
    assert!(!shown.contains("- one\n"), "{shown}");
    assert!(!it.read("missions.md").contains("- one\n"));
}

#[test]
fn what_waits_survives_a_kill_of_the_daemon_and_a_replace_all_meanwhile() {
    let it = Instance::with(&[("missions.md", TWO)]);
    let mut holder = holder(&it);
    holder.run("rows = koan.missions('.')\nroot = os.environ['STORE']");
    it.append("missions.md", "- waits");
    let shown = it.read("missions.md");
    it.kill_daemon();
    holder.run("koan.replace_all(root, [dict(r, text=r['text'] + '!') for r in rows])");
    it.mount();
    let now = it.read("missions.md");
    assert_eq!(now.lines().count(), shown.lines().count(), "{now}");
    for line in ["- one! ", "- two! ", "- waits\n"] {
        assert_eq!(now.matches(line).count(), 1, "{line:?} in {now}");
    }
    lets_go(&mut holder);
    eventually("rows", || (it.count("waits") == 1).then_some(()));
    assert_eq!(it.texts("pending"), ["one!", "two!", "waits"]);
}

#[test]
fn its_rendering_of_everything_in_any_order_and_form_changes_nothing() {
    let it = Instance::with(&[("missions.md", FRENCH)]);
    for n in 0..4 {
        it.append(
            "missions.md",
            &format!("## Terminées\n- done {n} ✅ (2026-07-0{} 10:00)", n + 1),
        );
    }
    let mut program = program(&it);
    program.run("koan.insert('.', 'new')");
    let (before, revisions, rows) = (it.read("missions.md"), log(&it).len(), it.rows());
    for line in ["- a line that is none of CI's\n", "## En attente\n", "```\n## Done\n- fenced\n"] {
        assert!(before.contains(line), "{line:?} in {before}");
    }
    let forms = [
        "text",
        "koan.render(koan.missions('.'), False, koan.beside('.'))",
        // Other blank lines, other spelling of markers, no final newline, headers in capitals.
        "text.replace('\\n\\n## ', '\\n\\n\\n\\n## ')",
        "text.replace('\\n\\n## ', '\\n## ')",
        "text.replace('⏳(', '⏳ (').replace('▶(', '▶\\ufe0f (').replace('✅ (', '✅(')",
        "text.rstrip()",
        "text.replace('\\n', '\\r\\n')",
    ];
    for form in forms {
        program.run(&format!(
            "with koan.locked('.'):\n  text = koan.render(koan.missions('.'), True, koan.beside('.'))\n  koan.export('.', {form})"
        ));
        assert_eq!(it.read("missions.md"), before, "{form}");
        assert_eq!(it.rows(), rows, "{form}");
    }
    program.run("with koan.locked('.'):\n  rows = koan.missions('.')\n  koan.replace_all('.', rows)\n  koan.export('.')");
    assert_eq!(it.read("missions.md"), before);
    assert_eq!(log(&it).len(), revisions, "no revision of any of these");
}

#[test]
fn the_right_one_of_two_missions_with_a_common_prefix_is_finished() {
    for (name, save) in [
        ("whole", "open('missions.md', 'w').write(text)"),
        ("rename", "open('t', 'w').write(text); os.rename('t', 'missions.md')"),
    ] {
        for (target, other) in [
            ("fix login", "fix login on mobile"),
            ("fix login on mobile", "fix login"),
            ("fix login on mobile", "fix login on"),
        ] {
            for target_first in [true, false] {
                for tail in ["", " ✅ (2026-07-01 10:00)", " (commit abc123)"] {
                    let pair = if target_first { [target, other] } else { [other, target] };
                    let text = format!(
                        "# Missions\n\n## Pending\n- {} ⏳(2026-07-01T09:00)\n- {} ⏳(2026-07-01T09:01)\n\n## In Progress\n\n## Done\n\n## Failed\n",
                        pair[0], pair[1]
                    );
                    let it = Instance::with(&[("missions.md", &text)]);
                    let ids = |text: &str| -> i64 {
                        let sql = "select id from missions where text like ?1 || '%' and text not like ?2 order by length(text)";
                        let not = if text == target { other } else { target };
                        it.database().query_row(sql, [text, not], |r| r.get(0)).expect(text)
                    };
                    let before = (ids(target), ids(other));
                    let mut agent = it.python();
                    agent.run("text = open('missions.md').read()");
                    agent.run(&format!(
                        "import re\nline = re.search(r'^- {target} ⏳.*\\n', text, re.M).group(0)\n\
                         text = text.replace(line, '', 1).replace('## Done\\n', '## Done\\n- {target}{tail}\\n', 1)"
                    ));
                    agent.run(save);
                    let said = format!(
                        "{name} {target:?} {target_first} {tail:?}: {}",
                        it.read("missions.md")
                    );
                    assert_eq!(it.texts("pending"), [other], "{said}");
                    let done = it.texts("done");
                    assert_eq!(done.len(), 1, "{said}");
                    assert!(done[0].starts_with(target), "{said}");
                    assert_eq!((ids(target), ids(other)), before, "{said}");
                    let (queued, completed): (Option<String>, Option<String>) = it
                        .database()
                        .query_row(
                            "select queued_at, completed_at from missions where state = 'done'",
                            [],
                            |r| Ok((r.get(0)?, r.get(1)?)),
                        )
                        .expect("row");
                    assert!(queued.is_some() && completed.is_some(), "{said}");
                }
            }
        }
    }
}

#[test]
fn ids_of_rows_that_nobody_touches_stay() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let ids = || -> Vec<(i64, String)> {
        let db = it.database();
        let mut q = db.prepare("select id, text from missions order by id").expect("select");
        let rows = q.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).expect("rows");
        rows.map(|r| r.expect("row")).collect()
    };
    let before = ids();
    it.append("missions.md", "- more");
    it.edit("missions.md", "- third task", "- 3rd task");
    it.edit("missions.md", "- second task [project:web]\n", "");
    it.database()
        .execute(
            "insert into missions(id, text, state, sequence) values (900, 'sql', 'pending', 50)",
            [],
        )
        .expect("insert");
    it.append("missions.md", "- and more");
    let after = ids();
    for (id, text) in
        before.iter().filter(|(_, t)| !t.starts_with("third") && !t.starts_with("second"))
    {
        assert!(after.contains(&(*id, text.clone())), "{id} {text} in {after:?}");
    }
    let third = before.iter().find(|(_, t)| t.starts_with("third")).expect("third").0;
    assert!(after.iter().any(|(id, t)| *id == third && t.starts_with("3rd")), "{after:?}");
    assert!(after.contains(&(900, "sql".to_owned())));
}

/// The program, told of the store: it works with and without a mount.
fn command(it: &Instance, args: &[&str]) -> mount_tests::Ran {
    let store = it.store();
    let all: Vec<&str> =
        ["-C", store.to_str().expect("UTF-8")].iter().chain(args).copied().collect();
    it.outside().instancefs(&all)
}

/// Text and number of every mission, by the command.
fn numbers(it: &Instance) -> std::collections::BTreeMap<String, u64> {
    let all = command(it, &["missions", "--json"]).ok();
    let each = all.lines().map(|line| {
        let mission: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = mission["text"].as_str().expect("text").to_owned();
        (text, mission["number"].as_u64().expect("number"))
    });
    each.collect()
}

#[test]
fn numbers_stay_whatever_is_replaced_moved_or_edited_and_are_never_used_again() {
    let it = Instance::with(&[("missions.md", TWO)]);
    let before = numbers(&it);
    assert_eq!(before.len(), 2, "{before:?}");
    let mut holder = holder(&it);
    // All rows anew, with other ids; then an edit, a move, a removal and an addition.
    holder.run("rows = koan.missions('.')\nkoan.replace_all('.', rows)\nkoan.replace_all('.', rows)\nkoan.export('.')");
    lets_go(&mut holder);
    assert_eq!(numbers(&it), before);
    it.edit("missions.md", "- one\n", "- one, more of it\n");
    it.edit(
        "missions.md",
        "- two\n\n## In Progress\n\n## Done\n",
        "\n## In Progress\n\n## Done\n- two\n",
    );
    it.append("missions.md", "- three");
    let after = numbers(&it);
    assert_eq!((after["one, more of it"], after["two"]), (before["one"], before["two"]));
    let three = after["three"];
    assert!(before.values().all(|n| *n < three), "{after:?}");
    it.edit("missions.md", "- three\n", "");
    it.append("missions.md", "- four");
    assert!(numbers(&it)["four"] > three, "never used again");
    it.kill_daemon();
    it.mount();
    let again = numbers(&it);
    assert_eq!((again["one, more of it"], again["two"]), (before["one"], before["two"]));
    // One by its number, and as it was.
    let shown = command(&it, &["missions", &format!("#{}", before["two"])]).ok();
    assert_eq!(shown.split_whitespace().skip(1).collect::<Vec<_>>(), ["done", "two"]);
    it.unmount();
    assert_eq!(numbers(&it), again, "without a mount");
    let gone = command(&it, &["missions", &three.to_string()]).failed();
    assert!(gone.stderr.contains(&format!("no such mission: #{three}")), "{}", gone.stderr);
}
