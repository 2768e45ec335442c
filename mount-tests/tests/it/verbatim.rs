//! R6: nothing a person typed is dropped or restyled.

use mount_tests::{Instance, samples};

/// The same edit by each program: a new line, a removed line, a moved line.
const PLAN: &str = "
import sys
def change(text):
    lines = text.split('\\n')
    i = lines.index('- task 10')
    line = lines.pop(i)
    j = lines.index('- task 20')
    lines.insert(j + 1, line)
    lines.insert(j + 2, '- brand   new * line   ')
    lines.insert(2, 'a new intro line')
    lines.remove('-  task 21 with two blanks')
    return '\\n'.join(lines)
";

fn styled() -> Instance {
    Instance::with(&[("missions.md", &samples::styled_missions(50))])
}

fn changed(it: &Instance) -> String {
    let program = format!("{PLAN}\nsys.stdout.write(change(open(sys.argv[1], newline='').read()))");
    std::fs::write(it.scratch("orig"), samples::styled_missions(50)).expect("write");
    let path = it.scratch("orig");
    it.outside().python(&program, &[path.to_str().expect("path")]).ok()
}

fn check(it: &Instance, want: &str, rows_before: &[(String, String)]) {
    assert_eq!(it.read("missions.md"), want, "byte for byte");
    let mut expected: Vec<String> = rows_before.iter().map(|(text, _)| text.clone()).collect();
    expected.retain(|text| !text.starts_with("task 21 "));
    expected.push("brand   new * line".into());
    let mut now: Vec<String> = it.rows().into_iter().map(|(text, _)| text).collect();
    now.sort();
    expected.sort();
    assert_eq!(now.len(), expected.len());
    assert_eq!(
        now.iter().map(|t| t.trim()).collect::<Vec<_>>(),
        expected.iter().map(|t| t.trim()).collect::<Vec<_>>()
    );
    let pending = it.texts("pending");
    let at = |text: &str| {
        pending
            .iter()
            .position(|t| t.trim() == text)
            .unwrap_or_else(|| panic!("{text} in {pending:?}"))
    };
    assert_eq!(at("task 10"), at("task 20") + 1, "the moved line is behind its new neighbour");
    assert_eq!(at("brand   new * line"), at("task 20") + 2, "then the new line");
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn an_imported_text_reads_back_byte_for_byte() {
    for text in [
        samples::MISSIONS.to_owned(),
        samples::styled_missions(50),
        samples::MISSIONS.replace('\n', "\r\n"),
        samples::MISSIONS.trim_end().to_owned(),
        "\n\n## pending\n\n\n- a\n\n\n".to_owned(),
        "## Terminées\n- x\n## En attente\n- y\n## Pending\n- z\n".to_owned(),
        "- before any header\n\n## Pending\n".to_owned(),
    ] {
        let it = Instance::with(&[("missions.md", &text)]);
        assert_eq!(String::from_utf8_lossy(&it.bytes("missions.md")), text);
        it.remount();
        assert_eq!(String::from_utf8_lossy(&it.bytes("missions.md")), text);
    }
}

#[test]
fn a_python_save_reads_back_byte_for_byte() {
    let it = styled();
    let (want, rows) = (changed(&it), it.rows());
    let program = format!(
        "{PLAN}\nt=open('missions.md', newline='').read()\nopen('missions.md','w', newline='').write(change(t))"
    );
    it.actor().python(&program, &[]).ok();
    check(&it, &want, &rows);
}

#[test]
fn a_python_replace_reads_back_byte_for_byte() {
    let it = styled();
    let (want, rows) = (changed(&it), it.rows());
    let program = format!(
        "{PLAN}\nimport os\nt=open('missions.md', newline='').read()\n\
         f=open('.missions.md.tmp','w', newline=''); f.write(change(t)); f.flush(); os.fsync(f.fileno()); f.close()\n\
         os.replace('.missions.md.tmp','missions.md')"
    );
    it.actor().python(&program, &[]).ok();
    check(&it, &want, &rows);
}

#[test]
fn a_node_save_reads_back_byte_for_byte() {
    let it = styled();
    let (want, rows) = (changed(&it), it.rows());
    std::fs::write(it.scratch("want"), &want).expect("write");
    it.actor()
        .node(
            "const fs=require('fs'); fs.readFileSync('missions.md');\
             fs.writeFileSync('missions.md', fs.readFileSync(process.env.SCRATCH+'/want'));",
            &[],
        )
        .ok();
    check(&it, &want, &rows);
}

#[test]
fn a_node_promise_save_reads_back_byte_for_byte() {
    let it = styled();
    let (want, rows) = (changed(&it), it.rows());
    std::fs::write(it.scratch("want"), &want).expect("write");
    it.actor()
        .node(
            "const fs=require('fs/promises'); (async()=>{ await fs.readFile('missions.md');\
             await fs.writeFile('missions.md', await fs.readFile(process.env.SCRATCH+'/want'));\
             const s=await fs.stat('missions.md'); if(s.size!==(await fs.readFile('missions.md')).length) process.exit(3);})()",
            &[],
        )
        .ok();
    check(&it, &want, &rows);
}

#[test]
fn a_cp_reads_back_byte_for_byte() {
    let it = styled();
    let (want, rows) = (changed(&it), it.rows());
    std::fs::write(it.scratch("want"), &want).expect("write");
    it.sh("cp missions.md $SCRATCH/copy && cp $SCRATCH/want missions.md");
    check(&it, &want, &rows);
}

#[test]
fn sed_in_place_reads_back_byte_for_byte() {
    let it = styled();
    let (want, rows) = (changed(&it), it.rows());
    it.sh("sed -i -e '/^- task 10$/d' -e '/^- task 20$/a\\- task 10\\n- brand   new * line   ' \
           -e '2a\\a new intro line' -e '/^-  task 21 with two blanks$/d' missions.md");
    check(&it, &want, &rows);
}

#[test]
fn a_vim_save_reads_back_byte_for_byte() {
    for set in ["set backupcopy=auto", "set backupcopy=yes", "set nowritebackup"] {
        let it = styled();
        let (want, rows) = (changed(&it), it.rows());
        let script = format!(
            "{set}\n/^- task 10$/m /^- task 20$/\n/^- task 10$/a\n- brand   new * line   \n.\n\
             2a\na new intro line\n.\n/^-  task 21 with/d\nwq\n"
        );
        std::fs::write(it.scratch("edit.vim"), script).expect("write");
        it.sh("vim -Nu NONE -es -S $SCRATCH/edit.vim missions.md");
        check(&it, &want, &rows);
        let names = it.names(".");
        assert!(!names.iter().any(|n| n.ends_with('~') || n.ends_with(".swp")), "{names:?}");
    }
}

#[test]
fn a_vim_on_a_terminal_saves() {
    let it = styled();
    it.sh("script -qec \"vim -Nu NONE -c 'normal Go- by a person in vim' -c 'g/^- task 30$/d' -c wq missions.md\" /dev/null >/dev/null");
    let text = it.read("missions.md");
    assert!(text.ends_with("- by a person in vim\n"), "{text}");
    assert!(!text.contains("- task 30\n"));
    assert_eq!(it.count("task 30"), 0);
}

#[test]
fn later_changes_by_others_touch_only_their_own_lines() {
    let it = styled();
    let before = it.read("missions.md");
    let db = it.database();
    db.execute("update missions set text = 'changed by sql' where text = 'task 10'", [])
        .expect("sql");
    it.append("missions.md", "- by append");
    let after = it.read("missions.md");
    let lost: Vec<&str> = before.lines().filter(|l| !after.lines().any(|a| a == *l)).collect();
    assert_eq!(lost, ["- task 10"]);
    let new: Vec<&str> = after.lines().filter(|l| !before.lines().any(|b| b == *l)).collect();
    assert_eq!(new.len(), 2, "{new:?}");
    assert!(new[0].starts_with("- changed by sql"), "{new:?}");
    assert!(new[1].starts_with("- by append"), "{new:?}");
    assert_eq!(after.lines().count(), before.lines().count() + 1);
}

#[test]
fn layout_survives_a_hundred_changes_by_others() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let db = it.database();
    for i in 0..50 {
        db.execute(
            "insert into missions(text, state, sequence) values (?1, 'pending', \
             (select max(sequence) + 1 from missions))",
            [format!("sql {i}")],
        )
        .expect("insert");
        let state = ["in_progress", "done", "failed", "pending"][i % 4];
        db.execute(
            "update missions set state = ?1, completed_at = '2026-07-02T10:00' where text = ?2",
            [state, &format!("sql {}", i / 2)],
        )
        .expect("update");
        if i % 5 == 0 {
            it.read("missions.md");
        }
    }
    let after = it.read("missions.md");
    let mut rest = after.as_str();
    for line in samples::MISSIONS.lines().filter(|l| !l.trim().is_empty()) {
        let at = rest
            .find(&format!("{line}\n"))
            .unwrap_or_else(|| panic!("{line:?} in order in:\n{after}"));
        rest = &rest[at + line.len()..];
    }
    db.execute("delete from missions where text like 'sql %'", []).expect("delete");
    assert_eq!(it.read("missions.md"), samples::MISSIONS, "and nothing is left of the changes");
}

#[test]
fn every_comment_of_a_thousand_line_yaml_survives_a_hundred_changes_through_json() {
    let yaml = samples::commented_yaml(1000);
    let it = Instance::with(&[("config.yaml", &yaml)]);
    it.actor()
        .python(
            "import json\nfor i in range(100):\n\
             \x20 d = json.load(open('config.json')); d[f'key_{i*5}'] = 1000 + i; d[f'new_{i}'] = i\n\
             \x20 json.dump(d, open('config.json', 'w'), indent=1)\n",
            &[],
        )
        .ok();
    let after = it.read("config.yaml");
    for i in 0..500 {
        assert!(after.contains(&format!("# comment number {i}\n")), "comment {i}");
        let value = if i % 5 == 0 { 1000 + i / 5 } else { i };
        assert!(after.contains(&format!("key_{i}: {value}  # beside {i}\n")), "key_{i} in {after}");
    }
    assert!(after.starts_with("# top\n"));
    assert_eq!(it.sh("jq .new_99 config.json").trim(), "99");
}

#[test]
fn a_save_equal_to_the_current_version_is_no_version() {
    let it = Instance::with(&[
        ("missions.md", samples::MISSIONS),
        ("config.yaml", samples::CONFIG_YAML),
    ]);
    let stat = || it.sh("stat -c '%n %s %y' missions.md config.yaml config.json");
    let before = stat();
    it.sh("for f in missions.md config.yaml config.json; do cat $f > $SCRATCH/x; cat $SCRATCH/x > $f; cp $SCRATCH/x $f; done");
    assert_eq!(stat(), before, "the same bytes");
    it.actor()
        .python(
            "import json\nd=json.load(open('config.json')); json.dump(d, open('config.json','w'))",
            &[],
        )
        .ok();
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
    assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML, "equal content keeps the source");
    assert_eq!(stat().lines().next(), before.lines().next());
}

#[test]
fn what_a_save_implies_goes_to_the_row_not_into_the_text() {
    let it = Instance::with(&[("missions.md", "## Pending\n- a\n\n## Done\n")]);
    it.edit("missions.md", "- a\n", "- a\n- b\n");
    assert_eq!(it.read("missions.md"), "## Pending\n- a\n- b\n\n## Done\n");
    let queued: Option<String> = it
        .database()
        .query_row("select queued_at from missions where text = 'b'", [], |row| row.get(0))
        .expect("row");
    assert!(queued.is_some_and(|time| time.len() == 16), "queued_at as YYYY-MM-DDTHH:MM");
}

#[test]
fn only_trailing_well_formed_markers_are_metadata() {
    let text = "## Pending\n- a ⏳(2026-07-01T09:00)\n- b ⏳ in the middle\n- c ⏳(yesterday)\n";
    let it = Instance::with(&[("missions.md", text)]);
    assert_eq!(it.texts("pending"), ["a", "b ⏳ in the middle", "c ⏳(yesterday)"]);
    let queued: String = it
        .database()
        .query_row("select queued_at from missions where text = 'a'", [], |row| row.get(0))
        .expect("row");
    assert_eq!(queued, "2026-07-01T09:00");
    assert_eq!(it.read("missions.md"), text);
}

#[test]
fn fences_are_opaque_and_an_open_one_swallows_nothing() {
    let closed = "## Pending\n- a\n  ```\n## Done\n- not a mission\n  ```\n- b\n";
    let it = Instance::with(&[("missions.md", closed)]);
    assert_eq!(it.rows().len(), 2);
    assert_eq!(it.read("missions.md"), closed);
    let open = "## Pending\n- a\n  ```\n## Done\n- b\n";
    let it = Instance::with(&[("missions.md", open)]);
    assert_eq!(it.texts("done"), ["b"]);
    assert_eq!(it.read("missions.md"), open);
}

#[test]
fn a_missing_final_newline_and_crlf_stay_over_a_save() {
    let text = "## Pending\r\n- a\r\n- b";
    let it = Instance::with(&[("missions.md", text)]);
    it.edit("missions.md", "- a", "- A");
    assert_eq!(String::from_utf8_lossy(&it.bytes("missions.md")), "## Pending\r\n- A\r\n- b");
    it.append("missions.md", "- c");
    assert_eq!(it.texts("pending"), ["A", "b", "c"]);
}
