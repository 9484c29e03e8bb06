//! Units, jobs and the manager over varlink, as systemd 262 serves them.

mod lab;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use lab::{Machine, until};

const JOB: &str = "io.systemd.Job";

/// A connection that asks one thing after the other.
struct Client {
    stream: UnixStream,
    /// What has come of the next answer.
    rest: Vec<u8>,
}

impl Client {
    fn new(m: &Machine) -> Client {
        let path = m.inside("/run/systemd/io.systemd.Manager");
        let stream = until("it listens", || UnixStream::connect(&path).ok());
        Client { stream, rest: Vec::new() }
    }

    fn send(&mut self, method: &str, parameters: &Value, more: bool) {
        let call = json!({"method": method, "parameters": parameters, "more": more});
        let bytes = [call.to_string().as_bytes(), b"\0"].concat();
        self.stream.write_all(&bytes).expect("it reads");
    }

    /// The next answer; nothing if it has hung up.
    fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == 0) {
                let message: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&message[..end]).expect("JSON"));
            }
            let mut room = [0; 65536];
            match self.stream.read(&mut room).expect("it answers") {
                0 => return None,
                bytes => self.rest.extend_from_slice(&room[..bytes]),
            }
        }
    }

    /// All answers to a call, each as its interface describes it.
    #[track_caller]
    fn call(&mut self, method: &str, parameters: Value, more: bool) -> Vec<Value> {
        self.send(method, &parameters, more);
        let (interface, name) = method.rsplit_once('.').expect("a full name");
        let mut all = Vec::new();
        loop {
            let answer = self.next().expect("an answer");
            if answer["error"].is_null() {
                let said = &answer["parameters"];
                let checked = warren_manager::fuzz::varlink_answer(interface, name, said);
                assert_eq!(checked, Ok(()), "{method}: {said}");
            }
            let continues = answer["continues"] == true;
            all.push(answer);
            if !continues {
                return all;
            }
        }
    }

    /// The only answer.
    #[track_caller]
    fn one(&mut self, method: &str, parameters: Value) -> Value {
        let mut all = self.call(method, parameters, false);
        assert_eq!(all.len(), 1, "{method}");
        all.remove(0)["parameters"].take()
    }

    /// The error without its interface, and what it says.
    #[track_caller]
    fn error(&mut self, method: &str, parameters: Value) -> String {
        let answer = self.call(method, parameters, false).remove(0);
        let name = answer["error"].as_str().unwrap_or("none");
        format!("{} {}", name.rsplit('.').next().unwrap_or_default(), answer["parameters"])
    }
}

const SLEEPS: &str = "[Unit]\nDescription=sleeps\n[Service]\nExecStart=/bin/sleep 1000\nCPUWeight=50\n\
                      ProtectSystem=full\nEnvironment=A=b\nLimitNOFILE=10:20\n";

#[test]
fn units_are_told_by_all_that_they_can_be_asked_for() {
    let timer = "[Timer]\nOnActiveSec=1h\nOnCalendar=daily\nUnit=sleeps.service\n";
    let socket = "[Socket]\nListenStream=/run/a\nService=sleeps.service\n";
    let units = [
        ("sleeps.service", SLEEPS),
        ("a.timer", timer),
        ("a.socket", socket),
        ("a.path", "[Path]\nPathExists=/absent\nUnit=sleeps.service\n"),
        ("odd.service", "[Service]\nType=nonsense\nExecStart=relative/path\nExecStart=\n"),
    ];
    let Some(m) = Machine::start("varlink-units", &units) else { return };
    for unit in ["a.socket", "sleeps.service", "a.timer", "a.path"] {
        m.expect_job("start", unit, "done");
    }
    let mut client = Client::new(&m);
    let list = |name: &str| json!({"name": name});
    let told = client.one("io.systemd.Unit.List", list("sleeps.service"));
    let (context, runtime) = (&told["context"], &told["runtime"]);
    assert_eq!(context["Description"], "sleeps");
    assert_eq!(context["CGroup"]["CPUWeight"], 50);
    assert_eq!(context["Exec"]["ProtectSystem"], "full");
    assert_eq!(context["Exec"]["Environment"], json!(["A=b"]));
    assert_eq!(context["Exec"]["Limits"]["NOFILE"], json!({"soft": 10, "hard": 20}));
    assert_eq!(context["Service"]["ExecStart"][0]["arguments"], json!(["/bin/sleep", "1000"]));
    assert_eq!(
        (&runtime["ActiveState"], &runtime["SubState"]),
        (&json!("active"), &json!("running"))
    );
    let pid = m.main_pid("sleeps.service").expect("it runs");
    let inner = runtime["Service"]["MainPID"]["pid"].clone();
    assert!(inner.is_u64() && pid > 0, "{runtime}");
    // By its process, its group, its run, and by all at once.
    let mut asked = json!({"pid": {"pid": inner}});
    assert_eq!(
        client.one("io.systemd.Unit.List", asked.clone())["context"]["ID"],
        "sleeps.service"
    );
    asked["invocationID"] = runtime["InvocationID"].clone();
    asked["name"] = "sleeps.service".into();
    assert_eq!(
        client.one("io.systemd.Unit.List", asked.clone())["context"]["ID"],
        "sleeps.service"
    );
    asked["name"] = "a.timer".into();
    assert_eq!(client.error("io.systemd.Unit.List", asked), "NoSuchUnit {}");
    let by_pid = json!({"pid": {"pid": 999_999_999}});
    assert_eq!(client.error("io.systemd.Unit.List", by_pid), r#"NoSuchUnit {"parameter":"pid"}"#);
    assert_eq!(client.error("io.systemd.Unit.List", list("absent.service")), "NoSuchUnit {}");
    let bad = r#"InvalidParameter {"parameter":"name"}"#;
    assert_eq!(client.error("io.systemd.Unit.List", list("bad name")), bad);
    assert_eq!(client.error("io.systemd.Unit.List", json!({})), "ExpectedMore {}");
    // All of them, each of which is as described.
    let all = client.call("io.systemd.Unit.List", json!({}), true);
    let names: Vec<&str> =
        all.iter().filter_map(|one| one["parameters"]["context"]["ID"].as_str()).collect();
    for (name, _) in units {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let timer = client.one("io.systemd.Unit.List", list("a.timer"));
    let bases = timer["context"]["Timer"]["Timers"].as_array().expect("a list").clone();
    assert_eq!(bases[0], json!({"base": "OnActiveUSec", "usec": 3_600_000_000_u64}));
    assert_eq!(bases[1]["base"], "OnCalendar");
    client.one("io.systemd.Manager.Describe", json!({}));
}

#[test]
fn jobs_are_listed_and_cancelled() {
    let slow = "[Service]\nType=oneshot\nExecStart=/bin/sleep 1000\n";
    let units = [
        ("slow.service", slow),
        ("waits.service", "[Unit]\nAfter=slow.service\n[Service]\nExecStart=/bin/sleep 1000\n"),
    ];
    let Some(m) = Machine::start("varlink-jobs", &units) else { return };
    let mut client = Client::new(&m);
    let none = client.call("io.systemd.Job.List", json!({}), true).remove(0);
    assert_eq!(none["error"], format!("{JOB}.NoSuchJob"));
    for unit in ["slow.service", "waits.service"] {
        m.call("Job", &json!({"unit": unit, "wait": false}));
    }
    let of =
        |client: &mut Client, unit: &str| client.one("io.systemd.Job.List", json!({"unit": unit}));
    let running = of(&mut client, "slow.service");
    assert_eq!((&running["JobType"], &running["State"]), (&json!("start"), &json!("running")));
    let waiting = of(&mut client, "waits.service");
    assert_eq!(waiting["State"], "waiting");
    assert_eq!(client.call("io.systemd.Job.List", json!({}), true).len(), 2);
    let both = json!({"unit": "slow.service", "id": waiting["Id"]});
    assert_eq!(client.error("io.systemd.Job.List", both), "NoSuchJob {}");
    client.one("io.systemd.Job.Cancel", json!({"id": waiting["Id"]}));
    let gone = r#"NoSuchJob {"parameter":"id"}"#;
    assert_eq!(client.error("io.systemd.Job.Cancel", json!({"id": waiting["Id"]})), gone);
    client.one("io.systemd.Job.ClearAll", json!({}));
    // What was begun for them goes on.
    let none = client.call("io.systemd.Job.List", json!({}), true).remove(0);
    assert_eq!(none["error"], format!("{JOB}.NoSuchJob"));
}

/// What each answer of a stream is about, in a few words.
fn brief(answer: &Value) -> String {
    let said = &answer["parameters"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    match (&said["context"], &said["runtime"], &said["job"]) {
        (Value::Null, Value::Null, job) => format!("job {}", text(&job["State"])),
        (Value::Null, runtime, _) => format!("unit {}", text(&runtime["ActiveState"])),
        (_, runtime, job) => {
            format!("end {} {}", text(&runtime["ActiveState"]), text(&job["Result"]))
        }
    }
}

#[test]
fn a_transient_unit_is_started_and_followed_to_the_end_of_its_job() {
    let Some(m) = Machine::start("varlink-transient", &[]) else { return };
    let mut client = Client::new(&m);
    let service = |name: &str, program: &str| {
        json!({"context": {"ID": name, "Description": "made",
            "Service": {"Type": "oneshot", "ExecStart": [{"path": program}]}}})
    };
    let stream = |client: &mut Client, name: &str, program: &str| {
        let mut made = service(name, program);
        made["notifyJobChanges"] = true.into();
        made["notifyUnitChanges"] = true.into();
        client
            .call("io.systemd.Unit.StartTransient", made, true)
            .iter()
            .map(brief)
            .collect::<Vec<_>>()
    };
    let told = stream(&mut client, "good.service", "/bin/true");
    assert_eq!(told.first().map(String::as_str), Some("job waiting"), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("end inactive done"), "{told:?}");
    let told = stream(&mut client, "bad.service", "/bin/false");
    assert_eq!(told.last().map(String::as_str), Some("end failed failed"), "{told:?}");
    // Without `more` when it is in the queue, and without changes if none are wanted.
    let plain = service("plain.service", "/bin/true");
    assert_eq!(client.call("io.systemd.Unit.StartTransient", plain, true).len(), 1);
    let stays = json!({"context": {"ID": "stays.service",
        "Service": {"ExecStart": [{"path": "/bin/sleep", "arguments": ["sleep", "1000"]}]}}});
    let answer = client.one("io.systemd.Unit.StartTransient", stays.clone());
    assert_eq!(answer["job"]["JobType"], "start");
    assert_eq!(answer["context"]["Transient"], true);
    until("it runs", || (m.state("stays.service") == "active/running").then_some(()));
    assert_eq!(client.error("io.systemd.Unit.StartTransient", stays), "UnitExists {}");
    let mut wrong = service("wrong.service", "/bin/true");
    wrong["context"]["Wants"] = json!(["a.service"]);
    let refused = r#"PropertyNotSupported {"property":"Wants"}"#;
    assert_eq!(client.error("io.systemd.Unit.StartTransient", wrong), refused);
    // A client that hangs up while its job goes on leaves nothing behind.
    let mut other = Client::new(&m);
    let mut slow = service("slow.service", "/bin/sleep");
    slow["context"]["Service"]["ExecStart"][0]["arguments"] = json!(["sleep", "1000"]);
    other.send("io.systemd.Unit.StartTransient", &slow, true);
    until("it runs", || (m.state("slow.service") == "activating/start").then_some(()));
    drop(other);
    m.expect_job("stop", "slow.service", "done");
}

#[test]
fn others_read_and_change_nothing() {
    let Some(m) = Machine::start("varlink-others", &[("sleeps.service", SLEEPS)]) else { return };
    let asks = "import json,socket,sys\n\
        s=socket.socket(socket.AF_UNIX); s.connect('/run/systemd/io.systemd.Manager')\n\
        for m,p in json.loads(sys.argv[1]):\n\
        \x20   s.sendall(json.dumps({'method':m,'parameters':p}).encode()+b'\\0')\n\
        \x20   b=b''\n\
        \x20   while not b.endswith(b'\\0'): b+=s.recv(65536)\n\
        \x20   d=json.loads(b[:-1]); print(d.get('error','ok').split('.')[-1])\n";
    let start =
        json!({"context": {"ID": "b.service", "Service": {"ExecStart": [{"path": "/bin/true"}]}}});
    let markers = json!({"name": "sleeps.service", "runtime": true, "properties": {"Markers": ["needs-restart"]}});
    let calls = json!([
        ["io.systemd.Unit.List", {"name": "sleeps.service"}],
        ["io.systemd.Manager.Describe", {}],
        ["io.systemd.service.Ping", {}],
        ["io.systemd.service.GetEnvironment", {}],
        ["io.systemd.Unit.StartTransient", start],
        ["io.systemd.Unit.SetProperties", markers],
        ["io.systemd.Job.ClearAll", {}],
        ["io.systemd.Manager.Reload", {}],
        ["io.systemd.Manager.Reexecute", {}],
        ["io.systemd.Manager.EnqueueMarkedJobs", {}],
        ["io.systemd.Manager.PowerOff", {}],
        ["io.systemd.Manager.SoftReboot", {}],
        ["io.systemd.ManagedOOM.SubscribeManagedOOMCGroups", {}],
    ])
    .to_string();
    let words = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "/usr/bin/python3",
        "-c",
        asks,
        &calls,
    ];
    let said = m.run(&words).expect("it can ask");
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said[..3], ["ok", "ok", "ok"], "{said:?}");
    assert!(
        said.len() == 13 && said[3..].iter().all(|word| *word == "PermissionDenied"),
        "{said:?}"
    );
}

/// What is no call ends its connection and no other.
#[test]
fn rubbish_hurts_nobody() {
    let Some(m) = Machine::start("varlink-rubbish", &[("sleeps.service", SLEEPS)]) else { return };
    let mut kept = Client::new(&m);
    let deep = format!("{{\"method\":\"a.b\",\"parameters\":{}", "[".repeat(10_000));
    for rubbish in ["\0", "[]\0", "{}\0", "{\"method\":1}\0", &format!("{deep}\0")] {
        let mut client = Client::new(&m);
        client.stream.write_all(rubbish.as_bytes()).expect("it reads");
        assert_eq!(client.next(), None, "{rubbish:.40}");
    }
    // One that says nothing more, and one that does not read.
    drop(Client::new(&m));
    let mut silent = Client::new(&m);
    for _ in 0..100 {
        silent.send("io.systemd.Unit.List", &json!({}), true);
    }
    kept.one("io.systemd.service.Ping", json!({}));
    let told = kept.one("io.systemd.Unit.List", json!({"name": "sleeps.service"}));
    assert_eq!(told["context"]["ID"], "sleeps.service");
    // Whoever comes while there is no manager is served by the next.
    assert!(m.kill_manager());
    let mut next = Client::new(&m);
    next.one("io.systemd.service.Ping", json!({}));
}
