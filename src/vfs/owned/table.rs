//! The markers and leases that are known, by path and by file.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::content::{Content, Found};
use super::judge::{Verdict, judge};
use super::names::Kind;
use super::owner::{Here, Owner};
use super::{FileId, TOKENS_AT_ONCE};
use crate::model::{Clock, Stamp, SystemClock};
use crate::process::ProcId;
use crate::store::OwnedRow;

/// One file.
#[derive(Debug)]
pub(super) struct Entry {
    pub kind: Kind,
    pub id: FileId,
    /// Whose it is; `None`: an ordinary file.
    pub owner: Option<Arc<Owner>>,
    /// Only the number speaks for the owner; the file was written at this time.
    pub unsure: Option<Stamp>,
    /// Who made it, and so owns it while it is empty.
    pub maker: Option<Arc<Owner>>,
    /// The maker has other pids in its own namespace: numbers in the file mean nothing to us.
    pub foreign: bool,
    /// Its content is judged whenever somebody who may write it closes it.
    pub open: bool,
    /// Found to belong to nobody any more.
    pub ended: bool,
    /// The fencing number of a lease.
    pub token: u64,
    pub at: Stamp,
    /// Since when its end is known to whoever takes it away.
    pub told: Option<Instant>,
}

impl Entry {
    /// Its owner has ended.
    pub fn is_over(&self) -> bool {
        self.ended || self.owner.as_ref().is_some_and(|o| !o.alive())
    }

    /// A lease that somebody else than `asker` holds.
    pub fn held_against(&self, asker: Option<ProcId>) -> bool {
        let Some(owner) = self.owner.as_ref().filter(|_| self.kind == Kind::Lease) else {
            return false;
        };
        let own = asker.is_some_and(|a| (a.pid, a.ident) == (owner.pid, owner.ident));
        !own && !self.is_over()
    }

    fn row(&self, path: &Path, here: &Here) -> OwnedRow {
        OwnedRow {
            path: path.to_owned(),
            lease: self.kind == Kind::Lease,
            ino: self.id.ino,
            born: self.id.born,
            owner: here.row(self.owner.as_deref()),
            token: self.token,
            at: self.at,
        }
    }
}

/// How a file came to its name.
#[derive(Debug)]
pub(super) struct Made {
    /// By whom; `None`: not known.
    pub maker: Option<Arc<Owner>>,
    /// The maker has other pids in its own namespace.
    pub foreign: bool,
    /// It could only be made because there was none.
    pub exclusive: bool,
}

/// The known files.
#[derive(Debug, Default)]
pub(super) struct Table {
    files: HashMap<PathBuf, Entry>,
    by_id: HashMap<FileId, PathBuf>,
    /// What is on record and does not belong to a known file: it may be a copy's.
    pub kept: HashMap<PathBuf, OwnedRow>,
    /// Paths whose record is out of date.
    pub dirty: BTreeSet<PathBuf>,
    /// The fencing numbers that are reserved: the next one and the end.
    pub tokens: (u64, u64),
}

impl Table {
    pub fn get(&self, path: &Path) -> Option<&Entry> {
        self.files.get(path)
    }

    pub fn path_of(&self, id: FileId) -> Option<&PathBuf> {
        self.by_id.get(&id)
    }

    pub fn by_id(&self, id: FileId) -> Option<&Entry> {
        self.files.get(self.by_id.get(&id)?)
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Entry)> {
        self.files.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&PathBuf, &mut Entry)> {
        self.files.iter_mut()
    }

    pub fn remove(&mut self, path: &Path) -> Option<Entry> {
        self.kept.remove(path);
        self.dirty.insert(path.to_owned());
        let entry = self.files.remove(path)?;
        if self.by_id.get(&entry.id).is_some_and(|p| p == path) {
            self.by_id.remove(&entry.id);
        }
        Some(entry)
    }

    fn put(&mut self, path: &Path, entry: Entry) {
        self.remove(path);
        self.by_id.insert(entry.id, path.to_owned());
        self.files.insert(path.to_owned(), entry);
    }

    /// Forgets what lies below a directory.
    pub fn forget_below(&mut self, dir: &Path) {
        let below: Vec<PathBuf> =
            self.files.keys().filter(|p| p.starts_with(dir)).cloned().collect();
        for path in below {
            self.remove(&path);
        }
    }

    fn token(&mut self, kind: Kind) -> u64 {
        if kind != Kind::Lease {
            return 0;
        }
        self.tokens.0 += 1;
        self.tokens.0 - 1
    }

    /// So few numbers are left that more should be reserved.
    pub fn lacks_tokens(&self) -> bool {
        self.tokens.1.saturating_sub(self.tokens.0) < TOKENS_AT_ONCE / 4
    }

    /// A file was made at `path`.
    pub fn made(&mut self, path: &Path, kind: Kind, id: FileId, how: Made) {
        let maker = how.maker;
        let owner = match kind {
            Kind::Marker(_) if how.foreign || maker.is_none() => None,
            Kind::Marker(pid) => match &maker {
                Some(maker) if maker.pid == pid => Some(Arc::clone(maker)),
                _ => Owner::of_pid(pid).map(Arc::new),
            },
            Kind::Lease if how.exclusive => maker.clone(),
            Kind::Lease => None,
        };
        let open = match kind {
            Kind::Marker(_) => !how.foreign && maker.is_some(),
            Kind::Lease => owner.is_some(),
        };
        let token = if owner.is_some() { self.token(kind) } else { 0 };
        let at = SystemClock.now();
        let entry = Entry {
            kind,
            id,
            owner,
            unsure: None,
            maker,
            foreign: how.foreign,
            open,
            ended: false,
            token,
            at,
            told: None,
        };
        self.put(path, entry);
    }

    /// Judges the content of a file that was seen being made, or whose owner may have written it
    /// anew.
    pub fn settle(&mut self, path: &Path, found: &Found) {
        let Some(entry) = self.files.get_mut(path).filter(|e| e.id == found.id && e.open) else {
            return;
        };
        let (before, ended) = (entry.owner.clone(), entry.ended);
        match (entry.kind, found.content) {
            (_, Content::Other) => entry.owner = None,
            (Kind::Marker(pid), Content::Pid(other)) if other != pid => entry.owner = None,
            (Kind::Marker(_), _) => entry.ended = entry.owner.is_none(),
            (Kind::Lease, Content::Empty) => {
                entry.owner = entry.owner.take().or(entry.maker.clone())
            }
            (Kind::Lease, Content::Pid(_)) if entry.foreign => entry.owner = None,
            // Said again, it is no surer than before.
            (Kind::Lease, Content::Pid(pid))
                if entry.owner.as_ref().is_some_and(|o| o.pid == pid) => {}
            (Kind::Lease, Content::Pid(pid)) => {
                let known = entry.maker.as_ref().filter(|o| o.pid == pid && o.alive()).cloned();
                entry.unsure = known.is_none().then_some(found.mtime);
                entry.owner = known.or_else(|| Owner::of_pid(pid).map(Arc::new));
                entry.ended = entry.owner.is_none();
            }
        }
        if entry.owner.is_none() && !entry.ended {
            // From now on an ordinary file, whatever is written to it.
            entry.open = false;
        }
        let same = match (&before, &entry.owner) {
            (Some(a), Some(b)) => a.ident == b.ident,
            (a, b) => a.is_none() && b.is_none(),
        };
        if !same || entry.ended != ended {
            self.dirty.insert(path.to_owned());
        }
    }

    /// What is at `path` is this file; nobody saw it being made. Whether that is news.
    pub fn found(&mut self, path: &Path, kind: Kind, found: &Found, here: &Here) -> bool {
        if self.files.get(path).is_some_and(|e| e.id == found.id) {
            return false;
        }
        let verdict = judge(kind, found, self.kept.get(path), here);
        self.judged(path, kind, found, verdict);
        true
    }

    /// The same with a verdict. A lease on record keeps its number.
    pub fn judged(&mut self, path: &Path, kind: Kind, found: &Found, verdict: Verdict) {
        let kept = self.kept.get(path).filter(|k| (k.ino, k.born) == (found.id.ino, found.id.born));
        let kept = kept.map(|k| (k.token, k.owner.ident, k.at));
        let (owner, sure, ended) = match verdict {
            Verdict::Ordinary => (None, true, false),
            Verdict::Ended => (None, true, true),
            Verdict::Owned { owner, sure } => (Some(Arc::new(owner)), sure, false),
        };
        let (token, at) = match (kept, &owner) {
            (Some((token, ident, at)), Some(owner)) if owner.ident == ident => (token, at),
            (_, Some(_)) => (self.token(kind), found.mtime),
            (_, None) => (0, found.mtime),
        };
        let entry = Entry {
            kind,
            id: found.id,
            open: owner.is_some(),
            owner,
            unsure: (!sure).then_some(found.mtime),
            maker: None,
            foreign: false,
            ended,
            token,
            at,
            told: None,
        };
        self.put(path, entry);
    }

    /// What a rename has brought to `path`. A lease that its owner writes anew keeps its number.
    pub fn renamed_onto(&mut self, path: &Path, kind: Kind, found: &Found, how: Made) {
        let before = self.files.get(path).and_then(|e| Some((e.owner.as_ref()?.ident, e.token)));
        let exclusive = how.exclusive;
        self.made(path, kind, found.id, Made { exclusive: true, ..how });
        self.settle(path, found);
        if let Some(entry) = self.files.get_mut(path) {
            if entry.owner.is_some() && !exclusive && found.content == Content::Empty {
                (entry.owner, entry.open) = (None, false);
            }
            if let (Some((ident, token)), Some(owner)) = (before, &entry.owner)
                && owner.ident == ident
            {
                entry.token = token;
            }
        }
    }

    /// The records of what is dirty: rows to put and paths to forget.
    pub fn records(&self, here: &Here) -> (Vec<OwnedRow>, Vec<PathBuf>) {
        let (there, gone): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.dirty.iter().partition(|path| self.files.contains_key(*path));
        let rows = there.into_iter().filter_map(|p| Some(self.files.get(p)?.row(p, here)));
        (rows.collect(), gone.into_iter().cloned().collect())
    }
}
