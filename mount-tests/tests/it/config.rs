//! config.json and config.yaml are two views of one text.

use mount_tests::{Instance, samples};

#[test]
fn both_names_show_one_config() {
    let it = Instance::with(&[("config.yaml", samples::CONFIG_YAML)]);
    assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML);
    assert_eq!(
        it.read("config.json"),
        "{\n  \"version\": 1,\n  \"max_parallel\": 3,\n  \"interval\": 60,\n  \"branches\": {\n    \"prefix\": \"koi/\",\n    \"base\": \"main\"\n  }\n}\n"
    );
}

#[test]
fn a_json_source_keeps_its_bytes_and_numbers() {
    let it = Instance::with(&[("config.json", samples::CONFIG_JSON)]);
    assert_eq!(it.read("config.json"), samples::CONFIG_JSON);
    let yaml = it.read("config.yaml");
    assert!(yaml.contains("big: 12345678901234567890"), "{yaml}");
    assert!(yaml.contains("zeta: 1.50"), "{yaml}");
}

#[test]
fn a_save_of_the_other_view_is_the_smallest_edit_of_the_source() {
    let it = Instance::with(&[("config.yaml", samples::CONFIG_YAML)]);
    it.sh("jq '.max_parallel = 5 | .branches.base = \"dev\"' config.json > t && mv t config.json");
    assert_eq!(
        it.read("config.yaml"),
        samples::CONFIG_YAML
            .replace("max_parallel: 3", "max_parallel: 5")
            .replace("base: main", "base: dev")
    );
    it.sh("jq 'del(.interval)' config.json > t && mv t config.json");
    let yaml = it.read("config.yaml");
    assert!(!yaml.contains("interval"), "{yaml}");
    for comment in [
        "# Settings of this instance.",
        "# how many at once",
        "# never more than 5",
        "# nested comment",
        "# last words",
    ] {
        assert!(yaml.contains(comment), "{comment} in {yaml}");
    }
}

#[test]
fn a_save_of_the_yaml_view_edits_a_json_source() {
    let it = Instance::with(&[("config.json", samples::CONFIG_JSON)]);
    it.sh("sed -i 's/^name: .*/name: carp/' config.yaml");
    assert_eq!(it.read("config.json"), samples::CONFIG_JSON.replace("\"koi\"", "\"carp\""));
}

#[test]
fn an_older_program_that_drops_what_it_does_not_know_removes_nothing() {
    let it = Instance::with(&[("config.json", samples::CONFIG_JSON)]);
    it.actor()
        .python("import json\njson.dump({'name': 'old', 'alpha': {'deep': {'a': 1}}}, open('config.json','w'))", &[])
        .ok();
    assert_eq!(
        it.sh("jq -c '[.name, .alpha.keep, .alpha.deep.b, .list]' config.json").trim(),
        "[\"old\",true,[1,2,3],[\"x\",\"y\"]]"
    );
}

#[test]
fn variables_and_tags_are_text() {
    let yaml =
        "token: ${TOKEN}\nhome: $HOME/x\nother: !custom value\nwhen: 2026-07-01\nnorway: \"no\"\n";
    let it = Instance::with(&[("config.yaml", yaml)]);
    it.append("config.yaml", "more: 1");
    let text = it.read("config.yaml");
    assert!(text.starts_with(yaml), "{text}");
    assert_eq!(it.sh("jq -r '.token, .home, .norway' config.json"), "${TOKEN}\n$HOME/x\nno\n");
}

#[test]
fn a_string_that_another_reader_takes_for_something_else_is_quoted() {
    let it = Instance::with(&[("config.yaml", "a: 1\n")]);
    it.sh("jq '.b = \"yes\" | .c = \"012\" | .d = \"1e3\" | .e = \"null\" | .f = \"2026-07-01\" | .g = \"a: b\" | .h = \"# x\"' config.json > t && mv t config.json");
    let before = it.sh("jq -Sc . config.json");
    assert_eq!(
        before.trim(),
        r##"{"a":1,"b":"yes","c":"012","d":"1e3","e":"null","f":"2026-07-01","g":"a: b","h":"# x"}"##
    );
    let yaml = it.read("config.yaml");
    for line in yaml.lines().skip(1) {
        let value = line.split_once(": ").expect("key").1;
        assert!(value.starts_with('"') || value.starts_with('\''), "{line} is quoted");
    }
}

#[test]
fn nothing_is_written_on_read() {
    let it = Instance::with(&[("config.yaml", samples::CONFIG_YAML)]);
    let before = it.sh("stat -c '%y %s' config.yaml config.json");
    it.sh("cat config.json config.yaml >/dev/null; jq . config.json > /dev/null");
    assert_eq!(it.sh("stat -c '%y %s' config.yaml config.json"), before);
    assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML);
}

#[test]
fn numbers_equal_as_doubles_keep_their_spelling() {
    let it = Instance::with(&[("config.yaml", "x: 1.50\ny: 2.0 # two\nz: 1\n")]);
    it.sh("jq '.z = 3' config.json > t && mv t config.json");
    it.actor()
        .python("import json\nd=json.load(open('config.json')); d['w']=4; json.dump(d, open('config.json','w'))", &[])
        .ok();
    assert_eq!(it.read("config.yaml"), "x: 1.50\ny: 2.0 # two\nz: 3\nw: 4\n");
}

#[test]
fn a_config_that_is_not_a_mapping_is_refused() {
    let it = Instance::with(&[("config.json", "{\"a\": 1}\n")]);
    it.sh("echo '[1,2]' > config.json; echo 'just text' > config.yaml");
    assert_eq!(it.read("config.json"), "{\"a\": 1}\n");
}
