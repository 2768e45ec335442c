//! What a text is made of: entries, each one or more whole lines.

use std::borrow::Cow;

use super::marker::{self, Markers};

/// Where a line stands: under which header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// Before the first header.
    Preamble,
    /// Rows with state `pending`.
    Pending,
    /// Rows with state `in_progress`.
    InProgress,
    /// Rows with state `done`.
    Done,
    /// Rows with state `failed`.
    Failed,
    /// Rows of `ci_queue`.
    Ci,
    /// Rows of `ideas`.
    Ideas,
    /// Under a header that is not ours: layout.
    Unknown,
}

impl Section {
    /// All that hold rows, in the order of a fresh text.
    pub const WITH_ROWS: [Section; 6] = [
        Section::Ci,
        Section::Ideas,
        Section::Pending,
        Section::InProgress,
        Section::Done,
        Section::Failed,
    ];

    /// The four states of a mission.
    pub const STATES: [Section; 4] =
        [Section::Pending, Section::InProgress, Section::Done, Section::Failed];

    /// The section that a header of this name opens (missions-format section 2).
    pub fn named(name: &str) -> Section {
        match name.trim().to_lowercase().as_str() {
            "pending" | "en attente" => Section::Pending,
            "in progress" | "in_progress" | "en cours" => Section::InProgress,
            "done" | "completed" | "terminées" | "terminés" => Section::Done,
            "failed" => Section::Failed,
            "ci" => Section::Ci,
            "ideas" => Section::Ideas,
            _ => Section::Unknown,
        }
    }

    /// The state column; `None` where no missions are.
    pub fn state(self) -> Option<&'static str> {
        match self {
            Section::Pending => Some("pending"),
            Section::InProgress => Some("in_progress"),
            Section::Done => Some("done"),
            Section::Failed => Some("failed"),
            _ => None,
        }
    }

    /// The section of a state column. Rows with a state that we do not know are shown
    /// under Pending (architecture rule 6: visible).
    pub fn of_state(state: &str) -> Section {
        Section::STATES
            .into_iter()
            .find(|s| s.state() == Some(state.trim()))
            .unwrap_or(Section::Pending)
    }

    /// Whether it holds missions.
    pub fn is_state(self) -> bool {
        self.state().is_some()
    }

    /// The table of its rows.
    pub fn table(self) -> &'static str {
        match self {
            Section::Ci => "ci_queue",
            Section::Ideas => "ideas",
            _ => "missions",
        }
    }

    /// The header in Kōan's spelling.
    pub fn header(self) -> &'static str {
        match self {
            Section::Pending => "## Pending",
            Section::InProgress => "## In Progress",
            Section::Done => "## Done",
            Section::Failed => "## Failed",
            Section::Ci => "## CI",
            Section::Ideas => "## Ideas",
            Section::Preamble | Section::Unknown => "",
        }
    }

    /// One letter for the archive.
    pub fn letter(self) -> char {
        match self {
            Section::Preamble => '-',
            Section::Pending => 'p',
            Section::InProgress => 'i',
            Section::Done => 'd',
            Section::Failed => 'f',
            Section::Ci => 'c',
            Section::Ideas => 'n',
            Section::Unknown => '?',
        }
    }

    /// The section with this archive letter.
    pub fn of_letter(letter: &str) -> Option<Section> {
        [Section::Preamble, Section::Unknown]
            .into_iter()
            .chain(Section::WITH_ROWS)
            .find(|s| letter.len() == 1 && letter.starts_with(s.letter()))
    }
}

/// The columns of a mission, its state apart: that is the entry's section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mission {
    /// Without the leading `- ` and trailing markers; a block whole. Lines end with `\n`.
    pub text: String,
    /// `default` when no tag says otherwise.
    pub project: String,
    /// From its tag.
    pub complexity: Option<String>,
    /// Times `YYYY-MM-DDTHH:MM`, and the cause of a failure, shown in the text or not.
    pub times: Markers,
    /// How often it was taken up again after a crash.
    pub recoveries: i64,
}

impl Mission {
    /// From a text without markers; columns from its tags.
    pub fn of_text(text: String, times: Markers) -> Mission {
        let project = marker::project(&text);
        let complexity = marker::complexity(&text);
        Mission { text, project, complexity, times, recoveries: 0 }
    }

    /// It is a `### ` block.
    pub fn is_block(&self) -> bool {
        self.text.trim_start().starts_with("### ")
    }
}

/// The columns of a CI line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ci {
    /// `project`, empty when there is none.
    pub project: String,
    /// `pr_url`
    pub url: String,
    /// `branch`
    pub branch: Option<String>,
    /// `full_repo`
    pub repo: Option<String>,
    /// `queued`
    pub queued: Option<String>,
    /// `attempt`
    pub attempt: i64,
    /// `max_attempts`
    pub max_attempts: i64,
}

/// The columns of an idea.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Idea {
    /// With its leading `- `, as the column has it.
    pub text: String,
    /// As of a mission.
    pub project: String,
    /// `added_at`, `YYYY-MM-DDTHH:MM`
    pub added: Option<String>,
}

/// What an entry means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A line that is kept where it stands and means nothing.
    Layout,
    /// A header that opens the entry's section.
    Header,
    /// A row of `missions`.
    Mission(Box<Mission>),
    /// A row of `ci_queue`.
    Ci(Box<Ci>),
    /// A row of `ideas`.
    Idea(Box<Idea>),
}

/// One or more whole lines with one meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Mission number for missions, line number for all others; never used again.
    pub id: u64,
    /// What it means.
    pub kind: Kind,
    /// The section in force after it.
    pub section: Section,
    /// The lines as typed, line ends included. Only the last entry of a text may lack one.
    pub raw: Box<str>,
    /// The lines, parsed by themselves, would not give this entry (a row text with a header
    /// in it): wherever exactly these lines stand they are this entry.
    pub opaque: bool,
    /// Holds a fence that no later line closes.
    pub open_fence: bool,
}

/// Ids from here on are of a writer's belief only: no committed entry has one.
pub const BELIEVED_ID: u64 = 1 << 62;

impl Entry {
    /// It has a row.
    pub fn is_item(&self) -> bool {
        !matches!(self.kind, Kind::Layout | Kind::Header)
    }

    /// The mission's columns.
    pub fn mission(&self) -> Option<&Mission> {
        match &self.kind {
            Kind::Mission(m) => Some(m),
            _ => None,
        }
    }

    /// An empty line.
    pub fn is_blank(&self) -> bool {
        matches!(self.kind, Kind::Layout) && self.raw.trim().is_empty()
    }

    /// The row's text in the form in which texts are compared (merge.md: without trailing
    /// blanks and line ends); of layout its line.
    pub fn clean(&self) -> Cow<'_, str> {
        match &self.kind {
            Kind::Layout | Kind::Header => Cow::Borrowed(self.raw.trim_end()),
            Kind::Mission(m) => clean(&m.text),
            Kind::Idea(i) => clean(&i.text),
            Kind::Ci(c) => Cow::Borrowed(&c.url),
        }
    }

    /// Identity and row content are the same; how the lines are spelt may differ.
    pub fn same_row(&self, other: &Entry) -> bool {
        self.section == other.section && self.kind == other.kind
    }

    /// Whether two entries may stand for the same thing at all.
    pub fn same_sort(&self, other: &Entry) -> bool {
        std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind)
    }

    /// What it is called in messages and overlaps.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Mission(_) => format!("#{}", self.id),
            Kind::Ci(c) => c.url.clone(),
            Kind::Idea(_) => "idea".to_owned(),
            Kind::Layout | Kind::Header => format!("line {:?}", self.raw.trim()),
        }
    }
}

/// A row text after the clean-up that a foreign program may have given it: every line
/// stripped, empty lines gone.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains('\n') {
        return Cow::Borrowed(text.trim());
    }
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}
