//! Single keys, for commands: pure functions from one version to a text to print or to save.

use super::edit::reach;
use super::path::KeyPath;
use super::render::{self, Layout};
use super::state::ConfigState;
use super::tree::{Form, read};
use super::value::Value;
use crate::documents::State;

/// The bytes of the source form, which `--expect-sha256` is about; empty without a config.
pub fn source_bytes(state: &State) -> &[u8] {
    ConfigState::of(state).source().map_or(&[], |(_, text)| text.as_bytes())
}

/// What stands at a key path, as JSON without a final newline; `None` when nothing does.
/// `Err`: the path cannot be read, with the reason in one line.
pub fn get(state: &State, path: &str) -> Result<Option<String>, String> {
    let path = KeyPath::parse(path)?;
    let Some(value) = ConfigState::of(state).value().and_then(|v| path.get(v)) else {
        return Ok(None);
    };
    let mut out = String::new();
    render::json(value, &Layout::default(), "", &mut out);
    Ok(Some(out))
}

/// The whole text to save, and in which form, so that the key is `new` (JSON), or gone when that
/// is `None`. The result is to be saved as by a writer that has seen `state`. `Ok(None)`: there
/// is no such key to take out. `Err`: one line that says what is wrong with the path, with the
/// value, or in its way.
pub(super) fn with_key(
    state: &State,
    path: &str,
    new: Option<&str>,
) -> Result<Option<(Form, String)>, String> {
    let path = KeyPath::parse(path)?;
    let state = ConfigState::of(state);
    let mut value = state.value().cloned().unwrap_or(Value::Map(Vec::new()));
    match new {
        Some(new) => {
            let new = parse_json(new).ok_or_else(|| format!("{path}: the value is no JSON"))?;
            path.set(&mut value, new)?;
        }
        None if !path.unset(&mut value) => return Ok(None),
        None => {}
    }
    if !matches!(value, Value::Map(_)) {
        return Err("the config itself must be an object".into());
    }
    Ok(Some(match state.source() {
        Some((form, text)) => (form, reach(form, text, &value)),
        None => (Form::Json, render::document(Form::Json, &value)),
    }))
}

/// Any JSON value, strictly; `None`: it is none.
pub(super) fn parse_json(text: &str) -> Option<Value> {
    let wrapped = read(Form::Json, &format!("{{\"value\": {text}\n}}"));
    match wrapped.map(|d| d.value) {
        Ok(Value::Map(m)) if m.len() == 1 => m.into_iter().next().map(|(_, v)| v),
        _ => None,
    }
}
