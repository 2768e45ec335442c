//! Texts that tests start from.

/// A hand-written missions.md with everything that people put into one.
pub const MISSIONS: &str = "\
# Missions

Read docs/how-we-work.md first.

## Pending

- first task
- second task [project:web]

# a comment between two tasks
- third task [complexity:simple]
  with a second line

## In Progress

- running task ▶(2026-07-01T09:05)

## Done

- finished task ✅ (2026-07-01 10:00)

## Failed

- broken task ❌ (2026-07-01 10:00)

## Notes

Nothing here is a mission.
* not an item
1. neither
";

/// A config.json with an order and spellings that must stay.
pub const CONFIG_JSON: &str = r#"{
  "version": 1,
  "name": "koi",
  "zeta": 1.50,
  "alpha": {"deep": {"a": 1, "b": [1, 2, 3]}, "keep": true},
  "big": 12345678901234567890,
  "list": [ "x",   "y" ]
}
"#;

/// A config.yaml with comments.
pub const CONFIG_YAML: &str = "\
# Settings of this instance.
version: 1

# how many at once
max_parallel: 3   # never more than 5
interval: 60

branches:
  prefix: \"koi/\"     # quoted on purpose
  # nested comment
  base: main

# last words
";

/// A missions.md of `lines` pending tasks in many hand-made styles.
pub fn styled_missions(lines: usize) -> String {
    let mut text = String::from("#   My missions \n\nintro text\n\n## pending\n");
    for i in 0..lines {
        match i % 10 {
            0 => text.push_str(&format!("- task {i}\n")),
            1 => text.push_str(&format!("-  task {i} with two blanks\n")),
            2 => text.push_str(&format!("- task {i} trailing blanks   \n")),
            3 => text.push_str(&format!("\n- task {i} after a blank line\n")),
            4 => text.push_str(&format!("# comment {i}\n- task {i} under a comment\n")),
            5 => text.push_str(&format!("- task {i}\n  continued\n    and indented\n")),
            6 => text.push_str(&format!("- task {i} [project:p{i}] ⏳(2026-07-01T09:{i:02})\n")),
            7 => text.push_str(&format!("- täsk {i} — «ünï» 🚀\n")),
            8 => text.push_str(&format!(
                "- task {i}\n  ```\n  - not an item\n  ## nor a header\n  ```\n"
            )),
            _ => text.push_str(&format!("- task {i} with `code` and **bold** and ## hashes\n")),
        }
    }
    text.push_str("\n\n## In Progress\n\n## Done\n- an old one ✅ (2026-06-01 10:00)\n\n## Failed\n\n## Ideas of mine\nfree text\n");
    text
}

/// A config.yaml of about `lines` lines, every second one a comment.
pub fn commented_yaml(lines: usize) -> String {
    let mut text = String::from("# top\n");
    for i in 0..lines / 2 {
        text.push_str(&format!("# comment number {i}\nkey_{i}: {i}  # beside {i}\n"));
    }
    text
}
