//! A store that can be stopped, restored and cut off, agents that can be killed, and a manager that only writes down
//! what it is told.

pub mod recorder;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use warren_testkit::{Scratch, free_address, wait_until};

use recorder::Recorder;

pub const AGENT: &str = env!("CARGO_BIN_EXE_warren-agent");
pub const HOSTS: &str = env!("CARGO_BIN_EXE_warren-hosts");

/// etcd: unpacked by `make peers`, or installed.
fn etcd() -> PathBuf {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/usr/bin/etcd");
    if unpacked.exists() { unpacked } else { "etcd".into() }
}

/// Whether etcd is there; if it is not, the test has not run.
pub fn has_etcd() -> bool {
    let is_there = Command::new(etcd()).arg("--version").output().is_ok();
    if !is_there {
        warren_testkit::not_run("etcd, not installed");
    }
    is_there
}

/// A process that is killed when it is dropped.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(status.expect("kill(1)").success());
    }

    pub fn kill(mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it was a child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A site: a store, hosts, an operator.
pub struct Site {
    pub scratch: Scratch,
    pub url: String,
    pub etcd: Option<Process>,
    etcd_words: Vec<String>,
    /// For curl(1), where the store wants more.
    pub curl_words: Vec<String>,
    /// Lines of the settings of the operator and of hosts.
    pub more_settings: String,
    pub hosts: Vec<Host>,
}

/// A member of a store of three.
pub struct Member {
    name: String,
    directory: String,
    url: String,
    peer_url: String,
    cluster: String,
    pub etcd: Option<Process>,
}

impl Member {
    fn new(scratch: &Scratch, n: usize) -> Member {
        let name = format!("m{n}");
        let directory = scratch.text_path(&name);
        let [url, peer_url] = [(); 2].map(|()| format!("http://{}", free_address()));
        Member { name, directory, url, peer_url, cluster: String::new(), etcd: None }
    }

    pub fn start(&mut self) {
        let mut etcd = Command::new(etcd());
        etcd.args(["--name", &self.name, "--data-dir", &self.directory])
            .args(["--listen-client-urls", &self.url, "--advertise-client-urls", &self.url])
            .args(["--listen-peer-urls", &self.peer_url])
            .args(["--initial-advertise-peer-urls", &self.peer_url])
            .args(["--initial-cluster", &self.cluster])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.etcd = Some(Process(etcd.spawn().expect("etcd starts")));
    }

    pub fn kill(&mut self) {
        self.etcd.take().expect("it runs").kill();
    }

    pub fn signal(&self, signal: &str) {
        self.etcd.as_ref().expect("it runs").signal(signal);
    }
}

pub struct Host {
    pub name: String,
    pub manager: Recorder,
    pub agent: Option<Process>,
}

impl Site {
    pub fn new(name: &str, hosts: usize, etcd_words: &[&str]) -> Site {
        let words = etcd_words.iter().map(|word| (*word).to_owned()).collect();
        let mut site = Site::with(Scratch::new(name), "http", words, String::new());
        for n in 1..=hosts {
            site.add_host(&format!("h{n}"));
        }
        site
    }

    /// A site whose hosts are listed as they should be; none where etcd is not installed.
    pub fn ready(name: &str, hosts: usize) -> Option<Site> {
        if !has_etcd() {
            return None;
        }
        let site = Site::new(name, hosts, &[]);
        site.wait_listed(&format!(": {hosts} ok"));
        Some(site)
    }

    /// A site without hosts.
    pub fn with(
        scratch: Scratch,
        scheme: &str,
        etcd_words: Vec<String>,
        more_settings: String,
    ) -> Site {
        let url = format!("{scheme}://{}", free_address());
        let mut site = Site::over(scratch, url, etcd_words, more_settings);
        site.start_etcd();
        site.make_key();
        site
    }

    /// A site over a store that somebody else starts.
    fn over(scratch: Scratch, url: String, etcd_words: Vec<String>, more_settings: String) -> Site {
        let site = Site {
            scratch,
            url,
            etcd: None,
            etcd_words,
            curl_words: Vec::new(),
            more_settings,
            hosts: Vec::new(),
        };
        site.write_operator("");
        site
    }

    fn make_key(&self) {
        let key = self.scratch.text_path("key");
        let line = self.run(&["keygen", &key]);
        self.scratch.write("trusted-keys", &line);
    }

    pub fn write_operator(&self, more: &str) {
        let text = format!("[Hosts]\nEndpoints={}\n{}{more}", self.url, self.more_settings);
        self.scratch.write("operator.conf", &text);
    }

    pub fn start_etcd(&mut self) {
        let mut etcd = Command::new(etcd());
        etcd.args(["--data-dir", &self.scratch.text_path("etcd")])
            .args(["--listen-client-urls", &self.url, "--advertise-client-urls", &self.url])
            .args(["--listen-peer-urls", "http://127.0.0.1:0"])
            .args(&self.etcd_words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.etcd = Some(Process(etcd.spawn().expect("etcd starts")));
        wait_until("the store answers", || self.try_run(&["list"]).status.success());
    }

    /// A site whose store has three members, which are returned.
    pub fn of_three_members(name: &str, hosts: usize) -> (Site, Vec<Member>) {
        let scratch = Scratch::new(name);
        let mut members: Vec<Member> = (1..=3).map(|n| Member::new(&scratch, n)).collect();
        let all: Vec<String> =
            members.iter().map(|member| format!("{}={}", member.name, member.peer_url)).collect();
        for member in &mut members {
            member.cluster = all.join(",");
            member.start();
        }
        let urls: Vec<&str> = members.iter().map(|member| member.url.as_str()).collect();
        let mut site = Site::over(scratch, urls.join(" "), Vec::new(), String::new());
        wait_until("the store answers", || site.try_run(&["list"]).status.success());
        site.make_key();
        for n in 1..=hosts {
            site.add_host(&format!("h{n}"));
        }
        site.wait_listed(&format!(": {hosts} ok"));
        (site, members)
    }

    pub fn stop_etcd(&mut self) {
        drop(self.etcd.take());
    }

    /// A host of this name, its settings and its manager; its agent is started.
    pub fn add_host(&mut self, name: &str) {
        self.add_host_with(name, "");
    }

    pub fn add_host_with(&mut self, name: &str, more: &str) {
        let path = |what: &str| self.scratch.text_path(&format!("{name}.{what}"));
        let settings = format!(
            "[Hosts]\nEndpoints={}\nName={name}\nTrustedKeys={}\nStateDirectory={}\nControlSocket={}\nLabels={}\n\
             LeaseSec=5\nCapacity=4\nMaxRestarts=2\n{}{more}",
            self.url,
            self.scratch.text_path("trusted-keys"),
            path("state"),
            path("control"),
            path("labels"),
            self.more_settings,
        );
        self.scratch.write(&format!("{name}.labels"), &format!("name={name}\n"));
        self.scratch.write(&format!("{name}.conf"), &settings);
        let manager = Recorder::new(Path::new(&path("control")), Path::new(&path("state")));
        self.hosts.push(Host { name: name.to_owned(), manager, agent: None });
        self.start_agent(self.hosts.len() - 1);
    }

    pub fn start_agent(&mut self, host: usize) {
        let name = &self.hosts[host].name;
        let log = self.scratch.path(&format!("{name}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let mut agent = Command::new(AGENT);
        agent.arg("--config").arg(self.scratch.path(&format!("{name}.conf")));
        agent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.hosts[host].agent = Some(Process(agent.spawn().expect("an agent")));
    }

    pub fn log(&self, host: &str) -> String {
        std::fs::read_to_string(self.scratch.path(&format!("{host}.log"))).unwrap_or_default()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(HOSTS);
        command
            .arg("--config")
            .arg(self.scratch.path("operator.conf"))
            .args(words)
            .stdin(Stdio::null());
        command
    }

    pub fn try_run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the command runs")
    }

    /// What an operator's command prints.
    pub fn run(&self, words: &[&str]) -> String {
        let out = self.try_run(words);
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    }

    /// A command that goes on, and the lines that it prints.
    pub fn begin(&self, words: &[&str]) -> (Process, impl Iterator<Item = String> + use<>) {
        use std::io::BufRead as _;
        let mut command = self.command(words);
        let mut process = Process(command.stdout(Stdio::piped()).spawn().expect("it runs"));
        let out = process.0.stdout.take().expect("a pipe");
        (process, std::io::BufReader::new(out).lines().map(|line| line.expect("text")))
    }

    /// The first lines of what it prints.
    pub fn first_lines(&self, words: &[&str], count: usize) -> Vec<String> {
        let (_process, lines) = self.begin(words);
        let lines: Vec<String> = lines.take(count).collect();
        assert_eq!(lines.len(), count, "{words:?}: {lines:?}");
        lines
    }

    /// What it says when it fails.
    pub fn fails(&self, words: &[&str]) -> String {
        let out = self.try_run(words);
        assert!(!out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stdout));
        String::from_utf8(out.stderr).expect("text")
    }

    pub fn gated_driver(&self, gate: &str) -> Process {
        let mut drive = self.command(&["drive", "--gate", gate]);
        Process(drive.stderr(Stdio::null()).spawn().expect("a driver"))
    }

    /// What it says is in the log `driver`.
    pub fn driver(&self) -> Process {
        let log = std::fs::File::create(self.scratch.path("driver.log")).expect("a log");
        Process(self.command(&["drive"]).stderr(log).spawn().expect("a driver"))
    }

    /// Rules as a revision: its name. A text that is a word is a comment, which the recorder reads as a unit's.
    pub fn push(&self, rules: &[(&str, &str)]) -> String {
        let directory = self.scratch.path("rules");
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).expect("a directory");
        for (name, text) in rules {
            let is_word = !text.contains(['{', '=', '\n']);
            let text = if is_word { format!("// {text}\n") } else { (*text).to_owned() };
            std::fs::write(directory.join(name), text).expect("written");
        }
        self.run(&["push", &self.scratch.text_path("rules")]).trim().to_owned()
    }

    pub fn release(&self, revision: &str, more: &[&str]) {
        let key = self.scratch.text_path("key");
        let soak: &[&str] = if more.contains(&"--soak") { &[] } else { &["--soak", "0"] };
        let words = [&["release", revision, "--key", &key], soak, more].concat();
        self.run(&words);
    }

    /// Pushes rules, releases them, and drives until the rollout is over.
    pub fn roll_out(&self, rules: &[(&str, &str)], more: &[&str]) -> String {
        let revision = self.push(rules);
        self.release(&revision, more);
        self.drive_to_the_end()
    }

    /// Drives until the rollout is over: how it ended.
    pub fn drive_to_the_end(&self) -> String {
        let _ = self.try_run(&["drive", "--until-over"]);
        self.run(&["status"])
    }

    /// Waits until the list of hosts has this in it.
    pub fn wait_listed(&self, text: &str) {
        let mut last = String::new();
        wait_until(&format!("'{text}' among the hosts"), || {
            last = self.run(&["list"]);
            last.contains(text)
        });
    }

    /// Sends a request to the store itself.
    pub fn ask(&self, path: &str, body: &str) -> String {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-X", "POST", "-d", body])
            .args(&self.curl_words)
            .arg(format!("{}{path}", self.url));
        let out = curl.output().expect("curl(1)");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}
