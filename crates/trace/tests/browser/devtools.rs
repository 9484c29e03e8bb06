//! A browser without a window, driven over a pipe by the DevTools protocol: one JSON message after
//! another, each ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Names under which distributions install it.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The size of the window, in pixels.
const WINDOW: (u32, u32) = (1280, 800);

/// A running browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// What the page complained of.
    pub complaints: Vec<String>,
    directory: PathBuf,
}

/// Where the browser is; none when none is installed.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates = directories.iter().flat_map(|dir| PROGRAMS.map(|name| dir.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}

impl Browser {
    /// Starts it with its files below `directory`, and opens an empty page. A shell moves the pipes
    /// to descriptors 3 and 4, where the browser looks for them.
    pub fn start(program: &Path, directory: &Path) -> Browser {
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", directory.join("profile").display()))
            .arg(format!("--window-size={},{}", WINDOW.0, WINDOW.1))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (session, complaints, directory) = (None, Vec::new(), directory.to_path_buf());
        let mut browser =
            Browser { child, input, output, session, last_id: 0, complaints, directory };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    /// Calls a method and waits for its answer; complaints that come before it are kept.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The same; or why it could not be done, as when the page goes away meanwhile.
    pub fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        write!(self.input, "{message}\0").expect("the browser listens");
        loop {
            let answer = self.next();
            if answer["id"] == self.last_id {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.output.read_until(0, &mut bytes).expect("the browser answers");
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        let message: Value = serde_json::from_slice(&bytes).expect("JSON");
        let params = &message["params"];
        let complains = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error",
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if complains {
            self.complaints.push(params.to_string());
        }
        message
    }

    /// Opens a text as a page and waits until its program says that it is ready.
    pub fn open(&mut self, name: &str, text: &str) {
        self.show(name, text);
        self.eval(
            "new Promise((done) => { const look = () => window.page || \
             document.getElementById('headline').textContent.startsWith('This chart cannot') \
             ? done(true) : requestAnimationFrame(look); look(); })",
        );
        self.frame();
    }

    /// Opens a text as whatever its name says and waits until it is loaded.
    pub fn show(&mut self, name: &str, text: &str) {
        let path = self.directory.join(name);
        std::fs::write(&path, text).expect("the page is written");
        self.call("Page.navigate", json!({"url": format!("file://{}", path.display())}));
        while self.next()["method"] != "Page.loadEventFired" {}
    }

    /// The value of an expression, or what its promise comes to.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until the page has painted what was asked for.
    pub fn frame(&mut self) {
        self.eval(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => \
             done(true))))",
        );
    }

    /// Presses a key, as a person does.
    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({"type": kind, "key": key});
            if kind == "keyDown" && key.chars().count() == 1 {
                params["text"] = key.into();
            }
            self.call("Input.dispatchKeyEvent", params);
        }
        self.frame();
    }

    /// Types a text.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
        self.frame();
    }

    /// Moves, presses or lifts the mouse.
    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let buttons = i32::from(kind != "mouseReleased");
        let params = json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons,
            "clickCount": 1});
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Turns the wheel with Ctrl held; negative is away from oneself.
    pub fn zoom_wheel(&mut self, (x, y): (f64, f64), by: f64) {
        let params = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by,
            "modifiers": 2});
        self.call("Input.dispatchMouseEvent", params);
        self.frame();
    }

    /// Light or dark, as the reader's system says.
    pub fn theme(&mut self, name: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": name}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
        self.frame();
    }

    /// Keeps a picture of the page when `CHART_SCREENSHOTS` names a directory.
    pub fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("CHART_SCREENSHOTS") else { return };
        self.frame();
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let data = answer["data"].as_str().expect("base64");
        let path = Path::new(&directory).join(name);
        let bytes = warren_trace::base64::decode(data).expect("base64");
        std::fs::write(path, bytes).expect("the picture is written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = json!({"id": self.last_id + 1, "method": "Browser.close"});
        // It may have ended already; then there is nobody to tell.
        let told = write!(self.input, "{close}\0").and_then(|()| self.input.flush());
        if told.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
