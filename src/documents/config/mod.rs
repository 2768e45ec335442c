//! The config document.
