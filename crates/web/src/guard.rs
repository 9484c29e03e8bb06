//! Who may see and do what: tokens, cookies, and what betrays a page of somebody else. Pure.
//!
//! A browser sends what any page has it send, with our cookie if that page is of our site. So a request that changes
//! something needs three things that another page cannot give it: `Origin:` of ours, the secret of the run in a field of
//! its own (which a page of another origin may not set), and the cookie, which browsers send to no other site's request.

use std::collections::BTreeMap;

use warren_http::request::{Refusal, Request, is_for_us};

/// Characters of a token at least.
pub const TOKEN_CHARS_MIN: usize = 20;

/// Sessions that are kept; the oldest goes.
const SESSIONS_MAX: usize = 64;

/// A session ends so long after its begin, in µs.
const SESSION_US_MAX: u64 = 12 * 3600 * 1_000_000;

/// The field with the secret of the run.
pub const SECRET_FIELD: &str = "X-Warren-Secret";

const OTHER_HOST: Refusal =
    Refusal(421, "Not a name of this machine: use its address, or start warren-web with --name.");
const TWO_OF_THEM: Refusal = Refusal(400, "A field is given twice.");
const NO_TOKEN: Refusal = Refusal(401, "Log in first.");
const OTHER_SITE: Refusal = Refusal(403, "The request comes from another site.");
const READ_ONLY: Refusal =
    Refusal(403, "Nothing can be changed here: start warren-web with --allow-actions.");
const NO_ACTIONS_HERE: Refusal =
    Refusal(403, "Over TCP this needs a token: start warren-web with --token-file.");
const NO_SECRETS_HERE: Refusal =
    Refusal(403, "Over TCP, reading this needs a token: start warren-web with --token-file.");

/// What this run allows.
#[derive(Debug, Default)]
pub struct Rules {
    /// What clients over TCP are asked for.
    pub token: Option<String>,
    /// Units may be started and stopped.
    pub allows_actions: bool,
    /// Names of this machine.
    pub names: Vec<String>,
    /// TCP is TLS.
    pub has_tls: bool,
    /// What our own page says with each change.
    pub secret: String,
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// See states, names and reasons.
    pub may_look: bool,
    /// See logs, unit files and plans.
    pub may_read: bool,
    /// Start and stop.
    pub may_act: bool,
    /// By a field that no browser sets by itself.
    is_bearer: bool,
}

impl Rules {
    /// Refuses what is not meant for this machine, or has a field twice that something depends on.
    ///
    /// # Errors
    /// Why.
    pub fn check(&self, request: &Request) -> Result<(), Refusal> {
        let decisive = ["Host", "Origin", "Cookie", "Authorization", SECRET_FIELD];
        if decisive.iter().any(|name| request.count(name) > 1) {
            return Err(TWO_OF_THEM);
        }
        if is_for_us(request, &self.names) { Ok(()) } else { Err(OTHER_HOST) }
    }

    /// What the client may do who sends this.
    pub fn rights(
        &self,
        request: &Request,
        is_local: bool,
        sessions: &Sessions,
        now_us: u64,
    ) -> Rights {
        let is_bearer = self.has_token(request);
        let is_known =
            is_local || is_bearer || sessions.knows(cookie(request, self.cookie()), now_us);
        Rights {
            may_look: is_known || self.token.is_none(),
            may_read: is_known,
            may_act: is_known && self.allows_actions,
            is_bearer,
        }
    }

    /// Whether the request has the token.
    pub fn has_token(&self, request: &Request) -> bool {
        let given = request.field("Authorization").and_then(|text| text.strip_prefix("Bearer "));
        self.token.as_deref().zip(given).is_some_and(|(token, given)| is_same(token, given.trim()))
    }

    /// Name of the cookie. Browsers take one that begins so only over TLS, and of no other host.
    pub fn cookie(&self) -> &'static str {
        if self.has_tls { "__Host-warren" } else { "warren" }
    }

    /// The line that sets the cookie; with an empty value, the one that takes it back.
    pub fn set_cookie(&self, value: &str) -> String {
        let name = self.cookie();
        let secure = if self.has_tls { "; Secure" } else { "" };
        let age = if value.is_empty() { 0 } else { SESSION_US_MAX / 1_000_000 };
        format!(
            "Set-Cookie: {name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}\r\n"
        )
    }

    /// Refuses a change that a page of another site may be behind.
    ///
    /// # Errors
    /// Why.
    pub fn check_change(&self, request: &Request, rights: Rights) -> Result<(), Refusal> {
        self.check_origin(request, rights)?;
        if !self.allows_actions {
            return Err(READ_ONLY);
        }
        if rights.may_act { Ok(()) } else { Err(NO_ACTIONS_HERE) }
    }

    /// Refuses what a page of another site may be behind.
    fn check_origin(&self, request: &Request, rights: Rights) -> Result<(), Refusal> {
        let has_secret =
            request.field(SECRET_FIELD).is_some_and(|given| is_same(&self.secret, given));
        // A program with the token is no browser: it has no origin and no secret.
        let is_program = request.field("Origin").is_none()
            && request.field("Sec-Fetch-Site").is_none()
            && rights.is_bearer;
        match is_program || is_of_ours(request) && has_secret {
            true => Ok(()),
            false => Err(OTHER_SITE),
        }
    }

    /// Refuses to let a page of another site log somebody in or out.
    ///
    /// # Errors
    /// Why.
    pub fn check_login(&self, request: &Request) -> Result<(), Refusal> {
        let is_browser =
            request.field("Origin").is_some() || request.field("Sec-Fetch-Site").is_some();
        if !is_browser || is_of_ours(request) { Ok(()) } else { Err(OTHER_SITE) }
    }

    /// Refuses who may not look at all.
    ///
    /// # Errors
    /// Why.
    pub fn check_look(&self, rights: Rights) -> Result<(), Refusal> {
        if rights.may_look { Ok(()) } else { Err(NO_TOKEN) }
    }

    /// Refuses who may not see logs, files and plans.
    ///
    /// # Errors
    /// Why.
    pub fn check_read(&self, rights: Rights) -> Result<(), Refusal> {
        self.check_look(rights)?;
        if rights.may_read { Ok(()) } else { Err(NO_SECRETS_HERE) }
    }
}

/// Sessions that began with a token, and when.
#[derive(Debug, Default)]
pub struct Sessions(BTreeMap<String, u64>);

impl Sessions {
    /// Begins one of this name, which nobody can guess.
    pub fn begin(&mut self, name: String, now_us: u64) {
        self.0.retain(|_, begun| now_us.saturating_sub(*begun) < SESSION_US_MAX);
        if self.0.len() >= SESSIONS_MAX {
            let oldest =
                self.0.iter().min_by_key(|(_, begun)| **begun).map(|(name, _)| name.clone());
            oldest.iter().for_each(|name| _ = self.0.remove(name));
        }
        self.0.insert(name, now_us);
    }

    /// Ends it.
    pub fn end(&mut self, name: Option<&str>) {
        name.iter().for_each(|name| _ = self.0.remove(*name));
    }

    fn knows(&self, name: Option<&str>, now_us: u64) -> bool {
        let begun = name.and_then(|name| self.0.get(name));
        begun.is_some_and(|begun| now_us.saturating_sub(*begun) < SESSION_US_MAX)
    }
}

/// The value of a cookie.
pub fn cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let cookies = request.field("Cookie")?.split(';');
    let mut pairs = cookies.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Whether a browser says that our own page sent it.
fn is_of_ours(request: &Request) -> bool {
    let origin = request.field("Origin").zip(request.host.as_deref());
    let is_ours = origin.is_some_and(|(origin, host)| {
        let of = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        of.is_some_and(|of| of.eq_ignore_ascii_case(host))
    });
    is_ours && request.field("Sec-Fetch-Site").is_none_or(|site| site == "same-origin")
}

/// Takes as long for a text that is right in its first half as for any other.
fn is_same(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_http::request::parse;

    const TOKEN: &str = "0123456789abcdefghij";

    fn rules(token: bool, allows_actions: bool) -> Rules {
        let token = token.then(|| TOKEN.to_owned());
        let names = vec!["web1".to_owned()];
        Rules { token, allows_actions, names, has_tls: false, secret: "s3cret".to_owned() }
    }

    fn request(fields: &str) -> Request {
        let head = format!("POST /api/act HTTP/1.1\r\n{}\r\n\r\n", fields.replace('|', "\r\n"));
        parse(head.as_bytes()).expect("a head").expect("all of it")
    }

    fn rights(rules: &Rules, fields: &str, is_local: bool) -> (bool, bool, bool) {
        let mut sessions = Sessions::default();
        sessions.begin("known".to_owned(), 5);
        let rights = rules.rights(&request(fields), is_local, &sessions, 10);
        (rights.may_look, rights.may_read, rights.may_act)
    }

    #[test]
    fn over_tcp_a_token_opens_and_over_a_unix_socket_its_owner_does() {
        let open = rules(false, true);
        assert_eq!(rights(&open, "Host: localhost", false), (true, false, false));
        assert_eq!(rights(&open, "Host: localhost", true), (true, true, true));
        let closed = rules(true, true);
        assert_eq!(rights(&closed, "Host: localhost", false), (false, false, false));
        for fields in ["Authorization: Bearer 0123456789abcdefghij", "Cookie: a=b; warren=known"] {
            assert_eq!(rights(&closed, fields, false), (true, true, true), "{fields}");
            assert_eq!(rights(&rules(true, false), fields, false), (true, true, false));
        }
        for fields in [
            "Authorization: Bearer 0123456789abcdefghiX",
            "Authorization: Bearer ",
            "Authorization: 0123456789abcdefghij",
            "Cookie: warren=other",
            "Cookie: warrens=known",
            "Cookie: warren=known|Cookie: warren=known",
        ] {
            assert_eq!(rights(&closed, fields, false), (false, false, false), "{fields}");
        }
    }

    #[test]
    fn other_names_and_doubled_fields_are_refused() {
        let check = |fields: &str| {
            rules(false, false).check(&request(fields)).map_err(|Refusal(status, _)| status)
        };
        assert_eq!(check("Host: web1:19534"), Ok(()));
        assert_eq!(check("Host: 127.0.0.1:19534"), Ok(()));
        assert_eq!(check("Host: evil.example"), Err(421));
        assert_eq!(check("Host: web1|Host: evil.example"), Err(400));
        assert_eq!(check("Host: web1|Origin: http://web1|Origin: http://web1"), Err(400));
    }

    #[test]
    fn a_change_comes_from_our_own_page_or_from_a_program_with_the_token() {
        let check = |rules: &Rules, fields: &str| {
            let request = request(fields);
            let mut sessions = Sessions::default();
            sessions.begin("known".to_owned(), 0);
            let rights = rules.rights(&request, false, &sessions, 1);
            rules.check_change(&request, rights).map_err(|Refusal(status, _)| status)
        };
        let rules_of = rules(true, true);
        let ours =
            "Host: web1:1|Cookie: warren=known|Origin: http://web1:1|X-Warren-Secret: s3cret";
        assert_eq!(check(&rules_of, ours), Ok(()));
        assert_eq!(check(&rules_of, &format!("{ours}|Sec-Fetch-Site: same-origin")), Ok(()));
        let program = "Host: web1:1|Authorization: Bearer 0123456789abcdefghij";
        assert_eq!(check(&rules_of, program), Ok(()));
        for fields in [
            "Host: web1:1|Cookie: warren=known",
            "Host: web1:1|Cookie: warren=known|Origin: http://web1:1",
            "Host: web1:1|Cookie: warren=known|X-Warren-Secret: s3cret",
            "Host: web1:1|Cookie: warren=known|Origin: http://web1:1|X-Warren-Secret: wrong!",
            "Host: web1:1|Cookie: warren=known|Origin: http://web1:2|X-Warren-Secret: s3cret",
            "Host: web1:1|Cookie: warren=known|Origin: null|X-Warren-Secret: s3cret",
            "Host: web1:1|Authorization: Bearer 0123456789abcdefghij|Origin: http://evil.example",
            "Host: web1:1|Authorization: Bearer 0123456789abcdefghij|Sec-Fetch-Site: cross-site",
        ] {
            assert_eq!(check(&rules_of, fields), Err(403), "{fields}");
        }
        assert_eq!(check(&rules_of, &format!("{ours}|Sec-Fetch-Site: same-site")), Err(403));
        assert_eq!(check(&rules(true, false), ours), Err(403), "read-only");
        let without_token = ours.replace("Cookie: warren=known|", "");
        assert_eq!(check(&rules(false, true), &without_token), Err(403), "TCP without a token");
    }

    #[test]
    fn another_page_logs_nobody_in() {
        let check = |fields: &str| rules(true, true).check_login(&request(fields)).is_ok();
        assert!(check("Host: web1:1") && check("Host: web1:1|Origin: http://web1:1"));
        assert!(
            !check("Host: web1:1|Origin: http://evil.example")
                && !check("Host: web1|Sec-Fetch-Site: none")
        );
    }

    #[test]
    fn sessions_end_and_are_bounded() {
        let mut sessions = Sessions::default();
        (0..100).for_each(|n| sessions.begin(format!("s{n}"), n));
        assert_eq!(sessions.0.len(), SESSIONS_MAX);
        assert!(!sessions.knows(Some("s0"), 100) && sessions.knows(Some("s99"), 100));
        assert!(!sessions.knows(Some("s99"), 99 + SESSION_US_MAX));
        sessions.end(Some("s99"));
        assert!(!sessions.knows(Some("s99"), 100) && !sessions.knows(None, 0));
    }

    #[test]
    fn the_cookie_is_for_this_site_alone() {
        let mut rules = rules(true, true);
        let line = rules.set_cookie("x");
        assert!(
            line.starts_with("Set-Cookie: warren=x; Path=/; HttpOnly; SameSite=Strict;"),
            "{line}"
        );
        rules.has_tls = true;
        assert!(
            rules.set_cookie("x").contains("__Host-warren=x")
                && rules.set_cookie("x").contains("; Secure")
        );
        assert!(rules.set_cookie("").contains("Max-Age=0"));
    }
}
