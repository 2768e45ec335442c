//! `instancefs doctor`: whether this machine and a store are fit for a mount, and what to do if
//! they are not. Everything is only looked at.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::journal::Journal;
use super::mounts::{self, Liveness};
use super::{instance, lock, names};
use crate::store::{Options, Store};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be.
    Good,
    /// It works, with a limit that one should know.
    Limited,
    /// It does not work.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What: `fuse device`, `database`.
    pub what: &'static str,
    /// How it is.
    pub health: Health,
    /// What was found, one line.
    pub found: String,
    /// What to do about it; empty when there is nothing to do.
    pub todo: String,
}

impl Finding {
    fn good(what: &'static str, found: impl Into<String>) -> Finding {
        Finding { what, health: Health::Good, found: found.into(), todo: String::new() }
    }

    fn limited(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Finding {
        Finding { what, health: Health::Limited, found: found.into(), todo: todo.into() }
    }

    fn bad(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Finding {
        Finding { what, health: Health::Bad, found: found.into(), todo: todo.into() }
    }
}

/// How long a mount may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Less free space than this is worth a word, in bytes.
const LITTLE: u64 = 64 << 20;

/// Where the machine says what it has; tests have their own.
#[derive(Debug, Clone)]
pub struct Machine {
    /// `/dev/fuse`
    pub device: PathBuf,
    /// `/etc/fuse.conf`
    pub conf: PathBuf,
    /// Directories in which programs are looked for.
    pub path: Vec<PathBuf>,
    /// This process may mount without help.
    pub root: bool,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Machine {
            device: "/dev/fuse".into(),
            conf: "/etc/fuse.conf".into(),
            path: std::env::split_paths(&path).collect(),
            root: rustix::process::geteuid().is_root(),
        }
    }

    /// What a mount needs of it.
    pub fn examine(&self) -> Vec<Finding> {
        vec![self.fuse_device(), self.helper(), self.other_users()]
    }

    fn fuse_device(&self) -> Finding {
        let what = "fuse device";
        let device = self.device.display();
        let meta = match std::fs::metadata(&self.device) {
            Ok(meta) => meta,
            Err(e) => {
                let todo = "load the module (`modprobe fuse`); in a container start it with \
                            --device /dev/fuse --cap-add SYS_ADMIN";
                return Finding::bad(what, format!("{device}: {e}"), todo);
            }
        };
        if !meta.file_type().is_char_device() {
            let todo = "remove it and load the module (`modprobe fuse`)";
            return Finding::bad(what, format!("{device} is not a device"), todo);
        }
        match File::options().read(true).write(true).open(&self.device) {
            Ok(_) => Finding::good(what, format!("{device} can be opened")),
            Err(e) => {
                let todo = "everybody should be able to open it: `chmod 666 /dev/fuse`; in a \
                            container start it with --device /dev/fuse";
                Finding::bad(what, format!("{device} cannot be opened: {e}"), todo)
            }
        }
    }

    fn helper(&self) -> Finding {
        let what = "fusermount3";
        let install = "install fuse3 (`apt-get install fuse3`)";
        let found = self.path.iter().map(|dir| dir.join("fusermount3")).find_map(|path| {
            let meta = std::fs::metadata(&path).ok()?;
            meta.is_file().then_some((path, meta))
        });
        match found {
            None if self.root => Finding::good(what, "not there, and root does not need it"),
            None => Finding::bad(what, "not there: only root can mount", install),
            Some((path, meta)) if self.root || is_setuid_root(&meta) => {
                Finding::good(what, path.display().to_string())
            }
            Some((path, _)) => {
                let found = format!("{} is not setuid root: only root can mount", path.display());
                Finding::bad(
                    what,
                    found,
                    "install fuse3 again; container images often drop the bit",
                )
            }
        }
    }

    fn other_users(&self) -> Finding {
        let what = "other users";
        let text = std::fs::read_to_string(&self.conf).unwrap_or_default();
        let allowed = text.lines().any(|line| line.trim() == "user_allow_other");
        if self.root {
            Finding::good(what, "--allow-other can be used by root")
        } else if allowed {
            Finding::good(what, "--allow-other can be used (user_allow_other is set)")
        } else {
            let todo = format!(
                "only if a mount is to be used by other users: put a line `user_allow_other` into {}",
                self.conf.display()
            );
            Finding::limited(what, "--allow-other is not allowed to this user", todo)
        }
    }
}

fn is_setuid_root(meta: &Metadata) -> bool {
    meta.uid() == 0 && meta.mode() & 0o4000 != 0
}

/// The mounts of ours on this machine. Those of other stores only when something is wrong with
/// them.
pub fn examine_mounts(store: Option<&Path>) -> Vec<Finding> {
    let what = "mount";
    let all = match mounts::ours() {
        Ok(all) => all,
        Err(e) => {
            let found = format!("the table of mounts cannot be read: {e}");
            return vec![Finding::bad(what, found, "is /proc mounted?")];
        }
    };
    let mut findings = Vec::new();
    for mount in all {
        let at = mount.mountpoint.display();
        match mounts::probe(&mount.mountpoint, PATIENCE) {
            Liveness::Alive if store.is_some_and(|s| s == mount.store) => {
                findings.push(Finding::good(what, format!("{at} answers")));
            }
            Liveness::Alive => {}
            Liveness::Dead => findings.push(Finding::bad(
                what,
                format!("{at} is dead: its daemon is gone"),
                format!(
                    "`instancefs unmount {at}` takes it away, `instancefs mount {} {at}` mounts \
                     again; nothing that was saved is lost",
                    mount.store.display()
                ),
            )),
            Liveness::Silent => findings.push(Finding::bad(
                what,
                format!("{at} does not answer within {} s", PATIENCE.as_secs()),
                format!(
                    "look at its log in {}; `instancefs unmount --force {at}` takes it away",
                    mount.store.join(names::LOG).display()
                ),
            )),
        }
    }
    findings
}

/// The store: who may enter, what its database says, whether something was left half done.
pub fn examine_store(store: &Path) -> Vec<Finding> {
    let mut findings = vec![permissions(store), half_done(store)];
    findings.extend(holder(store));
    findings.push(space(store));
    findings.extend(database(store));
    findings
}

fn permissions(store: &Path) -> Finding {
    let what = "store";
    let shown = store.display();
    match std::fs::metadata(store) {
        Err(e) => Finding::bad(what, format!("{shown}: {e}"), "is the path right?"),
        Ok(meta) if !meta.is_dir() => {
            Finding::bad(what, format!("{shown} is not a directory"), "is the path right?")
        }
        Ok(meta) if meta.mode() & 0o077 != 0 => Finding::limited(
            what,
            format!("{shown} can be entered by others (mode {:04o})", meta.mode() & 0o7777),
            format!("`chmod 700 {shown}`, unless they are meant to open the database"),
        ),
        Ok(_) => Finding::good(what, format!("{shown}, for its owner alone")),
    }
}

fn half_done(store: &Path) -> Finding {
    let what = "commands";
    match Journal::read(store) {
        Ok(None) => Finding::good(what, "none was interrupted"),
        Ok(Some(journal)) => {
            let command = journal.command(store);
            Finding::bad(what, format!("interrupted: {command}"), format!("repeat it: {command}"))
        }
        Err(e) => Finding::bad(what, e.to_string(), "the file can be removed"),
    }
}

fn holder(store: &Path) -> Option<Finding> {
    let holder = lock::holder(store)?;
    Some(Finding::good("served", format!("{} by process {}", holder.what, holder.pid)))
}

fn space(store: &Path) -> Finding {
    let what = "space";
    if let Err(e) = writable(store) {
        let todo = "saves fail and nothing is lost: look at its file system (`dmesg`, `fsck`), \
                    then mount that and the instance again";
        return Finding::bad(what, format!("nothing can be written: {e}"), todo);
    }
    let free = match rustix::fs::statvfs(store) {
        Ok(fs) => fs.f_bavail.saturating_mul(fs.f_frsize),
        Err(e) => return Finding::bad(what, e.to_string(), "can the store be read?"),
    };
    let shown = format!("{} MiB free", free >> 20);
    if free == 0 {
        Finding::bad(what, shown, "free some: saves fail with ENOSPC and nothing is lost")
    } else if free < LITTLE {
        Finding::limited(
            what,
            shown,
            "a full disk refuses saves; `instancefs retention` shortens the history",
        )
    } else {
        Finding::good(what, shown)
    }
}

/// Whether a file could be made there. None is: it would have no name.
fn writable(store: &Path) -> std::io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(store, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Ok(()),
        // Not every file system can do that.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            Ok(rustix::fs::access(store, rustix::fs::Access::WRITE_OK)?)
        }
        Err(e) => Err(e.into()),
    }
}

fn database(store: &Path) -> Vec<Finding> {
    let what = "database";
    let path = store.join(names::DATABASE);
    if instance::is_marked(store) && !instance::is_store(store) {
        let todo = format!(
            "bring it back from a backup, or move it away: `instancefs init {}` then makes a new \
             one of the documents as they lie there",
            store.display()
        );
        let found = format!("{}: {}", path.display(), instance::NO_DATABASE);
        return vec![Finding::bad(what, found, todo)];
    }
    let options = Options { read_only: true, ..Options::default() };
    let opened = match Store::open(store, options) {
        Ok(opened) => opened,
        Err(e) => {
            let todo = format!(
                "keep a copy of {} with its -wal; `sqlite3 … .recover` reads what can be read of a \
                 damaged one",
                path.display()
            );
            return vec![Finding::bad(what, e.to_string(), todo)];
        }
    };
    let mut findings = vec![match opened.integrity() {
        Ok(faults) if faults.is_empty() => Finding::good(what, "passes the integrity check"),
        Ok(faults) => Finding::bad(
            what,
            format!("damaged: {}", faults.join("; ")),
            "stop every program that uses it, keep a copy, then `sqlite3 missions.db .recover`",
        ),
        Err(e) => Finding::bad(what, e.to_string(), "is another program holding it locked?"),
    }];
    if opened.bare() {
        let todo = "`instancefs init` or `adopt` makes a store of it";
        findings.push(Finding::limited(what, "it has none of our tables yet", todo));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn machine(dir: &Path, root: bool) -> Machine {
        Machine {
            device: dir.join("fuse"),
            conf: dir.join("fuse.conf"),
            path: vec![dir.join("none"), dir.to_owned()],
            root,
        }
    }

    fn health(findings: &[Finding]) -> Vec<Health> {
        findings.iter().map(|f| f.health).collect()
    }

    #[test]
    fn what_a_machine_lacks_is_named_with_what_to_do() {
        use Health::*;
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let user = machine(at, false).examine();
        assert_eq!(health(&user), [Bad, Bad, Limited]);
        assert!(user.iter().all(|f| !f.todo.is_empty()), "{user:?}");
        assert_eq!(health(&machine(at, true).examine()), [Bad, Good, Good]);
        // What others have put in the place of the device.
        fs::write(at.join("fuse"), "").unwrap();
        fs::write(at.join("fusermount3"), "").unwrap();
        fs::write(at.join("fuse.conf"), "# user_allow_other\n").unwrap();
        let user = machine(at, false).examine();
        assert_eq!(health(&user), [Bad, Bad, Limited]);
        assert!(user[0].found.ends_with("is not a device"), "{user:?}");
        assert!(user[1].found.contains("not setuid"), "{user:?}");
        fs::set_permissions(at.join("fusermount3"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::write(at.join("fuse.conf"), "mount_max = 10\nuser_allow_other \n").unwrap();
        let mut machine = machine(at, false);
        // A device that everybody can open.
        machine.device = "/dev/null".into();
        assert_eq!(health(&machine.examine()), [Good; 3]);
    }

    #[test]
    fn a_store_is_judged() {
        use Health::*;
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s");
        drop(Store::create(&store).unwrap());
        let of = |what: &str| -> Finding {
            examine_store(&store).into_iter().find(|f| f.what == what).unwrap()
        };
        assert_eq!((of("store").health, of("database").health), (Good, Good));
        fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
        let open = of("store");
        assert_eq!(open.health, Limited);
        assert!(open.todo.starts_with("`chmod 700 "), "{open:?}");
        let journal = Journal::of(super::super::journal::Doing::Init, None);
        journal.write(&store).unwrap();
        let half = of("commands");
        assert_eq!(half.health, Bad);
        assert!(half.todo.contains("instancefs init "), "{half:?}");
        // A damaged page.
        let path = store.join(names::DATABASE);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 2048].fill(0xa5);
        fs::write(&path, bytes).unwrap();
        let damaged = of("database");
        assert_eq!(damaged.health, Bad, "{damaged:?}");
        assert!(!damaged.todo.is_empty());
    }
}
