//! The entries of rows that other programs have made or changed.

use std::sync::Arc;

use super::entry::{Entry, Kind, Section, clean};
use super::refresh::Refresh;
use super::rematch::same_columns;
use super::render;
use crate::model::Overlap;

impl Refresh<'_> {
    /// The entry of a row that is none of ours.
    pub(super) fn fresh(&mut self, r: usize) -> Entry {
        let (table, id) = (self.rows[r].section.table(), self.rows[r].key.id);
        let entry = match self.known.get(&(table, id)) {
            Some(&id) => {
                let row = self.rows[r].clone();
                let next = match row.kind {
                    Kind::Mission(_) => &mut self.state.next_no,
                    _ => &mut self.state.next_line,
                };
                *next = (*next).max(id + 1);
                render::entry(id, row.kind, row.section, self.state.eol(), None)
            }
            None => self.back_or_new(r),
        };
        self.given.insert((table, id), entry.id);
        entry
    }

    /// One that vanished lately, or a new one.
    fn back_or_new(&mut self, r: usize) -> Entry {
        let row = self.rows[r].clone();
        let eol = self.state.eol();
        if let Some(back) = self.gone.back(row.section, &row.kind) {
            if same_columns(&back.kind, &row.kind) {
                return (*back).clone();
            }
            let kind = carried(&row.kind, &back.kind);
            return render::entry(back.id, kind, row.section, eol, Some(&back.raw));
        }
        let id = self.state.fresh_id(&row.kind);
        render::entry(id, row.kind, row.section, eol, None)
    }

    /// `ours` with what the row changed since `base`; `None` when nothing.
    pub(super) fn renewed(
        &mut self,
        i: usize,
        r: usize,
        ours: &Entry,
        to: Section,
    ) -> Option<Arc<Entry>> {
        let same = same_columns(&self.items[i].entry.kind, &self.rows[r].kind);
        if same && to == ours.section {
            return None;
        }
        let old = self.items[i].entry.clone();
        let row = self.rows[r].kind.clone();
        let (mut kind, mut shown) = (ours.kind.clone(), to != ours.section);
        match (&mut kind, &old.kind, &row) {
            (Kind::Mission(m), Kind::Mission(o), Kind::Mission(t)) => {
                let name = ours.name();
                let mut met = Vec::new();
                if clean(&t.text) != clean(&o.text) {
                    if clean(&m.text) != clean(&o.text) && clean(&m.text) != clean(&t.text) {
                        met.push(("text", m.text.clone(), t.text.clone()));
                    }
                    m.text.clone_from(&t.text);
                    let said = |c: &String| m.text.ends_with(&format!("[{c}]"));
                    if m.times.cause.as_ref().is_some_and(said) {
                        // Their clean-up has made text of it.
                        m.times.cause = None;
                    }
                    shown = true;
                }
                let columns = [
                    ("queued", &mut m.times.queued, &o.times.queued, &t.times.queued),
                    ("started", &mut m.times.started, &o.times.started, &t.times.started),
                    ("completed", &mut m.times.completed, &o.times.completed, &t.times.completed),
                ];
                for (what, m, o, t) in columns {
                    if t != o {
                        if m != o && m != t {
                            let said = |x: &Option<String>| x.clone().unwrap_or_default();
                            met.push((what, said(m), said(t)));
                        }
                        m.clone_from(t);
                        shown = true;
                    }
                }
                if t.project != o.project {
                    m.project.clone_from(&t.project);
                }
                if t.complexity != o.complexity {
                    m.complexity.clone_from(&t.complexity);
                }
                if t.recoveries != o.recoveries {
                    m.recoveries = t.recoveries;
                }
                if to != Section::Failed {
                    m.times.cause = None;
                }
                self.overlaps.extend(met.into_iter().map(|(what, earlier, later)| Overlap {
                    what: format!("{name} {what}"),
                    earlier,
                    later,
                }));
            }
            (k, _, t) => {
                *k = t.clone();
                shown = true;
            }
        }
        if !shown {
            let mut e = ours.clone();
            e.kind = kind;
            return Some(Arc::new(e));
        }
        let eol = self.state.eol();
        Some(Arc::new(render::entry(ours.id, kind, to, eol, Some(&ours.raw))))
    }
}

/// The row's columns with what only we know.
fn carried(row: &Kind, ours: &Kind) -> Kind {
    match (row, ours) {
        (Kind::Mission(r), Kind::Mission(o)) => {
            let mut m = r.clone();
            m.times.cause.clone_from(&o.times.cause);
            Kind::Mission(m)
        }
        (r, _) => r.clone(),
    }
}
