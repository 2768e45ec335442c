//! Plain files seen from the documents: who writes them, who reads a copy of a document, and
//! copying between the two kinds.

use super::layer::{Backing, Caller, Error, Fh, Layer, Node, Result};
use super::tree::{Fixed, Tree};

/// Bytes copied by one `copy_file_range`.
const COPY_AT_ONCE: u64 = 4 << 20;

/// A place in an open file.
type Spot = (Node, Fh, u64);

impl Tree {
    /// A plain file is about to be written by the caller.
    pub(super) fn plain_written(&self, who: &Caller, node: Node) {
        if self.observed.is_empty() && self.sources.copy_of(node).is_none() {
            return;
        }
        let known = self.sources.last_writer_was(node, who.tid);
        let writer = if known { None } else { self.process(who) };
        self.sources.written(node, who.tid, writer, self.observed.generation());
    }

    pub(super) fn plain_opened(&self, who: &Caller, node: Node, flags: i32) {
        if flags & libc::O_TRUNC != 0 && flags & libc::O_ACCMODE != libc::O_RDONLY {
            self.sources.emptied(node);
            self.plain_written(who, node);
        }
    }

    /// The kernel reads and writes a plain file itself, so what its READ and WRITE would tell has
    /// to be known by other means: who writes is seen when it closes or syncs the file, and
    /// opening the copy of a document is the look at it.
    pub(super) fn plain_backing(
        &self,
        who: &Caller,
        node: Node,
        fh: Fh,
        flags: i32,
    ) -> Option<Backing> {
        if flags & libc::O_ACCMODE != libc::O_WRONLY {
            self.plain_read(who, node, 0);
        }
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            self.sources.opened(node, who.tid);
        }
        self.plain.backing(who, node, fh, flags)
    }

    /// A descriptor of a plain file is closed, or the file is synced, by the caller: what the
    /// kernel has written through it since the last look was written by the caller.
    pub(super) fn plain_closing(&self, who: &Caller, node: Node, fh: Fh) {
        if self.plain.may_write(fh) && self.plain.written_directly(node) {
            self.plain_written(who, node);
        }
    }

    /// The same for a file that is still open while it is renamed: by whoever is on record as
    /// its writer, else by whoever opened it last.
    pub(super) fn plain_renaming(&self, node: Node) {
        if self.plain.written_directly(node) {
            let source = self.sources.get(node).unwrap_or_default();
            let opener = || self.procs.of_thread(source.opener);
            let writer = if source.writer.is_none() { opener() } else { None };
            self.sources.written(node, source.opener, writer, self.observed.generation());
        }
    }

    /// Reading the plain copy of a document is a look at the version that it shows.
    pub(super) fn plain_read(&self, who: &Caller, node: Node, offset: u64) {
        if offset == 0
            && let Some((view, version)) = self.sources.copy_of(node)
        {
            let process = self.process(who);
            self.observed.read(&self.who(who, process.as_ref()), view, &version, self.now());
        }
    }

    /// `copy_file_range`: between plain files as the store can, else by reading and writing.
    pub(super) fn copy_range(
        &self,
        who: &Caller,
        (node_in, fh_in, offset_in): Spot,
        (node_out, fh_out, offset_out): Spot,
        length: u64,
    ) -> Result<u32> {
        let plain = |node| Ok::<_, Error>(self.fixed(node)? == Fixed::Plain);
        if plain(node_in)? && plain(node_out)? {
            let copied = self.plain.copy_file_range(
                who, node_in, fh_in, offset_in, node_out, fh_out, offset_out, length,
            )?;
            self.plain_written(who, node_out);
            return Ok(copied);
        }
        let size = length.min(COPY_AT_ONCE) as u32;
        if let (Fixed::Document(_), true) = (self.fixed(node_in)?, plain(node_out)?)
            && (offset_in, offset_out) == (0, 0)
            && let Some(copied) = self.copy_whole(who, fh_in, node_out, fh_out, size)?
        {
            return Ok(copied);
        }
        let data = self.read(who, node_in, fh_in, offset_in, size)?;
        let mut copied = 0;
        while copied < data.len() {
            let at = offset_out + copied as u64;
            match self.write(who, node_out, fh_out, at, &data[copied..], 0) {
                Ok(0) => break,
                Ok(n) => copied += n as usize,
                Err(_) if copied > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(copied as u32)
    }

    /// Copies a whole document to a plain file without anybody's looking at it: the file is a
    /// copy of the version. `None`: it is too long, or the handle has a text of its own.
    fn copy_whole(
        &self,
        who: &Caller,
        from: Fh,
        node: Node,
        fh: Fh,
        size: u32,
    ) -> Result<Option<u32>> {
        let Some((view, version, content)) = self.doc_version(who, &*self.handle(from)?)? else {
            return Ok(None);
        };
        if content.len() > u64::from(size) || content.is_empty() {
            return Ok(None);
        }
        let data = content.to_vec();
        let mut copied = 0;
        while copied < data.len() {
            match self.plain.write(who, node, fh, copied as u64, &data[copied..], 0)? {
                0 => return Ok(Some(copied as u32)),
                n => copied += n as usize,
            }
        }
        self.sources.copied(node, view, version);
        Ok(Some(copied as u32))
    }

    /// Nothing can be made in or taken from `.instancefs`.
    pub(super) fn forbid_own(&self, parent: Node) -> Result<()> {
        match self.fixed(parent)? {
            Fixed::Plain => Ok(()),
            Fixed::Own => Err(Error::ReadOnly),
            Fixed::Document(_) | Fixed::Link(_) => Err(Error::NotDirectory),
        }
    }
}
