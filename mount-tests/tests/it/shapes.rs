//! Section 4: who reads and who saves are often different processes. For each shape that agents,
//! terminals and services have: what was taken out and reworded is, what others appended stays,
//! and the old text written back is an undo. `programs/shapes.py` has the shapes.

use std::ffi::OsStr;
use std::time::Duration;

use mount_tests::trio::{self, ALL, Sample};
use mount_tests::{Instance, Python, eventually, is_root};

/// What of the shape is unlike the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Any user can have this shape.
    Usual,
    /// A part of it runs as somebody else, which only root can make.
    OtherUser,
    /// Namespaces, which only root can make everywhere.
    Namespaces,
}

/// An instance with the three files and an agent in it.
struct Stage {
    agent: Python,
    it: Instance,
}

fn files() -> mount_tests::Builder {
    trio::files(Instance::builder())
}

impl Stage {
    /// `None` if this machine does not let us.
    fn new(shape: &str, kind: Kind) -> Option<Stage> {
        if kind != Kind::Usual && !is_root() {
            eprintln!("only root may do this");
            return None;
        }
        let it = match kind {
            // In a place that others can walk to, wherever the tests' own is.
            Kind::OtherUser => files().in_memory().mount_arg("--allow-other").start(),
            _ => files().start(),
        };
        if kind == Kind::OtherUser {
            it.stranger("chmod 777 . memory; chmod 666 missions.md config.yaml memory/note.md");
        }
        Some(Stage::on(it, shape))
    }

    fn on(it: Instance, shape: &str) -> Stage {
        let actor = it.actor().env("PYTHONPATH", mount_tests::programs_dir());
        let mut agent = actor.python_steps();
        agent.run(&format!("import shapes\nagent = shapes.Agent({shape:?})"));
        Stage { it, agent }
    }

    fn look(&mut self, sample: &Sample) {
        self.agent.run(&format!("agent.look({:?})", sample.name));
    }

    fn save(&mut self, sample: &Sample, text: &str) {
        std::fs::write(self.it.scratch("new"), text).expect("write");
        self.agent.run(&format!("agent.save({:?})", sample.name));
    }

    /// Every file must have its text; the agent's helpers end first.
    #[track_caller]
    fn end(mut self, wanted: impl Fn(&Sample) -> String) {
        self.agent.run("agent.end()");
        self.has(wanted);
    }

    #[track_caller]
    fn has(&self, wanted: impl Fn(&Sample) -> String) {
        let mut wrong = String::new();
        for sample in &ALL {
            let (wanted, got) = (wanted(sample), self.it.read(sample.name));
            if wanted != got {
                let name = sample.name;
                wrong += &format!("{name}: wanted\n{wanted}-- got\n{got}--\n");
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
        assert_eq!(self.it.kept(), Vec::<String>::new());
    }
}

/// One entry is taken out and another one reworded.
#[track_caller]
fn edit(shape: &str, kind: Kind) {
    let Some(mut stage) = Stage::new(shape, kind) else { return };
    for sample in &ALL {
        stage.look(sample);
        stage.save(sample, &sample.edited(sample.start));
    }
    stage.end(|sample| sample.edited(sample.start));
}

/// The same, while another program appends between the look and the save.
#[track_caller]
fn meanwhile(shape: &str, kind: Kind) {
    let Some(mut stage) = Stage::new(shape, kind) else { return };
    for sample in &ALL {
        stage.look(sample);
        stage.it.stranger_appends(sample.name, sample.other);
        stage.save(sample, &sample.edited(sample.start));
    }
    stage.end(|sample| sample.with(&sample.edited(sample.start), sample.other));
}

/// The old text is written back after another look.
#[track_caller]
fn undo(shape: &str, kind: Kind) {
    let Some(mut stage) = Stage::new(shape, kind) else { return };
    for sample in &ALL {
        stage.look(sample);
        stage.save(sample, &sample.edited(sample.start));
        stage.look(sample);
        stage.save(sample, sample.start);
    }
    stage.end(|sample| sample.start.to_owned());
}

/// The old text is written back at once.
#[track_caller]
fn undo_at_once(shape: &str, kind: Kind) {
    let Some(mut stage) = Stage::new(shape, kind) else { return };
    for sample in &ALL {
        stage.look(sample);
        stage.save(sample, &sample.edited(sample.start));
        stage.save(sample, sample.start);
    }
    stage.end(|sample| sample.start.to_owned());
}

/// One module per shape, one test per case. Where nobody in the writer's tree has looked, an old
/// text may as well be a template that is copied once more, so there is no undo.
macro_rules! shapes {
    (kin { $($name:ident: $kind:ident)* } strangers { $($stranger:ident: $other:ident)* }) => {
        $(mod $name {
            use super::Kind;
            #[test] fn edit() { super::edit(stringify!($name), Kind::$kind); }
            #[test] fn meanwhile() { super::meanwhile(stringify!($name), Kind::$kind); }
            #[test] fn undo() { super::undo(stringify!($name), Kind::$kind); }
            #[test] fn undo_at_once() { super::undo_at_once(stringify!($name), Kind::$kind); }
        })*
        $(mod $stranger {
            use super::Kind;
            #[test] fn edit() { super::edit(stringify!($stranger), Kind::$other); }
            #[test] fn meanwhile() { super::meanwhile(stringify!($stranger), Kind::$other); }
        })*
    };
}

shapes! {
    kin {
        one_process: Usual
        one_shell: Usual
        session: Usual
        terminal: Usual
        timeout: Usual
        env: Usual
        nice: Usual
        nohup: Usual
        script: Usual
        xargs: Usual
        parallel: Usual
        make: Usual
        wrapped: Usual
        helper: Usual
        sudo: OtherUser
        user_reads_root_saves: OtherUser
        bwrap: Namespaces
        unshare: Namespaces
        node_detached: Usual
        tmux_sessions: Usual
        tmux_panes: Usual
        requests: Usual
        agent_reads_child_saves: Usual
        agent_reads_helper_saves: Usual
        agent_reads_sandbox_saves: Namespaces
        child_reads_agent_saves: Usual
        tool_reads_shell_saves: Usual
        shell_reads_tool_saves: Usual
    }
    strangers {
        double_fork: Usual
        setsid_f: Usual
        tool_reads_tmux_saves: Usual
    }
}

/// Every way to save, after a look by another command: edits, with another program's append.
#[track_caller]
fn way(shape: &str, way: &str) {
    let mut stage = Stage::new(shape, Kind::Usual).expect("for everybody");
    stage.agent.run(&format!("agent.way = {way:?}"));
    for sample in &ALL {
        stage.look(sample);
        stage.it.stranger_appends(sample.name, sample.other);
        stage.save(sample, &sample.edited(sample.start));
        // And once more, from what it has written.
        stage.it.stranger_appends(sample.name, sample.later);
        stage.save(sample, &sample.edited_elsewhere(&sample.edited(sample.start)));
    }
    stage.end(|sample| {
        let mine = sample.edited_elsewhere(&sample.edited(sample.start));
        sample.with(&sample.with(&mine, sample.other), sample.later)
    });
}

macro_rules! ways {
    ($($name:ident)*) => {
        mod ways {
            $(#[test] fn $name() {
                super::way("session", stringify!($name));
                super::way("terminal", stringify!($name));
            })*
        }
    };
}

ways! { redirect builtin cp tee dd rename across remove backup in_place node }

/// What an agent of this shape does to one file, with another program's append: the agent is not
/// ours but somebody else's, in Python.
fn elsewhere(agent: &mut Python, it: &Instance, shape: &str, sample: &Sample) {
    agent.run(&format!("agent = shapes.Agent({shape:?})\nagent.look({:?})", sample.name));
    it.stranger_appends(sample.name, sample.other);
    std::fs::write(it.scratch("new"), sample.edited(sample.start)).expect("write");
    agent.run(&format!(
        "agent.save({:?})\nos.close(agent.alive)\nos.unlink(agent.alive_name)",
        sample.name
    ));
}

#[test]
fn an_agent_in_a_container_whose_first_process_it_is() {
    if !is_root() {
        eprintln!("only root may make namespaces");
        return;
    }
    let it = files().start();
    let steps = mount_tests::programs_dir().join("steps.py");
    let args = ["-p", "-f", "--kill-child", "--mount-proc", "python3", "-u"].map(OsStr::new);
    let actor = it.actor().env("PYTHONPATH", mount_tests::programs_dir());
    let mut agent = actor.python_of("unshare", &[&args[..], &[steps.as_os_str()]].concat());
    agent.run("import shapes");
    assert_eq!(agent.int("os.getpid()"), 1);
    for (shape, sample) in ["session", "double_fork", "terminal"].iter().zip(&ALL) {
        elsewhere(&mut agent, &it, shape, sample);
    }
    agent.run("os.chdir('/')");
    Stage { agent, it }.has(|sample| sample.with(&sample.edited(sample.start), sample.other));
}

#[test]
fn agents_of_an_ordinary_user_in_a_mount_of_their_own() {
    if !is_root() {
        // Then all other tests here are just that.
        return;
    }
    let it = files().unmounted().start();
    let home = it.scratch("user");
    std::fs::create_dir(&home).expect("mkdir");
    // The build directory may be closed to others.
    std::fs::copy(mount_tests::instancefs(), home.join("instancefs")).expect("a copy");
    for name in ["shapes.py", "ordinary.py"] {
        std::fs::copy(mount_tests::programs_dir().join(name), home.join(name)).expect("a copy");
    }
    let mut samples = Vec::new();
    for sample in &ALL {
        let from = home.join("from").join(sample.name);
        std::fs::create_dir_all(from.parent().expect("parent")).expect("mkdir");
        std::fs::write(from, sample.start).expect("write");
        samples.push(serde_json::json!({
            "name": sample.name, "start": sample.start, "other": sample.other,
            "edited": sample.edited(sample.start),
            "wanted": sample.with(&sample.edited(sample.start), sample.other),
        }));
    }
    std::fs::write(home.join("samples.json"), serde_json::Value::from(samples).to_string())
        .expect("write");
    let script = r#"
        chown -R nobody "$SCRATCH/user" && mount --bind "$SCRATCH/user" /mnt && cd /mnt || exit 99
        # Desktops let everybody open the device; here that holds for this test alone.
        mknod -m 666 "$SCRATCH/fuse" c 10 229 && mount --bind "$SCRATCH/fuse" /dev/fuse || exit 98
        user() { runuser -u nobody -- env HOME=/mnt SCRATCH=/mnt PYTHONPATH=/mnt "$@"; }
        trap 'cd /; user /mnt/instancefs unmount /mnt/mnt >/dev/null 2>&1; umount -l /mnt/mnt 2>/dev/null || true' EXIT
        set -e
        user ./instancefs init store --from from > /dev/null
        user mkdir mnt
        user ./instancefs mount store mnt
        user bash -c 'cd mnt && python3 ../ordinary.py'
    "#;
    let args = ["-m", "--propagation", "private", "bash", "-c", script];
    it.outside().run("unshare", &args).ok();
}

/// The daemon is in a namespace of processes of its own and is told 0 for everybody outside.
fn in_another_namespace(meanwhile: bool) {
    if !is_root() {
        eprintln!("only root may make namespaces");
        return;
    }
    let it = files().unmounted().start();
    // The first process of the namespace ends it when its input ends.
    let script = r#"
        unshare -p -f --kill-child bash -c '"$BIN" mount "$STORE" "$MOUNT" && touch "$SCRATCH/up" &&
            while ! [ -e "$SCRATCH/down" ]; do sleep 0.05; done'
        "#;
    let keeper = it
        .outside()
        .env("MOUNT", it.mount_point())
        .env("BIN", mount_tests::instancefs())
        .spawn_bash(script);
    eventually("a mount by a foreign namespace", || it.scratch("up").exists().then_some(()));
    assert!(it.mounted());
    let mut stage = Stage::on(it, "session");
    // Whatever happens, the mount goes first.
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for sample in &ALL {
            stage.look(sample);
            if meanwhile {
                stage.it.stranger_appends(sample.name, sample.other);
            }
            stage.save(sample, &sample.edited(sample.start));
        }
        stage.agent.run("agent.end()");
        stage.has(|sample| {
            let text = sample.edited(sample.start);
            if meanwhile { sample.with(&text, sample.other) } else { text }
        });
    }));
    // The daemon's number in its own namespace is somebody else's here: no `unmount` command.
    mount_tests::detach(&stage.it.mount_point());
    std::fs::write(stage.it.scratch("down"), "").expect("write");
    keeper.wait().ok();
    if let Err(panic) = said {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_daemon_that_cannot_see_who_asks_edit() {
    in_another_namespace(false);
}

#[test]
fn a_daemon_that_cannot_see_who_asks_meanwhile() {
    in_another_namespace(true);
}

/// The daemon goes and comes back between the look and the save of agents of three shapes, the
/// agents' directories being outside since the old mount is gone for good.
fn over_a_restart(restart: impl FnOnce(&Instance)) {
    let it = files().start();
    let shapes = ["session", "agent_reads_helper_saves", "double_fork"];
    let mut agents: Vec<(Python, Sample)> = Vec::new();
    for (shape, sample) in shapes.into_iter().zip(ALL) {
        std::fs::create_dir(it.scratch(shape)).expect("mkdir");
        let actor = it
            .outside()
            .env("PYTHONPATH", mount_tests::programs_dir())
            .env("SCRATCH", it.scratch(shape));
        let mut agent = actor.python_steps();
        agent.run(&format!("import shapes\nagent = shapes.Agent({shape:?})"));
        agent.run(&format!("agent.look({:?})", it.path(sample.name)));
        std::fs::write(it.scratch(shape).join("new"), sample.edited(sample.start)).expect("write");
        agents.push((agent, sample));
    }
    restart(&it);
    for (agent, sample) in &mut agents {
        it.stranger_appends(sample.name, sample.other);
        agent.run(&format!("agent.save({:?})\nagent.end()", it.path(sample.name)));
    }
    for (_, sample) in &agents {
        let wanted = sample.with(&sample.edited(sample.start), sample.other);
        assert_eq!(it.read(sample.name), wanted, "{}", sample.name);
    }
}

#[test]
fn a_remount_between_the_look_and_the_save() {
    over_a_restart(Instance::remount);
}

#[test]
fn a_killed_daemon_between_the_look_and_the_save() {
    over_a_restart(|it| {
        // What was read in the last moment before a crash may be forgotten.
        std::thread::sleep(Duration::from_secs(3));
        it.kill_daemon();
        it.mount();
    });
}

#[test]
fn a_thousand_observers_between_the_look_and_the_save() {
    let mut stage = Stage::new("session", Kind::Usual).expect("for everybody");
    for sample in &ALL {
        stage.look(sample);
    }
    let observers = "seq 500 | xargs -P 2 -I{} setsid -w cat missions.md config.yaml memory/note.md > /dev/null";
    stage.it.stranger(observers);
    for sample in &ALL {
        stage.it.stranger_appends(sample.name, sample.other);
    }
    stage.it.stranger(observers);
    for sample in &ALL {
        stage.save(sample, &sample.edited(sample.start));
    }
    stage.end(|sample| sample.with(&sample.edited(sample.start), sample.other));
}

/// Both minds' changes.
fn both(sample: &Sample) -> String {
    sample.edited_elsewhere(&sample.edited(sample.start))
}

/// Two agents that look both before either of them saves. `setup` makes `one` and `two`, with
/// `look(NAME)` and `save(NAME, FILE IN SCRATCH)`.
fn two_minds(setup: &str, between: Duration) {
    let it = files().start();
    let mut host = it.actor().env("PYTHONPATH", mount_tests::programs_dir()).python_steps();
    host.run("import shapes, threading, subprocess, sys");
    host.run(setup);
    for mind in ["one", "two"] {
        for sample in &ALL {
            host.run(&format!("{mind}.look({:?})", sample.name));
        }
        std::thread::sleep(between);
    }
    for sample in &ALL {
        std::fs::write(it.scratch("first"), sample.edited(sample.start)).expect("write");
        std::fs::write(it.scratch("second"), sample.edited_elsewhere(sample.start)).expect("write");
        host.run(&format!("one.save({:?}, 'first')", sample.name));
        host.run(&format!("two.save({:?}, 'second')", sample.name));
    }
    host.run("end()\nos.chdir('/')");
    Stage { it, agent: host }.has(both);
}

/// A second look at the same version by the same process within a second is the same look.
const APART: Duration = Duration::from_millis(1100);

#[test]
fn two_subagents_with_a_process_each() {
    // Each sub-agent is a process that starts every call in a session of its own.
    two_minds(
        r#"
class Sub:
    def __init__(self):
        code = '''
import json, sys, shapes
for line in sys.stdin:
    shapes.run(shapes.PREFIXES["session"], json.loads(line)); print("done", flush=True)
'''
        self.process = subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)
    def call(self, cmd):
        self.process.stdin.write(json.dumps(cmd) + '\n'); self.process.stdin.flush()
        assert self.process.stdout.readline() == 'done\n'
    def look(self, name): self.call(f"cat {name}")
    def save(self, name, new): self.call(f"cat {shapes.SCRATCH}/{new} > {name}")
one, two = Sub(), Sub()
def end():
    for sub in one, two: sub.process.stdin.close(); sub.process.wait(10)
"#,
        Duration::ZERO,
    );
}

#[test]
fn two_subagents_whose_calls_are_children_of_one_process() {
    two_minds(
        r#"
class Sub:
    def look(self, name): shapes.run(shapes.PREFIXES["session"], f"cat {name}")
    def save(self, name, new): shapes.run(shapes.PREFIXES["session"], f"cat {shapes.SCRATCH}/{new} > {name}")
one, two = Sub(), Sub()
def end(): pass
"#,
        Duration::ZERO,
    );
}

#[test]
fn two_clients_of_a_server_of_tools() {
    two_minds(
        r#"
class Client:
    def look(self, name): shapes.look_here(name)
    def save(self, name, new): shapes.save_here(name, new)
one, two = Client(), Client()
def end(): pass
"#,
        APART,
    );
}

#[test]
fn two_clients_of_a_dashboard() {
    two_minds(
        r#"
port = shapes.dashboard()
class Client(shapes.Browser):
    def save(self, name, new): super().save(name, shapes.new_text(new).decode())
one, two = Client(port), Client(port)
def end(): pass
"#,
        APART,
    );
}

#[test]
fn one_node_process_with_two_calls_at_once() {
    let it = files().start();
    let mut host = it.actor().env("PYTHONPATH", mount_tests::programs_dir()).python_steps();
    host.run("import shapes\nnode = shapes.Node()");
    for sample in &ALL {
        std::fs::write(it.scratch("first"), sample.edited(sample.start)).expect("write");
        std::fs::write(it.scratch("second"), sample.edited_elsewhere(sample.start)).expect("write");
        let name = sample.name;
        host.run(&format!("node('cat {name}', 'cat {name}')"));
        let save = |text| format!("f'cat {{shapes.SCRATCH}}/{text} > {name}'");
        host.run(&format!("node({}, {})", save("first"), save("second")));
    }
    host.run("node.process.stdin.close(); node.process.wait(10); os.chdir('/')");
    Stage { it, agent: host }.has(both);
}

/// The row of this mission, its state.
fn states(it: &Instance, text: &str) -> Vec<String> {
    it.rows().into_iter().filter(|(t, _)| t == text).map(|(_, state)| state).collect()
}

/// The text after somebody has moved a line to Done.
fn done(text: &str, line: &str, as_line: &str) -> String {
    assert!(text.ends_with("## Done\n"), "{text}");
    format!("{}{as_line}", text.replace(line, ""))
}

#[test]
fn koan_by_sqlite_and_an_agent_mark_the_same_mission_done() {
    for koan_first in [true, false] {
        let mut stage = Stage::new("session", Kind::Usual).expect("for everybody");
        let missions = ALL[0];
        let mut koan =
            stage.it.actor().env("PYTHONPATH", mount_tests::programs_dir()).python_steps();
        koan.run("import koan_store as koan\nkoan.missions('.')");
        stage.look(&missions);
        let text = done(missions.start, "- beta two\n", "- beta two\n");
        // Without its export, which would be a save of its own.
        let mark = "
def change(rows):
    for row in rows:
        if row['text'] == 'beta two' and row['state'] == 'pending':
            row['state'], row['completed_at'] = 'done', koan.now()
    return rows
with koan.locked('.'): koan.replace_all('.', change(koan.missions('.')))";
        if koan_first {
            koan.run(mark);
            stage.save(&missions, &text);
        } else {
            stage.save(&missions, &text);
            koan.run(mark);
        }
        assert_eq!(states(&stage.it, "beta two"), ["done"], "Kōan first: {koan_first}");
        assert_eq!(stage.it.rows().len(), 9);
        assert_eq!(stage.it.read("missions.md").matches("beta two").count(), 1);
        stage.agent.run("agent.end()");
    }
}

#[test]
fn two_programs_mark_the_same_mission_done_in_the_file() {
    let mut stage = Stage::new("session", Kind::Usual).expect("for everybody");
    let missions = ALL[0];
    let mut koan = stage.it.actor().python_steps();
    koan.run("text = open('missions.md').read()");
    stage.look(&missions);
    let marked = done(missions.start, "- beta two\n", "- beta two ✅ (2026-07-01 10:00)\n");
    koan.run(&format!(
        "with open('t', 'w') as f: f.write({marked:?}); f.flush(); os.fsync(f.fileno())\nos.replace('t', 'missions.md')"
    ));
    stage.save(&missions, &done(missions.start, "- beta two\n", "- beta two\n"));
    assert_eq!(states(&stage.it, "beta two"), ["done"]);
    assert_eq!(stage.it.rows().len(), 9);
    assert_eq!(stage.it.read("missions.md").matches("beta two").count(), 1);
    stage.agent.run("agent.end()");
}
