//! Messages: a header with the length, an empty line, JSON.

use std::io::{BufRead, Read, Write};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Largest message that is read, in bytes: a text of the largest file, escaped.
const MESSAGE_BYTES_MAX: u64 = 256 << 20;

/// Longest line of a header, in bytes.
const HEADER_BYTES_MAX: u64 = 4096;

/// A client.
pub(super) struct Wire<R, W> {
    pub input: R,
    pub output: W,
}

impl<R: BufRead, W: Write> Wire<R, W> {
    /// The next message, or why it is no JSON; nothing at the end.
    ///
    /// # Errors
    /// Where the next message begins is not known.
    pub(super) fn read(&mut self) -> Result<Option<serde_json::Result<Value>>> {
        let mut length = None;
        loop {
            let mut line = String::new();
            let read = self.input.by_ref().take(HEADER_BYTES_MAX).read_line(&mut line)?;
            if read == 0 {
                return Ok(None);
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = Some(value.trim().parse::<u64>().context("Content-Length")?);
            }
        }
        let length = length.context("a message without Content-Length")?;
        ensure!(length <= MESSAGE_BYTES_MAX, "a message of {length} bytes is too large");
        let mut bytes = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut bytes)?;
        ensure!(bytes.len() as u64 == length, "a message was cut short");
        Ok(Some(serde_json::from_slice(&bytes)))
    }

    pub(super) fn write(&mut self, message: &Value) -> Result<()> {
        let text = message.to_string();
        write!(self.output, "Content-Length: {}\r\n\r\n{text}", text.len())?;
        self.output.flush().context("the client does not read")
    }
}
