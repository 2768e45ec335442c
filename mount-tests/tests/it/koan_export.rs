//! Exports that fail, files that are removed or covered: rows and view never disagree (R9).

use std::path::{Path, PathBuf};
use std::process::Command;

use mount_tests::{Instance, eventually, samples};

use super::koan::{holder, lets_go, log, program};

/// Every mission is in the file once and every item of the file is a row.
fn agree(it: &Instance) {
    let text = it.read("missions.md");
    let mut python = program(it);
    let shown = python.eval("sorted(t.split(' [')[0] for _, t in koan.read_file('.'))");
    let rows =
        python.eval("sorted(r['text'].split('\\n')[0].split(' [')[0] for r in koan.missions('.'))");
    assert_eq!(shown, rows, "{text}");
}

#[test]
fn rm_of_the_document_removes_no_row_whoever_does_it() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let rows = it.rows();
    it.stranger("rm missions.md");
    assert_eq!(it.read("missions.md"), samples::MISSIONS, "a stranger's read");
    assert_eq!(it.rows(), rows);
    // A program that removes it, finds it gone and writes its rows anew.
    let mut python = program(&it);
    python.run("os.unlink('missions.md')\nassert not os.path.exists('missions.md')");
    python.run("with koan.locked('.'): koan.export('.')");
    assert_eq!(it.rows(), rows);
    agree(&it);
    // Inside its lock, between its rows and its export.
    let mut holder = holder(&it);
    holder.run("rows = koan.missions('.')\nrows[0]['text'] = 'first task, renamed'\nkoan.replace_all('.', rows)");
    it.stranger("rm missions.md");
    holder.run("os.unlink('missions.md')\nkoan.export('.')");
    lets_go(&mut holder);
    assert!(it.read("missions.md").contains("- first task, renamed"));
    agree(&it);
    assert_eq!(it.rows().len(), rows.len());
}

#[test]
fn an_export_that_dies_anywhere_changes_neither_rows_nor_view() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let rows = it.rows();
    // Where the exporter is killed: in the middle of the temporary, before and after its fsync.
    for stage in [
        "file.write(text[:40]); file.flush()",
        "file.write(text); file.flush()",
        "file.write(text); file.flush(); os.fsync(file.fileno())",
    ] {
        let mut holder = holder(&it);
        holder.run("text = koan.render(koan.missions('.'))");
        holder.run(&format!(
            "file = open('.export-tmp', 'w'); fcntl.flock(file, fcntl.LOCK_EX); {stage}"
        ));
        it.append("missions.md", "- meanwhile");
        holder.kill();
        eventually("its row", || (it.count("meanwhile") == 1).then_some(()));
        agree(&it);
        it.edit("missions.md", "- meanwhile\n", "");
        assert_eq!(it.rows(), rows, "{stage}");
        assert_eq!(it.read("missions.md"), samples::MISSIONS, "{stage}");
        it.sh("rm .export-tmp");
    }
    // Rows are replaced, then the exporter dies: the view shows the rows all the same.
    let mut holder = holder(&it);
    holder.run("rows = koan.missions('.')\nrows[0]['text'] = 'first task, renamed'\nkoan.replace_all('.', rows)");
    holder.kill();
    assert!(it.read("missions.md").contains("- first task, renamed"));
    agree(&it);
    // Killed in the middle of writing in place: no save, the text is kept beside.
    let mut killed = it.python();
    killed.run(
        "f = open('missions.md', 'w'); f.write('# Missions\\n\\n## Pending\\n- fir'); f.flush()",
    );
    killed.kill();
    eventually("what it wrote", || it.kept().iter().any(|n| n.contains(".unsaved-")).then_some(()));
    assert!(it.read("missions.md").contains("- third task"));
    agree(&it);
}

/// A file system over a directory, gone when the test ends.
struct Cover(PathBuf);

impl Cover {
    fn over(path: &Path, args: &[&str]) -> Cover {
        let done = Command::new("mount").args(args).arg(path).status().expect("mount");
        assert!(done.success(), "mount {args:?} {path:?}");
        Cover(path.to_owned())
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// An instance whose store is on a file system of this size, mounted.
fn on_small_disk(size: &str) -> (Instance, Cover) {
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    let store = it.store();
    it.outside().bash("cp -a \"$STORE\" copy").ok();
    let size = format!("size={size},mode=700");
    let cover = Cover::over(&store, &["-t", "tmpfs", "-o", &size, "tmpfs"]);
    it.outside().bash("cp -a copy/. \"$STORE\"/").ok();
    it.mount();
    (it, cover)
}

#[test]
fn a_full_disk_stops_saves_with_enospc_and_loses_nothing() {
    if !mount_tests::is_root() {
        eprintln!("only root may mount over a file");
        return;
    }
    let (it, cover) = on_small_disk("6m");
    it.append("missions.md", "- before");
    let rows = it.rows();
    let before = it.read("missions.md");
    it.sh("dd if=/dev/zero of=fill bs=64k 2> /dev/null; dd if=/dev/zero of=fill2 bs=4k 2> /dev/null; true");
    let big = "x".repeat(200_000);
    let mut holder = holder(&it);
    holder.run(&format!("rows = koan.missions('.')\nbig = {big:?}\ntext = koan.render(rows) + '<!-- ' + big + ' -->\\n'"));
    // An export: its temporary does not fit.
    let export = holder.outcome("koan.export('.', text)");
    assert_eq!(export, libc::ENOSPC, "an export");
    // Saves of every kind.
    for save in [
        "f = open('missions.md', 'w'); f.write(text); f.flush(); os.fsync(f.fileno()); f.close()",
        "f = open('missions.md', 'a'); f.write('- ' + big + '\\n'); f.flush(); os.fsync(f.fileno()); f.close()",
        "f = os.open('missions.md', os.O_WRONLY | os.O_APPEND); os.write(f, ('- ' + big + '\\n').encode()); os.close(f)",
    ] {
        let got = holder.outcome(save);
        assert_eq!(got, libc::ENOSPC, "{save}");
        assert_eq!(it.read("missions.md"), before, "{save}");
    }
    // The rows themselves, by SQL.
    holder
        .attempt("koan.replace_all('.', rows + [dict(rows[0], text=big)] * 20)")
        .expect_err("no room for rows");
    assert_eq!(it.read("missions.md"), before);
    assert_eq!(it.rows(), rows);
    // The holder goes on with what little fits, and everybody when there is room.
    lets_go(&mut holder);
    it.sh("rm -f fill fill2");
    it.append("missions.md", "- after");
    holder.run("koan.insert('.', 'by the program')");
    agree(&it);
    assert_eq!(it.rows().len(), rows.len() + 2);
    it.unmount();
    let written = it.outside().bash("cat \"$STORE/missions.md\"").ok();
    assert!(written.contains("- after\n") && written.contains("- by the program"), "{written}");
    drop(holder);
    drop(cover);
}

#[test]
fn a_document_that_is_bound_to_another_path_is_the_document_there_too() {
    if !mount_tests::is_root() {
        eprintln!("only root may mount over a file");
        return;
    }
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let other = it.scratch("bound.md");
    std::fs::write(&other, "").expect("write");
    let source = it.path("missions.md");
    let cover = Cover::over(&other, &["--bind", source.to_str().expect("path")]);
    let reads = || it.outside().bash("cat bound.md").ok();
    assert_eq!(reads(), samples::MISSIONS);
    // New versions of every kind are there, and saves there are saves.
    it.append("missions.md", "- appended");
    it.sh("sed 's/^- first task$/- first task, edited/' missions.md > t && mv t missions.md");
    it.database()
        .execute("update missions set text = 'by sql' where text = 'broken task'", [])
        .expect("sql");
    assert_eq!(reads(), it.read("missions.md"));
    assert!(reads().contains("- appended\n") && reads().contains("- by sql"));
    it.outside().bash("echo '- through the other path' >> bound.md").ok();
    assert_eq!(it.count("through the other path"), 1);
    it.outside()
        .bash("sed 's/^- third task/- 3rd task/' bound.md > new && cat new > bound.md")
        .ok();
    assert!(it.rows().iter().any(|(text, _)| text.starts_with("3rd task")));
    let mut python = program(&it);
    python.run("koan.insert('.', 'by the program')");
    assert_eq!(reads(), it.read("missions.md"));
    agree(&it);
    drop(cover);
}

#[test]
fn a_file_that_covers_the_document_changes_nothing_below_it() {
    if !mount_tests::is_root() {
        eprintln!("only root may mount over a file");
        return;
    }
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let file = it.scratch("missions.docker.md");
    std::fs::write(&file, "# Missions\n\n## Pending\n- of the other file\n").expect("write");
    let cover = Cover::over(&it.path("missions.md"), &["--bind", file.to_str().expect("path")]);
    let mut python = program(&it);
    // Its export cannot get past the file. Rows are what they were made.
    assert_eq!(python.outcome("koan.insert('.', 'by the program')"), libc::EBUSY);
    assert_eq!(it.count("by the program"), 1);
    it.append("missions.md", "- to the other file");
    assert_eq!(it.count("to the other file"), 0);
    drop(cover);
    assert!(it.read("missions.md").contains("- by the program"));
    assert!(!it.read("missions.md").contains("other file"));
    assert_eq!(it.count("by the program"), 1);
    it.sh("rm -f .export-*");
    agree(&it);
}

#[test]
fn a_store_whose_file_is_bound_is_written_out_in_place_and_says_what_the_rows_say() {
    if !mount_tests::is_root() {
        eprintln!("only root may mount over a file");
        return;
    }
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    let file = it.scratch("missions.docker.md");
    std::fs::copy(it.store().join("missions.md"), &file).expect("copy");
    let cover =
        Cover::over(&it.store().join("missions.md"), &["--bind", file.to_str().expect("path")]);
    it.mount();
    it.append("missions.md", "- appended");
    it.remount();
    let shown = it.read("missions.md");
    assert!(shown.contains("- appended\n"), "{shown}");
    it.unmount();
    assert_eq!(std::fs::read_to_string(&file).expect("read"), shown, "it is the plain file now");
    // Edited where it is bound from, while nothing is mounted.
    it.outside().bash("sed 's/^- appended$/&\\n- by hand/' missions.docker.md > new && cat new > missions.docker.md").ok();
    it.mount();
    assert_eq!((it.count("by hand"), it.count("appended")), (1, 1));
    let revisions = log(&it).len();
    it.remount();
    assert_eq!(log(&it).len(), revisions);
    it.unmount();
    drop(cover);
}
