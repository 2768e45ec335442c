//! Which paths are managed: fixed rules, what `instancefs.toml` says, defaults. The first that
//! fits counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use globset::{Candidate, GlobSet, GlobSetBuilder};
use parking_lot::RwLock;

use super::defaults;
use super::{Judged, Rules};
use crate::documents::settings::{self, Found, Settings, SettingsError};
use crate::model::FileKind;

/// How often `instancefs.toml` is looked at, in milliseconds.
const LOOK: u64 = 1000;

/// What a path is, by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A document that is rendered from rows.
    Document,
    /// A managed file.
    Managed(FileKind),
    /// A name of instancefs itself.
    Own,
    /// A database, or what SQLite keeps beside it.
    Database,
    /// A lock that programs take with `flock`.
    Lock,
    /// A live-session marker, if its name is a pid.
    Marker,
    /// A lease: a lock that ends with its process.
    Lease,
    /// The store's file, as it is.
    Plain,
}

impl Class {
    /// Its name in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Document => "document",
            Class::Managed(_) => "managed",
            Class::Own => "own",
            Class::Database => "database",
            Class::Lock => "lock",
            Class::Marker => "marker",
            Class::Lease => "lease",
            Class::Plain => "plain",
        }
    }
}

/// Where a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It cannot be changed.
    Fixed,
    /// This line of `instancefs.toml`.
    Line(usize),
    /// It holds where `instancefs.toml` says nothing else.
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Fixed => f.write_str("fixed"),
            Origin::Line(n) => write!(f, "{} line {n}", settings::NAME),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A glob and what the paths are that fit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The glob.
    pub glob: String,
    /// What they are.
    pub class: Class,
    /// Where it comes from.
    pub origin: Origin,
    /// More about what they are, such as `a temporary name`; may be empty.
    pub about: &'static str,
}

impl Rule {
    fn of(glob: &str, class: Class, origin: Origin) -> Rule {
        Rule { glob: glob.to_owned(), class, origin, about: "" }
    }

    /// It fits any name in its directories.
    fn any_name(&self) -> bool {
        let name = self.glob.rsplit('/').next().unwrap_or(&self.glob);
        name.bytes().all(|b| b == b'*')
    }

    /// Why a path is what it is, for people.
    pub fn why(&self) -> String {
        let Rule { glob, origin, about, .. } = self;
        let about = if about.is_empty() { String::new() } else { format!("{about}, ") };
        match self.class {
            Class::Managed(kind) => format!("{about}\"{glob}\" = \"{}\" ({origin})", kind.as_str()),
            _ => format!("{about}\"{glob}\" ({origin})"),
        }
    }
}

/// The rules of one state of the settings.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    globs: GlobSet,
    /// Names of temporary files: plain, whatever fits any name.
    temporary: Vec<Rule>,
    temporary_globs: GlobSet,
}

impl RuleSet {
    /// From these settings, over the defaults.
    ///
    /// Errors: the globs are too large together.
    pub fn new(settings: &Settings) -> Result<RuleSet, SettingsError> {
        let mut rules = defaults::fixed();
        let lists = [
            (&settings.leases, &settings::LEASES[..], Class::Lease),
            (&settings.markers, &settings::MARKERS[..], Class::Marker),
        ];
        for (set, usual, class) in lists {
            match set {
                Some(set) => {
                    rules.extend(set.iter().map(|n| Rule::of(&n.glob, class, Origin::Line(n.line))))
                }
                None => {
                    rules.extend(usual.iter().map(|glob| Rule::of(glob, class, Origin::Default)));
                }
            }
        }
        let before = rules.len();
        rules.extend(settings.files.iter().map(|f| {
            Rule::of(&f.glob, f.kind.map_or(Class::Plain, Class::Managed), Origin::Line(f.line))
        }));
        rules.extend(defaults::kinds());
        let temporary = defaults::temporary();
        let (globs, temporary_globs) = (compiled(&rules)?, compiled(&temporary)?);
        // A setting that can never count is a mistake.
        for f in &settings.files {
            let found = first(&globs, &Candidate::from_bytes(&f.glob));
            if let Some(rule) = found.filter(|n| *n < before).and_then(|n| rules.get(n)) {
                return Err(SettingsError {
                    line: Some(f.line),
                    key: Some(format!("files.{:?}", f.glob)),
                    message: format!("counts for nothing: {}, {}", rule.class.as_str(), rule.why()),
                });
            }
        }
        Ok(RuleSet { rules, globs, temporary, temporary_globs })
    }

    /// The rules in the order in which they are tried.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let defaults = self.rules.len() - defaults::kinds().len();
        let (set, usual) = self.rules.split_at(defaults);
        set.iter().chain(&self.temporary).chain(usual)
    }

    /// The rule that decides about a path; `None`: no glob fits, it is plain.
    pub fn find(&self, path: &str) -> Option<&Rule> {
        let path = Candidate::from_bytes(path);
        let rule = self.rules.get(first(&self.globs, &path)?)?;
        let sure = match rule.origin {
            Origin::Fixed => true,
            Origin::Line(_) => !rule.any_name() || rule.class == Class::Plain,
            Origin::Default => !matches!(rule.class, Class::Managed(_)),
        };
        if sure {
            return Some(rule);
        }
        match first(&self.temporary_globs, &path) {
            Some(n) => self.temporary.get(n),
            None => Some(rule),
        }
    }
}

/// The first of the globs that fit.
fn first(globs: &GlobSet, path: &Candidate<'_>) -> Option<usize> {
    thread_local! {
        static FITTING: std::cell::Cell<Vec<usize>> = const { std::cell::Cell::new(Vec::new()) };
    }
    let mut fitting = FITTING.take();
    globs.matches_candidate_into(path, &mut fitting);
    let first = fitting.first().copied();
    FITTING.set(fitting);
    first
}

fn compiled(rules: &[Rule]) -> Result<GlobSet, SettingsError> {
    let mut set = GlobSetBuilder::new();
    let broken = |rule: &Rule, message: String| SettingsError {
        line: match rule.origin {
            Origin::Line(n) => Some(n),
            Origin::Fixed | Origin::Default => None,
        },
        key: Some(format!("{:?}", rule.glob)),
        message,
    };
    for rule in rules {
        set.add(settings::glob(&rule.glob).map_err(|why| broken(rule, why))?);
    }
    set.build().map_err(|e| SettingsError { line: None, key: None, message: e.to_string() })
}

/// Which paths of a store are managed. Follows changes of `instancefs.toml`: it is looked at
/// when a path is asked about, at most once a second.
pub struct StoreRules {
    dir: std::fs::File,
    /// Its path, for messages.
    path: PathBuf,
    now: RwLock<Now>,
    start: Instant,
    /// Milliseconds from `start` to the next look.
    next_look: AtomicU64,
}

type Print = (u64, u64, i64, i64, i64, i64);

struct Now {
    rules: Arc<RuleSet>,
    settings: Arc<Settings>,
    print: Option<Print>,
    problem: Option<SettingsError>,
}

impl StoreRules {
    /// Those of the store in this directory.
    ///
    /// Errors: what is wrong with its `instancefs.toml`.
    pub fn open(store: &std::path::Path) -> Result<StoreRules, SettingsError> {
        let rules = StoreRules::lenient(store)?;
        match rules.problem() {
            Some(problem) => Err(problem),
            None => Ok(rules),
        }
    }

    /// The same with the defaults in place of an `instancefs.toml` that cannot be used;
    /// [`StoreRules::problem`] says what is wrong with it.
    ///
    /// Errors: the store itself cannot be read.
    pub fn lenient(store: &std::path::Path) -> Result<StoreRules, SettingsError> {
        let failed = |e: std::io::Error| SettingsError {
            line: None,
            key: None,
            message: format!("{}: {e}", store.display()),
        };
        let dir = std::fs::File::open(store).map_err(failed)?;
        let settings = Settings::default();
        let now = Now {
            rules: Arc::new(RuleSet::new(&settings)?),
            settings: Arc::new(settings),
            print: None,
            problem: None,
        };
        let rules = StoreRules {
            dir,
            path: store.to_owned(),
            now: RwLock::new(now),
            start: Instant::now(),
            next_look: AtomicU64::new(LOOK),
        };
        rules.take_over();
        Ok(rules)
    }

    /// Takes over `instancefs.toml` if it has changed. One that cannot be used changes nothing
    /// and is logged once.
    pub fn reload(&self) {
        if let Some(problem) = self.take_over() {
            log::error!("{}: {problem}; what was set before holds", self.path.display());
        }
    }

    /// The same; the answer is a problem that was not there before.
    fn take_over(&self) -> Option<SettingsError> {
        let found = Found::look(&self.dir);
        let print = found.as_ref().ok().and_then(Option::as_ref).map(Found::print);
        {
            let now = self.now.read();
            let failed_again = matches!((&found, &now.problem), (Err(a), Some(b)) if a == b);
            if (found.is_ok() && print == now.print) || failed_again {
                return None;
            }
        }
        let loaded =
            found.and_then(|f| f.map_or_else(|| Ok(Settings::default()), |f| f.settings()));
        let loaded = loaded.and_then(|s| Ok((Arc::new(RuleSet::new(&s)?), Arc::new(s))));
        let mut now = self.now.write();
        now.print = print;
        match loaded {
            Ok((rules, settings)) => {
                (now.rules, now.settings, now.problem) = (rules, settings, None);
                None
            }
            Err(problem) => {
                now.problem = Some(problem.clone());
                Some(problem)
            }
        }
    }

    /// What is wrong with `instancefs.toml` as it is now; the rules are those from before.
    pub fn problem(&self) -> Option<SettingsError> {
        self.now.read().problem.clone()
    }

    /// The settings that hold.
    pub fn settings(&self) -> Arc<Settings> {
        self.look();
        Arc::clone(&self.now.read().settings)
    }

    /// The rules that hold.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.look();
        Arc::clone(&self.now.read().rules)
    }

    fn look(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let next = self.next_look.load(Ordering::Relaxed);
        if now < next {
            return;
        }
        let mine = (Ordering::Relaxed, Ordering::Relaxed);
        if self.next_look.compare_exchange(next, now + LOOK, mine.0, mine.1).is_ok() {
            self.reload();
        }
    }
}

impl Rules for StoreRules {
    fn kind(&self, path: &str) -> Option<FileKind> {
        self.look();
        let now = self.now.read();
        match now.rules.find(path)?.class {
            Class::Managed(kind) => Some(kind),
            _ => None,
        }
    }

    fn judge(&self, path: &str) -> Judged {
        let rules = self.rules();
        match rules.find(path) {
            Some(rule) => {
                let kind = match rule.class {
                    Class::Managed(kind) => Some(kind),
                    _ => None,
                };
                Judged { kind, why: rule.why() }
            }
            None => Judged { kind: None, why: "no glob fits".into() },
        }
    }
}
