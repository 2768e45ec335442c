//! What came with which version.

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
            let came = match &self.counted {
                None => Came::All,
                Some((before, last)) => {
                    let found = entries::between(before, &version, view, syntax);
                    let known = |key: &u64| {
                        let had = self.removed.get(key);
                        had.is_some_and(|had| self.versions.iter().any(|k| k.serial == *had))
                    };
                    let added = found.added.iter().map(|e| e.key);
                    let came = added.filter(|key| !known(key)).collect();
                    if self.removed.len() > REMOVED_KEPT {
                        self.removed.clear();
                    }
                    self.removed.extend(found.missing.iter().map(|e| (e.key, *last)));
                    Came::Keys(came)
                }
            };
            self.counted = Some((version, serial));
            self.versions[at].came = Some(came);
        }
        self.known(serial)?.came.clone()
    }
}
