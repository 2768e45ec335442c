//! Reading directories.
//!
//! A handle reads the whole directory when it is read from its start, and serves from that
//! list: cookies are positions in it, so they stay valid whatever is created or removed
//! meanwhile, and `rewinddir` looks again, as POSIX asks.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::RawDir;
use rustix::io::Errno;

use super::handles::DirHandle;
use super::nodes::ROOT;
use crate::vfs::{DirEntry, FileType};

/// So many entries are handed out at once; the caller asks again for more.
const CHUNK: usize = 256;

/// The entries after the first `offset`; empty at the end.
pub(super) fn read(dir: &DirHandle, offset: i64) -> Result<Vec<DirEntry>, Errno> {
    let offset = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
    let list = {
        let mut names = dir.names.lock();
        match &*names {
            Some(list) if offset > 0 => Arc::clone(list),
            _ => {
                let list = Arc::new(list_all(dir)?);
                *names = Some(Arc::clone(&list));
                list
            }
        }
    };
    Ok(list.iter().skip(offset).take(CHUNK).cloned().collect())
}

fn list_all(dir: &DirHandle) -> Result<Vec<DirEntry>, Errno> {
    rustix::fs::seek(&dir.file, rustix::fs::SeekFrom::Start(0))?;
    let mut buffer = vec![MaybeUninit::uninit(); 256 * 1024];
    let mut raw = RawDir::new(&dir.file, &mut buffer);
    let mut out = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        // What is above the mount's root is none of its business.
        let up_from_root = name == ".." && dir.inode.node == ROOT;
        out.push(DirEntry {
            ino: if up_from_root { dir.inode.key.ino } else { entry.ino() },
            kind: kind(dir, name, entry.file_type()),
            name: name.to_owned(),
            next: out.len() as i64 + 1,
        });
    }
    Ok(out)
}

/// Some file systems do not tell the kind here; programs that walk a tree rely on it.
fn kind(dir: &DirHandle, name: &OsStr, kind: rustix::fs::FileType) -> FileType {
    if kind != rustix::fs::FileType::Unknown {
        return super::attr::kind(kind.as_raw_mode());
    }
    if name == "." || name == ".." {
        return FileType::Directory;
    }
    let st = super::beneath::stat_child(&dir.file, name);
    st.map_or(FileType::Regular, |st| super::attr::kind(u32::from(st.stx_mode)))
}
