//! Chance for tests: numbers that fall the same again with the same seed.
//! Must not: read a clock.
//! Runs on the thread that rolls.

/// Numbers that look random: splitmix64. Every seed is good.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// One of the numbers below `below`; 0 when there is none.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.bits() % below.max(1)
    }
}

/// A number out of the environment.
pub fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the dice begin with: `WARREN_SEED`, or another number each time. It is printed.
pub fn seed() -> u64 {
    let seed = variable("WARREN_SEED", u64::from(std::process::id()));
    println!("WARREN_SEED={seed}");
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        // The generator's published first numbers for the seed 1234567.
        let mut dice = Dice(1_234_567);
        assert_eq!(dice.bits(), 6_457_827_717_110_365_317);
        assert_eq!(dice.bits(), 3_203_168_211_198_807_973);
        assert_eq!(dice.roll(0), 0);
        assert!((0..1000).all(|_| dice.roll(7) < 7));
    }
}
