//! What tests ask the kernel about mounts, without ever touching a mount that may hang.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kernel's device number (`minor`) of the FUSE mount at exactly `path`, from
/// `mountinfo`: `stat` could hang.
fn minor_of(path: &Path) -> Option<u32> {
    // Somebody else's mount point may be no UTF-8.
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    let table = String::from_utf8_lossy(&table);
    table.lines().rev().find_map(|line| {
        let mut fields = line.split(' ');
        let device = fields.nth(2)?;
        let at = fields.nth(1)?;
        (Path::new(at) == path).then(|| device.split(':').nth(1)?.parse().ok())?
    })
}

/// Whether something is mounted at exactly `path` (absolute, no symlinks, no blanks).
pub fn is_mounted(path: &Path) -> bool {
    minor_of(path).is_some()
}

/// Whether the tests run as root, who alone can be several users and mount without help.
pub fn is_root() -> bool {
    // SAFETY: no arguments, no failure.
    unsafe { libc::geteuid() == 0 }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path")
}

/// Takes the mount at `path` out of the tree, even when its daemon is dead or hangs.
pub fn detach(path: &Path) {
    while is_mounted(path) {
        let at = c_path(path);
        // SAFETY: `at` is a NUL-terminated string that outlives the call.
        if unsafe { libc::umount2(at.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) } != 0 {
            let user = std::process::Command::new("fusermount3").arg("-uz").arg(path).status();
            if !user.is_ok_and(|status| status.success()) {
                return;
            }
        }
    }
}

/// Aborts the FUSE connection of the mount at `path`: every request on it, waiting or future,
/// fails. `Ok(false)` when nothing is mounted there.
pub fn abort_connection(path: &Path) -> io::Result<bool> {
    let Some(minor) = minor_of(path) else { return Ok(false) };
    let usual = Path::new("/sys/fs/fuse/connections").join(minor.to_string());
    if usual.is_dir() {
        std::fs::write(usual.join("abort"), "1")?;
        return Ok(true);
    }
    // Nobody mounted the control file system: do it for a moment, in a place of our own.
    let own = tempfile::Builder::new().prefix("instancefs-fusectl-").tempdir()?;
    let (at, kind) = (c_path(own.path()), c"fusectl");
    // SAFETY: all strings are NUL-terminated and outlive the call; fusectl takes no data.
    let mounted = unsafe {
        libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, std::ptr::null::<libc::c_void>())
    };
    if mounted != 0 {
        return Err(io::Error::last_os_error());
    }
    let aborted = std::fs::write(own.path().join(minor.to_string()).join("abort"), "1");
    // SAFETY: as above.
    unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    aborted.map(|()| true)
}
