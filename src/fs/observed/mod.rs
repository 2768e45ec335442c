//! Observations: which versions of a document have been met, by whom and how, and from them the merge
//! base of a save: the version that its writer started from (SEMANTICS, section 4).
//!
//! Kinship of processes says which versions to ask first, the text decides among them (`rule`).
//! Observations outlive their processes, and by the store also the daemon. They are bounded by
//! versions, not by their own number: who looks often takes no place from others.

mod lineage;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use self::lineage::Lineage;
pub use self::rule::{Choice, Question, Unlink};
use crate::documents::Version;
use crate::model::{DocId, FileId, Rev, Stamp, View};
use crate::process::{ProcId, Process};

/// Managed files of which observations are held; those met longest ago go first.
const FILES_KEPT: usize = 20_000;
/// Bytes of managed files' versions that are held, as far as they are shown in full.
const BYTES_KEPT: u64 = 64 << 20;

/// A read carries one save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    /// No save has started from it.
    No,
    /// One has, by the process itself, an ancestor or a descendant.
    Up,
    /// One by another process: only the process itself may start from it still.
    Lent,
}

impl Used {
    /// As the store has it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Reads it back.
    pub fn of_code(code: u8) -> Used {
        match code {
            0 => Used::No,
            2 => Used::Lent,
            _ => Used::Up,
        }
    }
}

/// Who has met a version: the process, all of its ancestors as they were then, and the user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Who {
    /// `None`: it cannot be told (another pid namespace).
    pub process: Option<ProcId>,
    /// Nearest first, without pid 1.
    pub ancestors: Arc<[ProcId]>,
    /// User id.
    pub uid: u32,
}

impl Who {
    /// The process and its ancestors, nearest first, each as pid (4 bytes) and identity (8 bytes),
    /// little-endian; nothing when the process cannot be told.
    pub fn to_bytes(&self) -> Vec<u8> {
        let of = |id: ProcId| {
            let (pid, ident) = (id.pid.to_le_bytes(), id.ident.to_le_bytes());
            pid.into_iter().chain(ident)
        };
        self.chain().flat_map(of).collect()
    }

    /// Reads it back; what is incomplete is left out.
    pub fn from_bytes(bytes: &[u8], uid: u32) -> Who {
        let mut ids = bytes.as_chunks::<12>().0.iter().filter_map(|chunk| {
            let (pid, ident) = chunk.split_first_chunk::<4>()?;
            let ident = u64::from_le_bytes(ident.try_into().ok()?);
            Some(ProcId { pid: u32::from_le_bytes(*pid), ident })
        });
        Who { process: ids.next(), ancestors: ids.collect(), uid }
    }

    /// A process, or nobody that can be told, of a user.
    pub fn of(process: Option<&Process>, uid: u32) -> Who {
        match process {
            Some(p) => Who { process: Some(p.id), ancestors: p.ancestors.clone(), uid },
            None => Who { process: None, ancestors: Arc::from([]), uid },
        }
    }

    /// Whether it is this process or descends from it.
    pub fn descends_from(&self, id: ProcId) -> bool {
        self.process == Some(id) || self.ancestors.contains(&id)
    }

    fn in_line(&self, other: &Who) -> bool {
        let below = |a: &Who, b: &Who| b.process.is_some_and(|id| a.descends_from(id));
        below(self, other) || below(other, self)
    }

    fn is(&self, id: Option<ProcId>) -> bool {
        id.is_some() && self.process == id
    }

    /// Itself and its ancestors, nearest first.
    fn chain(&self) -> impl Iterator<Item = ProcId> {
        self.process.into_iter().chain(self.ancestors.iter().copied())
    }
}

/// How a version was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It was read.
    Read,
    /// It was written: the version is what its writer wrote, not what the merge made of it.
    Saved,
    /// There was no file.
    Absent,
}

impl Kind {
    /// The number in the store.
    pub fn code(self) -> u8 {
        match self {
            Kind::Read => 0,
            Kind::Saved => 1,
            Kind::Absent => 2,
        }
    }

    /// The kind with this number; unknown ones are reads.
    pub fn of_code(code: u8) -> Kind {
        [Kind::Read, Kind::Saved, Kind::Absent]
            .into_iter()
            .find(|k| k.code() == code)
            .unwrap_or(Kind::Read)
    }
}

/// An observation as it is kept in the store. `at` is its key within a document and a boot.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Grows with every observation of any document.
    pub at: u64,
    /// The time.
    pub when: Stamp,
    /// By whom.
    pub who: Who,
    /// How.
    pub kind: Kind,
    /// Under this name.
    pub view: View,
    /// Whether a save has started from it.
    pub used: Used,
    /// The revision of the version.
    pub rev: Rev,
    /// The writer's own text, where it is not that of the revision.
    pub text: Option<Vec<u8>>,
    /// It is such a text; [`Versions::stored`] has it.
    pub has_text: bool,
}

/// What changed since the store was last told.
#[derive(Debug, Default)]
pub struct Changes {
    /// New observations, and those that were used up.
    pub put: Vec<Stored>,
    /// Those that are gone.
    pub gone: Vec<(DocId, u64)>,
}

/// Versions that are not in memory.
pub trait Versions: Send + Sync {
    /// The version of an observation on record; `None`: it is gone.
    fn stored(&self, doc: DocId, at: u64) -> Option<Arc<Version>>;
    /// The first version of the document that is on record.
    fn first(&self, doc: DocId) -> Option<Arc<Version>>;
}

/// No version but those in memory.
struct Nothing;

impl Versions for Nothing {
    fn stored(&self, _: DocId, _: u64) -> Option<Arc<Version>> {
        None
    }
    fn first(&self, _: DocId) -> Option<Arc<Version>> {
        None
    }
}

/// The observations of all documents.
pub struct Observed {
    docs: RwLock<HashMap<DocId, Arc<Mutex<Lineage>>>>,
    clock: AtomicU64,
    versions: Arc<dyn Versions>,
    gone: Mutex<Vec<(DocId, u64)>>,
    /// Processes that stand for a named writer, with their descendants.
    named: RwLock<HashMap<ProcId, ProcId>>,
}

impl Default for Observed {
    fn default() -> Observed {
        Observed::new(Arc::new(Nothing))
    }
}

impl Observed {
    /// Nothing observed yet.
    pub fn new(versions: Arc<dyn Versions>) -> Observed {
        Observed {
            docs: RwLock::default(),
            clock: AtomicU64::new(0),
            versions,
            gone: Mutex::default(),
            named: RwLock::default(),
        }
    }

    /// Changes with every observation of anybody.
    pub fn generation(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Nobody has met anything.
    pub fn is_empty(&self) -> bool {
        self.generation() == 0
    }

    /// From now on `process` and its descendants are one writer with all others of this name and
    /// user.
    pub fn name_writer(&self, process: ProcId, name: &str, uid: u32) {
        let ident = crate::merge::entries::hash(("writer", name, uid));
        self.named.write().insert(process, ProcId { pid: 0, ident });
    }

    /// Who a process is as a writer.
    pub fn who(&self, process: Option<&Process>, uid: u32) -> Who {
        let who = Who::of(process, uid);
        let named = self.named.read();
        if named.is_empty() {
            return who;
        }
        let writer = who.chain().find_map(|id| named.get(&id).copied());
        match writer {
            Some(writer) => Who { process: Some(writer), ancestors: Arc::from([]), uid },
            None => who,
        }
    }

    fn of(&self, doc: DocId) -> Option<Arc<Mutex<Lineage>>> {
        self.docs.read().get(&doc).cloned()
    }

    fn made(&self, doc: DocId) -> Arc<Mutex<Lineage>> {
        if let Some(found) = self.of(doc) {
            return found;
        }
        self.docs.write().entry(doc).or_default().clone()
    }

    /// `who` was given this version by a read.
    pub fn read(&self, who: &Who, view: View, version: &Arc<Version>, now: Stamp) {
        self.note(who, view, version, Kind::Read, now);
    }

    /// `who` has saved, and this is what it wrote.
    pub fn saved(&self, who: &Who, view: View, version: &Arc<Version>, now: Stamp) {
        self.note(who, view, version, Kind::Saved, now);
    }

    /// `who` has looked for the file and found none.
    pub fn absent(&self, who: &Who, view: View, version: &Arc<Version>, now: Stamp) {
        self.note(who, view, version, Kind::Absent, now);
    }

    fn note(&self, who: &Who, view: View, version: &Arc<Version>, kind: Kind, now: Stamp) {
        let lineage = self.made(view.doc());
        let mut lineage = lineage.lock();
        let at = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        lineage.note(at, who, view, version, kind, now);
        let gone = lineage.make_room();
        drop(lineage);
        self.gone_of(view.doc(), gone);
    }

    /// These observations are no more. With no lineage held.
    fn gone_of(&self, doc: DocId, gone: Vec<u64>) {
        if !gone.is_empty() {
            self.gone.lock().extend(gone.into_iter().map(|at| (doc, at)));
        }
    }

    /// The merge base of a save.
    pub fn choose(&self, question: &Question<'_>) -> Choice {
        match self.of(question.view.doc()) {
            Some(lineage) => rule::choose(&mut lineage.lock(), question, &*self.versions),
            None => rule::choose(&mut Lineage::default(), question, &*self.versions),
        }
    }

    /// A save that started from an observation has been committed: it carries no other one. A file that
    /// is renamed is saved by two.
    pub fn use_up(&self, doc: DocId, at: u64, savers: &[&Who]) {
        if let Some(lineage) = self.of(doc) {
            lineage.lock().use_up(at, savers);
        }
    }

    /// The observation of a version that a save by `who` starts from.
    pub fn nearest_of(&self, who: &Who, version: &Arc<Version>, view: View) -> Option<u64> {
        self.of(version.doc)?.lock().nearest_of(who, version, view, u64::MAX)
    }

    /// The newest observation of a version by the process itself.
    pub fn own_of(&self, who: &Who, version: &Arc<Version>, view: View) -> Option<u64> {
        self.of(version.doc)?.lock().own_of(who, version, view)
    }

    /// What a writer has met last that hands over no text to judge by (an append, a removal): itself
    /// or its descendants, else the nearest of its kin that have met anything.
    pub fn last_met(&self, who: &Who, doc: DocId) -> Option<Arc<Version>> {
        let lineage = self.of(doc)?;
        let mut lineage = lineage.lock();
        let at = lineage.last_met(who)?;
        lineage.meant(at, &*self.versions)
    }

    /// What the process itself has met last.
    pub fn own_newest(&self, who: &Who, doc: DocId) -> Option<Arc<Version>> {
        let lineage = self.of(doc)?;
        let mut lineage = lineage.lock();
        let at = lineage.newest_where(|o| o.who.is(who.process))?;
        lineage.meant(at, &*self.versions)
    }

    /// Whether the process itself has met the document.
    pub fn has_met(&self, who: &Who, doc: DocId) -> bool {
        self.of(doc).is_some_and(|l| l.lock().newest_where(|o| o.who.is(who.process)).is_some())
    }

    /// Whether `other` is the same writer as `who` as far as the document is concerned: it is itself,
    /// a descendant, or below the first ancestor under which anybody else has met the document.
    pub fn are_kin(&self, who: &Who, other: &Who, doc: DocId) -> bool {
        let Some(me) = who.process else { return false };
        if other.descends_from(me) {
            return true;
        }
        let lineage = self.of(doc);
        let lineage = lineage.as_ref().map(|l| l.lock());
        for ancestor in who.ancestors.iter() {
            if other.descends_from(*ancestor) {
                return true;
            }
            let met = |l: &Lineage| {
                l.any_met(|o| o.who.descends_from(*ancestor) && !o.who.is(who.process))
            };
            if lineage.as_ref().is_some_and(|l| met(l)) {
                return false;
            }
        }
        false
    }

    /// The managed files that anybody has met and whose path `fits`.
    pub fn files(&self, fits: impl Fn(&str) -> bool) -> Vec<FileId> {
        let docs = self.docs.read();
        docs.keys().filter_map(|d| d.file()).filter(|f| fits(f.path())).collect()
    }

    /// Takes what was observed of a file that is about to be moved.
    pub fn taken(&self, file: FileId) -> Option<Taken> {
        let lineage = self.remove(DocId::File(file))?;
        Some(Taken(lineage))
    }

    fn remove(&self, doc: DocId) -> Option<Arc<Mutex<Lineage>>> {
        let lineage = self.docs.write().remove(&doc)?;
        let stored = lineage.lock().stored().collect();
        self.gone_of(doc, stored);
        Some(lineage)
    }

    /// Puts it where the file is now.
    pub fn put_back(
        &self,
        taken: &Taken,
        to: FileId,
        as_new: impl Fn(&Arc<Version>) -> Option<Arc<Version>>,
    ) {
        let to = DocId::File(to);
        let moved = taken.0.lock().moved(to, &*self.versions, as_new);
        self.remove(to);
        self.docs.write().insert(to, Arc::new(Mutex::new(moved)));
    }

    /// Lets go of what cannot count any more. For a thread that serves nobody.
    pub fn thin(&self, alive: impl Fn(ProcId) -> bool) {
        let mut lives: HashMap<ProcId, bool> = HashMap::new();
        let named = self.named.read().clone();
        // A named writer lives as long as one of the processes does that stand for it.
        let any_of =
            |id: ProcId| named.iter().any(|(process, name)| *name == id && alive(*process));
        let mut is_alive = |id: ProcId| *lives.entry(id).or_insert_with(|| alive(id) || any_of(id));
        let all: Vec<_> = self.docs.read().iter().map(|(d, l)| (*d, l.clone())).collect();
        let mut files = Vec::new();
        for (doc, lineage) in all {
            let mut lineage = lineage.lock();
            let gone = lineage.thin(&mut is_alive);
            if doc.file().is_some() {
                files.push((lineage.used(), doc, lineage.bytes()));
            }
            drop(lineage);
            self.gone_of(doc, gone);
        }
        files.sort_unstable_by_key(|(used, ..)| std::cmp::Reverse(*used));
        let mut bytes = 0;
        for (n, (_, doc, size)) in files.into_iter().enumerate() {
            bytes += size;
            if n >= FILES_KEPT || n > 0 && bytes > BYTES_KEPT {
                self.remove(doc);
            }
        }
        let dead: Vec<ProcId> = named.into_keys().filter(|id| !alive(*id)).collect();
        self.named.write().retain(|id, _| !dead.contains(id));
    }

    /// How many observations are held.
    pub fn len(&self) -> usize {
        let all: Vec<_> = self.docs.read().values().cloned().collect();
        all.iter().map(|l| l.lock().len()).sum()
    }

    /// Takes up an observation of an earlier daemon of this boot, in the order of their `at`.
    pub fn recall(&self, stored: Stored) {
        self.clock.fetch_max(stored.at, Ordering::Relaxed);
        self.made(stored.view.doc()).lock().recall(stored);
    }

    /// What has changed since the last call.
    pub fn take_changes(&self) -> Changes {
        let all: Vec<_> = self.docs.read().values().cloned().collect();
        let mut changes = Changes { put: Vec::new(), gone: std::mem::take(&mut self.gone.lock()) };
        for lineage in all {
            lineage.lock().take_changes(&mut changes.put);
        }
        changes
    }

    /// These changes could not be kept: they are among those of the next call.
    pub fn not_kept(&self, changes: Changes) {
        for stored in &changes.put {
            if let Some(lineage) = self.of(stored.view.doc()) {
                lineage.lock().not_kept(stored.at);
            }
        }
        self.gone.lock().extend(changes.gone);
    }
}

/// The observations of a managed file between two paths.
pub struct Taken(Arc<Mutex<Lineage>>);
