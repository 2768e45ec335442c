//! Lines that the format does not know, by every way in and through a whole turn of a program that
//! replaces all rows and exports: kept verbatim or refused whole, never dropped, never eaten.

use mount_tests::{Instance, eventually};

use super::koan::program;

/// Lines that are no missions, as people and programs leave them.
const LAYOUT: &[&str] = &[
    "intro before the first header",
    "# Missions of mine",
    "#hashtag",
    "* a star",
    "+ a plus",
    "1. a number",
    "12) another",
    "(none)",
    "<!-- a comment -->",
    "---",
    "| a | table |",
    "> quoted",
];

/// Items whose text is to stay as it is.
const ITEMS: &[&str] = &[
    "glyphs ⏳ in ✅ prose ❌ and ▶ more",
    "broken ⏳(2026-99-99T99:99)",
    "unclosed ⏳(2026-07-01T09:00",
    "✅ first",
    "checked ✅ (yesterday)",
    "twice ⏳(2026-07-01T09:00) ⏳(2026-07-01T09:00) tail",
    "tag [project:web] inside",
    "[complexity:simple] in front",
    "tabs\tand  two blanks",
    "«ünï» 🚀 \u{202e}rtl\u{202c} zero\u{200b}width",
    "line\u{2028}separator and par\u{2029}agraph",
    "form\u{c}feed and vertical\u{b}tab and nel\u{85}",
    "`code` **bold** [link](x) \\ backslash \"quotes\" 'single' $HOME $(id) %s {}",
    "ends with a colon:",
    "- starts with a bullet",
    "## looks like a header",
    "12. looks like a list",
    "bom\u{feff}inside",
];

fn text_of_all() -> String {
    let mut text = String::from("\u{feff}preamble\n\n# Missions\n\n## Pending\n");
    for (n, item) in ITEMS.iter().enumerate() {
        text.push_str(&format!("- {item}\n"));
        if let Some(line) = LAYOUT.get(n) {
            text.push_str(&format!("\n{line}\n"));
        }
    }
    text.push_str("- parent\n  - child\n    - grandchild\n  continued\n\n  after a blank\n");
    text.push_str("- fenced\n  ```sh\n  - not an item\n  ## Done\n  ```\n");
    text.push_str("### Block [project:b]\n- step one\n  deeper\nstep two\n\n");
    text.push_str("- open fence\n  ```\n  not closed\n- after the open fence\n");
    text.push_str("\n## Somewhere else\n- kept, no mission\nfree text\n");
    text.push_str("\n## In Progress\n\n\n\n## Done\n- old ✅ (2026-06-01 10:00)\n\n## Failed\n");
    text
}

fn turn(it: &Instance) {
    let mut program = program(it);
    // Twice: what the first turn made of it is read by the second one.
    for _ in 0..2 {
        program.run("koan.modify('.', lambda rows: rows)");
    }
}

#[test]
fn odd_texts_stay_byte_for_byte_by_every_way_of_saving_and_through_a_whole_turn() {
    let text = text_of_all();
    let crlf = text.replace('\n', "\r\n");
    let unended = text.trim_end().to_owned();
    for text in [&text, &crlf, &unended] {
        for save in [
            "open('missions.md', 'w', newline='').write(text)",
            "open('t', 'w', newline='').write(text); os.rename('t', 'missions.md')",
            "f = open('missions.md', 'r+', newline=''); f.write(text); f.truncate(); f.close()",
        ] {
            let it = Instance::fresh();
            let mut writer = it.python();
            writer.run("open('missions.md').read()");
            std::fs::write(it.scratch("text"), text).expect("write");
            writer.run("text = open(os.environ['SCRATCH'] + '/text', newline='').read()");
            writer.run(save);
            assert_eq!(it.read("missions.md"), *text, "{save}");
            let rows = it.rows();
            for item in ITEMS {
                assert!(rows.iter().any(|(t, _)| t == item.trim()), "{item:?} in {rows:?}");
            }
            turn(&it);
            assert_eq!(it.read("missions.md"), *text, "{save}: after a turn");
            assert_eq!(it.rows(), rows, "{save}");
            // And while somebody else changes a line in the middle.
            let mut program = program(&it);
            program
                .run("koan.insert('.', 'one more')\nkoan.move('.', 'ends with a colon:', 'done')");
            let now = it.read("missions.md");
            for line in text.lines().filter(|l| !l.contains("ends with a colon")) {
                assert!(now.contains(line), "{line:?} is gone: {now}");
            }
            assert_eq!(it.kept(), Vec::<String>::new());
        }
    }
}

#[test]
fn odd_lines_that_are_appended_are_kept() {
    let it = Instance::with(&[("missions.md", "# Missions\n\n## Pending\n- old\n\n## Done\n")]);
    for item in ITEMS {
        it.append("missions.md", &format!("- {item}"));
    }
    for line in LAYOUT {
        it.append("missions.md", line);
    }
    it.append("missions.md", "- parent\n  - child\n  continued");
    it.append("missions.md", "- fenced\n  ```\n  ## Done\n  ```");
    it.append("missions.md", "- open\n  ```\n  not closed");
    it.append("missions.md", "- crlf\r");
    it.append("missions.md", "- the last one");
    let check = |text: &str| {
        for item in ITEMS {
            assert_eq!(text.matches(&format!("- {item}\n")).count(), 1, "{item:?} in {text}");
        }
        for line in LAYOUT {
            assert!(text.contains(line), "{line:?} in {text}");
        }
        for line in [
            "- parent\n  - child\n  continued\n",
            "  ```\n  ## Done\n  ```\n",
            "- open\n  ```\n  not closed\n",
            "- crlf\n",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
    };
    let text = it.read("missions.md");
    check(&text);
    for item in ITEMS {
        assert_eq!(it.count(item.trim()), 1, "{item:?} in {:?}", it.rows());
    }
    assert_eq!(it.count("the last one"), 1, "{:?}", it.rows());
    turn(&it);
    assert_eq!(it.read("missions.md"), text);
}

#[test]
fn odd_texts_of_rows_are_shown_kept_and_survive_a_turn_and_an_edit() {
    let it = Instance::with(&[("missions.md", "# Missions\n\n## Pending\n- old\n\n## Done\n")]);
    let db = it.database();
    let rows: Vec<String> = ITEMS
        .iter()
        .map(|s| (*s).to_owned())
        .chain([
            "two\nlines".to_owned(),
            "header\n## Done\n- inside".to_owned(),
            "open\n```\nfence".to_owned(),
            "### Block\n- step\n- step two".to_owned(),
            "x".repeat(100_000),
        ])
        .collect();
    for (n, text) in rows.iter().enumerate() {
        db.execute(
            "insert into missions(text, state, sequence) values (?1, 'pending', ?2)",
            rusqlite::params![text, n as i64 + 10],
        )
        .expect("insert");
    }
    let shown = it.read("missions.md");
    turn(&it);
    let now = it.read("missions.md");
    for (before, after) in shown.lines().zip(now.lines()) {
        assert!(before == after, "{:.200}\n{:.200}", before, after);
    }
    assert!(now == shown);
    it.edit("missions.md", "- old", "- old, edited");
    it.append("missions.md", "- appended");
    let mut now = it.rows().into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    now.retain(|text| text != "old, edited" && text != "appended");
    assert_eq!(now, rows);
    assert_eq!(it.texts("done"), Vec::<String>::new());
}

#[test]
fn a_line_of_a_megabyte_and_ten_thousand_missions_go_every_way() {
    let long = "x".repeat(1 << 20);
    let it = Instance::with(&[(
        "missions.md",
        &format!("# Missions\n\n## Pending\n- {long}\n\n## Done\n"),
    )]);
    assert_eq!(it.count(&long), 1);
    turn(&it);
    assert_eq!(it.count(&long), 1);
    let mut writer = it.python();
    writer.run("text = open('missions.md').read()\nopen('missions.md', 'w').write(text.replace('- x', '- y', 1))");
    writer.run("open('missions.md', 'a').write('- ' + 'z' * (1 << 20) + '\\n')");
    writer.run("text = open('missions.md').read()\nopen('t', 'w').write(text.replace('- z', '- w', 1)); os.rename('t', 'missions.md')");
    let first: Vec<String> = it.rows().into_iter().map(|(t, _)| t[..1].to_owned()).collect();
    assert_eq!(first, ["y", "w"]);

    let many: String =
        (0..10_000).map(|n| format!("- mission {n} [project:p{}]\n", n % 7)).collect();
    let text =
        format!("# Missions\n\n## Pending\n{many}\n## In Progress\n\n## Done\n\n## Failed\n");
    let it = Instance::with(&[("missions.md", &text)]);
    assert_eq!((it.rows().len(), it.read("missions.md") == text), (10_000, true));
    turn(&it);
    assert!(it.read("missions.md") == text);
    let mut writer = it.python();
    writer.run("text = open('missions.md').read()\nnew = text.replace('- mission 5000 ', '- mission 5000, edited ')");
    let mut program = program(&it);
    program.run("koan.insert('.', 'while it was open')");
    writer.run("open('missions.md', 'w').write(new)");
    it.append("missions.md", "- and one more");
    program.run("koan.move('.', 'mission 4999 [project:p1]', 'done')");
    assert_eq!(it.rows().len(), 10_002);
    assert_eq!(
        (it.texts("done").len(), it.count("while it was open"), it.count("and one more")),
        (1, 1, 1)
    );
    assert_eq!(it.count("mission 5000, edited [project:p2]"), 1);
}

#[test]
fn what_cannot_be_kept_is_refused_whole() {
    let it = Instance::with(&[("missions.md", "# Missions\n\n## Pending\n- old\n\n## Done\n")]);
    let before = it.read("missions.md");
    for bad in ["b'- nul \\x00 byte\\n'", "b'- latin \\xe9\\n'", "b'- cut \\xe2\\x82\\n- more\\n'"]
    {
        for save in [
            "f = open('missions.md', 'ab'); f.write(bad); f.flush(); os.fsync(f.fileno())",
            "f = open('missions.md', 'wb'); f.write(text + bad); f.flush(); os.fsync(f.fileno())",
            "f = open('t', 'wb'); f.write(text + bad); f.close(); os.rename('t', 'missions.md')",
        ] {
            let mut writer = it.python();
            writer.run(&format!("bad = {bad}; text = open('missions.md', 'rb').read()"));
            assert_eq!(writer.outcome(save), libc::EIO, "{bad} {save}");
            writer.end();
            assert_eq!(it.read("missions.md"), before);
            eventually("what was refused", || it.kept().first().cloned());
            it.sh("rm -f missions.md.refused* t");
        }
    }
    assert_eq!(it.rows().len(), 1);
}
