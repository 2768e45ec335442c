//! Texts that could not be saved, kept as ordinary files beside the document (R7, rule 7).

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::documents::Version;
use crate::fs::observed::Who;
use crate::model::{Actor, Refusal, Rev, Stamp, View};

/// Files of one kind beside one document, at most. After that the oldest one makes room, of the
/// same program if it has any.
const NUMBERS: u32 = 100;
/// Files of ours from which on it is looked whether they are still there.
const REMEMBERED: usize = 256;
/// Bytes that a name may have.
const NAME_MAX: usize = 255;

struct KeptFile {
    view: View,
    name: String,
    program: String,
    writer: Who,
    text: u64,
    append: bool,
    base: Option<Arc<Version>>,
    /// Inode number, size and modification time as written: a file that somebody has touched
    /// since is not ours any more.
    stamp: (u64, u64, i64, i64),
}

/// A text that was refused.
pub struct Refused<'r> {
    /// The name that was saved.
    pub view: View,
    /// What was written.
    pub text: &'r [u8],
    /// Why it was refused.
    pub refusal: &'r Refusal,
    /// Who has written it.
    pub actor: &'r Actor,
    /// The same, as a writer.
    pub writer: &'r Who,
    /// What it was compared with; `None`: with nothing.
    pub base: Option<&'r Arc<Version>>,
    /// It was to be added at the end.
    pub append: bool,
    /// When.
    pub now: Stamp,
}

/// The `.refused` files of this daemon's life.
#[derive(Default)]
pub struct Rescue {
    kept: Mutex<Vec<KeptFile>>,
}

impl Rescue {
    /// Writes `NAME.refused`: reason, place, hint and merge base on top, then the text. `again`: the
    /// file that an earlier refusal of the same handle left; it is replaced. The same text by the
    /// same program is kept once. Answers with the name.
    pub fn refuse(
        &self,
        root: BorrowedFd<'_>,
        refused: &Refused<'_>,
        again: Option<&str>,
    ) -> std::io::Result<String> {
        let Refused { view, text, actor, writer, .. } = *refused;
        let mut kept = self.kept.lock();
        let hash = hash(text);
        if let Some(old) = again {
            remove(root, &mut kept, |k| k.name == old && k.writer == *writer);
        }
        let same = |k: &&KeptFile| {
            k.view == view && k.text == hash && k.program == actor.program && k.writer == *writer
        };
        if let Some(old) = kept.iter().find(same)
            && stamp(root, &old.name) == Some(old.stamp)
        {
            return Ok(old.name.clone());
        }
        let mut content = header(refused);
        content.extend_from_slice(text);
        if kept.len() >= REMEMBERED {
            kept.retain(|k| stamp(root, &k.name) == Some(k.stamp));
        }
        let wanted = format!("{}.refused", view.name());
        let name = match write_new(root, &wanted, &content, actor.uid) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                self::make_room(root, &mut kept, view, actor, &wanted)?;
                write_new(root, &wanted, &content, actor.uid)?
            }
            written => written?,
        };
        if let Some(stamp) = stamp(root, &name) {
            kept.push(KeptFile {
                view,
                name: name.clone(),
                program: actor.program.clone(),
                writer: writer.clone(),
                text: hash,
                append: refused.append,
                base: refused.base.map(Version::bare),
                stamp,
            });
        }
        Ok(name)
    }

    /// What the text in a file was compared with, if the file is a `.refused` that was kept.
    pub fn base_of(&self, name: &str) -> Option<(View, Arc<Version>)> {
        let kept = self.kept.lock();
        let found = kept.iter().find(|k| k.name == name)?;
        Some((found.view, found.base.clone()?))
    }

    /// Whether the file still holds just this text.
    pub fn has(&self, root: BorrowedFd<'_>, name: &str, text: &[u8]) -> bool {
        let hash = hash(text);
        let kept = self.kept.lock();
        let file = kept.iter().find(|k| k.name == name && k.text == hash);
        file.is_some_and(|k| stamp(root, name) == Some(k.stamp))
    }

    /// A good save of the document: the `.refused` files go that the same program caused (`None`: any,
    /// because it was one of them that was saved), as far as their writer `is_kin`. What was to be
    /// appended stays when something else was appended (`append`): it is nowhere else. Answers with
    /// their names.
    pub fn forgive(
        &self,
        root: BorrowedFd<'_>,
        view: View,
        program: Option<&str>,
        append: bool,
        is_kin: &dyn Fn(&Who) -> bool,
    ) -> Vec<String> {
        let mut kept = self.kept.lock();
        remove(root, &mut kept, |k| {
            let caused = program.is_none_or(|program| k.program == program);
            let stays = append && k.append;
            k.view.doc() == view.doc() && caused && !stays && is_kin(&k.writer)
        })
    }

    /// The file that a refusal of a handle left goes with that handle's good save. Its name may have
    /// become that of somebody else's since.
    pub fn forgive_file(&self, root: BorrowedFd<'_>, name: &str, writer: &Who) -> Vec<String> {
        remove(root, &mut self.kept.lock(), |k| k.name == name && k.writer == *writer)
    }

    /// Writes `NAME.unsaved-PID` with the text as it is. Answers with the name.
    pub fn unsaved(
        &self,
        root: BorrowedFd<'_>,
        view: View,
        text: &[u8],
        actor: &Actor,
    ) -> std::io::Result<String> {
        write_new(root, &format!("{}.unsaved-{}", view.name(), actor.pid), text, actor.uid)
    }
}

fn remove(
    root: BorrowedFd<'_>,
    kept: &mut Vec<KeptFile>,
    which: impl Fn(&KeptFile) -> bool,
) -> Vec<String> {
    let mut removed = Vec::new();
    kept.retain(|k| {
        if !which(k) {
            return true;
        }
        if stamp(root, &k.name) == Some(k.stamp)
            && let Err(e) = place(root, &k.name)
                .and_then(|(dir, name)| rustix::fs::unlinkat(dir, name, AtFlags::empty()))
        {
            log::warn!("{}: {e}", k.name);
        }
        removed.push(k.name.clone());
        false
    });
    removed
}

/// Removes the oldest `.refused` of a document: one that the same program caused, else one that
/// anybody did, else whatever has such a name.
fn make_room(
    root: BorrowedFd<'_>,
    kept: &mut Vec<KeptFile>,
    view: View,
    actor: &Actor,
    wanted: &str,
) -> std::io::Result<()> {
    let ours = |k: &&KeptFile| k.view == view && stamp(root, &k.name) == Some(k.stamp);
    let oldest = kept.iter().filter(ours).find(|k| k.program == actor.program);
    let oldest = oldest.or_else(|| kept.iter().find(ours)).map(|k| k.name.clone());
    let oldest = oldest.or_else(|| {
        let names = (1..=NUMBERS).map(|number| numbered(&reachable(root, wanted), number));
        let dated = names.filter_map(|name| Some((stamp(root, &name)?, name)));
        dated.min_by_key(|((_, _, s, ns), _)| (*s, *ns)).map(|(_, name)| name)
    });
    let Some(oldest) = oldest else { return Err(rustix::io::Errno::EXIST.into()) };
    let (dir, name) = place(root, &oldest)?;
    rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    kept.retain(|k| k.name != oldest);
    log::error!("{oldest}: removed, there are {NUMBERS} refused texts of {}", view.name());
    Ok(())
}

fn hash(text: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut h = DefaultHasher::new();
    text.hash(&mut h);
    h.finish()
}

fn stamp(root: BorrowedFd<'_>, name: &str) -> Option<(u64, u64, i64, i64)> {
    let (dir, name) = place(root, name).ok()?;
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_ino, stat.st_size as u64, stat.st_mtime as i64, stat.st_mtime_nsec as i64))
}

/// The directory and the name of a path below the root. No symlink is followed to it.
fn place<'n>(root: BorrowedFd<'_>, path: &'n str) -> rustix::io::Result<(OwnedFd, &'n str)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    let mut rest = path;
    while let Some((name, below)) = rest.split_once('/') {
        dir = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
        rest = below;
    }
    Ok((dir, rest))
}

/// Creates the first free one of `name`, `name-2`, `name-3` …
fn write_new(
    root: BorrowedFd<'_>,
    name: &str,
    content: &[u8],
    uid: u32,
) -> std::io::Result<String> {
    let name = &reachable(root, name);
    let (dir, _) = place(root, name)?;
    for number in 1..=NUMBERS {
        let name = numbered(name, number);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = match rustix::fs::openat(
            &dir,
            last(&name),
            flags | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        ) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::EXIST) => continue,
            Err(e) => return Err(e.into()),
        };
        if rustix::process::geteuid().is_root() {
            // The text belongs to whoever wrote it; if that cannot be had, to the daemon.
            let _ = rustix::fs::fchown(fd.as_fd(), Some(rustix::fs::Uid::from_raw(uid)), None);
        }
        let mut file = std::fs::File::from(fd);
        let written = file.write_all(content).and_then(|()| file.sync_data());
        if let Err(e) = written {
            let _ = rustix::fs::unlinkat(&dir, last(&name), AtFlags::empty());
            return Err(e);
        }
        return Ok(name);
    }
    Err(rustix::io::Errno::EXIST.into())
}

fn numbered(name: &str, number: u32) -> String {
    match number {
        1 => fitting(name),
        _ => format!("{}-{number}", fitting(name)),
    }
}

/// The path, without those last directories that are not there (any more).
fn reachable(root: BorrowedFd<'_>, path: &str) -> String {
    let mut path = path.to_owned();
    while let Some((dir, name)) = path.rsplit_once('/')
        && place(root, &path).is_err()
    {
        path = match dir.rsplit_once('/') {
            Some((above, _)) => format!("{above}/{name}"),
            None => name.to_owned(),
        };
    }
    path
}

/// The path with a last name that leaves room for a number.
fn fitting(path: &str) -> String {
    let name = last(path);
    let over = name.len().saturating_sub(NAME_MAX - 5);
    if over == 0 {
        return path.to_owned();
    }
    // What is cut stands before the ending that says what it is.
    let ending = name.rfind(".refused").or(name.rfind(".unsaved-")).unwrap_or(name.len());
    let mut cut = ending.saturating_sub(over);
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{}{}", &path[..path.len() - name.len()], &name[..cut], &name[ending..])
}

fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Ends the lines on top of a `.refused`.
const LAST_LINE: &str = "the refused text follows this line";
/// Says that the text was an append.
const APPENDED: &str = "it was to be added at the end";
/// Says what the text was compared with.
const BASE: &str = "compared with revision ";
/// There are no more lines on top than this.
const TOP_LINES: usize = 9;

/// What stands on top of a `.refused`, and the text below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top<'t> {
    /// Lines above the text; 0: a file without our lines is all text.
    pub lines: usize,
    /// The revision that the text was compared with.
    pub base: Option<Rev>,
    /// It was to be added at the end.
    pub append: bool,
    /// The text.
    pub text: &'t [u8],
}

/// Whether a text begins as a `.refused` does.
pub fn may_be_refused(text: &[u8]) -> bool {
    let begins = |top: &str| {
        let n = top.len().min(text.len());
        n > 0 && text[..n] == top.as_bytes()[..n]
    };
    begins("# instancefs: this save of ") || begins("<!-- instancefs: this save of ")
}

/// Reads the content of a `.refused` file.
pub fn top_of(content: &[u8]) -> Top<'_> {
    let all = Top { lines: 0, base: None, append: false, text: content };
    let mut top = all;
    let mut rest = content;
    for n in 1..=TOP_LINES {
        let end = rest.iter().position(|b| *b == b'\n').map_or(rest.len(), |n| n + 1);
        let (line, after) = rest.split_at(end);
        let line = String::from_utf8_lossy(line);
        let ours = line.starts_with("<!-- ") || line.starts_with("# ");
        if !ours || (n == 1 && !line.contains("instancefs: this save of ")) {
            break;
        }
        let said = line.trim_end();
        let said =
            said.strip_prefix("# ").or_else(|| said.strip_prefix("<!-- ")?.strip_suffix(" -->"));
        // A reason or a hint may say the same words.
        match said {
            Some(LAST_LINE) => return Top { lines: n, text: after, ..top },
            Some(APPENDED) => top.append = true,
            Some(said) => {
                let rev = said.strip_prefix(BASE).and_then(|rev| rev.parse().ok());
                top.base = rev.map(Rev).or(top.base);
            }
            None => {}
        }
        rest = after;
    }
    all
}

/// The text in the content of a `.refused` file and the number of lines above it.
pub fn refused_text(content: &[u8]) -> (usize, &[u8]) {
    let top = top_of(content);
    (top.lines, top.text)
}

/// The lines on top of a `.refused`, as comments where the format has any.
fn header(refused: &Refused<'_>) -> Vec<u8> {
    let Refused { view, refusal, actor, now, .. } = *refused;
    let mut lines = vec![
        format!("instancefs: this save of {} was refused, nothing was changed", view.name()),
        format!("reason: {refusal}"),
    ];
    if let Some(line) = refusal.line {
        lines.push(format!("line: {line} of the text below"));
    }
    if !refusal.hint.is_empty() {
        lines.push(format!("hint: {}", refusal.hint));
    }
    lines.push(format!("when: {}, by {}", now.iso(), actor.named()));
    match (refused.append, refused.base) {
        (true, _) => lines.push(APPENDED.to_owned()),
        (false, Some(base)) => lines.push(format!("{BASE}{}", base.rev)),
        (false, None) => {}
    }
    lines.push(LAST_LINE.to_owned());
    let mut out = String::new();
    for line in lines {
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if view.name().ends_with(".md") {
            out.push_str("<!-- ");
            out.push_str(&line.replace("--", "- -"));
            out.push_str(" -->\n");
        } else {
            out.push_str("# ");
            out.push_str(&line);
            out.push('\n');
        }
    }
    out.into_bytes()
}
