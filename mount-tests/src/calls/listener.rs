//! The kernel's side: the filter, the questions, the answers, the memory of whoever asks.

use std::io::{Error, Result};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Verdict, Which, kinds};

const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const CONTINUE: u32 = 1;
/// Where the number of a call stands in what a filter sees.
const NUMBER: u32 = 0;
/// The longest path.
const PATH: usize = 4096;

/// A question of the kernel.
pub(super) struct Asked {
    pub id: u64,
    pub pid: u32,
    pub number: i64,
    pub args: [u64; 6],
}

/// Puts the filter on the calling thread. Asks for no memory: it runs between fork and exec.
pub(super) fn install(which: Which) -> Result<OwnedFd> {
    const MOST: usize = 80;
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let looks = if which == Which::All { kinds::LOOKS } else { &[] };
    let mut program = [statement(0, 0); MOST];
    program[0] = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER);
    let count = kinds::CHANGES.len() + looks.len();
    for (n, number) in kinds::CHANGES.iter().chain(looks).enumerate() {
        program[n + 1] = libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: (count - n) as u8,
            jf: 0,
            k: *number as u32,
        };
    }
    program[count + 1] = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
    program[count + 2] = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF);
    let filter = libc::sock_fprog { len: (count + 3) as u16, filter: program.as_mut_ptr() };
    let try_it = || {
        // SAFETY: the filter is valid for the length of the call, which copies it.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const filter,
            )
        }
    };
    let mut fd = try_it();
    if fd < 0 && Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        // SAFETY: a flag of this thread; only who is not root needs it.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        fd = try_it();
    }
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else knows of.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The next question; `None`: nobody is left who could ask.
pub(super) fn next(fd: &OwnedFd) -> Option<Asked> {
    loop {
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd that lives as long as the call.
        if unsafe { libc::poll(&raw mut poll, 1, -1) } < 0 {
            continue;
        }
        if poll.revents & libc::POLLIN == 0 {
            return None;
        }
        // SAFETY: plain numbers; the kernel wants them to be zero.
        let mut asked: libc::seccomp_notif = unsafe { zeroed() };
        // SAFETY: the kernel fills a structure of its own size.
        if unsafe { libc::ioctl(fd.as_raw_fd(), RECEIVE as _, &raw mut asked) } == 0 {
            let (number, args) = (i64::from(asked.data.nr), asked.data.args);
            return Some(Asked { id: asked.id, pid: asked.pid, number, args });
        }
        // Whoever asked was killed meanwhile.
    }
}

/// Answers a question; too late for somebody who was killed, which is fine.
pub(super) fn answer(fd: &OwnedFd, id: u64, verdict: Verdict) {
    let (error, flags) = match verdict {
        Verdict::Go => (0, CONTINUE),
        Verdict::Fail(errno) => (-errno, 0),
        Verdict::Kill => (-libc::EINTR, 0),
    };
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error, flags };
    // SAFETY: the kernel reads a structure of its own size.
    unsafe { libc::ioctl(fd.as_raw_fd(), SEND as _, &raw mut answer) };
}

/// Memory of a thread that waits for an answer.
pub(super) fn memory(thread: u32, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; len];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: at as *mut _, iov_len: len };
    // SAFETY: the kernel checks the addresses of the other side; ours is a vector of that length.
    let got = unsafe {
        libc::process_vm_readv(thread as i32, &raw const local, 1, &raw const remote, 1, 0)
    };
    bytes.truncate(usize::try_from(got).unwrap_or(0));
    bytes
}

/// A text of it, without the NUL at its end.
pub(super) fn text(thread: u32, at: u64) -> Vec<u8> {
    const PAGE: u64 = 4096;
    let mut all = Vec::new();
    while all.len() < PATH {
        // Page by page: the next one may not be there.
        let from = at + all.len() as u64;
        let part = memory(thread, from, (PAGE - from % PAGE) as usize);
        let end = part.iter().position(|b| *b == 0);
        all.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() || part.is_empty() {
            break;
        }
    }
    all
}

/// Two sockets that know each other.
pub(super) fn socket_pair() -> Result<(OwnedFd, OwnedFd)> {
    let mut pair = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call fills two numbers.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) } != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: new descriptors that nobody else knows of.
    Ok(unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) })
}

/// Room for one descriptor beside a message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Beside([u8; 64]);

/// Sends a descriptor. Asks for no memory.
pub(super) fn send_fd(socket: i32, fd: &OwnedFd) -> Result<()> {
    let mut byte = 0u8;
    let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut beside = Beside([0; 64]);
    // SAFETY: all that the message points to lives until the call returns, and the room beside it
    // is large and aligned enough for one descriptor.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = beside.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(head).cast::<i32>().write_unaligned(fd.as_raw_fd());
        if libc::sendmsg(socket, &raw const message, 0) < 0 {
            return Err(Error::last_os_error());
        }
    }
    Ok(())
}

/// Receives a descriptor.
pub(super) fn receive_fd(socket: &OwnedFd) -> Result<OwnedFd> {
    let mut byte = 0u8;
    let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut beside = Beside([0; 64]);
    // SAFETY: as in `send_fd`; the descriptor that arrives is ours alone.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = beside.0.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Beside>() as _;
        if libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) <= 0 {
            return Err(Error::last_os_error());
        }
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if head.is_null() || (*head).cmsg_type != libc::SCM_RIGHTS {
            return Err(Error::from_raw_os_error(libc::EBADMSG));
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(head).cast::<i32>().read_unaligned()))
    }
}
