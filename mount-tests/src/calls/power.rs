//! What may be on the device after a power loss.
//!
//! [`Journal`] writes down what is done to the files below a directory. [`Journal::after_loss`]
//! makes from it what a file system may show when power went after some of these events: names
//! come and go in order, but the latest changes of them may be missing; the content of a file is
//! there as far as it was synced, and what was written after that is there, missing, there in
//! part, torn between sectors, or, in a database, there out of order. A sync of anything makes all
//! changes of names before it durable, as journaling file systems have it. Nothing else orders
//! content against names: a file that was not synced may be empty under its new name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Call, Kind};

/// What a device writes whole or not at all.
const SECTOR: usize = 512;
/// What a file grows by.
const PAGE: usize = 4096;

/// One thing that was done.
#[derive(Debug, Clone)]
enum Event {
    Write { path: PathBuf, offset: u64, data: Vec<u8> },
    Truncate { path: PathBuf, size: u64 },
    Sync { path: PathBuf, all: bool },
    Create { path: PathBuf, truncate: bool },
    Mkdir { path: PathBuf },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: Option<PathBuf>, no_replace: bool, exchange: bool },
    Link { from: PathBuf, to: PathBuf },
    Symlink { path: PathBuf, target: OsString },
}

#[derive(Debug, Clone)]
enum Node {
    File(usize),
    Directory,
    Symlink(OsString),
}

type Tree = BTreeMap<PathBuf, Node>;

/// What was there at first and everything that was done since.
pub struct Journal {
    tree: Tree,
    contents: Vec<Vec<u8>>,
    events: Vec<Event>,
}

/// A small generator (xorshift64*), so that a seed gives the same states everywhere.
pub struct Dice(u64);

impl Dice {
    /// The dice of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to `n - 1`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        number as usize % n.max(1)
    }
}

/// Shared memory is not on the device.
fn volatile(path: &Path) -> bool {
    path.as_os_str().to_string_lossy().ends_with("-shm")
}

/// Its own checksums and syncs are all that a database trusts in.
fn database(path: &Path) -> bool {
    let name = path.as_os_str().to_string_lossy();
    name.ends_with(".db") || name.ends_with("-wal") || name.ends_with("-journal")
}

impl Journal {
    /// Begins with what is below a directory, all of it durable.
    pub fn of(root: &Path) -> io::Result<Journal> {
        let mut journal = Journal { tree: Tree::new(), contents: Vec::new(), events: Vec::new() };
        journal.read(root, Path::new(""))?;
        Ok(journal)
    }

    fn read(&mut self, root: &Path, below: &Path) -> io::Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            let kind = entry.file_type()?;
            let node = if kind.is_dir() {
                self.read(root, &path)?;
                Node::Directory
            } else if kind.is_symlink() {
                Node::Symlink(fs::read_link(entry.path())?.into_os_string())
            } else if kind.is_file() && !volatile(&path) {
                self.contents.push(fs::read(entry.path())?);
                Node::File(self.contents.len() - 1)
            } else {
                continue;
            };
            self.tree.insert(path, node);
        }
        Ok(())
    }

    /// How much has been written down.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Where syncs stand in it: the number of events up to and with each.
    pub fn syncs(&self) -> Vec<usize> {
        let all = self.events.iter().enumerate();
        all.filter(|(_, e)| matches!(e, Event::Sync { .. })).map(|(n, _)| n + 1).collect()
    }

    /// Where files get a name that another program may look for, likewise.
    pub fn renames(&self) -> Vec<usize> {
        let all = self.events.iter().enumerate();
        let named = |e: &Event| matches!(e, Event::Rename { .. } | Event::Link { .. });
        all.filter(|(_, e)| named(e)).map(|(n, _)| n + 1).collect()
    }

    /// The event after the first `n` in words, for a report.
    pub fn describe(&self, n: usize) -> String {
        let Some(event) = self.events.get(n) else { return "the end".to_owned() };
        match event {
            Event::Write { path, offset, data } => {
                format!("write {} at {offset}, {} bytes", path.display(), data.len())
            }
            other => format!("{other:?}"),
        }
    }

    /// Writes down a call that is about to be made and will succeed.
    pub fn note(&mut self, call: &Call) {
        let path = call.path.clone();
        let event = match call.kind {
            _ if volatile(&path) => return,
            Kind::Write { .. } => Event::Write { path, offset: call.offset(), data: call.data() },
            Kind::Truncate => Event::Truncate { path, size: call.size() },
            Kind::Sync { all } => Event::Sync { path, all },
            Kind::Create { truncate, .. } => Event::Create { path, truncate },
            Kind::Mkdir => Event::Mkdir { path },
            Kind::Unlink | Kind::Rmdir => Event::Remove { path },
            Kind::Rename { no_replace, exchange } => {
                Event::Rename { from: path, to: call.to.clone(), no_replace, exchange }
            }
            Kind::Link => match &call.to {
                Some(to) => Event::Link { from: path, to: to.clone() },
                None => return,
            },
            Kind::Symlink => Event::Symlink { path, target: call.target() },
            Kind::StartWriting
            | Kind::Attributes
            | Kind::Copy
            | Kind::Open
            | Kind::Read
            | Kind::Ask => return,
        };
        self.events.push(event);
    }

    /// Makes in `target`, an empty directory, what may be there when power went after the first
    /// `count` events. The dice decide about everything that is not durable.
    pub fn after_loss(&self, count: usize, dice: &mut Dice, target: &Path) -> io::Result<()> {
        let mut disk = Disk::new(self);
        for event in self.events.iter().take(count) {
            disk.happens(event);
        }
        disk.lose_power(&self.tree, dice, target)
    }

    /// The same when everything of the first `count` events has come to the device.
    pub fn complete(&self, count: usize, target: &Path) -> io::Result<()> {
        let mut disk = Disk::new(self);
        for event in self.events.iter().take(count) {
            disk.happens(event);
        }
        disk.sync_all();
        disk.lose_power(&self.tree, &mut Dice::new(0), target)
    }

    /// The same as [`Journal::complete`] with the first pages of the write that follows: a process
    /// that is killed may leave off there. `false`: no write follows that has several.
    pub fn killed_within(&self, count: usize, dice: &mut Dice, target: &Path) -> io::Result<bool> {
        let Some(Event::Write { path, offset, data }) = self.events.get(count) else {
            return Ok(false);
        };
        let first = PAGE - *offset as usize % PAGE;
        if data.len() <= first {
            return Ok(false);
        }
        let cut = first + dice.below((data.len() - first).div_ceil(PAGE)) * PAGE;
        let mut disk = Disk::new(self);
        for event in self.events.iter().take(count) {
            disk.happens(event);
        }
        let data = data[..cut].to_vec();
        disk.happens(&Event::Write { path: path.clone(), offset: *offset, data });
        disk.sync_all();
        disk.lose_power(&self.tree, dice, target)?;
        Ok(true)
    }
}

/// What is done to a file's content.
#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

struct File {
    durable: Vec<u8>,
    pending: Vec<Change>,
    database: bool,
}

/// A change of names.
#[derive(Debug, Clone)]
enum Naming {
    Put(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
}

struct Disk {
    files: Vec<File>,
    /// What programs see.
    tree: Tree,
    naming: Vec<Naming>,
    /// How many of them are durable.
    durable: usize,
}

impl Disk {
    fn new(journal: &Journal) -> Disk {
        let file = |content: &Vec<u8>| File {
            durable: content.clone(),
            pending: Vec::new(),
            database: false,
        };
        let mut files: Vec<File> = journal.contents.iter().map(file).collect();
        for (path, node) in &journal.tree {
            if let Node::File(n) = node {
                files[*n].database = database(path);
            }
        }
        Disk { files, tree: journal.tree.clone(), naming: Vec::new(), durable: 0 }
    }

    fn file(&mut self, path: &Path) -> Option<&mut File> {
        match self.tree.get(path) {
            Some(Node::File(n)) => self.files.get_mut(*n),
            _ => None,
        }
    }

    fn name(&mut self, naming: Naming) {
        apply(&mut self.tree, &naming);
        self.naming.push(naming);
    }

    fn sync_all(&mut self) {
        self.files.iter_mut().for_each(File::sync);
        self.durable = self.naming.len();
    }

    fn happens(&mut self, event: &Event) {
        match event {
            Event::Write { path, offset, data } => {
                if let Some(file) = self.file(path) {
                    file.pending.push(Change::Write(*offset, data.clone()));
                }
            }
            Event::Truncate { path, size } => {
                if let Some(file) = self.file(path) {
                    file.pending.push(Change::Truncate(*size));
                }
            }
            Event::Sync { all: true, .. } => self.sync_all(),
            Event::Sync { path, .. } => {
                if let Some(file) = self.file(path) {
                    file.sync();
                }
                self.durable = self.naming.len();
            }
            Event::Create { path, truncate } => match self.file(path) {
                Some(file) if *truncate => file.pending.push(Change::Truncate(0)),
                Some(_) => {}
                None => {
                    let (durable, pending) = (Vec::new(), Vec::new());
                    self.files.push(File { durable, pending, database: database(path) });
                    self.name(Naming::Put(path.clone(), Node::File(self.files.len() - 1)));
                }
            },
            Event::Mkdir { path } if !self.tree.contains_key(path) => {
                self.name(Naming::Put(path.clone(), Node::Directory));
            }
            Event::Symlink { path, target } if !self.tree.contains_key(path) => {
                self.name(Naming::Put(path.clone(), Node::Symlink(target.clone())));
            }
            Event::Mkdir { .. } | Event::Symlink { .. } => {}
            Event::Remove { path } => {
                let empty = !self.tree.keys().any(|p| p != path && p.starts_with(path));
                if empty && self.tree.contains_key(path) {
                    self.name(Naming::Remove(path.clone()));
                }
            }
            Event::Rename { from, to: Some(to), no_replace, exchange } => {
                let (has_from, has_to) = (self.tree.contains_key(from), self.tree.contains_key(to));
                if *exchange && has_from && has_to {
                    self.name(Naming::Exchange(from.clone(), to.clone()));
                } else if !*exchange && has_from && !(*no_replace && has_to) {
                    self.name(Naming::Rename(from.clone(), to.clone()));
                }
            }
            // Out of the directory.
            Event::Rename { from, to: None, .. } => self.name(Naming::Remove(from.clone())),
            Event::Link { from, to } => {
                if let (Some(node), None) = (self.tree.get(from).cloned(), self.tree.get(to)) {
                    self.name(Naming::Put(to.clone(), node));
                }
            }
        }
    }

    fn lose_power(mut self, first: &Tree, dice: &mut Dice, target: &Path) -> io::Result<()> {
        let kept = match dice.below(3) {
            0 => self.durable,
            1 => self.naming.len(),
            _ => self.durable + dice.below(self.naming.len() - self.durable + 1),
        };
        let mut tree = first.clone();
        self.naming[..kept].iter().for_each(|naming| apply(&mut tree, naming));
        for file in &mut self.files {
            file.lose(dice);
        }
        let mut made: BTreeMap<usize, PathBuf> = BTreeMap::new();
        for (path, node) in &tree {
            let path = target.join(path);
            match node {
                Node::Directory => fs::create_dir_all(path)?,
                Node::Symlink(to) => std::os::unix::fs::symlink(to, path)?,
                Node::File(n) => match made.get(n) {
                    Some(first) => fs::hard_link(first, path)?,
                    None => {
                        fs::write(&path, &self.files[*n].durable)?;
                        made.insert(*n, path);
                    }
                },
            }
        }
        Ok(())
    }
}

fn apply(tree: &mut Tree, naming: &Naming) {
    match naming {
        Naming::Put(path, node) => {
            tree.insert(path.clone(), node.clone());
        }
        Naming::Remove(path) => {
            take(tree, path);
        }
        Naming::Rename(from, to) => {
            let moved = take(tree, from);
            take(tree, to);
            put(tree, moved, from, to);
        }
        Naming::Exchange(a, b) => {
            let (from_a, from_b) = (take(tree, a), take(tree, b));
            put(tree, from_a, a, b);
            put(tree, from_b, b, a);
        }
    }
}

/// Takes a name out with all that is below it.
fn take(tree: &mut Tree, path: &Path) -> Vec<(PathBuf, Node)> {
    let of = |p: &PathBuf| p.starts_with(path);
    let names: Vec<PathBuf> = tree.keys().filter(|p| of(p)).cloned().collect();
    names.into_iter().filter_map(|p| tree.remove(&p).map(|node| (p, node))).collect()
}

fn put(tree: &mut Tree, nodes: Vec<(PathBuf, Node)>, from: &Path, to: &Path) {
    for (path, node) in nodes {
        let rest = path.strip_prefix(from).unwrap_or(Path::new(""));
        // Joining nothing would add a slash.
        let path = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
        tree.insert(path, node);
    }
}

impl File {
    fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        pending.iter().for_each(|change| change.apply(&mut self.durable));
    }

    /// Decides about what was not synced.
    fn lose(&mut self, dice: &mut Dice) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let kept = match dice.below(4) {
            0 => 0,
            1 => pending.len(),
            _ => dice.below(pending.len() + 1),
        };
        let out_of_order = self.database && dice.below(2) == 0;
        for (n, change) in pending.iter().enumerate() {
            let whole = if out_of_order { dice.below(2) == 0 } else { n < kept };
            if whole {
                change.apply(&mut self.durable);
            } else if (n == kept || out_of_order) && dice.below(2) == 0 {
                change.tear(&mut self.durable, self.database, dice);
            }
        }
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Truncate(size) => content.resize(*size as usize, 0),
            Change::Write(offset, data) => write(content, *offset as usize, data),
        }
    }

    /// A part of it.
    fn tear(&self, content: &mut Vec<u8>, database: bool, dice: &mut Dice) {
        let Change::Write(offset, data) = self else { return };
        let start = *offset as usize;
        if !database && start + data.len() > content.len() {
            // A file shows no more than has come to the device.
            let pages = dice.below((start + data.len()).div_ceil(PAGE) + 1) * PAGE;
            let part = pages.saturating_sub(start).min(data.len());
            if part > 0 && start <= content.len() {
                write(content, start, &data[..part]);
            }
            return;
        }
        let mut at = start;
        while at < start + data.len() {
            let end = ((at / SECTOR + 1) * SECTOR).min(start + data.len());
            if dice.below(2) == 0 {
                write(content, at, &data[at - start..end - start]);
            }
            at = end;
        }
    }
}

fn write(content: &mut Vec<u8>, at: usize, data: &[u8]) {
    if content.len() < at + data.len() {
        content.resize(at + data.len(), 0);
    }
    content[at..at + data.len()].copy_from_slice(data);
}
