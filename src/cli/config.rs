//! `instancefs config`.

use std::io::Read;
use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::{Exit, Failure, Result};
use super::output;
use super::target::Target;
use crate::daemon::config::{Outcome, order};
use crate::daemon::history;
use crate::documents::config::{self, Edit, Order};
use crate::model::{DocId, Refusal};

/// The largest text that is read from standard input, as through a mount.
const SIZE_LIMIT: u64 = 64 << 20;

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = "\
Works with and without a running mount; a change is the same transaction as a save of the file.

KEY is a path of keys with dots between them. A key of other characters stands in double quotes
as in JSON: 'hosts.\"a.b\"' or 'hosts[\"a.b\"]'. Elements of arrays: 'tools[0]' by place from 0,
'tools[id=web]', 'tools[name=web]', or 'tools[web]' by the one or the other.

Exit codes: 0 done, 1 failure (no such key, refused), 2 wrong usage, 3 the config changed since
it was read (--expect-sha256).

Examples:
  instancefs config get limits.day
  instancefs config set limits.day 5
  instancefs config set 'tools[id=web].on' true
  instancefs config unset limits.hour
  instancefs config get --with-sha256")]
pub struct Config {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the config or one key as JSON
    Get(Get),
    /// Set one key, or replace the config from standard input
    Set(Set),
    /// Remove one key
    Unset(Unset),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Numbers are printed as they are written in the config. A store without a config prints {}. A key
that is not there: exit 1. The hash is of the bytes of the source form, the one of config.json
and config.yaml that was saved first; without a config, of nothing.

Examples:
  instancefs config get
  instancefs config get 'tools[id=web].args[0]' --raw
  instancefs config get --with-sha256 | jq -r .sha256")]
struct Get {
    /// The key [default: the whole config]
    key: Option<String>,
    /// {"sha256": ..., "config": ...}, both from one version
    #[arg(long)]
    with_sha256: bool,
    /// A string without quotes and escapes
    #[arg(long, short = 'r', conflicts_with = "with_sha256")]
    raw: bool,
    /// The output is JSON in any case
    #[arg(long, conflicts_with = "raw")]
    json: bool,
}

/// What `set` and `unset` have in common.
#[derive(Debug, Args)]
struct Terms {
    /// Only while the config is the one with this hash, of `get --with-sha256`
    #[arg(long, value_name = "HEX", value_parser = hash)]
    expect_sha256: Option<Hash>,
    /// Refuse a config whose `version` is newer than this one and the stored one [default: as
    /// the mount]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    config_version_limit: Option<i64>,
    /// Say in one JSON object what is there now
    #[arg(long)]
    json: bool,
}

type Hash = [u8; 32];

#[derive(Debug, Args)]
#[command(after_help = "\
VALUE is JSON if it can be read as JSON, else a string: 5, true, null and '[1, 2]' are what they
look like, hello is the string \"hello\". With --string it is a string in any case. A VALUE that
begins with - stands behind --. Objects on the way to a key are made; an array takes an existing
place, the one after its last, or an element with a new id or name.

`config set -` replaces the config by the text from standard input, JSON or YAML: what is not in
it goes. With --expect-sha256 that is done only while the config still is the one that was read,
whoever writes in whatever way; otherwise nothing is written, the exit code is 3, and the caller
reads again and repeats its change. The hash of nothing (e3b0c442...) stands for no config yet.
With --merge the text only sets keys and removes nothing. A text whose `version` is older than
the stored one comes from an older program: it removes nothing either.

Examples:
  instancefs config set limits.day 5
  instancefs config set 'hosts.\"a.b\".port' 8080
  instancefs config set build 012 --string
  instancefs config set flag -- -x
  instancefs config set - < config.json
  instancefs config set - --expect-sha256 \"$sha\" < new.json")]
struct Set {
    /// The key, or - for standard input
    key: String,
    /// The value
    #[arg(allow_negative_numbers = true)]
    value: Option<String>,
    /// VALUE is a string, whatever it looks like
    #[arg(long, short = 's', requires = "value")]
    string: bool,
    /// The text only sets keys and removes nothing
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    terms: Terms,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A key that is not there: exit 1.

Examples:
  instancefs config unset limits.hour
  instancefs config unset 'tools[id=web]'")]
struct Unset {
    /// The key
    key: String,
    #[command(flatten)]
    terms: Terms,
}

fn hash(text: &str) -> std::result::Result<Hash, String> {
    let wrong = || "not a SHA-256: 64 hex digits".to_owned();
    let digits: Vec<u32> =
        text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>().ok_or_else(wrong)?;
    let bytes: Vec<u8> =
        digits.chunks(2).filter_map(|p| Some((p[0] << 4 | p.get(1)?) as u8)).collect();
    match digits.len() {
        64 => bytes.try_into().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

fn hex(hash: &Hash) -> String {
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

/// Runs the command. A failure is one line.
pub fn run(args: &Config, instance: Option<&Path>) -> Result<()> {
    let done = match &args.command {
        Command::Get(get) => print(get, instance),
        Command::Set(set) => edit_of(set).and_then(|edit| change(edit, &set.terms, instance)),
        Command::Unset(unset) => key(&unset.key)
            .and_then(|key| change(Edit::Unset { key: key.to_owned() }, &unset.terms, instance)),
    };
    done.map_err(|failure| {
        // 3 says that the config has changed; everything else that keeps us from it is 1.
        let exit = match failure.exit {
            Exit::Conflict if !failure.message.is_empty() => Exit::Failure,
            exit => exit,
        };
        let message = match failure.hint {
            Some(hint) => format!("{}; {hint}", failure.message),
            None => failure.message,
        };
        Failure { exit, message, hint: None }
    })
}

fn key(key: &str) -> Result<&str> {
    config::check_key(key).map_err(|why| Failure::usage(format!("not a key: {why}")))?;
    Ok(key)
}

fn print(get: &Get, instance: Option<&Path>) -> Result<()> {
    if let Some(path) = &get.key {
        key(path)?;
    }
    let instance = history::look(&Target::find(None, instance)?.store, None)?;
    let version = instance.live.current(DocId::Config)?;
    let path = get.key.as_deref().unwrap_or("");
    let found = config::get(&version.state, path).map_err(Failure::usage)?;
    let value = match (found, &get.key) {
        (Some(value), _) => value,
        (None, None) => "{}".to_owned(),
        (None, Some(key)) => return Err(Failure::new(format!("{key}: there is no such key"))),
    };
    let text = if get.with_sha256 {
        let hash = hex(&config::source_sha256(&version.state));
        // By hand, so that the numbers stay as they are spelt.
        let value = value.replace('\n', "\n  ");
        format!("{{\n  \"sha256\": \"{hash}\",\n  \"config\": {value}\n}}")
    } else if get.raw {
        serde_json::from_str::<String>(&value).unwrap_or(value)
    } else {
        value
    };
    output::raw(text + "\n");
    Ok(())
}

/// What `set` asks for; reads standard input.
fn edit_of(set: &Set) -> Result<Edit> {
    let value = match (set.key.as_str(), &set.value) {
        ("-", None) => return text(set),
        ("-", Some(_)) => {
            let what = "- reads standard input and takes no VALUE; a key called so is '\"-\"'";
            return Err(Failure::usage(what));
        }
        (_, None) => return Err(Failure::usage(format!("{}: which VALUE?", set.key))),
        (_, Some(value)) => value,
    };
    if set.merge {
        return Err(Failure::usage("--merge is for a text from standard input"));
    }
    let key = key(&set.key)?.to_owned();
    let json = config::value_json(value, set.string);
    let meant_as_json = !set.string && value.trim_start().starts_with(['{', '[', '"']);
    if meant_as_json && json != value.trim() {
        output::note(&format!("{key}: set to a string, for VALUE is not valid JSON"));
    }
    Ok(Edit::Set { key, json })
}

fn text(set: &Set) -> Result<Edit> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(SIZE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::new(format!("standard input: {e}")))?;
    if bytes.len() as u64 > SIZE_LIMIT {
        let limit = SIZE_LIMIT >> 20;
        return Err(Failure::new(format!("standard input: larger than {limit} MiB")));
    }
    let wrong = |r: Refusal| Failure::told(1, format!("standard input: {r}"), r.hint);
    let text = config::check_text(bytes).map_err(wrong)?;
    Ok(Edit::Text { text, merge: set.merge })
}

fn change(edit: Edit, terms: &Terms, instance: Option<&Path>) -> Result<()> {
    let target = Target::find(None, instance)?;
    let order_ = Order {
        edit,
        expect_sha256: terms.expect_sha256,
        version_limit: terms.config_version_limit,
    };
    match order(&target.store, &order_)? {
        Outcome::Done { rev, changed, sha256, notes } => {
            notes.iter().for_each(|text| output::note(text));
            if terms.json {
                let told = json!({ "changed": changed, "rev": rev, "sha256": hex(&sha256) });
                output::raw(format!("{told}\n"));
            }
            Ok(())
        }
        Outcome::Changed => {
            // These words, and nothing else: programs look for them.
            output::words("config changed since it was read");
            Err(Failure { exit: Exit::Conflict, ..Failure::silent() })
        }
        Outcome::Refused { message, hint } => {
            Err(Failure::told(1, format!("config not changed: {message}"), hint))
        }
    }
}
