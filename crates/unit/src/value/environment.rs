//! Files of EnvironmentFile= (systemd.exec(5)), and os-release(5), which has the same form.

/// The assignments of such a file in order. Lines that are empty, begin with `#` or `;` or have no
/// `=` are skipped. Values may be quoted, also in parts, each of which begins where the one before
/// ends; in double quotes and outside of quotes a backslash escapes the next character, and before
/// the end of a line it joins the next one, of which outside of quotes all is kept as it is. A comment too
/// goes on behind such an end.
pub fn environment_file(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if rest.starts_with(['#', ';']) {
            rest = after_comment(rest);
            continue;
        }
        let line_end = rest.find('\n').unwrap_or(rest.len());
        let Some(at) = rest[..line_end].find('=') else {
            rest = rest.get(line_end + 1..).unwrap_or("");
            continue;
        };
        let name = rest[..at].trim();
        let (value, after) = value(rest[at + 1..].trim_start_matches([' ', '\t']));
        if super::super::config::is_variable_name(name) {
            out.push((name.to_owned(), value));
        }
        rest = after;
    }
    out
}

/// What follows a comment.
fn after_comment(text: &str) -> &str {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\n' => return &text[at + 1..],
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    ""
}

/// Reads a value up to the end of its line; returns it and what follows.
fn value(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut kept = 0;
    let mut quote = None;
    // A quote opens only where a word begins: at the start, and after a closing one.
    let mut begins = true;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None, '\n') => {
                out.truncate(kept.max(out.trim_end().len()));
                return (out, &text[at + 1..]);
            }
            (Some(q), c) if c == q => {
                quote = None;
                begins = true;
                kept = out.len();
            }
            (None, '"' | '\'') if begins => quote = Some(c),
            (None, ' ' | '\t') if begins => {}
            (Some('\''), c) => out.push(c),
            (_, '\\') => match chars.next() {
                Some((_, '\n')) | None if quote.is_some() => {}
                // Blanks before it count, where they are not skipped.
                Some((_, '\n')) | None => {
                    begins = false;
                    kept = out.len();
                }
                Some((_, next)) if quote == Some('"') && !"\"\\`$".contains(next) => {
                    out.push('\\');
                    out.push(next);
                }
                Some((_, next)) => {
                    begins = false;
                    out.push(next);
                    kept = out.len();
                }
            },
            (_, c) => {
                begins = false;
                out.push(c);
            }
        }
    }
    if quote.is_none() {
        out.truncate(kept.max(out.trim_end().len()));
    }
    (out, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        let got: Vec<String> =
            environment_file(text).into_iter().map(|(n, v)| format!("{n}=<{v}>")).collect();
        assert_eq!(got.join(" "), want, "{text:?}");
    }

    #[test]
    fn files_are_read_as_a_shell_would() {
        check("A=1\nB = two words \n# c\n;d\nnothing\n", "A=<1> B=<two words>");
        check("A=\"x y \"\nB='a\\b'\nC=a\\ b", "A=<x y > B=<a\\b> C=<a b>");
        check("A=one\\\ntwo\nB=\"l1\nl2\"", "A=<onetwo> B=<l1\nl2>");
        check("1A=x\nA-B=y\nC=\n=z", "C=<>");
        // As systemd does: what follows a closing quote is joined, and is not quoted itself.
        check("A=\"q\\\"q\" tail", "A=<q\"qtail>");
        check("A='a'\"b\"c\nB=a'b'", "A=<abc> B=<a'b'>");
        check("A='a'b\"c\nB= x  y ", "A=<ab\"c> B=<x  y>");
    }

    /// Each is what systemd 252 makes of it.
    #[test]
    fn values_go_on_in_the_next_line() {
        check("A=\"--a\" \\\n \"--b\"\n", "A=<--a \"--b\">");
        check("A=\\\n \"--a\" x\n", "A=< \"--a\" x>");
        check("A='x' \\\n 'y'\nB=\"a\"\\\n b", "A=<x 'y'> B=<a b>");
        check("A= \\\n \"q\"\nB=\"--a\"\\\n\"--b\"", "A=< \"q\"> B=<--a\"--b\">");
        check("A=\"x\" \\\n  \\\n \"y\"\nB=a\\\n#b\nC=1", "A=<x   \"y\"> B=<a#b> C=<1>");
        check("A=\"a \\\n  b\"\n", "A=<a   b>");
        check("A=x  \\\n  \nB=\"a\" \\\n\nC=x \\", "A=<x  > B=<a> C=<x >");
        check("A=\"l1\nl2\n", "A=<l1\nl2\n>");
        check("nothing\\\nB=1\nA\\\nC=1", "B=<1> C=<1>");
    }

    #[test]
    fn comments_go_on_in_the_next_line() {
        check("# foo\\\nB=2\nC=3\n;\\\nB=2", "C=<3>");
        check("# foo\\\\\nB=2\n#a\\b\nC=3\n#\\", "B=<2> C=<3>");
    }
}
