//! Names and patterns of `*` and `?`, of units and of files.
//! What must not be here: a listing of what there is.
//! Pure: runs on any thread.

/// Whether a name fits a pattern of `*` and `?`; each star is tried once from where it last was.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}
