//! In which order the missions may stand after a save (R3).

use std::collections::BTreeMap;

use super::run::Verdict;
use super::text::List;

/// The missions of one section that are there once, in order.
fn sequence(list: &List, section: usize) -> Vec<u32> {
    let mut count = BTreeMap::new();
    list.items.iter().for_each(|i| *count.entry(i.number).or_insert(0) += 1);
    let there = list.items.iter().filter(|i| i.section == section && count[&i.number] == 1);
    there.map(|i| i.number).collect()
}

/// Whether one text may have moved anything that was in the other, to another section among others.
/// Of equal lines nobody can tell which one stands where: they are judged together, where both texts
/// have as many of them.
pub fn reordered(a: &List, b: &List) -> bool {
    let count = |list: &List, line: &String| list.order.iter().filter(|l| *l == line).count();
    let common = |line: &&String| count(a, line) == count(b, line);
    !a.order.iter().filter(common).eq(b.order.iter().filter(common))
}

/// The order within a section: what nobody moved stays as it was, in relation to everything that
/// nobody moved; of two who have moved something no order is asked for.
///
/// `between`: the versions from the oldest that the writer knew to the current one. What went and came
/// back meanwhile is another one, which stands where others have put it.
pub fn order(
    lists: [&List; 4],
    between: &[List],
    (moved_w, moved_c): (bool, bool),
    rows_changed: bool,
) -> Verdict {
    let came_back = |x: &u32| {
        let there = |list: &List| list.items.iter().any(|i| i.number == *x);
        there(lists[0]) && !between.iter().all(there)
    };
    for section in 0..4 {
        let [s, w, c, n] = lists.map(|list| sequence(list, section));
        let exported = rows_changed && section > 1;
        for (at, a) in n.iter().enumerate() {
            for b in &n[at + 1..] {
                let before = |list: &[u32]| {
                    let place = |x| list.iter().position(|y| y == x);
                    Some(place(a)? < place(b)?)
                };
                let (in_w, in_c) = (before(&w), before(&c));
                // What two have added is there once; at which place, is not said.
                // What was written beside one of equal missions goes where that one is now.
                let open = |x: &u32| {
                    !s.contains(x) && (w.contains(x) && c.contains(x) || beside_equal(lists, *x))
                };
                let both_added = open(a) || open(b);
                let wrong = |who: &str| {
                    Err(format!("{a} stands above {b}, which {who} had the other way round"))
                };
                if !moved_w && in_c == Some(false) && !both_added {
                    return wrong("the current version");
                }
                let back = came_back(a) || came_back(b);
                if !moved_c && !exported && in_w == Some(false) && !both_added && !back {
                    return wrong("the writer");
                }
            }
        }
    }
    Ok(())
}

/// Whether a mission was written next to one of which there are several in any of the texts.
fn beside_equal(lists: [&List; 4], number: u32) -> bool {
    let order = &lists[1].order;
    let Some(at) = order.iter().position(|l| *l == format!("m{number}")) else { return false };
    let beside = [at.checked_sub(1).and_then(|at| order.get(at)), order.get(at + 1)];
    let several = |line: &String| {
        line.starts_with('m')
            && lists.iter().any(|list| list.order.iter().filter(|l| *l == line).count() > 1)
    };
    beside.into_iter().flatten().any(several)
}
