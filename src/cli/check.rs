//! `instancefs check`.

use std::path::Path;

use super::args::Check;
use super::doc::Doc;
use super::failure::{Failure, Result};
use super::output::line;
use super::target::Target;
use crate::daemon::Instance;
use crate::documents::live::SaveError;
use crate::model::View;
use crate::vfs::rescue;

/// The largest file that can be saved as a document.
const LIMIT: u64 = 64 << 20;

/// Runs the command.
pub fn run(args: &Check, instance: Option<&Path>) -> Result<()> {
    let file = args.file.display();
    let failed = |e: std::io::Error| Failure::new(format!("{file}: {e}"));
    let refused = file_name(args).contains(".refused");
    let (view, target) = what(args, instance)?;
    if std::fs::metadata(&args.file).map_err(failed)?.len() > LIMIT {
        line(&format!("{file}: larger than {} MiB, the limit of a document", LIMIT >> 20));
        return Err(Failure::silent());
    }
    let content = std::fs::read(&args.file).map_err(failed)?;
    let (above, text) = if refused { rescue::refused_text(&content) } else { (0, &content[..]) };
    let instance = Instance::look(&target.store)?;
    match instance.documents.check(view, text) {
        Ok(checked) if !checked.changed => line(&format!("{file}: ok, changes nothing")),
        Ok(checked) => line(&format!("{file}: ok: {}", checked.summary)),
        Err(SaveError::Refused(refusal)) => {
            let place = match refusal.line {
                Some(n) => format!("{file}:{}", above as u64 + u64::from(n)),
                None => file.to_string(),
            };
            let key = refusal.key.as_ref().map(|k| format!("{k}: ")).unwrap_or_default();
            line(&format!("{place}: {key}{}", refusal.message));
            if !refusal.hint.is_empty() {
                line(&format!("  hint: {}", refusal.hint));
            }
            return Err(Failure::silent());
        }
        Err(SaveError::Store(e)) => return Err(e.into()),
    }
    Ok(())
}

fn file_name(args: &Check) -> std::borrow::Cow<'_, str> {
    args.file.file_name().unwrap_or_default().to_string_lossy()
}

/// The name that the file would be saved as, and the instance.
fn what(args: &Check, instance: Option<&Path>) -> Result<(View, Target)> {
    let place = || match instance {
        Some(path) => Target::find(Some(path), None),
        None => match Target::at_or_above(&args.file)? {
            Some(target) => Ok(target),
            None => Target::find(None, None),
        },
    };
    if let Some(name) = &args.name {
        if let Some(view) = View::from_name(name.as_bytes()) {
            return Ok((view, place()?));
        }
        let target = place()?;
        let unknown = || Failure::usage(format!("--as {name}: no document has this name"));
        let file = Doc::find(name, Some(&target.store)).map_err(|_| unknown())?.view;
        return Ok((file.ok_or_else(unknown)?, target));
    }
    let base = file_name(args);
    let name = original(&base);
    if let Some(view) = View::from_name(name.as_bytes()) {
        return Ok((view, place()?));
    }
    let unknown = || {
        Failure::usage(format!("{}: not the name of a document", args.file.display()))
            .hint("say which with --as missions.md")
    };
    // Only what lies in an instance is managed by its name.
    let path = std::path::absolute(args.file.with_file_name(name)).ok();
    let file = path.as_ref().and_then(|p| p.to_str()).and_then(|p| Doc::find(p, None).ok());
    let Some(Doc { view: Some(view), target, rev: None, .. }) = file else { return Err(unknown()) };
    Ok((view, target))
}

/// The name without what a kept refusal or an unsaved buffer has behind it.
fn original(base: &str) -> &str {
    let cuts = [".refused", ".unsaved-"].into_iter().filter_map(|mark| base.find(mark));
    &base[..cuts.min().unwrap_or(base.len())]
}
