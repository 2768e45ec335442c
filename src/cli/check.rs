//! `instancefs check`.

use std::path::Path;

use super::args::Check;
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
    let (view, refused) = what(args)?;
    let target = match instance {
        Some(path) => Target::find(Some(path), None)?,
        None => match Target::at_or_above(&args.file)? {
            Some(target) => target,
            None => Target::find(None, None)?,
        },
    };
    if std::fs::metadata(&args.file).map_err(failed)?.len() > LIMIT {
        line(&format!("{file}: larger than {} MiB, the limit of a document", LIMIT >> 20));
        return Err(Failure::silent());
    }
    let content = std::fs::read(&args.file).map_err(failed)?;
    let (above, text) = if refused { rescue::refused_text(&content) } else { (0, &content[..]) };
    let instance = Instance::look(&target.store)?;
    match instance.live.check(view, text) {
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

/// The document that the file would be saved as, and whether it is a kept refusal.
fn what(args: &Check) -> Result<(View, bool)> {
    let base = args.file.file_name().unwrap_or_default().to_string_lossy();
    let kept = |view: &View| base.strip_prefix(view.name()).map(|rest| (*view, rest.to_owned()));
    let by_name = View::ALL.iter().filter_map(kept).find(|(_, rest)| {
        rest.is_empty() || rest.starts_with(".refused") || rest.starts_with(".unsaved-")
    });
    let refused = base.contains(".refused");
    if let Some(name) = &args.name {
        let view = View::from_name(name.as_bytes());
        let unknown = || Failure::usage(format!("--as {name}: no document has this name"));
        return Ok((view.ok_or_else(unknown)?, refused));
    }
    match by_name {
        Some((view, _)) => Ok((view, refused)),
        None => Err(Failure::usage(format!("{}: not the name of a document", args.file.display()))
            .hint("say which with --as missions.md")),
    }
}
