//! Getting a mounted `/dev/fuse`: by mount(2) where we may, else by `fusermount3`.

use std::ffi::CString;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::{MountError, MountOptions};
use crate::fuse::FSTYPE;

const DEVICE: &str = "/dev/fuse";

/// Programs that mount for ordinary users: that of FUSE 3, then that of FUSE 2.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts at `point` and returns the connection.
pub(super) fn mount(point: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    if !Path::new(DEVICE).exists() {
        return Err(MountError::NoFuse);
    }
    match direct(point, options) {
        Err(Errno::PERM | Errno::ACCESS) => by_helper(point, options),
        Err(e) => Err(MountError::Failed { point: point.to_owned(), source: e.into() }),
        Ok(device) => Ok(device),
    }
}

fn direct(point: &Path, options: &MountOptions) -> Result<OwnedFd, Errno> {
    let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, options.read_only);
    rustix::mount::mount(options.fsname.as_str(), point, FSTYPE, flags, Some(data.as_c_str()))?;
    Ok(device)
}

/// The request that makes a second descriptor of a connection (linux/fuse.h).
const CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);

/// Whether the connection can have more descriptors, each with a queue of its own for what has
/// been taken to be answered. Tried, because a session that cannot would end at once: the device
/// may be closed to us, who were given this descriptor.
pub(super) fn can_be_cloned(device: &OwnedFd) -> bool {
    let open = || rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let cloned = open().and_then(|second| {
        let number = device.as_raw_fd().cast_unsigned();
        // SAFETY: the request reads one number of a descriptor and keeps nothing of ours.
        unsafe { rustix::ioctl::ioctl(&second, rustix::ioctl::Setter::<CLONE, u32>::new(number)) }
    });
    if let Err(e) = &cloned {
        log::info!("all event loops share one descriptor: {e}");
    }
    cloned.is_ok()
}

fn by_helper(point: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let failed = |source| MountError::Failed { point: point.to_owned(), source };
    let mut list = "nosuid,nodev,default_permissions,subtype=instancefs".to_owned();
    // A comma would end the option.
    list.push_str(&format!(",fsname={}", options.fsname.replace('\\', "\\\\").replace(',', "\\,")));
    for (on, name) in [(options.allow_other, ",allow_other"), (options.read_only, ",ro")] {
        if on {
            list.push_str(name);
        }
    }
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    for helper in HELPERS {
        // It sends the device over the socket whose number it is told: its stdin.
        let child = Command::new(helper)
            .args(["-o", &list, "--"])
            .arg(point)
            .env("_FUSE_COMMFD", "0")
            .stdin(OwnedFd::from(theirs.try_clone().map_err(failed)?))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(failed(e)),
        };
        drop(theirs);
        let device = receive(&ours);
        let output = child.wait_with_output().map_err(failed)?;
        return match device {
            Ok(Some(device)) => Ok(device),
            Ok(None) | Err(_) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let own_name = format!("{helper}: ");
                let text = said.trim().trim_start_matches(&own_name).to_owned();
                if text.contains("user_allow_other") {
                    Err(MountError::AllowOtherForbidden)
                } else {
                    Err(MountError::Helper { helper, text })
                }
            }
        };
    }
    Err(MountError::NoHelper)
}

/// The descriptor that comes over the socket; `None` when it is closed instead.
fn receive(socket: &UnixStream) -> Result<Option<OwnedFd>, Errno> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut data = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            return Ok(fds.into_iter().next());
        }
    }
    Ok(None)
}

/// How to take a mount away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmounting {
    /// Only if nobody uses it.
    Plain,
    /// Out of sight now, gone when nobody uses it.
    Lazy,
    /// Out of sight now, and every request in it fails.
    Forced,
}

/// Unmounts whatever is at `point`.
pub(super) fn unmount(point: &Path, how: Unmounting) -> Result<(), MountError> {
    let flags = match how {
        Unmounting::Plain => UnmountFlags::NOFOLLOW,
        Unmounting::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        Unmounting::Forced => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE,
    };
    match rustix::mount::unmount(point, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy),
        Err(Errno::PERM) => unmount_by_helper(point, how),
        Err(e) => Err(MountError::Failed { point: point.to_owned(), source: e.into() }),
    }
}

fn unmount_by_helper(point: &Path, how: Unmounting) -> Result<(), MountError> {
    for helper in HELPERS {
        let mut command = Command::new(helper);
        command.arg("-u");
        if how != Unmounting::Plain {
            command.arg("-z");
        }
        match command.arg("--").arg(point).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(if text.contains("busy") {
                    MountError::Busy
                } else {
                    MountError::Helper { helper, text }
                });
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(MountError::Failed { point: point.to_owned(), source: e }),
        }
    }
    Err(MountError::NoHelper)
}
