//! The hidden directory `.instancefs` (semantics section 8): entered by name, never listed.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use super::layer::{Attr, Caller, DirEntry, Entry, Error, Fh, FileType, Node, Opened, Result};
use super::past::{self, Past};
use super::tables;
use super::tree::{ROOT, Tree};
use crate::model::Stamp;
use crate::process::ProcId;

/// `.instancefs`.
pub const DIR: Node = 64;
const README: Node = 65;
const STATUS: Node = 66;

const HISTORY: &str = "history";

const FILES: [(&str, Node); 2] = [("README", README), ("status.json", STATUS)];

const README_TEXT: &str = "\
This directory is a live view of an instancefs store.

missions.md, config.json and config.yaml are rendered from missions.db. Saving one of
them is one transaction: your changes are merged with everybody else's, and a text that
cannot be saved is kept as NAME.refused with the reason on top. Everything else is an
ordinary file.

status.json here tells the state of the mount; `instancefs status` prints it.

history/missions.md/000012.md is missions.md as it was in revision 12. `instancefs log`
says who made it, and `instancefs restore missions.md@12` goes back to it. Managed files
are there by their path: history/memory/notes.md/000013.md.
";

/// A text that somebody has open.
pub(super) struct OpenText {
    node: Node,
    opener: Option<ProcId>,
    text: Arc<[u8]>,
    at: Progress,
}

/// How far an open text has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Not at all: it is still the version that its opener was last told the size of.
    Unread,
    /// It stays as it is.
    Read,
    /// Its last byte: when its opener asks for the size again, the next read moves on too, as
    /// `tail` reads.
    Last,
    /// To its end: the next read moves to the current version.
    Ended,
}

/// Whether the node belongs to the directory, or to the views of rows, which are as read-only.
pub fn is_own(node: Node) -> bool {
    let file = FILES.iter().any(|(_, n)| *n == node);
    node == DIR || file || Past::of(node).is_some() || tables::is_table(node)
}

impl Tree {
    fn own_text(&self, node: Node) -> Result<Vec<u8>> {
        if tables::is_table(node) {
            return self.view_text(node);
        }
        if let Some(past) = Past::of(node) {
            return self.past_text(past);
        }
        match node {
            README => Ok(README_TEXT.as_bytes().to_vec()),
            STATUS => {
                let status = self.status();
                if let Some(writer) = &*self.status_writer.read() {
                    return Ok(writer(&status));
                }
                let mut text = serde_json::to_vec_pretty(&status).unwrap_or_default();
                text.push(b'\n');
                Ok(text)
            }
            DIR => Err(Error::IsDirectory),
            _ => Err(Error::NotFound),
        }
    }

    fn own_attr(&self, node: Node) -> Result<Attr> {
        let (size, time, kind) = match Past::of(node) {
            Some(past) => {
                let (size, time) = self.past_size(past)?;
                (size, time, past.kind())
            }
            None if tables::is_table(node) => {
                let (kind, size, time) = self.view_size(node)?;
                (size, time, kind)
            }
            None if node == DIR => (0, None, FileType::Directory),
            None => (self.own_text(node)?.len() as u64, None, FileType::Regular),
        };
        Ok(self.own_attr_of(node, kind, size, time))
    }

    /// What `stat` shows. A process with a handle that has not read yet will read what it is
    /// told the size of here; what has gone while it is open is as it was.
    pub(super) fn own_getattr(&self, who: &Caller, node: Node) -> Result<Attr> {
        let open = self.texts.lock().values().any(|open| open.node == node);
        if !open {
            return self.own_attr(node);
        }
        let caller = self.process(who).map(|process| process.id);
        let told = self.own_attr(node).and_then(|attr| Ok((attr, self.own_text(node)?)));
        let mut texts = self.texts.lock();
        let mut open = texts.values_mut().filter(|open| open.node == node);
        match told {
            Ok((mut attr, text)) => {
                attr.size = text.len() as u64;
                attr.blocks = attr.size.div_ceil(512);
                let text: Arc<[u8]> = Arc::from(text);
                for open in open.filter(|o| caller.is_some() && o.opener == caller) {
                    match open.at {
                        Progress::Unread => open.text = Arc::clone(&text),
                        Progress::Last => open.at = Progress::Ended,
                        Progress::Read | Progress::Ended => {}
                    }
                }
                Ok(attr)
            }
            Err(Error::NotFound) => {
                let left = open.next().ok_or(Error::NotFound)?;
                let mut attr =
                    self.own_attr_of(node, FileType::Regular, left.text.len() as u64, None);
                attr.nlink = 0;
                Ok(attr)
            }
            Err(e) => Err(e),
        }
    }

    fn own_attr_of(&self, node: Node, kind: FileType, size: u64, time: Option<Stamp>) -> Attr {
        let dir = kind == FileType::Directory;
        let now = time.unwrap_or_else(|| self.now());
        let attr = Attr {
            ino: node,
            size,
            blocks: size.div_ceil(512),
            atime: now,
            mtime: now,
            ctime: now,
            kind,
            perm: match kind {
                FileType::Directory => 0o555,
                FileType::Symlink => 0o777,
                _ => 0o444,
            },
            nlink: if dir { 2 } else { 1 },
            uid: self.options.uid,
            gid: self.options.gid,
            rdev: 0,
            blksize: 4096,
        };
        match Past::of(node) {
            _ if tables::is_table(node) => self.view_access(node, attr),
            Some(past) => self.past_access(past, attr),
            // What was refused stands in it.
            None if node == STATUS => Attr { perm: 0o400, ..attr },
            None => attr,
        }
    }

    pub(super) fn own_entry(&self, node: Node) -> Result<Entry> {
        let attr = self.own_attr(node)?;
        let ttl = Duration::ZERO;
        Ok(Entry { node, generation: 0, attr, attr_ttl: ttl, entry_ttl: ttl })
    }

    pub(super) fn own_lookup(&self, parent: Node, name: &OsStr) -> Result<Entry> {
        if tables::is_table(parent) {
            return self.view_lookup(parent, name);
        }
        if let Some(dir) = Past::of(parent) {
            return self.own_entry(self.past_lookup(dir, name)?.node());
        }
        if parent != DIR {
            return Err(Error::NotDirectory);
        }
        if name == HISTORY {
            return self.own_entry(past::DIR);
        }
        let found = FILES.iter().find(|(n, _)| OsStr::new(n) == name);
        self.own_entry(found.ok_or(Error::NotFound)?.1)
    }

    pub(super) fn own_open(&self, who: &Caller, node: Node, flags: i32) -> Result<Opened> {
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            return Err(Error::ReadOnly);
        }
        let text = self.own_text(node)?;
        let opener = self.process(who).map(|process| process.id);
        let open = OpenText { node, opener, text: Arc::from(text), at: Progress::Unread };
        let fh = self.new_fh();
        self.texts.lock().insert(fh, open);
        Ok(Opened { fh, direct_io: true, keep_cache: false, cache_dir: false })
    }

    /// Reads one version until its end, then the current one (R1). What has gone meanwhile is
    /// read as it was.
    pub(super) fn own_read(&self, node: Node, fh: Fh, offset: u64, size: u32) -> Result<Vec<u8>> {
        let ended = {
            let texts = self.texts.lock();
            texts.get(&fh).ok_or(Error::BadHandle)?.at == Progress::Ended
        };
        let newer: Option<Arc<[u8]>> = match ended {
            true => match self.own_text(node) {
                Ok(text) => Some(Arc::from(text)),
                Err(Error::NotFound) => None,
                Err(e) => return Err(e),
            },
            false => None,
        };
        let mut texts = self.texts.lock();
        let open = texts.get_mut(&fh).ok_or(Error::BadHandle)?;
        if let Some(newer) = newer {
            open.text = newer;
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(open.text.len());
        let to = from.saturating_add(size as usize).min(open.text.len());
        open.at = match to == open.text.len() {
            true if from == to && size > 0 => Progress::Ended,
            true => Progress::Last,
            false => Progress::Read,
        };
        Ok(open.text[from..to].to_vec())
    }

    pub(super) fn own_entries(&self) -> Vec<DirEntry> {
        let names = [(".", DIR, FileType::Directory), ("..", ROOT, FileType::Directory)];
        let files = FILES.iter().map(|(name, node)| (*name, *node, FileType::Regular));
        let history = (HISTORY, past::DIR, FileType::Directory);
        let all = names.into_iter().chain(files).chain([history]);
        all.map(|(name, ino, kind)| DirEntry { ino, kind, name: name.into(), next: 0 }).collect()
    }
}
