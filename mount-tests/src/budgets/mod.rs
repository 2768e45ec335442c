//! What work on a document may cost at most, measured: the table of budgets.
//!
//! Every row is a ratio of what was measured side by side in this run, or a bound that the
//! machine's speed does not matter much for (memory; the time to the first answer).

mod alone;
mod crowd;
mod koan;
mod pairs;

pub use crowd::{appender, holder};

/// One line of the table.
pub struct Row {
    /// What is done, with how many missions.
    pub work: &'static str,
    /// What it may cost.
    pub budget: &'static str,
    /// What it cost here.
    pub measured: String,
    /// Measured over allowed: at most 1 is within the budget.
    pub share: f64,
    /// Why it is not met, told only then.
    pub because: &'static str,
}

impl Row {
    /// Whether the budget is kept.
    pub fn met(&self) -> bool {
        self.share <= 1.0
    }

    /// The row as Markdown.
    fn line(&self) -> String {
        let verdict = if self.met() { "met" } else { "**not met**" };
        format!(
            "| {} | {} | {} | {:.2} | {verdict} |\n",
            self.work, self.budget, self.measured, self.share
        )
    }
}

/// What measures some rows in about this many seconds for each party.
type Group = fn(f64) -> Vec<Row>;

/// Name, how often on mounts of its own, and what measures.
const GROUPS: [(&str, usize, Group); 9] = [
    ("small", MOUNTS, pairs::hundred),
    ("append", MOUNTS, pairs::appends),
    ("save", 1, pairs::save),
    ("cat", 1, pairs::cat),
    ("crowd", 1, crowd::appends),
    ("readers", 1, crowd::readers),
    ("mount", 1, alone::mount),
    ("config", 1, pairs::config),
    ("koan", 1, koan::replace_all),
];

/// A mount stays quicker or slower than another one for as long as it lives, by a quarter where a
/// call takes some microseconds: so those rows are the middle one of so many mounts.
const MOUNTS: usize = 9;

/// The middle one of each row, with the range of its share.
fn middle(group: Group, mounts: usize, seconds: f64) -> Vec<Row> {
    let mut columns: Vec<Vec<Row>> = Vec::new();
    for _ in 0..mounts {
        for (at, row) in group(seconds).into_iter().enumerate() {
            if columns.len() <= at {
                columns.push(Vec::new());
            }
            columns[at].push(row);
        }
    }
    let one = |mut rows: Vec<Row>| {
        rows.sort_by(|a, b| a.share.total_cmp(&b.share));
        let (least, most) = (rows[0].share, rows[rows.len() - 1].share);
        let mut row = rows.swap_remove(rows.len() / 2);
        if mounts > 1 {
            row.measured.push_str(&format!("; share {least:.2} to {most:.2} on {mounts} mounts"));
        }
        row
    };
    columns.into_iter().map(one).collect()
}

/// Measures all of them, printing each as soon as it is known. The table as Markdown, with the
/// reasons for what is not met below it. `only`: the group of this name.
pub fn table(seconds: f64, only: Option<&str>) -> String {
    let head = "| work | budget | measured | share of the budget | |\n|---|---|---|---:|---|\n";
    print!("{head}");
    let (mut table, mut reasons) = (head.to_owned(), String::new());
    let wanted = |group: &str| only.is_none_or(|only| group == only);
    for (group, mounts, rows) in GROUPS {
        if !wanted(group) {
            continue;
        }
        for row in middle(rows, mounts, seconds) {
            let line = row.line();
            print!("{line}");
            table.push_str(&line);
            if !row.met() {
                reasons.push_str(&format!("* {}: {}\n", row.work, row.because));
            }
        }
    }
    if !reasons.is_empty() {
        table.push_str(&format!("\nNot met, and why:\n\n{reasons}"));
    }
    table
}
