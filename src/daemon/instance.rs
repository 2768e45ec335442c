//! An open store with its documents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copy;
use super::error::{DaemonError, Result};
use super::journal::Marker;
use super::names;
use crate::documents::Document;
use crate::documents::config::ConfigDocument;
use crate::documents::files::{Rules, StoreRules};
use crate::documents::live::Live;
use crate::documents::managed::{ManagedFiles, StoreDisk};
use crate::documents::missions::{Missions, NestedBullets};
use crate::documents::quarantine::Quarantine;
use crate::model::{Clock, SystemClock};
use crate::store::{Options, Store};
use crate::vfs::both::Both;

/// An open store with its documents.
pub struct Instance {
    /// The store's directory.
    pub dir: PathBuf,
    /// The database.
    pub store: Arc<Store>,
    /// The documents with rows.
    pub live: Arc<Live>,
    /// Which of its files are managed, and what else is set. An `instancefs.toml` that cannot be
    /// used stands for the defaults here; see [`StoreRules::problem`].
    pub rules: Arc<StoreRules>,
    /// All documents, managed files among them.
    pub documents: Arc<Both>,
}

impl Instance {
    /// Opens the store in `dir`. The caller holds its lock.
    pub fn open(dir: &Path) -> Result<Instance> {
        Instance::open_limited(dir, None)
    }

    /// The same with a limit for the `version` of the config, see [`ConfigDocument::new`].
    pub fn open_limited(dir: &Path, config_version_limit: Option<i64>) -> Result<Instance> {
        Instance::make(dir, Store::open(dir, Options::default())?, config_version_limit)
    }

    /// Opens the store in `dir` to look at it: nothing is written, no lock is needed.
    pub fn look(dir: &Path) -> Result<Instance> {
        Instance::with(dir, Store::open(dir, Options { read_only: true, ..Options::default() })?)
    }

    /// The documents of an open store.
    pub fn with(dir: &Path, store: Store) -> Result<Instance> {
        Instance::make(dir, store, None)
    }

    fn make(dir: &Path, store: Store, config_version_limit: Option<i64>) -> Result<Instance> {
        let store = Arc::new(store);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = |problem| DaemonError::Settings { store: dir.to_owned(), problem };
        let rules = Arc::new(StoreRules::lenient(dir).map_err(settings)?);
        let kinds = kinds(dir, config_version_limit, rules.settings().nested_bullets);
        let live = Arc::new(Live::open(Arc::clone(&store), kinds, Arc::clone(&clock))?);
        let disk = StoreDisk::open(dir)?;
        if !store.read_only() {
            disk.clean()?;
        }
        let of_files = Arc::clone(&rules) as Arc<dyn Rules>;
        let managed = ManagedFiles::open(Arc::clone(&store), Arc::new(disk), of_files, clock)?;
        let documents = Both { live: Arc::clone(&live), managed: Arc::new(managed) };
        Ok(Instance { dir: dir.to_owned(), store, live, rules, documents: Arc::new(documents) })
    }
}

/// The document kinds of a store.
fn kinds(
    dir: &Path,
    config_version_limit: Option<i64>,
    nested: NestedBullets,
) -> Vec<Arc<dyn Document>> {
    vec![
        Arc::new(Missions::new(nested)),
        Arc::new(Quarantine),
        Arc::new(ConfigDocument::new(Some(dir.to_owned()), config_version_limit)),
    ]
}

/// Whether a directory is a store: it says so, or its database has our tables.
pub fn is_store(dir: &Path) -> bool {
    let database = dir.join(names::DATABASE);
    if !copy::is_database(&database) {
        return false;
    }
    if matches!(Marker::read(dir), Ok(Some(_))) {
        return true;
    }
    let options = Options { read_only: true, ..Options::default() };
    Store::open(dir, options).is_ok_and(|store| !store.bare())
}

/// Whether a directory says of itself that it is a store, whatever has become of its database.
pub fn is_marked(dir: &Path) -> bool {
    matches!(Marker::read(dir), Ok(Some(_)))
}

/// What is wrong with a store whose database is gone, empty or something else.
pub const NO_DATABASE: &str = "the store's database is gone or is none any more";

/// Fails with a reason when a directory is no store.
pub fn expect_store(dir: &Path) -> Result<()> {
    let reason = if !dir.exists() {
        "no such directory"
    } else if !dir.is_dir() {
        "not a directory"
    } else if is_store(dir) {
        return Ok(());
    } else if is_marked(dir) {
        let path = dir.join(names::DATABASE);
        return Err(DaemonError::InTheWay { path, reason: NO_DATABASE.to_owned() });
    } else {
        "not a store of instancefs"
    };
    Err(DaemonError::NotAStore { path: dir.to_owned(), reason: reason.to_owned() })
}
