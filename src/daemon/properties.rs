//! What must hold for any request on the control socket (see [`crate::properties`]).

use super::control::{Answer, Request};
use crate::documents::config::{ConfigDocument, check_key, check_text, get, source_bytes};
use crate::documents::{Context, Document, Save, Written};
use crate::model::{Stamp, View};
use crate::properties::parts;

/// A line as it comes from the socket, and perhaps a config that an order in it is carried out on.
pub fn control(input: &[u8]) {
    let parts = parts(input);
    let Ok(line) = std::str::from_utf8(parts[0]) else { return };
    if let Ok(answer) = serde_json::from_str::<Answer>(line) {
        let again = serde_json::to_string(&answer).unwrap_or_else(|e| panic!("{e}"));
        assert!(!again.contains('\n'), "an answer is one line");
        assert_eq!(serde_json::from_str::<Answer>(&again).ok(), Some(answer));
    }
    let key = line.trim_end_matches('\n');
    if let Err(why) = check_key(key) {
        assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
    }
    let Ok(request) = serde_json::from_str::<Request>(line) else { return };
    let again = serde_json::to_string(&request).unwrap_or_else(|e| panic!("{e}"));
    assert!(!again.contains('\n'), "a request is one line");
    assert_eq!(serde_json::from_str::<Request>(&again).ok().as_ref(), Some(&request));
    let Request::Config { order, .. } = request else { return };
    let doc = ConfigDocument::new(None, None);
    let mut current = doc.fresh();
    for (view, text) in [View::ConfigYaml, View::ConfigJson].into_iter().zip(&parts[1..]) {
        let Ok(_) = check_text(text.to_vec()) else { return };
        let (seen, rows) = (None, None);
        let written = Written::Whole(text);
        let save = Save { view, seen, written, current: &current, outside_since_seen: false, rows };
        let Ok(plan) = doc.plan(&save, &Context { now: Stamp(0) }) else { return };
        current = plan.next;
    }
    match doc.order(&order, &current) {
        Ok((plan, notes)) => {
            assert!(notes.iter().all(|n| !n.is_empty() && !n.contains('\n')), "{notes:?}");
            let again = doc.decode(&plan.next.archive().to_vec());
            let again = again.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(source_bytes(&again), source_bytes(&plan.next));
            assert!(get(&again, "").is_ok());
        }
        Err(refusal) => {
            assert!(!refusal.message.is_empty() && !refusal.message.contains('\n'), "{refusal:?}");
        }
    }
}
