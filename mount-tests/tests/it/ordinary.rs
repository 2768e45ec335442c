//! Section 4 for an ordinary user in a mount by root: whatever the user makes there is the user's,
//! and each of its agents' calls, which are sessions of their own, starts from what another has read.

use std::os::unix::fs::PermissionsExt;

use mount_tests::trio::ALL;
use mount_tests::{Actor, Instance, Python, is_root};

/// Of `nobody`, whom no file belongs to at first.
const USER: u32 = 65534;

/// An empty instance for everybody whose directory and missions are the user's.
fn of_the_user() -> Instance {
    let it = Instance::builder().in_memory().mount_arg("--allow-other").start();
    it.sh(&format!("chown {USER}:{USER} . missions.md"));
    let open = PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(it.scratch(""), open).expect("chmod");
    it
}

/// A process that has become the user.
fn user(actor: &Actor) -> Python {
    let mut p = actor.clone().env("PYTHONPATH", mount_tests::programs_dir()).python_steps();
    p.run(&format!("import shapes\nos.setgroups([]); os.setgid({USER}); os.setuid({USER})"));
    p
}

/// The user makes the three files. Then an agent of it looks at each, another program of it appends,
/// and the agent saves twice. `between` comes after the look.
fn works(shape: &str, way: &str, between: impl Fn(&Instance)) {
    if !is_root() {
        eprintln!("only root mounts for others");
        return;
    }
    let it = of_the_user();
    let path = |name: &str| it.path(name).to_str().expect("path").to_owned();
    // The agent's directory is outside: an old mount is gone for good.
    let mut maker = user(&it.outside());
    maker.run(&format!("os.mkdir({:?})", path("memory")));
    for sample in &ALL {
        let (path, start) = (path(sample.name), sample.start);
        maker.run(&format!("os.path.exists({path:?}) and open({path:?}).read()"));
        maker.run(&format!("open({path:?}, 'w').write({start:?})"));
        assert_eq!(it.read(sample.name), start);
    }
    drop(maker);
    let mut agent = user(&it.outside());
    agent.run(&format!("agent = shapes.Agent({shape:?}, {way:?})"));
    let save = |agent: &mut Python, name: &str, text: String| {
        std::fs::write(it.scratch("new"), text).expect("write");
        agent.run(&format!("agent.save({:?})", path(name)));
    };
    for sample in &ALL {
        agent.run(&format!("agent.look({:?})", path(sample.name)));
    }
    between(&it);
    for sample in &ALL {
        let append = r#"exec setpriv --reuid "$ID" --regid "$ID" --clear-groups \
            bash -c 'printf %s "$ADDED" >> "$NAME"'"#;
        let other = it.actor().env("ID", USER.to_string()).env("ADDED", sample.other);
        let (code, said) = other.env("NAME", sample.name).orphan(append);
        assert_eq!(code, 0, "{}: {said}", sample.name);
        let mine = sample.edited(sample.start);
        save(&mut agent, sample.name, mine.clone());
        assert_eq!(it.read(sample.name), sample.with(&mine, sample.other), "{shape}");
        // Once more, from what it has written.
        let mine = sample.edited_elsewhere(&mine);
        save(&mut agent, sample.name, mine.clone());
        assert_eq!(it.read(sample.name), sample.with(&mine, sample.other), "{shape}");
        let owner = it.sh(&format!("stat -c %u {}", sample.name));
        assert_eq!(owner.trim(), USER.to_string(), "{}", sample.name);
    }
    agent.run("agent.end()");
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn calls_in_sessions_of_their_own() {
    works("session", "redirect", |_| ());
}

/// On a terminal `mv` and `rm` ask before they do anything to a file of somebody else's.
#[test]
fn calls_on_terminals() {
    works("terminal", "rename", |_| ());
    works("terminal", "remove", |_| ());
}

#[test]
fn calls_below_process_1_over_a_restart() {
    works("double_fork", "tee", Instance::remount);
}

#[test]
fn calls_in_sessions_of_their_own_over_a_restart() {
    works("session", "rename", Instance::remount);
}
