//! Command lines of processes, in words that a shell would take for the same.

/// What is shown of a command line at most.
const COMMAND_LINE_BYTES_MAX: u64 = 4096;

/// Characters that mean something to a shell in the middle of a word.
const SPECIAL: &str = "\"'\\`$*?[()<>&;|!";

/// The command line of a process; its name in brackets if it has none, as threads of the kernel and
/// what is ending, or if its memory does not answer.
pub(crate) fn of(pid: i32) -> String {
    let line = words(&warren_sys::arguments::of(pid, COMMAND_LINE_BYTES_MAX).unwrap_or_default());
    if !line.is_empty() {
        return line;
    }
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    if name.is_empty() { String::new() } else { format!("[{}]", name.trim()) }
}

/// What the kernel has between words is a zero byte; some programs leave more of them at the end.
fn words(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    // Only where words end with one does an empty last word count.
    let bytes = &bytes[..end];
    if bytes.is_empty() {
        return String::new();
    }
    bytes.split(|&byte| byte == 0).map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word in double quotes where it has to be, with what cannot be shown in C's escapes.
fn quoted(word: &[u8]) -> String {
    let special = |c: char| c.is_control() || c.is_whitespace() || SPECIAL.contains(c);
    match std::str::from_utf8(word) {
        Ok(text) if !text.is_empty() && !text.contains(special) => return text.to_owned(),
        _ => {}
    }
    let mut out = String::from('"');
    for chunk in word.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(&mut out, c));
        chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte));
    }
    out.push('"');
    out
}

fn push(out: &mut String, c: char) {
    let short = match c {
        '\x07' => 'a',
        '\x08' => 'b',
        '\x0c' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\x0b' => 'v',
        '"' | '\\' | '`' | '$' => c,
        c if c.is_control() => {
            let mut bytes = [0; 4];
            return c.encode_utf8(&mut bytes).bytes().for_each(|byte| push_byte(out, byte));
        }
        c => return out.push(c),
    };
    out.extend(['\\', short]);
}

fn push_byte(out: &mut String, byte: u8) {
    out.push_str(&format!("\\{byte:03o}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `systemctl status` of 252 shows the same processes.
    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        let check = |bytes: &[u8], want: &str| assert_eq!(words(bytes), want);
        check(b"/bin/sh\0-c\0sleep 100;:\0", r#"/bin/sh -c "sleep 100;:""#);
        check(b"x\0\0y\0", r#"x "" y"#);
        check(b"nginx: worker process\0\0\0", r#""nginx: worker process""#);
        check(b"-o\0-p -- \\u", r#"-o "-p -- \\u""#);
        check(b"c\"d\0i$j\0`v", r#""c\"d" "i\$j" "\`v""#);
        check(b"a?b\0a[b\0a]b\0a|b\0a>b\0x!y\0g'h", r#""a?b" "a[b" a]b "a|b" "a>b" "x!y" "g'h""#);
        check(
            "q~r #w o=p {a,b} % é a^b :,./_-@+".replace(' ', "\0").as_bytes(),
            "q~r #w o=p {a,b} % é a^b :,./_-@+",
        );
        check(
            b"t\tu\0a\x7fb\0a\xffb\0a\x1bb\0a\x07\x08\x0b\x0c\r\n",
            r#""t\tu" "a\177b" "a\377b" "a\033b" "a\a\b\v\f\r\n""#,
        );
        check(b"", "");
        check(b"\0\0", "");
    }
}
