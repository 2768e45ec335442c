//! The observations of one document and the versions that they are of.

mod came;
mod record;

use std::collections::HashMap;
use std::sync::Arc;

use super::{Kind, Used, Versions, Who};
use crate::documents::Version;
use crate::documents::entries::{self, Syntax};
use crate::merge::entries::Entry;
use crate::model::{DocId, Rev, Stamp, View};
use crate::process::ProcId;

/// Reads of one version by one process within this time of another observation of it by the same
/// process count once with it, in nanoseconds.
const ONCE: i64 = 1_000_000_000;
/// Versions that are kept with all that was made from them, for the next save to be compared with.
const READY: usize = 16;
/// Entries that are remembered as gone from earlier versions.
const REMOVED_KEPT: usize = 100_000;

/// One meeting of a process with a version.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    /// Its place among all observations.
    pub at: u64,
    when: Stamp,
    pub who: Who,
    pub kind: Kind,
    view: View,
    /// [`Known::serial`].
    pub version: u64,
    /// The revision that the version was then.
    rev: Rev,
    /// What its writer alone meant by the text, where somebody else has meant something by it before.
    meant: Option<Arc<Version>>,
    pub used: Used,
    /// The store has it as it is.
    kept: bool,
    /// The store has it, perhaps as not used up.
    on_record: bool,
}

impl Observation {
    /// That a version is there, met by nobody.
    pub fn of_nobody(version: u64, who: Who, view: View) -> Observation {
        let (when, rev, kind) = (Stamp(0), Rev(0), Kind::Saved);
        let (meant, used, kept, on_record) = (None, Used::No, true, true);
        Observation { at: 0, when, who, kind, view, version, rev, meant, used, kept, on_record }
    }

    /// Whether a save by this process may start from it.
    pub fn is_open_to(&self, who: &Who) -> bool {
        self.used == Used::No || self.used == Used::Lent && self.who.is(who.process)
    }
}

/// What came with a version: entries that no earlier one had.
#[derive(Debug, Clone)]
pub(super) enum Came {
    /// It is the first: all of it.
    All,
    /// These keys.
    Keys(Vec<u64>),
}

/// A version that has been met.
struct Known {
    serial: u64,
    /// `None`: it is in the store, with the observation `stored`.
    version: Option<Arc<Version>>,
    stored: u64,
    view: View,
    /// Its revision, unless it is a text that its writer alone has.
    rev: Option<Rev>,
    /// How new it is: the latest at which it was met.
    age: Age,
    /// Bytes shown, if it is in memory and there is such a file.
    size: Option<u64>,
    keys: Option<Arc<[Entry]>>,
    came: Option<Came>,
}

/// All observations of one document.
#[derive(Default)]
pub(super) struct Lineage {
    /// In the order in which they were first met.
    versions: Vec<Known>,
    /// By `at`.
    observations: Vec<Observation>,
    serial: u64,
    /// The newest observation by each process or a descendant of it.
    latest: HashMap<ProcId, u64>,
    /// The first version on record, once there is one and it was asked for.
    first: Option<u64>,
    /// The version up to which it is known what came with each, and its number.
    counted: Option<(Arc<Version>, u64)>,
    /// What went with any, and the last one that had it: as long as that is on record, what comes back
    /// is nothing new.
    removed: HashMap<u64, u64>,
    /// Some versions may have the same text and not be known as one yet.
    apart: bool,
    /// With more versions than these some are let go.
    room: usize,
}

/// Whether the one is to go by and not the other, which has the same text. What two writers have each
/// written alone stays as the first has meant it.
fn outdates(one: &Version, other: &Version) -> bool {
    age_of(one) > age_of(other) && !(one.belief && other.belief)
}

/// A revision; a writer's own text comes before what the save has made of it.
pub(super) type Age = (Rev, bool);

fn age_of(version: &Version) -> Age {
    (version.rev, !version.belief)
}

fn revision_of(version: &Version) -> Option<Rev> {
    (!version.belief).then_some(version.rev)
}

impl Known {
    fn new(serial: u64, version: Arc<Version>, view: View) -> Known {
        Known {
            serial,
            stored: 0,
            view,
            rev: revision_of(&version),
            age: age_of(&version),
            size: version.view(view).map(|c| c.len()),
            version: Some(version),
            keys: None,
            came: None,
        }
    }

    /// Lets go of what can be made again.
    fn shrink(&mut self) {
        self.keys = None;
        self.version = self.version.as_ref().map(Version::bare);
    }

    /// Whether it is this version, or has the same text. `size`: the other one's bytes.
    fn is(&self, version: &Arc<Version>, view: View, size: Option<u64>) -> bool {
        if self.rev.is_some() && self.rev == revision_of(version) {
            return true;
        }
        let Some(own) = self.version.as_ref() else { return false };
        if Arc::ptr_eq(own, version) {
            return true;
        }
        if self.view == view && self.size != size {
            return false;
        }
        // Under the name by which it was met: two JSON texts may be one in YAML.
        own.view(self.view) == version.view(self.view)
    }
}

impl Lineage {
    pub fn note(
        &mut self,
        at: u64,
        who: &Who,
        view: View,
        version: &Arc<Version>,
        kind: Kind,
        now: Stamp,
    ) {
        let serial = self.serial_of(view, version);
        if kind == Kind::Absent
            && let Some(last) = self.observations.iter().rev().find(|o| o.who == *who)
            && last.kind == Kind::Absent
            && last.version == serial
            && last.is_open_to(who)
        {
            // Somebody waits for a file to come.
            return;
        }
        // A tool that reads more than once before it saves, or reads back what it or a child of it has
        // saved.
        let child = |o: &Observation| who.process.is_some_and(|me| o.who.descends_from(me));
        let relative = |o: &&Observation| o.who == *who || o.kind == Kind::Saved && child(o);
        if kind == Kind::Read
            && who.process.is_some()
            && let Some(last) = self.observations.iter().rev().find(relative)
            && last.version == serial
            && last.is_open_to(who)
            && last.kind != Kind::Absent
            && !now.due(last.when, ONCE)
        {
            return;
        }
        let known = self.known(serial).and_then(|known| known.version.as_ref());
        // Only missions are somebody's besides being text.
        let own = version.belief && version.doc == DocId::Missions;
        let other = own && known.is_some_and(|known| !Arc::ptr_eq(known, version));
        let meant = other.then(|| version.clone());
        self.observations.push(Observation {
            at,
            when: now,
            who: who.clone(),
            kind,
            view,
            version: serial,
            rev: version.rev,
            meant,
            used: Used::No,
            kept: false,
            on_record: false,
        });
        for id in who.chain() {
            self.latest.insert(id, at);
        }
    }

    /// The number of a version; a text that was met before is the same version.
    fn serial_of(&mut self, view: View, version: &Arc<Version>) -> u64 {
        let size = version.view(view).map(|c| c.len());
        let found = self.versions.iter_mut().rev().find(|known| known.is(version, view, size));
        if let Some(known) = found {
            // The newer one knows more of the identities of what is in it, also if it is a text that its
            // writer alone has. One that was only on record has to be at hand when this meeting is put
            // there too.
            known.age = known.age.max(age_of(version));
            if known.version.as_ref().is_none_or(|v| outdates(version, v)) {
                (known.version, known.size) = (Some(version.clone()), size);
            }
            if !version.belief && known.rev.is_none_or(|rev| rev < version.rev) {
                known.rev = Some(version.rev);
            }
            return known.serial;
        }
        self.serial += 1;
        self.versions.push(Known::new(self.serial, version.clone(), view));
        if let Some(older) = self.versions.len().checked_sub(READY + 1) {
            self.versions[older].shrink();
        }
        self.serial
    }

    pub fn len(&self) -> usize {
        self.observations.len()
    }

    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    pub fn used(&self) -> u64 {
        self.observations.last().map_or(0, |o| o.at)
    }

    /// Bytes of the versions in memory.
    pub fn bytes(&self) -> u64 {
        self.versions.iter().filter_map(|k| k.size).sum()
    }

    fn find(&self, at: u64) -> Option<usize> {
        self.observations.binary_search_by_key(&at, |o| o.at).ok()
    }

    pub fn use_up(&mut self, at: u64, savers: &[&Who]) {
        if let Some(index) = self.find(at) {
            let o = &mut self.observations[index];
            let own = o.who.process.is_none() || savers.iter().any(|saver| o.who.in_line(saver));
            (o.used, o.kept) = (if own { Used::Up } else { Used::Lent }, false);
        }
    }

    pub fn any_met(&self, which: impl Fn(&Observation) -> bool) -> bool {
        self.observations.iter().any(which)
    }

    /// Whether anybody of the user has met the version.
    pub fn has_met(&self, uid: u32, version: &Arc<Version>, view: View) -> bool {
        let size = version.view(view).map(|c| c.len());
        let known = self.versions.iter().find(|known| known.is(version, view, size));
        known.is_some_and(|k| self.any_met(|o| o.version == k.serial && o.who.uid == uid))
    }

    /// The number of the newest observation that is one of these.
    pub fn newest_where(&self, which: impl Fn(&Observation) -> bool) -> Option<u64> {
        self.observations.iter().rev().find(|o| which(o)).map(|o| o.at)
    }

    /// What the process or its descendants have met last, else what those below its first ancestor have
    /// that has met any: the number of the observation.
    pub fn last_met(&self, who: &Who) -> Option<u64> {
        let newest = |id: ProcId| -> Option<u64> {
            let at = self.latest.get(&id)?;
            match self.find(*at) {
                Some(_) => Some(*at),
                None => self.newest_where(|o| o.who.descends_from(id)),
            }
        };
        who.chain().find_map(newest)
    }

    /// The observation of a version that a save by `who` starts from: the nearest kin's, and of
    /// equally near ones the newest.
    pub fn nearest_of(
        &self,
        who: &Who,
        version: &Arc<Version>,
        view: View,
        until: u64,
    ) -> Option<u64> {
        let size = version.view(view).map(|c| c.len());
        let found = self.versions.iter().rev().find(|known| known.is(version, view, size));
        self.nearest(who, found?.serial, |o| o.at <= until)
    }

    pub fn own_of(&self, who: &Who, version: &Arc<Version>, view: View) -> Option<u64> {
        let size = version.view(view).map(|c| c.len());
        let found = self.versions.iter().rev().find(|known| known.is(version, view, size))?;
        let own = |o: &&Observation| {
            o.version == found.serial && o.is_open_to(who) && o.who.is(who.process)
        };
        self.observations.iter().rev().find(own).map(|o| o.at)
    }

    pub fn nearest(
        &self,
        who: &Who,
        serial: u64,
        which: impl Fn(&Observation) -> bool,
    ) -> Option<u64> {
        let far = |o: &Observation| who.chain().position(|id| o.who.descends_from(id));
        let open = |o: &&Observation| o.version == serial && o.is_open_to(who) && which(o);
        let nearest = self
            .observations
            .iter()
            .filter(open)
            .max_by_key(|o| (std::cmp::Reverse(far(o).unwrap_or(usize::MAX)), o.at));
        nearest.map(|o| o.at)
    }

    // --- versions

    /// The version of an observation.
    pub fn meant(&mut self, at: u64, versions: &dyn Versions) -> Option<Arc<Version>> {
        let o = self.observations[self.find(at)?].clone();
        let version = match o.meant {
            None => self.version(o.version, versions)?,
            meant => return meant,
        };
        // Of the same texts on record one has been read.
        let other = version.belief && version.rev != o.rev;
        let of_its_own = if other { versions.stored(version.doc, at) } else { None };
        Some(of_its_own.unwrap_or(version))
    }

    fn known(&mut self, serial: u64) -> Option<&mut Known> {
        let at = self.versions.iter().position(|k| k.serial == serial)?;
        Some(&mut self.versions[at])
    }

    /// A version, from the store if it is only there.
    pub fn version(&mut self, serial: u64, versions: &dyn Versions) -> Option<Arc<Version>> {
        let known = self.known(serial)?;
        if known.version.is_none() {
            known.version = versions.stored(known.view.doc(), known.stored);
            known.size = known.version.as_ref().and_then(|v| v.view(known.view)).map(|c| c.len());
        }
        known.version.clone()
    }

    /// Of versions on record only the revisions are known at first: those with the same text are one,
    /// as if they had been met one after the other.
    pub fn unite(&mut self, versions: &dyn Versions) {
        if !std::mem::take(&mut self.apart) {
            return;
        }
        let serials: Vec<u64> = self.versions.iter().map(|k| k.serial).collect();
        for serial in serials {
            self.version(serial, versions);
        }
        let mut one: Vec<Known> = Vec::new();
        let mut same: HashMap<u64, u64> = HashMap::new();
        for mut known in std::mem::take(&mut self.versions) {
            let equal = |other: &&mut Known| match (&other.version, &known.version) {
                (Some(a), Some(b)) => {
                    other.view == known.view
                        && other.size == known.size
                        && a.view(known.view) == b.view(known.view)
                }
                _ => false,
            };
            match one.iter_mut().find(equal) {
                Some(first) => {
                    same.insert(known.serial, first.serial);
                    if let (Some(a), Some(b)) = (&first.version, &known.version)
                        && outdates(b, a)
                    {
                        first.version = known.version.take();
                    }
                    first.rev = first.rev.max(known.rev);
                    first.age = first.age.max(known.age);
                }
                None => one.push(known),
            }
        }
        self.versions = one;
        for o in &mut self.observations {
            o.version = same.get(&o.version).copied().unwrap_or(o.version);
        }
    }

    pub fn age(&self, serial: u64) -> Option<Age> {
        self.versions.iter().find(|known| known.serial == serial).map(|known| known.age)
    }

    /// The entries of a keyed version.
    pub fn keys(
        &mut self,
        serial: u64,
        view: View,
        syntax: Syntax,
        versions: &dyn Versions,
    ) -> Option<Arc<[Entry]>> {
        let Syntax::Keys(form) = syntax else { return None };
        if let Some(keys) = self.known(serial)?.keys.clone() {
            return Some(keys);
        }
        let version = self.version(serial, versions)?;
        let keys = entries::keys_of(&version, view, form)?;
        if let Some(known) = self.known(serial) {
            known.keys = Some(keys.clone());
        }
        Some(keys)
    }
}
