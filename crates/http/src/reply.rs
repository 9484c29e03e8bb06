//! The answer, as it goes out: a head, and a body in chunks where the client takes them, so that
//! it can tell a whole answer from one that was cut. Each connection has one answer.

use std::io::{Result, Write};

use crate::request::{Refusal, Request};

/// A chunk is sent when it has so many bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// What is said of a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// The head of an answer, with the lines `more`.
pub fn head(status: u16, kind: &str, more: &str) -> String {
    // Nobody else's page may read the log through a browser that can reach it.
    let guard = "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";
    let reason = reason(status);
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{guard}{allow}{more}Connection: close\r\n\r\n"
    )
}

/// A short answer, whole. `more` are further header lines.
pub fn short(request: &Request, status: u16, kind: &str, more: &str, body: &str) -> Vec<u8> {
    let length = format!("Content-Length: {}\r\n{more}", body.len());
    let body = if request.method == "HEAD" { "" } else { body };
    (head(status, kind, &length) + body).into_bytes()
}

/// A refusal, whole.
pub fn refusal(request: &Request, Refusal(status, text): Refusal) -> Vec<u8> {
    short(request, status, "text/plain; charset=utf-8", "", &format!("{text}\n"))
}

/// A long answer on its way.
pub struct Long<'a> {
    to: &'a mut dyn Write,
    in_chunks: bool,
    /// What is not sent yet.
    pub buffer: Vec<u8>,
}

impl<'a> Long<'a> {
    /// Begins it. Without chunks the end of the connection is its end.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(to: &'a mut dyn Write, request: &Request, kind: &str) -> Result<Long<'a>> {
        let more = if request.is_1_1 { "Transfer-Encoding: chunked\r\n" } else { "" };
        to.write_all(head(200, kind, more).as_bytes())?;
        Ok(Long { to, in_chunks: request.is_1_1, buffer: Vec::with_capacity(CHUNK_BYTES) })
    }

    /// Sends when there is enough.
    ///
    /// # Errors
    /// Those of writing.
    pub fn send_much(&mut self) -> Result<()> {
        if self.buffer.len() >= CHUNK_BYTES { self.send() } else { Ok(()) }
    }

    /// Sends what there is. An empty chunk would be the end.
    ///
    /// # Errors
    /// Those of writing.
    pub fn send(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.in_chunks {
            write!(self.to, "{:x}\r\n", self.buffer.len())?;
            self.buffer.extend_from_slice(b"\r\n");
        }
        self.to.write_all(&self.buffer)?;
        self.buffer.clear();
        self.to.flush()
    }

    /// Sends the rest and the end.
    ///
    /// # Errors
    /// Those of writing.
    pub fn end(mut self) -> Result<()> {
        self.send()?;
        if self.in_chunks {
            self.to.write_all(b"0\r\n\r\n")?;
        }
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(is_1_1: bool, parts: &[&str], expected: &str) {
        let request = Request { is_1_1, ..Request::default() };
        let mut sent = Vec::new();
        let mut long = Long::begin(&mut sent, &request, "a/b").expect("memory takes all");
        for part in parts {
            long.buffer.extend_from_slice(part.as_bytes());
            long.send().expect("memory takes all");
        }
        long.end().expect("memory takes all");
        let text = String::from_utf8(sent).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert_eq!(head.contains("chunked"), is_1_1);
        assert_eq!(body, expected);
    }

    #[test]
    fn bodies() {
        check(
            true,
            &["0123456789abcdef", "", "x"],
            "10\r\n0123456789abcdef\r\n1\r\nx\r\n0\r\n\r\n",
        );
        check(true, &[], "0\r\n\r\n");
        check(false, &["ab", "c"], "abc");
    }

    #[test]
    fn a_head_alone() {
        let request = Request { method: "HEAD".into(), ..Request::default() };
        let text = String::from_utf8(refusal(&request, Refusal(404, "Not found."))).expect("text");
        assert!(text.contains("Content-Length: 11\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
