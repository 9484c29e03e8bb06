//! The program `warren-journal-upload`: its command line.
//! Must not: do what `upload` does.
//! Start at [`main`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::tls::{self, renewed::Renewed};
use crate::upload::client::Headers;
use crate::upload::url::Target;
use crate::upload::{Compression, Failure, Options, run, url};
use clap::Parser;
use rustls::ClientConfig;
use warren_log_show::Place;
use warren_log_store::files::read_small;
use warren_log_store::query::Cursor;

/// Where it is kept how far the receiver has got.
const STATE: &str = "/var/lib/warren/journal-upload/state";

/// Tries of a request behind the first one, of collectors.
const RETRIES: u32 = 6;

/// Largest file of fields of heads, bytes.
const HEADERS_BYTES_MAX: u64 = 64 << 10;

/// Sends the log to a receiver over HTTP.
#[derive(Debug, Parser)]
#[command(name = "warren-journal-upload", version)]
struct Args {
    /// Send to this receiver: `http[s]://HOST[:PORT][/PATH]`; without a port to 19532, to Loki 3100, to OTLP 4318.
    #[arg(short, long, value_parser = url::parse)]
    url: url::Named,
    /// What the receiver takes: `journal`, as systemd-journal-remote; `loki`, Loki's push API; `otlp`, OTLP/HTTP. The last
    /// two get JSON.
    #[arg(long, value_name = "WHAT", default_value = "journal", value_parser = target)]
    to: Target,
    /// With `loki` and `otlp`: make a label of the unit (`unit`, `service.name`), of the template of instances; at most 500,
    /// others are `other`.
    #[arg(long)]
    unit_label: bool,
    /// Add the lines `Name: value` of this file to the head of each request, such as a token or a tenant.
    #[arg(long, value_name = "PATH")]
    headers: Option<PathBuf>,
    /// Wait so many seconds for a receiver that takes nothing, or does not answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Send a request again so often when the receiver is not there, or says that it is busy, and then end: with `loki` and
    /// `otlp` 6 times, else not at all.
    #[arg(long, value_name = "COUNT")]
    retries: Option<u32>,
    #[command(flatten)]
    place: Place,
    /// Begin at the entry of this cursor.
    #[arg(long, value_parser = cursor, conflicts_with = "after_cursor")]
    cursor: Option<Cursor>,
    /// Begin after the entry of this cursor.
    #[arg(long, value_parser = cursor, value_name = "CURSOR")]
    after_cursor: Option<Cursor>,
    /// Go on after the cursor in this file, and keep there how far the receiver has got.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = STATE)]
    save_state: Option<PathBuf>,
    /// Go on with what comes.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "yes",
          default_missing_value = "yes", value_parser = truth)]
    follow: bool,
    /// Compress: `auto`, once the receiver says that it takes zstd; `zstd`; `none`.
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = compression)]
    compression: Compression,
    /// With `https`: show the receiver the certificate in this file (PEM, our own first).
    #[arg(long, value_name = "PATH")]
    cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(long, value_name = "PATH")]
    key: Option<PathBuf>,
    /// With `https`: take receivers whose certificates were signed by one in this file (PEM); those
    /// that the system trusts without it.
    #[arg(long, value_name = "PATH")]
    trust: Option<PathBuf>,
}

fn cursor(text: &str) -> Result<Cursor, String> {
    Cursor::parse(text).ok_or_else(|| "not a cursor".to_owned())
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "yes" | "true" | "on" => Ok(true),
        "0" | "no" | "false" | "off" => Ok(false),
        _ => Err("neither yes nor no".to_owned()),
    }
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "auto" => Ok(Compression::Auto),
        "zstd" => Ok(Compression::Always),
        "none" => Ok(Compression::Never),
        _ => Err("neither auto, nor zstd, nor none".to_owned()),
    }
}

/// Runs it with the words of its command line; its exit status.
pub fn main() -> ExitCode {
    match options(Args::parse()).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            warren_sys::tell!("warren-journal-upload: {}", failure.0);
            ExitCode::FAILURE
        }
    }
}

fn options(args: Args) -> Result<Options, Failure> {
    let tls = if args.url.is_https { Some(tls(&args)?) } else { None };
    let headers = args.headers.as_deref().map(headers).transpose()?.unwrap_or_default();
    let Args { url, place, follow, compression, to: target, unit_label, .. } = args;
    if target != Target::Journal && compression == Compression::Always {
        return Err(Failure("--compression=zstd is for receivers of journals alone".to_owned()));
    }
    let compression = if target == Target::Journal { compression } else { Compression::Never };
    let retries = args.retries.unwrap_or(if target == Target::Journal { 0 } else { RETRIES });
    let after = args.after_cursor.map(|cursor| (cursor, false));
    Ok(Options {
        args: place.into(),
        url: url.of(target),
        target,
        labels_units: unit_label,
        headers,
        retries,
        timeout: Duration::from_secs(args.timeout),
        cursor: args.cursor.map(|cursor| (cursor, true)).or(after),
        state: args.save_state,
        follow,
        compression,
        tls,
    })
}

fn target(text: &str) -> Result<Target, String> {
    match text {
        "journal" => Ok(Target::Journal),
        "loki" => Ok(Target::Loki),
        "otlp" => Ok(Target::Otlp),
        _ => Err("neither journal, nor loki, nor otlp".to_owned()),
    }
}

/// Fields of heads, from a file that may hold secrets: only its name is said.
fn headers(path: &Path) -> Result<Headers, Failure> {
    let bytes = read_small(path, HEADERS_BYTES_MAX);
    let text = bytes.map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    let parsed = Headers::parse(&String::from_utf8_lossy(&text));
    parsed.map_err(|why| Failure(format!("{}: {why}", path.display())))
}

/// What the options say, or else the environment in the names of journal-upload.conf(5).
fn tls(args: &Args) -> Result<Arc<Renewed<ClientConfig>>, Failure> {
    let or_set = |option: &Option<PathBuf>, name: &str| {
        let set = || std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        option.clone().or_else(set)
    };
    let cert = or_set(&args.cert, "ServerCertificateFile");
    let key = or_set(&args.key, "ServerKeyFile");
    let trust = or_set(&args.trust, "TrustedCertificateFile");
    if cert.is_some() != key.is_some() {
        return Err(Failure("give both a certificate and its key".to_owned()));
    }
    tls::client(cert.zip(key), trust).map(Arc::new)
}
