//! `/proc/self/mountinfo`: what is mounted where, without asking any file system.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountInfo {
    /// The kernel's number of the mount, as in `/proc/PID/fdinfo` (`mnt_id`).
    pub id: u64,
    /// Device number, major and minor; for FUSE the minor is the number of the connection.
    pub device: (u32, u32),
    /// Where.
    pub point: PathBuf,
    /// `fuse.instancefs`, `ext4`, ...
    pub fstype: String,
    /// What is mounted: a device, for FUSE the `fsname`.
    pub source: PathBuf,
}

/// All mounts of this process's namespace, in mount order: of several at one point the last is
/// the topmost.
pub fn all() -> io::Result<Vec<MountInfo>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The lines of a `mountinfo`; those that cannot be understood are left out.
pub fn parse(text: &[u8]) -> Vec<MountInfo> {
    text.split(|b| *b == b'\n').filter_map(line).collect()
}

/// `36 35 98:0 /root /point options [tags] - type source options` (proc(5)).
fn line(line: &[u8]) -> Option<MountInfo> {
    let mut fields = line.split(|b| *b == b' ');
    let id = text(fields.next()?)?.parse().ok()?;
    let (major, minor) = text(fields.nth(1)?)?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let point = unescape(fields.nth(1)?);
    let mut fields = fields.skip_while(|f| *f != b"-").skip(1);
    let fstype = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next().unwrap_or_default());
    Some(MountInfo { id, device, point, fstype, source })
}

fn text(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

/// The kernel writes blank, tab, newline, `#` and backslash as `\ooo`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\').and_then(text);
        let code = digits.and_then(|d| u8::from_str_radix(d, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc() {
        let text = b"22 27 0:21 / /proc rw,nosuid - proc proc rw\n\
            98 27 0:55 / /mnt/with\\040space\\134x rw shared:3 master:1 - fuse.instancefs a\\040b rw\n\
            99 27 0:56 / /odd\\9 rw - tmpfs  rw\n\
            broken line\n";
        let all = parse(text);
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].device, all[0].fstype.as_str()), ((0, 21), "proc"));
        let ours = MountInfo {
            id: 98,
            device: (0, 55),
            point: "/mnt/with space\\x".into(),
            fstype: "fuse.instancefs".into(),
            source: "a b".into(),
        };
        assert_eq!(all[1], ours);
        assert_eq!(
            (all[2].point.as_os_str(), all[2].source.as_os_str()),
            ("/odd\\9".as_ref(), "".as_ref())
        );
    }

    #[test]
    fn proc_is_mounted() {
        let all = all().unwrap();
        assert!(all.iter().any(|m| m.point == std::path::Path::new("/proc") && m.fstype == "proc"));
    }
}
