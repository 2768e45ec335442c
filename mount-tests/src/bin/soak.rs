//! Random work by several processes on one instance, with the daemon killed or asked to leave
//! every few seconds; after each remount every acknowledged save must be there, once, whole.
//! At the same time, on an instance of its own, the party of Kōan's kind of programs, agents and
//! people (`programs/koan_party.py`).
//!
//! usage: soak [--minutes N] [--seed S] [--workers W] [--only random|koan]
//!        soak worker MOUNT STORE LOG ID SEED      (started by the first form)

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use mount_tests::{Builder, Instance};

/// A small generator (xorshift64*), so that a seed gives the same work everywhere.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "worker") {
        return worker(&args[1..]);
    }
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = value("--seed").unwrap_or_else(|| clock.map_or(1, |now| now.as_secs() % 1_000_000));
    let minutes = value("--minutes").unwrap_or(10);
    let workers = value("--workers").unwrap_or(6);
    let only = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1));
    let does = |part: &str| only.is_none_or(|only| only == part);
    let time = Duration::from_secs(minutes * 60);
    println!("soak: {minutes} min, {workers} workers, seed {seed}");
    let party = does("koan").then(|| std::thread::spawn(move || party(time)));
    let random = if does("random") { soak(time, workers, seed) } else { true };
    let party = party.is_none_or(|party| party.join().unwrap_or(false));
    if random && party { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The party for this long; whether all went well.
fn party(time: Duration) -> bool {
    let it = Builder::default().watchdog(time + Duration::from_secs(300)).start();
    let program = mount_tests::programs_dir().join("koan_party.py");
    let seconds = time.as_secs().to_string();
    let actor = it.actor().limit(time + Duration::from_secs(240));
    let ran = actor.run("python3", &[program.as_os_str(), ".".as_ref(), seconds.as_ref()]);
    let good = ran.code() == Some(0);
    let told: serde_json::Value = serde_json::from_str(ran.stdout.trim()).unwrap_or_default();
    println!("koan: waits in seconds            how often   middle      99 %   longest");
    for (name, waits) in told["waits"].as_object().into_iter().flatten() {
        let [n, middle, most, longest] = [0, 1, 2, 3].map(|i| waits[i].to_string());
        println!("koan: {name:<30} {n:>12} {middle:>8} {most:>9} {longest:>9}");
    }
    let kept = it.kept();
    if !good || !kept.is_empty() {
        println!("koan: WRONG: {}{} {kept:?}", ran.stdout, ran.stderr);
    } else {
        let waits = told["waits"].as_object().into_iter().flatten();
        let changes: u64 = waits.filter_map(|(_, waits)| waits[0].as_u64()).sum();
        println!(
            "koan: {changes} operations, {} missions added, {} removed, losses: 0",
            told["added"], told["removed"]
        );
    }
    good && kept.is_empty()
}

fn soak(time: Duration, workers: u64, seed: u64) -> bool {
    let it = Builder::default()
        .file(
            "missions.md",
            "# Missions\n\nintro\n\n## Pending\n\n## In Progress\n\n## Done\n\n## Failed\n",
        )
        .file("config.yaml", "# top\nfirst: 1 # beside\n")
        .watchdog(time + Duration::from_secs(300))
        .start();
    let mut dice = Dice::new(seed);
    let mut children: Vec<Child> = (0..workers).map(|id| start(&it, id, seed)).collect();
    let end = Instant::now() + time;
    let (mut rounds, mut kills, mut bad, mut checked) = (0, 0, 0, 0);
    while Instant::now() < end && bad == 0 {
        std::thread::sleep(Duration::from_millis(1000 + dice.below(4000)));
        match dice.below(3) {
            0 => it.signal_daemon(libc::SIGTERM),
            _ => {
                kills += 1;
                it.kill_daemon();
            }
        }
        it.mount();
        let (seen, wrong) = check(&it, workers);
        checked = seen;
        bad += wrong.len();
        for line in wrong.iter().take(20) {
            println!("WRONG: {line}");
        }
        rounds += 1;
        println!("round {rounds}: {seen} acknowledged saves, {bad} wrong ({kills} kills)");
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    println!("random: {rounds} remounts, {kills} crashes, {checked} saves, losses: {bad}");
    bad == 0 && checked > 0
}

fn log_of(it: &Instance, id: u64) -> PathBuf {
    it.scratch(&format!("log-{id}"))
}

fn start(it: &Instance, id: u64, seed: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command
        .arg("worker")
        .args([it.mount_point(), it.store(), log_of(it, id)])
        .args([id.to_string(), seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // SAFETY: setsid and prctl are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command.spawn().expect("worker")
}

/// What a log says about one line: `t` tried, `a` acknowledged, `x` removal tried, `r` removed.
fn states(it: &Instance, workers: u64) -> HashMap<String, char> {
    let mut all = HashMap::new();
    for id in 0..workers {
        let log = fs::read_to_string(log_of(it, id)).unwrap_or_default();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for entry in whole.lines() {
            if let Some((state, line)) = entry.split_once(' ') {
                all.insert(line.to_owned(), state.chars().next().unwrap_or('?'));
            }
        }
    }
    all
}

/// How many saves were acknowledged, and what is wrong.
fn check(it: &Instance, workers: u64) -> (usize, Vec<String>) {
    let before = states(it, workers);
    let text = fs::read_to_string(it.path("missions.md")).unwrap_or_default();
    let config = fs::read_to_string(it.path("config.json")).unwrap_or_default();
    let yaml = fs::read_to_string(it.path("config.yaml")).unwrap_or_default();
    let after = states(it, workers);
    let mut wrong = Vec::new();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("- ")) {
        let line = line.split(" ⏳").next().unwrap_or(line);
        let line = line.split(" ✅").next().unwrap_or(line).trim();
        *count.entry(line).or_default() += 1;
    }
    let config: serde_json::Value = serde_json::from_str(&config).unwrap_or_else(|error| {
        wrong.push(format!("config.json: {error}"));
        serde_json::Value::Null
    });
    for text in ["# top", "# beside"] {
        if !yaml.contains(text) {
            wrong.push(format!("config.yaml lost {text:?}"));
        }
    }
    if !text.contains("\nintro\n") {
        wrong.push("missions.md lost its intro".into());
    }
    let mut acknowledged = 0;
    for (line, state) in &before {
        let there = if line.starts_with("key") {
            usize::from(config.get(line).is_some())
        } else {
            count.get(line.as_str()).copied().unwrap_or(0)
        };
        let settled = after.get(line) == Some(state);
        match state {
            'a' if settled => {
                acknowledged += 1;
                if there != 1 {
                    wrong.push(format!("{line} is there {there} times"));
                }
            }
            'r' if there != 0 => wrong.push(format!("{line} was removed and is there")),
            _ if there > 1 => wrong.push(format!("{line} is there {there} times")),
            _ => {}
        }
    }
    for line in count.keys() {
        if !after.contains_key(*line) {
            wrong.push(format!("nobody wrote {line:?}"));
        }
    }
    (acknowledged, wrong)
}

fn worker(args: &[String]) -> ExitCode {
    let [mount, store, log, id, seed] = args else { return ExitCode::from(2) };
    let (mount, store) = (Path::new(mount), Path::new(store));
    let mut log = File::options().create(true).append(true).open(log).expect("log");
    let mut dice =
        Dice::new(seed.parse::<u64>().unwrap_or(1) ^ (id.parse::<u64>().unwrap_or(0) + 1) << 20);
    let mut note = |state: char, line: &str| {
        log.write_all(format!("{state} {line}\n").as_bytes()).expect("log");
    };
    let mut pending: Vec<String> = Vec::new();
    for number in 0u64.. {
        let Some((_root, mount)) = mounted(mount) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let mount = mount.as_path();
        let kind = dice.below(9);
        let line =
            if kind == 5 { format!("key-{id}-{number}") } else { format!("line {id} {number}.") };
        let done = match kind {
            0 | 1 => {
                note('t', &line);
                append(&mount.join("missions.md"), &format!("- {line}\n"))
            }
            2 => {
                note('t', &line);
                whole(mount, "missions.md", |text| insert(text, &line), Style::Truncate)
            }
            3 => {
                note('t', &line);
                whole(mount, "missions.md", |text| insert(text, &line), Style::Rename(id))
            }
            4 => {
                note('t', &line);
                in_place(&mount.join("missions.md"), |text| insert(text, &line))
            }
            5 => {
                note('t', &line);
                append(&mount.join("config.yaml"), &format!("{line}: {number}\n"))
            }
            6 => {
                note('t', &line);
                by_sql(store, &line)
            }
            7 => {
                // A move of an own line to Done: still there, once.
                let Some(own) = pending.last().cloned() else { continue };
                let _ = whole(mount, "missions.md", |text| finish(text, &own), Style::Truncate);
                continue;
            }
            _ => {
                if pending.len() < 20 {
                    continue;
                }
                let own = pending.swap_remove(dice.below(pending.len() as u64) as usize);
                note('x', &own);
                let remove = |text: &str| {
                    text.lines()
                        .filter(|line| {
                            !line.strip_prefix("- ").is_some_and(|l| l.starts_with(&own))
                        })
                        .map(|line| format!("{line}\n"))
                        .collect()
                };
                if whole(mount, "missions.md", remove, Style::Truncate).is_ok() {
                    note('r', &own);
                }
                continue;
            }
        };
        match done {
            Ok(()) => {
                note('a', &line);
                if line.starts_with("line") {
                    pending.push(line);
                }
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    ExitCode::SUCCESS
}

/// The root of the mount and a path to it that never leads to the directory below: what would be
/// written there while nothing is mounted is no save, and would be in the way of the next mount.
fn mounted(mount: &Path) -> Option<(File, PathBuf)> {
    /// `FUSE_SUPER_MAGIC`
    const FUSE: i64 = 0x6573_5546;
    let root = File::open(mount).ok()?;
    // SAFETY: a descriptor that is open and a place for the answer.
    let kind = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(root.as_raw_fd(), &raw mut found) != 0 {
            return None;
        }
        found.f_type
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
    (kind == FUSE).then_some((root, path))
}

enum Style<'a> {
    Truncate,
    Rename(&'a str),
}

/// `close` with its result, which dropping a `File` swallows.
fn close(file: File) -> std::io::Result<()> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor was just taken out of its owner.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::options().append(true).open(path)?;
    file.write_all(text.as_bytes())?;
    close(file)
}

fn whole(
    mount: &Path,
    name: &str,
    change: impl FnOnce(&str) -> String,
    style: Style<'_>,
) -> std::io::Result<()> {
    let path = mount.join(name);
    let text = change(&fs::read_to_string(&path)?);
    match style {
        Style::Truncate => {
            let mut file = File::options().write(true).truncate(true).open(&path)?;
            file.write_all(text.as_bytes())?;
            close(file)
        }
        Style::Rename(who) => {
            let temporary = mount.join(format!(".tmp-{who}"));
            let mut file = File::create(&temporary)?;
            file.write_all(text.as_bytes())?;
            close(file)?;
            fs::rename(temporary, path)
        }
    }
}

fn in_place(path: &Path, change: impl FnOnce(&str) -> String) -> std::io::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let text = change(&text);
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    close(file)
}

fn insert(text: &str, line: &str) -> String {
    text.replacen("## Pending\n", &format!("## Pending\n- {line}\n"), 1)
}

fn finish(text: &str, own: &str) -> String {
    let item = format!("- {own}\n");
    if !text.contains(&item) {
        return text.to_owned();
    }
    text.replacen(&item, "", 1).replacen("## Done\n", &format!("## Done\n{item}"), 1)
}

fn by_sql(store: &Path, line: &str) -> std::io::Result<()> {
    let insert = || -> rusqlite::Result<usize> {
        let db = rusqlite::Connection::open(store.join("missions.db"))?;
        db.busy_timeout(Duration::from_secs(10))?;
        db.execute(
            "insert into missions(text, state, sequence) \
             select ?1, 'pending', coalesce(max(sequence), 0) + 1 from missions",
            [line],
        )
    };
    insert().map(|_| ()).map_err(std::io::Error::other)
}
