//! From a sequence that fails to a small one that does.

use super::ops::{Edits, Op};

/// Takes out as much as it can while `fails` says that what is left still fails.
pub fn shrink(ops: Vec<Op>, mut fails: impl FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut ops = ops;
    let mut chunk = ops.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        let mut smaller = false;
        while at < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(at..(at + chunk).min(ops.len()));
            if fails(&fewer) {
                ops = fewer;
                smaller = true;
            } else {
                at += chunk;
            }
        }
        if !smaller || chunk > 1 {
            chunk /= 2;
        }
    }
    for at in 0..ops.len() {
        while let Some(simpler) = simpler(&ops[at]) {
            let mut all = ops.clone();
            all[at] = simpler;
            if !fails(&all) {
                break;
            }
            ops = all;
        }
    }
    ops
}

/// The operation with one edit less.
fn simpler(op: &Op) -> Option<Op> {
    let mut op = op.clone();
    match &mut op {
        Op::Write { edits, .. }
        | Op::Save { edits, .. }
        | Op::Append { edits, .. }
        | Op::Draft { edits, .. }
        | Op::CrashIn { edits, .. } => {
            let Edits(all) = edits;
            all.pop()?;
        }
        _ => return None,
    }
    Some(op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::{Generator, Mix};

    #[test]
    fn what_is_left_is_what_it_takes() {
        let mix = Mix { ends: [50, 0, 50, 0], rests: 50 };
        let ops = Generator::new(3).sequence(200, &mix);
        let fails = |ops: &[Op]| {
            let crash = ops.iter().position(|op| *op == Op::Crash);
            crash.is_some_and(|at| ops[at..].contains(&Op::Remount))
        };
        assert!(fails(&ops));
        assert_eq!(shrink(ops, fails), [Op::Crash, Op::Remount]);
    }
}
