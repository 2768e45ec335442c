//! Documents that merge by line, processes that do what a test says.

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::documents::live::{SaveError, SaveRequest, Saved};
use crate::documents::{Content, DocState, State, Version, Written};
use crate::fs::observed::{Changes, Stored};
use crate::model::{Actor, Basis, Clock, DocId, FileId, Reason, Refusal, Rev, Stamp, View};
use crate::process::{Descriptor, Exit, ProcId, Process, Processes};
use crate::store::StoreError;
use crate::vfs::ports::{Documents, KeptName, KeptRefusal, Memory};

/// A text, the same under every name of its document.
pub struct Text(pub Option<String>);

impl DocState for Text {
    fn view(&self, _: View) -> Option<Content> {
        self.0.clone().map(|t| Content::from(t.into_bytes()))
    }
    fn archive(&self) -> Content {
        Content::from(self.0.clone().unwrap_or_default().into_bytes())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn text_of(state: &State) -> String {
    state.as_any().downcast_ref::<Text>().and_then(|t| t.0.clone()).unwrap_or_default()
}

/// What stands for an inode number in a list of descriptors.
pub fn key(ino: u64) -> u64 {
    (ino & 0x7fff_ffff) | if ino >> 61 == 1 { 0x8000_0000 } else { 0 }
}

/// What a save was asked to do.
#[derive(Debug, Clone)]
pub struct Asked {
    pub seen: Option<String>,
    pub written: String,
    pub whole: bool,
    pub actor: Actor,
    pub basis: Basis,
    pub under_their_lock: bool,
}

#[derive(Default)]
pub struct FakeDocs {
    versions: Mutex<HashMap<DocId, Vec<Arc<Version>>>>,
    rev: AtomicU64,
    pub saves: Mutex<Vec<Asked>>,
    pub syncs: AtomicU64,
    pub fail: Mutex<Option<StoreError>>,
    /// Where managed files are; `None`: there are none.
    pub store: Option<PathBuf>,
    turn: Mutex<()>,
}

impl FakeDocs {
    pub fn new() -> FakeDocs {
        let docs = FakeDocs::default();
        docs.publish(DocId::Missions, Some("# Missions\n\n## Pending\n- a\n- b\n"));
        docs.publish(DocId::Quarantine, Some("# Quarantine\n"));
        docs.publish(DocId::Config, Some("{\"a\": 1, \"b\": 2}\n"));
        docs
    }

    /// A change by somebody else.
    pub fn publish(&self, doc: DocId, text: Option<&str>) -> Arc<Version> {
        let rev = self.rev.fetch_add(1, Ordering::SeqCst) + 1;
        let state: State = Arc::new(Text(text.map(str::to_owned)));
        let version = Version {
            doc,
            rev: Rev(rev),
            mtime: Stamp(1_000_000_000 * rev as i64),
            state,
            belief: false,
        };
        let version = Arc::new(version);
        self.versions.lock().entry(doc).or_default().push(version.clone());
        version
    }

    pub fn text(&self, doc: DocId) -> String {
        text_of(&self.cached(doc).state)
    }

    pub fn last(&self) -> Asked {
        self.saves.lock().last().cloned().expect("a save")
    }

    pub fn count(&self) -> usize {
        self.saves.lock().len()
    }
}

fn merge_lines(seen: Option<&str>, written: &str, current: &str) -> String {
    if seen == Some(current) {
        return written.to_owned();
    }
    let had: Vec<&str> = seen.unwrap_or_default().lines().collect();
    let want: Vec<&str> = written.lines().collect();
    let mut out: Vec<&str> =
        current.lines().filter(|l| !had.contains(l) || want.contains(l)).collect();
    for line in want {
        if !had.contains(&line) && !out.contains(&line) {
            out.push(line);
        }
    }
    out.iter().map(|l| format!("{l}\n")).collect()
}

fn merge_keys(seen: Option<&str>, written: &str, current: &str) -> String {
    if seen == Some(current) {
        return written.to_owned();
    }
    let parse = |t: &str| -> serde_json::Map<String, serde_json::Value> {
        serde_json::from_str(t).unwrap_or_default()
    };
    let (had, want, mut out) = (parse(seen.unwrap_or_default()), parse(written), parse(current));
    if want == out {
        return current.to_owned();
    }
    out.retain(|k, _| !had.contains_key(k) || want.contains_key(k));
    for (k, v) in want {
        if had.get(&k) != Some(&v) {
            out.insert(k, v);
        }
    }
    serde_json::to_string(&out).unwrap() + "\n"
}

impl FakeDocs {
    /// The version that the store's file is, made now if it has changed.
    fn look(&self, file: FileId) -> Arc<Version> {
        let doc = DocId::File(file);
        let path = self.store.as_ref().expect("files").join(file.path());
        let real = std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_file());
        let text = real.then(|| std::fs::read_to_string(&path).unwrap());
        let cached = self.cached(doc);
        let known = cached.state.as_any().downcast_ref::<Text>().unwrap();
        if known.0 == text { cached } else { self.publish(doc, text.as_deref()) }
    }

    fn save_file(&self, file: FileId, request: SaveRequest<'_>) -> Result<Saved, SaveError> {
        let _turn = self.turn.lock();
        let before = self.look(file);
        let current = before.state.as_any().downcast_ref::<Text>().unwrap().0.clone();
        let seen = request.base.as_ref().map(|v| text_of(&v.state));
        let queue = file.path().contains("outbox") || file.path().starts_with("journal");
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map(str::to_owned);
            text.map_err(|_| Refusal::new(Reason::Invalid, "not UTF-8"))
        };
        let there = current.clone().unwrap_or_default();
        let unlinked = request.instead_of.as_ref();
        let left = unlinked.map(|u| u.left.as_ref().map(|left| text_of(&left.state)));
        let now = match (unlinked.map(|u| text_of(&u.was.state)), left.flatten()) {
            (Some(was), Some(left)) => merge_lines(Some(&left), &was, &there),
            (Some(was), None) if there.is_empty() => was,
            _ => there,
        };
        let (next, belief, written) = match request.written {
            Written::Removed if queue => {
                let left = merge_lines(Some(seen.as_deref().unwrap_or(&now)), "", &now);
                let left = Some(left).filter(|l| !l.is_empty());
                (left.clone(), left.map(|_| String::new()), String::new())
            }
            Written::Removed => (None, None, String::new()),
            Written::Fragment(bytes) => {
                let new = text(bytes)?;
                let all = format!("{now}{new}");
                (Some(all), Some(format!("{}{new}", seen.clone().unwrap_or_default())), new)
            }
            Written::Whole(bytes) => {
                let new = text(bytes)?;
                if file.path().ends_with(".json") {
                    serde_json::from_str::<serde_json::Value>(&new)
                        .map_err(|e| Refusal::new(Reason::Invalid, e.to_string()))?;
                }
                let next = match &seen {
                    None if !queue => new.clone(),
                    seen => merge_lines(seen.as_deref(), &new, &now),
                };
                (Some(next), Some(new.clone()), new)
            }
        };
        self.saves.lock().push(Asked {
            seen,
            written,
            whole: !matches!(request.written, Written::Fragment(_)),
            actor: request.actor,
            basis: request.basis,
            under_their_lock: request.under_their_lock,
        });
        let path = self.store.as_ref().expect("files").join(file.path());
        let changed = next != current;
        let version = match &next {
            _ if !changed => before,
            None => {
                std::fs::remove_file(&path).unwrap();
                self.publish(request.view.doc(), None)
            }
            Some(next) => {
                let temp = path.with_extension("temp");
                std::fs::write(&temp, next).unwrap();
                if let Ok(old) = std::fs::metadata(&path) {
                    std::fs::set_permissions(&temp, old.permissions()).unwrap();
                }
                std::fs::rename(&temp, &path).unwrap();
                self.publish(request.view.doc(), Some(next))
            }
        };
        let believed = match belief == next {
            true => version.clone(),
            false => {
                let state: State = Arc::new(Text(belief));
                Arc::new(Version { state, belief: true, ..(*version).clone() })
            }
        };
        let basis = self.last().basis;
        Ok(Saved { version, believed, changed, basis, overlaps: Vec::new() })
    }
}

impl Documents for FakeDocs {
    fn current(&self, doc: DocId) -> Result<Arc<Version>, StoreError> {
        if let DocId::File(file) = doc {
            let _turn = self.turn.lock();
            return Ok(self.look(file));
        }
        Ok(self.cached(doc))
    }

    fn cached(&self, doc: DocId) -> Arc<Version> {
        let last = self.versions.lock().get(&doc).and_then(|v| v.last().cloned());
        last.unwrap_or_else(|| {
            let state: State = Arc::new(Text(None));
            Arc::new(Version { doc, rev: Rev(0), mtime: Stamp(0), state, belief: false })
        })
    }

    fn save(&self, request: SaveRequest<'_>) -> Result<Saved, SaveError> {
        if let Some(e) = self.fail.lock().take() {
            return Err(e.into());
        }
        if let View::File(file) = request.view {
            return self.save_file(file, request);
        }
        let (bytes, whole) = match request.written {
            Written::Whole(b) => (b, true),
            Written::Fragment(b) => (b, false),
            Written::Removed => {
                return Err(Refusal::new(Reason::Invalid, "cannot be removed").into());
            }
        };
        let written = std::str::from_utf8(bytes)
            .map_err(|_| Refusal::new(Reason::Invalid, "not UTF-8").at_line(1))?
            .to_owned();
        if written.contains('\0') {
            return Err(Refusal::new(Reason::Invalid, "a NUL byte").at_line(1).into());
        }
        let seen = request.base.as_ref().map(|v| text_of(&v.state));
        let doc = request.view.doc();
        let before = self.cached(doc);
        let current = text_of(&before.state);
        if request.expect_sha256.is_some_and(|e| e[..] != Sha256::digest(&current)[..]) {
            return Err(Refusal::new(Reason::Expectation, "changed since it was read").into());
        }
        if request.view == View::ConfigJson && whole {
            serde_json::from_str::<serde_json::Value>(&written).map_err(|e| {
                Refusal::new(Reason::Invalid, e.to_string()).at_line(e.line()).hint("fix the JSON")
            })?;
        }
        if request.view.read_only() && written != current {
            return Err(SaveError::Refused(Refusal::new(Reason::Invalid, "read-only")));
        }
        self.saves.lock().push(Asked {
            seen: seen.clone(),
            written: written.clone(),
            whole,
            actor: request.actor,
            basis: request.basis,
            under_their_lock: request.under_their_lock,
        });
        let (next, belief) = if whole {
            let next = match doc {
                DocId::Config => merge_keys(seen.as_deref(), &written, &current),
                _ => merge_lines(seen.as_deref(), &written, &current),
            };
            (next, written)
        } else {
            let end = if written.ends_with('\n') { "" } else { "\n" };
            (
                format!("{current}{written}{end}"),
                format!("{}{written}{end}", seen.unwrap_or_default()),
            )
        };
        let changed = next != current;
        let version = if changed { self.publish(doc, Some(&next)) } else { before };
        let believed = if belief == next {
            version.clone()
        } else {
            let state: State = Arc::new(Text(Some(belief)));
            Arc::new(Version { state, belief: true, ..(*version).clone() })
        };
        let basis = self.last().basis;
        Ok(Saved { version, believed, changed, basis, overlaps: Vec::new() })
    }

    fn files_on_record(&self) -> Result<Vec<FileId>, StoreError> {
        let versions = self.versions.lock();
        let mut files: Vec<FileId> = versions.keys().filter_map(|d| d.file()).collect();
        files.sort_by_key(|f| f.path());
        Ok(files)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn at(&self, doc: DocId, rev: Rev) -> Result<Option<Arc<Version>>, StoreError> {
        let versions = self.versions.lock();
        Ok(versions.get(&doc).and_then(|all| all.iter().find(|v| v.rev == rev).cloned()))
    }

    fn made(&self, doc: DocId, rev: Rev) -> Result<Option<Stamp>, StoreError> {
        Ok(self.at(doc, rev)?.map(|v| v.mtime))
    }

    fn text_at(&self, view: View, rev: Rev) -> Result<Option<Content>, StoreError> {
        Ok(self.at(view.doc(), rev)?.and_then(|v| v.view(view)))
    }

    fn numbers(
        &self,
        doc: DocId,
        after: Rev,
        limit: usize,
    ) -> Result<Vec<(Rev, Stamp)>, StoreError> {
        let versions = self.versions.lock();
        let all = versions.get(&doc).map_or(&[][..], |all| all);
        let newer = all.iter().filter(|v| v.rev > after).take(limit);
        Ok(newer.map(|v| (v.rev, v.mtime)).collect())
    }

    fn believe(&self, view: View, text: &[u8], rev: Rev) -> Result<Arc<Version>, SaveError> {
        let near = self.cached(view.doc());
        let state: State = Arc::new(Text(Some(String::from_utf8_lossy(text).into_owned())));
        Ok(Arc::new(Version { rev, state, belief: true, ..(*near).clone() }))
    }
}

/// One process of a test.
#[derive(Debug, Clone)]
pub struct FakeProc {
    pub process: Process,
    pub alive: bool,
    pub exit: Exit,
    /// Which file (upper half), its inode number (lower half) and the descriptor.
    pub fds: Vec<(u64, Descriptor)>,
    pub holds: Vec<u64>,
}

#[derive(Default)]
pub struct FakeProcs {
    pub all: Mutex<HashMap<u32, FakeProc>>,
}

impl FakeProcs {
    pub fn with<T>(&self, pid: u32, f: impl FnOnce(&mut FakeProc) -> T) -> T {
        f(self.all.lock().get_mut(&pid).expect("a process of the test"))
    }
}

impl Processes for FakeProcs {
    /// Threads of process n are n.0 … n.9: 10 n + i.
    fn of_thread(&self, tid: u32) -> Option<Process> {
        self.all.lock().get(&(tid / 10)).map(|p| p.process.clone())
    }
    fn exiting(&self, tid: u32) -> Exit {
        self.all.lock().get(&(tid / 10)).map_or(Exit::No, |p| p.exit)
    }
    fn alive(&self, id: ProcId) -> bool {
        self.all.lock().get(&id.pid).is_some_and(|p| p.alive && p.process.id == id)
    }
    fn descriptors(&self, id: ProcId, inos: &[u64]) -> Vec<Descriptor> {
        let all = self.all.lock();
        let fds = all.get(&id.pid).map(|p| p.fds.clone()).unwrap_or_default();
        fds.into_iter()
            .filter(|(id, _)| inos.iter().any(|ino| key(*ino) == id & 0xffff_ffff))
            .map(|(_, d)| d)
            .collect()
    }
    fn family_holds_lock(&self, id: ProcId, _: u64) -> bool {
        let all = self.all.lock();
        let mut next = Some(id);
        while let Some(id) = next {
            let Some(p) = all.get(&id.pid) else { return false };
            if !p.holds.is_empty() {
                return true;
            }
            next = p.process.ancestors.first().copied();
        }
        false
    }
    fn own_pid(&self) -> u32 {
        999_999
    }
}

/// A clock that stands until it is moved.
#[derive(Default)]
pub struct FakeClock(pub AtomicI64);

impl FakeClock {
    pub fn forward(&self, millis: i64) {
        self.0.fetch_add(millis * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Stamp {
        Stamp(1_700_000_000_000_000_000 + self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// A store's tables.
#[derive(Default)]
pub struct FakeMemory {
    pub names: Mutex<Vec<KeptName>>,
    pub observed: Mutex<Vec<Stored>>,
    pub resolved: Mutex<Vec<String>>,
    /// The next observations are not kept.
    pub busy: AtomicBool,
    pub refusals: Mutex<Vec<(View, String, Option<String>)>>,
}

impl Memory for FakeMemory {
    fn names(&self) -> Result<Vec<KeptName>, StoreError> {
        Ok(self.names.lock().clone())
    }
    fn keep_name(&self, name: &KeptName) -> Result<(), StoreError> {
        let mut names = self.names.lock();
        names.retain(|n| n.view != name.view);
        names.push(name.clone());
        Ok(())
    }
    fn forget_name(&self, view: View) -> Result<(), StoreError> {
        self.names.lock().retain(|n| n.view != view);
        Ok(())
    }
    fn observations(&self) -> Result<Vec<Stored>, StoreError> {
        let mut all = self.observed.lock().clone();
        all.sort_by_key(|o| o.at);
        Ok(all.into_iter().map(|o| Stored { text: None, ..o }).collect())
    }
    fn observation(&self, doc: DocId, at: u64) -> Result<Option<Stored>, StoreError> {
        let all = self.observed.lock();
        Ok(all.iter().find(|o| o.view.doc() == doc && o.at == at).cloned())
    }
    fn keep_observations(&self, changes: &Changes) -> Result<(), StoreError> {
        if self.busy.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Busy);
        }
        let mut all = self.observed.lock();
        all.retain(|o| {
            !changes.gone.contains(&(o.view.doc(), o.at))
                && !changes.put.iter().any(|p| (p.view.doc(), p.at) == (o.view.doc(), o.at))
        });
        all.extend_from_slice(&changes.put);
        Ok(())
    }
    fn record_refusal(&self, refusal: &KeptRefusal<'_>) -> Result<(), StoreError> {
        let kept = refusal.kept_as.map(str::to_owned);
        self.refusals.lock().push((refusal.view, refusal.refusal.to_string(), kept));
        Ok(())
    }
    fn resolve_refusals(&self, kept_as: &[String]) -> Result<(), StoreError> {
        let mut resolved = self.resolved.lock();
        resolved.extend_from_slice(kept_as);
        Ok(())
    }
}
