//! Which version has a writer seen? (semantics section 4)
//!
//! One record per process and document: what it read, newest last, and what it last saved.
//! Records outlive their process: a dead one's look counts for its parent's other children.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::marks::{self, Marks};
use super::processes::{ProcId, Process};
use super::recalled::{Recalled, Waiting};
use super::relatives::{Relation, relation};
use crate::documents::Version;
use crate::model::{DocId, FileId, View};

/// Fewer records than this are not thinned.
const RECORDS_FREE: usize = 32;
/// Records of processes that are dead like their ancestors.
const ORPHANS_KEPT: usize = 64;
/// Older reads of one process that are kept to tell a stale save.
const READS_KEPT: usize = 8;
/// Records kept; the ones used longest ago go first.
const RECORDS_KEPT: usize = 4096;
/// Documents of which one process's looks are kept: one that reads a whole directory must not hold
/// all of it in memory.
const FILES_KEPT: usize = 256;
/// Relatives' looks that are compared with a save before it counts as blind.
const RELATIVES_TRIED: usize = 16;
/// Older reads that are compared with a save to tell whether it is stale.
const STALE_TRIED: usize = 4;

/// A version together with the order in which it was seen.
#[derive(Debug, Clone)]
pub struct Look {
    /// The version, committed or believed.
    pub version: Arc<Version>,
    /// Under this name.
    pub view: View,
    /// Grows with every look; decides between looks at the same revision.
    pub at: u64,
}

impl Look {
    fn order(&self) -> (u64, u64) {
        (self.version.rev.0, self.at)
    }
}

/// What one process has seen of one document.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    /// Reads, oldest first, at most [`READS_KEPT`].
    reads: Vec<Look>,
    /// The last save.
    saved: Option<Look>,
}

impl Looks {
    /// The newest version read or saved.
    pub fn newest(&self) -> Option<&Look> {
        self.reads.last().into_iter().chain(&self.saved).max_by_key(|l| l.order())
    }

    /// The version last saved.
    pub fn saved(&self) -> Option<&Look> {
        self.saved.as_ref()
    }

    fn read(&mut self, look: Look) {
        self.reads.retain(|l| !same(&l.version, &look.version));
        let at = self.reads.partition_point(|l| l.order() <= look.order());
        self.reads.insert(at, look);
        if self.reads.len() > READS_KEPT {
            self.reads.remove(0);
        }
    }
}

fn same(a: &Arc<Version>, b: &Arc<Version>) -> bool {
    Arc::ptr_eq(a, b) || (a.rev == b.rev && !a.belief && !b.belief)
}

#[derive(Debug, Clone)]
struct Record {
    process: Process,
    docs: HashMap<DocId, Looks>,
    used: u64,
    dirty: bool,
}

/// What a save is compared with.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// The version that the writer has seen; `None`: the save is blind.
    pub seen: Option<Arc<Version>>,
    /// An older version that the writer read and that the text is nearer to.
    pub stale: Option<Arc<Version>>,
}

impl Verdict {
    /// The writer has seen this.
    pub fn seen(version: Option<Arc<Version>>) -> Verdict {
        Verdict { seen: version, stale: None }
    }
}

/// A record of looks as it is kept in the store.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Who.
    pub process: Process,
    /// The document.
    pub doc: DocId,
    /// The newest look.
    pub look: Look,
    /// It was a save.
    pub saved: bool,
}

/// All records.
#[derive(Debug, Default)]
pub struct Seen {
    records: Mutex<HashMap<ProcId, Record>>,
    clock: AtomicU64,
    gone: Mutex<Vec<(DocId, Process)>>,
    /// What an earlier daemon has recorded.
    pub(super) waiting: Waiting,
}

impl Seen {
    /// Changes with every look of anybody: who remembers a snapshot can tell that it is fresh.
    pub fn generation(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// How many processes are on record.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.records.lock().len()
    }

    /// Nobody has looked at anything.
    pub fn is_empty(&self) -> bool {
        self.generation() == 0
    }

    /// `process` was given this version by a read.
    pub fn looked(&self, process: &Process, view: View, version: &Arc<Version>) {
        self.note(process, view, version, false);
    }

    /// `process` has saved and believes this to be there.
    pub fn saved(&self, process: &Process, view: View, version: &Arc<Version>) {
        self.note(process, view, version, true);
    }

    /// The place of a look among all looks.
    pub(super) fn next(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn note(&self, process: &Process, view: View, version: &Arc<Version>, saved: bool) {
        let at = self.next();
        let look = Look { version: version.clone(), view, at };
        let mut records = self.records.lock();
        if records.len() >= RECORDS_KEPT && !records.contains_key(&process.id) {
            self.make_room(&mut records);
        }
        let record = records.entry(process.id).or_insert_with(|| Record {
            process: process.clone(),
            docs: HashMap::new(),
            used: at,
            dirty: true,
        });
        record.used = at;
        record.dirty = true;
        record.process.session = process.session;
        record.process.program.clone_from(&process.program);
        if record.docs.len() >= FILES_KEPT && !record.docs.contains_key(&view.doc()) {
            forget_file(&mut record.docs);
        }
        let looks = record.docs.entry(view.doc()).or_default();
        if saved {
            looks.saved = Some(look);
        } else {
            looks.read(look);
        }
    }

    /// Drops the quarter that was used longest ago.
    fn make_room(&self, records: &mut HashMap<ProcId, Record>) {
        let mut used: Vec<u64> = records.values().map(|r| r.used).collect();
        used.sort_unstable();
        let limit = used.get(used.len() / 4).copied().unwrap_or(u64::MAX);
        let mut gone = self.gone.lock();
        records.retain(|_, r| {
            let keep = r.used > limit;
            if !keep {
                gone.extend(r.docs.keys().map(|doc| (*doc, r.process.clone())));
            }
            keep
        });
    }

    /// Lets go of what dead processes have seen as far as it cannot count any more: of those with
    /// the same ancestors only the newest are ever compared with a save, and of those in one session
    /// if it is another child's. The versions take room, and short-lived writers leave one each. For
    /// a thread that serves nobody.
    pub fn thin(&self, alive: impl Fn(ProcId) -> bool) {
        let known: Vec<(Process, u64)> = {
            let records = self.records.lock();
            if records.len() < RECORDS_FREE {
                return;
            }
            records.values().map(|r| (r.process.clone(), r.used)).collect()
        };
        let mut lives = HashMap::new();
        let mut is_alive = |id: ProcId| *lives.entry(id).or_insert_with(|| alive(id));
        let mut dead: Vec<(Process, u64, bool)> = Vec::new();
        for (process, used) in known {
            if !is_alive(process.id) {
                let orphan = !process.ancestors.iter().any(|a| is_alive(*a));
                dead.push((process, used, orphan));
            }
        }
        dead.sort_unstable_by_key(|(_, used, _)| std::cmp::Reverse(*used));
        let mut families: HashMap<(Vec<ProcId>, Option<u32>, DocId), usize> = HashMap::new();
        let mut orphans = 0;
        let mut records = self.records.lock();
        let mut gone = self.gone.lock();
        for (process, used, orphan) in dead {
            let Some(record) = records.get_mut(&process.id).filter(|r| r.used == used) else {
                continue;
            };
            orphans += usize::from(orphan);
            let mut counts = !orphan || orphans <= ORPHANS_KEPT;
            record.docs.retain(|doc, looks| {
                let mut is_new = |session| {
                    let family = (process.ancestors.clone(), session, *doc);
                    let count = families.entry(family).or_default();
                    *count += 1;
                    *count <= RELATIVES_TRIED
                };
                // In a session that was its own nobody else has the same ancestors.
                let shared = process.session != 0 && process.session != process.id.pid;
                let in_session = shared && is_new(Some(process.session));
                let keep = counts && (is_new(None) || in_session);
                if keep {
                    // It saves nothing any more that could be stale.
                    looks.reads.drain(..looks.reads.len().saturating_sub(1));
                } else {
                    gone.push((*doc, process.clone()));
                }
                keep
            });
            counts = !record.docs.is_empty();
            if !counts {
                records.remove(&process.id);
            }
        }
    }

    /// What the process itself has seen of the document.
    pub fn own(&self, id: ProcId, doc: DocId) -> Option<Looks> {
        self.wake(doc, |process| process.id == id);
        self.records.lock().get(&id)?.docs.get(&doc).cloned()
    }

    /// What it had seen when [`Seen::generation`] was `at`.
    pub fn own_at(&self, id: ProcId, doc: DocId, at: u64) -> Looks {
        let mut looks = self.own(id, doc).unwrap_or_default();
        looks.reads.retain(|l| l.at <= at);
        looks.saved = looks.saved.filter(|l| l.at <= at);
        looks
    }

    /// What a process that removes a managed file has seen of it: itself, its children or else its
    /// near relatives. There is no text that could keep a line of it.
    pub fn removed_by(&self, remover: Option<&Process>, doc: DocId) -> Option<Arc<Version>> {
        let remover = remover?;
        let own = self.own(remover.id, doc).unwrap_or_default();
        let (children, relatives) = self.family(remover, doc);
        let nearest = own.newest().into_iter().chain(children.first());
        let nearest = nearest.max_by_key(|l| l.order()).or(relatives.first());
        nearest.map(|l| l.version.clone())
    }

    /// The managed files that anybody has seen and whose path `fits`.
    pub fn files(&self, fits: impl Fn(&str) -> bool) -> Vec<FileId> {
        let mut docs = self.waiting_docs();
        docs.extend(self.records.lock().values().flat_map(|r| r.docs.keys()));
        docs.into_iter().filter_map(|d| d.file()).filter(|f| fits(f.path())).collect()
    }

    /// Takes away the newest look of everybody at a document: a managed file that has another
    /// path now.
    pub fn take(&self, doc: DocId) -> Vec<(Process, Look)> {
        self.wake(doc, |_| true);
        let mut records = self.records.lock();
        let mut gone = self.gone.lock();
        let with = records.values_mut().filter_map(|r| {
            let newest = r.docs.remove(&doc)?.newest()?.clone();
            gone.push((doc, r.process.clone()));
            Some((r.process.clone(), newest))
        });
        with.collect()
    }

    /// What an append builds on: the writer's own newest look.
    pub fn own_newest(&self, id: ProcId, doc: DocId) -> Option<Arc<Version>> {
        Some(self.own(id, doc)?.newest()?.version.clone())
    }

    /// The version that a whole-file save of `written` by `writer` is compared with: rules 2 to
    /// 4. `own` takes the place of the writer's present looks (the writer of a renamed source is
    /// judged by what it had seen when it wrote). `start`: the version that the written text was
    /// patched into, if it was edited in place.
    pub fn resolve(
        &self,
        writer: Option<&Process>,
        own: Option<Looks>,
        start: Option<&Arc<Version>>,
        view: View,
        written: &[u8],
    ) -> Verdict {
        let doc = view.doc();
        let own = own.or_else(|| self.own(writer?.id, doc)).unwrap_or_default();
        let (children, relatives) = match writer {
            Some(writer) => self.family(writer, doc),
            None => Default::default(),
        };
        let kept = OnceCell::new();
        let keeps = |look: &&Look| {
            kept.get_or_init(|| Marks::of(doc, written)).keep_any(&look.version, view)
        };
        let child = children.iter().take(RELATIVES_TRIED).find(keeps);
        let mut best = match (own.newest(), child) {
            (Some(own), Some(child)) => Some(nearer(&own.version, &child.version, view, written)),
            (one, other) => one.or(other).map(|l| l.version.clone()),
        };
        if best.is_none() {
            let relative = relatives.iter().take(RELATIVES_TRIED).find(keeps);
            best = relative.map(|l| l.version.clone());
        }
        if let Some(start) = start {
            best = Some(match best {
                Some(best) if same(&best, start) => best,
                Some(best) => nearer(&best, start, view, written),
                None => start.clone(),
            });
        }
        let stale = best.as_ref().and_then(|best| stale(&own, best, view, written));
        Verdict { seen: best, stale }
    }

    /// Newest first: the looks of the writer's children, and those of its other near relatives
    /// (with the saves of its ancestors).
    fn family(&self, writer: &Process, doc: DocId) -> (Vec<Look>, Vec<Look>) {
        self.wake(doc, |other| relation(other, writer).is_some());
        let mut children = Vec::new();
        let mut relatives = Vec::new();
        for record in self.records.lock().values() {
            let Some(looks) = record.docs.get(&doc) else { continue };
            match relation(&record.process, writer) {
                Some(Relation::Child) => children.extend(looks.newest().cloned()),
                Some(Relation::Ancestor) => relatives.extend(looks.saved().cloned()),
                Some(Relation::Near) => relatives.extend(looks.newest().cloned()),
                None => {}
            }
        }
        children.sort_by_key(|l| std::cmp::Reverse(l.order()));
        relatives.sort_by_key(|l| std::cmp::Reverse(l.order()));
        (children, relatives)
    }

    /// The records that changed since the last call, and the ones that are gone.
    pub fn take_changes(&self) -> (Vec<Kept>, Vec<(DocId, Process)>) {
        let mut changed = Vec::new();
        for record in self.without_older().values_mut().filter(|r| r.dirty) {
            record.dirty = false;
            for (doc, looks) in &record.docs {
                let Some(look) = looks.newest() else { continue };
                let saved = looks.saved().is_some_and(|s| s.at == look.at);
                let process = record.process.clone();
                changed.push(Kept { process, doc: *doc, look: look.clone(), saved });
            }
        }
        (changed, std::mem::take(&mut self.gone.lock()))
    }

    /// These changes were not recorded: they are among those of the next call.
    pub fn not_kept(&self, changed: &[Kept], gone: Vec<(DocId, Process)>) {
        let mut records = self.records.lock();
        for kept in changed {
            if let Some(record) = records.get_mut(&kept.process.id) {
                record.dirty = true;
            }
        }
        let mut all = self.gone.lock();
        if all.len() < RECORDS_KEPT {
            all.extend(gone);
        }
    }

    /// The records. What a changed one replaces in the store has been read from there.
    fn without_older(&self) -> MutexGuard<'_, HashMap<ProcId, Record>> {
        loop {
            let older = self.waiting_looks();
            let records = self.records.lock();
            let of = |r: &Record| {
                r.docs.keys().map(|doc| (r.process.id, *doc)).find(|look| older.contains(look))
            };
            let Some((id, doc)) = records.values().filter(|r| r.dirty).find_map(of) else {
                return records;
            };
            drop(records);
            self.wake(doc, |process| process.id == id);
        }
    }

    /// Takes in a look of an earlier daemon, which is on record already.
    pub(super) fn recalled(&self, of: &Recalled, look: Look) {
        let mut records = self.records.lock();
        if records.len() >= RECORDS_KEPT && !records.contains_key(&of.process.id) {
            self.make_room(&mut records);
        }
        let record = records.entry(of.process.id).or_insert_with(|| Record {
            process: of.process.clone(),
            docs: HashMap::new(),
            used: look.at,
            dirty: false,
        });
        let looks = record.docs.entry(of.view.doc()).or_default();
        if !of.saved {
            if !looks.reads.iter().any(|l| same(&l.version, &look.version)) {
                looks.read(look);
            }
        } else if looks.saved.as_ref().is_none_or(|s| s.order() < look.order()) {
            looks.saved = Some(look);
        }
    }
}

/// Drops what was seen of the managed file that was looked at longest ago.
fn forget_file(docs: &mut HashMap<DocId, Looks>) {
    let files = docs.iter().filter(|(doc, _)| doc.file().is_some());
    let oldest = files.min_by_key(|(_, looks)| looks.newest().map(|l| l.at)).map(|(doc, _)| *doc);
    if let Some(oldest) = oldest {
        docs.remove(&oldest);
    }
}

/// The version from which the text differs in fewer lines; the newer one when equal.
pub fn nearer(a: &Arc<Version>, b: &Arc<Version>, view: View, text: &[u8]) -> Arc<Version> {
    if same(a, b) {
        return a.clone();
    }
    let (newer, older) = if b.rev > a.rev { (b, a) } else { (a, b) };
    if marks::distance_of(older, view, text) < marks::distance_of(newer, view, text) {
        older.clone()
    } else {
        newer.clone()
    }
}

/// The nearest of the writer's older reads, if it is nearer than what the writer is taken to
/// have seen.
fn stale(own: &Looks, seen: &Arc<Version>, view: View, written: &[u8]) -> Option<Arc<Version>> {
    let older = own.reads.iter().rev().filter(|l| l.version.rev < seen.rev);
    let mut older = older.take(STALE_TRIED).peekable();
    older.peek()?;
    let from_seen = marks::distance_of(seen, view, written);
    let (distance, nearest) = older
        .map(|l| (marks::distance_of(&l.version, view, written), &l.version))
        .min_by_key(|(distance, _)| *distance)?;
    (distance < from_seen).then(|| nearest.clone())
}
