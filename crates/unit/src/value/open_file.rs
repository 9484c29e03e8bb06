//! `OpenFile=` (systemd.service(5)).

use super::fault::{Fault, Parsed};
use super::path;
use crate::config::{OpenFile, OpenOptions};

/// Longest name of a descriptor, in bytes (systemd.socket(5), "FileDescriptorName=").
const NAME_BYTES_MAX: usize = 255;

/// Whether a descriptor may have this name.
pub fn is_descriptor_name(name: &str) -> bool {
    let is_plain = |c: char| c != ':' && !c.is_control();
    name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain)
}

/// `PATH[:NAME[:OPTIONS]]`. Without a name the descriptor has that of the file.
pub fn open_file(text: &str) -> Parsed<OpenFile> {
    let mut parts = text.splitn(3, ':');
    let written = parts.next().unwrap_or_default();
    let path: Box<str> = path(written)?.into();
    let name = parts.next().unwrap_or_default();
    let name_at = written.len() + 1;
    if !is_descriptor_name(name) {
        let message = format!("'{name}' is not a valid name of a file descriptor");
        return Err(Fault::new(name_at, message));
    }
    let name = match name {
        "" => path.rsplit('/').next().unwrap_or_default(),
        name => name,
    };
    // A file may be called what no descriptor may.
    if name.is_empty() || !is_descriptor_name(name) {
        return Err(Fault::new(0, format!("'{path}' needs a name for its file descriptor")));
    }
    let options_at = text.len() - parts.clone().next().unwrap_or_default().len();
    let options = options(parts.next().unwrap_or_default(), options_at)?;
    Ok(OpenFile { name: name.into(), path, options })
}

/// Words between commas; `at` is where they begin.
fn options(text: &str, at: usize) -> Parsed<OpenOptions> {
    let (mut options, begin, mut at) = (OpenOptions::default(), at, at);
    for word in text.split(',') {
        // An option is missing nowhere where none is written.
        if !(word.is_empty() && text.is_empty() || options.add(word)) {
            let message = match OpenOptions::WORDS.contains(&word) {
                true => format!("option '{word}' is there twice"),
                false => format!("'{word}' is none of: {}", OpenOptions::WORDS.join(", ")),
            };
            return Err(Fault::new(at, message));
        }
        at += word.len() + 1;
    }
    let OpenOptions { read_only, append, truncate, .. } = options;
    match u8::from(read_only) + u8::from(append) + u8::from(truncate) {
        0 | 1 => Ok(options),
        _ => Err(Fault::new(begin, "read-only, append and truncate exclude one another")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let got = match open_file(text) {
            Ok(file) => format!("{} {} {}", file.path, file.name, file.options.bits()),
            Err(fault) => format!("{}: {}", fault.offset, fault.message),
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn a_file_has_a_path_a_name_and_options() {
        check("/a/b", "/a/b b 0");
        check("/a//b/", "/a/b b 0");
        check("/a/b:", "/a/b b 0");
        check("/a/b:x y", "/a/b x y 0");
        check("/a/b:x:", "/a/b x 0");
        check("/a/b::read-only", "/a/b b 1");
        check("/a/b:x:append", "/a/b x 2");
        check("/a/b:x:truncate,graceful", "/a/b x 12");
        check("/a/b:x:graceful,read-only", "/a/b x 9");
    }

    #[test]
    fn what_is_wrong_is_said_at_its_place() {
        check("", "0: '' is not an absolute path");
        check("a:x", "0: 'a' is not an absolute path");
        check("/a/../b", "0: '/a/../b' is not a normalized path");
        check("/", "0: '/' needs a name for its file descriptor");
        check("/a:b\tc", "3: 'b\tc' is not a valid name of a file descriptor");
        check(&format!("/a:{}", "n".repeat(255)), &format!("/a {} 0", "n".repeat(255)));
        let long = "n".repeat(256);
        check(
            &format!("/a:{long}"),
            &format!("3: '{long}' is not a valid name of a file descriptor"),
        );
        check(&format!("/{long}"), &format!("0: '/{long}' needs a name for its file descriptor"));
        let words = "read-only, append, truncate, graceful";
        check("/a:x:read-only,", &format!("15: '' is none of: {words}"));
        check("/a:x:rw", &format!("5: 'rw' is none of: {words}"));
        check("/a:x:append:y", &format!("5: 'append:y' is none of: {words}"));
        check("/a:x:graceful,graceful", "14: option 'graceful' is there twice");
        check("/a:x:append,truncate", "5: read-only, append and truncate exclude one another");
    }
}
