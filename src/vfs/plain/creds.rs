//! Whose files are made: the caller's.
//!
//! With `--allow-other` a daemon of root serves everybody. The kernel has checked the
//! caller's permissions on the mount (`default_permissions`, supplementary groups
//! included); what is left to do is that new files belong to the caller and that its writes
//! take setuid and setgid bits away. Both are properties of the thread that does the system
//! call, so guards set them and put them back. A daemon of an ordinary user can do neither,
//! and need not: without privilege the store's file system does the same by itself.

use std::cell::Cell;
use std::fs::File;
use std::marker::PhantomData;

use rustix::fs::Mode;
use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use crate::vfs::Caller;

/// The bits that a write by an ordinary user takes away.
const SET_IDS: u32 = libc::S_ISUID | libc::S_ISGID;

/// While it lives, this thread makes files as the caller.
///
/// Keeps the daemon's capabilities, `CAP_FSETID` excepted: a caller whose right to the
/// directory comes from a supplementary group or an ACL must not be refused, the kernel has
/// checked it already.
pub(super) struct AsCaller {
    before: Option<CapabilitySets>,
    _groups: Option<Groups>,
    _this_thread: PhantomData<*const ()>,
}

impl AsCaller {
    /// For a new file of this mode: one with a setgid bit keeps it only if the caller is in the
    /// group that it gets, so the supplementary groups are taken on too.
    pub(super) fn making(privileged: bool, who: &Caller, mode: u32) -> AsCaller {
        AsCaller::with(privileged, who, mode & libc::S_ISGID != 0)
    }

    /// With the caller's supplementary groups.
    pub(super) fn in_groups(privileged: bool, who: &Caller) -> AsCaller {
        AsCaller::with(privileged, who, true)
    }

    fn with(privileged: bool, who: &Caller, groups: bool) -> AsCaller {
        let mut guard = AsCaller { before: None, _groups: None, _this_thread: PhantomData };
        if !privileged || (who.uid == 0 && who.gid == 0) {
            return guard;
        }
        let Ok(before) = rustix::thread::capabilities(None) else { return guard };
        if groups {
            guard._groups = Groups::take_on(who);
        }
        guard.before = Some(before);
        // SAFETY: both change ids of this thread only, and take any number.
        unsafe {
            libc::setfsgid(who.gid);
            libc::setfsuid(who.uid);
        }
        // Root of another group is still root.
        let effective =
            if who.uid == 0 { before.effective } else { without_fsetid(before.effective) };
        if let Err(e) =
            rustix::thread::set_capabilities(None, CapabilitySets { effective, ..before })
        {
            log::warn!("capabilities are lost while a file is made: {e}");
        }
        guard
    }
}

impl Drop for AsCaller {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        // SAFETY: as above; back to the daemon's own ids, which are root's.
        unsafe {
            libc::setfsuid(0);
            libc::setfsgid(libc::getegid());
        }
        if let Err(e) = rustix::thread::set_capabilities(None, before) {
            log::error!("capabilities are not back: {e}");
        }
    }
}

/// While it lives, a write or truncation by this thread takes setuid and setgid bits away, as
/// one by the caller would. (File capabilities go with every write.)
pub(super) struct KillingPrivileges {
    _caller: Option<AsCaller>,
}

impl KillingPrivileges {
    /// `file` is about to be written.
    pub(super) fn enter(privileged: bool, who: &Caller, file: &File) -> KillingPrivileges {
        let mode = || rustix::fs::fstat(file).map_or(SET_IDS, |st| st.st_mode);
        KillingPrivileges::of_mode(privileged, who, mode)
    }

    /// A file is about to be written whose mode this is.
    pub(super) fn of_mode(
        privileged: bool,
        who: &Caller,
        mode: impl FnOnce() -> u32,
    ) -> KillingPrivileges {
        // Few files have them, so few writes are made with other ids than the daemon's.
        let there = privileged && who.uid != 0 && mode() & SET_IDS != 0;
        KillingPrivileges { _caller: there.then(|| AsCaller::in_groups(privileged, who)) }
    }
}

/// While it lives, this thread is in the caller's supplementary groups.
struct Groups {
    before: Vec<Gid>,
}

impl Groups {
    /// `None` when they are not known: a caller in a foreign pid namespace.
    fn take_on(who: &Caller) -> Option<Groups> {
        let groups = groups_of(who.tid)?;
        let before = rustix::process::getgroups().ok()?;
        match rustix::thread::set_thread_groups(&groups) {
            Ok(()) => Some(Groups { before }),
            Err(e) => {
                log::warn!("supplementary groups cannot be taken on: {e}");
                None
            }
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if let Err(e) = rustix::thread::set_thread_groups(&self.before) {
            log::error!("supplementary groups are not back: {e}");
        }
    }
}

/// The supplementary groups of a thread that waits for an answer. `status` is one of the few
/// files in `/proc` that can be read meanwhile (semantics, section 4).
fn groups_of(tid: u32) -> Option<Vec<Gid>> {
    if tid == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    line.split_whitespace().map(|gid| gid.parse().ok().map(Gid::from_raw)).collect()
}

fn without_fsetid(set: CapabilitySet) -> CapabilitySet {
    set.difference(CapabilitySet::FSETID)
}

/// Runs `make` with the caller's umask, and with the mode that it has to pass.
///
/// The umask is left to the store's file system, which ignores it in a directory with a
/// default ACL. It belongs to a process unless a thread has taken its own copy; where that
/// is forbidden (some containers), the mode is masked instead.
pub(super) fn with_umask<T>(mode: u32, umask: u32, make: impl FnOnce(Mode) -> T) -> T {
    thread_local! {
        static OWN: Cell<Option<bool>> = const { Cell::new(None) };
    }
    let own = OWN.get().unwrap_or_else(|| {
        // SAFETY: CLONE_FS gives this thread its own umask, root and working directory;
        // nothing here relies on a working directory that other threads change.
        let own = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.is_ok();
        OWN.set(Some(own));
        own
    });
    if !own {
        return make(Mode::from_raw_mode(mode & !umask & 0o7777));
    }
    let before = rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
    let out = make(Mode::from_raw_mode(mode & 0o7777));
    rustix::process::umask(before);
    out
}
