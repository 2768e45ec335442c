//! Texts on their way: whether what has come so far can still become one that is taken.
//!
//! Many programs never look at the result of `close`, but all look at that of `write`. So a text
//! that comes in order from its beginning is judged as it comes. Only what no continuation can mend
//! is hopeless, and nothing that readers put up with ever is, even where a save of it is refused.
//!
//! Texts and queues take any bytes and are never judged.

mod json;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
#[cfg(test)]
mod tests;

use self::json::Json;
use super::{config, files, missions};
use crate::model::{FileKind, Refusal, View};

/// How long a YAML text may be, in bytes, to be read while it comes; each look reads all of it.
const YAML_LONGEST: usize = 32 << 10;
/// How many bytes of one YAML text are read in this way altogether.
const YAML_READ: usize = 128 << 10;

/// What a text is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `missions.md`
    Missions,
    /// `config.json` or `config.yaml`
    Config(config::Form),
    /// A managed file of this kind.
    File(FileKind),
}

impl Kind {
    /// Of what is saved under a name; `file`: its kind, if it is a managed file. `None`: nothing
    /// there is ever refused for its text, or nothing is taken.
    pub fn of(view: View, file: Option<FileKind>) -> Option<Kind> {
        match (view, file) {
            (View::MissionsMd, _) => Some(Kind::Missions),
            (View::ConfigJson, _) => Some(Kind::Config(config::Form::Json)),
            (View::ConfigYaml, _) => Some(Kind::Config(config::Form::Yaml)),
            (View::File(_), Some(k @ (FileKind::Json | FileKind::Event | FileKind::Yaml))) => {
                Some(Kind::File(k))
            }
            (View::File(_) | View::QuarantineMd, _) => None,
        }
    }

    /// Why this text, if nothing follows it, is refused whatever is there now and whatever its writer
    /// has seen. `None`: it may be taken.
    pub fn refusal(self, text: &[u8]) -> Option<Refusal> {
        match self {
            Kind::Missions => missions::refusal(text),
            Kind::Config(form) => config::refusal(form, text),
            Kind::File(kind) => files::refusal(kind, text),
        }
    }

    /// Why a hopeless text is refused, as its save would be.
    pub fn why(self, text: &[u8]) -> Option<Refusal> {
        let (whole, cut) = without_cut(text);
        // A character that is cut stands where it must not.
        let whole = if cut { &[whole, "\u{fffd}".as_bytes()].concat() } else { whole };
        let refusal = self.refusal(whole)?;
        // What is wrong inside of a string is told at its end.
        match refusal.message.contains("has no end") {
            true => Some(self.refusal(&[whole, b"\""].concat()).unwrap_or(refusal)),
            false => Some(refusal),
        }
    }
}

/// A text without a character that is cut at its end, and whether there is one.
fn without_cut(text: &[u8]) -> (&[u8], bool) {
    match std::str::from_utf8(text) {
        Err(e) if e.error_len().is_none() => (&text[..e.valid_up_to()], true),
        _ => (text, false),
    }
}

/// Judges one text as it comes.
#[derive(Debug, Clone)]
pub struct Judge {
    utf8: Utf8,
    syntax: Syntax,
    hopeless: bool,
}

#[derive(Debug, Clone)]
enum Syntax {
    Any,
    Json(Json),
    /// So many bytes may still be read.
    Yaml(usize),
}

impl Judge {
    /// Of a text of which nothing has come.
    pub fn new(kind: Kind) -> Judge {
        use config::Form;
        let syntax = match kind {
            Kind::Missions => Syntax::Any,
            Kind::Config(Form::Json) | Kind::File(FileKind::Event) => Syntax::Json(Json::new(true)),
            Kind::File(FileKind::Json) => Syntax::Json(Json::new(false)),
            Kind::Config(Form::Yaml) | Kind::File(FileKind::Yaml) => Syntax::Yaml(YAML_READ),
            Kind::File(FileKind::Text | FileKind::Queue) => Syntax::Any,
        };
        Judge { utf8: Utf8::default(), syntax, hopeless: false }
    }

    /// More has come: `text` is all of it, what begins at `from` is new. Whether it is hopeless, and
    /// that for good.
    pub fn more(&mut self, text: &[u8], from: usize) -> bool {
        let new = text.get(from..).unwrap_or_default();
        self.hopeless = self.hopeless || self.utf8.more(new) || new.contains(&0) || {
            match &mut self.syntax {
                Syntax::Any => false,
                Syntax::Json(json) => json.more(new),
                Syntax::Yaml(left) if text.len() > YAML_LONGEST.min(*left) => false,
                Syntax::Yaml(left) => {
                    *left -= text.len();
                    let whole = std::str::from_utf8(without_cut(text).0);
                    whole.is_ok_and(config::never_yaml)
                }
            }
        };
        self.hopeless
    }
}

/// Text in UTF-8, perhaps with a character that is cut at the end of what has come.
#[derive(Debug, Clone, Default)]
struct Utf8 {
    cut: [u8; 4],
    length: usize,
}

impl Utf8 {
    /// More of it; whether that is none.
    fn more(&mut self, mut bytes: &[u8]) -> bool {
        while self.length > 0
            && let [byte, after @ ..] = bytes
        {
            let Some(place) = self.cut.get_mut(self.length) else { return true };
            *place = *byte;
            self.length += 1;
            bytes = after;
            match std::str::from_utf8(&self.cut[..self.length]) {
                Ok(_) => self.length = 0,
                Err(e) if e.error_len().is_none() => {}
                Err(_) => return true,
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => false,
            Err(e) if e.error_len().is_none() => {
                let cut = &bytes[e.valid_up_to()..];
                self.length = cut.len();
                self.cut[..cut.len()].copy_from_slice(cut);
                false
            }
            Err(_) => true,
        }
    }
}
