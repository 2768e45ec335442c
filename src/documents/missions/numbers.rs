//! Maps by numbers that are unique by themselves: ids of entries, ids of rows. Hashing them with
//! care would cost more than everything else that is done for a row that has not changed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are made of numbers.
pub type Numbers<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// An empty map with room for `size` keys.
pub fn with_room<K, V>(size: usize) -> Numbers<K, V> {
    HashMap::with_capacity_and_hasher(size, BuildHasherDefault::default())
}

/// Spreads numbers over all bits.
#[derive(Default, Clone, Copy)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        // An odd factor without pattern: neighbours end up far from each other.
        let mixed = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_i64(&mut self, n: i64) {
        self.write_u64(n.cast_unsigned());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn neighbours_are_far_apart() {
        let build = BuildHasherDefault::<Spread>::default();
        let hashes: Vec<u64> = (0..4096u64).map(|n| build.hash_one((true, n))).collect();
        // A table looks at the low bits for the place and at the high ones for a first comparison.
        let places: HashSet<u64> = hashes.iter().map(|h| h & 4095).collect();
        let marks: HashSet<u64> = hashes.iter().map(|h| h >> 57).collect();
        assert!(places.len() > 2000 && marks.len() == 128, "{} {}", places.len(), marks.len());
    }
}
