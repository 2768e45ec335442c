//! Whose a file is that nobody saw being made: one that was there before the mount, came with a
//! restored backup, or was put into the store behind the mount's back.

use super::content::{Content, Found};
use super::names::Kind;
use super::owner::{Here, Owner, Recalled, booted_at};
use crate::model::Stamp;
use crate::store::OwnedRow;

/// What a file is.
#[derive(Debug)]
pub enum Verdict {
    /// It belongs to nobody.
    Ordinary,
    /// It belonged to a process that has ended.
    Ended,
    /// It belongs to this process. Not `sure`: only the number speaks for it, and the process may
    /// be younger than the file ([`is_younger`]).
    Owned {
        /// The process.
        owner: Owner,
        /// It is known to be the one.
        sure: bool,
    },
}

/// A process that started so much later than its file was written did not write it. The start is
/// told to 10 ms, and file systems have coarse clocks; nanoseconds.
const SLACK: i64 = 500_000_000;

/// Judges a file. `kept` is what is on record for its path. Reads nothing of another process that
/// could wait for it.
pub fn judge(kind: Kind, found: &Found, kept: Option<&OwnedRow>, here: &Here) -> Verdict {
    let named = match (kind, found.content) {
        (_, Content::Other) => return Verdict::Ordinary,
        (Kind::Marker(pid), Content::Pid(other)) if pid != other => return Verdict::Ordinary,
        (Kind::Marker(pid), _) | (Kind::Lease, Content::Pid(pid)) => Some(pid),
        (Kind::Lease, Content::Empty) => None,
    };
    let same = kept.filter(|k| (k.ino, k.born) == (found.id.ino, found.id.born));
    if same.is_some_and(|k| k.owner.pid == 0) {
        return Verdict::Ordinary;
    }
    // Of another file only the owner of an empty one counts: a copy of it says no more.
    let counts = kept.filter(|k| k.owner.pid != 0 && (same.is_some() || named.is_none()));
    if let Some(kept) = counts.filter(|k| named.is_none_or(|pid| pid == k.owner.pid)) {
        return match here.recall(&kept.owner) {
            Recalled::Lives(owner) => Verdict::Owned { owner, sure: true },
            Recalled::Ended => Verdict::Ended,
            Recalled::Elsewhere => Verdict::Ordinary,
        };
    }
    match named {
        Some(pid) => match Owner::of_pid(pid) {
            Some(owner) => Verdict::Owned { owner, sure: false },
            None => Verdict::Ended,
        },
        None if found.mtime < booted_at() || is_copy(found) => Verdict::Ended,
        None => Verdict::Ordinary,
    }
}

/// Whether a file was made later than it was written: restored with its times from a backup.
fn is_copy(found: &Found) -> bool {
    found.id.born.0 > found.mtime.0.saturating_add(SLACK)
}

/// Whether a process is younger than the file that names it, so that it only has the number of
/// the one that is meant. May wait for the process: never inside a request.
pub fn is_younger(owner: &Owner, written: Stamp) -> bool {
    owner.started().is_some_and(|started| started.0 > written.0 + SLACK)
}

/// The same as [`judge`], and sure of what it says. Never inside a request.
pub fn judge_surely(kind: Kind, found: &Found, kept: Option<&OwnedRow>, here: &Here) -> Verdict {
    match judge(kind, found, kept, here) {
        Verdict::Owned { owner, sure: false } if is_younger(&owner, found.mtime) => Verdict::Ended,
        Verdict::Owned { owner, .. } => Verdict::Owned { owner, sure: true },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Clock, SystemClock};
    use crate::store::ProcessRow;
    use crate::vfs::owned::FileId;

    const ID: FileId = FileId { ino: 5, born: Stamp(9) };

    fn found(content: Content, mtime: Stamp) -> Found {
        Found { id: ID, mtime, content }
    }

    fn kept(owner: ProcessRow) -> OwnedRow {
        let (born, at) = (ID.born, Stamp(0));
        OwnedRow { path: "x".into(), lease: true, ino: ID.ino, born, owner, token: 1, at }
    }

    #[track_caller]
    fn is(verdict: Verdict, what: &str) {
        let got = match verdict {
            Verdict::Ordinary => "ordinary",
            Verdict::Ended => "ended",
            Verdict::Owned { .. } => "owned",
        };
        assert_eq!(got, what);
    }

    #[test]
    fn a_number_counts_only_for_a_process_that_can_have_written_it() {
        let (here, now) = (Here::now(), SystemClock.now());
        let me = std::process::id();
        let judge = |kind, content, mtime| judge_surely(kind, &found(content, mtime), None, &here);
        is(judge(Kind::Lease, Content::Pid(me), now), "owned");
        is(judge(Kind::Lease, Content::Pid(me), Stamp(1)), "ended");
        is(judge(Kind::Marker(me), Content::Pid(me), now), "owned");
        is(judge(Kind::Marker(me), Content::Empty, now), "owned");
        is(judge(Kind::Marker(me), Content::Pid(me + 1), now), "ordinary");
        is(judge(Kind::Marker(me), Content::Other, Stamp(1)), "ordinary");
        is(judge(Kind::Lease, Content::Other, Stamp(1)), "ordinary");
        is(judge(Kind::Lease, Content::Pid(i32::MAX as u32), now), "ended");
        is(judge(Kind::Lease, Content::Empty, now), "ordinary");
        is(judge(Kind::Lease, Content::Empty, Stamp(1)), "ended");
        let restored = Found {
            id: FileId { born: now, ..ID },
            ..found(Content::Empty, Stamp(now.0 - 2 * SLACK))
        };
        is(judge_surely(Kind::Lease, &restored, None, &here), "ended");
    }

    #[test]
    fn what_is_on_record_counts_more_than_a_number() {
        let (here, now) = (Here::now(), SystemClock.now());
        let me = Owner::of_pid(std::process::id()).unwrap();
        let row = here.row(Some(&me));
        let judge = |content, owner: &ProcessRow| {
            judge_surely(Kind::Lease, &found(content, now), Some(&kept(owner.clone())), &here)
        };
        is(judge(Content::Empty, &row), "owned");
        is(judge(Content::Pid(me.pid), &row), "owned");
        let reused = ProcessRow { ident: row.ident - 1, ..row.clone() };
        is(judge(Content::Pid(me.pid), &reused), "ended");
        is(judge(Content::Empty, &reused), "ended");
        let other_boot = ProcessRow { boot: "x".into(), ..row.clone() };
        is(judge(Content::Pid(me.pid), &other_boot), "ended");
        let elsewhere = ProcessRow { pidns: 1, ..row.clone() };
        is(judge(Content::Pid(me.pid), &elsewhere), "ordinary");
        is(judge(Content::Pid(me.pid), &here.row(None)), "ordinary");
        // A copy of an empty one: nobody but the owner on record can be meant.
        let copy = Found { id: FileId { ino: 6, ..ID }, ..found(Content::Empty, now) };
        is(judge_surely(Kind::Lease, &copy, Some(&kept(reused)), &here), "ended");
    }
}
