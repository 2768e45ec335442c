//! Harness for tests on a real mount.
