use super::*;
use crate::model::text::{edited, mission};

const ME: Process = (0, 0);
const OTHER: Process = (1, 0);

/// Letters are missions; one in upper case is reworded.
fn list(letters: &str) -> String {
    let line = |c: char| {
        let words = mission(u32::from(c.to_ascii_lowercase()));
        let words = if c.is_uppercase() { edited(&words, 1) } else { words };
        format!("- {words}\n")
    };
    format!("## Pending\n{}", letters.chars().map(line).collect::<String>())
}

fn seen(letters: &str) -> Seen {
    Seen::of(0, list(letters))
}

fn ask<'q>(by: Process, written: &'q str) -> Question<'q> {
    Question { by, written, until: u64::MAX, removed: None, beside: Vec::new(), own_only: false }
}

fn base(book: &Observations, question: &Question<'_>) -> Option<String> {
    book.choices(question)[0].seen.as_ref().map(|seen| seen.text.clone())
}

#[test]
fn what_the_process_has_met_needs_no_evidence_and_carries_one_save() {
    let mut book = Observations::new(Doc::Missions);
    book.read(ME, seen("ab"));
    let written = list("x");
    let choice = book.choices(&ask(ME, &written)).remove(0);
    assert_eq!(choice.seen, Some(seen("ab")));
    book.use_up(choice.uses, ME);
    book.saved(ME, seen("x"), false);
    assert_eq!(base(&book, &ask(ME, &list("ab"))), Some(list("x")));
    assert_eq!(base(&book, &ask(OTHER, &list("y"))), None, "nothing in common");
}

#[test]
fn strangers_need_evidence_for_half_of_each_and_copy_no_old_text() {
    let mut book = Observations::new(Doc::Missions);
    book.read(ME, seen("ab"));
    book.read(ME, seen("abcde"));
    assert_eq!(base(&book, &ask(OTHER, &list("abx"))), Some(list("ab")));
    assert_eq!(base(&book, &ask(OTHER, &list("axyz"))), None);
    assert_eq!(base(&book, &ask(OTHER, &list("ab"))), None);
}

#[test]
fn of_several_the_nearest_counts_but_none_older_than_what_the_text_knows() {
    let mut book = Observations::new(Doc::Missions);
    book.read(ME, Seen::of(1, list("abc")));
    book.read(ME, Seen::of(2, list("abcdef")));
    assert_eq!(base(&book, &ask(ME, &list("abx"))), Some(list("abc")));
    assert_eq!(base(&book, &ask(ME, &list("de"))), Some(list("abcdef")));
    assert_eq!(base(&book, &ask(ME, &list("dE"))), Some(list("abcdef")), "reworded");
    let longer = list("de").replacen('\n', "\n\n", 1).trim_end().to_owned() + " and more\n";
    assert_eq!(base(&book, &ask(ME, &longer)), Some(list("abcdef")), "with more at its end");
    assert_eq!(base(&book, &ask(ME, &list("abc"))), Some(list("abcdef")), "taken out");
    // Who reads last may have been slow: what others have read past is not newer.
    let mut book = Observations::new(Doc::Missions);
    book.read(ME, Seen::of(2, list("abcd")));
    book.read(OTHER, Seen::of(1, list("abc")));
    book.read(ME, Seen::of(1, list("abc")));
    assert_eq!(base(&book, &ask(ME, &list("abcdx"))), Some(list("abcd")));
}

#[test]
fn a_name_that_was_removed_and_is_made_anew_is_replaced_unless_its_writer_has_met_it() {
    let mut book = Observations::new(Doc::Missions);
    book.read(OTHER, seen("ab"));
    let written = list("x");
    let question = Question { removed: Some(seen("abc")), ..ask(ME, &written) };
    assert_eq!(base(&book, &question), Some(list("ab")), "nobody has met the other one");
    book.read(OTHER, seen("abc"));
    assert_eq!(base(&book, &question), Some(list("abc")));
    book.read(ME, seen("a"));
    assert_eq!(base(&book, &question), Some(list("a")));
}

#[test]
fn a_read_that_was_put_beside_the_document_as_it_was_is_none() {
    let mut book = Observations::new(Doc::Missions);
    book.saved(ME, seen("ab"), false);
    book.settle(1, "");
    book.read(ME, seen("abc"));
    let written = list("ab");
    let question = Question { beside: vec![list("abc")], ..ask(ME, &written) };
    assert_eq!(base(&book, &question), Some(list("ab")));
}

#[test]
fn a_crash_leaves_what_is_on_record() {
    let mut book = Observations::new(Doc::Missions);
    book.read(ME, seen("ab"));
    book.keep();
    book.read(ME, seen("abc"));
    book.recall();
    assert_eq!(base(&book, &ask(ME, &list("x"))), Some(list("ab")));
    book.doubt();
    let written = list("x");
    assert_eq!(book.choices(&ask(ME, &written)).iter().filter(|c| c.seen.is_none()).count(), 2);
}
