//! The bounds of what is kept of a document, and what of it is in the store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Known, Lineage, Observation, READY};
use crate::documents::Version;
use crate::fs::observed::{Stored, Used, Versions, Who};
use crate::model::DocId;
use crate::process::ProcId;

/// Versions that are kept at most between two calls of [`Lineage::thin`].
const VERSIONS_MOST: usize = 1024;
/// Observations that are kept at most between two calls of [`Lineage::thin`].
const OBSERVATIONS_MOST: usize = 8192;
/// Versions that are kept, besides those that a living process may still save from.
const VERSIONS_KEPT: usize = 64;
/// Bytes of versions above which only [`READY`] of them are kept besides those.
const BYTES_MOST: u64 = 16 << 20;
/// Observations that one process has used up: no rule asks for more.
const USED_KEPT: usize = 16;
/// Observations of one version by dead processes with the same ancestors: each carries one save.
const SIBLINGS_KEPT: usize = 16;
/// Observations of one process that go to the store at once: of one that saves all the time only
/// the latest matter.
const STORED_AT_ONCE: usize = 4;

impl Lineage {
    /// Between two calls of [`Lineage::thin`]: what one process has used up long ago goes, and if that
    /// is not enough, the older half.
    pub fn make_room(&mut self) -> Vec<u64> {
        if self.versions.len() <= self.room && self.observations.len() <= OBSERVATIONS_MOST {
            return Vec::new();
        }
        let mut used: HashMap<ProcId, usize> = HashMap::new();
        let mut over = HashSet::new();
        for o in self.observations.iter().rev().filter(|o| o.used == Used::Up) {
            if let Some(id) = o.who.process {
                let count = used.entry(id).or_default();
                *count += 1;
                if *count > USED_KEPT {
                    over.insert(o.at);
                }
            }
        }
        let mut gone = self.drop_where(|o| over.contains(&o.at));
        if self.versions.len() > VERSIONS_MOST || self.observations.len() > OBSERVATIONS_MOST {
            let cut = self.observations.get(self.observations.len() / 2).map_or(0, |o| o.at);
            gone.extend(self.drop_where(|o| o.at < cut));
        }
        self.room = self.versions.len() + VERSIONS_KEPT;
        gone
    }

    /// Lets go of versions that nobody can start from any more and of observations that say no more
    /// than others do.
    pub fn thin(&mut self, alive: &mut impl FnMut(ProcId) -> bool) -> Vec<u64> {
        let ready = self.versions.len().saturating_sub(READY);
        self.versions[..ready].iter_mut().for_each(Known::shrink);
        self.versions[ready..].iter_mut().for_each(|known| known.keys = None);
        let mut gone = self.thin_siblings(alive);
        let most = if self.bytes() > BYTES_MOST { READY } else { VERSIONS_KEPT };
        if self.versions.len() <= most {
            return gone;
        }
        let mut newest_of: HashMap<ProcId, u64> = HashMap::new();
        for o in &self.observations {
            if let Some(id) = o.who.process {
                newest_of.insert(id, o.version);
            }
        }
        let mut wanted: HashSet<u64> =
            newest_of.into_iter().filter(|(id, _)| alive(*id)).map(|(_, v)| v).collect();
        let mut last_met: HashMap<u64, u64> = HashMap::new();
        for o in &self.observations {
            last_met.insert(o.version, o.at);
        }
        let mut by_time: Vec<_> = last_met.into_iter().map(|(v, at)| (at, v)).collect();
        by_time.sort_unstable_by(|a, b| b.cmp(a));
        wanted.extend(by_time.iter().take(VERSIONS_KEPT).map(|(_, v)| *v));
        gone.extend(self.drop_where(|o| !wanted.contains(&o.version)));
        gone
    }

    fn thin_siblings(&mut self, alive: &mut impl FnMut(ProcId) -> bool) -> Vec<u64> {
        if self.observations.len() <= VERSIONS_KEPT {
            return Vec::new();
        }
        type Family = (u64, u32, Option<ProcId>, Arc<[ProcId]>);
        let mut count: HashMap<Family, usize> = HashMap::new();
        let mut over = HashSet::new();
        for o in self.observations.iter().rev() {
            // Of a process that lives only its own observations stand for each other.
            let own = o.who.process.filter(|id| alive(*id));
            let family = (o.version, o.who.uid, own, o.who.ancestors.clone());
            let seen = count.entry(family).or_default();
            *seen += 1;
            if *seen > SIBLINGS_KEPT {
                over.insert(o.at);
            }
        }
        if over.is_empty() {
            return Vec::new();
        }
        self.drop_where(|o| over.contains(&o.at))
    }

    /// Drops observations, and the versions that nobody has met then.
    fn drop_where(&mut self, which: impl Fn(&Observation) -> bool) -> Vec<u64> {
        let mut gone = Vec::new();
        self.observations.retain(|o| {
            let drop = which(o);
            if drop {
                gone.push(o.at);
            }
            !drop
        });
        let met: HashSet<u64> = self.observations.iter().map(|o| o.version).collect();
        let first = self.first;
        self.versions.retain(|k| met.contains(&k.serial) || Some(k.serial) == first);
        // One that is only on record is found there by an observation that is left.
        for known in self.versions.iter_mut().filter(|k| k.version.is_none()) {
            let left = self.observations.iter().find(|o| o.version == known.serial);
            known.stored = left.map_or(known.stored, |o| o.at);
        }
        self.latest.clear();
        for o in &self.observations {
            self.latest.extend(o.who.chain().map(|id| (id, o.at)));
        }
        gone
    }

    // --- the store

    /// All that may be in the store.
    pub fn stored(&self) -> impl Iterator<Item = u64> {
        self.observations.iter().map(|o| o.at)
    }

    pub fn recall(&mut self, stored: Stored) {
        let Stored { at, when, who, kind, view, used, rev, has_text, .. } = stored;
        let (met, age) = (rev, (rev, !has_text));
        let rev = (!has_text).then_some(rev);
        let known = self.versions.iter().find(|k| rev.is_some() && k.rev == rev);
        let version = known.map(|k| k.serial).unwrap_or_else(|| {
            self.serial += 1;
            let (serial, version, size) = (self.serial, None, None);
            let (keys, came) = (None, None);
            self.versions.push(Known {
                serial,
                version,
                stored: at,
                view,
                rev,
                age,
                size,
                keys,
                came,
            });
            self.apart = true;
            serial
        });
        for id in who.chain() {
            self.latest.insert(id, at);
        }
        self.observations.push(Observation {
            at,
            when,
            who,
            kind,
            view,
            version,
            rev: met,
            meant: None,
            used,
            kept: true,
            on_record: true,
        });
    }

    pub fn take_changes(&mut self, changes: &mut Vec<Stored>) {
        let mut count: HashMap<Who, usize> = HashMap::new();
        for index in (0..self.observations.len()).rev() {
            if self.observations[index].kept {
                continue;
            }
            self.observations[index].kept = true;
            let o = self.observations[index].clone();
            let of = count.entry(o.who.clone()).or_default();
            *of += usize::from(!o.on_record);
            if *of > STORED_AT_ONCE && !o.on_record {
                continue;
            }
            let version = self.known(o.version).and_then(|k| k.version.clone());
            let (rev, text) = match version {
                // What a text of a writer's own has come to be met as since is not what this one meant.
                Some(v) if v.belief => (o.rev, v.view(o.view).map(|c| c.to_vec())),
                Some(v) => (v.rev, None),
                // Only that it was used up is new.
                None if o.on_record => (o.rev, None),
                None => continue,
            };
            self.observations[index].on_record = true;
            changes.push(Stored {
                at: o.at,
                when: o.when,
                who: o.who,
                kind: o.kind,
                view: o.view,
                used: o.used,
                rev,
                has_text: text.is_some(),
                text,
            });
        }
    }

    pub fn not_kept(&mut self, at: u64) {
        if let Some(index) = self.find(at) {
            (self.observations[index].kept, self.observations[index].on_record) = (false, false);
        }
    }

    /// The same observations of another document.
    pub fn moved(
        &mut self,
        to: DocId,
        versions: &dyn Versions,
        as_new: impl Fn(&Arc<Version>) -> Option<Arc<Version>>,
    ) -> Lineage {
        let mut new = Lineage::default();
        let Some(view) = to.views().next() else { return new };
        for o in std::mem::take(&mut self.observations) {
            let version = self.version(o.version, versions);
            if let Some(version) = version.as_ref().and_then(&as_new) {
                new.note(o.at, &o.who, view, &version, o.kind, o.when);
                if let Some(last) = new.observations.last_mut().filter(|last| last.at == o.at) {
                    last.used = o.used;
                }
            }
        }
        new
    }
}
