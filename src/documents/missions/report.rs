//! What an import found: counts and lines that are kept as layout.

use super::entry::{Kind, Section};
use super::tree::MissionsState;
use crate::documents::State;

/// Counts of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Missions with state `pending`.
    pub pending: u64,
    /// Missions with state `in_progress`.
    pub in_progress: u64,
    /// Missions with state `done`.
    pub done: u64,
    /// Missions with state `failed`.
    pub failed: u64,
    /// CI lines.
    pub ci: u64,
    /// Ideas.
    pub ideas: u64,
    /// Lines that mean nothing to the format, other than empty ones and `# Missions`: 1-based
    /// line number and the line without its end.
    pub layout: Vec<(u64, String)>,
}

/// The report of a version; `None` when it is not one of missions.
pub fn report(state: &State) -> Option<ImportReport> {
    let s = MissionsState::of(state)?;
    let mut r = ImportReport {
        pending: s.count(Section::Pending),
        in_progress: s.count(Section::InProgress),
        done: s.count(Section::Done),
        failed: s.count(Section::Failed),
        ci: s.count(Section::Ci),
        ideas: s.count(Section::Ideas),
        layout: Vec::new(),
    };
    let mut line = 1;
    for e in s.entries() {
        let known = super::parse::stripped(&e.raw) == "# Missions";
        if matches!(e.kind, Kind::Layout) && !e.is_blank() && !known {
            r.layout.push((line, e.raw.trim_end().to_owned()));
        }
        line += e.raw.matches('\n').count() as u64;
    }
    Some(r)
}
