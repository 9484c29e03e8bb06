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

/// Reads bytes as a stream in the Journal Export Format, whole and in two pieces.
///
/// # Panics
/// If it reads otherwise when it is cut.
pub fn export(data: &[u8]) {
    let read = |pieces: [&[u8]; 2]| {
        let (mut parser, mut entries) = (crate::export::Parser::default(), Vec::new());
        for piece in pieces {
            parser.push(piece, |entry| entries.push((entry.stamp, entry.fields)));
        }
        let (last, left_out) = parser.finish();
        entries.extend(last.map(|entry| (entry.stamp, entry.fields)));
        (entries, left_out.fields, left_out.lines, left_out.parts)
    };
    let (begin, end) = data.split_at(data.len() / 2);
    assert_eq!(read([data, b""]), read([begin, end]));
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
