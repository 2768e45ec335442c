//! The config document: `config.json` and `config.yaml`, two views of one text.
//!
//! The *source* is the text that was saved first; its bytes are kept. The other name is
//! rendered from it. A save of either is merged by key path (`merge`) and becomes the smallest
//! edit of the source text (`edit`), so that comments, order and number spelling survive
//! (state-contracts.md section 1; R3 to R7). If a save of the other name had seen the
//! current version, its bytes are kept as well (R6) and edited in the same way from then on.
//!
//! What YAML can say and JSON cannot is shown in JSON as follows: aliases and `<<` as what they
//! stand for, tagged scalars (`!secret x`), dates, `.inf` and `.nan` as strings, `0x10` as 16.
//! Plain scalars mean what YAML 1.2 says; `0644` is a string (`scalar`).

mod change;
mod edit;
mod edit_block;
mod edit_flow;
mod hopeless;
mod json;
pub mod keyed;
mod keys;
mod lists;
mod merge;
mod order;
mod path;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod render;
mod rows;
mod save;
mod scalar;
mod schema;
mod schema_check;
mod schema_sense;
mod state;
mod summary;
mod tree;
mod unread;
mod value;
mod version;
mod yaml;
mod yaml_walk;

#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod swap_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod version_tests;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

pub use hopeless::{never_yaml, refusal};
pub use keys::{get, source_bytes};
pub use order::{Edit, Order, check_key, check_text, source_sha256, value_json};
pub use path::{KeyPath, Step};
pub use rows::migrate;
pub use state::ConfigState;
pub use tree::Form;
pub(in crate::documents) use tree::{MAX_DEPTH, MAX_VALUES};
pub use value::Value;

/// The value of a text whose top level is an object; `None`: it cannot be read.
pub fn value_of(form: Form, text: &str) -> Option<Value> {
    tree::read_value(form, text).ok()
}

use super::{Context, Document, Plan, Refreshed, Save, State, Written};
use crate::model::{DocId, Reason, Refusal, View};
use crate::store::StoreError;
use save::Rules;
use schema::SchemaFile;

/// The config of one store.
pub struct ConfigDocument {
    schema: Option<SchemaFile>,
    version_limit: Option<i64>,
    /// The bad row that was last complained about.
    complained: Mutex<Option<Vec<u8>>>,
}

impl ConfigDocument {
    /// `store_dir`: where `config.schema.json` may be; `version_limit`: the newest `version`
    /// that is taken unless a newer one is stored already.
    pub fn new(store_dir: Option<PathBuf>, version_limit: Option<i64>) -> ConfigDocument {
        ConfigDocument {
            schema: store_dir.map(|d| SchemaFile::new(&d)),
            version_limit,
            complained: Mutex::new(None),
        }
    }

    /// The schema as it is now, if there is one.
    fn schema_now(&self) -> Option<Arc<schema::Schema>> {
        self.schema.as_ref().and_then(SchemaFile::get)
    }

    fn rules<'a>(&self, schema: Option<&'a schema::Schema>) -> Rules<'a> {
        Rules { schema, version_limit: self.version_limit, unsaid_is_older: true }
    }

    fn complain(&self, text: &[u8], why: &str) {
        let mut last = self.complained.lock();
        if last.as_deref() != Some(text) {
            log::warn!("config changed with SQL, but {why}; the last good version is shown");
            *last = Some(text.to_vec());
        }
    }
}

fn form_of(view: View) -> Result<Form, Refusal> {
    state::form_of(view)
        .ok_or_else(|| Refusal::new(Reason::Invalid, format!("{} is no config", view.name())))
}

impl Document for ConfigDocument {
    fn id(&self) -> DocId {
        DocId::Config
    }

    fn schema(&self) -> &'static str {
        include_str!("rows.sql")
    }

    fn fresh(&self) -> State {
        Arc::new(ConfigState::none())
    }

    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        Ok(Arc::new(ConfigState::decode(archive)?))
    }

    fn believe(
        &self,
        view: View,
        text: &[u8],
        near: &State,
        _cx: &Context,
    ) -> Result<State, Refusal> {
        save::believe(form_of(view)?, tree::text_of(text)?, near)
    }

    fn refresh(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        _cx: &Context,
    ) -> Result<Refreshed, StoreError> {
        let same = |summary: String| Refreshed {
            next: last.clone(),
            changed: false,
            overlaps: Vec::new(),
            summary,
        };
        let was = ConfigState::of(base);
        let row = match rows::load(conn)? {
            None if was.source().is_none() => return Ok(same(String::new())),
            // Programs that replace a row delete it first; and nothing empties a config.
            None => {
                self.complain(b"", "its row is gone");
                return Ok(same("the row of the config is gone; kept the last version".into()));
            }
            Some(row) if row.is(was.source()) => return Ok(same(String::new())),
            Some(row) => row,
        };
        let read = std::str::from_utf8(&row.form)
            .ok()
            .and_then(Form::parse)
            .ok_or_else(|| Refusal::new(Reason::Invalid, "its form is neither json nor yaml"));
        let read = read.and_then(|form| {
            let text = tree::text_of(&row.text)?;
            Ok((form, text, ConfigState::read(form, text)?))
        });
        let (form, text, theirs) = match read {
            Ok(read) => read,
            Err(r) => {
                self.complain(&row.text, &r.to_string());
                return Ok(same(format!("bad config row kept out: {r}")));
            }
        };
        *self.complained.lock() = None;
        let mine = ConfigState::of(last);
        if mine.source() == was.source() {
            // Nothing of ours is pending: the row is the version, bytes and form.
            let other = mine.text(form.other()).filter(|_| {
                mine.saved_other().is_some() || mine.source().is_some_and(|(f, _)| f != form)
            });
            let other = match (other, theirs.value()) {
                (Some(o), Some(v)) => Some(edit::reach(form.other(), o, v)),
                _ => None,
            };
            let summary = summary::of(mine.value(), theirs.value());
            let next = match theirs.shared_value() {
                Some(v) => ConfigState::with(form, text, v, other),
                None => theirs,
            };
            return Ok(Refreshed {
                next: Arc::new(next),
                changed: true,
                overlaps: Vec::new(),
                summary,
            });
        }
        let rules = Rules { schema: None, version_limit: None, unsaid_is_older: true };
        match save::whole(form, Some(base), &row.text, last, &rules) {
            Ok(plan) => Ok(Refreshed {
                changed: !Arc::ptr_eq(&plan.next, last),
                next: plan.next,
                overlaps: plan.overlaps,
                summary: plan.summary,
            }),
            Err(r) => {
                self.complain(&row.text, &r.to_string());
                Ok(same(format!("bad config row kept out: {r}")))
            }
        }
    }

    fn plan(&self, save: &Save<'_>, _cx: &Context) -> Result<Plan, Refusal> {
        let form = form_of(save.view)?;
        let schema = self.schema_now();
        let rules = self.rules(schema.as_deref());
        match save.written {
            Written::Whole(text) => save::whole(form, save.seen, text, save.current, &rules),
            Written::Fragment(text) => save::fragment(form, save.seen, text, save.current, &rules),
            Written::Removed => Err(super::never_removed(save.view)),
        }
    }

    /// Both texts come back as they were, and the number of the version too.
    fn restore(
        &self,
        view: View,
        old: &State,
        current: &State,
        _cx: &Context,
    ) -> Result<Plan, Refusal> {
        let form = form_of(view)?;
        let (was, is) = (ConfigState::of(current), ConfigState::of(old));
        let text = is.text(form).unwrap_or_default();
        let schema = self.schema_now();
        let stored = was.value().and_then(version::of);
        let version_limit = self.version_limit.map(|limit| limit.max(stored.unwrap_or(limit)));
        let rules = Rules { version_limit, ..self.rules(schema.as_deref()) };
        save::whole(form, None, text.as_bytes(), &self.fresh(), &rules)?;
        let same = [Form::Json, Form::Yaml].into_iter().all(|f| was.text(f) == is.text(f));
        let next = if same { current } else { old };
        Ok(Plan {
            next: next.clone(),
            believed: next.clone(),
            overlaps: Vec::new(),
            summary: summary::of(was.value(), is.value()),
        })
    }

    fn apply(
        &self,
        conn: &Connection,
        before: &State,
        after: &State,
        _cx: &Context,
    ) -> Result<State, StoreError> {
        let (was, is) = (ConfigState::of(before).source(), ConfigState::of(after).source());
        if was != is {
            rows::save(conn, is)?;
        }
        Ok(after.clone())
    }
}
