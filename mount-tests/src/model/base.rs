//! Which version a save is compared with, written down from the words of section 4 of the
//! semantics: who has met which version, and which of them a text started from.
//!
//! The actors are processes without a common ancestor, so that of the rules those are left that ask
//! the handle, the process itself, an unlink of its own, and strangers.

mod record;

use std::collections::{BTreeMap, BTreeSet};

use super::entries::{Entry, compare, entries, longer};
use super::ops::Doc;
use super::oracle::Seen;

/// Versions that are candidates at most.
const CANDIDATES: usize = 16;
/// Observations of one process that are put on record at once at most, the latest.
const RECORDED: usize = 4;

/// An actor and the number of its process.
pub type Process = (usize, usize);
/// The stranger that looks at everything after every call.
pub const OBSERVER: Process = (usize::MAX, 0);

/// How a version was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was read.
    Read,
    /// It was written.
    Saved,
    /// There was no file.
    Absent,
}

/// A version and who met it.
#[derive(Debug, Clone)]
struct Observation {
    at: u64,
    by: Process,
    how: How,
    seen: Seen,
    /// The process whose save has started from it.
    used: Option<Process>,
    /// It is on record as it is.
    recorded: bool,
    /// The daemon may have forgotten it.
    doubtful: bool,
    /// The text is its writer's own, and not what the save has made of it.
    own_text: bool,
    /// The number of its version is not known yet; `true`: it is the version that comes.
    pending: Option<bool>,
}

impl Observation {
    /// What another process has started a save from is still its own.
    fn is_open_to(&self, by: Process) -> bool {
        self.used.is_none_or(|saver| self.by == by && saver != by)
    }
}

/// What a save starts from.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// `None`: the save is blind.
    pub seen: Option<Seen>,
    /// The observation that the save uses up.
    pub uses: Option<u64>,
    /// Whose save it is.
    pub by: Process,
}

/// A save that looks for its base.
pub struct Question<'q> {
    /// Who has written.
    pub by: Process,
    /// The text.
    pub written: &'q str,
    /// Only what had been observed by then counts.
    pub until: u64,
    /// What was there when the writer removed the name, which it makes anew.
    pub removed: Option<Seen>,
    /// The texts of the files that the writer has written beside the document.
    pub beside: Vec<String>,
    /// Only what the writer itself has met counts.
    pub own_only: bool,
}

/// All that is known of who has met which version of one document.
#[derive(Debug, Clone)]
pub struct Observations {
    doc: Doc,
    all: Vec<Observation>,
    on_record: Vec<Observation>,
    clock: u64,
    /// What was met by then was met more than a second ago.
    rested: u64,
    first: Option<Seen>,
}

impl Observations {
    /// Nobody has met anything.
    pub fn new(doc: Doc) -> Observations {
        let (all, on_record) = (Vec::new(), Vec::new());
        Observations { doc, all, on_record, clock: 0, rested: 0, first: None }
    }

    /// Everything that is observed from now on is later.
    pub fn now(&self) -> u64 {
        self.clock
    }

    fn push(&mut self, by: Process, how: How, seen: Seen, pending: Option<bool>) {
        self.clock += 1;
        let (used, recorded, doubtful) = (None, false, false);
        let (at, own_text) = (self.clock, pending == Some(false));
        let new = Observation { at, by, how, seen, used, recorded, doubtful, own_text, pending };
        self.all.push(new);
    }

    /// The stranger has looked.
    pub fn observed(&mut self, version: usize, text: &str) {
        if text.is_empty() {
            return self.absent(OBSERVER, version);
        }
        let seen = Seen::of(version, text.to_owned());
        // The fresh text of a list is none that anybody has committed.
        if version > 0 {
            self.first.get_or_insert_with(|| seen.clone());
        }
        self.read(OBSERVER, seen);
    }

    /// Longer than a second passes.
    pub fn rest(&mut self) {
        self.rested = self.clock;
    }

    /// A version was read. What the process has met last, has not used and reads again within a second
    /// counts once; it takes longer only where the sequence rests.
    pub fn read(&mut self, by: Process, seen: Seen) {
        let last = self.all.iter().rev().find(|o| o.by == by);
        let again = |o: &Observation| {
            let met = o.how != How::Absent && o.seen.text == seen.text;
            met && o.is_open_to(by) && o.at > self.rested
        };
        if !last.is_some_and(again) {
            self.push(by, How::Read, seen, None);
        }
    }

    /// There was no file.
    pub fn absent(&mut self, by: Process, version: usize) {
        self.push(by, How::Absent, Seen::of(version, String::new()), None);
    }

    /// `by` has saved this text; which version it has become is seen later ([`Self::settle`]).
    /// `current`: the version is what it has written.
    pub fn saved(&mut self, by: Process, seen: Seen, current: bool) {
        self.push(by, How::Saved, seen, Some(current));
    }

    /// What a process may have met last besides [`Self::newest_of`], as the daemon may have forgotten
    /// that: any of the others, or nothing (an empty text).
    pub fn others_of(&self, by: Process) -> Vec<Seen> {
        let own = || self.all.iter().rev().filter(|o| o.by == by);
        if !own().next().is_some_and(|o| o.doubtful) {
            return Vec::new();
        }
        let nothing = Seen { since: usize::MAX, ..Seen::of(usize::MAX, String::new()) };
        let mut others = vec![nothing];
        for o in own().skip(1) {
            if !others.iter().any(|seen| seen.text == o.seen.text) {
                others.push(o.seen.clone());
            }
        }
        others
    }

    /// One of the latest so many observations counts, and nobody knows which.
    pub fn either(&mut self, latest: usize) {
        self.all.iter_mut().rev().take(latest).for_each(|o| o.doubtful = true);
    }

    /// The saves have become this version.
    pub fn settle(&mut self, version: usize, text: &str) {
        let all = self.all.iter_mut().chain(&mut self.on_record);
        for o in all.filter(|o| o.pending.is_some()) {
            if o.pending.take() == Some(true) {
                o.seen = Seen { since: version, ..Seen::of(version, text.to_owned()) };
            }
            let since = o.seen.since.min(version);
            (o.seen.version, o.seen.since) = (version, since);
        }
    }

    /// A save has started from it.
    pub fn use_up(&mut self, at: Option<u64>, saver: Process) {
        if let Some(o) = self.all.iter_mut().find(|o| Some(o.at) == at) {
            (o.used, o.recorded) = (Some(saver), false);
        }
    }

    /// What a process has met last.
    pub fn newest_of(&self, by: Process) -> Option<&Seen> {
        self.all.iter().rev().find(|o| o.by == by).map(|o| &o.seen)
    }

    /// The observation of a version that an append by the process makes one with its lines.
    pub fn own(&self, by: Process, seen: &Seen) -> Option<u64> {
        let own = |o: &&Observation| o.by == by && o.is_open_to(by) && o.seen.text == seen.text;
        self.all.iter().rev().find(own).map(|o| o.at)
    }

    // --- the choice

    /// What the save may start from: more than one only if it is not known what the daemon has
    /// forgotten.
    pub fn choices(&self, question: &Question<'_>) -> Vec<Choice> {
        let first = self.choose(question);
        if !self.all.iter().any(|o| o.doubtful && o.is_open_to(question.by)) {
            return vec![first];
        }
        let mut sure = self.clone();
        sure.all.retain(|o| !o.doubtful);
        let mut all = vec![first, sure.choose(question)];
        let mut texts = BTreeSet::new();
        for o in self.all.iter().rev().filter(|o| o.doubtful && o.at <= question.until) {
            if texts.insert(&o.seen.text) {
                all.push(Choice { seen: Some(o.seen.clone()), uses: Some(o.at), by: question.by });
            }
        }
        if !sure.all.iter().any(|o| o.by == question.by && o.is_open_to(question.by)) {
            all.push(Choice::default());
        }
        all
    }

    /// The newest observations of at most so many versions, oldest first.
    fn live(
        &self,
        question: &Question<'_>,
        which: impl Fn(&Observation) -> bool,
    ) -> Vec<&Observation> {
        let mut texts: Vec<&str> = Vec::new();
        let mut found: Vec<&Observation> = Vec::new();
        for o in self.all.iter().rev() {
            // Who has removed the name knows that there is none.
            let nothing = o.how == How::Absent && question.removed.is_some();
            if !o.is_open_to(question.by) || o.at > question.until || nothing || !which(o) {
                continue;
            }
            if !texts.contains(&&*o.seen.text) {
                if texts.len() == CANDIDATES {
                    continue;
                }
                texts.push(&o.seen.text);
            }
            found.push(o);
        }
        found.reverse();
        let last = found.last().map(|o| o.at);
        found.retain(|o| o.how != How::Absent || Some(o.at) == last);
        found
    }

    fn choose(&self, question: &Question<'_>) -> Choice {
        let written = entries(self.doc, question.written);
        let mut own = self.live(question, |o| o.by == question.by);
        // A read that was put into a file beside it as it was is none.
        let last = own.iter().rfind(|o| o.how == How::Read).map(|o| o.seen.text.clone());
        if let Some(text) = last.filter(|text| question.beside.contains(text))
            && versions(&own).len() > 1
        {
            own.retain(|o| o.how != How::Read || o.seen.text != text);
        }
        // Who has emptied the text begins anew.
        if let Some(last) = own.iter().rfind(|o| o.how == How::Saved).map(|o| (o.at, &o.seen.text))
            && entries(self.doc, last.1).is_empty()
        {
            own.retain(|o| o.at >= last.0);
        }
        if !own.is_empty() {
            return self.pick(&own, question, &written);
        }
        if let Some(there) = &question.removed {
            // To remove and to make anew is to replace: what somebody has met.
            let mut met = self.all.iter().filter(|o| o.how != How::Absent);
            let version = match met.clone().any(|o| o.seen.text == there.text) {
                true => Some(there),
                false => met.next_back().map(|o| &o.seen),
            };
            return Choice {
                seen: Some(version.unwrap_or(there).clone()),
                uses: None,
                by: question.by,
            };
        }
        if question.own_only {
            return Choice::default();
        }
        let mut far = self.live(question, |o| o.how != How::Absent);
        let first = self.first.clone().map(|seen| Observation {
            at: 0,
            by: OBSERVER,
            how: How::Saved,
            seen,
            used: None,
            recorded: true,
            doubtful: false,
            own_text: false,
            pending: None,
        });
        if let Some(first) = &first
            && !far.iter().any(|o| o.seen.text == first.seen.text)
        {
            far.insert(0, first);
        }
        far.retain(|o| {
            let (v, w) = (entries(self.doc, &o.seen.text), &written);
            let kept = compare(&v, w).kept;
            kept > 0 && kept * 2 >= v.len() && kept * 2 >= w.len()
        });
        if far.is_empty() || far.iter().any(|o| o.seen.text == question.written) {
            return Choice::default();
        }
        self.pick(&far, question, &written)
    }

    /// Which of several, oldest first.
    fn pick(&self, from: &[&Observation], question: &Question<'_>, written: &[Entry]) -> Choice {
        let mut left = versions(from);
        let out = self.outdated(from, question, written);
        left.retain(|text| !out.contains(text));
        let against = |text: &str| compare(&entries(self.doc, text), written);
        let mut undo = None;
        let mut repeated = false;
        if left.len() > 1 && left.contains(&question.written) {
            let met = from.iter().rfind(|o| o.seen.text == question.written);
            let gone = from.last().is_some_and(|o| o.how == How::Absent);
            repeated = !gone && met.is_some_and(|o| o.how == How::Saved && o.by == question.by);
            let met = met.map_or(0, |o| o.at);
            let saves = from.iter().filter(|o| o.how == How::Saved && o.at > met);
            undo = Some(saves.map(|o| o.at).max());
        }
        // Of equally near ones the one that loses least, and of those the one met last.
        let nearest = |texts: &[&str]| -> String {
            let far = |text: &&&str| {
                let found = against(text);
                (found.distance, found.missing)
            };
            texts.iter().min_by_key(far).map_or_else(String::new, |text| (*text).to_owned())
        };
        let chosen = match undo {
            _ if left.len() == 1 => left[0].to_owned(),
            // Its own text once more.
            Some(None) if repeated => question.written.to_owned(),
            // Something that came since was taken out.
            Some(None) => left[0].to_owned(),
            Some(Some(last)) => {
                let since: Vec<&Observation> =
                    from.iter().filter(|o| o.at >= last).copied().collect();
                nearest(&versions(&since))
            }
            None if left.iter().all(|text| against(text).kept == 0) => left[0].to_owned(),
            None => nearest(&left),
        };
        let seen = from.iter().rfind(|o| o.seen.text == chosen).map(|o| o.seen.clone());
        Choice {
            seen,
            uses: self.nearest_of(question.by, &chosen, question.until),
            by: question.by,
        }
    }

    /// The observation of a version that a save by this process uses up.
    pub fn nearest_of(&self, by: Process, text: &str, until: u64) -> Option<u64> {
        let open = |o: &&Observation| o.is_open_to(by) && o.at <= until && o.seen.text == text;
        let own = self.all.iter().rev().filter(open).find(|o| o.by == by);
        own.or_else(|| self.all.iter().rev().find(open)).map(|o| o.at)
    }

    /// How new a text is: the latest version that it was, a writer's own text before what the save has
    /// made of it.
    fn age(&self, text: &str) -> Option<(usize, bool)> {
        let met = self.all.iter().filter(|o| o.seen.text == text);
        let met = met.map(|o| (o.seen.version, !o.own_text)).max();
        let first = self.first.iter().find(|first| first.text == text);
        met.max(first.map(|first| (first.version, true)))
    }

    /// Those that are out: the text has half of what came with one that is newer and was met later, or
    /// with such a one that an earlier save of the writer has used up.
    fn outdated<'o>(
        &self,
        from: &[&'o Observation],
        question: &Question<'_>,
        written: &[Entry],
    ) -> Vec<&'o str> {
        let candidates = versions(from);
        let last = |text: &str| from.iter().rfind(|o| o.seen.text == text).map(|o| o.at);
        let used = |text: &str| {
            let own = |o: &&Observation| {
                o.used.is_some() && o.by == question.by && o.at <= question.until
            };
            self.all.iter().rev().filter(own).find(|o| o.seen.text == text).map(|o| o.at)
        };
        let count = |all: &[Entry], key: &str| all.iter().filter(|e| e.key == key).count();
        // How often an entry was there at most; what went once is nothing new.
        let mut most: BTreeMap<String, usize> = BTreeMap::new();
        let mut gone: BTreeSet<String> = BTreeSet::new();
        let mut before: Vec<Entry> = Vec::new();
        let mut done: BTreeSet<&str> = BTreeSet::new();
        let mut knows: Vec<(u64, Option<(usize, bool)>)> = Vec::new();
        // Only the fresh text is older than the first version.
        let begun = self.first.as_ref().map_or(0, |first| first.version);
        let fresh = self.all.iter().map(|o| &o.seen).take_while(|seen| seen.version < begun);
        let met = fresh.chain(&self.first).chain(self.all.iter().map(|o| &o.seen));
        for text in met.map(|seen| &*seen.text) {
            if !done.insert(text) {
                continue;
            }
            let all = entries(self.doc, text);
            let before_it = |e: &Entry| most.get(&e.key).copied().unwrap_or(0);
            let is_new = |at: &usize| {
                let e = &all[*at];
                !gone.contains(&e.key) && count(&all[..*at], &e.key) >= before_it(e)
            };
            let new: Vec<&Entry> = (0..all.len()).filter(is_new).map(|at| &all[at]).collect();
            // It is there as it is, or with more at its end; of equal ones all.
            let has = |e: &&&Entry| {
                let other = |w: &&Entry| longer(e, w) && count(&all, &w.key) == 0;
                let longer = written.iter().filter(other).count();
                count(written, &e.key) + longer >= count(&all, &e.key)
            };
            if let Some(at) = last(text).or_else(|| used(text))
                && let having = new.iter().filter(has).count()
                && having > 0
                && having * 2 >= new.len()
            {
                knows.push((at, self.age(text)));
            }
            for e in &all {
                let here = count(&all, &e.key);
                let most = most.entry(e.key.clone()).or_default();
                *most = here.max(*most);
            }
            let fewer = |e: &&Entry| count(&all, &e.key) < count(&before, &e.key);
            gone.extend(before.iter().filter(fewer).map(|e| e.key.clone()));
            before = all;
        }
        let mut older = candidates;
        older.retain(|text| {
            let later = |(at, age): &(u64, _)| last(text) < Some(*at) && self.age(text) < *age;
            Some(*text) != from.last().map(|o| &*o.seen.text) && knows.iter().any(later)
        });
        older
    }

    /// The nearer of two versions to a text; of equally near ones the later one.
    pub fn nearer<'s>(&self, a: &'s Seen, b: &'s Seen, written: &str) -> &'s Seen {
        let written = entries(self.doc, written);
        let distance = |seen: &Seen| compare(&entries(self.doc, &seen.text), &written).distance;
        let (of_a, of_b) = (distance(a), distance(b));
        if of_a < of_b || of_a == of_b && a.version > b.version { a } else { b }
    }
}

/// The texts of some observations, that which was met last first.
fn versions<'o>(from: &[&'o Observation]) -> Vec<&'o str> {
    let mut texts: Vec<&str> = Vec::new();
    for o in from.iter().rev() {
        if !texts.contains(&&*o.seen.text) {
            texts.push(&o.seen.text);
        }
    }
    texts
}

#[cfg(test)]
#[path = "base_tests.rs"]
mod tests;
