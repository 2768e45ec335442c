//! Asking a mount whether it answers.
//!
//! A thread that asks a mount whose daemon hangs cannot be killed: the kernel waits for the answer
//! of a request that was read already. With such a thread a process never ends, and whoever waits
//! for it, or for the end of its output, waits for good. So a child asks, which shares nothing with
//! this process and is left behind when it gets no answer.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// What `statfs` of the path says, which no cache answers: `Err` is its error.
///
/// `Ok(None)`: no answer within `patience`.
pub fn statfs(path: &Path, patience: Duration) -> io::Result<Option<Result<(), Errno>>> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let (told, tell) = io::pipe()?;
    let child = ask(&path, &tell)?;
    drop(tell);
    let answer = hear(&told, patience);
    // Who has answered is about to end; for anybody else nobody waits.
    let patiently = if matches!(answer, Ok(Some(_))) { 0 } else { libc::WNOHANG };
    // SAFETY: plain calls with the number of a child that nobody else waits for; one that hangs in
    // the kernel is not waited for, and is reaped by init when this process ends.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), patiently);
    }
    answer
}

/// Forks the child; its process id.
fn ask(path: &CString, tell: &PipeWriter) -> io::Result<libc::pid_t> {
    let tell = tell.as_raw_fd();
    // SAFETY: between `fork` and `_exit` the child makes only calls that are safe after a fork of
    // a process with threads: system calls on memory that was there before, no allocation, no lock.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // Nothing that others wait for the end of stays open in it.
                if tell != 0 {
                    libc::dup2(tell, 0);
                }
                libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32);
                libc::setsid();
                let mut room = std::mem::MaybeUninit::<libc::statfs>::uninit();
                let done = libc::statfs(path.as_ptr(), room.as_mut_ptr());
                let errno: i32 = if done == 0 { 0 } else { *libc::__errno_location() };
                let bytes = errno.to_ne_bytes();
                libc::write(0, bytes.as_ptr().cast(), bytes.len());
                libc::_exit(0)
            }
            child => Ok(child),
        }
    }
}

fn hear(told: &PipeReader, patience: Duration) -> io::Result<Option<Result<(), Errno>>> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let wait = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()) as _,
        };
        let mut fds = [PollFd::new(told, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&wait)) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let mut bytes = [0u8; 4];
    match rustix::io::read(told, &mut bytes)? {
        4 => match i32::from_ne_bytes(bytes) {
            0 => Ok(Some(Ok(()))),
            errno => Ok(Some(Err(Errno::from_raw_os_error(errno)))),
        },
        // It was killed before it could say anything.
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_told() {
        let patience = Duration::from_secs(10);
        assert_eq!(statfs(Path::new("/"), patience).unwrap(), Some(Ok(())));
        let nowhere = statfs(Path::new("/no/such/place"), patience).unwrap();
        assert_eq!(nowhere, Some(Err(Errno::NOENT)));
        assert!(statfs(Path::new("a\0b"), patience).is_err());
    }
}
