//! Sizes of an open document: `fallocate`, `SEEK_DATA`, `SEEK_HOLE`.

use super::handle::DocHandle;
use super::layer::{Caller, Error, Result};
use super::tree::Tree;

impl Tree {
    /// Makes room for `offset..offset + length` (mode 0); keeping the size asks for nothing, and
    /// holes are not supported.
    pub(super) fn doc_fallocate(
        &self,
        who: &Caller,
        h: &DocHandle,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<()> {
        if !h.mode.write {
            return Err(Error::BadHandle);
        }
        let end = offset.checked_add(length).ok_or(Error::TooBig)?;
        if end > self.options.size_limit {
            return Err(Error::TooBig);
        }
        match mode {
            libc::FALLOC_FL_KEEP_SIZE => Ok(()),
            0 => {
                if end > self.doc_size(h)? {
                    self.doc_resize(who, h, end)
                } else {
                    Ok(())
                }
            }
            _ => Err(Error::NotSupported),
        }
    }

    /// The size that this handle sees.
    pub(super) fn doc_size(&self, h: &DocHandle) -> Result<u64> {
        let current = self.docs.current(h.view().doc())?;
        let state = h.state.lock();
        if let Some(text) = state.own_text(h.is_dirty()) {
            return Ok(text.len() as u64);
        }
        Ok(match &state.reading {
            Some((_, content)) if state.at_end.is_none() => content.len(),
            _ => current.view(h.view()).map_or(0, |c| c.len()),
        })
    }

    /// `SEEK_DATA` and `SEEK_HOLE`: a document has no hole but the one at its end.
    pub(super) fn doc_lseek(&self, h: &DocHandle, offset: i64, whence: i32) -> Result<i64> {
        let size = self.doc_size(h)? as i64;
        if offset < 0 || offset >= size {
            return Err(Error::Os(rustix::io::Errno::NXIO));
        }
        match whence {
            libc::SEEK_DATA => Ok(offset),
            libc::SEEK_HOLE => Ok(size),
            _ => Err(Error::Invalid),
        }
    }
}
