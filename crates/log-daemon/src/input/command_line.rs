//! `_CMDLINE`: the arguments of a process as a shell would take them; systemd.journal-fields(7). What is
//! quoted and how was found by asking systemd 252's daemon for each byte.

/// Bytes that a shell gives a meaning.
const SPECIAL: &[u8] = b" !\"$&'()*;<>?[\\`|";

/// Bytes that need a backslash between double quotes.
const ESCAPED: &[u8] = b"\"$\\`";

/// The text of arguments that zero bytes end, as `/proc/PID/cmdline` has them. A process that overwrote
/// them with a title has zeros behind it.
pub fn of(arguments: &[u8]) -> Vec<u8> {
    let end = arguments.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let mut text = Vec::new();
    if end == 0 {
        return text;
    }
    for (at, argument) in arguments[..end].split(|&byte| byte == 0).enumerate() {
        if at > 0 {
            text.push(b' ');
        }
        put(argument, &mut text);
    }
    text
}

fn put(argument: &[u8], text: &mut Vec<u8>) {
    let is_plain = |&byte: &u8| !byte.is_ascii_control() && !SPECIAL.contains(&byte);
    let is_text = std::str::from_utf8(argument).is_ok();
    if is_text && !argument.is_empty() && argument.iter().all(is_plain) {
        return text.extend_from_slice(argument);
    }
    text.push(b'"');
    for chunk in argument.utf8_chunks() {
        chunk.valid().bytes().for_each(|byte| put_quoted(byte, text));
        chunk.invalid().iter().for_each(|&byte| put_octal(byte, text));
    }
    text.push(b'"');
}

fn put_quoted(byte: u8, text: &mut Vec<u8>) {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        byte if ESCAPED.contains(&byte) => byte,
        byte if byte.is_ascii_control() => return put_octal(byte, text),
        byte => return text.push(byte),
    };
    text.extend([b'\\', letter]);
}

fn put_octal(byte: u8, text: &mut Vec<u8>) {
    text.extend_from_slice(format!("\\{byte:03o}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[u8], expected: &str) {
        assert_eq!(String::from_utf8_lossy(&of(arguments)), expected, "{arguments:?}");
    }

    #[test]
    fn as_systemd_quotes_them() {
        check(b"", "");
        check(b"\0\0", "");
        check(b"/bin/sh\0-x\0", "/bin/sh -x");
        check(b"nginx: worker process\0\0\0\0", "\"nginx: worker process\"");
        check(b"a\0\0b\0", "a \"\" b");
        check(b"#%+,-/.0:=A@]^_z{}~\0", "#%+,-/.0:=A@]^_z{}~");
        check("gr\u{fc}n \u{2603}\0".as_bytes(), "\"gr\u{fc}n \u{2603}\"");
        check("gr\u{fc}n\u{2603}\0".as_bytes(), "gr\u{fc}n\u{2603}");
        check(b"a\xffb\xc3\xa9\0", "\"a\\377b\u{e9}\"");
        check(b"\x01\x07\x08\t\n\x0b\x0c\r\x1b\x7f\0", r#""\001\a\b\t\n\v\f\r\033\177""#);
        check(br#"$x`"\"#, r#""\$x\`\"\\""#);
        for byte in SPECIAL.iter().filter(|byte| !ESCAPED.contains(byte)) {
            let byte = char::from(*byte);
            check(format!("x{byte}y").as_bytes(), &format!("\"x{byte}y\""));
        }
    }
}
