//! R11: it leaves when asked, and the store is a complete ordinary directory then.

use mount_tests::{Instance, eventually, is_mounted, samples};

fn instance() -> Instance {
    Instance::builder()
        .file("missions.md", samples::MISSIONS)
        .file("config.yaml", samples::CONFIG_YAML)
        .file("memory/notes.md", "notes\n")
        .file("outbox.md", "")
        .start()
}

#[test]
fn sigterm_and_sigint_unmount_and_end_the_daemon() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let it = instance();
        it.append("missions.md", "- the last one");
        it.signal_daemon(signal);
        assert!(!it.mounted(), "unmounted by signal {signal}");
        let text = std::fs::read_to_string(it.store().join("missions.md")).expect("written out");
        assert!(text.contains("- the last one\n"));
    }
}

#[test]
fn a_daemon_in_the_foreground_exits_0_when_asked() {
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    let (store, mount) = (it.store(), it.mount_point());
    let running = it.outside().spawn(
        mount_tests::instancefs(),
        &["mount".as_ref(), store.as_os_str(), mount.as_os_str(), "--foreground".as_ref()],
    );
    eventually("the mount", || is_mounted(&mount).then_some(()));
    eventually("an answer", || std::fs::read(mount.join("missions.md")).ok());
    running.signal(libc::SIGTERM);
    running.wait().ok();
    assert!(!it.mounted());
}

#[test]
fn unmounted_the_store_is_a_complete_ordinary_directory() {
    let it = instance();
    it.sh("echo x > plain; mkdir -p deep/er; echo y > deep/er/file; ln -s plain link");
    it.append("missions.md", "- appended");
    let (missions, yaml) = (it.bytes("missions.md"), it.bytes("config.yaml"));
    it.unmount();
    let at =
        |name: &str| std::fs::read(it.store().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(at("missions.md"), missions);
    assert_eq!(at("config.yaml"), yaml);
    assert_eq!(at("plain"), b"x\n");
    assert_eq!(at("deep/er/file"), b"y\n");
    assert_eq!(at("link"), b"x\n");
    assert_eq!(at("memory/notes.md"), b"notes\n");
    assert_eq!(it.rows().len(), 7);
}

#[test]
fn edits_of_the_plain_files_meanwhile_are_merged_at_the_next_mount() {
    let it = instance();
    it.unmount();
    let path = it.store().join("missions.md");
    let text = std::fs::read_to_string(&path).expect("written out");
    std::fs::write(
        &path,
        text.replace("- first task", "- first task, by hand")
            .replace("- third task [complexity:simple]\n  with a second line\n", ""),
    )
    .expect("write");
    it.database()
        .execute(
            "insert into missions(text,state,sequence) values('sql meanwhile','pending',99)",
            [],
        )
        .expect("sql");
    let yaml = it.store().join("config.yaml");
    let text = std::fs::read_to_string(&yaml).expect("written out");
    std::fs::write(&yaml, text.replace("interval: 60", "interval: 61")).expect("write");
    it.mount();
    assert_eq!(
        it.texts("pending"),
        ["first task, by hand", "second task [project:web]", "sql meanwhile"]
    );
    assert_eq!(
        it.read("config.yaml"),
        samples::CONFIG_YAML.replace("interval: 60", "interval: 61")
    );
    assert_eq!(it.sh("jq .interval config.json").trim(), "61");
}

#[test]
fn an_invalid_edit_meanwhile_is_kept_beside_the_document() {
    let it = instance();
    it.unmount();
    std::fs::write(it.store().join("config.yaml"), "a: [").expect("write");
    it.mount();
    assert_eq!(it.read("config.yaml"), samples::CONFIG_YAML);
    assert!(it.refused("config.yaml").contains("a: ["));
}

#[test]
fn unsaved_buffers_are_kept_beside_the_document() {
    let it = instance();
    let mut p = it.actor().within(&it.scratch("..")).python_steps();
    let pid = p.pid();
    p.run(
        "fd = os.open('mount/config.json', os.O_WRONLY|os.O_TRUNC)\nos.write(fd, b'{\"half\": ')",
    );
    it.signal_daemon(libc::SIGTERM);
    assert!(!it.mounted());
    let kept = it.store().join(format!("config.json.unsaved-{pid}"));
    assert_eq!(std::fs::read_to_string(kept).expect("kept"), "{\"half\": ");
}

#[test]
fn unmount_with_a_program_inside_ends_all_the_same() {
    let it = instance();
    let mut shell = it.shell();
    shell.run("exec 5< missions.md; cd memory");
    it.append("missions.md", "- while somebody is inside");
    it.unmount();
    it.mount();
    assert_eq!(it.count("while somebody is inside"), 1);
}

#[test]
fn a_save_in_flight_at_the_end_is_finished() {
    let it = instance();
    let script = "for i in $(seq 2000); do echo \"- f$i\" >> missions.md || exit; echo $i > $SCRATCH/n; done";
    let writer = it.actor().spawn_bash(script);
    eventually("some saves", || it.scratch("n").exists().then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    it.unmount();
    drop(writer);
    let acknowledged: usize =
        std::fs::read_to_string(it.scratch("n")).expect("n").trim().parse().unwrap_or(0);
    for i in 1..=acknowledged {
        assert_eq!(it.count(&format!("f{i}")), 1, "f{i} of {acknowledged}");
    }
}
