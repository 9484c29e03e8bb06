//! Chance for tests: numbers that fall the same again with the same seed.

/// Numbers that look random: splitmix64.
pub struct Dice(pub u64);

impl Dice {
    /// One of the numbers below `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % below.max(1)
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
