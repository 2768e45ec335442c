//! Whose files are made: the caller's.
//!
//! With `--allow-other` a daemon of root serves everybody. The kernel has checked the
//! caller's permissions on the mount (`default_permissions`, supplementary groups
//! included); what is left to do is that new files belong to the caller and that its writes
//! take setuid and setgid bits away. Both are properties of the thread that does the system
//! call, so guards set them and put them back. A daemon of an ordinary user can do neither,
//! and need not: without privilege the store's file system does the same by itself.

use std::cell::Cell;
use std::marker::PhantomData;

use rustix::fs::Mode;
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use crate::vfs::Caller;

/// While it lives, this thread makes files as the caller.
///
/// Keeps the daemon's capabilities, `CAP_FSETID` excepted: a caller whose right to the
/// directory comes from a supplementary group, which FUSE does not tell, must not be refused.
/// That group is not taken on either, so a file with a setgid bit made in a setgid directory
/// of such a group loses the bit.
pub(super) struct AsCaller {
    before: Option<CapabilitySets>,
    _this_thread: PhantomData<*const ()>,
}

impl AsCaller {
    pub(super) fn enter(privileged: bool, who: &Caller) -> AsCaller {
        let mut guard = AsCaller { before: None, _this_thread: PhantomData };
        if !privileged || (who.uid == 0 && who.gid == 0) {
            return guard;
        }
        let Ok(before) = rustix::thread::capabilities(None) else { return guard };
        guard.before = Some(before);
        // SAFETY: both change ids of this thread only, and take any number.
        unsafe {
            libc::setfsgid(who.gid);
            libc::setfsuid(who.uid);
        }
        let kept = CapabilitySets { effective: without_fsetid(before.effective), ..before };
        if let Err(e) = rustix::thread::set_capabilities(None, kept) {
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

/// While it lives, a write or truncation by this thread takes setuid and setgid bits and file
/// capabilities away, as one by the caller would.
pub(super) struct KillingPrivileges {
    before: Option<CapabilitySets>,
    _this_thread: PhantomData<*const ()>,
}

impl KillingPrivileges {
    pub(super) fn enter(privileged: bool, who: &Caller) -> KillingPrivileges {
        let mut guard = KillingPrivileges { before: None, _this_thread: PhantomData };
        if !privileged || who.uid == 0 {
            return guard;
        }
        if let Ok(before) = rustix::thread::capabilities(None) {
            let kept = CapabilitySets { effective: without_fsetid(before.effective), ..before };
            if rustix::thread::set_capabilities(None, kept).is_ok() {
                guard.before = Some(before);
            }
        }
        guard
    }
}

impl Drop for KillingPrivileges {
    fn drop(&mut self) {
        if let Some(before) = self.before
            && let Err(e) = rustix::thread::set_capabilities(None, before)
        {
            log::error!("capabilities are not back: {e}");
        }
    }
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
