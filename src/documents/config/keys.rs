//! Single keys, for commands: pure functions from one version to a text to print or to save.

use super::edit::reach;
use super::path::KeyPath;
use super::render::{self, Layout};
use super::state::ConfigState;
use super::tree::{Form, read};
use super::value::Value;
use crate::documents::State;
use crate::model::View;

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

/// The whole text to save, and under which name, so that the key is `new`, or gone when that
/// is `None`. `new` is JSON, else a string. The result is to be saved as by a writer that
/// has seen `state`. `Ok(None)`: there is no such key to take out. `Err`: one line that says
/// what is wrong with the path or in its way.
pub fn with_key(
    state: &State,
    path: &str,
    new: Option<&str>,
) -> Result<Option<(View, String)>, String> {
    let path = KeyPath::parse(path)?;
    let state = ConfigState::of(state);
    let mut value = state.value().cloned().unwrap_or(Value::Map(Vec::new()));
    match new {
        Some(new) => path.set(&mut value, parse_value(new))?,
        None if !path.unset(&mut value) => return Ok(None),
        None => {}
    }
    if !matches!(value, Value::Map(_)) {
        return Err("the config itself must be an object".into());
    }
    Ok(Some(match state.source() {
        Some((form, text)) => (view(form), reach(form, text, &value)),
        None => (View::ConfigJson, render::document(Form::Json, &value)),
    }))
}

fn view(form: Form) -> View {
    match form {
        Form::Json => View::ConfigJson,
        Form::Yaml => View::ConfigYaml,
    }
}

fn parse_value(text: &str) -> Value {
    let wrapped = read(Form::Json, &format!("{{\"value\": {text}\n}}"));
    match wrapped.map(|d| d.value) {
        Ok(Value::Map(m)) if m.len() == 1 => m.into_iter().next().map_or(Value::Null, |(_, v)| v),
        _ => Value::Str(text.to_owned()),
    }
}
