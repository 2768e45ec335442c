//! A mounted instance that cannot outlive its test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;

use crate::{Actor, Python, Ran, Shell, abort_connection, detach, eventually, is_mounted};

/// What an instance is made from.
pub struct Builder {
    files: Vec<(String, Vec<u8>)>,
    mount_args: Vec<String>,
    watchdog: Duration,
    store_only: bool,
    base: Option<PathBuf>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            files: Vec::new(),
            mount_args: Vec::new(),
            watchdog: Duration::from_secs(120),
            store_only: false,
            base: None,
        }
    }
}

impl Builder {
    /// A file that the store is made from (`init --from`).
    pub fn file(mut self, name: &str, text: impl AsRef<[u8]>) -> Builder {
        self.files.push((name.to_owned(), text.as_ref().to_vec()));
        self
    }

    /// One more argument for every `mount`.
    pub fn mount_arg(mut self, arg: &str) -> Builder {
        self.mount_args.push(arg.to_owned());
        self
    }

    /// After this time the connection is aborted and the test fails. 120 s by default.
    pub fn watchdog(mut self, limit: Duration) -> Builder {
        self.watchdog = limit;
        self
    }

    /// In memory if this machine has a file system there: for tests whose many writes would wait
    /// for the disk, which is not what they test.
    pub fn in_memory(mut self) -> Builder {
        let shm = Path::new("/dev/shm");
        let usable = tempfile::tempdir_in(shm).is_ok();
        self.base = usable.then(|| shm.to_path_buf());
        self
    }

    /// Makes the store, does not mount it yet.
    pub fn unmounted(mut self) -> Builder {
        self.store_only = true;
        self
    }

    /// Makes the store and mounts it.
    #[track_caller]
    pub fn start(self) -> Instance {
        crate::require_fuse();
        let dir = tempfile::Builder::new()
            .prefix("instancefs-test-")
            .tempdir_in(self.base.unwrap_or_else(base_dir))
            .expect("directory for an instance");
        let root = dir.path().to_path_buf();
        std::fs::set_permissions(&root, PermissionsExt::from_mode(0o755)).expect("chmod");
        for name in ["mount", "home", "scratch", "from"] {
            std::fs::create_dir(root.join(name)).expect("mkdir");
        }
        for (name, text) in &self.files {
            let path = root.join("from").join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            std::fs::write(path, text).expect("write");
        }
        let watchdog = Watchdog::start(root.join("mount"), self.watchdog);
        let instance =
            Instance { root, dir: Some(dir), mount_args: self.mount_args, watchdog, files: true };
        let outside = instance.outside();
        let (store, from) = (instance.store(), instance.root.join("from"));
        if self.files.is_empty() {
            outside.instancefs(&["init".as_ref(), store.as_os_str()]).ok();
        } else {
            outside
                .instancefs(&[
                    "init".as_ref(),
                    store.as_os_str(),
                    "--from".as_ref(),
                    from.as_os_str(),
                ])
                .ok();
        }
        if !self.store_only {
            instance.mount();
        }
        instance
    }
}

/// Where instances are made: not under `/tmp`, which vim, Emacs and others treat specially.
fn base_dir() -> PathBuf {
    std::env::var_os("INSTANCEFS_TEST_DIR").map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// A store with its mount, both in a temporary directory. At drop it is unmounted; if that
/// takes more than 10 s its connection is aborted and the test fails.
pub struct Instance {
    root: PathBuf,
    dir: Option<tempfile::TempDir>,
    mount_args: Vec<String>,
    watchdog: Watchdog,
    files: bool,
}

impl Instance {
    /// A builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A mounted instance of a fresh store.
    #[track_caller]
    pub fn fresh() -> Instance {
        Builder::default().start()
    }

    /// A mounted instance made from these files.
    #[track_caller]
    pub fn with(files: &[(&str, &str)]) -> Instance {
        let builder = Builder::default();
        files.iter().fold(builder, |builder, (name, text)| builder.file(name, text)).start()
    }

    /// The store's directory.
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The mount point.
    pub fn mount_point(&self) -> PathBuf {
        self.root.join("mount")
    }

    /// A path in the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.mount_point().join(name)
    }

    /// A path outside the mount, on the store's file system, for files of the test.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.root.join("scratch").join(name)
    }

    /// Someone who works in the mount.
    pub fn actor(&self) -> Actor {
        Actor::new(&self.mount_point(), &self.root.join("home"))
            .env("SCRATCH", self.root.join("scratch"))
            .env("STORE", self.store())
    }

    /// Someone who works outside the mount.
    pub fn outside(&self) -> Actor {
        self.actor().within(&self.root.join("scratch"))
    }

    /// Runs a bash script in the mount, in a session of its own, that must succeed.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        self.actor().bash(script).ok()
    }

    /// A Python process in the mount that does one step at a time.
    pub fn python(&self) -> Python {
        self.actor().python_steps()
    }

    /// A shell in the mount that stays.
    pub fn shell(&self) -> Shell {
        self.actor().shell()
    }

    /// What a stranger reads in a file of the mount.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        self.actor().run("/bin/cat", &[name]).ok()
    }

    /// The same, as bytes of a file that may hold anything.
    #[track_caller]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A stranger appends a line.
    #[track_caller]
    pub fn append(&self, name: &str, line: &str) {
        let script = r#"printf '%s\n' "$1" >> "$0""#;
        self.actor().run("bash", &["-c", script, name, line]).ok();
    }

    /// A stranger reads the file, replaces the first `old` in it by `new` and saves it whole
    /// through the same handle.
    #[track_caller]
    pub fn edit(&self, name: &str, old: &str, new: &str) {
        self.actor().python(EDIT, &[name, old, new]).ok();
    }

    /// The names in a directory of the mount, sorted.
    #[track_caller]
    pub fn names(&self, dir: &str) -> Vec<String> {
        let listed = self.sh(&format!("ls -A1 -- {dir}"));
        listed.lines().map(str::to_owned).collect()
    }

    /// The `.refused` and `.unsaved-` files in the root.
    #[track_caller]
    pub fn kept(&self) -> Vec<String> {
        let mut names = self.names(".");
        names.retain(|name| name.contains(".refused") || name.contains(".unsaved-"));
        names
    }

    /// The text of the only `.refused` of this document.
    #[track_caller]
    pub fn refused(&self, document: &str) -> String {
        let kept = self.kept();
        let prefix = format!("{document}.refused");
        assert_eq!(kept, [prefix.as_str()], "exactly one refused save of {document}");
        String::from_utf8_lossy(&self.bytes(&prefix)).into_owned()
    }

    /// A connection to `missions.db` as another program has it.
    pub fn database(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(self.store().join("missions.db")).expect("database");
        db.busy_timeout(Duration::from_secs(10)).expect("busy timeout");
        db
    }

    /// `(text, state)` of all missions in the order of their sequence.
    pub fn rows(&self) -> Vec<(String, String)> {
        let db = self.database();
        let mut select =
            db.prepare("select text, state from missions order by sequence, id").expect("select");
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        rows.map(|row| row.expect("row")).collect()
    }

    /// The texts of the missions in one state, in the order of their sequence.
    pub fn texts(&self, state: &str) -> Vec<String> {
        self.rows().into_iter().filter(|(_, s)| s == state).map(|(text, _)| text).collect()
    }

    /// How many missions have exactly this text.
    pub fn count(&self, text: &str) -> usize {
        self.rows().iter().filter(|(t, _)| t == text).count()
    }

    /// `mount`, with its result.
    pub fn try_mount(&self) -> Ran {
        let mut args = vec!["mount".into(), self.store(), self.mount_point()];
        args.extend(self.mount_args.iter().map(PathBuf::from));
        self.outside().instancefs(&args)
    }

    /// `mount`, which must succeed.
    #[track_caller]
    pub fn mount(&self) {
        self.try_mount().ok();
        assert!(self.mounted(), "mount returned 0 but nothing is mounted");
    }

    /// Whether the mount point is mounted, dead or alive.
    pub fn mounted(&self) -> bool {
        is_mounted(&self.mount_point())
    }

    /// `unmount`, which must succeed.
    #[track_caller]
    pub fn unmount(&self) {
        let mount = self.mount_point();
        self.outside().instancefs(&["unmount".as_ref(), mount.as_os_str()]).ok();
        assert!(!self.mounted(), "unmount returned 0 but it is still mounted");
    }

    /// Unmounts and mounts again.
    #[track_caller]
    pub fn remount(&self) {
        self.unmount();
        self.mount();
    }

    /// `status --json` of the store.
    #[track_caller]
    pub fn status(&self) -> Value {
        let store = self.store();
        let args = ["status".as_ref(), store.as_os_str(), "--json".as_ref()];
        let text = self.outside().instancefs(&args).ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in status: {text}"))
    }

    /// The daemon's process id, from `status --json`.
    #[track_caller]
    pub fn daemon(&self) -> i32 {
        let status = self.status();
        let pid = find_pid(&status).unwrap_or_else(|| panic!("no pid in status: {status}"));
        assert!(pid > 1, "pid {pid} in {status}");
        pid
    }

    /// `kill -9` of the daemon; returns when it is gone. The mount stays, dead.
    #[track_caller]
    pub fn kill_daemon(&self) {
        let pid = self.daemon();
        signal(pid, libc::SIGKILL);
        eventually("end of the killed daemon", || (!alive(pid)).then_some(()));
    }

    /// `kill -9` of the daemon, without waiting for its end.
    #[track_caller]
    pub fn shoot_daemon(&self) {
        signal(self.daemon(), libc::SIGKILL);
    }

    /// The same of a daemon whose process id is known already; returns when it is gone.
    #[track_caller]
    pub fn shoot(&self, pid: i32) {
        signal(pid, libc::SIGKILL);
        eventually("end of the killed daemon", || (!alive(pid)).then_some(()));
    }

    /// Sends the daemon a signal and waits until it is gone.
    #[track_caller]
    pub fn signal_daemon(&self, number: i32) {
        let pid = self.daemon();
        signal(pid, number);
        eventually("end of the daemon", || (!alive(pid)).then_some(()));
    }

    /// Leaves everything in place for a look at it after the test.
    pub fn keep(&mut self) {
        self.files = false;
    }
}

/// Reads a file, replaces the first occurrence of a text, saves it whole.
const EDIT: &str = "
import sys
name, old, new = sys.argv[1:]
with open(name, newline='') as f: text = f.read()
assert old in text, (old, text)
with open(name, 'w', newline='') as f: f.write(text.replace(old, new, 1))
";

fn find_pid(value: &Value) -> Option<i32> {
    match value {
        Value::Object(map) => map
            .get("pid")
            .and_then(Value::as_i64)
            .and_then(|pid| i32::try_from(pid).ok())
            .or_else(|| map.get("daemon").and_then(find_pid))
            .or_else(|| map.values().find_map(find_pid)),
        _ => None,
    }
}

fn signal(pid: i32, number: i32) {
    // SAFETY: plain kill; the pid is that of the daemon which this instance started.
    unsafe { libc::kill(pid, number) };
}

/// Whether any thread of the process runs. A killed process is a zombie while its threads are
/// still letting go of what they hold; one that nobody reaps counts as gone.
fn alive(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        std::fs::read_to_string(thread.path().join("status"))
            .is_ok_and(|status| !status.contains("State:\tZ") && !status.contains("State:\tX"))
    })
}

impl Drop for Instance {
    fn drop(&mut self) {
        let mount = self.mount_point();
        let mut clean = true;
        if self.mounted() {
            let actor = self.outside().limit(Duration::from_secs(30));
            let unmount =
                || actor.spawn(crate::instancefs(), &["unmount".as_ref(), mount.as_os_str()]);
            let end = std::time::Instant::now() + Duration::from_secs(10);
            let mut leaving = unmount();
            while self.mounted() && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
                if leaving.ended() && self.mounted() {
                    // It met a daemon that was just going: the next one finds it gone.
                    std::thread::sleep(Duration::from_millis(200));
                    leaving = unmount();
                }
            }
            if self.mounted() {
                clean = false;
                let _ = abort_connection(&mount);
                detach(&mount);
            }
        }
        let expired = self.watchdog.stop();
        if self.mounted() || !self.files {
            // Never delete through a mount.
            let kept = self.dir.take().map(tempfile::TempDir::keep);
            eprintln!("left in place: {kept:?}");
        }
        if !std::thread::panicking() {
            assert!(!expired, "the watchdog aborted the mount: something hung");
            assert!(clean, "unmount did not end within 10 s");
        }
    }
}

/// Aborts a mount's connection when its test takes too long, so that nothing hangs for good.
struct Watchdog {
    stop: Sender<()>,
    expired: Arc<AtomicBool>,
}

impl Watchdog {
    fn start(mount: PathBuf, limit: Duration) -> Watchdog {
        let (stop, stopped) = channel::<()>();
        let expired = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&expired);
        std::thread::spawn(move || {
            if stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                flag.store(true, Ordering::SeqCst);
                eprintln!("watchdog: {limit:?} are over, aborting {}", mount.display());
                abort_for_good(&mount);
            }
        });
        Watchdog { stop, expired }
    }

    /// Ends the watch; whether it had to act.
    fn stop(&self) -> bool {
        let _ = self.stop.send(());
        self.expired.load(Ordering::SeqCst)
    }
}

fn abort_for_good(mount: &Path) {
    if let Err(error) = abort_connection(mount) {
        eprintln!("watchdog: {error}");
    }
    detach(mount);
}
