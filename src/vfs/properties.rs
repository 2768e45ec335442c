//! What must hold for any refused text (see [`crate::properties`]).

use std::os::fd::AsFd;

use super::rescue::{Refused, Rescue, refused_text, top_of};
use crate::fs::observed::Who;
use crate::model::{Actor, FileId, Reason, Refusal, Stamp, Via, View};
use crate::properties::parts;

/// The name that was saved, what the refusal says (message, hint, program, a line each), and the
/// refused text: `NAME.refused` is there under a name that fits, and gives back the text alone.
pub fn refused(input: &[u8]) {
    let parts = parts(input);
    for part in parts.iter().chain([&input]) {
        let (lines, text) = refused_text(part);
        assert!(part.ends_with(text) && (lines > 0 || text == *part));
        let above = &part[..part.len() - text.len()];
        assert_eq!(above.iter().filter(|b| **b == b'\n').count(), lines);
        // A file without our lines is all text, and so is what stood under them.
        assert!(lines == 0 || above.starts_with(b"<!-- ") || above.starts_with(b"# "));
    }
    let [name, said, text @ ..] = &parts[..] else { return };
    let name = String::from_utf8_lossy(name);
    let Some(view) = view(name.trim_end_matches('\n')) else { return };
    let said = String::from_utf8_lossy(said).into_owned();
    let mut said = said.split('\n');
    let mut next = || said.next().unwrap_or_default().replace("\\n", "\n");
    let refusal = Refusal {
        line: (text.len() > 1).then_some(7),
        ..Refusal::new(Reason::Invalid, next()).hint(next()).at_key(next())
    };
    let actor = Actor { pid: 7, uid: 0, session: 7, program: next(), via: Via::Mount };
    let place = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let root = std::fs::File::open(place.path()).unwrap_or_else(|e| panic!("{e}"));
    let rescue = Rescue::default();
    let writer = Who { process: None, ancestors: [].into(), uid: 0 };
    let mut names = Vec::new();
    for text in text {
        let now = Stamp(1_800_000_000_000_000_000);
        let refused = Refused {
            view,
            text,
            refusal: &refusal,
            actor: &actor,
            writer: &writer,
            base: None,
            append: text.len() % 2 == 1,
            now,
        };
        let kept = rescue.refuse(root.as_fd(), &refused, None);
        let kept = kept.unwrap_or_else(|e| panic!("{e}: {:?}", view.name()));
        assert!(kept.rsplit('/').next().is_some_and(|n| n.len() <= 255 && n.contains(".refused")));
        let content = std::fs::read(place.path().join(&kept)).unwrap_or_else(|e| panic!("{e}"));
        let (lines, back) = refused_text(&content);
        assert!(lines >= 4 && back == *text, "{:?}", String::from_utf8_lossy(&content));
        assert!(rescue.has(root.as_fd(), &kept, text));
        // The same text again is not kept twice.
        assert_eq!(top_of(&content).append, refused.append);
        let again = rescue.refuse(root.as_fd(), &refused, None);
        assert!(again.is_ok_and(|name| name == kept));
        names.push(kept);
    }
    // What somebody has changed since is not ours any more; the rest goes with a good save.
    let touched = names.first().cloned();
    if let Some(name) = &touched {
        let path = place.path().join(name);
        std::fs::write(&path, b"touched").unwrap_or_else(|e| panic!("{e}"));
    }
    rescue.forgive(root.as_fd(), view, Some(&actor.program), false, &|other| *other == writer);
    for name in names {
        assert_eq!(place.path().join(&name).exists(), touched.as_ref() == Some(&name), "{name:?}");
    }
}

fn view(name: &str) -> Option<View> {
    if let Some(view) = View::from_name(name.as_bytes()) {
        return Some(view);
    }
    // A path that a store can hold; ids of paths are kept for good, so only short ones are new.
    let part = |p: &str| !matches!(p, "" | "." | "..") && p.len() <= 255 && !p.contains('\0');
    let fits = name.len() <= 1000 && name.split('/').all(part);
    fits.then(|| View::File(FileId::of(name)))
}
