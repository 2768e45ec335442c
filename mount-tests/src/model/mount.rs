//! A mount to do a sequence to: the actors are Python processes in sessions of their own.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::ops::{ACTORS, Doc, Way};
use super::real::{Answer, Real, Stat};
use crate::{Instance, Python};

/// What each actor does its steps with: `F` are its open files.
const TOOLS: &str = "
F = {}
def put(fd, data, at):
    while data:
        n = os.pwrite(fd, data, at)
        data, at = data[n:], at + n
def save(name, way, data):
    if way == 'rename':
        with open(name + '.new', 'wb') as f:
            f.write(data)
        os.rename(name + '.new', name)
        return
    fd = os.open(name, os.O_WRONLY | (os.O_APPEND if way == 'append' else os.O_TRUNC))
    os.write(fd, data)
    os.close(fd)
";

/// An instance with its actors.
pub struct Mounted {
    it: Instance,
    actors: Vec<Python>,
    rows: Option<rusqlite::Connection>,
    since: Instant,
}

impl Mounted {
    /// A fresh one.
    pub fn fresh() -> Mounted {
        let it = Instance::builder().in_memory().watchdog(Duration::from_secs(600)).start();
        let actors = (0..ACTORS).map(|_| actor(&it)).collect();
        Mounted { it, actors, rows: None, since: Instant::now() }
    }

    fn path(&self, name: &str) -> String {
        format!("{:?}", self.it.path(name).to_str().expect("UTF-8"))
    }

    fn call(&mut self, who: usize, code: &str) -> Answer<()> {
        self.actors[who].attempt(code).map_err(|e| {
            assert!(e.errno != 0, "{code}: {e:?}");
            e.errno
        })
    }

    /// The files of the last mount are gone with it.
    fn forget_files(&mut self) {
        let close = "for fd in F.values():\n  try: os.close(fd)\n  except OSError: pass\nF.clear()";
        self.actors.iter_mut().for_each(|actor| actor.run(close));
    }

    fn database(&mut self) -> &rusqlite::Connection {
        let it = &self.it;
        self.rows.get_or_insert_with(|| it.database())
    }
}

/// A process whose working directory is outside of the mount, so that it outlives it, and that is
/// nobody's kin: whoever looks at the documents here would be its parent.
fn actor(it: &Instance) -> Python {
    let mut python = it.outside().python_steps();
    python.leave();
    python.run(TOOLS);
    python
}

/// Bytes as Python has them.
fn bytes(bytes: &[u8]) -> String {
    let all: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
    format!("b'{all}'")
}

impl Real for Mounted {
    fn exact(&self) -> bool {
        false
    }

    fn now(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    fn open(&mut self, who: usize, slot: usize, name: &str, flags: i32) -> Answer<()> {
        let path = self.path(name);
        self.call(who, &format!("F[{slot}] = os.open({path}, {flags}, 0o644)"))
    }

    fn read(&mut self, who: usize, slot: usize, offset: u64, size: usize) -> Answer<Vec<u8>> {
        self.call(who, &format!("R = os.pread(F[{slot}], {size}, {offset})"))?;
        let text = self.actors[who].text("R");
        Ok(text.chars().map(|c| c as u8).collect())
    }

    fn write(&mut self, who: usize, slot: usize, offset: u64, data: &[u8]) -> Answer<()> {
        self.call(who, &format!("put(F[{slot}], {}, {offset})", bytes(data)))
    }

    fn truncate(&mut self, who: usize, slot: usize, size: u64) -> Answer<()> {
        self.call(who, &format!("os.ftruncate(F[{slot}], {size})"))
    }

    fn fsync(&mut self, who: usize, slot: usize) -> Answer<()> {
        self.call(who, &format!("os.fsync(F[{slot}])"))
    }

    fn close(&mut self, who: usize, slot: usize) -> Answer<()> {
        self.call(who, &format!("os.close(F.pop({slot}))"))
    }

    fn rename(&mut self, who: usize, from: &str, to: &str) -> Answer<()> {
        let (from, to) = (self.path(from), self.path(to));
        self.call(who, &format!("os.rename({from}, {to})"))
    }

    fn unlink(&mut self, who: usize, name: &str) -> Answer<()> {
        let path = self.path(name);
        self.call(who, &format!("os.unlink({path})"))
    }

    fn stat(&mut self, who: usize, name: &str) -> Answer<Stat> {
        let path = self.path(name);
        self.call(who, &format!("S = os.stat({path})"))?;
        let of = |python: &mut Python, what: &str| python.int(&format!("S.{what}"));
        let python = &mut self.actors[who];
        let (size, mtime, ino) =
            (of(python, "st_size"), of(python, "st_mtime_ns"), of(python, "st_ino"));
        Ok(Stat { size: size as u64, mtime: i128::from(mtime), ino: ino as u64 })
    }

    fn exit(&mut self, who: usize) {
        self.actors[who].end();
        self.actors[who] = actor(&self.it);
    }

    fn kill(&mut self, who: usize) {
        self.actors[who].kill();
        self.actors[who] = actor(&self.it);
    }

    fn observe(&mut self, doc: Doc) -> Option<(Vec<u8>, Stat)> {
        let path = self.it.path(doc.name());
        let told = match std::fs::metadata(&path) {
            Ok(told) => told,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
            Err(e) => panic!("{}: {e}", path.display()),
        };
        let mtime = i128::from(told.mtime()) * 1_000_000_000 + i128::from(told.mtime_nsec());
        let stat = Stat { size: told.size(), mtime, ino: told.ino() };
        let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Some((text, stat))
    }

    fn rows(&mut self) -> Vec<(String, String)> {
        let sql = "SELECT text, state FROM missions ORDER BY sequence, id";
        let mut select = self.database().prepare_cached(sql).expect("select");
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        rows.map(|row| row.expect("row")).collect()
    }

    fn sql(&mut self, statement: &str) {
        self.database().execute(statement, []).expect(statement);
    }

    fn command(&mut self, key: &str, value: u32) {
        let args = ["config", "set", key, &value.to_string()];
        self.it.actor().instancefs(&args).ok();
    }

    fn kept(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(self.it.store()).expect("the store") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains(".refused") || name.contains(".unsaved-") {
                // It may have just gone.
                all.extend(std::fs::read(entry.path()).ok().map(|content| (name, content)));
            }
        }
        all
    }

    fn history(&mut self, doc: Doc) -> Vec<Vec<u8>> {
        let dir = self.it.path(&format!(".instancefs/history/{}", doc.name()));
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        let number = |path: &PathBuf| -> u64 {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            stem.parse().unwrap_or_else(|e| panic!("{stem}: {e}"))
        };
        let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
        paths.sort_by_key(number);
        paths.iter().map(|path| std::fs::read(path).expect("a revision")).collect()
    }

    fn rest(&mut self) {
        std::thread::sleep(Duration::from_millis(1_100));
    }

    fn remount(&mut self) -> Vec<(Doc, Vec<u8>)> {
        self.it.unmount();
        let out = |doc: &Doc| Some((*doc, std::fs::read(self.it.store().join(doc.name())).ok()?));
        let texts = Doc::ALL.iter().filter_map(out).collect();
        self.it.mount();
        texts
    }

    fn term(&mut self) {
        self.it.signal_daemon(libc::SIGTERM);
        self.forget_files();
        self.it.mount();
    }

    fn crash(&mut self) {
        self.it.kill_daemon();
        self.forget_files();
        self.it.mount();
    }

    fn crash_in(
        &mut self,
        who: usize,
        name: &str,
        way: Option<Way>,
        text: &str,
        after: u64,
    ) -> bool {
        let daemon = self.it.daemon();
        let way = match way {
            Some(Way::Rename) => "rename",
            Some(_) => "truncate",
            None => "append",
        };
        let code = format!("save({}, {way:?}, {})", self.path(name), bytes(text.as_bytes()));
        self.actors[who].begin(&code);
        std::thread::sleep(Duration::from_micros(after));
        self.it.shoot(daemon);
        let acknowledged = self.actors[who].finish().is_ok();
        self.forget_files();
        self.it.mount();
        acknowledged
    }
}
