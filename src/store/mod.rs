//! SQLite: connections, migrations, one transaction gate, history.

mod error;

pub use error::StoreError;
