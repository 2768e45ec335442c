//! Refusals before the end of a text, for programs that never look at the result of `close`.

use mount_tests::{Instance, samples};

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.yaml", samples::CONFIG_YAML)])
}

/// The text in the one `.refused` file that there is.
fn kept(it: &Instance, name: &str) -> String {
    assert_eq!(it.kept(), [format!("{name}.refused")]);
    let all = it.refused(name);
    let text = all.split_once("the refused text follows this line");
    let text = text.and_then(|(_, text)| text.split_once('\n'));
    text.unwrap_or_else(|| panic!("no text in {all}")).1.to_owned()
}

#[test]
fn a_shells_own_write_fails_and_the_text_is_kept_once() {
    // `echo` leaves off at the error, `printf` writes on.
    for (line, second) in
        [("printf '{\"a\": x,\\n\"b\": 2}\\n'", "\"b\": 2}\n"), ("echo '{\"a\": x,'", "")]
    {
        let it = instance();
        let before = it.read("config.json");
        let (code, said) = it.actor().orphan(&format!("{line} > config.json"));
        assert_ne!(code, 0, "{line}");
        assert!(said.contains("write error: Input/output error"), "{line}: {said}");
        assert_eq!(it.read("config.json"), before);
        assert_eq!(kept(&it, "config.json"), format!("{{\"a\": x,\n{second}"), "{line}");
        assert_eq!(it.status()["refusals"]["count"], 1, "{line}");
        let mut sh = it.shell();
        let (code, _) = sh.attempt(&format!("{line} > config.json"));
        assert_ne!(code, 0, "{line}");
        let both = it.kept().len();
        sh.run("cat config.json > /dev/null; echo '{\"n\": 1}' > config.json");
        assert!(it.read("config.json").contains("\"n\": 1"));
        assert_eq!(
            it.kept().len(),
            both - 1,
            "its own one is gone, a stranger's is not: {:?}",
            it.kept()
        );
    }
}

#[test]
fn a_group_that_goes_on_after_the_error_saves_no_part_of_its_text() {
    let it = instance();
    let before = it.read("config.json");
    let script = "{ echo '{\"a\": x,'; echo '{\"b\": 2}'; /bin/echo '{\"c\": 3}'; } > config.json";
    it.actor().bash(script).failed();
    assert_eq!(it.read("config.json"), before);
    assert_eq!(kept(&it, "config.json"), "{\"a\": x,\n{\"b\": 2}\n{\"c\": 3}\n");
}

#[test]
fn fs_write_fails_and_so_does_a_shell_with_an_alias_bomb() {
    let it = instance();
    let error = |name: &str, text: &[u8]| {
        let told = std::fs::write(it.path(name), text);
        told.err().and_then(|e| e.raw_os_error())
    };
    let before = it.read("config.yaml");
    let lines = |n: u32| format!("k{n}: &k{n} [*k{0}, *k{0}, *k{0}, *k{0}]\n", n - 1);
    let bomb = format!("k0: &k0 [1, 2]\n{}", (1..12).map(lines).collect::<String>());
    for (name, text) in [
        ("config.json", &b"{\"a\": 1 \"b\": 2}\n"[..]),
        ("config.json", b"{\"a\": \"\xff\"}\n"),
        ("config.yaml", b"a: 1\n\tb: 2\nc: 3\n"),
        ("config.yaml", bomb.as_bytes()),
        ("missions.md", b"## Pending\n- \xff\n- b\n"),
    ] {
        assert_eq!(error(name, text), Some(libc::EIO), "{name} {text:?}");
    }
    assert_eq!(it.read("config.yaml"), before);
    assert_eq!(it.kept().len(), 5);
    // What readers put up with is not told before the end, and what is good not at all.
    let cut = "{\"a\": \"\\ud83d\", \"b\": NaN, \"b\": [1,], /* c */ \"d\": 1e999}\n";
    assert_eq!(error("config.json", cut.as_bytes()), None);
    assert_eq!(error("config.json", b"{\"a\": 1}\n"), None);
    assert!(it.read("config.json").contains("\"a\": 1"));
    assert_eq!(it.kept(), ["missions.md.refused"], "a good save takes its document's away");
}

#[test]
fn a_long_text_that_is_written_in_pieces_is_told_at_the_piece() {
    let it = instance();
    let before = it.read("config.json");
    let values = "1, ".repeat(400_000);
    let text = format!("{{\"a\": [{values} x, {values}]}}\n");
    let told = std::fs::write(it.path("config.json"), &text);
    assert_eq!(told.err().and_then(|e| e.raw_os_error()), Some(libc::EIO));
    let kept = kept(&it, "config.json");
    assert!(kept.len() > values.len() && text.starts_with(&kept), "{} bytes", kept.len());
    assert_eq!(it.read("config.json"), before);
}

#[test]
fn python_hears_it_at_write_or_close_and_the_text_is_there_once() {
    let it = instance();
    let big = "text = '{\"a\": [' + '1, ' * 100000 + 'x]}'";
    let mut p = it.python();
    p.run(big);
    p.run("f = open('config.json', 'w')");
    assert_eq!(p.outcome("f.write(text)\nf.close()"), libc::EIO);
    p.outcome("f.close()");
    p.run("wanted = text");
    let kept = kept(&it, "config.json");
    assert!(p.text("wanted").starts_with(&kept) && !kept.is_empty());
    p.run("small = '{\"a\": x}'\nf = open('config.json', 'w')\nf.write(small)");
    assert_eq!(p.outcome("f.flush()"), libc::EIO);
    assert_eq!(p.outcome("f.close()"), libc::EIO);
    let all: Vec<String> = it.kept().iter().map(|name| it.read(name)).collect();
    assert!(all.iter().any(|text| text.ends_with("line\n{\"a\": x}")), "{all:?}");
    p.run("with open('config.json', 'w') as f: f.write('{\"a\": 1}')");
    assert_eq!(it.kept(), [""; 0]);
}

#[test]
fn setting_the_length_that_was_written_answers_for_the_text() {
    let it = instance();
    let before = it.read("config.json");
    let mut p = it.python();
    p.run("flags = os.O_WRONLY | os.O_TRUNC\nfd = os.open('config.json', flags)");
    p.run("n = os.write(fd, b'{\"a\": [1')");
    assert_eq!(p.outcome("os.ftruncate(fd, n)"), libc::EIO);
    assert_eq!(p.outcome("os.close(fd)"), libc::EIO);
    assert_eq!(it.read("config.json"), before);
    assert_eq!(kept(&it, "config.json"), "{\"a\": [1");
    p.run("fd = os.open('config.json', flags)\nn = os.write(fd, b'{\"a\": 1}')");
    p.run("os.ftruncate(fd, n)");
    assert_eq!(it.read("config.json"), before, "nothing is committed before the end");
    p.run("os.close(fd)");
    assert!(it.read("config.json").contains("\"a\": 1"));
    assert_eq!(it.kept(), [""; 0]);
}

#[test]
fn a_text_that_is_begun_anew_after_the_error_is_saved() {
    let it = instance();
    let mut p = it.python();
    p.run("fd = os.open('config.json', os.O_WRONLY | os.O_TRUNC)");
    assert_eq!(p.outcome("os.write(fd, b'{bad')"), libc::EIO);
    p.run("os.ftruncate(fd, 0)\nos.lseek(fd, 0, 0)\nos.write(fd, b'{\"a\": 1}')\nos.close(fd)");
    assert!(it.read("config.json").contains("\"a\": 1"));
    assert_eq!(it.kept(), [""; 0]);
}

#[test]
fn managed_files_are_judged_by_their_kind() {
    let it = Instance::builder().file("state.json", "{\"a\": 1}\n").file("outbox.md", "- x\n");
    let it = it.file("instancefs.toml", "[files]\n\"state.json\" = \"json\"\n").start();
    let told = |text: &str| std::fs::write(it.path("state.json"), text).is_err();
    assert!(told("{\"a\": x}\n"));
    assert_eq!(it.read("state.json"), "{\"a\": 1}\n");
    assert!(!told("{\"a\": 2}\n"));
    assert!(std::fs::write(it.path("outbox.md"), b"- \xff\0\n").is_ok());
}
