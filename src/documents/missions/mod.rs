//! The missions document.
