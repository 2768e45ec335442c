//! What is in a directory, as lines that can be compared.

use std::ffi::OsStr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::calls;

/// One line per file below `root`: path, kind, mode, owner, links, size, times that were set,
/// attributes and content.
pub(super) fn describe(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    walk(root, Path::new(""), &mut lines);
    lines
}

fn walk(root: &Path, at: &Path, lines: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(at)) else {
        return lines.push(format!("{}: not readable", at.display()));
    };
    let mut names: Vec<_> = entries.flatten().map(|e| (e.file_name(), e.file_type())).collect();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, listed) in names {
        let path = at.join(&name);
        let full = root.join(&path);
        let Ok(meta) = std::fs::symlink_metadata(&full) else {
            lines.push(format!("{}: listed, but not there", path.display()));
            continue;
        };
        let kind = meta.file_type();
        let listed = listed.is_ok_and(|l| l == kind);
        // The size of a directory is the file system's own affair.
        let size = if kind.is_dir() { 0 } else { meta.size() };
        lines.push(format!(
            "{} {:o} {}:{} links {} size {size} rdev {} listed as such: {listed} {}",
            path.display(),
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.nlink(),
            meta.rdev(),
            content(&full, &meta),
        ));
        if kind.is_dir() {
            walk(root, &path, lines);
        }
    }
}

fn content(path: &Path, meta: &std::fs::Metadata) -> String {
    let kind = meta.file_type();
    if kind.is_symlink() {
        return format!("-> {:?}", std::fs::read_link(path).ok());
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_dir() {
        return calls::attributes(path);
    }
    let bytes = std::fs::read(path).map(|bytes| {
        let hash = Sha256::digest(&bytes);
        format!("{} bytes {:02x?}", bytes.len(), &hash[..8])
    });
    let name = path.file_name().unwrap_or(OsStr::new(""));
    let bytes = bytes.unwrap_or_else(|e| format!("{}: {:?}", name.display(), e.kind()));
    format!("{bytes} {}", calls::attributes(path))
}
