//! Compare-and-swap through the mount: the extended attributes `user.instancefs.*` of documents.
//!
//! * `user.instancefs.sha256`: hash of the bytes that the name now shows, 64 hex digits;
//! * `user.instancefs.rev`: the revision that it shows, decimal;
//! * `user.instancefs.last-save`: what has become of the caller's last save, or its kin's, as JSON;
//! * `user.instancefs.base`: the revision that a text written through the caller's handle started from;
//!   can be set, while the caller has exactly one handle on the name that may write;
//! * `user.instancefs.expect-sha256`: can be set. The next save commits only while the bytes
//!   still hash to it; that is checked inside the transaction.
//!
//! They are not listed: `cp -a` and the like copy what is listed, and a copy of a document is
//! not under any guard.
//!
//! The kernel does not say whether an attribute was set on a descriptor or on a path. An
//! expectation belongs to the asking process and its handle when the process has exactly one
//! handle on the name that may write; it then stays until that handle's save commits or the handle
//! is closed. Otherwise it is for the next save by the caller or its kin within 60 s. Either way it
//! is used up by a save that is refused, except by the handle's own: what is written through that
//! handle afterwards was read before the refusal. A failure of the store uses up nothing.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::commit::Saver;
use super::handle::DocHandle;
use super::layer::{Caller, Error, Fh, Result, XattrFlags};
use super::tree::Tree;
use crate::documents::Version;
use crate::fs::observed::Who;
use crate::model::{Rev, Stamp, View};
use crate::process::ProcId;

/// How long an expectation waits for the next save of its setter's kin, in nanoseconds.
pub const PATIENCE: i64 = 60_000_000_000;

/// Names whose hash is remembered.
const HASHES_KEPT: usize = 64;

const SHA256: &[u8] = b"user.instancefs.sha256";
const REV: &[u8] = b"user.instancefs.rev";
const LAST: &[u8] = b"user.instancefs.last-save";
const BASE: &[u8] = b"user.instancefs.base";
const EXPECT: &[u8] = b"user.instancefs.expect-sha256";

/// A SHA-256.
pub type Hash = [u8; 32];

/// Whose next save is guarded.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// The handle's, and any other by its process.
    Handle(Fh, ProcId),
    /// That of this writer or its kin.
    Kin(Who),
}

/// Whether a saver is the same writer as whoever has set an expectation.
type IsKin<'k> = dyn Fn(&Who) -> bool + 'k;

/// An expectation that waits for its save.
#[derive(Debug, Clone)]
pub struct Guard {
    view: View,
    owner: Owner,
    hash: Hash,
    set: Stamp,
}

impl Guard {
    /// What the view must show.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    fn is_over(&self, now: Stamp) -> bool {
        matches!(self.owner, Owner::Kin(_)) && now.0 - self.set.0 > PATIENCE
    }

    /// A clock that was set back makes no expectation last longer than from now on.
    fn keep_up(&mut self, now: Stamp) {
        self.set = self.set.min(now);
    }

    fn is_of(&self, saver: &Saver, is_kin: &IsKin<'_>) -> bool {
        match &self.owner {
            Owner::Handle(fh, id) => {
                saver.handle == Some(*fh) || saver.process.as_ref().is_some_and(|p| p.id == *id)
            }
            Owner::Kin(setter) => is_kin(setter),
        }
    }
}

/// The expectations, and the hashes that were asked for last.
#[derive(Default)]
pub struct Guards {
    waiting: Mutex<Vec<Guard>>,
    hashes: Mutex<Vec<(View, Arc<Version>, Hash)>>,
}

impl Guards {
    /// Takes the expectation that this save has to meet: the handle's before the kin's.
    fn take(&self, view: View, saver: &Saver, now: Stamp, is_kin: &IsKin<'_>) -> Option<Guard> {
        if self.waiting.lock().is_empty() {
            return None;
        }
        let mut waiting = self.waiting.lock();
        waiting.iter_mut().for_each(|g| g.keep_up(now));
        waiting.retain(|g| !g.is_over(now));
        let fits = |g: &&(usize, &Guard)| g.1.view == view && g.1.is_of(saver, is_kin);
        let all: Vec<_> = waiting.iter().enumerate().collect();
        let (at, _) =
            all.iter().filter(fits).min_by_key(|(_, g)| matches!(g.owner, Owner::Kin(_)))?;
        let at = *at;
        Some(waiting.swap_remove(at))
    }

    /// Whether this save would have to meet one.
    fn waits(&self, view: View, saver: &Saver, now: Stamp, is_kin: &IsKin<'_>) -> bool {
        let waiting = self.waiting.lock();
        waiting.iter().any(|g| g.view == view && !g.is_over(now) && g.is_of(saver, is_kin))
    }

    /// The save that took it was refused: it stays if it is of the handle that the save came
    /// through.
    pub(super) fn refused(&self, guard: Guard, saver: &Saver) {
        if matches!(guard.owner, Owner::Handle(fh, _) if saver.handle == Some(fh)) {
            self.give_back(guard);
        }
    }

    /// The save that took it did not happen.
    pub(super) fn give_back(&self, guard: Guard) {
        let mut waiting = self.waiting.lock();
        // One that was set meanwhile counts.
        if !waiting.iter().any(|g| (g.view, &g.owner) == (guard.view, &guard.owner)) {
            waiting.push(guard);
        }
    }

    /// The handle is gone.
    pub(super) fn released(&self, fh: Fh) {
        self.waiting.lock().retain(|g| !matches!(g.owner, Owner::Handle(of, _) if of == fh));
    }

    /// The hash of what `version` shows under the name; of nothing when the name does not exist.
    pub(super) fn hash_of(&self, view: View, version: &Arc<Version>) -> Hash {
        let known = |(v, of, hash): &(View, Arc<Version>, Hash)| {
            (*v == view && Arc::ptr_eq(of, version)).then_some(*hash)
        };
        if let Some(hash) = self.hashes.lock().iter().find_map(known) {
            return hash;
        }
        let mut hasher = Sha256::new();
        if let Some(content) = version.view(view) {
            content.chunks().for_each(|c| hasher.update(c));
        }
        let hash: Hash = hasher.finalize().into();
        let mut hashes = self.hashes.lock();
        hashes.retain(|(v, ..)| *v != view);
        if hashes.len() >= HASHES_KEPT {
            hashes.remove(0);
        }
        hashes.push((view, version.clone(), hash));
        hash
    }
}

impl Tree {
    /// `getxattr` of a document.
    pub(super) fn doc_getxattr(&self, who: &Caller, view: View, name: &OsStr) -> Result<Vec<u8>> {
        match name.as_bytes() {
            SHA256 => {
                let version = self.docs.current(view.doc())?;
                Ok(hex(&self.guards.hash_of(view, &version)))
            }
            REV => Ok(self.docs.current(view.doc())?.rev.0.to_string().into_bytes()),
            LAST => {
                let writer = self.who(who, self.process(who).as_ref());
                let is_kin = |other: &Who| self.is_same_writer(&writer, other, view);
                self.last_saves.of(view, &is_kin).ok_or(Error::NoAttribute)
            }
            BASE => {
                let handle = self.only_handle(who, view).ok_or(Error::NoAttribute)?;
                let base = handle.state.lock().base.as_ref().map(|v| v.rev.0);
                Ok(base.ok_or(Error::NoAttribute)?.to_string().into_bytes())
            }
            EXPECT => {
                let (owners, now) = (self.owners(who, view), self.now());
                let waiting = self.guards.waiting.lock();
                let find = |owner: &Owner| {
                    let of = |g: &&Guard| {
                        g.view == view && !g.is_over(now) && self.speaks_for(owner, &g.owner, view)
                    };
                    waiting.iter().find(of).map(|g| hex(&g.hash))
                };
                owners.iter().find_map(find).ok_or(Error::NoAttribute)
            }
            _ => match view {
                View::File(file) => self.file_getxattr(who, file, name),
                _ if is_kernels(name) => Err(Error::NoAttribute),
                _ => Err(Error::NotSupported),
            },
        }
    }

    /// `setxattr` of a document.
    pub(super) fn doc_setxattr(
        &self,
        who: &Caller,
        view: View,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        match name.as_bytes() {
            EXPECT => {}
            BASE => return self.name_base(who, view, value),
            SHA256 | REV | LAST => return Err(Error::NotPermitted),
            _ => match view {
                View::File(file) => return self.file_setxattr(who, file, name, value, flags),
                _ => return Err(Error::NotSupported),
            },
        }
        if view.read_only() {
            return Err(Error::ReadOnly);
        }
        let hash = unhex(value).ok_or(Error::Invalid)?;
        // Nobody's save could be told to be the one that is meant.
        let owner = self.owners(who, view).into_iter().next().ok_or(Error::NotSupported)?;
        let set = self.now();
        let mut waiting = self.guards.waiting.lock();
        waiting.iter_mut().for_each(|g| g.keep_up(set));
        waiting.retain(|g| !g.is_over(set));
        let before =
            waiting.iter().position(|g| g.view == view && self.speaks_for(&owner, &g.owner, view));
        match (before, flags) {
            (Some(_), XattrFlags::Create) => return Err(Error::Exists),
            (None, XattrFlags::Replace) => return Err(Error::NoAttribute),
            (Some(at), _) => {
                waiting.swap_remove(at);
            }
            (None, _) => {}
        }
        waiting.push(Guard { view, owner, hash, set });
        Ok(())
    }

    /// `removexattr` of a document: withdraws the caller's expectation.
    pub(super) fn doc_removexattr(&self, who: &Caller, view: View, name: &OsStr) -> Result<()> {
        match name.as_bytes() {
            EXPECT => {
                let owners = self.owners(who, view);
                let mut waiting = self.guards.waiting.lock();
                let of = |owner: &Owner| {
                    waiting
                        .iter()
                        .position(|g| g.view == view && self.speaks_for(owner, &g.owner, view))
                };
                let at = owners.iter().find_map(of).ok_or(Error::NoAttribute)?;
                waiting.swap_remove(at);
                Ok(())
            }
            SHA256 | REV | LAST | BASE => Err(Error::NotPermitted),
            _ => match view {
                View::File(file) => self.file_removexattr(who, file, name),
                _ => Err(Error::NotSupported),
            },
        }
    }

    /// The writer says which version it started from.
    fn name_base(&self, who: &Caller, view: View, value: &[u8]) -> Result<()> {
        let rev = std::str::from_utf8(value).ok().and_then(|v| v.trim().parse().ok());
        let handle = self.only_handle(who, view).ok_or(Error::NotSupported)?;
        let version = self.docs.at(view.doc(), Rev(rev.ok_or(Error::Invalid)?))?;
        let mut state = handle.state.lock();
        state.base = Some(version.ok_or(Error::Invalid)?);
        if let Some(whole) = &mut state.whole {
            whole.start = None;
        }
        Ok(())
    }

    /// The caller's handle on the name that may write, if it has exactly one.
    fn only_handle(&self, who: &Caller, view: View) -> Option<Arc<DocHandle>> {
        match self.owners(who, view).into_iter().next()? {
            Owner::Handle(fh, _) => self.handle(fh).ok(),
            Owner::Kin(_) => None,
        }
    }

    /// Whose saves the caller can speak for, the nearest first.
    fn owners(&self, who: &Caller, view: View) -> Vec<Owner> {
        let Some(process) = self.process(who) else { return Vec::new() };
        let mut handles = self.handles_on(view);
        handles.retain(|h| h.mode.write && h.opened_by(process.id));
        let mut owners = Vec::new();
        // One that the process has closed may not have been released yet.
        let open = || {
            let all = self.procs.descriptors(process.id, &self.inos(view));
            all.iter().any(|d| d.writable)
        };
        if let [only] = &handles[..]
            && open()
        {
            owners.push(Owner::Handle(only.fh, process.id));
        }
        owners.push(Owner::Kin(self.who(who, Some(&process))));
        owners
    }

    /// Whether whoever is `asking` may speak for an expectation.
    fn speaks_for(&self, asking: &Owner, owner: &Owner, view: View) -> bool {
        match (asking, owner) {
            (Owner::Kin(asking), Owner::Kin(setter)) => self.is_same_writer(asking, setter, view),
            (a, b) => a == b,
        }
    }

    /// Takes the expectation that a save has to meet.
    pub(super) fn guard_of(&self, view: View, saver: &Saver) -> Option<Guard> {
        self.guards.take(view, saver, self.now(), &|setter| self.is_of(saver, setter, view))
    }

    /// Whether a save would have to meet one.
    pub(super) fn is_guarded(&self, view: View, saver: &Saver) -> bool {
        self.guards.waits(view, saver, self.now(), &|setter| self.is_of(saver, setter, view))
    }

    /// Whether the saver, or whoever makes the committing call for it, is kin of `setter`.
    fn is_of(&self, saver: &Saver, setter: &Who, view: View) -> bool {
        let writer = self.saver_as_writer(saver);
        let kin = |who: &Who| self.is_same_writer(who, setter, view);
        kin(&saver.asking) || kin(&writer)
    }
}

/// Whether the kernel asks for the attribute on its own account, when a program is started or a
/// permission checked: any other error than "there is none" would be the caller's.
pub(super) fn is_kernels(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"security.") || name.starts_with(b"system.posix_acl_")
}

fn hex(hash: &Hash) -> Vec<u8> {
    let mut out = String::with_capacity(64);
    for byte in hash {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out.into_bytes()
}

/// 64 hex digits in any case.
fn unhex(text: &[u8]) -> Option<Hash> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut hash = Hash::default();
    for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(hash)
}
