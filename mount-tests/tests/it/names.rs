//! Section 6: unlink, rename and links of a document; the database's names. Sections 8 and 9.

use std::time::Duration;

use mount_tests::{Instance, eventually, samples};

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.json", "{\"a\": 1}\n")])
}

const RENAME2: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def renameat2(a, b, flags):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags):
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
";

#[test]
fn unlink_frees_the_name_for_the_remover_only_and_removes_no_row() {
    let it = instance();
    let mut reader = it.python();
    reader.run("open('missions.md').read()");
    let mut shell = it.shell();
    shell.run("rm missions.md");
    assert_eq!(shell.attempt("test -e missions.md").0, 1, "gone for the remover's shell");
    it.actor().bash("test -e missions.md").exits(1);
    assert_eq!(it.stranger("cat missions.md"), samples::MISSIONS, "there for everybody else");
    let met = reader.text("open('missions.md').read()");
    assert_eq!(met, samples::MISSIONS, "there for kin that have met it");
    assert_eq!(it.rows().len(), 6);
}

#[test]
fn an_unlinked_name_comes_back_by_itself() {
    let it = instance();
    let mut shell = it.shell();
    shell.run("rm config.json");
    assert_eq!(shell.attempt("test -e config.json").0, 1);
    eventually("the name", || (shell.attempt("test -e config.json").0 == 0).then_some(()));
    assert_eq!(shell.run("cat config.json"), "{\"a\": 1}\n");
}

#[test]
fn unlink_and_exclusive_create_is_a_save() {
    let it = instance();
    it.actor()
        .python(
            "import os\nt=open('config.json').read(); os.unlink('config.json')\n\
             fd=os.open('config.json',os.O_WRONLY|os.O_CREAT|os.O_EXCL,0o600); os.write(fd,t.replace('1','2').encode()); os.close(fd)",
            &[],
        )
        .ok();
    assert_eq!(it.read("config.json"), "{\"a\": 2}\n");
    let errno = it.python().errno("os.open('config.json', os.O_WRONLY|os.O_CREAT|os.O_EXCL)");
    assert_eq!(errno, libc::EEXIST, "for others the name is never free");
}

#[test]
fn rm_and_cat_in_a_shell_is_a_save_that_replaces() {
    let it = instance();
    it.sh("rm missions.md && printf '## Pending\\n- fresh\\n' > missions.md");
    assert_eq!(it.read("missions.md"), "## Pending\n- fresh\n");
    assert_eq!(it.texts("pending"), ["fresh"]);
}

#[test]
fn a_renamed_away_copy_is_a_plain_file_with_the_text_of_that_moment() {
    let it = instance();
    let mut shell = it.shell();
    shell.run("mv missions.md missions.md.bak");
    assert_eq!(shell.attempt("test -e missions.md").0, 1);
    it.stranger_appends("missions.md", "- by someone else\n");
    assert_eq!(shell.run("cat missions.md.bak"), samples::MISSIONS);
    shell.run("echo edited > missions.md.bak; rm missions.md.bak");
    assert_eq!(it.rows().len(), 7);
}

#[test]
fn rename_away_and_write_anew_is_a_save_with_a_backup() {
    let it = instance();
    it.sh("sed -i.bak 's/first task/first by sed/' missions.md");
    assert_eq!(it.read("missions.md"), samples::MISSIONS.replace("first task", "first by sed"));
    assert_eq!(it.read("missions.md.bak"), samples::MISSIONS);
    it.sh("cp missions.md $SCRATCH/n; sed -i 's/third task/third!/' $SCRATCH/n; cp -b $SCRATCH/n missions.md");
    assert!(it.read("missions.md").contains("- third!"));
    assert!(it.read("missions.md~").contains("- third task"));
}

#[test]
fn links_and_other_kinds_on_the_name_are_refused() {
    let it = instance();
    let mut p = it.python();
    assert_eq!(p.errno("os.link('missions.md', 'other')"), libc::EPERM);
    assert_eq!(p.errno("os.mkdir('missions.md')"), libc::EEXIST);
    assert_eq!(p.errno("os.symlink('x', 'missions.md')"), libc::EEXIST);
    assert_eq!(p.errno("os.mknod('missions.md')"), libc::EEXIST);
    assert_eq!(p.errno("os.mkfifo('config.json')"), libc::EEXIST);
    p.run("open('plain', 'w').close()");
    assert_eq!(p.errno("os.link('plain', 'missions.md')"), libc::EEXIST);
}

#[test]
fn siblings_of_any_kind_come_and_go() {
    let it = instance();
    it.sh("for n in 4913 missions.md~ .missions.md.swp '#missions.md#' .tmp-123 missions.md.tmp.1.abc; do \
             echo x > \"$n\" && rm \"$n\" || exit 1; done; ln -s me@host.1 .#missions.md && rm .#missions.md");
}

#[test]
fn noreplace_onto_a_document_is_eexist() {
    let it = instance();
    it.actor()
        .python(
            &format!(
                "{RENAME2}\nopen('t','w').write('{{}}')\n\
                 try: renameat2('t','config.json',1)\nexcept OSError as e: assert e.errno == 17, e\nelse: sys.exit(1)\n\
                 assert os.path.exists('t')"
            ),
            &[],
        )
        .ok();
    assert_eq!(it.read("config.json"), "{\"a\": 1}\n");
}

#[test]
fn exchange_saves_the_other_files_content_and_leaves_the_old_version() {
    let it = instance();
    it.actor()
        .python(
            &format!(
                "{RENAME2}\nt=open('config.json').read()\nopen('t','w').write(t.replace('1','2'))\n\
                 renameat2('t','config.json',2)\nassert open('t').read() == t, open('t').read()"
            ),
            &[],
        )
        .ok();
    assert_eq!(it.read("config.json"), "{\"a\": 2}\n");
    it.actor()
        .python(
            &format!(
                "{RENAME2}\nt=open('config.json').read()\nopen('t','w').write(t.replace('2','3'))\n\
                 renameat2('config.json','t',2)\nassert open('t').read() == t"
            ),
            &[],
        )
        .ok();
    assert_eq!(it.read("config.json"), "{\"a\": 3}\n");
}

#[test]
fn directories_with_a_documents_name_elsewhere_are_plain() {
    let it = instance();
    it.sh(
        "mkdir d && echo hello > d/missions.md && ln d/missions.md d/link && : > d/config.json && \
           test ! -s d/config.json && grep -q hello d/link && rm -r d",
    );
}

#[test]
fn the_database_is_a_symlink_and_its_side_files_are_hidden() {
    let it = instance();
    let target = std::fs::read_link(it.path("missions.db")).expect("a symlink");
    assert_eq!(
        target.canonicalize().expect("target"),
        it.store().join("missions.db").canonicalize().expect("store")
    );
    it.append("missions.md", "- x");
    it.sh("sqlite3 -cmd '.timeout 10000' missions.db 'select count(*) from missions' >/dev/null");
    let names = it.names(".");
    for hidden in ["missions.db-wal", "missions.db-shm", "missions.db-journal"] {
        assert!(!names.contains(&hidden.to_owned()), "{hidden} in {names:?}");
    }
    let mut p = it.python();
    for name in ["missions.db", "missions.lock"] {
        assert_eq!(p.errno(&format!("os.unlink('{name}')")), libc::EPERM, "{name}");
        assert_eq!(p.errno(&format!("os.rename('{name}', 'x')")), libc::EPERM, "{name}");
        p.run("open('t','w').close()");
        assert_eq!(p.errno(&format!("os.rename('t', '{name}')")), libc::EPERM, "{name}");
    }
}

#[test]
fn only_our_own_names_are_listed() {
    let it = instance();
    let names = it.names(".");
    for name in ["missions.md", "config.json", "missions.db"] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
    assert!(names.iter().filter(|n| n.starts_with('.')).count() == 0, "nothing hidden: {names:?}");
}

#[test]
fn a_fresh_store_shows_no_config_until_one_is_saved() {
    let it = Instance::fresh();
    assert!(!it.names(".").iter().any(|n| n.starts_with("config.")));
    it.python().errno("open('config.json')");
    it.sh("echo 'a: 1' > config.yaml");
    assert_eq!(it.read("config.yaml"), "a: 1\n");
    assert_eq!(it.read("config.json"), "{\n  \"a\": 1\n}\n");
    assert!(it.names(".").contains(&"config.json".to_owned()));
}

// ---- section 8 ----

#[test]
fn the_hidden_directory_is_not_listed_but_can_be_entered() {
    let it = instance();
    assert!(!it.names(".").contains(&".instancefs".to_owned()));
    assert_eq!(it.sh("find . -name '.instancefs*' | wc -l").trim(), "0");
    it.sh("cd .instancefs && test -s README && jq -e . status.json >/dev/null");
    it.sh("git init -q . && git add -A && ! git ls-files | grep -q instancefs");
}

// ---- section 9 ----

#[test]
fn store_and_database_are_private() {
    let it = instance();
    let mode = |path: std::path::PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().expect("metadata").permissions().mode() & 0o7777
    };
    assert_eq!(mode(it.store()), 0o700);
    assert_eq!(mode(it.store().join("missions.db")), 0o600);
}

#[test]
fn the_mount_is_nosuid_and_nodev() {
    let it = instance();
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let at = format!(" {} ", it.mount_point().display());
    let line = table.lines().find(|l| l.contains(&at)).expect("our mount");
    assert!(line.contains("nosuid") && line.contains("nodev"), "{line}");
}

#[test]
fn plain_symlinks_are_followed_by_the_kernel_not_by_the_daemon() {
    let it = instance();
    std::fs::write(it.scratch("secret"), "secret").expect("write");
    let secret = it.scratch("secret");
    it.sh(&format!(
        "ln -s {} way-out && test \"$(readlink way-out)\" = {}",
        secret.display(),
        secret.display()
    ));
    let kind = std::fs::symlink_metadata(it.path("way-out")).expect("lstat").file_type();
    assert!(kind.is_symlink());
}

#[test]
fn a_name_given_back_while_a_reader_waits_is_not_missed() {
    let it = instance();
    let reader = it.actor().spawn_python(
        "import time\nend=time.time()+6\nn=0\nwhile time.time()<end:\n  n+=1\n  assert open('config.json').read().startswith('{')\nprint(n)",
        &[],
    );
    for i in 0..10 {
        it.sh(&format!(
            "cat config.json >/dev/null; rm config.json; echo '{{\"a\": {i}}}' > config.json"
        ));
        std::thread::sleep(Duration::from_millis(50));
    }
    reader.wait().ok();
}
