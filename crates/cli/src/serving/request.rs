//! Parses an HTTP request and answers it.
//!
//! ```text
//!   request line, headers ──► which page? ──► host, site, token: may this caller? ──► Reply
//! ```
//!
//! Invariants:
//! - Q1: a browser gets an answer only if `Host` is an address or this machine's own name. A
//!   foreign name that DNS points here is refused (rebinding), so no foreign page can read it.
//! - Q2: if a token is set, every answer with the job's figures except `/metrics` requires it.
//!
//! Sources: RFC 9110, RFC 9112; Server-sent events: HTML Standard, section 9.2; Fetch Metadata.

use std::net::IpAddr;

use burstline_sys::temporary::random_name;
use serde_json::Value;

use super::{Door, Point};

/// Content type of OpenMetrics 1.0.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page: one file, with a placeholder for the nonce of its script and style.
const PAGE: &str = include_str!("page.html");

/// The reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// This text; then the connection is closed.
    Whole(String),
    /// A stream of events.
    Events,
}

/// The data that answers are made of.
pub(crate) trait Figures {
    /// Returns all metrics.
    fn metrics(&self) -> String;

    /// Returns the state as JSON.
    fn now(&self) -> Value;

    /// Returns a data point, if the subject has a past.
    fn point(&self) -> Option<Point>;

    /// Returns a value that no outsider can guess.
    fn nonce(&self) -> String {
        random_name("") + &random_name("")
    }
}

/// The fields of a request's line and headers that are used.
struct Head<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    host: Option<&'a str>,
    /// `Sec-Fetch-Site`: the browser's statement of where the request comes from.
    site: Option<&'a str>,
}

impl<'a> Head<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        words.next().filter(|version| version.starts_with("HTTP/1."))?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (mut host, mut site) = (None, None);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.to_ascii_lowercase().as_str() {
                "host" => host = Some(value.trim()),
                "sec-fetch-site" => site = Some(value.trim()),
                _ => {}
            }
        }
        Some(Self { method, path, query, host, site })
    }

    fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    fn plain(&self, status: &str, body: &str) -> Reply {
        Reply::Whole(response(status, "text/plain; charset=utf-8", body, "", self.is_head()))
    }

    /// Returns whether the request's `Host` can only mean this machine.
    fn is_for_us(&self) -> bool {
        let Some(host) = self.host else { return false };
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, _)) => name,
            None => host.split(':').next().unwrap_or(""),
        };
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    }

    /// Returns whether the request carries the wanted token.
    fn has_token(&self, wanted: Option<&str>) -> bool {
        let Some(wanted) = wanted else { return true };
        let given = self.query.split('&').find_map(|pair| pair.strip_prefix("token="));
        given.is_some_and(|given| is_same(given.as_bytes(), wanted.as_bytes()))
    }

    /// Returns the refusal if the caller may not see figures.
    fn refusal(&self, door: &Door) -> Option<Reply> {
        if !self.is_for_us() {
            let what =
                "name this machine by its address, or localhost: other names may be forged\n";
            return Some(self.plain("421 Misdirected Request", what));
        }
        let is_foreign = self.site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
        if is_foreign && self.path != "/" {
            return Some(
                self.plain("403 Forbidden", "refused: the request is from another site's page\n"),
            );
        }
        if !self.has_token(door.token.as_deref()) {
            let what = "this address requires a token: /?token=... as printed, or from its file\n";
            return Some(self.plain("401 Unauthorized", what));
        }
        None
    }
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differing == 0
}

/// Returns the reply to a complete request at a listener.
pub(super) fn answer(request: &[u8], door: &Door, figures: &impl Figures) -> Reply {
    let text = String::from_utf8_lossy(request);
    let Some(head) = Head::read(&text) else {
        let body = "expected an HTTP/1.1 request\n";
        return Reply::Whole(response("400 Bad Request", "text/plain", body, "", false));
    };
    if !matches!(head.method, "GET" | "HEAD") {
        return head.plain("405 Method Not Allowed", "only GET and HEAD\n");
    }
    let whole = |kind, body: &str, more: &str| {
        Reply::Whole(response("200 OK", kind, body, more, head.is_head()))
    };
    let refusal = || head.refusal(door);
    match head.path {
        "/metrics" if door.has_metrics => whole(OPENMETRICS, &figures.metrics(), ""),
        // The service asks for nothing else, and anyone who finds the port has no token.
        _ if door.is_given => head.plain("404 Not Found", door.paths()),
        "/status" => refusal().unwrap_or_else(|| whole(JSON, &format!("{}\n", figures.now()), "")),
        "/" if door.has_page => refusal().unwrap_or_else(|| {
            let nonce = figures.nonce();
            whole("text/html; charset=utf-8", &PAGE.replace("{NONCE}", &nonce), &policy(&nonce))
        }),
        "/events" if head.is_head() => {
            refusal().unwrap_or_else(|| whole("text/event-stream", "", ""))
        }
        "/events" => refusal().unwrap_or(Reply::Events),
        _ => head.plain("404 Not Found", door.paths()),
    }
}

const JSON: &str = "application/json";

/// Returns the policy of the page: only its own script and style, and requests only to its origin.
fn policy(nonce: &str) -> String {
    format!(
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; style-src \
         'nonce-{nonce}'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'\r\n"
    )
}

fn response(status: &str, kind: &str, body: &str, more: &str, is_head: bool) -> String {
    let length = body.len();
    let body = if is_head { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}{COMMON}\
         \r\n{body}"
    )
}

/// Headers of all answers.
const COMMON: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Connection: close\r\n";

/// Returns the head of an event stream.
pub(super) fn events_head() -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{COMMON}\r\nretry: 1000\n\n")
}

/// Returns the answer to a request that is too long.
pub(super) fn too_long() -> String {
    let status = "431 Request Header Fields Too Large";
    response(status, "text/plain", "the request is too long\n", "", false)
}

/// Returns the answer when the maximum number of streams is open.
pub(super) fn too_many(most: usize) -> String {
    let body = format!("{most} pages are open, which is the maximum\n");
    response("503 Service Unavailable", "text/plain", &body, "Retry-After: 10\r\n", false)
}

#[cfg(test)]
mod tests;
