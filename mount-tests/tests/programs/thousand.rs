//! A thousand saves in a row while somebody reads: after each save the writer reads its own
//! text, and no reader ever sees a torn or an empty one.

use mount_tests::{Instance, Running};

/// How many saves each program makes.
const SAVES: u32 = 1000;

/// The text of save number `$i` in bash: longer and shorter in turn, its number at both ends.
const TEXT: &str = r#"
text() { # number
    local pad=$(($1 % 7 * 300))
    printf '{"first": %d, "pad": "%*s", "last": %d}' "$1" "$pad" x "$1"
}
check() { # number
    local got; got=$(< config.json)
    [ "$got" = "$(text "$1")" ] || { echo "after save $1: $got"; exit 1; }
}
"#;

/// Reads until it is told to stop: every text is whole and none is older than one before.
const READER: &str = r#"
import json, os, sys
last, reads, versions = -1, 0, 0
print("reading", flush=True)
while not os.path.exists(os.environ["SCRATCH"] + "/stop"):
    with open("config.json") as f: text = f.read()
    try: value = json.loads(text)
    except ValueError: sys.exit(f"torn or empty: {text!r}")
    if value["first"] != value["last"]: sys.exit(f"mixed: {text!r}")
    if value["first"] < last: sys.exit(f"went back from {last} to {value['first']}")
    versions += value["first"] != last
    last, reads = value["first"], reads + 1
print(reads, versions)
"#;

fn reader(it: &Instance) -> Running {
    let mut reader = it.actor().spawn_python(READER, &[]);
    reader.until("reading");
    reader
}

#[track_caller]
fn a_thousand(program: &str, args: &[&str]) {
    let it = Instance::builder()
        .file("config.json", r#"{"first": 0, "pad": "x", "last": 0}"#)
        .watchdog(std::time::Duration::from_secs(300))
        .start();
    let reader = reader(&it);
    let actor = it.actor().limit(std::time::Duration::from_secs(200));
    actor.run(program, args).ok();
    std::fs::write(it.scratch("stop"), "").expect("stop");
    let counts = reader.wait().ok();
    let versions: u32 = counts.split_whitespace().last().expect("counts").parse().expect("number");
    assert!(versions > 10, "the reader saw only {versions} versions");
    let text = it.read("config.json");
    assert!(text.contains(&format!("\"last\": {SAVES}")), "{text}");
}

#[track_caller]
fn bash(step: &str) {
    let script = format!("{TEXT}for ((i = 1; i <= {SAVES}; i++)); do {step}; check $i; done");
    a_thousand("bash", &["-c", &script]);
}

#[test]
fn by_bash() {
    bash("text $i > config.json");
}

#[test]
fn by_cp() {
    bash("text $i > $SCRATCH/n; cp $SCRATCH/n config.json");
}

/// Each text has a `pad` of its own: what one of the programs before has saved would be nearer to a
/// text with the same `pad` than what `sed` itself has read, and would be taken for its merge base.
#[test]
fn by_sed() {
    let own = TEXT.replace("x \"$1\"", "\"x$1\" \"$1\"");
    assert_ne!(own, TEXT);
    let step = r#"sed -i "s/.*/$(text $i)/" config.json"#;
    let script = format!("{own}for ((i = 1; i <= {SAVES}; i++)); do {step}; check $i; done");
    a_thousand("bash", &["-c", &script]);
}

#[test]
fn by_python_replace() {
    a_thousand(
        "python3",
        &[
            "-c",
            &format!(
                r#"
import os
with open("config.json") as f: f.read()
for i in range(1, {SAVES} + 1):
    text = '{{"first": %d, "pad": "%s", "last": %d}}' % (i, "x" * (i % 7 * 300), i)
    with open("t", "w") as f: f.write(text)
    os.replace("t", "config.json")
    with open("config.json") as f: assert f.read() == text, i
"#
            ),
        ],
    );
}

#[test]
fn by_node() {
    a_thousand(
        "node",
        &[
            "-e",
            &format!(
                r#"
const fs = require('fs');
fs.readFileSync('config.json');
for (let i = 1; i <= {SAVES}; i++) {{
  const text = `{{"first": ${{i}}, "pad": "${{'x'.repeat(i % 7 * 300)}}", "last": ${{i}}}}`;
  fs.writeFileSync('config.json', text);
  if (fs.readFileSync('config.json', 'utf8') !== text) throw new Error(`after save ${{i}}`);
}}
"#
            ),
        ],
    );
}
