//! Shell patterns for unit names: glob(7) as fnmatch(3) with FNM_NOESCAPE reads it, so `*` and `?`
//! match `/` and a leading dot too, and a backslash matches itself: names of units have some.

/// Whether `name` matches `pattern`. Takes at most the product of both lengths in steps.
pub fn matches(pattern: &str, name: &str) -> bool {
    matches_bytes(pattern.as_bytes(), name.as_bytes())
}

/// On a mismatch goes back to the last star only: earlier stars need no second thought.
fn matches_bytes(pattern: &[u8], name: &[u8]) -> bool {
    // Brackets behind the last that closes one are not looked at for their ends.
    let last_close = pattern.iter().rposition(|byte| *byte == b']').unwrap_or(0);
    let (mut p, mut n) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            last_star = Some((p + 1, n));
            p += 1;
            continue;
        }
        match match_one(&pattern[p..], name[n], p < last_close) {
            Some(used) => (p, n) = (p + used, n + 1),
            None => match last_star {
                Some((after, from)) => {
                    last_star = Some((after, from + 1));
                    (p, n) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of `pattern` match the one byte, if they do. Brackets may be closed or not.
fn match_one(pattern: &[u8], byte: u8, may_close: bool) -> Option<usize> {
    match pattern.first()? {
        b'?' => Some(1),
        b'[' if may_close => match bracket(pattern, byte) {
            Some((true, used)) => Some(used),
            Some((false, _)) => None,
            None => (byte == b'[').then_some(1),
        },
        literal => (*literal == byte).then_some(1),
    }
}

/// Whether `byte` is in the set that `pattern` begins with, and the set's length; nothing if the
/// bracket is never closed.
fn bracket(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = 1 + usize::from(negated);
    let (mut at, mut found) = (first, false);
    loop {
        match *pattern.get(at)? {
            b']' if at > first => return Some((found != negated, at + 1)),
            low => {
                let high = match (pattern.get(at + 1), pattern.get(at + 2)) {
                    (Some(b'-'), Some(&high)) if high != b']' => {
                        at += 2;
                        high
                    }
                    _ => low,
                };
                found |= (low..=high).contains(&byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*", "a.service .x /", ""),
            ("a*.service", "a.service ab.service a.x.service", "b.service a.servic"),
            ("?.service", "a.service", "ab.service .service"),
            ("[a-c]*", "a b1 c", "d"),
            ("[!a-c]*", "d", "a"),
            ("[]]x", "]x", "x"),
            ("[ab", "[ab", "a"),
            (r"a\x2db.service", r"a\x2db.service", "ax2db.service a-b.service"),
            (r"a\x2d*", r"a\x2db.service a\x2d", "ax2db.service"),
            (r"a\*", r"a\ a\b", "a* ab"),
            (r"a[\]b", r"a\b", "a]b"),
            ("[a", "[a", "a"),
            ("**", "x", ""),
            ("*a*b*c", "xaxbxc abc", "acb ab"),
            ("plain", "plain", "plai plainx"),
        ] {
            for name in yes.split_whitespace() {
                assert!(matches(pattern, name), "{pattern} should match {name}");
            }
            for name in no.split_whitespace() {
                assert!(!matches(pattern, name), "{pattern} should not match {name}");
            }
        }
        assert!(matches("", "") && matches("*", "") && !matches("?", ""));
    }

    #[test]
    fn brackets_without_end_take_no_more_than_the_product() {
        assert!(!matches(&format!("*{}", "[".repeat(20_000)), &format!("{}x", "[".repeat(5_000))));
        assert!(matches("*[[", "a[["));
    }

    #[test]
    fn many_stars_take_no_more_than_the_product() {
        assert!(!matches(&"*a".repeat(200), &"a".repeat(199)));
        assert!(matches(&"*a".repeat(200), &"a".repeat(400)));
    }
}
