//! The one source of chance: a small generator, the same on every machine.

/// splitmix64: 64 bits of state, every seed is good.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.bits() % end }
    }

    /// An index of a list of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True `per_mille` times of 1000.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.index(list.len())]
    }

    /// A generator of its own, for one part of a run: what that part draws changes nothing else.
    pub fn fork(&mut self) -> Random {
        Random::new(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..4).map(|_| random.below(1000)).collect();
        let mut again = Random::new(1);
        assert_eq!(drawn, (0..4).map(|_| again.below(1000)).collect::<Vec<_>>());
        assert_ne!(drawn, (0..4).map(|_| Random::new(2).below(1000)).collect::<Vec<_>>());
    }

    #[test]
    fn chances_are_about_what_they_say() {
        let mut random = Random::new(7);
        let hits = (0..10_000).filter(|_| random.chance(250)).count();
        assert!((2300..2700).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|_| random.chance(0)));
    }
}
