//! What a fuzzer calls: what reads requests of strangers, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_log_net::fuzz::request(data));` is a whole target.

/// Reads bytes as the head of a request to the gateway.
///
/// # Panics
/// If a head that is whole is not when more follows it.
pub fn request(data: &[u8]) {
    let Ok(Some(request)) = warren_http::request::parse(data) else { return };
    let _ = crate::gateway::route::route(&request);
    let longer = [data, b"x"].concat();
    assert_eq!(warren_http::request::parse(&longer), Ok(Some(request)));
}

/// Reads bytes as a varlink call.
///
/// # Panics
/// If a refusal is of no error that is described.
pub fn call(data: &[u8]) {
    let Some(call) = crate::access::call::parse(data) else { return };
    if let Err(refusal) = call.what {
        let (name, _) = refusal.error();
        assert!(name.starts_with("org.varlink.service."), "{name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_log_store::store::fault::Numbers;

    /// How many inputs a test makes.
    const INPUTS: usize = 2_000;

    #[test]
    fn made_up_requests_do_no_harm() {
        let mut numbers = Numbers(15);
        let pieces: [&[u8]; 16] = [
            b"entries",
            b"?follow",
            b"&A=",
            b"%",
            b"2f",
            b"=",
            b" HTTP/1.1",
            b"\r\n",
            b"Range: entries=",
            b":",
            b"-9223372036854775808",
            b"i=f;",
            b"t=ffffffffffffffff",
            b"Accept: ",
            b"\xff",
            b"fields/",
        ];
        for _ in 0..INPUTS {
            let made: Vec<&[u8]> =
                (0..numbers.below(12)).map(|_| pieces[numbers.below(16)]).collect();
            request(&[b"GET /", &made.concat()[..], b"\r\n\r\n"].concat());
            request(&[b"GET /entries HTTP/1.1\r\n", &made.concat()[..], b"\r\n\r\n"].concat());
        }
    }

    #[test]
    fn made_up_calls_do_no_harm() {
        let mut numbers = Numbers(16);
        let pieces: [&[u8]; 16] = [
            b"{\"method\":\"",
            b"io.systemd.JournalAccess.",
            b"io.warrener.JournalAccess.",
            b"org.varlink.service.",
            b"GetEntries\"",
            b"GetInterfaceDescription\"",
            b",\"more\":true",
            b",\"parameters\":{",
            b"\"units\":",
            b"\"limit\":",
            b"[\"a\"]",
            b"-1",
            b"null",
            b"18446744073709551616",
            b"}",
            b"}}",
        ];
        for _ in 0..INPUTS {
            let made: Vec<&[u8]> =
                (0..numbers.below(10)).map(|_| pieces[numbers.below(16)]).collect();
            call(&made.concat());
            let begin: &[u8] = b"{\"method\":\"io.systemd.JournalAccess.GetEntries\",\"more\":true";
            call(&[begin, &made.concat()].concat());
        }
    }
}
