//! What a fuzzer calls: what reads texts of packages, with the properties that must hold.
//!
//! `fuzz_target!(|text: &str| warren_log_show::fuzz::catalog(text));` is a whole target.

/// Reads text as a catalog of messages.
///
/// # Panics
/// If what is written of it reads as something else.
pub fn catalog(text: &str) {
    crate::catalog::check_round_trip(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_log_store::store::fault::Numbers;

    /// How many inputs a test makes.
    const INPUTS: usize = 2_000;

    #[test]
    fn made_up_catalogs_do_no_harm() {
        let mut numbers = Numbers(17);
        let pieces = [
            "-- 0123456789abcdef0123456789abcdef",
            "-- fedcba9876543210fedcba9876543210",
            "-- ",
            " de",
            "\n",
            "\n\n",
            "Subject: a",
            "@FIELD@",
            "# comment",
            " \t",
            "\r\n",
            "é",
        ];
        for _ in 0..INPUTS {
            let made: String =
                (0..numbers.below(14)).map(|_| pieces[numbers.below(pieces.len())]).collect();
            catalog(&made);
            catalog(&format!("-- 0123456789abcdef0123456789abcdef\n{made}"));
        }
    }
}
