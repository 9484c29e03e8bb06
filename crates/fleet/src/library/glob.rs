//! Wildcard patterns of `match()`: `*`, `?`, a backslash before either; letters of ASCII match in
//! either case.

/// Whether a pattern matches a whole text. Takes at most length times length steps.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows a star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            None if t == text.len() => return true,
            None => None,
            Some(_) if t == text.len() => return false,
            Some(b'?') => Some(1),
            Some(b'\\') => match pattern.get(p + 1) {
                Some(next @ (b'*' | b'?')) => (text[t] == *next).then_some(2),
                _ => (text[t] == b'\\').then_some(1),
            },
            Some(byte) => byte.eq_ignore_ascii_case(&text[t]).then_some(1),
        };
        match (step, retry) {
            (Some(length), _) => {
                p += length;
                t += 1;
            }
            (None, Some((after_star, at))) if at < text.len() => {
                retry = Some((after_star, at + 1));
                (p, t) = (after_star, at + 1);
            }
            _ => return false,
        }
    }
}

/// What every match of a pattern has: how it begins, how it ends, and the longest text that is
/// somewhere in it; all in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// How it begins.
    pub prefix: Vec<u8>,
    /// How it ends.
    pub suffix: Vec<u8>,
    /// What is somewhere in it.
    pub part: Vec<u8>,
    /// Whether the pattern is a plain text: then it is the prefix.
    pub is_literal: bool,
}

/// Takes a pattern apart.
pub fn needed(pattern: &[u8]) -> Needed {
    let mut pieces: Vec<Vec<u8>> = vec![Vec::new()];
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        let literal = match (byte, pattern.get(at + 1)) {
            (b'*' | b'?', _) => None,
            (b'\\', Some(next @ (b'*' | b'?'))) => {
                at += 1;
                Some(*next)
            }
            (byte, _) => Some(byte.to_ascii_lowercase()),
        };
        match literal {
            Some(byte) => pieces.last_mut().expect("there is one").push(byte),
            None => pieces.push(Vec::new()),
        }
        at += 1;
    }
    Needed {
        prefix: pieces.first().cloned().unwrap_or_default(),
        suffix: pieces.last().cloned().unwrap_or_default(),
        is_literal: pieces.len() == 1,
        part: pieces.into_iter().max_by_key(Vec::len).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::Numbers;

    /// The definition, without cleverness.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], text) => text.is_empty(),
            ([b'*', rest @ ..], text) => {
                (0..=text.len()).any(|skipped| slow(rest, &text[skipped..]))
            }
            ([b'?', rest @ ..], [_, text @ ..]) => slow(rest, text),
            ([b'\\', b'*' | b'?', rest @ ..], [byte, text @ ..]) => {
                *byte == pattern[1] && slow(rest, text)
            }
            ([first, rest @ ..], [byte, text @ ..]) => {
                first.eq_ignore_ascii_case(byte) && slow(rest, text)
            }
            _ => false,
        }
    }

    #[test]
    fn matches_as_defined_and_has_what_is_needed() {
        let mut numbers = Numbers(1);
        let mut hits = 0;
        for _ in 0..20_000 {
            let mut word = |alphabet: &[u8], length: usize| -> Vec<u8> {
                let length = numbers.below(length);
                (0..length).map(|_| alphabet[numbers.below(alphabet.len())]).collect()
            };
            let (pattern, text) = (word(b"abA*?\\", 7), word(b"abB*\\", 7));
            let found = matches(&pattern, &text);
            assert_eq!(found, slow(&pattern, &text), "{pattern:?} {text:?}");
            if found {
                hits += 1;
                let (needed, text) = (needed(&pattern), text.to_ascii_lowercase());
                assert!(text.starts_with(&needed.prefix) && text.ends_with(&needed.suffix));
                let has =
                    |part: &[u8]| part.is_empty() || text.windows(part.len()).any(|w| w == part);
                assert!(has(&needed.part), "{pattern:?} {text:?}");
                assert!(!needed.is_literal || text == needed.prefix);
            }
        }
        assert!(hits > 1000, "only {hits} of the made-up texts match");
    }
}
