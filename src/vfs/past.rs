//! `.instancefs/history`: one directory for each name of a document, one read-only file for
//! each revision (semantics section 8).
//!
//! A revision never changes, so its node follows from its number and nothing is kept open for
//! it. What retention takes away is gone at the next look.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

use parking_lot::Mutex;

use super::layer::{Attr, DirEntry, Error, FileType, Node, Result};
use super::own_dir;
use super::tree::Tree;
use crate::documents::Content;
use crate::model::{DocId, FileId, Rev, Stamp, View};

/// `.instancefs/history`.
pub const DIR: Node = 68;
const FIRST_VIEW: Node = 72;
const FIRST_ALIAS: Node = 80;
/// Nodes of revisions have this bit; plain nodes count up from far below.
const FILE: Node = 1 << 62;
const VIEW_SHIFT: u32 = 56;
/// Nodes of revisions of managed files have this one as well, and the file's number above that
/// of the revision.
const MANAGED_FILE: Node = FILE | 1 << 61;
const NUMBER_SHIFT: u32 = 32;
/// The directories of a managed file's revisions and, with [`FILE`], those above.
const MANAGED_DIR: Node = 1 << 63;
/// Entries handed out at once.
const AT_ONCE: usize = 512;
/// Sizes that are remembered.
const SIZES: usize = 1 << 16;

/// A node of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// The directory of directories.
    Root,
    /// A directory with managed files below, by its path.
    Folder(FileId),
    /// The revisions of one name.
    Names(View),
    /// A link from the name of a document to that of its first view.
    Alias(DocId),
    /// One revision.
    File(View, Rev),
}

/// Sizes of revisions: they never change, and rendering one only to be `stat`ed is dear.
#[derive(Default)]
pub struct Sizes(Mutex<HashMap<(View, Rev), u64>>);

impl Past {
    /// What the node is, if it is one of the history.
    pub fn of(node: Node) -> Option<Past> {
        if node == DIR {
            return Some(Past::Root);
        }
        let file = |number: Node| FileId::from_number(u32::try_from(number).ok()?);
        if node & MANAGED_DIR != 0 {
            return match node & FILE {
                0 => file(node & !MANAGED_DIR).map(|f| Past::Names(View::File(f))),
                _ => file(node & !MANAGED_DIR & !FILE).map(Past::Folder),
            };
        }
        if node & MANAGED_FILE == MANAGED_FILE {
            let of = file((node & !MANAGED_FILE) >> NUMBER_SHIFT)?;
            return Some(Past::File(View::File(of), Rev(node & ((1 << NUMBER_SHIFT) - 1))));
        }
        if node & FILE != 0 {
            let view = View::ALL.get(((node & !FILE) >> VIEW_SHIFT) as usize)?;
            return Some(Past::File(*view, Rev(node & ((1 << VIEW_SHIFT) - 1))));
        }
        let at = |first: Node| node.checked_sub(first).and_then(|i| usize::try_from(i).ok());
        let view = at(FIRST_VIEW).and_then(|i| View::ALL.get(i)).map(|v| Past::Names(*v));
        view.or_else(|| at(FIRST_ALIAS).and_then(|i| DocId::ALL.get(i)).map(|d| Past::Alias(*d)))
    }

    /// Its number.
    pub fn node(self) -> Node {
        let place = |at: Option<usize>| at.unwrap_or(0) as Node;
        let of_view = |view| place(View::ALL.iter().position(|v| *v == view));
        match self {
            Past::Root => DIR,
            Past::Folder(path) => MANAGED_DIR | FILE | Node::from(path.number()),
            Past::Names(View::File(file)) => MANAGED_DIR | Node::from(file.number()),
            Past::File(View::File(file), rev) => {
                MANAGED_FILE | Node::from(file.number()) << NUMBER_SHIFT | rev.0
            }
            Past::Names(view) => FIRST_VIEW + of_view(view),
            Past::Alias(doc) => FIRST_ALIAS + place(DocId::ALL.iter().position(|d| *d == doc)),
            Past::File(view, rev) => FILE | of_view(view) << VIEW_SHIFT | rev.0,
        }
    }

    /// Its kind.
    pub fn kind(self) -> FileType {
        match self {
            Past::Root | Past::Folder(_) | Past::Names(_) => FileType::Directory,
            Past::Alias(_) => FileType::Symlink,
            Past::File(..) => FileType::Regular,
        }
    }
}

/// `000123.md`: sorted by name they are sorted by number.
fn file_name(view: View, rev: Rev) -> String {
    let name = view.name().rsplit_once('/').map_or(view.name(), |(_, name)| name);
    match name.rsplit_once('.') {
        Some((_, extension)) => format!("{:06}.{extension}", rev.0),
        None => format!("{:06}", rev.0),
    }
}

/// The revision with this file name; a number has one spelling only.
fn revision(view: View, name: &OsStr) -> Option<Rev> {
    let name = name.to_str()?;
    let number = name.split_once('.').map_or(name, |(number, _)| number);
    let rev = Rev(number.parse().ok()?);
    let most = if view.doc().file().is_some() { NUMBER_SHIFT } else { VIEW_SHIFT };
    (rev.0 < 1 << most && file_name(view, rev) == name).then_some(rev)
}

fn alias_target(doc: DocId) -> &'static str {
    doc.views().next().map_or("", View::name)
}

/// Where the directory of a managed file's path, or that of a directory, is.
fn above(path: FileId) -> Past {
    let folder = path.path().rsplit_once('/').map(|(folder, _)| FileId::of(folder));
    folder.map_or(Past::Root, Past::Folder)
}

impl Tree {
    /// What stands for the managed files on record in the directory with this path: under their
    /// names, the directories among them once.
    fn managed_children(&self, folder: &str) -> Result<BTreeMap<String, Past>> {
        let mut children = BTreeMap::new();
        for file in self.docs.files_on_record()? {
            let below = match folder {
                "" => Some(file.path()),
                _ => file.path().strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
            };
            // More than fit into a node cannot be shown.
            let Some(below) = below.filter(|_| file.number() >> (61 - NUMBER_SHIFT) == 0) else {
                continue;
            };
            match below.split_once('/') {
                None => {
                    children.insert(below.to_owned(), Past::Names(View::File(file)));
                }
                Some((name, rest)) => {
                    let path = &file.path()[..file.path().len() - rest.len() - 1];
                    // A file that was there before the directory has the name.
                    let folder = || Past::Folder(FileId::of(path));
                    children.entry(name.to_owned()).or_insert_with(folder);
                }
            }
        }
        Ok(children)
    }

    fn managed_past(&self, folder: &str, name: &OsStr) -> Result<Past> {
        let name = name.to_str().ok_or(Error::NotFound)?;
        self.managed_children(folder)?.get(name).copied().ok_or(Error::NotFound)
    }

    pub(super) fn past_lookup(&self, dir: Past, name: &OsStr) -> Result<Past> {
        match dir {
            Past::Root => {
                let view = View::ALL.into_iter().find(|v| name == v.name()).map(Past::Names);
                let alias = || DocId::ALL.into_iter().find(|d| name == d.as_str());
                match view.or_else(|| alias().map(Past::Alias)) {
                    Some(past) => Ok(past),
                    None => self.managed_past("", name),
                }
            }
            Past::Folder(path) => self.managed_past(path.path(), name),
            Past::Names(view) => {
                let rev = revision(view, name).ok_or(Error::NotFound)?;
                Ok(Past::File(view, rev))
            }
            Past::Alias(_) | Past::File(..) => Err(Error::NotDirectory),
        }
    }

    /// Size and time of a node; `None` for a time: now.
    pub(super) fn past_size(&self, past: Past) -> Result<(u64, Option<Stamp>)> {
        match past {
            Past::Root | Past::Folder(_) => Ok((0, None)),
            Past::Names(view) => Ok((0, Some(self.docs.cached(view.doc()).mtime))),
            Past::Alias(doc) => Ok((alias_target(doc).len() as u64, None)),
            Past::File(view, rev) => {
                let made = self.docs.made(view.doc(), rev)?.ok_or(Error::NotFound)?;
                let known = self.past_sizes.0.lock().get(&(view, rev)).copied();
                let size = match known {
                    Some(size) => size,
                    None => self.past_content(view, rev)?.len(),
                };
                Ok((size, Some(made)))
            }
        }
    }

    /// The bytes of a revision.
    pub(super) fn past_text(&self, past: Past) -> Result<Vec<u8>> {
        match past {
            Past::Root | Past::Folder(_) | Past::Names(_) => Err(Error::IsDirectory),
            Past::Alias(_) => Err(Error::Invalid),
            Past::File(view, rev) => {
                self.docs.made(view.doc(), rev)?.ok_or(Error::NotFound)?;
                Ok(self.past_content(view, rev)?.to_vec())
            }
        }
    }

    fn past_content(&self, view: View, rev: Rev) -> Result<Content> {
        let content = self.docs.text_at(view, rev)?.ok_or(Error::NotFound)?;
        let mut sizes = self.past_sizes.0.lock();
        if sizes.len() >= SIZES {
            sizes.clear();
        }
        sizes.insert((view, rev), content.len());
        Ok(content)
    }

    pub(super) fn past_link(&self, past: Past) -> Result<OsString> {
        match past {
            Past::Alias(doc) => Ok(alias_target(doc).into()),
            _ => Err(Error::Invalid),
        }
    }

    /// Old texts may be read by whoever may read the document now; those of what is gone by the
    /// mount's owner alone.
    pub(super) fn past_access(&self, past: Past, attr: Attr) -> Attr {
        let (mode, uid, gid) = match past {
            Past::Root | Past::Alias(_) => return attr,
            Past::Folder(path)
            | Past::Names(View::File(path))
            | Past::File(View::File(path), _) => match self.path_access(path) {
                Some(access) => access,
                None => (0o400, attr.uid, attr.gid),
            },
            Past::Names(view) | Past::File(view, _) => self.names.access(view),
        };
        let read = mode & 0o444;
        // A directory that may be entered by whoever could reach a file in it, or read it.
        let enter = match past {
            Past::Folder(_) if mode & 0o111 != 0 => mode & 0o111,
            Past::File(..) => 0,
            _ => read >> 2,
        };
        Attr { perm: (read | enter) as u16, uid, gid, ..attr }
    }

    /// Mode and owner of what the store has under a path, through real directories only.
    fn path_access(&self, path: FileId) -> Option<(u32, u32, u32)> {
        use rustix::fs::{Mode, OFlags, ResolveFlags};
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd =
            rustix::fs::openat2(self.root(), path.path(), flags, Mode::empty(), resolve).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        Some((stat.st_mode, stat.st_uid, stat.st_gid))
    }

    /// Entries after the cookie `offset`. Of revisions the cookie is the number (and two for
    /// the dots), so that it holds while others come and go.
    pub(super) fn past_entries(&self, past: Past, offset: i64) -> Result<Vec<DirEntry>> {
        let entry = |past: Past, name: OsString, next: i64| DirEntry {
            ino: past.node(),
            kind: past.kind(),
            name,
            next,
        };
        let up = match past {
            Past::Root => own_dir::DIR,
            Past::Folder(path) | Past::Names(View::File(path)) => above(path).node(),
            _ => DIR,
        };
        let up = DirEntry { ino: up, kind: FileType::Directory, name: "..".into(), next: 2 };
        let mut entries = vec![entry(past, ".".into(), 1), up];
        entries.retain(|e| e.next > offset);
        match past {
            Past::Root => {
                let views = View::ALL.into_iter().map(|v| (Past::Names(v), v.name()));
                let docs = DocId::ALL.into_iter().map(|d| (Past::Alias(d), d.as_str()));
                let fixed = views.chain(docs).map(|(past, name)| (name.to_owned(), past));
                let all = fixed.chain(self.managed_children("")?).zip(3..);
                let all = all.map(|((name, past), next)| entry(past, name.into(), next));
                entries.extend(all.filter(|e| e.next > offset));
            }
            Past::Folder(path) => {
                let all = self.managed_children(path.path())?.into_iter().zip(3..);
                let all = all.map(|((name, past), next)| entry(past, name.into(), next));
                entries.extend(all.filter(|e| e.next > offset));
            }
            Past::Names(view) => {
                let after = Rev(u64::try_from(offset.saturating_sub(2)).unwrap_or(0));
                for (rev, _) in self.docs.numbers(view.doc(), after, AT_ONCE)? {
                    let next = i64::try_from(rev.0).unwrap_or(i64::MAX - 2) + 2;
                    let name = file_name(view, rev).into();
                    entries.push(entry(Past::File(view, rev), name, next));
                }
            }
            Past::Alias(_) | Past::File(..) => return Err(Error::NotDirectory),
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_names_stand_for_one_thing() {
        let mut all = vec![Past::Root];
        all.extend(View::ALL.map(Past::Names));
        all.extend(DocId::ALL.map(Past::Alias));
        let file = FileId::of("memory/notes.md");
        all.extend([Past::Names(View::File(file)), Past::Folder(FileId::of("memory"))]);
        for view in View::ALL {
            all.extend([0, 1, 999_999, 1 << 40].map(|n| Past::File(view, Rev(n))));
        }
        all.extend([0, 1, 1 << 31].map(|n| Past::File(View::File(file), Rev(n))));
        for (n, past) in all.iter().enumerate() {
            assert_eq!(Past::of(past.node()), Some(*past));
            assert!(all[..n].iter().all(|p| p.node() != past.node()));
        }
        for node in [1, 16, 32, own_dir::DIR, 65, 66, 67, 76, 1 << 16, 1 << 40] {
            assert_eq!(Past::of(node), None, "{node}");
        }
        assert_eq!(crate::vfs::managed::file_of(Past::Names(View::File(file)).node()), None);
        assert_eq!(above(file), Past::Folder(FileId::of("memory")));
        assert_eq!(above(FileId::of("memory")), Past::Root);
        let bare = View::File(FileId::of("a.b/noext"));
        assert_eq!(file_name(bare, Rev(3)), "000003");
        assert_eq!(revision(bare, OsStr::new("000003")), Some(Rev(3)));
        let view = View::ConfigJson;
        assert_eq!(file_name(view, Rev(12)), "000012.json");
        assert_eq!(revision(view, OsStr::new("1234567.json")), Some(Rev(1_234_567)));
        for bad in ["12.json", "000012.yaml", "0000012.json", "000012", "x.json", "+00012.json"] {
            assert_eq!(revision(view, OsStr::new(bad)), None, "{bad}");
        }
    }
}
