//! Chromium, driven by the DevTools protocol over two pipes, without a port or a library.
//!
//! Messages are JSON, each terminated by a 0. The shell puts our two pipes where Chromium expects
//! them: descriptors 3 and 4.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Directory;

const CHROMIUM: &str = "chromium";

/// Timeout for any page action.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    number: u64,
    /// The page's error messages, except those about failed downloads.
    pub(crate) complaints: Vec<String>,
    _profile: Directory,
}

/// Size and colour scheme of the page.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
}

impl Browser {
    /// Returns `None` if Chromium is not installed.
    pub(crate) fn start() -> Option<Self> {
        let version = Command::new(CHROMIUM)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.ok().filter(std::process::ExitStatus::success)?;
        let profile = Directory::new("browser");
        let flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
            --disable-background-networking --disable-component-update --disable-sync \
            --disable-dev-shm-usage --hide-scrollbars --no-proxy-server --remote-debugging-pipe";
        let line = format!(
            "exec {CHROMIUM} {flags} --user-data-dir={} about:blank 3<&0 4>&1 >/dev/null 2>&1",
            profile.0.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (from, session, complaints) = (BufReader::new(from), String::new(), Vec::new());
        let mut browser =
            Self { child, to, from, session, number: 0, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = target["targetId"].as_str().unwrap().to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method, and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut message = json!({ "id": number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        write!(self.to, "{message}\0").unwrap();
        self.to.flush().unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "{method}: the browser has gone");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            self.hear(&answer);
            if answer["id"] == number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn hear(&mut self, event: &Value) {
        let entry = &event["params"]["entry"];
        let is_error = entry["level"] == "error" && entry["source"] != "network";
        if event["method"] == "Runtime.exceptionThrown" || is_error {
            self.complaints.push(event["params"].to_string());
        }
    }

    /// Opens a page.
    pub(crate) fn open(&mut self, address: &str, look: Look) {
        self.look(look);
        self.call("Page.navigate", json!({ "url": address }));
    }

    /// Changes the size and the colour scheme.
    pub(crate) fn look(&mut self, look: Look) {
        let Look { width, height, is_dark } = look;
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": media }));
    }

    /// Evaluates an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Returns the text of an element.
    pub(crate) fn text(&mut self, id: &str) -> String {
        let text = self.value(&format!("document.getElementById('{id}')?.innerText ?? ''"));
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != true {
            if begun.elapsed() > PATIENCE {
                let page = self.value("document.body.innerText");
                panic!("not within {PATIENCE:?}: {expression}\n{page}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str, text: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let mut parameters = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if kind == "keyDown" && !text.is_empty() {
                parameters["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", parameters);
        }
    }

    /// Returns the accessibility tree: role and name of each node.
    pub(crate) fn read_aloud(&mut self) -> Vec<String> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let nodes = nodes.filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes.map(|node| format!("{}: {}", text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Returns a screenshot, as PNG in base64.
    pub(crate) fn picture(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        picture["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended.
        let _ = write!(self.to, "{}\0", json!({ "id": 0, "method": "Browser.close" }));
        let _ = self.to.flush();
        let begun = Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if begun.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
