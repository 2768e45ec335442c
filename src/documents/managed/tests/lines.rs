//! A kind of text with the simplest rules: what others have added since the writer looked stays,
//! at the end.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use super::super::FileText;
use crate::documents::{Content, Context, DocState, Plan, Save, State, Written};
use crate::model::{FileId, Reason, Refusal, View};

pub(super) struct Lines(pub(super) FileId);

struct LinesState {
    file: FileId,
    text: Option<Content>,
}

impl DocState for LinesState {
    fn view(&self, view: View) -> Option<Content> {
        self.text.clone().filter(|_| view == View::File(self.file))
    }
    fn archive(&self) -> Content {
        let mark: Arc<[u8]> = Arc::from(&b"+"[..]);
        match &self.text {
            Some(text) => Content::from_chunks([mark].into_iter().chain(text.chunks().cloned())),
            None => Content::from_chunks([]),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FileText for Lines {
    fn state(&self, text: Option<&[u8]>) -> State {
        let text = text.map(|t| Content::from(t.to_vec()));
        Arc::new(LinesState { file: self.0, text })
    }
    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        match archive {
            [] => Ok(self.state(None)),
            [b'+', text @ ..] => Ok(self.state(Some(text))),
            _ => Err("no mark".to_owned()),
        }
    }
    fn believe(&self, text: &[u8], _: &State, _: &Context) -> Result<State, Refusal> {
        Ok(self.state(Some(text)))
    }
    fn plan(&self, save: &Save<'_>, _: &Context) -> Result<Plan, Refusal> {
        let bytes = |state: &State| state.view(save.view).map(|c| c.to_vec());
        let current = bytes(save.current);
        let (next, believed) = match save.written {
            Written::Whole(text) if text.contains(&0) => {
                return Err(Refusal::new(Reason::Invalid, "a NUL byte"));
            }
            Written::Removed => (None, None),
            Written::Fragment(text) => {
                let mut next = current.clone().unwrap_or_default();
                next.extend_from_slice(text);
                (Some(next.clone()), Some(next))
            }
            Written::Whole(text) => {
                let mut next = text.to_vec();
                if let Some(seen) = save.seen {
                    let seen = bytes(seen).unwrap_or_default();
                    let known: HashSet<&[u8]> = seen.split_inclusive(|b| *b == b'\n').collect();
                    let current = current.clone().unwrap_or_default();
                    for line in current.split_inclusive(|b| *b == b'\n') {
                        if !known.contains(line) {
                            next.extend_from_slice(line);
                        }
                    }
                }
                (Some(next), Some(text.to_vec()))
            }
        };
        let same = next == current;
        let next = if same { save.current.clone() } else { self.state(next.as_deref()) };
        let believed = match bytes(&next) == believed {
            true => next.clone(),
            false => self.state(believed.as_deref()),
        };
        Ok(Plan { next, believed, overlaps: Vec::new(), summary: "saved".to_owned() })
    }
    fn summary(&self, _: &State, _: &State) -> String {
        "changed".to_owned()
    }
}
