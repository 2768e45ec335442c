//! What commands do to the config: a key set or taken out, or a whole text from standard input.
//!
//! An order is planned inside the transaction, on the version that is current then: its writer
//! has seen exactly that. With a hash, that is the version of the hash, or nothing happens.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::keys;
use super::path::KeyPath;
use super::save::{self, Rules};
use super::state::ConfigState;
use super::tree::{Form, read, text_of};
use super::{ConfigDocument, version};
use crate::documents::live::{Live, SaveError, Saved};
use crate::documents::{Plan, State};
use crate::model::{Actor, DocId, Reason, Refusal};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Edit {
    /// A key gets a value.
    Set {
        /// Its path.
        key: String,
        /// The value as JSON.
        json: String,
    },
    /// A key goes.
    Unset {
        /// Its path.
        key: String,
    },
    /// The text of a config, JSON or YAML.
    Text {
        /// The text.
        text: String,
        /// Keys are only set, as by a program that has read nothing (R3); otherwise what is not
        /// in the text goes.
        merge: bool,
    },
}

/// A change of the config by a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What is to be done.
    pub edit: Edit,
    /// Only while the bytes of the source form (of nothing when there is no config) have this
    /// SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_sha256: Option<[u8; 32]>,
    /// In place of the store's own limit, see [`ConfigDocument::new`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_limit: Option<i64>,
}

/// The SHA-256 that `--expect-sha256` is about: of the bytes of the source form, of nothing when
/// there is no config.
pub fn source_sha256(state: &State) -> [u8; 32] {
    Sha256::digest(keys::source_bytes(state)).into()
}

/// `config set KEY VALUE`: the JSON of a value as it was typed. What is no JSON is a string, and
/// so is everything when `as_string`.
pub fn value_json(typed: &str, as_string: bool) -> String {
    let is_json = || keys::parse_json(typed).is_some();
    match !as_string && is_json() {
        true => typed.trim().to_owned(),
        false => super::render::json_string(typed),
    }
}

/// Whether a key path can be read; `Err` says in one line what is wrong with it.
pub fn check_key(key: &str) -> Result<(), String> {
    match KeyPath::parse(key)?.0.is_empty() {
        true => Err("the key is empty".to_owned()),
        false => Ok(()),
    }
}

/// Bytes from outside as the text of an [`Edit::Text`].
///
/// Errors: not UTF-8, or a NUL byte, with the line.
pub fn check_text(bytes: Vec<u8>) -> Result<String, Refusal> {
    text_of(&bytes)?;
    String::from_utf8(bytes).map_err(|_| Refusal::new(Reason::Invalid, "the text is not UTF-8"))
}

impl ConfigDocument {
    /// Carries an order out in one transaction: nobody's change can come between the look at
    /// the hash and the write. Answers with what [`ConfigDocument::order`] says, too.
    ///
    /// Errors: as [`ConfigDocument::order`] and [`Live::save`]; nothing was changed.
    pub fn carry_out(
        &self,
        live: &Live,
        order: &Order,
        actor: &Actor,
    ) -> Result<(Saved, Vec<String>), SaveError> {
        self.carry_out_after(live, order, actor, || {})
    }

    /// The same; `before` is called when the order is planned and the transaction not yet begun,
    /// the moment at which others may still commit.
    pub(super) fn carry_out_after(
        &self,
        live: &Live,
        order: &Order,
        actor: &Actor,
        before: impl FnOnce(),
    ) -> Result<(Saved, Vec<String>), SaveError> {
        let mut notes = Vec::new();
        // A large text is read and compared while nobody waits for the write lock; that counts
        // if the same version is current when it is ours.
        let early = live.current(DocId::Config)?;
        let planned = self.order(order, &early.state);
        before();
        let saved = live.change(DocId::Config, actor, |current, _| {
            expect(order, current)?;
            let (plan, told) = match Arc::ptr_eq(current, &early.state) {
                true => planned?,
                false => self.order(order, current)?,
            };
            notes = told;
            Ok(plan)
        })?;
        Ok((saved, notes))
    }

    /// Plans an order on the current version, and says what its giver should know, one line
    /// each. `current` has to be the version that is current in the transaction.
    ///
    /// Errors: [`Reason::Expectation`] when the hash is another, and nothing else is looked at
    /// then; why a save of that text would be refused; there is no such key to take out;
    /// something is in the way of the key.
    pub fn order(&self, order: &Order, current: &State) -> Result<(Plan, Vec<String>), Refusal> {
        expect(order, current)?;
        let schema = self.schema_now();
        let mut rules = self.rules(schema.as_deref());
        rules.version_limit = order.version_limit.or(rules.version_limit);
        match &order.edit {
            Edit::Set { key, json } => keyed(key, Some(json), current, &rules),
            Edit::Unset { key } => keyed(key, None, current, &rules),
            Edit::Text { text, merge } => {
                // Somebody who just says "replace" has read nothing that would be missed; a
                // program that compares hashes has, and may be older than the key `version`.
                rules.unsaid_is_older = order.expect_sha256.is_some();
                let seen = if *merge { None } else { Some(current) };
                let form = form_of(text, ConfigState::of(current));
                let plan = save::whole(form, seen, text.as_bytes(), current, &rules)?;
                let unsaid_is_older = !merge && rules.unsaid_is_older;
                let notes = notes(&plan.believed, current, unsaid_is_older);
                Ok((plan, notes))
            }
        }
    }
}

fn expect(order: &Order, current: &State) -> Result<(), Refusal> {
    match order.expect_sha256.is_none_or(|hash| hash == source_sha256(current)) {
        true => Ok(()),
        false => Err(Refusal::new(Reason::Expectation, "config changed since it was read")),
    }
}

fn keyed(
    key: &str,
    json: Option<&str>,
    current: &State,
    rules: &Rules<'_>,
) -> Result<(Plan, Vec<String>), Refusal> {
    let wrong = |why: String| Refusal::new(Reason::Invalid, why);
    let (form, text) = keys::with_key(current, key, json)
        .map_err(wrong)?
        .ok_or_else(|| wrong("there is no such key".to_owned()).at_key(key))?;
    let plan = save::whole(form, Some(current), text.as_bytes(), current, rules)
        // The line is one of a text that nobody has typed.
        .map_err(|r| Refusal { line: None, ..r })?;
    let stored = ConfigState::of(current).value().and_then(version::of);
    let asked = version::of(&read(form, &text)?.value);
    let stays = stored.filter(|stored| asked.is_none_or(|asked| asked < *stored));
    match stays.map(|stored| format!("the stored version is {stored} and never goes down")) {
        Some(why) if json.is_none() => Err(Refusal::new(Reason::Version, why).at_key(key)),
        stays => Ok((plan, stays.into_iter().collect())),
    }
}

/// JSON when it is that, else YAML; what begins like JSON is meant as such and held to it, unless
/// the stored text is YAML in flow style, which begins in the same way.
fn form_of(text: &str, current: &ConfigState) -> Form {
    let flow =
        |text: &str| text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']);
    match current.source() {
        _ if !flow(text) => Form::Yaml,
        Some((Form::Yaml, source)) if flow(source) && read(Form::Json, text).is_err() => Form::Yaml,
        _ => Form::Json,
    }
}

/// What a whole text does not do although it says so.
fn notes(wrote: &State, current: &State, unsaid_is_older: bool) -> Vec<String> {
    let version = |state: &State| ConfigState::of(state).value().and_then(version::of);
    let Some(stored) = version(current) else { return Vec::new() };
    match version(wrote) {
        Some(v) if v < stored => vec![format!(
            "version {v} is older than the stored {stored}, which stays, as do the keys that are \
             not in the text"
        )],
        None if unsaid_is_older => {
            vec![format!("no version: the stored {stored} stays, as do the keys not in the text")]
        }
        Some(_) | None => Vec::new(),
    }
}
