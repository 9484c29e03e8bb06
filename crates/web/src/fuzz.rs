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
