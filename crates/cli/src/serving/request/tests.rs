use std::net::TcpListener;

use super::*;

struct Fixed;

impl Figures for Fixed {
    fn metrics(&self) -> String {
        "metrics".to_owned()
    }

    fn now(&self) -> Value {
        "status".into()
    }

    fn point(&self) -> Option<Point> {
        None
    }

    fn nonce(&self) -> String {
        "n0nce".to_owned()
    }
}

fn door(has_metrics: bool, has_page: bool, token: Option<&str>) -> Door {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let token = token.map(str::to_owned);
    Door { listener, has_metrics, has_page, token, is_given: false }
}

/// Returns the status and the body of an answer; the status is `events` for a stream.
fn ask(door: &Door, request: &str) -> (String, String) {
    match answer(request.as_bytes(), door, &Fixed) {
        Reply::Events => ("events".to_owned(), String::new()),
        Reply::Whole(text) => {
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            (head[9..12].to_owned(), body.to_owned())
        }
    }
}

#[test]
fn each_path_is_answered_at_its_door() {
    let (metrics, page) = (door(true, false, None), door(false, true, None));
    let host = "Host: 127.0.0.1:9180\r\n\r\n";
    for (path, at_metrics, at_page) in [
        ("GET /metrics HTTP/1.1", "200", "404"),
        ("GET /metrics?x=1 HTTP/1.0", "200", "404"),
        ("HEAD /metrics HTTP/1.1", "200", "404"),
        ("GET / HTTP/1.1", "404", "200"),
        ("GET /?a=b HTTP/1.1", "404", "200"),
        ("GET /events HTTP/1.1", "events", "events"),
        ("HEAD /events HTTP/1.1", "200", "200"),
        ("GET /status HTTP/1.1", "200", "200"),
        ("GET /../etc/passwd HTTP/1.1", "404", "404"),
        ("POST / HTTP/1.1", "405", "405"),
        ("GET /", "400", "400"),
        ("", "400", "400"),
    ] {
        let request = format!("{path}\r\n{host}");
        assert_eq!(ask(&metrics, &request).0, at_metrics, "{path}");
        assert_eq!(ask(&page, &request).0, at_page, "{path}");
    }
    let text = ask(&metrics, "GET /metrics HTTP/1.1\r\n\r\n").1;
    assert_eq!(text, "metrics", "a scraper may call us by any name");
    assert_eq!(ask(&metrics, &format!("HEAD /metrics HTTP/1.1\r\n{host}")).1, "");
}

#[test]
fn a_name_that_may_be_forged_and_a_foreign_page_get_nothing() {
    let page = door(false, true, None);
    for (headers, status) in [
        ("Host: 127.0.0.1:9180", "200"),
        ("host:127.0.0.1", "200"),
        ("HOST: [::1]:9180", "200"),
        ("Host: LocalHost:8000", "200"),
        ("Host: 192.168.1.5:9180", "200"),
        ("Host: evil.example:9180", "421"),
        ("Host: 127.0.0.1.evil.example", "421"),
        ("Host: localhost.evil.example", "421"),
        ("Host: [::1", "421"),
        ("Host:", "421"),
        ("X: y", "421"),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site", "403"),
        ("Host: localhost\r\nSec-Fetch-Site: same-site", "403"),
        ("Host: localhost\r\nSec-Fetch-Site: same-origin", "200"),
        ("Host: localhost\r\nSec-Fetch-Site: none", "200"),
    ] {
        let request = format!("GET /status HTTP/1.1\r\n{headers}\r\n\r\n");
        assert_eq!(ask(&page, &request).0, status, "{headers}");
    }
    // Another site may link here, but cannot read the answer.
    let link = "GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n";
    assert_eq!(ask(&page, link).0, "200");
}

#[test]
fn a_token_is_taken_whole_and_only_there() {
    let page = door(true, true, Some("0123456789abcdef"));
    for (path, status) in [
        ("/?token=0123456789abcdef", "200"),
        ("/?a=b&token=0123456789abcdef&c", "200"),
        ("/events?token=0123456789abcdef", "events"),
        ("/status?token=0123456789abcdef", "200"),
        ("/", "401"),
        ("/?token=", "401"),
        ("/?token=0123456789abcde", "401"),
        ("/?token=0123456789abcdeff", "401"),
        ("/?Token=0123456789abcdef", "401"),
        ("/?xtoken=0123456789abcdef", "401"),
        ("/events", "401"),
        ("/status", "401"),
        ("/metrics", "200"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n");
        assert_eq!(ask(&page, &request).0, status, "{path}");
    }
}

#[test]
fn the_service_gets_metrics_at_its_door_and_nobody_anything_else() {
    let given = Door { is_given: true, ..door(true, false, None) };
    for (path, status) in [
        ("/metrics", "200"),
        ("/status", "404"),
        ("/events", "404"),
        ("/?token=0123456789abcdef", "404"),
    ] {
        for method in ["GET", "HEAD"] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
            assert_eq!(ask(&given, &request).0, status, "{method} {path}");
        }
    }
    let other = ask(&given, "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").1;
    assert_eq!(other, "only /metrics is served here\n");
}

#[test]
fn the_page_runs_its_own_script_and_asks_nobody_else() {
    let page = door(false, true, None);
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let Reply::Whole(text) = answer(request, &page, &Fixed) else { panic!("it is whole") };
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("default-src 'none'; script-src 'nonce-n0nce'; "), "{head}");
    assert!(head.contains("connect-src 'self'") && head.contains("frame-ancestors 'none'"));
    assert!(!head.contains("unsafe"), "{head}");
    assert_eq!(body.matches("nonce=\"n0nce\"").count(), 2, "a script and a style");
    for foreign in ["http://", "https://", "src=", "@import", "url(", "innerHTML", "eval("] {
        let found = body.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(foreign), "{foreign}");
    }
    // The script registers event handlers; there are no attributes like `onclick`.
    let words = body.split(|one: char| one.is_whitespace());
    assert_eq!(words.filter(|word| word.starts_with("on") && word.contains('=')).count(), 0);
}
