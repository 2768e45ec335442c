//! Pure algorithms on lines: alignment of two sequences, similarity of two texts, what
//! became of the lines of one.

mod align;
mod blame;
mod changes;
mod similar;

pub use align::{align, longest_increasing};
pub use blame::Blame;
pub use changes::{Change, changes};
pub use similar::{begins, similarity};
