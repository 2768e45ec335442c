//! The rule by which a merge base is chosen (SEMANTICS, section 4): which observations to ask, and
//! which of their versions the written text started from.

mod unlink;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::lineage::{Age, Came, Lineage, Observation};
use super::{Kind, Used, Versions, Who};
use crate::documents::Version;
use crate::documents::entries::Written;
use crate::merge::entries::Comparison;
use crate::model::{self, Basis, Rule, View};

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

/// How much of a version a text must have to have started from it.
#[derive(Debug, Clone, Copy)]
enum Evidence {
    /// Nothing: the writer itself has met it.
    None,
    /// [`Comparison::keeps_any`].
    Any,
    /// [`Comparison::is_kin`].
    OfKin,
    /// [`Comparison::is_of_a_stranger`].
    OfAStranger,
}

/// What the text may have started from, if there is the evidence.
#[derive(Debug, Clone)]
struct Candidate {
    met: Observation,
    evidence: Evidence,
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

/// The versions, the one met last first.
fn distinct<'o>(observations: impl DoubleEndedIterator<Item = &'o Observation>) -> Vec<u64> {
    let mut serials: Vec<u64> = Vec::new();
    for o in observations.rev() {
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
        let version = self.lineage.version(o.version, self.versions);
        version.is_some_and(|v| self.question.written.has_no_entry_in(&v, self.question.view))
    }

    fn passes(&mut self, candidate: &Candidate) -> bool {
        let enough = match candidate.evidence {
            Evidence::None => return true,
            Evidence::Any => Comparison::keeps_any,
            Evidence::OfKin => Comparison::is_kin,
            Evidence::OfAStranger => Comparison::is_of_a_stranger,
        };
        self.comparison(candidate.met.version).is_some_and(enough)
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
        if distinct(found.iter()).len() < 2 {
            return None;
        }
        let read = found.iter().rfind(|o| o.kind == Kind::Read)?.version;
        let version = self.lineage.version(read, self.versions)?;
        (self.question.backed_up)(&version).then_some(read)
    }

    fn choose(&mut self) -> Choice {
        self.backup = self.backup();
        let mut candidates = self.own();
        for candidate in self.kin() {
            if candidates.iter().all(|c| c.met.at != candidate.met.at) {
                candidates.push(candidate);
            }
        }
        candidates.sort_unstable_by_key(|c| c.met.at);
        // What follows the emptying of a text is new.
        let emptied = self.emptied(&candidates);
        candidates.retain(|c| c.met.at >= emptied);
        // What else the kin have met and what has no entry says nothing of what the text started from;
        // but nothing can be removed from it either.
        let me = self.question.who.process;
        let says_nothing =
            |c: &Candidate| !c.met.who.is(me) && c.met.at != emptied && self.is_empty(&c.met);
        let (empty, others): (Vec<Candidate>, Vec<Candidate>) =
            candidates.iter().cloned().partition(says_nothing);
        let telling = others.iter().rev().any(|c| self.passes(c));
        if let Some(unlink) = self.question.unlinked.clone()
            && (!telling || unlink.by_itself && self.is_written_back())
        {
            return self.replacement(unlink);
        }
        if telling && let Some(choice) = self.pick(&candidates, None) {
            return choice;
        }
        if !self.question.kin_only {
            let far = self.strangers();
            let written_back = far.iter().any(|c| self.equals(c.met.version));
            if !written_back && let Some(choice) = self.pick(&far, Some(Rule::Stranger)) {
                return choice;
            }
        }
        self.pick(&empty, None).unwrap_or_else(|| Choice::of(None, Rule::Blind))
    }

    /// The number of the last save among the candidates, if it has emptied the text.
    fn emptied(&mut self, candidates: &[Candidate]) -> u64 {
        let saves = || candidates.iter().rev().filter(|c| c.met.kind == Kind::Saved);
        if !saves().any(|c| self.is_empty(&c.met)) {
            return 0;
        }
        let last = saves().find(|c| self.passes(c)).filter(|c| self.is_empty(&c.met));
        last.map_or(0, |c| c.met.at)
    }

    /// What the writer has met without evidence, and what its descendants have met since it has saved
    /// last, with evidence.
    fn own(&mut self) -> Vec<Candidate> {
        let Some(me) = self.question.who.process else { return Vec::new() };
        let saved = |o: &&Observation| o.kind == Kind::Saved && o.who.is(Some(me));
        let saved = self.lineage.observations().iter().rev().find(saved).map_or(0, |o| o.at);
        let found = self.live(|o| o.who.is(Some(me)) || o.at > saved && o.who.descends_from(me));
        let by = |met: Observation| {
            let itself = met.who.is(Some(me));
            Candidate { evidence: if itself { Evidence::None } else { Evidence::Any }, met }
        };
        found.into_iter().map(by).collect()
    }

    /// What those below the first ancestor have met that has any observation.
    fn kin(&mut self) -> Vec<Candidate> {
        let (who, until) = (self.question.who, self.question.until);
        let saved =
            |o: &Observation| o.kind == Kind::Saved && o.at <= until && o.who.is(who.process);
        if self.lineage.any_met(saved) {
            return Vec::new();
        }
        for ancestor in who.ancestors.iter() {
            let group = self.live(|o| o.who.descends_from(*ancestor));
            if !group.is_empty() {
                let by = |met| Candidate { evidence: Evidence::OfKin, met };
                return group.into_iter().map(by).collect();
            }
        }
        Vec::new()
    }

    /// What anybody of the user has met, and the first version.
    fn strangers(&mut self) -> Vec<Candidate> {
        let (view, uid) = (self.question.view, self.question.who.uid);
        let mut found = self.live(|o| o.who.uid == uid && o.kind != Kind::Absent);
        if let Some(first) = self.lineage.with_first(view, self.versions)
            && !found.iter().any(|o| o.version == first)
        {
            let nobody = Who { process: None, ancestors: Arc::from([]), uid };
            found.insert(0, Observation::of_nobody(first, nobody, view));
        }
        let by = |met| Candidate { evidence: Evidence::OfAStranger, met };
        found.into_iter().map(by).collect()
    }

    /// Which of the candidates, oldest first, the text started from; `None`: none has the evidence.
    fn pick(&mut self, candidates: &[Candidate], rule: Option<Rule>) -> Option<Choice> {
        let left = self.not_outdated(candidates);
        let equal = |search: &mut Self, serial: &u64| search.equals(*serial);
        let chosen = match left[..] {
            [] => return None,
            [only] => only,
            _ => match left.iter().copied().find(|serial| equal(self, serial)) {
                Some(written_back) => self.undone(candidates, left, written_back),
                None => self.nearest(candidates, left),
            },
        };
        let all = distinct(candidates.iter().map(|c| &c.met));
        let undo = !self.equals(chosen) && all.iter().any(|serial| equal(self, serial));
        let who = self.question.who;
        let of_candidates = |o: &Observation| candidates.iter().any(|c| c.met.at == o.at);
        let observation = self.lineage.nearest(who, chosen, of_candidates);
        let version = match observation {
            Some(at) => self.lineage.meant(at, self.versions),
            None => self.lineage.version(chosen, self.versions),
        };
        let own = |at: u64| {
            let found = candidates.iter().find(|c| c.met.at == at);
            found.is_some_and(|c| who.process.is_some_and(|me| c.met.who.descends_from(me)))
        };
        let kinship = if observation.is_some_and(own) { Rule::Own } else { Rule::Kin };
        let listed = if all.len() > 1 { all } else { Vec::new() };
        let candidates = listed.into_iter().filter_map(|serial| self.listed(serial)).collect();
        Some(Choice {
            version,
            basis: Basis { rule: rule.unwrap_or(kinship), undo, others: 0, candidates },
            observation,
        })
    }

    fn listed(&mut self, serial: u64) -> Option<model::Candidate> {
        let version = self.lineage.version(serial, self.versions)?;
        // What was not compared did not count.
        let found = self.compared.get(&serial)?.as_ref()?;
        let (distance, kept) = (found.distance, found.kept);
        Some(model::Candidate::new(version.rev, version.belief, distance, kept))
    }

    /// The versions with evidence, the one met last first, but for those that are out, because the text
    /// has at least half of what came with a later one, or with a later one that the writer or its kin
    /// have used up: it knows that one. Later is what is newer and was met later: of writers at the same
    /// time some still read what others have read past.
    ///
    /// To compare is what costs, so what is out is not compared.
    fn not_outdated(&mut self, candidates: &[Candidate]) -> Vec<u64> {
        let (who, until) = (self.question.who, self.question.until);
        let kin = |o: &&Observation| who.chain().any(|id| o.who.descends_from(id));
        let used_up = |o: &&Observation| o.used != Used::No && o.at <= until && kin(o);
        let oldest = candidates.first().map_or(u64::MAX, |c| c.met.at);
        let later = self.lineage.observations().iter().rev().take_while(|o| o.at >= oldest);
        let used: Vec<(u64, u64)> = later.filter(used_up).map(|o| (o.at, o.version)).collect();
        let (mut used, mut seen) = (used.into_iter().peekable(), HashSet::new());
        let mut known: Vec<(u64, Age)> = Vec::new();
        let mut left: Vec<u64> = Vec::new();
        for candidate in candidates.iter().rev() {
            let (at, serial) = (candidate.met.at, candidate.met.version);
            while let Some((at, serial)) = used.next_if(|(used, _)| *used > at) {
                let counts = seen.len() < CANDIDATES
                    && !self.is_out(&known, at, serial)
                    && !candidates.iter().any(|c| c.met.version == serial && self.passes(c))
                    && seen.insert(serial);
                if counts && self.knows(serial) {
                    known.extend(self.lineage.age(serial).map(|age| (at, age)));
                }
            }
            let out = self.is_out(&known, at, serial);
            if left.contains(&serial) || out && !left.is_empty() || !self.passes(candidate) {
                continue;
            }
            left.push(serial);
            let older = |c: &Candidate| c.met.at < at && c.met.version != serial;
            if candidates.iter().any(older) && self.knows(serial) {
                known.extend(self.lineage.age(serial).map(|age| (at, age)));
            }
        }
        left
    }

    fn is_out(&self, known: &[(u64, Age)], at: u64, serial: u64) -> bool {
        let age = self.lineage.age(serial);
        known.iter().any(|(met, than)| at < *met && age.is_some_and(|age| age < *than))
    }

    /// Whether the text has at least half, and more than none, of what came with the version.
    fn knows(&mut self, serial: u64) -> bool {
        let (view, syntax) = (self.question.view, self.question.written.syntax());
        self.lineage.with_first(view, self.versions);
        let came = self.lineage.came(serial, view, syntax, self.versions);
        let (Some(came), Some(found)) = (came, self.comparison(serial)) else { return false };
        let (has, of) = match came {
            Came::All => {
                let gone = found.missing.iter().filter(|e| !e.extended).count();
                (found.of_version - gone, found.of_version)
            }
            Came::Keys(keys) => (keys.iter().filter(|e| has(found, **e)).count(), keys.len()),
        };
        has > 0 && has * 2 >= of
    }

    /// The base of a text that is this version byte for byte.
    fn undone(&mut self, candidates: &[Candidate], left: Vec<u64>, equal: u64) -> u64 {
        let candidates: Vec<Candidate> =
            candidates.iter().filter(|c| self.passes(c)).cloned().collect();
        let met = candidates.iter().rfind(|c| c.met.version == equal);
        let me = self.question.who.process;
        let gone = candidates.last().is_some_and(|c| c.met.kind == Kind::Absent);
        let saved = |c: &Candidate| c.met.kind == Kind::Saved;
        let again = !gone && met.is_some_and(|c| saved(c) && c.met.who.is(me));
        let met = met.map_or(0, |c| c.met.at);
        let saves = candidates.iter().filter(|c| saved(c) && c.met.at > met);
        let Some(last) = saves.map(|c| c.met.at).max() else {
            // A process that saves its text once more has changed nothing in it.
            return if again { equal } else { left[0] };
        };
        // Written back: what came since the last save of its own is what it undoes.
        let since = candidates.iter().map(|c| &c.met).filter(|met| met.at >= last);
        let left = distinct(since);
        self.nearest_of(&candidates, left)
    }

    fn nearest(&mut self, candidates: &[Candidate], left: Vec<u64>) -> u64 {
        let mut nothing = true;
        for serial in &left {
            nothing &= self.comparison(*serial).is_none_or(|c| c.kept == 0);
        }
        if nothing { left[0] } else { self.nearest_of(candidates, left) }
    }

    /// The nearest one; of equally near ones the one from which fewest entries would be removed, of
    /// those one that the writing process itself has met, and of those the one met last.
    fn nearest_of(&mut self, candidates: &[Candidate], left: Vec<u64>) -> u64 {
        let me = self.question.who.process;
        let mut best: Option<((usize, usize, bool), u64)> = None;
        for serial in left.iter().copied() {
            let own = |c: &&Candidate| c.met.version == serial && c.met.who.is(me);
            let kin = candidates.iter().find(own).is_none();
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
