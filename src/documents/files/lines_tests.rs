//! Nothing that one side added to a text is lost in its merge.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::lines::{Merged, Mode, merge};
use crate::text::similarity;

fn merged(seen: &str, written: &str, current: &str) -> (String, Merged) {
    let [s, w, c] = [seen, written, current].map(str::as_bytes);
    let m = merge(Mode::Text, s, w, c);
    (String::from_utf8(m.text.clone()).unwrap(), m)
}

const OLD: &str = "# Notes\n\nfilter whistle g\ncastle ember i\n";
const REWORDED: &str = "filter whistle g sponge";
const OTHER: &str = "mango lagoon h";

#[test]
fn a_line_put_in_the_place_of_one_that_is_reworded_stays() {
    let other = OLD.replace("filter whistle g", OTHER);
    let reworded = OLD.replace("filter whistle g", REWORDED);
    let both = OLD.replace("filter whistle g", &format!("{OTHER}\n{REWORDED}"));
    for (w, c) in [(&reworded, &other), (&other, &reworded)] {
        let (text, m) = merged(OLD, w, c);
        assert_eq!(text, both);
        assert_eq!(m.overlaps.len(), 1, "a removal and a change met: {:?}", m.overlaps);
    }
    // Words say the same when one of them is the old one, changed.
    assert_eq!(merged("f\ng\ni\n", "f\ng1\ni\n", "f\nh\ni\n").0, "f\nh\ng1\ni\n");
    // One after the other, at the end.
    let other = format!("# Notes\n\nfilter whistle g\n{OTHER}\n");
    let reworded = OLD.replace("castle ember i", "castle ember i raven");
    let both = format!("# Notes\n\nfilter whistle g\n{OTHER}\ncastle ember i raven\n");
    assert_eq!(merged(OLD, &reworded, &other).0, both);
}

#[test]
fn two_other_lines_in_the_place_of_one_both_stay() {
    let mine = OLD.replace("castle ember i", "violet oyster k");
    let theirs = OLD.replace("castle ember i", OTHER);
    let (text, m) = merged(OLD, &mine, &theirs);
    assert_eq!(text, OLD.replace("castle ember i", &format!("{OTHER}\nviolet oyster k")));
    assert!(m.overlaps.is_empty());
    // An empty line is no old form of either.
    assert_eq!(merged("a\n\nb\n", "a\nx\nb\n", "a\ny\nb\n").0, "a\ny\nx\nb\n");
    // What both have put there is there once, whatever else was taken out beside it.
    let (mine, theirs) = (format!("violet oyster k\n{OTHER}\n"), format!("{OTHER}\n"));
    assert_eq!(
        merged("filter whistle g\ncastle ember i\n", &mine, &theirs).0.matches(OTHER).count(),
        1
    );
}

const BASE: [&str; 7] = [
    "filter whistle g",
    "castle ember i",
    "bonfire jacket",
    "pebble zephyr u",
    "muffin salmon d",
    "cobalt thistle",
    "orchid hammer y",
];
const NEW: [&str; 5] =
    ["mango lagoon h", "violet oyster k", "desert turnip b", "kernel bishop q", "raven squash p"];
const MORE: [&str; 3] = [" tomorrow", " again", " (done)"];

/// A change: which line of the base, what, and which of the texts.
type Change = (usize, u8, usize);

fn changed(lines: &[&str], changes: &[Change]) -> String {
    let mut slots: Vec<Vec<String>> = lines.iter().map(|l| vec![(*l).to_owned()]).collect();
    for (at, what, which) in changes {
        let (at, new) = (at % lines.len(), NEW[which % NEW.len()].to_owned());
        match what {
            0 => slots[at].clear(),
            1 => slots[at] = vec![format!("{}{}", lines[at], MORE[which % MORE.len()])],
            2 => slots[at] = vec![new],
            3 => slots[at].insert(0, new),
            _ => slots[at].push(new),
        }
    }
    slots.concat().iter().map(|l| format!("{l}\n")).collect()
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((0..7usize, 0..5u8, 0..15usize), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..Default::default() })]

    /// A line that only one side added is there as often as it was added, and one that both added
    /// no less often than either did. The one exception: both reworded one line of the base; then the
    /// earlier wording is in the overlap instead. Of the base there is what neither took out.
    #[test]
    fn what_one_side_added_is_there_as_often_as_it_was_added(
        n in 1..=BASE.len(), mine in changes(), theirs in changes(),
    ) {
        let seen = changed(&BASE[..n], &[]);
        let [w, c] = [mine, theirs].map(|x| changed(&BASE[..n], &x));
        let (text, m) = merged(&seen, &w, &c);
        let alike = |a: &str, b: &str| similarity(a, b, 0.5).is_some();
        let all: BTreeSet<&str> = [&seen, &w, &c, &text].into_iter().flat_map(|t| t.lines()).collect();
        for line in all {
            let [ns, nw, nc, nm] =
                [&seen, &w, &c, &text].map(|t| t.lines().filter(|l| *l == line).count());
            let told = format!("{line:?} of {seen:?}: written {w:?}, current {c:?}, merged {text:?}");
            if ns > 0 {
                prop_assert_eq!(nm, usize::from(nw > 0 && nc > 0), "{}", told);
                continue;
            }
            let mut instead = 0;
            for o in m.overlaps.iter().filter(|o| o.earlier == line && o.later != line) {
                prop_assert!(BASE[..n].iter().any(|b| alike(b, line) && alike(b, &o.later)), "{}", told);
                instead += 1;
            }
            match (nw, nc) {
                (_, 0) => prop_assert_eq!(nm, nw, "{}", told),
                (0, _) => prop_assert_eq!(nm + instead, nc, "{}", told),
                _ => prop_assert!(nm + instead >= nw.max(nc) && nm <= nw + nc, "{}", told),
            }
        }
    }
}
