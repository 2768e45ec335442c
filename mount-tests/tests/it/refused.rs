//! R7: a refused save says why and loses nothing.

use mount_tests::{Instance, samples};

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.yaml", samples::CONFIG_YAML)])
}

#[test]
fn a_refused_save_fails_at_fsync_close_and_rename_with_eio() {
    let mut wrong = Vec::new();
    for (name, bad) in [
        ("config.json", r#"{"a": 1,,}"#),
        ("config.json", "{\"a\": 1} trailing"),
        ("config.json", "[1, 2"),
        ("config.json", "{\"a\": 1, \"a\": 2}"),
        ("config.json", "// no comments\n{}"),
        ("config.yaml", "a: [1\nb: }"),
        ("config.yaml", "a: 1\na: 2"),
        ("config.yaml", "\ta: 1"),
        ("missions.md", "## Pending\n- \\xff\\xfe"),
        ("missions.md", "## Pending\n- nul \\x00 inside"),
        ("config.json", "{\"a\": \"\\xff\"}"),
    ] {
        let it = instance();
        let before = it.bytes(name);
        let mut p = it.python();
        p.run(&format!("bad = '''{bad}'''.encode('latin-1')"));
        p.run(&format!("fd = os.open('{name}', os.O_WRONLY|os.O_TRUNC)"));
        let write = p.outcome("os.write(fd, bad)");
        assert!([0, libc::EIO].contains(&write), "{name} {bad:?}: write {write}");
        let (fsync, close) = (p.outcome("os.fsync(fd)"), p.outcome("os.close(fd)"));
        p.run("open('t', 'wb').write(bad)");
        let rename = p.outcome(&format!("os.rename('t', '{name}')"));
        let same = it.bytes(name) == before;
        it.append("missions.md", "- still there");
        let there = it.count("still there") == 1;
        if (fsync, close, rename, same, there) != (libc::EIO, libc::EIO, libc::EIO, true, true) {
            wrong.push(format!(
                "{name} {bad:?}: fsync {fsync}, close {close}, rename {rename}, unchanged {same}, append {there}"
            ));
        }
    }
    assert!(wrong.is_empty(), "should all be EIO, unchanged, appended:\n{}", wrong.join("\n"));
}

#[test]
fn a_refusal_that_nobody_hears_is_kept_with_line_and_reason() {
    let it = instance();
    let before = it.read("config.json");
    it.append("missions.md", "- appended before");
    it.actor().bash("printf '{\"max_parallel\": 4,\\n  bad\\n}\\n' > config.json").failed();
    it.append("missions.md", "- appended after");
    assert_eq!(it.read("config.json"), before);
    let kept = it.refused("config.json");
    assert!(kept.contains("{\"max_parallel\": 4,\n  bad\n}\n"), "the text is whole: {kept}");
    let top = kept.split("{\"max_parallel\"").next().expect("top").to_lowercase();
    assert!(top.contains("line 2"), "the line stands on top: {kept}");
    assert!(top.len() > 20, "and a reason: {kept}");
    assert_eq!(it.count("appended before") + it.count("appended after"), 2);
}

#[test]
fn the_refused_of_bash_holds_what_was_typed() {
    let it = instance();
    it.sh("echo bad > config.json || echo 'a: [' > config.yaml");
    let names = it.kept();
    assert_eq!(names, ["config.json.refused", "config.yaml.refused"]);
    assert!(it.read("config.json.refused").contains("bad\n"));
    assert!(it.read("config.yaml.refused").contains("a: [\n"));
    assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML);
}

#[test]
fn each_program_hears_it_where_it_listens() {
    let it = instance();
    let echo = it.actor().run("bash", &["-c", "printf 'x: [' | cat > config.yaml"]);
    assert!(echo.failed().stderr.contains("Input/output error"));
    let cp = it.actor().bash("printf 'x: [' > $SCRATCH/b; cp $SCRATCH/b config.yaml");
    assert!(cp.failed().stderr.contains("Input/output error"));
    let python = it.actor().python("with open('config.json','w') as f: f.write('nope')", &[]);
    assert!(python.failed().stderr.contains("Errno 5"));
    let node = it.actor().node("require('fs').writeFileSync('config.json','nope')", &[]);
    assert!(node.failed().stderr.contains("EIO"));
    let sed = it.actor().run("sed", &["-i", "s/max_parallel: 3/max_parallel: [/", "config.yaml"]);
    assert!(sed.failed().stderr.contains("Input/output error"));
    let vim = it.actor().bash(
        "printf '%%s/max_parallel: 3/max_parallel: [/\\nw\\nq!\\n' | vim -Nu NONE -es config.yaml",
    );
    vim.failed();
    assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML);
    let names = it.names(".");
    assert!(!names.iter().any(|n| n.starts_with("sed") || n.ends_with('~')), "{names:?}");
}

#[test]
fn a_refused_file_is_ordinary() {
    let it = instance();
    it.actor().bash("echo bad > config.json").failed();
    it.sh("grep -q bad config.json.refused && echo more >> config.json.refused && mv config.json.refused elsewhere && rm elsewhere");
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn the_next_good_save_by_the_same_program_removes_it() {
    let it = instance();
    let mut p = it.python();
    p.run("text = open('config.json').read()");
    assert_eq!(p.errno("open('config.json','w').write('nope')\nraise OSError(5, 'x')"), 5);
    let _ = p.attempt("import gc; gc.collect()");
    assert_eq!(it.kept(), ["config.json.refused"]);
    it.sh("jq '.interval = 61' config.json > t && mv t config.json");
    assert_eq!(it.kept(), ["config.json.refused"], "another program's save removes nothing");
    p.run("open('config.json','w').write(text.replace('3', '4'))");
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn several_at_once_get_numbers() {
    let it = instance();
    for i in 0..3 {
        it.actor().bash(&format!("echo bad{i} > config.json")).failed();
    }
    let kept = it.kept();
    assert_eq!(kept.len(), 3, "{kept:?}");
    let all: String = kept.iter().map(|name| it.read(name)).collect();
    for i in 0..3 {
        assert!(all.contains(&format!("bad{i}\n")), "bad{i} in {all}");
    }
}

#[test]
fn appends_survive_refused_saves_of_the_same_document() {
    let it = instance();
    for i in 0..10 {
        it.append("missions.md", &format!("- kept {i}"));
        it.actor()
            .bash("cat missions.md > /dev/null; printf '## Pending\\n- \\xff\\n' > missions.md");
    }
    for i in 0..10 {
        assert_eq!(it.count(&format!("kept {i}")), 1);
    }
}

#[test]
fn a_save_against_the_schema_names_the_key() {
    let schema = r#"{"type":"object","properties":{"interval":{"type":"integer","minimum":1}}}"#;
    let it =
        Instance::with(&[("config.yaml", samples::CONFIG_YAML), ("config.schema.json", schema)]);
    it.sh("sed 's/interval: 60/interval: 0/' config.yaml > $SCRATCH/c; cat $SCRATCH/c > config.yaml || true");
    assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML);
    assert!(it.refused("config.yaml").contains("interval"));
}

#[test]
fn a_config_version_never_goes_up_beyond_the_limit_nor_down() {
    let it = Instance::with(&[("config.json", "{\"version\": 3, \"a\": 1}\n")]);
    it.sh("echo '{\"version\": 2, \"a\": 2}' > config.json");
    assert_eq!(it.sh("jq -c '[.version,.a]' config.json").trim(), "[3,2]", "an old program's save");
    it.sh("echo '{\"version\": 4}' > config.json");
    assert_eq!(it.sh("jq .version config.json").trim(), "4", "no limit by default");
}

#[test]
fn refusals_are_counted_in_status() {
    let it = instance();
    it.actor().bash("echo bad > config.json").failed();
    let status = it.status().to_string();
    assert!(status.contains("refus"), "{status}");
}

#[test]
fn hostile_texts_are_answered_in_time() {
    let it = instance();
    let mut p = it.actor().python_steps();
    p.run(
        "def save(name, text):\n\
         \x20 t = time.time()\n\
         \x20 try:\n\
         \x20   with open(name, 'w') as f: f.write(text)\n\
         \x20 except OSError as e: assert e.errno == errno.EIO, e\n\
         \x20 return time.time() - t",
    );
    for (name, text) in [
        ("config.json", "'[' * 200000"),
        ("config.json", "'{\"a\":' * 100000"),
        ("config.yaml", "'- ' * 50000 + 'x'"),
        ("config.yaml", "'[' * 100000"),
        (
            "config.yaml",
            "'a: &a [x,x,x,x,x,x,x,x,x]\\n' + ''.join(f'{chr(98+i)}: &{chr(98+i)} [' + ','.join(['*'+chr(97+i)]*9) + ']\\n' for i in range(9))",
        ),
    ] {
        p.run(&format!("took = save('{name}', {text})"));
        assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML, "{text}");
    }
}
