//! `cargo xtask bench hosts [N...]`: what N agents and a real etcd on loopback take; 100, 300 and 1,000 by default.
//!
//! The agents are one process that speaks for each as a host does, with a manager that only takes what it is told. What
//! one agent takes by itself is measured with the program. CPU is that of the processes. Needs etcd (`make peers`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use warren_cli::output::span_us;
use warren_testkit::{Scratch, free_address};

use super::write;
use crate::command::{output, root};

/// How long idleness is looked at.
const IDLE: Duration = Duration::from_secs(30);

/// Containers of the plan.
const CONTAINERS: usize = 5_000;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A process that ends with the bench.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn spawn(command: &mut Command, log: &Path) -> Result<Process> {
        let log = fs::File::create(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Process(command.spawn().with_context(|| format!("{command:?}"))?))
    }

    /// CPU time of it and its threads so far.
    fn cpu(&self) -> Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> =
            text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Bytes of its own: what it has in memory and shares with no file.
    fn memory(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.0.id()))?;
        let line =
            text.lines().find_map(|line| line.strip_prefix("Pss_Anon:")).context("Pss_Anon")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib << 10)
    }
}

/// etcd: where the tests find it, too.
fn etcd() -> PathBuf {
    let unpacked = root().join("target/peers/usr/bin/etcd");
    if unpacked.exists() { unpacked } else { "etcd".into() }
}

/// Measures and writes `bench/results/hosts.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let sizes: Vec<usize> = match args {
        [] => vec![100, 300, 1_000],
        sizes => sizes
            .iter()
            .map(|n| n.parse().with_context(|| format!("{n} hosts")))
            .collect::<Result<_>>()?,
    };
    output(
        "cargo",
        &["build", "--locked", "--release", "-p", "warren-agent", "--bins", "--examples"],
    )?;
    let mut rows = Vec::new();
    for size in sizes {
        rows.push(measure(size)?);
        write("hosts.json", &rows)?;
    }
    Ok(())
}

/// A store and a way to speak to it.
struct Site {
    scratch: Scratch,
    etcd: Process,
    url: String,
    programs: PathBuf,
}

impl Site {
    fn new() -> Result<Site> {
        let scratch = Scratch::new("bench-hosts");
        let url = format!("http://{}", free_address());
        let mut command = Command::new(etcd());
        command.args(["--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", &url]);
        command.args(["--advertise-client-urls", &url, "--data-dir", &scratch.text_path("etcd")]);
        let etcd = Process::spawn(&mut command, &scratch.path("etcd.log"))
            .context("etcd: install it with make peers")?;
        let site = Site { scratch, etcd, url, programs: root().join("target/release") };
        site.scratch.write("hosts.conf", &format!("Endpoints={}\n", site.url));
        site.wait("the store", || site.hosts(&["list"]).is_ok())?;
        let line = site.hosts(&["keygen", &site.scratch.text_path("key")])?;
        site.scratch.write("trusted-keys", &line);
        Ok(site)
    }

    fn hosts(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.programs.join("warren-hosts"));
        let out =
            command.arg("--config").arg(self.scratch.path("hosts.conf")).args(words).output()?;
        ensure!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8(out.stdout)?)
    }

    fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            if Instant::now() > end {
                bail!("waited for {what} in vain");
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        Ok(())
    }

    fn push(&self, rules: &str) -> Result<String> {
        let directory = self.scratch.path("rules");
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("all.conf"), rules)?;
        Ok(self.hosts(&["push", &self.scratch.text_path("rules")])?.trim().to_owned())
    }

    /// Releases a revision and drives until it is on all hosts; how long that took.
    fn roll_out(&self, revision: &str, waves: &[&str]) -> Result<Duration> {
        let key = self.scratch.text_path("key");
        let waves: Vec<&str> = waves.iter().flat_map(|wave| ["--wave", wave]).collect();
        let begin = [&["release", revision, "--key", &key, "--soak", "0"][..], &waves].concat();
        let began = Instant::now();
        self.hosts(&begin)?;
        self.hosts(&["drive", "--until-over"])?;
        Ok(began.elapsed())
    }

    fn store_bytes(&self) -> Result<u64> {
        let text = output(
            "curl",
            &["-s", "-X", "POST", "-d", "{}", &format!("{}/v3/maintenance/status", self.url)],
        )?;
        let answer: Value = serde_json::from_str(&text)?;
        Ok(answer["dbSizeInUse"].as_str().unwrap_or_default().parse()?)
    }
}

fn rules(containers: usize, version: usize) -> String {
    let mut text = format!(
        "apply Service \"web\" to Container {{\n  ExecStart = \"/bin/web --version {version} --name \" + \
         container.name\n  Description = container.name + \" as \" + machine.labels.role\n  assign where true\n}}\n"
    );
    (0..containers)
        .for_each(|n| text += &format!("object Container \"c{n}\" {{ vars.port = {n} }}\n"));
    text
}

fn measure(size: usize) -> Result<Value> {
    let site = Site::new()?;
    let mut command = Command::new(site.programs.join("examples/many_agents"));
    command.args([&size.to_string(), &site.url]).arg(&site.scratch.0);
    let began = Instant::now();
    let agents = Process::spawn(&mut command, &site.scratch.path("agents.log"))?;
    let listed = |word: &str| site.hosts(&["list"]).is_ok_and(|text| text.contains(word));
    site.wait("all hosts", || listed(&format!("\n{size} hosts: {size} ok")))?;
    let registered = began.elapsed();
    // What is fetched has the size of a site's rules.
    let revision = site.push(&rules(CONTAINERS, 1))?;
    let (cpu, of_etcd) = (agents.cpu()?, site.etcd.cpu()?);
    let one = site.roll_out(&revision, &["100%"])?;
    let (release_cpu, release_etcd) = (agents.cpu()? - cpu, site.etcd.cpu()? - of_etcd);
    let revision = site.push(&rules(CONTAINERS, 2))?;
    let ten = site.roll_out(&revision, &["10%"; 9])?;
    let (cpu, of_etcd) = (agents.cpu()?, site.etcd.cpu()?);
    site.wait("idleness", {
        let end = Instant::now() + IDLE;
        move || Instant::now() >= end
    })?;
    let idle = (agents.cpu()? - cpu).as_secs_f64() / IDLE.as_secs_f64();
    let idle_etcd = (site.etcd.cpu()? - of_etcd).as_secs_f64() / IDLE.as_secs_f64();
    let revision = site.push(&rules(CONTAINERS, 3))?;
    let began = Instant::now();
    site.hosts(&["plan", &revision])?;
    let plan = began.elapsed();
    let (bytes, memory) = (site.store_bytes()?, agents.memory()?);
    drop(agents);
    let alone = alone(&site)?;
    let us = |time: Duration| time.as_micros() as u64;
    println!(
        "{size} hosts: registered in {}, a release on all in {} (CPU {} of the agents, {} of etcd), in ten waves in {}; \
         idle {:.1} % of a CPU for all agents, {:.1} % for etcd; a plan over all in {}; {} KiB in etcd, {} KiB for each \
         agent of many, {} KiB for one alone",
        span_us(us(registered)),
        span_us(us(one)),
        span_us(us(release_cpu)),
        span_us(us(release_etcd)),
        span_us(us(ten)),
        idle * 100.0,
        idle_etcd * 100.0,
        span_us(us(plan)),
        bytes >> 10,
        (memory >> 10) / size as u64,
        alone >> 10
    );
    Ok(json!({
        "hosts": size, "registered_us": us(registered), "release_us": us(one), "release_cpu_us": us(release_cpu),
        "release_etcd_cpu_us": us(release_etcd), "ten_waves_us": us(ten), "idle_cpu_share": idle,
        "idle_etcd_cpu_share": idle_etcd, "plan_us": us(plan), "store_bytes": bytes,
        "memory_of_each_bytes": memory / size as u64, "memory_alone_bytes": alone,
    }))
}

/// The memory of one agent that has followed a release.
fn alone(site: &Site) -> Result<u64> {
    let path = |name: &str| site.scratch.text_path(name);
    let text = format!(
        "Endpoints={}\nName=h00000\nTrustedKeys={}\nStateDirectory={}\nControlSocket={}\nLabels={}\n",
        site.url,
        path("trusted-keys"),
        path("h00000"),
        path("control"),
        path("none"),
    );
    site.scratch.write("alone.conf", &text);
    let mut command = Command::new(site.programs.join("warren-agent"));
    command.arg("--config").arg(path("alone.conf"));
    let agent = Process::spawn(&mut command, &site.scratch.path("alone.log"))?;
    let end = Instant::now() + Duration::from_secs(5);
    site.wait("the agent", || Instant::now() >= end)?;
    agent.memory()
}
