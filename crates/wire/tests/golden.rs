//! The bytes of each message. A golden file is the message without its end, with a line break in its
//! place. `UPDATE_GOLDEN=1` writes them; a change that is no addition is a new version.

use std::fmt::Debug;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

mod control;
mod device_link;
mod log;
mod log_link;

/// Compares the bytes with the golden file, of `LANGUAGE-VERSION/NAME`.
#[track_caller]
fn check_bytes(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(&path, bytes).expect("the golden file can be written");
    }
    let expected = std::fs::read(&path).unwrap_or_default();
    let shown = String::from_utf8_lossy(bytes);
    assert!(expected == bytes, "{name} is not what its golden file has:\n{shown}");
}

/// Compares a message with its golden file.
#[track_caller]
fn check_message(name: &str, message: &[u8]) -> Vec<u8> {
    let message = message.strip_suffix(b"\0").expect("a message has its end");
    check_bytes(name, &[message, b"\n"].concat());
    message.to_vec()
}

/// Whether a value is what is read from its own JSON.
#[track_caller]
fn check_read_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).expect("it is written");
    assert_eq!(&serde_json::from_str::<T>(&text).expect("it is read"), value);
}

/// Every golden file is of a message that a test here makes.
#[test]
fn no_golden_file_is_left_over() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for language in std::fs::read_dir(directory).expect("it is there") {
        let language = language.expect("an entry").path();
        let name = language.file_name().expect("a name").to_string_lossy().into_owned();
        let known: Vec<String> = match name.as_str() {
            "control-1" => control::names(),
            "device-link-1" => device_link::names(),
            "log-link-1" => log_link::names(),
            "log-1" => log::names(),
            _ => Vec::new(),
        };
        for file in std::fs::read_dir(&language).expect("a directory") {
            let file = file.expect("an entry").file_name().to_string_lossy().into_owned();
            assert!(known.contains(&file), "{name}/{file} is of no message");
        }
    }
}

/// The golden files of a language in JSON, without the line break.
fn messages(language: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(language);
    let files = std::fs::read_dir(directory).expect("it is there");
    let message = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.expect("an entry");
        let bytes = std::fs::read(file.path()).expect("it can be read");
        let message = bytes.strip_suffix(b"\n").expect("a line").to_vec();
        (file.file_name().to_string_lossy().into_owned(), message)
    };
    files.map(message).collect()
}

#[test]
fn a_message_that_is_cut_short_is_refused() {
    use warren_wire::call::Received;
    use warren_wire::control::{Reply, StatusAnswer};
    use warren_wire::log::{Answer, Question};
    for language in ["control-1", "log-1"] {
        for (name, message) in messages(language) {
            for length in 0..message.len() {
                let part = &message[..length];
                assert!(Received::read(part).is_err(), "{name}: {length} bytes");
                assert!(Reply::<StatusAnswer>::read(part).is_err(), "{name}: {length} bytes");
                assert!(Answer::read(part).is_err(), "{name}: {length} bytes");
                assert_eq!(Question::read(part), Question::Unknown(String::new()), "{name}");
            }
        }
    }
}
