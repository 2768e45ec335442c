//! What is known at the end of the daemon, and what the next one knows.

use std::collections::BTreeMap;

use super::{Observations, Process, RECORDED};

impl Observations {
    /// What is known is put on record.
    pub fn keep(&mut self) {
        let mut count: BTreeMap<Process, usize> = BTreeMap::new();
        for o in self.all.iter_mut().rev().filter(|o| !o.recorded) {
            o.recorded = true;
            let known = self.on_record.iter().any(|known| known.at == o.at);
            let of = count.entry(o.by).or_default();
            *of += usize::from(!known);
            if known || *of <= RECORDED {
                self.on_record.retain(|known| known.at != o.at);
                self.on_record.push(o.clone());
            }
        }
        self.on_record.sort_by_key(|o| o.at);
    }

    /// What is on record is all that is left.
    pub fn recall(&mut self) {
        self.all = self.on_record.clone();
    }

    /// Anything may have been forgotten.
    pub fn doubt(&mut self) {
        self.all.iter_mut().for_each(|o| o.doubtful = true);
    }
}
