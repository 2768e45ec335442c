//! One version of the config.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use super::render;
use super::tree::{Form, read_value, text_of};
use super::value::Value;
use crate::documents::{Content, DocState, State};
use crate::model::{Refusal, View};

/// The form behind a name; `None` for names of other documents.
pub(super) fn form_of(view: View) -> Option<Form> {
    match view {
        View::ConfigJson => Some(Form::Json),
        View::ConfigYaml => Some(Form::Yaml),
        View::MissionsMd | View::QuarantineMd | View::File(_) => None,
    }
}

/// The config of one version: a source text and, when somebody saved the other name in a
/// way of their own, the text of that name too. Both always mean the same value.
pub struct ConfigState {
    config: Option<Config>,
}

struct Config {
    form: Form,
    source: Arc<str>,
    other: Option<Arc<str>>,
    /// Of the source.
    value: OnceLock<Arc<Value>>,
    shown: OnceLock<Arc<str>>,
    contents: [OnceLock<Content>; 2],
    archive: OnceLock<Content>,
}

impl Config {
    fn value(&self) -> &Arc<Value> {
        self.value.get_or_init(|| {
            Arc::new(read_value(self.form, &self.source).unwrap_or_else(|refusal| {
                log::error!("a config that was read before cannot be read: {refusal}");
                Value::Null
            }))
        })
    }
}

impl ConfigState {
    /// A store in which no config was ever saved: neither name exists.
    pub(super) fn none() -> ConfigState {
        ConfigState { config: None }
    }

    /// A text that was read, and perhaps a text of the other form with the same value. The
    /// latter is dropped when it is what rendering would give anyway. `value` is equal to that
    /// of the source; order and number spelling are taken from the source itself, so that a
    /// version renders alike before and after a restart.
    pub(super) fn new(
        form: Form,
        source: &str,
        value: Arc<Value>,
        other: Option<String>,
    ) -> ConfigState {
        let value = read_value(form, source).map_or(value, Arc::new);
        ConfigState::with(form, source, value, other)
    }

    /// With the value as the source has it.
    pub(super) fn with(
        form: Form,
        source: &str,
        value: Arc<Value>,
        other: Option<String>,
    ) -> ConfigState {
        let shown: OnceLock<Arc<str>> = OnceLock::new();
        let other = other.filter(|o| {
            let rendered = shown.get_or_init(|| render::document(form.other(), &value).into());
            **o != **rendered
        });
        ConfigState {
            config: Some(Config {
                form,
                source: source.into(),
                other: other.map(Into::into),
                value: OnceLock::from(value),
                shown,
                contents: Default::default(),
                archive: OnceLock::new(),
            }),
        }
    }

    /// Reads a text as a version of its own.
    pub(super) fn read(form: Form, text: &str) -> Result<ConfigState, Refusal> {
        let value = read_value(form, text)?;
        Ok(ConfigState::with(form, text, Arc::new(value), None))
    }

    /// Behind a [`State`]; one of another kind counts as no config.
    pub(super) fn of(state: &State) -> &ConfigState {
        static NONE: ConfigState = ConfigState { config: None };
        state.as_any().downcast_ref().unwrap_or(&NONE)
    }

    /// The source form and text.
    pub(super) fn source(&self) -> Option<(Form, &str)> {
        self.config.as_ref().map(|c| (c.form, &*c.source))
    }

    /// The value.
    pub fn value(&self) -> Option<&Value> {
        self.config.as_ref().map(|c| &**c.value())
    }

    /// The same, shared.
    pub(super) fn shared_value(&self) -> Option<Arc<Value>> {
        self.config.as_ref().map(|c| c.value().clone())
    }

    /// The text that somebody saved under the name that is not the source's.
    pub(super) fn saved_other(&self) -> Option<&str> {
        self.config.as_ref()?.other.as_deref()
    }

    /// The text of a form.
    pub(super) fn text(&self, form: Form) -> Option<&str> {
        let c = self.config.as_ref()?;
        Some(match &c.other {
            _ if form == c.form => &c.source,
            Some(other) => other,
            None => c.shown.get_or_init(|| render::document(form, c.value()).into()),
        })
    }

    /// Reads an archive: a line `none`, `json` or `yaml`, the text; with a number in that line
    /// the source has so many bytes and what follows is the text of the other name.
    pub(super) fn decode(archive: &[u8]) -> Result<ConfigState, String> {
        let text = text_of(archive).map_err(|r| r.to_string())?;
        let (head, body) = text.split_once('\n').ok_or("the first line is missing")?;
        if head == "none" {
            return Ok(ConfigState::none());
        }
        let (name, len) = match head.split_once(' ') {
            Some((name, len)) => (name, Some(len)),
            None => (head, None),
        };
        let form = Form::parse(name).ok_or_else(|| format!("unknown form {name:?}"))?;
        let (source, other) = match len {
            None => (body, None),
            Some(len) => {
                let len: usize = len.parse().map_err(|_| format!("bad length {len:?}"))?;
                let parts = body.split_at_checked(len).ok_or("shorter than its length")?;
                (parts.0, Some(parts.1))
            }
        };
        let value = read_value(form, source).map_err(|r| r.to_string())?;
        if let Some(other) = other {
            let theirs = read_value(form.other(), other).map_err(|r| r.to_string())?;
            if !theirs.same(&value) {
                return Err("its two texts differ in value".into());
            }
        }
        Ok(ConfigState::with(form, source, Arc::new(value), other.map(str::to_owned)))
    }
}

impl DocState for ConfigState {
    fn view(&self, view: View) -> Option<Content> {
        let c = self.config.as_ref()?;
        let form = form_of(view)?;
        let text = self.text(form)?;
        let content = c.contents[usize::from(form == Form::Yaml)]
            .get_or_init(|| Content::from(text.as_bytes().to_vec()));
        Some(content.clone())
    }

    fn archive(&self) -> Content {
        let Some(c) = &self.config else { return Content::from(b"none\n".to_vec()) };
        let make = || {
            let other = c.other.as_deref();
            let head = match other {
                None => format!("{}\n", c.form.as_str()),
                Some(_) => format!("{} {}\n", c.form.as_str(), c.source.len()),
            };
            let parts = [head.as_bytes(), c.source.as_bytes(), other.unwrap_or("").as_bytes()];
            Content::from_chunks(parts.map(Arc::from))
        };
        c.archive.get_or_init(make).clone()
    }

    fn source(&self) -> Option<View> {
        self.config.as_ref().map(|c| match c.form {
            Form::Json => View::ConfigJson,
            Form::Yaml => View::ConfigYaml,
        })
    }

    fn bare(&self) -> Option<State> {
        let Config { form, source, other, .. } = self.config.as_ref()?;
        Some(Arc::new(ConfigState {
            config: Some(Config {
                form: *form,
                source: source.clone(),
                other: other.clone(),
                value: OnceLock::new(),
                shown: OnceLock::new(),
                contents: Default::default(),
                archive: OnceLock::new(),
            }),
        }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
