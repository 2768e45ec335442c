//! The hidden directory `.instancefs` (semantics section 8): entered by name, never listed.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use super::layer::{Attr, DirEntry, Entry, Error, FileType, Node, Opened, Result};
use super::past::{self, Past};
use super::tables;
use super::tree::{ROOT, Tree};

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

    pub(super) fn own_attr(&self, node: Node) -> Result<Attr> {
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
        Ok(if tables::is_table(node) { self.view_access(node, attr) } else { attr })
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

    pub(super) fn own_open(&self, node: Node, flags: i32) -> Result<Opened> {
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            return Err(Error::ReadOnly);
        }
        let text = self.own_text(node)?;
        let fh = self.new_fh();
        self.texts.lock().insert(fh, Arc::from(text));
        Ok(Opened { fh, direct_io: true, keep_cache: false, cache_dir: false })
    }

    pub(super) fn own_entries(&self) -> Vec<DirEntry> {
        let names = [(".", DIR, FileType::Directory), ("..", ROOT, FileType::Directory)];
        let files = FILES.iter().map(|(name, node)| (*name, *node, FileType::Regular));
        let history = (HISTORY, past::DIR, FileType::Directory);
        let all = names.into_iter().chain(files).chain([history]);
        all.map(|(name, ino, kind)| DirEntry { ino, kind, name: name.into(), next: 0 }).collect()
    }
}
