//! The quarantine document.
