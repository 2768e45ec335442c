//! The adapter to the kernel: decode, call, reply, notify.
