//! The rule by which a merge base is chosen (SEMANTICS, section 4): which observations to ask, and
//! which of their versions the written text started from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::lineage::{Age, Came, Lineage, Observation};
use super::{Kind, Used, Versions, Who};
use crate::documents::Version;
use crate::documents::entries::{self, Written};
use crate::merge::entries::Comparison;
use crate::model::{Basis, Candidate, Rule, View};

/// Versions that are candidates at most, the newest ones.
const CANDIDATES: usize = 16;

/// The merge base of a save.
#[derive(Debug, Clone)]
pub struct Choice {
    /// `None`: the save is blind.
    pub version: Option<Arc<Version>>,
    /// How it was found.
    pub basis: Basis,
    /// The observation that the save starts from.
    pub observation: Option<u64>,
}

impl Choice {
    /// A version that needs no search; `None`: blind.
    pub fn of(version: Option<Arc<Version>>, rule: Rule) -> Choice {
        let rule = if version.is_some() { rule } else { Rule::Blind };
        Choice { version, basis: Basis::by(rule), observation: None }
    }
}

/// The name was unlinked a moment ago, by the writer or its kin.
#[derive(Debug, Clone)]
pub struct Unlink {
    /// What was there.
    pub version: Arc<Version>,
    /// The writing process itself has unlinked it.
    pub by_itself: bool,
}

/// A save that is looking for its merge base.
pub struct Question<'q> {
    /// Who has written.
    pub who: &'q Who,
    /// The name.
    pub view: View,
    /// The text.
    pub written: &'q Written<'q>,
    /// Only what had been observed by then counts: [`super::Observed::generation`] when a renamed
    /// file was written.
    pub until: u64,
    /// The name was unlinked.
    pub unlinked: Option<Unlink>,
    /// Whether the writer has put this version into another file as it was: a backup.
    pub backed_up: &'q dyn Fn(&Version) -> bool,
    /// Only rules that ask the writer and its kin.
    pub kin_only: bool,
}

struct Search<'s> {
    lineage: &'s mut Lineage,
    question: &'s Question<'s>,
    versions: &'s dyn Versions,
    compared: HashMap<u64, Option<Comparison>>,
    /// A version that the writer has read for a backup only.
    backup: Option<u64>,
}

/// The newest observations that are of [`CANDIDATES`] versions, oldest first.
fn newest(found: impl DoubleEndedIterator<Item = Observation>) -> Vec<Observation> {
    let mut serials: Vec<u64> = Vec::new();
    let mut out: Vec<Observation> = Vec::new();
    for o in found.rev() {
        if serials.contains(&o.version) {
            out.push(o);
        } else if serials.len() < CANDIDATES {
            serials.push(o.version);
            out.push(o);
        }
    }
    out.reverse();
    // That there was no file counts as long as nothing else was met since.
    let last = out.last().map(|o| o.at);
    out.retain(|o| o.kind != Kind::Absent || Some(o.at) == last);
    out
}

fn distinct(observations: &[Observation]) -> Vec<u64> {
    let mut serials: Vec<u64> = Vec::new();
    for o in observations.iter().rev() {
        if !serials.contains(&o.version) {
            serials.push(o.version);
        }
    }
    serials
}

/// Chooses the merge base.
pub(super) fn choose(
    lineage: &mut Lineage,
    question: &Question<'_>,
    versions: &dyn Versions,
) -> Choice {
    lineage.unite(versions);
    let mut search = Search { lineage, question, versions, compared: HashMap::new(), backup: None };
    search.choose()
}

impl Search<'_> {
    fn live(&self, which: impl Fn(&Observation) -> bool) -> Vec<Observation> {
        // Whoever has removed the name knows that it is not there.
        let absent = |o: &Observation| o.kind == Kind::Absent && self.question.unlinked.is_some();
        let open = |o: &&Observation| {
            let live = o.is_open_to(self.question.who) && o.at <= self.question.until;
            live && !absent(o) && !self.is_backup(o) && which(o)
        };
        newest(self.lineage.observations().iter().filter(open).cloned())
    }

    fn is_backup(&self, o: &Observation) -> bool {
        Some(o.version) == self.backup
            && o.kind == Kind::Read
            && o.who.is(self.question.who.process)
    }

    fn comparison(&mut self, serial: u64) -> Option<&Comparison> {
        if !self.compared.contains_key(&serial) {
            let found = self.compare(serial);
            self.compared.insert(serial, found);
        }
        self.compared.get(&serial)?.as_ref()
    }

    fn compare(&mut self, serial: u64) -> Option<Comparison> {
        let (view, written) = (self.question.view, self.question.written);
        let keys = self.lineage.keys(serial, view, written.syntax(), self.versions);
        let version = self.lineage.version(serial, self.versions)?;
        Some(written.compared(&version, view, keys.as_deref()))
    }

    fn is_empty(&mut self, o: &Observation) -> bool {
        self.comparison(o.version).is_some_and(|c| c.of_version == 0)
    }

    fn with_evidence(
        &mut self,
        found: Vec<Observation>,
        enough: impl Fn(&Comparison) -> bool,
    ) -> Vec<Observation> {
        let mut out = Vec::new();
        for o in found {
            if self.comparison(o.version).is_some_and(&enough) {
                out.push(o);
            }
        }
        out
    }

    fn equals(&mut self, serial: u64) -> bool {
        let (view, bytes) = (self.question.view, self.question.written.bytes());
        let version = self.lineage.version(serial, self.versions);
        version.and_then(|v| v.view(view)).is_some_and(|c| c.equals(bytes))
    }

    /// The version that the writer has read to put it into a backup, if it has met others.
    fn backup(&mut self) -> Option<u64> {
        let me = self.question.who.process?;
        let found = self.live(|o| o.who.is(Some(me)));
        if distinct(&found).len() < 2 {
            return None;
        }
        let read = found.iter().rfind(|o| o.kind == Kind::Read)?.version;
        let version = self.lineage.version(read, self.versions)?;
        (self.question.backed_up)(&version).then_some(read)
    }

    fn choose(&mut self) -> Choice {
        self.backup = self.backup();
        let (own, kin) = (self.own(), self.kin());
        let mut candidates: Vec<Observation> = own;
        for o in kin {
            if candidates.iter().all(|c| c.at != o.at) {
                candidates.push(o);
            }
        }
        candidates.sort_unstable_by_key(|o| o.at);
        // What follows the emptying of a text is new.
        let saved = candidates.iter().rfind(|o| o.kind == Kind::Saved).cloned();
        let emptied = saved.filter(|o| self.is_empty(o)).map_or(0, |o| o.at);
        candidates.retain(|o| o.at >= emptied);
        // What else the kin have met and what has no entry says nothing of what the text started from;
        // but nothing can be removed from it either.
        let me = self.question.who.process;
        let says_nothing = |o: &&Observation| !o.who.is(me) && o.at != emptied && self.is_empty(o);
        let empty: Vec<Observation> = candidates.iter().filter(says_nothing).cloned().collect();
        let telling = candidates.len() > empty.len();
        if let Some(unlink) = self.question.unlinked.clone()
            && (!telling || unlink.by_itself && self.is_written_back())
        {
            return self.replacement(unlink);
        }
        if telling {
            return self.pick(&candidates, None);
        }
        if !self.question.kin_only {
            let far = self.strangers();
            let written_back = distinct(&far).into_iter().any(|serial| self.equals(serial));
            if !far.is_empty() && !written_back {
                return self.pick(&far, Some(Rule::Stranger));
            }
        }
        match empty.is_empty() {
            true => Choice::of(None, Rule::Blind),
            false => self.pick(&empty, None),
        }
    }

    /// What the writer has met without evidence, and what its descendants have met since it has saved
    /// last, with evidence.
    fn own(&mut self) -> Vec<Observation> {
        let Some(me) = self.question.who.process else { return Vec::new() };
        let saved = |o: &&Observation| o.kind == Kind::Saved && o.who.is(Some(me));
        let saved = self.lineage.observations().iter().rev().find(saved).map_or(0, |o| o.at);
        let found = self.live(|o| o.who.is(Some(me)) || o.at > saved && o.who.descends_from(me));
        let mut out = Vec::new();
        for o in found {
            let itself = o.who.is(Some(me));
            if itself || self.comparison(o.version).is_some_and(Comparison::keeps_any) {
                out.push(o);
            }
        }
        out
    }

    /// What those below the first ancestor have met that has any observation.
    fn kin(&mut self) -> Vec<Observation> {
        let (who, until) = (self.question.who, self.question.until);
        let saved =
            |o: &Observation| o.kind == Kind::Saved && o.at <= until && o.who.is(who.process);
        if self.lineage.any_met(saved) {
            return Vec::new();
        }
        for ancestor in who.ancestors.iter() {
            let group = self.live(|o| o.who.descends_from(*ancestor));
            if !group.is_empty() {
                return self.with_evidence(group, Comparison::is_kin);
            }
        }
        Vec::new()
    }

    /// What anybody of the user has met, and the first version.
    fn strangers(&mut self) -> Vec<Observation> {
        let (view, uid) = (self.question.view, self.question.who.uid);
        let mut found = self.live(|o| o.who.uid == uid && o.kind != Kind::Absent);
        if let Some(first) = self.lineage.with_first(view, self.versions)
            && !found.iter().any(|o| o.version == first)
        {
            let nobody = Who { process: None, ancestors: Arc::from([]), uid };
            found.insert(0, Observation::of_nobody(first, nobody, view));
        }
        self.with_evidence(found, Comparison::is_of_a_stranger)
    }

    /// Whether the text is an old version byte for byte and the writing process has met none: a tool
    /// puts back what was there (`git checkout`). An editor has met one.
    fn is_written_back(&mut self) -> bool {
        let who = self.question.who;
        let met = |o: &Observation| o.who.is(who.process) && o.kind != Kind::Absent;
        if self.lineage.any_met(met) {
            return false;
        }
        let all: Vec<u64> = distinct(self.lineage.observations());
        all.into_iter().take(CANDIDATES * 4).any(|serial| self.equals(serial))
    }

    /// To remove and to make anew is to replace: what anybody of the user has met goes. Whoever has met
    /// less than half of what was there, such as one who has only appended, does not count.
    fn replacement(&mut self, unlink: Unlink) -> Choice {
        let (uid, view) = (self.question.who.uid, self.question.view);
        let met = |o: &Observation| o.who.uid == uid && o.kind != Kind::Absent;
        let mut base = unlink.version.clone();
        if let Some(text) = unlink.version.view(view)
            && !self.all_met(&unlink.version)
        {
            let bytes = text.to_vec();
            let there = Written::new(&bytes, self.question.written.syntax());
            let met: Vec<Observation> =
                self.lineage.observations().iter().filter(|o| met(o)).cloned().collect();
            for serial in distinct(&met).into_iter().take(CANDIDATES) {
                let keys = self.lineage.keys(serial, view, there.syntax(), self.versions);
                let Some(version) = self.lineage.version(serial, self.versions) else { continue };
                let found = there.compared(&version, view, keys.as_deref());
                if found.kept * 2 >= found.of_text {
                    base = version;
                    break;
                }
            }
        }
        Choice::of(Some(base), Rule::Unlinked)
    }

    /// Whether there is nothing in the version that nobody of the user has met: as a whole, or each
    /// entry somewhere, the first version included.
    fn all_met(&mut self, version: &Arc<Version>) -> bool {
        let (view, uid) = (self.question.view, self.question.who.uid);
        if self.lineage.has_met(uid, version, view) {
            return true;
        }
        let met = |o: &&Observation| o.who.uid == uid && o.kind != Kind::Absent;
        let met: Vec<Observation> =
            self.lineage.observations().iter().filter(met).cloned().collect();
        let mut serials = distinct(&met);
        serials.truncate(CANDIDATES);
        serials.extend(self.lineage.with_first(view, self.versions));
        let syntax = self.question.written.syntax();
        let mut new: Option<HashSet<u64>> = None;
        for serial in serials {
            let Some(earlier) = self.lineage.version(serial, self.versions) else { continue };
            let added = entries::between(&earlier, version, view, syntax).added;
            let added: HashSet<u64> = added.into_iter().map(|e| e.key).collect();
            new = Some(match new {
                Some(new) => new.intersection(&added).copied().collect(),
                None => added,
            });
        }
        new.is_some_and(|new| new.is_empty())
    }

    /// Which of the candidates, oldest first, the text started from.
    fn pick(&mut self, candidates: &[Observation], rule: Option<Rule>) -> Choice {
        let all = distinct(candidates);
        let mut left = all.clone();
        if left.len() > 1 {
            let out = self.outdated(&left, candidates);
            left.retain(|serial| !out.contains(serial));
        }
        let chosen = match left[..] {
            [only] => only,
            _ => {
                let equal = left.iter().copied().find(|serial| self.equals(*serial));
                self.nearest(candidates, left, equal)
            }
        };
        let undo = !self.equals(chosen) && all.iter().any(|serial| self.equals(*serial));
        let who = self.question.who;
        let observation = self.lineage.nearest(who, chosen, self.question.until);
        let version = match observation {
            Some(at) => self.lineage.meant(at, self.versions),
            None => self.lineage.version(chosen, self.versions),
        };
        let own = |at: u64| {
            let found = candidates.iter().find(|o| o.at == at);
            found.is_some_and(|o| who.process.is_some_and(|me| o.who.descends_from(me)))
        };
        let kinship = if observation.is_some_and(own) { Rule::Own } else { Rule::Kin };
        let listed = if all.len() > 1 { all } else { Vec::new() };
        let candidates = listed.into_iter().filter_map(|serial| self.listed(serial)).collect();
        Choice {
            version,
            basis: Basis { rule: rule.unwrap_or(kinship), undo, others: 0, candidates },
            observation,
        }
    }

    fn listed(&mut self, serial: u64) -> Option<Candidate> {
        let version = self.lineage.version(serial, self.versions)?;
        // What was not compared did not count.
        let found = self.compared.get(&serial)?.as_ref()?;
        let (distance, kept) = (found.distance, found.kept);
        Some(Candidate::new(version.rev, version.belief, distance, kept))
    }

    /// The candidates that are out, because the text has at least half of what came with a later one, or
    /// with a later one that the writer or its kin have used up: it knows that one. Later is what is
    /// newer and was met later: of writers at the same time some still read what others have read past.
    fn outdated(&mut self, newest_first: &[u64], candidates: &[Observation]) -> Vec<u64> {
        let last_met = |serial: u64| candidates.iter().rfind(|o| o.version == serial);
        let mut all: Vec<(u64, u64)> =
            newest_first.iter().rev().filter_map(|s| Some((*s, last_met(*s)?.at))).collect();
        let oldest = all.first().map_or(0, |(_, met)| *met);
        let (who, until) = (self.question.who, self.question.until);
        let kin = |o: &&Observation| who.chain().any(|id| o.who.descends_from(id));
        let used_up =
            |o: &&Observation| o.used != Used::No && (oldest..=until).contains(&o.at) && kin(o);
        let count = all.len();
        for o in self.lineage.observations().iter().rev().filter(used_up) {
            let known = all.iter().any(|(serial, _)| *serial == o.version);
            if !known && all.len() < count + CANDIDATES {
                all.push((o.version, o.at));
            }
        }
        let (view, syntax) = (self.question.view, self.question.written.syntax());
        self.lineage.with_first(view, self.versions);
        let came = self.lineage.came(view, syntax, self.versions);
        let mut known: Vec<(u64, Age)> = Vec::new();
        for (serial, met) in &all {
            let Some((_, came)) = came.iter().find(|(s, _)| s == serial) else { continue };
            let Some(found) = self.comparison(*serial) else { continue };
            let (has, of) = match came {
                Came::All => {
                    let gone = found.missing.iter().filter(|e| !e.extended).count();
                    (found.of_version - gone, found.of_version)
                }
                Came::Keys(keys) => (keys.iter().filter(|e| has(found, **e)).count(), keys.len()),
            };
            if has > 0 && has * 2 >= of {
                known.extend(self.lineage.age(*serial).map(|age| (*met, age)));
            }
        }
        let mut out = Vec::new();
        for (serial, met) in &all[..count] {
            let Some(age) = self.lineage.age(*serial) else { continue };
            if newest_first[0] != *serial && known.iter().any(|k| *met < k.0 && age < k.1) {
                out.push(*serial);
            }
        }
        out
    }

    /// The nearest candidate; of equally near ones the one from which fewest entries would be removed,
    /// of those one that the writing process itself has met, and of those the one met last. `equal`:
    /// the text is this one.
    fn nearest(
        &mut self,
        candidates: &[Observation],
        mut left: Vec<u64>,
        equal: Option<u64>,
    ) -> u64 {
        if let Some(equal) = equal {
            let met = candidates.iter().rfind(|o| o.version == equal);
            let me = self.question.who.process;
            let gone = candidates.last().is_some_and(|o| o.kind == Kind::Absent);
            let again = !gone && met.is_some_and(|o| o.kind == Kind::Saved && o.who.is(me));
            let met = met.map_or(0, |o| o.at);
            let saves = candidates.iter().filter(|o| o.kind == Kind::Saved && o.at > met);
            let Some(last) = saves.map(|o| o.at).max() else {
                // A process that saves its text once more has changed nothing in it.
                return if again { equal } else { left[0] };
            };
            // Written back: what came since the last save of its own is what it undoes.
            left =
                distinct(&candidates.iter().filter(|o| o.at >= last).cloned().collect::<Vec<_>>());
        } else {
            let newest = left[0];
            let mut nothing = true;
            for serial in &left {
                nothing &= self.comparison(*serial).is_none_or(|c| c.kept == 0);
            }
            if nothing {
                return newest;
            }
        }
        let me = self.question.who.process;
        let mut best: Option<((usize, usize, bool), u64)> = None;
        for serial in left.iter().copied() {
            let kin = !candidates.iter().any(|o| o.version == serial && o.who.is(me));
            let Some(found) = self.comparison(serial) else { continue };
            let found = (found.distance, found.missing.len(), kin);
            if best.is_none_or(|(best, _)| found < best) {
                best = Some((found, serial));
            }
        }
        best.map_or(left[0], |(_, serial)| serial)
    }
}

/// Whether the text has an entry that came with a version: as it is, or with more at its end.
fn has(found: &Comparison, key: u64) -> bool {
    // Of several equal ones all.
    found.missing.iter().filter(|e| e.key == key).all(|e| e.extended)
}
