//! `instancefs lock`.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::{Lock, LockWhat};
use super::failure::{Exit, Failure, Result};
use super::output::{line, raw};
use super::sessions::delegated;
use super::target::Target;
use super::under;
use crate::daemon::leases::{Desk, Held, Standing};
use crate::daemon::names;
use crate::model::{View, proc_text};

/// Whose holder leads, the first that is held.
const LEADING: [&str; 2] = ["telegram.lock", "scheduler.lock"];

/// Runs the command.
pub fn run(args: &Lock, instance: Option<&Path>) -> Result<()> {
    let target = Target::find(None, instance)?;
    match &args.what {
        LockWhat::Run { name, command } => {
            let (desk, name) = (Desk::open(&target.store)?, &lease(name)?);
            let token = desk.take_in_turn(name, None)?;
            let token = token.ok_or_else(|| Failure::new("no end of waiting"))?;
            hold(desk, name, token, command)
        }
        LockWhat::Try { name, command } => {
            let (desk, name) = (Desk::open(&target.store)?, &lease(name)?);
            let taker = if command.is_empty() {
                std::os::unix::process::parent_id()
            } else {
                std::process::id()
            };
            let taken = if desk.queue(name)?.is_empty() { desk.take(name, taker)? } else { None };
            match taken {
                Some(token) if command.is_empty() => {
                    line(&token.to_string());
                    Ok(())
                }
                Some(token) => hold(desk, name, token, command),
                None => Err(taken_by(&desk, name)?),
            }
        }
        LockWhat::Wait { name, timeout } => wait(&target.store, &lease(name)?, *timeout),
        LockWhat::Ls { json } => list(&Desk::look(&target.store)?, *json),
        LockWhat::Leader { json } => leader(&Desk::look(&target.store)?, *json),
    }
}

/// A name that can be a lease's.
fn lease(name: &Path) -> Result<PathBuf> {
    let plain = name.components().all(|c| matches!(c, Component::Normal(_)));
    let first = name.components().next().map(|c| c.as_os_str().to_owned()).unwrap_or_default();
    let reserved = View::ALL.iter().any(|v| Path::new(v.name()) == name)
        || first.to_string_lossy().starts_with(".instancefs")
        || first.to_string_lossy().starts_with(names::DATABASE)
        || name == Path::new(crate::store::LOCK_NAME);
    if !plain || name.as_os_str().is_empty() || name.to_str().is_none() || reserved {
        let what = format!("{}: not a name for a lease", name.display());
        return Err(Failure::usage(what));
    }
    Ok(name.to_owned())
}

/// Runs the command under a lease, gives it back and ends as the command did.
fn hold(desk: Desk, name: &Path, token: u64, command: &[OsString]) -> Result<()> {
    let ended = under::run(command, name, token);
    let back = desk.give_back(name);
    // The last one to close the database tidies it up.
    drop(desk);
    let code = ended?;
    back?;
    super::output::finish()?;
    std::process::exit(code)
}

fn taken_by(desk: &Desk, name: &Path) -> Result<Failure> {
    let shown = name.display();
    let message = match desk.standing(name)? {
        Standing::Held(held) => format!("{shown}: held by {}", who(&held)),
        Standing::Ordinary => format!("{shown}: there is a file that belongs to no process"),
        Standing::Free => format!("{shown}: others wait for it"),
    };
    Ok(Failure { exit: Exit::Conflict, ..Failure::new(message) })
}

fn who(held: &Held) -> String {
    match held.program.as_str() {
        "" => format!("process {}", held.owner.pid),
        program => format!("{program} (pid {})", held.owner.pid),
    }
}

fn wait(store: &Path, name: &Path, timeout: Option<f64>) -> Result<()> {
    let limit = timeout
        .map(|s| {
            Duration::try_from_secs_f64(s)
                .map_err(|_| Failure::usage(format!("--timeout {s}: not a time in seconds")))
        })
        .transpose()?;
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    if Desk::look(store)?.wait_free(name, until)? {
        return Ok(());
    }
    let seconds = limit.unwrap_or_default().as_secs_f64();
    Err(Failure::new(format!("{}: still held after {seconds} s", name.display())))
}

fn described(held: &Held) -> Value {
    json!({
        "name": held.name.to_string_lossy(),
        "pid": held.owner.pid,
        "program": held.program,
        "token": held.token,
        "since": held.since.iso(),
    })
}

fn list(desk: &Desk, json: bool) -> Result<()> {
    for held in desk.leases()? {
        let waiting: Vec<u32> =
            desk.queue(&held.name)?.iter().map(|(_, owner)| owner.pid).collect();
        if json {
            let mut object = described(&held);
            object["waiting"] = json!(waiting);
            raw(format!("{object}\n"));
            continue;
        }
        let waiting = match waiting.len() {
            0 => String::new(),
            n => format!(", {n} waiting"),
        };
        let (name, since) = (held.name.display(), held.since.iso());
        line(&format!("{name}  {}  token {}  since {since}{waiting}", who(&held), held.token));
    }
    Ok(())
}

/// The two-lock rule: the live holder of telegram.lock leads; while nobody holds it, that of
/// scheduler.lock.
fn leader(desk: &Desk, json: bool) -> Result<()> {
    for name in LEADING {
        let Standing::Held(held) = desk.standing(Path::new(name))? else { continue };
        let own = callers().contains(&held.owner.pid);
        if json {
            raw(format!("{:#}\n", json!({ "leader": described(&held), "own": own })));
        } else {
            line(&format!("{} by {name}", who(&held)));
        }
        return match own {
            true => Ok(()),
            false => Err(Failure { exit: Exit::Conflict, ..Failure::silent() }),
        };
    }
    if json {
        raw(format!("{:#}\n", json!({ "leader": null, "own": false })));
        return Err(Failure::silent());
    }
    Err(Failure::new("nobody leads"))
}

/// This process, the one that runs it, the parent of that, and those for which it speaks.
fn callers() -> Vec<u32> {
    let parent = std::os::unix::process::parent_id();
    let mut callers = vec![std::process::id(), parent];
    callers.extend(parent_of(parent));
    callers.extend(delegated());
    callers
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = proc_text(format!("/proc/{pid}/status")).ok()?;
    let parent: u32 = status.lines().find_map(|l| l.strip_prefix("PPid:"))?.trim().parse().ok()?;
    (parent > 1).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lies_in_the_instance_and_is_no_document() {
        for good in ["scheduler.lock", "a/b.lock", "x"] {
            assert!(lease(Path::new(good)).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/x",
            "../x",
            "a/../b",
            "config.json",
            ".instancefs-lock",
            "missions.db",
            "missions.db-wal",
            "missions.lock",
        ] {
            assert_eq!(lease(Path::new(bad)).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}
