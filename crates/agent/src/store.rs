//! etcd, by its JSON gateway (etcd 3.4 and newer): ranges, transactions, leases, watches.
//!
//! - Owns: connections to the endpoints, one after another when one does not answer.
//! - Must not: know what keys mean.
//! - Runs on the thread of its caller; a watch blocks it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use ureq::tls::{ClientCert, RootCerts, TlsConfig};

use crate::settings::{Endpoints, Secrets, read_password};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A watch that has been silent for so long is begun again, so that one whose peer is gone without a word ends. etcd
/// says every ten minutes that there is nothing new.
const SILENCE_MAX: Duration = Duration::from_secs(900);

/// Keys of one answer.
const PAGE: usize = 500;

/// Bytes of an answer: a page of values of the largest size that a chunk has.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a line of a watch.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Keys and operations of one transaction: etcd's own bound is 128.
pub const OPERATIONS_MAX: usize = 120;

/// A value of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// Its key.
    pub key: String,
    /// It.
    pub value: Vec<u8>,
    /// The store's revision at which the key came.
    pub created: u64,
    /// The store's revision at which it was written last.
    pub modified: u64,
}

/// Why the store did not do it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No endpoint answers.
    Away(String),
    /// It is full: until an operator has compacted it nothing can be written.
    Full,
    /// This user may not.
    Forbidden(String),
    /// A watch came too late: what it asks for has been compacted away.
    Compacted,
    /// Anything else that it says.
    Refused(String),
    /// What it has under a key means nothing, and why.
    Unreadable(String, String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Away(why) => write!(f, "the store does not answer: {why}"),
            Fault::Full => {
                write!(f, "the store is full: compact and defragment etcd, then disarm its alarm")
            }
            Fault::Forbidden(why) => write!(f, "the store does not allow this: {why}"),
            Fault::Compacted => write!(f, "the store no longer has what happened since then"),
            Fault::Refused(why) => write!(f, "the store refuses: {why}"),
            Fault::Unreadable(key, why) => {
                write!(
                    f,
                    "what the store has as {key} means nothing to this version: {why}; `etcdctl del {key}` removes it"
                )
            }
        }
    }
}

impl std::error::Error for Fault {}

/// What is compared before anything is written.
#[derive(Clone, Debug)]
pub enum Compare {
    /// The key was written last at this revision; 0: there is no such key.
    Modified(String, u64),
    /// The value is this one.
    Is(String, Vec<u8>),
}

/// What is written.
#[derive(Clone, Debug)]
pub enum Write {
    /// A value, under a lease if its number is not 0.
    Put(String, Vec<u8>, i64),
    /// No value any more.
    Delete(String),
}

/// What a watch tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A value was written.
    Put(Value),
    /// A key is gone.
    Gone(String),
}

/// A connection to the store.
pub struct Store {
    endpoints: Vec<String>,
    at: Cell<usize>,
    /// How often it went to another endpoint.
    moves: Cell<u64>,
    agent: ureq::Agent,
    watcher: ureq::Agent,
    /// A user of the store, and the file of the password.
    user: Option<(String, PathBuf)>,
    token: RefCell<Option<String>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

fn key64(key: &str) -> String {
    STANDARD.encode(key)
}

/// The key behind all that begin with this one.
fn prefix_end(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last += 1;
    }
    STANDARD.encode(bytes)
}

/// Numbers are texts in this gateway, and left out where they are 0.
fn number(json: &Json) -> u64 {
    json.as_str().and_then(|text| text.parse().ok()).or_else(|| json.as_u64()).unwrap_or_default()
}

fn read_value(kv: &Json) -> Option<Value> {
    let bytes = |name: &str| STANDARD.decode(kv[name].as_str().unwrap_or_default()).ok();
    Some(Value {
        key: String::from_utf8(bytes("key")?).ok()?,
        value: bytes("value")?,
        created: number(&kv["create_revision"]),
        modified: number(&kv["mod_revision"]),
    })
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    error: Json,
    #[serde(default)]
    message: String,
}

/// What a member says that another one, or the same a little later, may do all the same.
const AWAY: [&str; 5] =
    ["no leader", "leader changed", "request timed out", "server stopped", "too many requests"];

fn complaint(text: &str) -> Fault {
    let said = serde_json::from_str::<Complaint>(text).ok();
    let words = said.and_then(|said| match said.error {
        Json::String(error) => Some(error),
        _ if !said.message.is_empty() => Some(said.message),
        _ => None,
    });
    let words = words.unwrap_or_else(|| text.chars().take(200).collect());
    match () {
        () if words.contains("database space exceeded") => Fault::Full,
        () if words.contains("required revision has been compacted") => Fault::Compacted,
        () if words.contains("CommonName of client sending a request against gateway") => Fault::Forbidden(
            "etcd's JSON gateway takes no certificate of a client whose subject has a common name (CN); make one without"
                .to_owned(),
        ),
        () if words.contains("permission denied") || words.contains("authentication failed") => Fault::Forbidden(words),
        // A member that has lost the others, or is being started.
        () if AWAY.iter().any(|what| words.contains(what)) => Fault::Away(words),
        () => Fault::Refused(words),
    }
}

impl Store {
    /// A store at these endpoints. Nothing is asked yet.
    ///
    /// # Errors
    /// A file of certificates or of a key cannot be read, in words.
    pub fn new(endpoints: &Endpoints) -> Result<Store, String> {
        Store::with_patience(endpoints, PATIENCE)
    }

    fn with_patience(endpoints: &Endpoints, patience: Duration) -> Result<Store, String> {
        let Secrets { roots, own } = endpoints.read_secrets()?;
        let provider = Arc::new(rustls_provider());
        let roots = match roots {
            Some(certificates) => RootCerts::new_with_certs(&certificates),
            None => RootCerts::Specific(Arc::default()),
        };
        let own = own.map(|(chain, key)| ClientCert::new_with_certs(&chain, key));
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(roots)
            .client_cert(own)
            .build();
        let agent = |read: Duration, all: Option<Duration>| {
            let config = ureq::Agent::config_builder()
                .tls_config(tls.clone())
                .proxy(None)
                .http_status_as_error(false)
                .timeout_connect(Some(patience))
                .timeout_per_read(Some(read))
                .timeout_per_write(Some(patience))
                .timeout_global(all)
                .build();
            ureq::Agent::new_with_config(config)
        };
        Ok(Store {
            endpoints: endpoints.urls.clone(),
            at: Cell::new(0),
            moves: Cell::new(0),
            agent: agent(patience, Some(2 * patience)),
            watcher: agent(SILENCE_MAX, None),
            user: endpoints.user.clone(),
            token: RefCell::new(None),
        })
    }

    /// Sends a request to one endpoint after another, until one answers.
    fn ask(&self, path: &str, body: &Json) -> Result<Json, Fault> {
        let mut last = Fault::Away("there is no endpoint".to_owned());
        for _ in 0..self.endpoints.len() {
            match self.ask_one(path, body) {
                Err(Fault::Away(why)) => {
                    last = Fault::Away(why);
                    self.try_another();
                }
                other => return other,
            }
        }
        Err(last)
    }

    fn ask_one(&self, path: &str, body: &Json) -> Result<Json, Fault> {
        self.log_in()?;
        match self.send(path, body) {
            Err(Fault::Refused(why)) if is_of_token(&why) => {
                self.token.replace(None);
                self.log_in()?;
                self.send(path, body)
            }
            other => {
                self.forget_token_after(&other);
                other
            }
        }
    }

    /// A store that was restored may be silent to a token of before, and not refuse it: etcd waits until it has come as
    /// far as it was when it gave the token. The next request gets another token.
    fn forget_token_after<T>(&self, result: &Result<T, Fault>) {
        let is_of_token = match result {
            Err(Fault::Away(_)) => true,
            Err(Fault::Refused(why)) => is_of_token(why),
            _ => false,
        };
        if is_of_token {
            self.token.replace(None);
        }
    }

    fn log_in(&self) -> Result<(), Fault> {
        let Some((name, file)) = self.user.as_ref().filter(|_| self.token.borrow().is_none())
        else {
            return Ok(());
        };
        // Read each time: `warren hosts admit --again` replaces it.
        let password = read_password(file).map_err(Fault::Refused)?;
        let answer =
            self.send("/v3/auth/authenticate", &json!({"name": name, "password": password}))?;
        let token = answer["token"].as_str().map(str::to_owned);
        *self.token.borrow_mut() = token;
        Ok(())
    }

    fn send(&self, path: &str, body: &Json) -> Result<Json, Fault> {
        let text = self.post(&self.agent, path, body.to_string())?;
        let mut answer = String::new();
        text.take(ANSWER_BYTES_MAX)
            .read_to_string(&mut answer)
            .map_err(|e| Fault::Away(format!("{}: {e}", self.endpoint())))?;
        serde_json::from_str(&answer).map_err(|e| Fault::Refused(format!("no JSON: {e}")))
    }

    fn endpoint(&self) -> &str {
        self.endpoints.get(self.at.get()).map_or("", String::as_str)
    }

    fn post(
        &self,
        agent: &ureq::Agent,
        path: &str,
        body: String,
    ) -> Result<impl Read + use<>, Fault> {
        let url = format!("{}{path}", self.endpoint());
        let mut request = agent.post(&url).header("Content-Type", "application/json");
        if let Some(token) = &*self.token.borrow() {
            request = request.header("Authorization", token);
        }
        let away = |e: ureq::Error| Fault::Away(format!("{}: {e}", self.endpoint()));
        let answer = request.send(body).map_err(away)?;
        let (status, body) = (answer.status(), answer.into_body());
        if status.is_success() {
            return Ok(body.into_reader());
        }
        let mut text = String::new();
        let _ = body.into_reader().take(64 << 10).read_to_string(&mut text);
        Err(complaint(&text))
    }

    /// All values below a prefix, and the store's revision at which they were so.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn list(&self, prefix: &str) -> Result<(u64, Vec<Value>), Fault> {
        let (mut from, end) = (key64(prefix), prefix_end(prefix));
        let (mut revision, mut out) = (0, Vec::new());
        loop {
            let mut body = json!({"key": from, "range_end": end, "limit": PAGE});
            if revision > 0 {
                body["revision"] = json!(revision.to_string());
            }
            let answer = self.ask("/v3/kv/range", &body)?;
            if revision == 0 {
                revision = number(&answer["header"]["revision"]);
            }
            let page = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
            out.extend(page.iter().filter_map(read_value));
            let Some(last) = out.last().filter(|_| answer["more"] == true) else {
                return Ok((revision, out));
            };
            from = STANDARD.encode([last.key.as_bytes(), b"\0"].concat());
        }
    }

    /// The store's revision now, for one who may read this key.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn revision(&self, key: &str) -> Result<u64, Fault> {
        let answer = self.ask("/v3/kv/range", &json!({"key": key64(key), "keys_only": true}))?;
        Ok(number(&answer["header"]["revision"]))
    }

    /// One value.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn get(&self, key: &str) -> Result<Option<Value>, Fault> {
        let answer = self.ask("/v3/kv/range", &json!({"key": key64(key)}))?;
        Ok(answer["kvs"].get(0).and_then(read_value))
    }

    /// Writes all if everything compares as said, else nothing; whether it did.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn transact(&self, compare: &[Compare], writes: &[Write]) -> Result<bool, Fault> {
        let compare: Vec<Json> = compare
            .iter()
            .map(|compare| match compare {
                Compare::Modified(key, revision) => json!({
                    "key": key64(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string(),
                }),
                Compare::Is(key, value) => json!({
                    "key": key64(key), "target": "VALUE", "result": "EQUAL", "value": STANDARD.encode(value),
                }),
            })
            .collect();
        let success: Vec<Json> = writes
            .iter()
            .map(|write| match write {
                Write::Put(key, value, lease) => json!({"requestPut": {
                    "key": key64(key), "value": STANDARD.encode(value), "lease": lease.to_string(),
                }}),
                Write::Delete(key) => json!({"requestDeleteRange": {"key": key64(key)}}),
            })
            .collect();
        let answer = self.ask("/v3/kv/txn", &json!({"compare": compare, "success": success}))?;
        Ok(answer["succeeded"] == true)
    }

    /// Writes one value.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn put(&self, key: &str, value: Vec<u8>) -> Result<(), Fault> {
        self.transact(&[], &[Write::Put(key.to_owned(), value, 0)]).map(|_| ())
    }

    /// A lease that lives for so many seconds without a sign.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn grant(&self, seconds: u64) -> Result<i64, Fault> {
        let answer = self.ask("/v3/lease/grant", &json!({"TTL": seconds.to_string()}))?;
        let id = answer["ID"].as_str().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Fault::Refused("a lease without a number".to_owned()))
    }

    /// A sign of life; false if the lease is over.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn keep_alive(&self, lease: i64) -> Result<bool, Fault> {
        let answer = self.ask("/v3/lease/keepalive", &json!({"ID": lease.to_string()}))?;
        Ok(number(&answer["result"]["TTL"]) > 0)
    }

    /// Ends a lease, and what is under it.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn revoke(&self, lease: i64) -> Result<(), Fault> {
        self.ask("/v3/lease/revoke", &json!({"ID": lease.to_string()})).map(|_| ())
    }

    /// Makes a user who may read below one prefix, and write these keys and below those of them that end with `/`.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn add_user(
        &self,
        name: &str,
        password: &str,
        reads: &str,
        writes: &[String],
    ) -> Result<(), Fault> {
        let added = |result: Result<Json, Fault>| match result {
            // One that is there already is given what it lacks.
            Err(Fault::Refused(why)) if why.contains("already exists") => Ok(()),
            other => other.map(|_| ()),
        };
        added(self.ask("/v3/auth/role/add", &json!({ "name": name })))?;
        let reads = (reads.to_owned(), "READ");
        let writes = writes.iter().map(|key| (key.clone(), "WRITE"));
        for (key, permission) in std::iter::once(reads).chain(writes) {
            let mut allowed = json!({"permType": permission, "key": key64(&key)});
            if key.ends_with('/') {
                allowed["range_end"] = json!(prefix_end(&key));
            }
            self.ask("/v3/auth/role/grant", &json!({"name": name, "perm": allowed}))?;
        }
        match self.ask("/v3/auth/user/add", &json!({"name": name, "password": password})) {
            Err(Fault::Refused(why)) if why.contains("already exists") => {
                self.ask("/v3/auth/user/changepw", &json!({"name": name, "password": password}))?;
            }
            other => added(other)?,
        }
        self.ask("/v3/auth/user/grant", &json!({"user": name, "role": name})).map(|_| ())
    }

    /// Whether there is a user of this name.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn has_user(&self, name: &str) -> Result<bool, Fault> {
        match self.ask("/v3/auth/user/get", &json!({ "name": name })) {
            Err(Fault::Refused(why)) if why.contains("not found") => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Removes a user and what he may do.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn remove_user(&self, name: &str) -> Result<(), Fault> {
        self.ask("/v3/auth/user/delete", &json!({ "name": name }))?;
        self.ask("/v3/auth/role/delete", &json!({ "role": name })).map(|_| ())
    }

    /// Tells what happens to keys, and below prefixes (which end with `/`), after a revision of the store; until `tell`
    /// says false.
    ///
    /// # Errors
    /// [`Fault::Compacted`]: the store has to be listed again. [`Fault::Away`] also after a long silence.
    pub fn watch(
        &self,
        keys: &[String],
        after: u64,
        tell: &mut dyn FnMut(u64, Vec<Change>) -> bool,
    ) -> Result<(), Fault> {
        let ended = self.watch_once(keys, after, tell);
        self.forget_token_after(&ended);
        ended
    }

    fn watch_once(
        &self,
        keys: &[String],
        after: u64,
        tell: &mut dyn FnMut(u64, Vec<Change>) -> bool,
    ) -> Result<(), Fault> {
        self.log_in()?;
        // One connection for all: a request after the other.
        let mut requests = String::new();
        for key in keys {
            let mut create = json!({
                "key": key64(key), "start_revision": (after + 1).to_string(), "progress_notify": true,
            });
            if key.ends_with('/') {
                create["range_end"] = json!(prefix_end(key));
            }
            requests += &format!("{}\n", json!({ "create_request": create }));
        }
        let body = self.post(&self.watcher, "/v3/watch", requests)?;
        let mut lines = BufReader::new(body);
        loop {
            let mut line = String::new();
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
            match read {
                Ok(0) => return Err(Fault::Away(format!("{} ended the watch", self.endpoint()))),
                Ok(_) => {}
                Err(e) => return Err(Fault::Away(format!("{}: {e}", self.endpoint()))),
            }
            let message: Json =
                serde_json::from_str(&line).map_err(|e| Fault::Refused(format!("no JSON: {e}")))?;
            if !message["error"].is_null() {
                return Err(complaint(&message["error"].to_string()));
            }
            let result = &message["result"];
            if number(&result["compact_revision"]) > 0 {
                return Err(Fault::Compacted);
            }
            if result["canceled"] == true {
                let why = result["cancel_reason"].as_str().unwrap_or("the watch was canceled");
                return Err(complaint(&json!({ "error": why }).to_string()));
            }
            let events = result["events"].as_array().map_or(&[][..], Vec::as_slice);
            let changes: Vec<Change> = events.iter().filter_map(read_change).collect();
            if !changes.is_empty() && !tell(number(&result["header"]["revision"]), changes) {
                return Ok(());
            }
        }
    }

    /// How often it has gone to another endpoint, as one did not answer: a watch at that one may be silent for ever.
    pub fn moves(&self) -> u64 {
        self.moves.get()
    }

    /// Goes to another endpoint, after one has failed in a watch.
    pub fn try_another(&self) {
        self.moves.set(self.moves.get() + 1);
        self.at.set((self.at.get() + 1) % self.endpoints.len().max(1));
    }
}

/// Whether the store refuses a token: it lives for some minutes, and a store that was restored may not know it.
fn is_of_token(why: &str) -> bool {
    why.contains("invalid auth token") || why.contains("revision of auth store is old")
}

fn read_change(event: &Json) -> Option<Change> {
    let value = read_value(&event["kv"])?;
    Some(match event["type"] == "DELETE" {
        true => Change::Gone(value.key),
        false => Change::Put(value),
    })
}

fn rustls_provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::ring::default_provider()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// How a store treats the first token that it gave.
    #[derive(Clone, Copy)]
    enum Old {
        Silence,
        Refusal,
    }

    /// One request: its path, its token and its body.
    fn request(stream: &TcpStream) -> Option<(String, String, String)> {
        let mut lines = BufReader::new(stream);
        let (mut path, mut token, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                None => path = line.split(' ').nth(1)?.to_owned(),
                Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                    token = value.to_owned();
                }
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok()?;
                }
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).ok()?;
        Some((path, token, String::from_utf8(body).ok()?))
    }

    /// A store that gives one token after another and takes the first one no more; how many it gave.
    fn fake(old: Old) -> (String, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let given = Arc::new(AtomicU32::new(0));
        let count = given.clone();
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let Some((path, token, body)) = request(&stream) else { continue };
                let answer = match (&*path, &*token, old) {
                    ("/v3/auth/authenticate", ..) => {
                        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                        let password: Json = serde_json::from_str(&body).expect("JSON");
                        assert_eq!(password["password"], format!("secret {number}"));
                        (200, json!({"token": format!("t{number}")}))
                    }
                    (_, "t1", Old::Silence) => {
                        silent.push(stream);
                        continue;
                    }
                    (_, "t1", Old::Refusal) => {
                        (401, json!({"error": "etcdserver: invalid auth token"}))
                    }
                    _ => (200, json!({"header": {"revision": "7"}})),
                };
                let (status, text) = (answer.0, answer.1.to_string());
                let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\n");
                let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{text}", text.len());
            }
        });
        (url, given)
    }

    #[track_caller]
    fn is_taken_up_again(old: Old) -> (Result<u64, Fault>, Result<u64, Fault>) {
        let (url, given) = fake(old);
        let scratch = warren_testkit::Scratch::new("store-token");
        let file = scratch.write("password", "secret 1\n");
        let user = Some(("h1".to_owned(), file.into()));
        let endpoints = Endpoints { urls: vec![url], user, ..Endpoints::default() };
        let store = Store::with_patience(&endpoints, Duration::from_millis(300)).expect("a store");
        store.log_in().expect("a token");
        // The user was let in again meanwhile.
        scratch.write("password", "secret 2\n");
        let both = (store.revision("/k"), store.revision("/k"));
        assert_eq!(given.load(Ordering::Relaxed), 2);
        both
    }

    /// A store that was restored from a backup, with access control.
    #[test]
    fn a_token_that_the_store_no_longer_knows_is_replaced() {
        let (first, second) = is_taken_up_again(Old::Silence);
        assert!(matches!(first, Err(Fault::Away(_))), "{first:?}");
        assert_eq!(second, Ok(7));
        assert_eq!(is_taken_up_again(Old::Refusal), (Ok(7), Ok(7)));
    }

    #[test]
    fn a_watch_that_is_refused_gets_another_token() {
        let (url, given) = fake(Old::Refusal);
        let scratch = warren_testkit::Scratch::new("store-watch-token");
        let file = scratch.write("password", "secret 1\n");
        let user = Some(("h1".to_owned(), file.into()));
        let endpoints = Endpoints { urls: vec![url], user, ..Endpoints::default() };
        let store = Store::with_patience(&endpoints, Duration::from_secs(5)).expect("a store");
        let watch = || store.watch(&["/k".to_owned()], 1, &mut |_, _| true);
        assert!(matches!(watch(), Err(Fault::Refused(_))));
        scratch.write("password", "secret 2\n");
        // The store ends it at once, and did not refuse it.
        assert!(matches!(watch(), Err(Fault::Away(_))));
        assert_eq!(given.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_the_store_says_is_understood() {
        let words = |text: &str| complaint(text);
        assert_eq!(
            words(r#"{"error":"etcdserver: mvcc: database space exceeded","code":8}"#),
            Fault::Full
        );
        assert_eq!(words(r#"{"error":"x","message":"y"}"#), Fault::Refused("x".into()));
        assert!(matches!(
            words(r#"{"message":"etcdserver: permission denied"}"#),
            Fault::Forbidden(_)
        ));
        assert!(matches!(words(r#"{"error":"etcdserver: no leader"}"#), Fault::Away(_)));
        let changed = words(r#"{"error":"etcdserver: leader changed"}"#);
        assert!(matches!(changed, Fault::Away(_)));
        assert_eq!(words("<html>"), Fault::Refused("<html>".into()));
        assert_eq!(prefix_end("/a/"), STANDARD.encode("/a0"));
        assert_eq!([json!("12"), json!(12), json!(null)].map(|json| number(&json)), [12, 12, 0]);
    }
}
