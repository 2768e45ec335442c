//! Queues and section 4: who takes messages out in another process than the one that read them.
//! Each message is sent at least once, and twice only where nobody could know.

use std::time::Duration;

use mount_tests::{Instance, Python};

/// The two kinds of queues.
const QUEUES: [&str; 2] = ["outbox.md", "journal/pending.md"];

fn queue(name: &str) -> Instance {
    Instance::with(&[(name, "1\n2\n3\n")])
}

/// An agent of this shape (see programs/shapes.py).
fn agent(it: &Instance, shape: &str) -> Python {
    let mut agent = it.actor().env("PYTHONPATH", mount_tests::programs_dir()).python_steps();
    agent.run(&format!("import shapes\nagent = shapes.Agent({shape:?})"));
    agent
}

/// The agent sends what a call of its own has read and empties the queue by another one.
#[track_caller]
fn empties(shape: &str) {
    empties_and_leaves(shape, "4\n", "1 to 3 are sent, 4 is not");
}

/// The same where this is left.
#[track_caller]
fn empties_and_leaves(shape: &str, wanted: &str, why: &str) {
    for name in QUEUES {
        let it = queue(name);
        let mut agent = agent(&it, shape);
        agent.run(&format!("agent.call(\"cat '{name}'\")"));
        it.stranger_appends(name, "4\n");
        agent.run(&format!("agent.call(\": > '{name}'\")"));
        let left = it.read(name);
        agent.run("agent.end()");
        assert_eq!(left, wanted, "{name}: {why}");
    }
}

macro_rules! empties {
    ($($shape:ident)*) => { mod empties { $(#[test] fn $shape() { super::empties(stringify!($shape)); })* } };
}

empties! { one_shell session terminal wrapped node_detached tmux_sessions requests }

#[test]
fn whoever_empties_without_any_kin_takes_out_nothing() {
    for shape in ["double_fork", "setsid_f"] {
        empties_and_leaves(shape, "1\n2\n3\n4\n", "nobody could know what was read");
    }
}

#[test]
fn what_an_agent_writes_after_it_has_emptied_is_new() {
    for name in QUEUES.into_iter().chain(["memory/note.md"]) {
        for gone in [": >", "rm"] {
            let it = queue(name);
            let mut agent = agent(&it, "session");
            agent.run(&format!("agent.call(\"cat '{name}'\")"));
            it.stranger_appends(name, "4\n");
            agent.run(&format!("agent.call(\"{gone} '{name}'\")"));
            agent.run(&format!("agent.call(\"printf '1\\\\n2\\\\n5\\\\n' > '{name}'\")"));
            let there = it.read(name);
            agent.run("agent.end()");
            // What is made anew takes the place of what was there.
            let wanted = if gone == "rm" { "1\n2\n5\n4\n" } else { "4\n1\n2\n5\n" };
            assert_eq!(there, wanted, "{name}: {gone}");
        }
    }
}

#[test]
fn a_drain_whose_calls_lock_one_by_one() {
    for name in QUEUES {
        let it = queue(name);
        let mut agent = agent(&it, "session");
        agent.run(&format!("agent.call(\"flock '{name}' cat '{name}' > $SCRATCH/sent\")"));
        it.stranger_appends(name, "4\n");
        // What was sent is taken out of what is there.
        agent.run(&format!(
            "agent.call(\"flock '{name}' sh -c 'grep -vxFf $SCRATCH/sent {name} > $SCRATCH/rest; cat $SCRATCH/rest > {name}'\")"
        ));
        assert_eq!(it.read(name), "4\n", "{name}");
        agent.run("agent.end()");
    }
}

#[test]
fn two_drains_that_have_read_the_same_take_out_no_more_than_that() {
    for name in QUEUES {
        let it = queue(name);
        let (mut one, mut two) = (it.python(), it.python());
        let look = format!(
            "f = open('{name}', 'r+'); fcntl.flock(f, fcntl.LOCK_EX); sent = f.read().splitlines(); f.close()"
        );
        let take = format!(
            "f = open('{name}', 'r+'); fcntl.flock(f, fcntl.LOCK_EX)
rest = [l for l in f.read().splitlines() if l not in sent]
f.seek(0); f.truncate(); f.write(''.join(l + '\\n' for l in rest)); f.close()"
        );
        one.run(&look);
        it.stranger_appends(name, "4\n");
        two.run(&look);
        it.stranger_appends(name, "5\n");
        one.run(&take);
        assert_eq!(it.read(name), "4\n5\n", "{name}");
        it.stranger_appends(name, "6\n");
        two.run(&take);
        assert_eq!(it.read(name), "5\n6\n", "{name}");
    }
}

#[test]
fn a_drain_under_a_lock_takes_out_what_it_has_read_there() {
    for name in QUEUES {
        let it = queue(name);
        let mut drain = it.python();
        drain.run(&format!("open('{name}').read()"));
        it.stranger_appends(name, "4\n");
        drain.run(&format!(
            "f = open('{name}', 'r+'); fcntl.flock(f, fcntl.LOCK_EX); sent = f.read()"
        ));
        // It comes while the drain sends.
        it.stranger_appends(name, "5\n");
        drain.run("f.seek(0); f.truncate(); f.close()");
        assert_eq!(drain.text("sent"), "1\n2\n3\n4\n", "{name}");
        assert_eq!(it.read(name), "5\n", "{name}");
    }
}

#[test]
fn a_tool_that_reads_again_takes_out_what_the_agent_has_sent() {
    for name in QUEUES {
        for shape in ["one_process", "session"] {
            let it = queue(name);
            let mut agent = agent(&it, shape);
            agent.run(&format!("agent.look({name:?})"));
            it.stranger_appends(name, "4\n");
            // For a diff that nobody reads.
            agent.run(&format!("agent.look({name:?})"));
            std::fs::write(it.scratch("new"), "3\n").expect("write");
            agent.run(&format!("agent.save({name:?})"));
            assert_eq!(it.read(name), "3\n4\n", "{name}, {shape}");
            agent.run("agent.end()");
        }
    }
}

#[test]
fn two_minds_in_one_process_take_out_each_its_own() {
    for name in QUEUES {
        let it = queue(name);
        let mut server = it.python();
        let look = format!("open('{name}').read()");
        server.run(&look);
        std::thread::sleep(Duration::from_millis(1100));
        server.run(&look);
        it.stranger_appends(name, "4\n");
        server.run(&format!("f = open('{name}', 'w'); f.write('2\\n3\\n'); f.close()"));
        server.run(&format!("f = open('{name}', 'w'); f.write('1\\n3\\n'); f.close()"));
        assert_eq!(it.read(name), "3\n4\n", "{name}: one has sent 1, the other one 2");
    }
}

#[test]
fn two_minds_in_one_process_that_empty_lose_nothing_that_neither_has_read() {
    for name in QUEUES {
        let it = queue(name);
        let mut server = it.python();
        let look = format!("open('{name}').read()");
        server.run(&look);
        it.stranger_appends(name, "4\n");
        std::thread::sleep(Duration::from_millis(1100));
        // This one sends 4 as well.
        server.run(&look);
        it.stranger_appends(name, "5\n");
        let empty = format!("open('{name}', 'w').close()");
        server.run(&empty);
        server.run(&empty);
        assert_eq!(it.read(name), "5\n", "{name}");
    }
}
