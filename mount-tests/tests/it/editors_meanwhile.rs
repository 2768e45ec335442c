//! Editors and tools that read a file, and save it after another program has appended to it:
//! nothing is lost and nothing doubled. Many of them read the file once more on the way, for a
//! backup, a comparison or a diff: that is no look of the person or the agent.

use mount_tests::trio::{ALL, Sample, files};
use mount_tests::{Instance, eventually, programs_dir};

/// Runs a program that saves `$T` with `$OLD` replaced by `$NEW`. `pause` in it waits until the
/// other program has appended.
#[track_caller]
fn saved(it: &Instance, sample: &Sample, (old, new): (&str, &str), script: &str) {
    for name in ["seen", "go"] {
        let _ = std::fs::remove_file(it.scratch(name));
    }
    let actor = it
        .actor()
        .env("PROGRAMS", programs_dir())
        .env("T", sample.name)
        .env("OLD", old)
        .env("NEW", new);
    let mut program = actor.spawn_bash(&format!("PATH=$PROGRAMS:$PATH\n{script}"));
    eventually(script, || (it.scratch("seen").exists() || program.ended()).then_some(()));
    it.stranger_appends(sample.name, sample.other);
    std::fs::write(it.scratch("go"), "").expect("go");
    program.wait().ok();
}

#[track_caller]
fn edits(script: &str) {
    let it = files(Instance::builder()).start();
    let mut wrong = String::new();
    for sample in &ALL {
        let (old, new) = sample.word();
        saved(&it, sample, (old, new), script);
        let wanted = sample.with(&sample.start.replace(old, new), sample.other);
        let got = it.read(sample.name);
        if got != wanted {
            wrong += &format!("{}: wanted\n{wanted}-- got\n{got}--\n", sample.name);
        }
    }
    assert!(wrong.is_empty(), "{script}\n{wrong}");
    assert_eq!(it.kept(), Vec::<String>::new(), "{script}");
}

/// The text is saved as it was loaded.
#[track_caller]
fn saves_unchanged(script: &str) {
    let it = files(Instance::builder()).start();
    let mut wrong = String::new();
    for sample in &ALL {
        saved(&it, sample, ("", ""), script);
        let wanted = sample.with(sample.start, sample.other);
        let got = it.read(sample.name);
        if got != wanted {
            wrong += &format!("{}: wanted\n{wanted}-- got\n{got}--\n", sample.name);
        }
    }
    assert!(wrong.is_empty(), "{script}\n{wrong}");
}

macro_rules! rows {
    ($how:ident { $($name:ident: $script:expr)* }) => {
        mod $how { $(#[test] fn $name() { super::$how($script); })* }
    };
}

rows! { edits {
    emacs_warned: r#"emacs -Q --batch -l "$PROGRAMS/meanwhile.el""#
    emacs_edited_before: r#"WHEN=after emacs -Q --batch -l "$PROGRAMS/meanwhile.el""#
    vim: r#"VIM_SET=backupcopy=auto pty_drive.py vim vim -Nu NONE -i NONE -S "$PROGRAMS/edit.vim" "$T""#
    vim_backup: r#"VIM_SET='backup backupcopy=yes' pty_drive.py vim vim -Nu NONE -i NONE -S "$PROGRAMS/edit.vim" "$T""#
    nano: r#"pty_drive.py nano "$T""#
    nano_backup: r#"pty_drive.py nano -B "$T""#
    micro: r#"pty_drive.py micro "$T""#
    vscode: r#"node "$PROGRAMS/meanwhile.js" vscode"#
    node_tool_reads_for_a_diff: r#"node "$PROGRAMS/meanwhile.js" tool"#
    aider_reads_for_a_diff: r#"python3 "$PROGRAMS/meanwhile.py" early"#
    edit_tool_renames: r#"python3 "$PROGRAMS/meanwhile.py" rename"#
    edit_tool_append_after_the_diff: r#"python3 "$PROGRAMS/meanwhile.py" late"#
    edit_tool_edits_the_newest: r#"python3 "$PROGRAMS/meanwhile.py" newest"#
} }

rows! { saves_unchanged {
    vim_backup: r#"pty_drive.py vim vim -Nu NONE -i NONE -c 'set backup' -c 'call system("pause")' -c 'silent wq!' "$T""#
    vim_backup_copied: r#"pty_drive.py vim vim -Nu NONE -i NONE -c 'set backup backupcopy=yes' -c 'call system("pause")' -c 'silent wq!' "$T""#
    vim_backup_renamed: r#"pty_drive.py vim vim -Nu NONE -i NONE -c 'set backup backupcopy=no' -c 'call system("pause")' -c 'silent wq!' "$T""#
    nano_backup: r#"pty_drive.py nano -B "$T""#
} }
