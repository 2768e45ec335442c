//! `instancefs config`, with and without a mount.

use mount_tests::{Instance, Ran, samples};
use serde_json::{Value, json};

/// The hash of nothing: there is no config.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// `config` with these arguments.
fn config(it: &Instance, args: &[&str]) -> Ran {
    let store = it.store();
    let mut all = vec!["-C", store.to_str().expect("UTF-8"), "config"];
    all.extend(args);
    it.outside().instancefs(&all)
}

/// `config set -` with this text and further arguments.
fn put(it: &Instance, text: &str, args: &str) -> Ran {
    std::fs::write(it.scratch("put"), text).expect("write");
    let program = mount_tests::instancefs();
    let line = format!("{} config set - {args} < put", program.display());
    it.outside().env("INSTANCEFS_DIR", it.store()).bash(&line)
}

fn value(ran: Ran) -> Value {
    let text = ran.ok();
    assert!(text.ends_with('\n'), "{text:?}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn get(it: &Instance) -> Value {
    value(config(it, &["get"]))
}

fn sha(it: &Instance) -> String {
    let told = value(config(it, &["get", "--with-sha256"]));
    told["sha256"].as_str().expect("a hash").to_owned()
}

/// Once on a store that is mounted, once on one that is not.
fn both(file: Option<(&str, &str)>, test: impl Fn(&Instance)) {
    for mounted in [true, false] {
        let mut it = Instance::builder();
        if let Some((name, text)) = file {
            it = it.file(name, text);
        }
        let it = if mounted { it.start() } else { it.unmounted().start() };
        test(&it);
        if !mounted {
            // What was done is what a mount shows, and what lies in the store.
            let before = config(&it, &["get"]).ok();
            let name = file.map_or("config.json", |(name, _)| name);
            let plain = std::fs::read_to_string(it.store().join(name)).expect("plain file");
            it.mount();
            assert_eq!(config(&it, &["get"]).ok(), before);
            assert_eq!(plain, it.read(name));
        }
    }
}

#[test]
fn a_config_and_its_keys_are_printed_as_json() {
    both(Some(("config.yaml", samples::CONFIG_YAML)), |it| {
        let whole = config(it, &["get"]).ok();
        assert_eq!(
            whole,
            "{\n  \"version\": 1,\n  \"max_parallel\": 3,\n  \"interval\": 60,\n  \"branches\": {\n    \"prefix\": \"koi/\",\n    \"base\": \"main\"\n  }\n}\n"
        );
        assert_eq!(config(it, &["get", "branches.base"]).ok(), "\"main\"\n");
        assert_eq!(config(it, &["get", "branches.base", "--raw"]).ok(), "main\n");
        assert_eq!(config(it, &["get", "max_parallel", "--json"]).ok(), "3\n");
        let ran = config(it, &["get", "branches.nothing"]).exits(1);
        assert_eq!(ran.stdout, "");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains("branches.nothing"), "{}", ran.stderr);
        for bad in ["", "a..b", "a[", "a[]"] {
            config(it, &["get", bad]).exits(2);
        }
    });
    let it = Instance::with(&[("config.json", samples::CONFIG_JSON)]);
    assert_eq!(config(&it, &["get", "zeta"]).ok(), "1.50\n");
    assert_eq!(config(&it, &["get", "big"]).ok(), "12345678901234567890\n");
    assert_eq!(config(&it, &["get", "alpha.deep.b[1]"]).ok(), "2\n");
}

#[test]
fn the_hash_is_that_of_the_source_form() {
    for (name, text) in
        [("config.yaml", samples::CONFIG_YAML), ("config.json", samples::CONFIG_JSON)]
    {
        both(Some((name, text)), |it| {
            std::fs::write(it.scratch("source"), text).expect("write");
            let told = it.outside().bash("sha256sum < source").ok();
            assert_eq!(sha(it), told[..64]);
            let all = value(config(it, &["get", "--with-sha256"]));
            assert_eq!(all["config"], get(it));
            assert_eq!(all.as_object().map(|o| o.len()), Some(2));
        });
    }
}

#[test]
fn the_hash_of_nothing_makes_the_first_config() {
    both(None, |it| {
        let told = value(config(it, &["get", "--with-sha256"]));
        assert_eq!(told, json!({"sha256": NOTHING, "config": {}}));
        assert_eq!(get(it), json!({}));
        config(it, &["get", "a"]).exits(1);
        let upper = NOTHING.to_uppercase();
        let told = put(it, "{\"a\":1}\n", &format!("--expect-sha256 {upper} --json"));
        let told: Value = value(told);
        assert_eq!((&told["changed"], &told["sha256"]), (&json!(true), &json!(sha(it))));
        assert_eq!(get(it), json!({"a": 1}));
        let ran = put(it, "{\"b\":1}\n", &format!("--expect-sha256 {NOTHING}")).exits(3);
        assert_eq!(ran.stderr, "config changed since it was read\n");
        assert_eq!((ran.stdout.as_str(), get(it)), ("", json!({"a": 1})));
    });
}

#[test]
fn a_hash_that_is_none_is_wrong_usage() {
    let it = Instance::with(&[("config.json", "{\"a\": 1}\n")]);
    for hex in ["", "abc", &NOTHING[1..], &format!("{NOTHING}0"), &NOTHING.replace('e', "g")] {
        put(&it, "{}", &format!("--expect-sha256 '{hex}'")).exits(2);
    }
    assert_eq!(get(&it), json!({"a": 1}));
}

#[test]
fn single_keys_are_set_and_unset_as_people_mean_it() {
    both(Some(("config.yaml", samples::CONFIG_YAML)), |it| {
        for args in [
            &["set", "max_parallel", "5"][..],
            &["set", "branches.base", "dev"],
            &["set", "rate", "1.50"],
            &["set", "offset", "-5"],
            &["set", "hosts.\"a.b\"", "true"],
            &["set", "tools[id=web].on", "true"],
            &["set", "tools[id=web].args", "[\"x\"]"],
            &["set", "tools[1]", "{\"id\": \"sh\"}"],
            &["set", "build", "012"],
            &["set", "build2", "12", "--string"],
            &["unset", "interval"],
        ] {
            assert_eq!(config(it, args).ok(), "", "{args:?}");
        }
        assert_eq!(config(it, &["get", "rate"]).ok(), "1.50\n");
        config(it, &["unset", "rate"]).ok();
        assert_eq!(
            get(it),
            json!({
                "version": 1, "max_parallel": 5, "branches": {"prefix": "koi/", "base": "dev"},
                "offset": -5, "hosts": {"a.b": true},
                "tools": [{"id": "web", "on": true, "args": ["x"]}, {"id": "sh"}],
                "build": "012", "build2": "12"
            })
        );
        assert_eq!(config(it, &["get", "tools[sh].id", "-r"]).ok(), "sh\n");
        config(it, &["unset", "tools[web]"]).ok();
        assert_eq!(value(config(it, &["get", "tools"])), json!([{"id": "sh"}]));
        let before = sha(it);
        for args in [
            &["unset", "nothing"][..],
            &["set", "branches.base.x", "1"],
            &["set", "tools[7]", "1"],
            &["unset", "version"],
        ] {
            let ran = config(it, args).exits(1);
            assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {}", ran.stderr);
        }
        for args in [&["set", "a"][..], &["set", "", "1"], &["set", "-", "1"], &["unset", "a["]] {
            config(it, args).exits(2);
        }
        let told = value(config(it, &["set", "build2", "12", "--string", "--json"]));
        assert_eq!((&told["changed"], &told["sha256"]), (&json!(false), &json!(before)));
        // With a hash, too.
        let expect = ["--expect-sha256", NOTHING];
        config(it, &[&["set", "a", "1"][..], &expect].concat()).exits(3);
        config(it, &[&["unset", "build"][..], &expect].concat()).exits(3);
        assert_eq!(sha(it), before, "nothing was written");
        config(it, &["unset", "build", "--expect-sha256", &before]).ok();
    });
    // Comments stay, and nothing but the key changes.
    let it = Instance::with(&[("config.yaml", samples::CONFIG_YAML)]);
    config(&it, &["set", "max_parallel", "4"]).ok();
    let want = samples::CONFIG_YAML.replace("max_parallel: 3", "max_parallel: 4");
    assert_eq!(it.read("config.yaml"), want);
}

#[test]
fn a_text_from_standard_input_replaces_the_config() {
    both(Some(("config.yaml", "# mine\na: 1 # one\nb: 2 # two\n")), |it| {
        put(it, "{\"a\": 5}", "").ok();
        assert_eq!(get(it), json!({"a": 5}));
        put(it, "b: 7\n", "--merge").ok();
        assert_eq!(get(it), json!({"a": 5, "b": 7}));
        let before = sha(it);
        for (bad, word) in [
            ("", "empty"),
            ("{\"a\": 1,}", "line 1"),
            ("{\"a\": 1,\n\"a\": 2}", "line 2: a"),
            ("a: [\n", "line"),
            ("[1]", "not an object"),
            ("just words\n", "not an object"),
        ] {
            let ran = put(it, bad, "").exits(1);
            assert_eq!(ran.stderr.lines().count(), 1, "{bad}: {}", ran.stderr);
            assert!(ran.stderr.contains(word), "{bad}: {}", ran.stderr);
        }
        assert_eq!(sha(it), before);
    });
    let it = Instance::with(&[("config.yaml", "# mine\na: 1 # one\nb: 2 # two\n")]);
    put(&it, "{\"a\": 5}", "").ok();
    assert_eq!(it.read("config.yaml"), "# mine\na: 5 # one\n");
    assert_eq!(it.read("config.json"), "{\"a\": 5}", "as it was written");
    it.outside().bash("printf '\\xff' > put").ok();
    let program = mount_tests::instancefs();
    let line = format!("{} config set - < put", program.display());
    let ran = it.outside().env("INSTANCEFS_DIR", it.store()).bash(&line).exits(1);
    assert!(ran.stderr.contains("UTF-8"), "{}", ran.stderr);
}

fn config_log(it: &Instance) -> String {
    let store = it.store();
    it.outside()
        .instancefs(&["-C".as_ref(), store.as_os_str(), "log".as_ref(), "config".as_ref()])
        .ok()
}

/// Every other way to change the config makes the hash another one.
#[test]
fn a_swap_fails_after_a_change_by_anybody() {
    let it = Instance::with(&[("config.json", "{\"n\": 0}\n")]);
    let mut n = 0;
    for change in [
        "echo '{\"n\": {N}}' > config.json",
        "echo 'n: {N}' > config.yaml",
        "echo '{\"n\": {N}}' > t && mv t config.json",
        "sed -i 's/n: .*/n: {N}/' config.yaml",
        "python3 -c 'import json; d = json.load(open(\"config.json\")); d[\"n\"] = {N}; f = open(\"config.json\", \"r+\"); json.dump(d, f); f.truncate()'",
        "sqlite3 -cmd '.timeout 10000' $STORE/missions.db \"update ifs_config set text = '{\\\"n\\\": {N}}'\"",
        "$BIN -C . config set n {N}",
        "h=$(getfattr --only-values -n user.instancefs.sha256 config.json); setfattr -n user.instancefs.expect-sha256 -v $h config.json; echo '{\"n\": {N}}' > config.json",
    ] {
        n += 1;
        let before = sha(&it);
        let change = change.replace("{N}", &n.to_string());
        it.actor().env("BIN", mount_tests::instancefs()).bash(&change).ok();
        assert_eq!(get(&it)["n"], json!(n), "{change}");
        let (now, log) = (sha(&it), config_log(&it));
        let ran = put(&it, "{\"n\": -1}", &format!("--expect-sha256 {before}")).exits(3);
        assert_eq!(ran.stderr, "config changed since it was read\n", "{change}");
        assert_eq!(sha(&it), now, "{change}");
        assert_eq!(config_log(&it), log, "nothing was written");
    }
    // And nobody is in the way when nothing has changed.
    let before = sha(&it);
    put(&it, "{\"n\": -1}", &format!("--expect-sha256 {before}")).ok();
    assert_eq!(it.read("config.json"), "{\"n\": -1}");
}

/// A file that was edited while nothing is mounted counts as changed, too.
#[test]
fn a_swap_without_a_mount_sees_an_edit_of_the_file() {
    let it = Instance::with(&[("config.json", "{\"n\": 0}\n")]);
    let before = sha(&it);
    it.unmount();
    it.outside().bash("echo '{\"n\": 1}' > $STORE/config.json").ok();
    put(&it, "{\"n\": 2}", &format!("--expect-sha256 {before}")).exits(3);
    assert_eq!(get(&it), json!({"n": 1}));
    put(&it, "{\"n\": 2}", &format!("--expect-sha256 {}", sha(&it))).ok();
    let plain = std::fs::read_to_string(it.store().join("config.json")).expect("plain file");
    assert_eq!(plain, "{\"n\": 2}");
}

/// Commands wait for each other where no daemon serves; none of them fails for that.
#[test]
fn many_commands_at_once_without_a_mount() {
    let it = Instance::builder().file("config.json", "{}\n").unmounted().start();
    let one = |i: usize| {
        let program = mount_tests::instancefs();
        let (key, n) = (format!("k{i}"), i.to_string());
        let store = it.store();
        let args = ["-C".as_ref(), store.as_os_str(), "config".as_ref(), "set".as_ref()];
        it.outside().spawn(program, &[&args[..], &[key.as_ref(), n.as_ref()]].concat())
    };
    let all: Vec<_> = (0..12).map(one).collect();
    for ran in all {
        ran.wait().ok();
    }
    let now = get(&it);
    assert!((0..12).all(|i| now[format!("k{i}")] == json!(i)), "{now}");
}

#[test]
fn a_schema_holds_on_every_way() {
    let it = Instance::with(&[("config.json", "{\"limits\": {\"day\": 1}}\n")]);
    let schema = r#"{"properties": {"limits": {"properties": {"day": {"type": "integer"}}}}}"#;
    std::fs::write(it.path("config.schema.json"), schema).expect("write");
    let told = |text: &str| {
        assert!(text.contains("limits.day") && text.contains("must be integer"), "{text}");
    };
    for _ in 0..2 {
        told(&config(&it, &["set", "limits.day", "many"]).exits(1).stderr);
        told(&put(&it, "{\"limits\": {\"day\": \"x\"}}", "").exits(1).stderr);
        told(&put(&it, "limits: {day: x}", "--merge").exits(1).stderr);
        if it.mounted() {
            it.sh("cat config.json; echo '{\"limits\": {\"day\": 1.5}}' > config.json; true");
            told(&it.refused("config.json"));
            it.sh("rm config.json.refused");
            it.unmount();
        }
    }
    assert_eq!(get(&it), json!({"limits": {"day": 1}}));
    config(&it, &["set", "limits.day", "2"]).ok();
}

#[test]
fn a_version_limit_of_the_mount_or_of_the_command() {
    let it = Instance::builder()
        .file("config.json", "{\"version\": 2}\n")
        .mount_arg("--config-version-limit=3")
        .start();
    it.sh("cat config.json; echo '{\"version\": 4}' > config.json; true");
    let refused = it.refused("config.json");
    assert!(refused.contains("version") && refused.contains("4 is newer than 3"), "{refused}");
    it.sh("rm config.json.refused");
    put(&it, "{\"version\": 4}", "").exits(1);
    config(&it, &["set", "version", "4"]).exits(1);
    put(&it, "{\"version\": 3}", "--config-version-limit 2").exits(1);
    put(&it, "{\"version\": 4}", "--config-version-limit 4").ok();
    // Now that it is stored, it is no newer than the stored one.
    it.sh("cat config.json; echo '{\"version\": 4, \"a\": 1}' > config.json");
    assert_eq!(get(&it), json!({"version": 4, "a": 1}));
    // One that is older is taken and changes what it says; the version stays.
    put(&it, "{\"version\": 1, \"a\": 2}", "").ok();
    let ran = config(&it, &["set", "version", "1"]);
    assert!(ran.stderr.contains("never goes down"), "{}", ran.stderr);
    ran.ok();
    assert_eq!(get(&it), json!({"version": 4, "a": 2}));
    it.unmount();
    put(&it, "{\"version\": 6}", "").ok();
    assert_eq!(get(&it), json!({"version": 6}), "no limit by default");
}

const NEWER: &str = r#"{"version": 2, "model": "a", "ui": {"theme": "dark", "grid": {"rows": 3}},
  "tools": [{"id": "web", "on": true, "retry": {"max": 3}}, {"id": "new"}]}
"#;

/// It reads the newer file, keeps what it knows, changes one thing and writes all of it.
#[test]
fn an_older_program_that_has_read_the_newer_file_removes_nothing() {
    let older = "import json, os, sys\n\
        d = json.load(open('config.json'))\n\
        own = {'version': 1, 'model': 'b', 'ui': {'theme': d['ui']['theme']},\n\
        \x20      'tools': [{'id': t['id'], 'on': t['on']} for t in d['tools'] if t['id'] == 'web']}\n\
        if sys.argv[1] == 'rename':\n\
        \x20 json.dump(own, open('t', 'w')); os.rename('t', 'config.json')\n\
        else: json.dump(own, open('config.json', 'w'))\n";
    let mut wanted: Value = serde_json::from_str(NEWER).expect("JSON");
    wanted["model"] = json!("b");
    for how in ["in place", "rename"] {
        let it = Instance::with(&[("config.json", NEWER)]);
        it.actor().python(older, &[how]).ok();
        assert_eq!(get(&it), wanted, "{how}");
        assert!(it.kept().is_empty());
    }
    let it = Instance::with(&[("config.json", NEWER)]);
    let text = r#"{"version": 1, "model": "b", "ui": {"theme": "dark"}, "tools": [{"id": "web", "on": true}]}"#;
    let ran = put(&it, text, &format!("--expect-sha256 {}", sha(&it)));
    assert!(ran.stderr.contains("older"), "{}", ran.stderr);
    ran.ok();
    assert_eq!(get(&it), wanted, "by hash");
}

/// The same text from a program that passes the version on is an edit.
#[test]
fn whoever_passes_the_version_on_removes_what_it_leaves_out() {
    let it = Instance::with(&[("config.json", NEWER)]);
    it.actor()
        .python(
            "import json\nd = json.load(open('config.json'))\ndel d['ui']['grid']\n\
             json.dump(d, open('config.json', 'w'))",
            &[],
        )
        .ok();
    assert_eq!(get(&it)["ui"], json!({"theme": "dark"}));
    it.sh("jq 'del(.tools[1]) | del(.model)' config.json > t && mv t config.json");
    let now = get(&it);
    assert_eq!((&now["tools"].as_array().map(Vec::len), &now["model"]), (&Some(1), &Value::Null));
    it.sh("cat config.json > /dev/null; sed -i '/theme/d' config.yaml");
    assert_eq!(get(&it)["ui"], Value::Null);
}

/// A handle on a name that is not there yet can expect that.
#[test]
fn a_new_config_can_expect_that_there_is_none() {
    let it = Instance::fresh();
    let mut p = it.python();
    p.run("fd = os.open('config.json', os.O_WRONLY | os.O_CREAT)");
    p.run(&format!("os.setxattr(fd, 'user.instancefs.expect-sha256', b'{NOTHING}')"));
    put(&it, "{\"theirs\": 1}", "").ok();
    assert_eq!(p.errno("os.write(fd, b'{\"mine\": 1}'); os.fsync(fd)"), libc::EIO);
    assert_eq!(get(&it), json!({"theirs": 1}));
    assert!(it.refused("config.json").contains("changed since it was read"));
}
