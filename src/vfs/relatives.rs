//! Whose eyes count for whom (semantics section 4, rules 2 and 3).

use super::processes::Process;

/// What another process is to a writer.
pub enum Relation {
    /// A child, in whatever session.
    Child,
    /// An ancestor in the same session.
    Ancestor,
    /// A near relative in the same session.
    Near,
}

/// `None` for the writer itself and for strangers.
pub fn relation(other: &Process, writer: &Process) -> Option<Relation> {
    if other.id == writer.id {
        return None;
    }
    if other.ancestors.first() == Some(&writer.id) {
        return Some(Relation::Child);
    }
    if other.session == 0 || other.session != writer.session {
        return None;
    }
    if writer.ancestors.contains(&other.id) {
        return Some(Relation::Ancestor);
    }
    let near = other.ancestors.iter().any(|a| *a == writer.id || writer.ancestors.contains(a));
    near.then_some(Relation::Near)
}
