//! Plain files on their way to become a document, with and without kernel passthrough: who has
//! written them, and what it had seen, must be known in both.

use mount_tests::Instance;

const MODES: [&[&str]; 4] =
    [&[], &["--no-passthrough"], &["--strict"], &["--strict", "--no-passthrough"]];

const QUEUE: &str = "# Missions\n\n## Pending\n\n- one\n- two\n- three\n";

fn each(test: impl Fn(&Instance, &str)) {
    for mode in MODES {
        let builder = Instance::builder().file("missions.md", QUEUE);
        let it = mode.iter().fold(builder, |b, arg| b.mount_arg(arg)).start();
        test(&it, &mode.join(" "));
    }
}

#[test]
fn a_file_that_was_opened_before_its_writer_looked() {
    each(|it, mode| {
        let mut writer = it.python();
        writer.run("f = open('new', 'w')");
        writer.run("f.write(open('missions.md').read().replace('- two\\n', '')); f.close()");
        it.append("missions.md", "- four");
        it.sh("mv new missions.md");
        let text = it.read("missions.md");
        assert!(!text.contains("- two"), "its writer had seen what it removed; {mode}: {text}");
        assert!(text.contains("- four"), "its writer had not seen this; {mode}: {text}");
    });
}

#[test]
fn a_file_that_is_still_open_when_another_renames_it() {
    each(|it, mode| {
        let mut writer = it.python();
        writer.run("f = open('new', 'w')");
        writer.run("f.write(open('missions.md').read().replace('- two\\n', '')); f.flush()");
        it.sh("mv new missions.md");
        let text = it.read("missions.md");
        assert!(!text.contains("- two"), "its writer had seen what it removed; {mode}: {text}");
        // What comes later through the handle is the document's, committed at its flush.
        writer.run("f.write('- five\\n')");
        writer.run("f.close()");
        let text = it.read("missions.md");
        assert!(text.contains("- five"), "{mode}: {text}");
    });
}

#[test]
fn a_mapping_is_a_way_to_write() {
    each(|it, mode| {
        let mut writer = it.python();
        writer.run("import mmap, shutil\nshutil.copy('missions.md', 'new')");
        writer.run("fd = os.open('new', os.O_RDWR); m = mmap.mmap(fd, 0)");
        writer.run("at = m.find(b'two'); m[at:at+3] = b'2nd'; m.flush()");
        it.sh("mv new missions.md");
        let text = it.read("missions.md");
        assert!(text.contains("- 2nd") && !text.contains("- two"), "{mode}: {text}");
        writer.run("at = m.find(b'one'); m[at:at+3] = b'1st'; m.flush(); m.close(); os.close(fd)");
        let text = it.read("missions.md");
        assert!(text.contains("- 1st") && !text.contains("- one"), "{mode}: {text}");
    });
}

#[test]
fn reading_the_copy_of_a_document_is_a_look() {
    each(|it, mode| {
        it.sh("mv missions.md missions.bak");
        let mut writer = it.python();
        writer.run("text = open('missions.bak').read()");
        writer.run("open('missions.md', 'w').write(text.replace('- two\\n', ''))");
        let text = it.read("missions.md");
        assert!(!text.contains("- two"), "{mode}: {text}");
    });
}

#[test]
fn a_changed_copy_is_not_the_copy_any_more() {
    each(|it, mode| {
        it.stranger("cp missions.md new");
        // This writer has seen nothing and its text says as little, so what it makes of the copy
        // only adds. An unchanged copy would be the version that was copied.
        let text = QUEUE.replace("- two\n- three\n", "- six\n- seven\n- eight\n- nine\n");
        std::fs::write(it.scratch("text"), text).expect("write");
        it.stranger("dd if=$SCRATCH/text of=new conv=notrunc status=none");
        it.stranger("mv new missions.md");
        let text = it.read("missions.md");
        for line in ["one", "two", "three", "six", "seven", "eight", "nine"] {
            assert!(text.contains(&format!("- {line}\n")), "{line}; {mode}: {text}");
        }
    });
}
