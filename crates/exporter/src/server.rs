//! Answers clients over HTTP: `warren_http::serve` takes them, bounded in number and time; here is what they get.
//!
//! One scrape is collected at a time, and shown to all who come within `FRESH`: many clients cost the manager no more
//! than one. Thread: one for each client.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use warren_http::listen::{self, Address};
use warren_http::reply;
use warren_http::request::{Refusal, Request, is_for_us, read_head};
use warren_http::serve::{self, Client, Service};

use crate::cgroups::Cgroups;
use crate::exposition::Format;
use crate::manager::Manager;
use crate::metrics;
use crate::options::Options;
use crate::snapshot::{Bounds, Snapshot};

/// A snapshot is shown again for so long.
const FRESH: Duration = Duration::from_secs(1);

/// A client may not take anything for so long.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Where it listens when nothing is said: behind the ports of the log's gateway and receiver.
const ADDRESS: &str = "127.0.0.1:19533";

const OTHER_HOST: Refusal =
    Refusal(421, "Not a name of this machine: use its address, or start the exporter with --name.");

/// What is said at `/`.
const ROOT: &str = "warren-exporter: metrics are at /metrics.\n";

/// Answers until the process is ended.
///
/// # Errors
/// In words, when there is nothing to listen on, or the system gives no thread or descriptor to begin with.
pub fn run(options: &Options) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut listeners = listen::open(&options.listen).map_err(|error| text(&error))?;
    if listeners.is_empty() {
        let address: Address = listen::parse_address(ADDRESS)?;
        listeners = listen::open(&[address]).map_err(|error| text(&error))?;
    }
    let exporter = Exporter::new(options).map_err(|error| text(&error))?;
    serve::run(exporter, listeners).map_err(|error| text(&error))
}

/// What the exporter is to its clients.
struct Exporter {
    names: Vec<String>,
    collector: Mutex<Collector>,
}

/// Collects, one at a time.
struct Collector {
    manager: Manager,
    cgroups: Cgroups,
    /// Where cgroups lie, as the options say, or else as the manager said last.
    root: Option<PathBuf>,
    is_root_stated: bool,
    last: Option<(Instant, Arc<Snapshot>)>,
    /// The manager did not answer the last time, which is said once.
    is_away: bool,
}

impl Exporter {
    fn new(options: &Options) -> std::io::Result<Exporter> {
        let bounds = Bounds {
            top: options.top.into(),
            slices: options.slices.into(),
            timers: options.timers.into(),
            units: options.units_max.into(),
        };
        let mut names = options.names.clone();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        names.push(host.trim().to_owned());
        let collector = Collector {
            manager: Manager::new(options),
            cgroups: Cgroups::start(bounds)?,
            root: options.cgroups.clone(),
            is_root_stated: options.cgroups.is_some(),
            last: None,
            is_away: false,
        };
        Ok(Exporter { names, collector: Mutex::new(collector) })
    }

    fn answer(&self, mut client: &Client) -> std::io::Result<()> {
        client.bound_writes(STALL_MAX)?;
        let (request, refusal) = match read_head(|room, until| client.read_until(room, until))? {
            Ok(request) => match self.refusal(&request) {
                None => return self.show(client, &request),
                Some(refusal) => (request, refusal),
            },
            Err(refusal) => (Request::default(), refusal),
        };
        client.write_all(&reply::refusal(&request, refusal))
    }

    fn refusal(&self, request: &Request) -> Option<Refusal> {
        if !is_for_us(request, &self.names) {
            return Some(OTHER_HOST);
        }
        if !["GET", "HEAD"].contains(&&*request.method) {
            return Some(Refusal(405, "Only GET and HEAD are answered."));
        }
        match path(request) {
            "/" | "/metrics" => None,
            _ => Some(Refusal(404, "There is /metrics, and nothing else.")),
        }
    }

    fn show(&self, mut client: &Client, request: &Request) -> std::io::Result<()> {
        if path(request) == "/" {
            let kind = "text/plain; charset=utf-8";
            return client.write_all(&reply::short(request, 200, kind, "", ROOT));
        }
        // Nothing that is done under it can panic half-way.
        let snapshot = self.collector.lock().unwrap_or_else(PoisonError::into_inner).collect();
        let format = Format::accepted(&request.accept);
        let (text, _) = metrics::write(&snapshot, format);
        client.write_all(&reply::short(request, 200, format.content_type(), "", &text))
    }
}

/// Without what follows `?`: Prometheus may be told to send parameters, and none means anything here.
fn path(request: &Request) -> &str {
    request.target.split('?').next().unwrap_or_default()
}

impl Collector {
    fn collect(&mut self) -> Arc<Snapshot> {
        if let Some((at, snapshot)) = &self.last
            && at.elapsed() < FRESH
        {
            return snapshot.clone();
        }
        let began = Instant::now();
        let manager = self.manager.ask();
        match &manager {
            Err(error) if !self.is_away => {
                warren_sys::tell!("The manager does not answer: {error}")
            }
            Ok(_) if self.is_away => warren_sys::tell!("The manager answers again"),
            _ => {}
        }
        self.is_away = manager.is_err();
        let manager = manager.ok();
        if let Some(answer) = manager.as_ref().filter(|_| !self.is_root_stated) {
            self.root = answer.cgroup_root.as_ref().map(PathBuf::from);
        }
        let record = manager.as_ref().and_then(|answer| answer.shutdown_record.as_deref());
        let shutdown_us = record.and_then(|record| self.manager.shutdown_us(record));
        let groups = self.root.as_deref().and_then(|root: &Path| self.cgroups.read(root));
        let took_us = began.elapsed().as_micros() as u64;
        let snapshot = Arc::new(Snapshot { manager, groups, shutdown_us, took_us });
        self.last = Some((Instant::now(), snapshot.clone()));
        snapshot
    }
}

impl Service for Exporter {
    const CONNECTIONS_MAX: usize = 64;
    const CONNECTIONS_PER_PEER_MAX: usize = 16;

    fn serve(&self, client: &Client) {
        // Who goes away in the middle is nobody's fault.
        let _ = self.answer(client);
        client.linger();
    }

    /// Said without waiting for anything. Who still sends may not see it.
    fn refuse(&self, mut client: &Client) {
        let _ = client.never_wait();
        let refusal = Refusal(503, "Too many connections.");
        let _ = client.write_all(&reply::refusal(&Request::default(), refusal));
    }
}
