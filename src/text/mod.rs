//! Pure algorithms on lines: alignment of two sequences, similarity of two texts.

mod align;
mod similar;

pub use align::{align, longest_increasing};
pub use similar::{begins, similarity};
