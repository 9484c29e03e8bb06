//! What a fuzzer calls: what reads requests of strangers, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_web::fuzz::request(data));` is a whole target.

use crate::guard::{Rules, Sessions};
use crate::query::{ACTION_UNITS_MAX, Route, route};

/// Reads bytes as a request to a page that asks for a token and lets its owner act.
///
/// # Panics
/// If a request that has neither the token nor a session may look, or an action names too many units.
pub fn request(data: &[u8]) {
    let Ok(Some(request)) = warren_http::request::parse(data) else { return };
    let token = "a token that no input has: \u{1}";
    let rules = Rules {
        token: Some(token.to_owned()),
        allows_actions: true,
        names: vec!["host".to_owned()],
        secret: token.to_owned(),
        ..Rules::default()
    };
    let rights = rules.rights(&request, false, &Sessions::default(), 0);
    assert!(!rights.may_look && !rights.may_read && !rights.may_act);
    assert!(rules.check_change(&request, rights).is_err());
    let _ = (rules.check(&request), rules.check_login(&request));
    if let Ok(Route::Act(_, units)) = route(&request.method, &request.target) {
        assert!((1..=ACTION_UNITS_MAX).contains(&units.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many inputs the test makes.
    const INPUTS: usize = 3_000;

    #[test]
    fn made_up_requests_do_no_harm() {
        const PIECES: [&str; 20] = [
            "GET ",
            "POST ",
            "/api/act",
            "/api/look",
            "/login",
            "?verb=stop",
            "&unit=a.service",
            "&table=units",
            "&from=18446744073709551615",
            "%",
            "%2f",
            "&within=",
            ":",
            " HTTP/1.1\r\n",
            "Host: host\r\n",
            "Host: evil.example\r\n",
            "Origin: http://host\r\n",
            "Cookie: warren=",
            "Authorization: Bearer ",
            "\r\n",
        ];
        let mut dice = warren_testkit::Dice(11);
        for _ in 0..INPUTS {
            let count = dice.roll(16);
            let made: String =
                (0..count).map(|_| PIECES[dice.roll(PIECES.len() as u64) as usize]).collect();
            request(format!("{made} HTTP/1.1\r\n\r\n").as_bytes());
        }
        for entry in std::fs::read_dir("../fuzz/corpus/page").expect("seeds") {
            request(&std::fs::read(entry.expect("a seed").path()).expect("a seed"));
        }
    }
}
