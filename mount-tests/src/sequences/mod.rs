//! Random sequences of system calls, done step by step in two directories: results and what is
//! left must be the same. One of them is on the disk, so the disk says what is right.

mod calls;
mod tree;

use std::path::Path;

use calls::{Call, Place};

/// Names that calls choose from: few, so that calls meet.
const PATHS: &[&str] = &["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a", "f/d", "g"];

/// Open files at once.
const SLOTS: usize = 5;

/// Random numbers from a seed (splitmix64); the same on every machine.
pub struct Dice(u64);

impl Dice {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Does the sequence of `seed`, `steps` calls long, in the two directories, which are empty.
///
/// # Errors
/// What differed, with the calls up to there.
pub fn run(seed: u64, steps: usize, disk: &Path, mount: &Path) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let (mut here, mut there) = (Place::new(disk, SLOTS), Place::new(mount, SLOTS));
    let mut story = Vec::new();
    let told = |story: &[String], what: String| {
        Err(format!("seed {seed}: {what}\nafter:\n  {}", story.join("\n  ")))
    };
    for step in 0..steps {
        let call = Call::random(&mut dice, PATHS, SLOTS);
        let (wanted, got) = (here.perform(&call), there.perform(&call));
        story.push(format!("{call:?} = {wanted}"));
        if wanted != got {
            return told(&story, format!("call {step} gives {got} in the mount"));
        }
    }
    // What is left, first while files are open, then as the next program finds it.
    for open in [true, false] {
        if !open {
            (here, there) = (Place::new(disk, 0), Place::new(mount, 0));
        }
        let (wanted, got) = (tree::describe(disk), tree::describe(mount));
        let differ: Vec<_> = wanted.iter().filter(|line| !got.contains(line)).collect();
        let extra: Vec<_> = got.iter().filter(|line| !wanted.contains(line)).collect();
        if !differ.is_empty() || !extra.is_empty() {
            return told(&story, format!("the disk has {differ:#?}\nthe mount has {extra:#?}"));
        }
    }
    drop((here, there));
    Ok(())
}

/// The same in new directories of an instance's mount and of its store's file system, which are
/// removed again if nothing differed.
///
/// # Errors
/// As [`run`].
pub fn in_instance(it: &crate::Instance, seed: u64, steps: usize) -> Result<(), String> {
    let (disk, mount) = (it.scratch(&format!("s{seed}")), it.path(&format!("s{seed}")));
    for dir in [&disk, &mount] {
        std::fs::create_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    run(seed, steps, &disk, &mount)?;
    for dir in [&disk, &mount] {
        std::fs::remove_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    Ok(())
}
