//! `instancefs diff`.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use similar::TextDiff;

use super::args::Diff;
use super::doc::Doc;
use super::failure::Result;
use super::output;
use crate::model::Rev;
use crate::vfs::ports::Documents;

/// The longest that the smallest difference is looked for; then a larger one will do.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn run(args: &Diff, instance: Option<&Path>) -> Result<()> {
    let doc = Doc::find(&args.doc, instance)?;
    let other = args.other.as_deref().map(|other| doc.other(other, instance)).transpose()?;
    let instance = doc.look()?;
    let new = match (other, doc.rev) {
        (Some(rev), _) => doc.at(&instance, rev)?,
        (None, _) => instance.documents.current(doc.id)?,
    };
    let old = match doc.rev {
        Some(rev) => doc.at(&instance, rev)?,
        None => {
            let before = instance.store.revisions(doc.id, Some(new.rev), 1)?;
            doc.at(&instance, before.first().map_or(Rev(0), |r| r.rev))?
        }
    };
    let view = doc.view_in(&new);
    let text = |version: &crate::documents::Version| {
        let bytes = version.view(view).map(|c| c.to_vec()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (a, b) = (text(&old), text(&new));
    let label = |rev: Rev| format!("{}@{rev}", view.name());
    let printed = unified(&a, &b, &label(old.rev), &label(new.rev));
    if std::io::stdout().is_terminal() {
        printed.lines().for_each(output::line);
    } else {
        output::raw(&printed);
    }
    Ok(())
}

/// The difference in the unified format; empty when there is none.
fn unified(a: &str, b: &str, from: &str, to: &str) -> String {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(a, b);
    diff.unified_diff().context_radius(3).header(from, to).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_lines_with_labels_and_missing_ends() {
        assert_eq!(unified("a\n", "a\n", "x@1", "x@2"), "");
        assert_eq!(
            unified("a\nb\n", "a\nc", "x@1", "x@2"),
            "--- x@1\n+++ x@2\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
        );
    }
}
