//! What came with which version.

use std::collections::HashSet;

use super::{Came, Known, Lineage, REMOVED_KEPT};
use crate::documents::entries::{self, Syntax};
use crate::fs::observed::Versions;
use crate::model::View;

impl Lineage {
    /// The first version on record, as if it had been met before all others.
    pub fn with_first(&mut self, view: View, versions: &dyn Versions) -> Option<u64> {
        // There is none before the first save of a file that is not there.
        if self.first.is_none()
            && let Some(first) = versions.first(view.doc())
        {
            let size = first.view(view).map(|c| c.len());
            // Only a text that was shown before anybody had saved was there earlier.
            let fresh = |k: &&Known| k.rev.is_some_and(|rev| rev < first.rev);
            let place = self.versions.iter().take_while(fresh).count();
            let at = match self.versions.iter().position(|k| k.is(&first, view, size)) {
                Some(at) => {
                    let place = place.min(at);
                    self.versions[place..=at].rotate_right(1);
                    place
                }
                None => {
                    self.serial += 1;
                    self.versions.insert(place, Known::new(self.serial, first, view));
                    place
                }
            };
            self.first = self.versions.get(at).map(|k| k.serial);
            // What came with the others is counted from it.
            self.counted = None;
            self.removed.clear();
            self.versions.iter_mut().for_each(|k| k.came = None);
        }
        self.first
    }

    /// Those of the entries that went once and are back with this version which no earlier one has
    /// that is still on record.
    fn anew(
        &mut self,
        at: usize,
        mut back: Vec<u64>,
        (view, syntax): (View, Syntax),
        versions: &dyn Versions,
    ) -> Vec<u64> {
        let serials: Vec<u64> = self.versions[..=at].iter().rev().map(|k| k.serial).collect();
        let version = self.version(serials[0], versions);
        for earlier in &serials[1..] {
            if back.is_empty() {
                break;
            }
            if let (Some(version), Some(earlier)) = (&version, self.version(*earlier, versions)) {
                let added = entries::between(&earlier, version, view, syntax).added;
                let added: HashSet<u64> = added.into_iter().map(|e| e.key).collect();
                back.retain(|key| added.contains(key));
            }
        }
        back
    }

    /// What came with a version, in the order in which they were first met.
    pub fn came(
        &mut self,
        serial: u64,
        view: View,
        syntax: Syntax,
        versions: &dyn Versions,
    ) -> Option<Came> {
        for at in 0..self.versions.len() {
            if self.versions[at].came.is_some() {
                continue;
            }
            let serial = self.versions[at].serial;
            let Some(version) = self.version(serial, versions) else {
                self.versions[at].came = Some(Came::Keys(Vec::new()));
                continue;
            };
            let came = match self.counted.clone() {
                None => Came::All,
                Some(before) => {
                    let found = entries::between(&before, &version, view, syntax);
                    let added = found.added.iter().map(|e| e.key);
                    let (back, mut came): (Vec<u64>, Vec<u64>) =
                        added.partition(|key| self.removed.contains(key));
                    came.extend(self.anew(at, back, (view, syntax), versions));
                    if self.removed.len() > REMOVED_KEPT {
                        self.removed.clear();
                    }
                    self.removed.extend(found.missing.iter().map(|e| e.key));
                    Came::Keys(came)
                }
            };
            self.counted = Some(version);
            self.versions[at].came = Some(came);
        }
        self.known(serial)?.came.clone()
    }
}
