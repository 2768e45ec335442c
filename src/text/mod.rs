//! Pure algorithms on lines: alignment of two sequences, similarity of two texts.

mod align;
mod blame;
mod similar;

pub use align::{align, longest_increasing};
pub use blame::Blame;
pub use similar::{begins, similarity};
