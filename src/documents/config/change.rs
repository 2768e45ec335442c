//! Which members of a map or sequence stay, go and come.

use super::lists;
use super::merge::identities;
use super::tree::{Entry, Item, Node, Role};
use super::value::{Index, Value};

/// What becomes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is taken out.
    Goes,
    /// It stays as it is: the `<<` of a map.
    Stays,
    /// It is this one of the [`Members`] from now on.
    Becomes(usize),
}

/// A member of a map or sequence as it stands in the text.
pub(super) struct Child<'n> {
    /// Where it begins.
    pub start: usize,
    /// After its value.
    pub end: usize,
    /// What becomes of it.
    pub fate: Fate,
    /// Its value.
    pub node: &'n Node,
    /// After its mark.
    pub mark: usize,
}

/// The members that a map or sequence shall have.
pub(super) enum Members<'t> {
    /// Of a map.
    Map(&'t [(String, Value)]),
    /// Of a sequence.
    Seq(&'t [Value]),
}

impl Members<'_> {
    /// The value of one of them.
    pub fn value(&self, i: usize) -> &Value {
        match self {
            Members::Map(m) => &m[i].1,
            Members::Seq(s) => &s[i],
        }
    }
}

/// What a map or sequence becomes.
pub(super) struct Change<'n, 't> {
    /// The members it has.
    pub children: Vec<Child<'n>>,
    /// The members it shall have.
    pub members: Members<'t>,
    /// New members, with the child after which each stands; `None`: no child before it.
    pub new: Vec<(usize, Option<usize>)>,
}

impl Change<'_, '_> {
    /// No member comes or goes.
    pub fn same_members(&self) -> bool {
        self.new.is_empty() && self.children.iter().all(|c| c.fate != Fate::Goes)
    }

    /// At least one of the children stays.
    pub fn survives(&self) -> bool {
        self.children.iter().any(|c| c.fate != Fate::Goes)
    }
}

/// How a map becomes `target`; `write_out`: without its `<<`.
pub(super) fn map_change<'n, 't>(
    entries: &'n [Entry],
    target: &'t [(String, Value)],
    write_out: bool,
) -> Change<'n, 't> {
    let wanted = Index::new(target.iter().map(|(k, _)| k.as_str()));
    // A key that comes from a `<<` can be overridden but not taken out: without it the
    // whole `<<` goes, and what it brought is written out.
    let dissolve = write_out
        || entries.iter().any(|e| e.role == Role::Inherited && wanted.get(&e.key).is_none());
    let mut children = Vec::new();
    let mut placed = vec![None; target.len()];
    let mut merge_child = None;
    for e in entries {
        let fate = match e.role {
            Role::Own => wanted.get(&e.key).map_or(Fate::Goes, Fate::Becomes),
            Role::Merge if dissolve => Fate::Goes,
            Role::Merge => Fate::Stays,
            Role::Inherited => {
                if let Some(i) = wanted.get(&e.key)
                    && !dissolve
                    && e.value.is(&target[i].1)
                {
                    placed[i] = merge_child;
                }
                continue;
            }
        };
        if e.role == Role::Merge {
            merge_child = Some(children.len());
        } else if let Fate::Becomes(i) = fate {
            placed[i] = Some(children.len());
        }
        let end = e.value.end.max(e.mark);
        children.push(Child { start: e.start, end, fate, node: &e.value, mark: e.mark });
    }
    Change { children, members: Members::Map(target), new: newcomers(&placed) }
}

/// How a sequence becomes `target`: elements with an identity by that, others like lines.
pub(super) fn seq_change<'n, 't>(items: &'n [Item], target: &'t [Value]) -> Change<'n, 't> {
    let have: Vec<Value> = items.iter().map(|i| i.value.value()).collect();
    let (lists, by_id) = match identities(&[&have, target]) {
        Some((ids, _)) => (ids, true),
        None => {
            let forms = |l: &[Value]| l.iter().map(Value::canonical).collect();
            (vec![forms(&have), forms(target)], false)
        }
    };
    let classes = lists::classes(&lists);
    let mut fates = vec![Fate::Goes; items.len()];
    let mut placed = vec![None; target.len()];
    if let [from, to] = &classes[..] {
        for op in lists::diff(from, to) {
            let equal = matches!(op, similar::DiffOp::Equal { .. });
            let replaced = matches!(op, similar::DiffOp::Replace { .. });
            if equal || (replaced && !by_id) {
                for (i, j) in op.old_range().zip(op.new_range()) {
                    fates[i] = Fate::Becomes(j);
                    placed[j] = Some(i);
                }
            }
        }
    }
    let children = items
        .iter()
        .zip(fates)
        .map(|(i, fate)| Child {
            start: i.start,
            end: i.value.end.max(i.mark),
            fate,
            node: &i.value,
            mark: i.mark,
        })
        .collect();
    Change { children, members: Members::Seq(target), new: newcomers(&placed) }
}

/// The members without a child, each with the child of the nearest member before it.
fn newcomers(placed: &[Option<usize>]) -> Vec<(usize, Option<usize>)> {
    let mut after = None;
    let mut new = Vec::new();
    for (i, p) in placed.iter().enumerate() {
        match p {
            Some(child) => after = Some(*child),
            None => new.push((i, after)),
        }
    }
    new
}
