//! `/proc/self/mountinfo`: what is mounted where, without asking any file system.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountInfo {
    /// Minor device number; for FUSE the number of the connection.
    pub minor: u32,
    /// Where.
    pub point: PathBuf,
    /// `fuse.instancefs`, `ext4`, ...
    pub fstype: String,
    /// `fsname`.
    pub source: String,
}

/// The topmost mount exactly at `point` (absolute, without symlinks).
pub(super) fn at(point: &Path) -> io::Result<Option<MountInfo>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(parse(&text).filter(|m| m.point == point).last())
}

fn parse(text: &[u8]) -> impl Iterator<Item = MountInfo> {
    text.split(|b| *b == b'\n').filter_map(line)
}

/// `36 35 98:0 /root /point options [tags] - type source options` (proc(5)).
fn line(line: &[u8]) -> Option<MountInfo> {
    let mut fields = line.split(|b| *b == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let minor = device.split_once(':')?.1.parse().ok()?;
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut fields = fields.skip_while(|f| *f != b"-").skip(1);
    let text = |f: &[u8]| String::from_utf8_lossy(&unescape(f)).into_owned();
    let (fstype, source) = (text(fields.next()?), text(fields.next().unwrap_or_default()));
    Some(MountInfo { minor, point, fstype, source })
}

/// Space, tab, newline and backslash are written as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'\\').then(|| tail.get(..3)).flatten().and_then(octal);
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc() {
        let text = b"22 27 0:21 / /proc rw,nosuid - proc proc rw\n\
            98 27 0:55 / /mnt/with\\040space\\134x rw shared:3 master:1 - fuse.instancefs a\\040b rw\n\
            broken line\n";
        let all: Vec<_> = parse(text).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].minor, all[0].fstype.as_str()), (21, "proc"));
        assert_eq!(all[1].point, Path::new("/mnt/with space\\x"));
        assert_eq!((all[1].fstype.as_str(), all[1].source.as_str()), ("fuse.instancefs", "a b"));
        assert_eq!(all[1].minor, 55);
    }

    #[test]
    fn proc_is_mounted() {
        let proc = at(Path::new("/proc")).unwrap().unwrap();
        assert_eq!(proc.fstype, "proc");
    }
}
