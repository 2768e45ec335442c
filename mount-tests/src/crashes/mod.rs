//! A real daemon under load that is killed at random moments and at chosen calls, whose calls
//! fail, and whose power goes; after each of these the store has to open by itself with every
//! acknowledged save in it, once.

mod words;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use self::words::{Words, now};
use crate::calls::power::{Dice, Journal};
use crate::calls::{Call, Kind, Verdict, Watched, Which};
use crate::{Builder, Instance, Running, is_mounted};

/// Rounds on one instance, before its files grow too long.
const ROUNDS_EACH: usize = 40;
/// Programs that save at the same time.
const WORKERS: usize = 3;
/// How long a daemon may take to serve.
const SERVES: Duration = Duration::from_secs(30);

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// So many rounds.
    Rounds(usize),
    /// For this time.
    Time(Duration),
}

/// What was done and found.
#[derive(Debug, Default, Clone)]
pub struct Summary {
    /// Daemons that were killed.
    pub kills: u64,
    /// States after a power loss that were looked at.
    pub power_losses: u64,
    /// Calls that were made to fail.
    pub faults: u64,
    /// Saves that were acknowledged.
    pub saves: u64,
    /// What is wrong, in words.
    pub losses: Vec<String>,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "crashes: {} crashes, {} power losses, {} faults, {} saves acknowledged, losses: {}",
            self.kills,
            self.power_losses,
            self.faults,
            self.saves,
            self.losses.len()
        )
    }
}

/// What happens in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// The daemon is killed after some milliseconds.
    Kill,
    /// It is killed before its n-th call that changes something.
    KillAt(u64),
    /// One of so many of its calls fails.
    Faults(u64),
    /// Power goes, at several moments.
    Power,
}

impl Harm {
    fn roll(dice: &mut Dice) -> Harm {
        match dice.below(10) {
            0..=1 => Harm::Kill,
            2..=5 => Harm::KillAt(1 + dice.below(600) as u64),
            6..=7 => Harm::Faults(8 + dice.below(60) as u64),
            _ => Harm::Power,
        }
    }
}

/// Does it. A loss ends it. `tell` is given a line now and then.
pub fn run(until: Until, seed: u64, mut tell: impl FnMut(&str)) -> Summary {
    let (mut dice, begun) = (Dice::new(seed), Instant::now());
    let mut summary = Summary::default();
    let mut place: Option<(Instance, Words)> = None;
    for round in 0.. {
        let over = match until {
            Until::Rounds(most) => round >= most,
            Until::Time(most) => begun.elapsed() >= most,
        };
        if over || !summary.losses.is_empty() {
            break;
        }
        if round % ROUNDS_EACH == 0 {
            summary.saves += place.take().map_or(0, |(_, words)| words.acknowledged());
            place = Some((furnish(), Words::default()));
            tell(&format!("round {round}: {summary}"));
        }
        let Some((it, words)) = &mut place else { break };
        // All kinds come in a short run, too.
        let harm = match round {
            0 => Harm::KillAt(40),
            1 => Harm::Power,
            2 => Harm::Faults(12),
            3 => Harm::Kill,
            _ => Harm::roll(&mut dice),
        };
        if let Err(wrong) = one(it, words, harm, round, &mut dice, &mut summary) {
            summary.losses.push(format!("round {round}, {harm:?}: {wrong}"));
        }
    }
    if let Some((mut it, words)) = place {
        summary.saves += words.acknowledged();
        if !summary.losses.is_empty() {
            it.keep();
        }
    }
    summary
}

fn furnish() -> Instance {
    Builder::default()
        .file("missions.md", "# Missions\n\n## Pending\n\n## Done\n")
        .file("config.json", "{}\n")
        .file("outbox.md", "")
        .file("memory/notes.md", "\n")
        .in_memory()
        .watchdog(Duration::from_secs(3600))
        .unmounted()
        .start()
}

/// What the judge of a round knows.
#[derive(Default)]
struct Watch {
    armed: AtomicBool,
    calls: AtomicU64,
    faults: AtomicU64,
    /// The times of the journal's events, in nanoseconds.
    times: std::sync::Mutex<(Option<Journal>, Vec<u64>)>,
}

impl Watch {
    fn judge(&self, call: &Call, harm: Harm, dice: &mut Dice) -> Verdict {
        if harm == Harm::Power {
            if call.kind == Kind::Copy {
                return Verdict::Fail(libc::ENOSYS);
            }
            let mut noted = self.times.lock().expect("nobody panics with it");
            let (journal, times) = &mut *noted;
            if let Some(journal) = journal {
                journal.note(call);
                times.resize(journal.len(), now());
            }
            return Verdict::Go;
        }
        if !self.armed.load(Ordering::SeqCst) {
            return Verdict::Go;
        }
        let n = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match harm {
            Harm::KillAt(at) if n == at => Verdict::Kill,
            Harm::Faults(every) if dice.below(every as usize) == 0 => {
                self.faults.fetch_add(1, Ordering::SeqCst);
                let full = call.kind.takes_room() && dice.below(2) == 0;
                Verdict::Fail(if full { libc::ENOSPC } else { libc::EIO })
            }
            _ => Verdict::Go,
        }
    }
}

/// One round: the daemon serves, what was acknowledged before is there, programs save, harm is
/// done.
fn one(
    it: &Instance,
    words: &mut Words,
    harm: Harm,
    round: usize,
    dice: &mut Dice,
    summary: &mut Summary,
) -> Result<(), String> {
    let watch = Arc::<Watch>::default();
    if harm == Harm::Power {
        let journal = Journal::of(&it.store()).map_err(|e| e.to_string())?;
        watch.times.lock().expect("nobody panics with it").0 = Some(journal);
    }
    let mut daemon = serve(it, &it.store(), &it.mount_point(), &watch, harm, dice)?;
    words.check(&it.mount_point(), &it.store(), u64::MAX)?;
    let workers: Vec<Running> = (0..WORKERS)
        .map(|n| {
            let name = format!("{round}x{n}");
            let log = it.scratch(&format!("words-{name}"));
            let log = log.to_str().unwrap_or_default();
            let program = crate::programs_dir().join("crash_worker.py");
            let seed = dice.below(1 << 30).to_string();
            it.actor().spawn(
                "python3",
                &[program.as_os_str(), log.as_ref(), name.as_ref(), seed.as_ref()],
            )
        })
        .collect();
    // Until they have begun.
    let started = Instant::now();
    while words.read(&it.scratch("")) == 0 && started.elapsed() < SERVES {
        std::thread::sleep(Duration::from_millis(2));
    }
    watch.armed.store(true, Ordering::SeqCst);
    let most = Duration::from_millis(50 + dice.below(350) as u64);
    let end = Instant::now() + if matches!(harm, Harm::KillAt(_)) { most * 5 } else { most };
    while Instant::now() < end && daemon.runs() {
        std::thread::sleep(Duration::from_millis(1));
    }
    watch.armed.store(false, Ordering::SeqCst);
    summary.faults += watch.faults.load(Ordering::SeqCst);
    if matches!(harm, Harm::Faults(_)) {
        // The mount lives, and the next save works.
        if !daemon.runs() {
            return Err("the daemon has ended".to_owned());
        }
        let script = format!("printf -- '- m{round}x-0.\\n' >> missions.md");
        words.tried(&format!("m{round}x-0."));
        let next = it.actor().bash(&script);
        if next.code() != Some(0) {
            return Err(format!("the next save: {}", next.stderr));
        }
        words.acknowledge(&format!("m{round}x-0."));
    }
    daemon.kill();
    summary.kills += 1;
    for worker in workers {
        worker.signal(libc::SIGKILL);
        let _ = worker.wait();
    }
    words.read(&it.scratch(""));
    for entry in std::fs::read_dir(it.store()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(".refused") || name.contains(".unsaved-") || name.contains(".tmp.") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    if harm == Harm::Power {
        let noted = std::mem::take(&mut *watch.times.lock().expect("nobody panics with it"));
        let (Some(journal), times) = noted else { return Ok(()) };
        for _ in 0..4 {
            let count = dice.below(journal.len() + 1);
            // What was acknowledged before this event began was acknowledged then.
            let until = times.get(count.wrapping_sub(1)).copied().unwrap_or(0);
            let place = it.scratch("lost");
            let (store, mount) = (place.join("store"), place.join("mount"));
            std::fs::create_dir_all(&store).map_err(|e| e.to_string())?;
            std::fs::create_dir_all(&mount).map_err(|e| e.to_string())?;
            journal.after_loss(count, dice, &store).map_err(|e| e.to_string())?;
            let quiet = Arc::<Watch>::default();
            let mut daemon = serve(it, &store, &mount, &quiet, Harm::Kill, dice)?;
            summary.power_losses += 1;
            words
                .check(&mount, &store, until)
                .map_err(|e| format!("after {}: {e}", journal.describe(count)))?;
            daemon.kill();
            crate::detach(&mount);
            std::fs::remove_dir_all(&place).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// A daemon whose calls are watched.
struct Daemon {
    watched: Option<Watched>,
}

impl Daemon {
    fn runs(&mut self) -> bool {
        self.watched.as_mut().is_some_and(|w| matches!(w.child.try_wait(), Ok(None)))
    }

    /// Kills it and waits for its end.
    fn kill(&mut self) {
        if let Some(mut watched) = self.watched.take() {
            let _ = watched.child.kill();
            let _ = watched.wait();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a daemon and waits until it serves.
fn serve(
    it: &Instance,
    store: &Path,
    mount: &Path,
    watch: &Arc<Watch>,
    harm: Harm,
    dice: &mut Dice,
) -> Result<Daemon, String> {
    let mut command = it.outside().command(crate::instancefs());
    command.arg("mount").arg(store).arg(mount).arg("--foreground");
    let log = std::fs::File::options().create(true).append(true).open(it.scratch("daemon.log"));
    command.stderr(log.map_err(|e| e.to_string())?);
    let (watch, mut own) = (Arc::clone(watch), Dice::new(dice.below(1 << 30) as u64));
    let judge = move |call: &Call| watch.judge(call, harm, &mut own);
    let watched = Watched::start(command, store, Which::Changes, Box::new(judge));
    let mut daemon = Daemon { watched: Some(watched.map_err(|e| e.to_string())?) };
    let begun = Instant::now();
    loop {
        // A dead mount of the last round may still be there.
        if is_mounted(mount) && answers(mount) {
            return Ok(daemon);
        }
        if !daemon.runs() {
            let said = std::fs::read_to_string(it.scratch("daemon.log")).unwrap_or_default();
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            return Err(format!("does not open by itself: {last:?}"));
        }
        if begun.elapsed() > SERVES {
            return Err("does not serve".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asked in a thread of its own: nothing can hang for good.
fn answers(mount: &Path) -> bool {
    let path = mount.join(".instancefs/status.json");
    let (send, receive) = channel();
    std::thread::spawn(move || send.send(std::fs::metadata(path).is_ok()));
    receive.recv_timeout(SERVES).unwrap_or(false)
}
