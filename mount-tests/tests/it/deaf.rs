//! Many programs never look at the result of `close`. What they can hear of a text that is
//! refused: the first call of theirs that fails, as `strace` shows it. The table is in
//! docs/SAVES.md; with `INSTANCEFS_WRITE_DOCS=1` the test writes it there.

use std::collections::BTreeMap;
use std::path::Path;

use mount_tests::{Instance, programs_dir};

/// A text that no further byte can make valid: a colon is missing in the first line.
const FIRST_LINE: &str = "{ \"a\" 1,\n  \"b\": 2,\n  \"c\": 3\n}\n";
/// A text that only ends too early.
const UNFINISHED: &str = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n";

/// The title in the table, and a script that writes the text of `$N` to `$T`.
const WRITERS: &[(&str, &str)] = &[
    ("`printf … > T` (bash)", r#"t=$(cat "$N"; echo x); printf %s "${t%x}" > "$T""#),
    ("`while …; done > T` (bash)", r#"while IFS= read -r l; do echo "$l"; done < "$N" > "$T""#),
    ("`exec 3> T; …; exec 3>&-` (bash)", r#"exec 3> "$T"; echo "$(cat "$N")" >&3; exec 3>&-"#),
    (
        "Rust `fs::write`",
        r#"touch "$SCRATCH/go"; OLD=$(cat "$T") NEW=$(cat "$N") "$BUILT/save-rust" write"#,
    ),
    ("Python, file never closed", r#"python3 "$PROGRAMS/deaf.py""#),
    (
        "Python `os.write`, then `os._exit`",
        r#"python3 -c 'import os
f = os.open(os.environ["T"], os.O_WRONLY | os.O_TRUNC)
os.write(f, open(os.environ["N"], "rb").read()); os._exit(0)'"#,
    ),
    (
        "Node `writeFileSync`",
        r#"node -e 'fs.writeFileSync(process.env.T, fs.readFileSync(process.env.N))'"#,
    ),
    (
        "kakoune",
        r#"timeout 20 kak -n -ui dummy -e 'execute-keys "%%|cat $N<ret>"; try %{ write! }; quit!' "$T""#,
    ),
    ("sqlite3 `writefile()`", r#"sqlite3 :memory: "select writefile('$T', readfile('$N'))""#),
    ("`git checkout -- T`", r#"git --git-dir "$SCRATCH/git" --work-tree . checkout -q -- "$T""#),
    ("`unzip -o`", r#"unzip -qo "$SCRATCH/a.zip""#),
    ("`dd`", r#"dd if="$N" of="$T" status=none"#),
    ("`cp`", r#"cp "$N" "$T""#),
];

/// What `git checkout` and `unzip` get the text from.
const SOURCES: &str = r#"
    rm -rf git a.zip
    git init -q --bare git
    export GIT_DIR=git
    git update-index --add --cacheinfo "100644,$(git hash-object -w "$N"),$T"
    git commit -qm one
    python3 -c 'import os, zipfile
zipfile.ZipFile("a.zip", "w").writestr(os.environ["T"], open(os.environ["N"]).read())'
"#;

const BEGIN: &str = "<!-- deaf -->\n";
const END: &str = "<!-- end of deaf -->\n";

/// The first call of the program that the mount has answered with `EIO`.
fn first_failure(it: &Instance, writer: &str, script: &str, text: &str) -> String {
    const T: &str = "config.json";
    let before = it.read(T);
    std::fs::write(it.scratch("n"), text).expect("write");
    let me = std::env::current_exe().expect("own path");
    let built = me.ancestors().nth(2).expect("the build directory");
    let actor = it
        .actor()
        .env("T", T)
        .env("N", it.scratch("n"))
        .env("PROGRAMS", programs_dir())
        .env("BUILT", built)
        .env("WRITER", format!("PATH=$PROGRAMS:$PATH\n{script}"));
    actor.clone().within(&it.scratch("")).bash(SOURCES).ok();
    // Whatever the program says about it: what it could hear counts.
    let trace = it.scratch("trace");
    let _ = std::fs::remove_file(&trace);
    actor.bash(r#"strace -f -y -Z -o "$SCRATCH/trace" bash -c "$WRITER" || true"#).ok();
    let trace = std::fs::read_to_string(&trace).expect("strace's output");
    assert_eq!(it.read(T), before, "{writer}: the old version stays");
    let sign = text.lines().find(|line| line.contains("\"a\"")).expect("a line");
    assert!(it.refused(T).contains(sign), "{writer}: the text is kept");
    it.sh("rm -f *.refused*");
    let failed = trace.lines().find(|line| line.contains("= -1 EIO"));
    let call = failed.and_then(|line| line.split_whitespace().nth(1)?.split('(').next());
    match call {
        None => "none".to_owned(),
        Some("pwrite64" | "writev") => "`write`".to_owned(),
        Some("openat") => "`open`".to_owned(),
        Some(call) => format!("`{call}`"),
    }
}

fn table(rows: &[[String; 3]]) -> String {
    let mut table =
        String::from("| program | wrong in its first line | ends too early |\n|---|---|---|\n");
    for row in rows {
        table += &format!("| {} |\n", row.join(" | "));
    }
    table
}

#[test]
fn what_deaf_writers_hear() {
    let it = Instance::with(&[("config.json", "{\n  \"a\": 0\n}\n")]);
    let rows: Vec<[String; 3]> = WRITERS
        .iter()
        .map(|(writer, script)| {
            let [early, late] =
                [FIRST_LINE, UNFINISHED].map(|text| first_failure(&it, writer, script, text));
            [(*writer).to_owned(), early, late]
        })
        .collect();
    let found = table(&rows);
    println!("{found}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/SAVES.md");
    let page = std::fs::read_to_string(&path).expect("docs/SAVES.md");
    let (head, rest) = page.split_once(BEGIN).expect("the place of the table");
    let (promised, tail) = rest.split_once(END).expect("the end of the table");
    if std::env::var_os("INSTANCEFS_WRITE_DOCS").is_some_and(|value| value == "1") {
        let page = format!("{head}{BEGIN}\n{found}\n{END}{tail}");
        return std::fs::write(&path, page).expect("docs/SAVES.md");
    }
    let promised: BTreeMap<&str, &str> =
        promised.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).collect();
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|[writer, early, late]| {
            let found = format!("{early} | {late} |");
            let promised = promised.get(writer.as_str()).copied().unwrap_or("not in the table");
            (promised != found).then(|| format!("{writer}: found {found}, promised {promised}"))
        })
        .collect();
    assert!(wrong.is_empty(), "docs/SAVES.md:\n{}", wrong.join("\n"));
    assert_eq!(promised.len(), WRITERS.len() + 1, "programs in docs/SAVES.md");
}
