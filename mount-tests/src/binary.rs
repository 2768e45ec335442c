//! Where the binary under test is, and whether this machine can mount at all.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The package's own directory (`mount-tests`).
fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with the small programs that tests run on the mount.
pub fn programs_dir() -> PathBuf {
    package_dir().join("programs")
}

/// The `instancefs` binary: `INSTANCEFS_BIN`, else the one that the workspace built beside the
/// running test. Panics when it is missing or older than the sources, since testing a stale
/// binary proves nothing.
pub fn instancefs() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("INSTANCEFS_BIN") {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "INSTANCEFS_BIN={} is not a file", path.display());
            return path;
        }
        let me = std::env::current_exe().expect("own path");
        let mut dir = me.parent().expect("own directory");
        if dir.file_name().is_some_and(|name| name == "deps") {
            dir = dir.parent().expect("profile directory");
        }
        let binary = dir.join("instancefs");
        let built = binary.metadata().and_then(|meta| meta.modified()).unwrap_or_else(|error| {
            panic!("{}: {error}; build it first: make build", binary.display())
        });
        let root = package_dir().parent().expect("workspace");
        let newest = newest(&root.join("src")).max(modified(&root.join("Cargo.toml")));
        assert!(built >= newest, "{} is older than its sources: make build", binary.display());
        binary
    })
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn newest(dir: &Path) -> SystemTime {
    let Ok(entries) = dir.read_dir() else { return SystemTime::UNIX_EPOCH };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => newest(&entry.path()),
            _ => modified(&entry.path()),
        })
        .max()
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Panics with what to do when this machine has no usable `/dev/fuse`.
pub fn require_fuse() {
    if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/fuse") {
        panic!(
            "/dev/fuse: {error}; mount tests need it (modprobe fuse, or in a container: \
             --device /dev/fuse --cap-add SYS_ADMIN); scripts/setup.sh tries"
        );
    }
}
