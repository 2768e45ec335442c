//! Names that were unlinked and are made anew.

use std::collections::HashSet;
use std::sync::Arc;

use super::{CANDIDATES, Choice, Search, Unlink, distinct};
use crate::documents::Version;
use crate::documents::entries::{self, Written};
use crate::fs::observed::Kind;
use crate::fs::observed::lineage::Observation;
use crate::model::Rule;

impl Search<'_> {
    /// Whether the text is an old version byte for byte and the writing process has met none: a tool
    /// puts back what was there (`git checkout`). An editor has met one.
    pub(super) fn is_written_back(&mut self) -> bool {
        let who = self.question.who;
        let met = |o: &Observation| o.who.is(who.process) && o.kind != Kind::Absent;
        if self.lineage.any_met(met) {
            return false;
        }
        let all: Vec<u64> = distinct(self.lineage.observations().iter());
        all.into_iter().take(CANDIDATES * 4).any(|serial| self.equals(serial))
    }

    /// To remove and to make anew is to replace: what anybody of the user has met goes. Whoever has met
    /// less than half of what was there, such as one who has only appended, does not count.
    pub(super) fn replacement(&mut self, unlink: Unlink) -> Choice {
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
            for serial in distinct(met.iter()).into_iter().take(CANDIDATES) {
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
        let mut serials = distinct(met.iter());
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
}
