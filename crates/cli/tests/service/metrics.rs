//! `--metrics`: what a scraper gets while a job runs, and the effect of misbehaving clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::live::{Live, wait_until};
use crate::support::{Directory, assert_says, run};
use crate::watched::{Watched, scraped};
use burstline_skip::skip;
use burstline_testbed::{Bed, Killed};

fn start(words: &[&str]) -> Watched {
    Watched::start("--metrics", words)
}

fn scrape(job: &Watched) -> String {
    scraped(&job.address)
}

/// Returns the value of a line.
fn value(text: &str, line: &str) -> u64 {
    let found = text.lines().find_map(|other| other.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {line}\n{text}"))
}

const SOURCE: &str = "gen:?rate=20k&pace=yes&flows=4";

#[test]
fn a_scraper_gets_the_counters_of_the_ledger() {
    let job = start(&["capture", SOURCE, "-w", "/dev/null", "--filter", "udp port 9"]);
    let received = format!("burstline_received_packets_total{{source=\"{SOURCE}\",number=\"0\"}} ");
    let filtered = format!(
        "burstline_lost_packets_total{{source=\"{SOURCE}\",number=\"0\",cause=\"filtered\",\
         kind=\"choice\"}} "
    );
    let begun = Instant::now();
    let mut text = scrape(&job);
    while value(&text, &filtered) < 1000 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
        text = scrape(&job);
    }
    assert!(text.contains("\nburstline_started 1.0\n"), "{text}");
    assert!(text.contains("verb=\"capture\""), "{text}");
    let report = job.end();
    assert_eq!(report["total"]["unaccounted"], 0);
    assert!(report["total"]["lost"]["filtered"].as_u64() >= Some(value(&text, &filtered)));
    assert_eq!(value(&text, &received), 0, "the filter takes all");
}

#[test]
fn a_switch_shows_each_port_as_its_ledger_does() {
    let folder = Directory::new("metrics-switch");
    let (from, to) = ("gen:?packets=1000", format!("memif:{}", folder.file("nobody")));
    let job = start(&["switch", "--port", from, "--port", &to]);
    let places = [
        ("received_packets_total{source=\"gen:\",number=\"0\"} ".to_owned(), 1000),
        (format!("delivered_packets_total{{worker=\"> {to}\",number=\"1\"}} "), 0),
        (
            format!(
                "lost_packets_total{{worker=\"> {to}\",number=\"1\",cause=\"link_down\",\
                 kind=\"full\"}} "
            ),
            1000,
        ),
    ];
    let is_so = |text: &str| {
        let is_line =
            |(line, count): &(String, u64)| text.contains(&format!("\nburstline_{line}{count}\n"));
        places.iter().all(is_line)
    };
    wait_until("the ports show what they did", || is_so(&scrape(&job)));
    let report = job.end();
    let row = report["ports"].as_array().unwrap().iter().find(|row| row["port"] == "gen:");
    assert_eq!(row.unwrap()["delivered"], 1000, "{report}");
    let stage = &report["stages"][0];
    assert_eq!((&stage["in"], &stage["lost"]), (&1000.into(), &0.into()), "{report}");
    assert_eq!(report["total"]["lost"]["link_down"], 1000, "{report}");
}

/// In every scrape while packets arrive: offered packets are delivered, lost or in flight.
#[test]
fn nothing_is_unaccounted_for_at_any_moment() {
    let folder = Directory::new("metrics-unaccounted");
    let other = "gen:?rate=30k&pace=yes&flows=7";
    let fast = "gen:?rate=200k&pace=yes&flows=7";
    let file = folder.file("merged.pcapng");
    for words in [
        &["count", SOURCE, other][..],
        &["capture", fast, "-w", "/dev/null", "--filter", "udp"],
        &["capture", SOURCE, other, "-w", "/dev/null"],
        &["merge", SOURCE, other, "-w", &file],
        &["balance", fast, "--workers", "2"],
        &["bounce", fast, "null:"],
    ] {
        let job = start(words);
        wait_until("it runs", || scrape(&job).contains("\nburstline_started 1.0\n"));
        let begun = Instant::now();
        let mut looks = 0;
        while begun.elapsed() < Duration::from_millis(1500) || looks < 20 {
            let text = scrape(&job);
            let sources: Vec<_> = text
                .lines()
                .filter(|line| line.starts_with("burstline_unaccounted_packets{"))
                .collect();
            assert!(!sources.is_empty(), "{text}");
            for source in sources {
                assert!(source.ends_with(" 0.0"), "{words:?}: {source}\n{text}");
            }
            looks += 1;
        }
        let report = job.end();
        assert_eq!(report["total"]["unaccounted"], 0, "{words:?}");
        assert!(report["total"]["offered"].as_u64() > Some(0), "{words:?}: {report}");
    }
}

/// One source has ended and one continues: each reports its own packets, and not the sum.
#[test]
fn each_source_of_a_merge_has_its_own_packets_and_bytes() {
    let folder = Directory::new("metrics-merge");
    let (short, file) = ("gen:?packets=3000&rate=100k&size=imix", folder.file("merged.pcapng"));
    let job = start(&["merge", SOURCE, short, "-w", &file]);
    let line = |family: &str, source: &str, number: usize| {
        format!("burstline_received_{family}_total{{source=\"{source}\",number=\"{number}\"}} ")
    };
    let both = |text: &str, family: &str| {
        [value(text, &line(family, SOURCE, 0)), value(text, &line(family, short, 1))]
    };
    wait_until("all of the short one is there", || {
        let [endless, ended] = both(&scrape(&job), "packets");
        ended == 3000 && endless > 3000
    });
    let text = scrape(&job);
    let (packets, bytes) = (both(&text, "packets"), both(&text, "bytes"));
    let log = value(&text, "burstline_log_packets_total{log=\"0\"} ");
    assert!(packets[0] + packets[1] <= log + 1024, "{packets:?} of {log}");
    let shown = job.status();
    assert_eq!(shown["ports"][1]["bytes"], bytes[1], "{shown}");
    assert!(shown["ports"][0]["bytes"].as_u64() >= Some(bytes[0]), "{shown}");
    let report = job.end();
    let row = |number: usize, field: &str| report["ports"][number][field].as_u64().unwrap();
    assert_eq!((row(1, "delivered"), row(1, "bytes")), (packets[1], bytes[1]), "{report}");
    assert!(row(0, "delivered") >= packets[0] && row(0, "bytes") >= bytes[0], "{report}");
    // All packets of the endless source have one length. A poll may come between the two loads.
    let length = row(0, "bytes") / row(0, "delivered");
    let by_bytes = bytes[0] / length;
    assert!(bytes[0] % length == 0 && by_bytes.abs_diff(packets[0]) <= 1024, "{text}");
}

#[test]
fn what_a_terminal_obeys_in_a_name_is_written_out() {
    let folder = Directory::new("metrics-names");
    let pipe = folder.file("a\u{9b}2J\u{202e}b");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let job = start(&["capture", &pipe, SOURCE, "-w", "/dev/null"]);
    let text = scrape(&job);
    let orders = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(!text.contains(orders), "{text:?}");
    // OpenMetrics has an escape for a backslash, and none for a control character.
    let name = format!("source=\"{}\"", folder.file("a\\\\u009b2J\\\\u202eb"));
    assert!(text.contains(&name), "{name} {text}");
    job.end();
}

/// Nobody reads the output, so the log is full and reports which reader is behind.
#[test]
fn a_full_log_says_that_it_is() {
    let folder = Directory::new("metrics-full");
    let pipe = folder.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let job = start(&["capture", "gen:?flows=4", "-w", &pipe, "--buffer", "2M"]);
    let of_log = |text: &str, what: &str| {
        let line = format!("burstline_log_{what}{{log=\"0\"}} ");
        let found = text.lines().find_map(|other| other.strip_prefix(&line)?.parse::<f64>().ok());
        found.unwrap_or_default()
    };
    let is_full = |text: &str| {
        let pool = of_log(text, "pool_segments");
        pool > 2.0 && of_log(text, "held_segments") + 1.0 >= pool
    };
    wait_until("its log is full", || is_full(&scrape(&job)));
    let text = scrape(&job);
    assert_eq!(of_log(&text, "pool_segments") * of_log(&text, "segment_bytes"), 2097152.0);
    let lag = "burstline_log_own_lag_packets{log=\"0\",seat=\"";
    let lag = text.lines().find_map(|line| line.strip_prefix(lag)?.split(' ').nth(1)).unwrap();
    assert!(lag.parse::<f64>().unwrap() > 1000.0, "{lag}");
    drop(job);
    drop(opened);
}

#[test]
fn a_live_source_says_how_full_its_rings_are() {
    let Some(bed) = Bed::or_skip() else { return };
    let folder = Directory::new("metrics-rings");
    let cases = [
        ("afpacket:v1?blocks=64", &[("rx", "blocks", 64)][..]),
        ("xdp:v1?ring=128&frames=256", &[("rx", "frames", 128), ("fill", "frames", 256)]),
    ];
    for (source, rings) in cases {
        let job = Live::start(&bed, &folder, &format!("count '{source}' --metrics 9100"));
        let scrape = || bed.far.run(|| scraped("127.0.0.1:9100"));
        wait_until("it has looked", || scrape().contains("\nburstline_ring_entries{"));
        let text = scrape();
        for (ring, unit, size) in rings {
            let of_ring = |what: &str| {
                let end = format!("\",number=\"0\",ring=\"{ring}\",unit=\"{unit}\"}} ");
                let lines = text.lines().filter(|line| line.starts_with(what));
                let found = lines.filter_map(|line| line.split_once(&end)).next();
                found.unwrap_or_else(|| panic!("{what} {ring}: {text}")).1.parse::<f64>().unwrap()
            };
            assert_eq!(of_ring("burstline_ring_entries{"), f64::from(*size));
            assert!(of_ring("burstline_ring_filled_entries{") <= f64::from(*size));
        }
        job.stop();
    }
}

#[test]
fn rude_clients_hold_up_nobody() {
    let job = start(&["count", SOURCE]);
    let rude = job.rude_clients("/metrics");
    let begun = Instant::now();
    scrape(&job);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\r\n\r\n", "400"),
    ] {
        let (head, _) = job.ask(request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
    }
    drop(rude);
    let report = job.end();
    assert_eq!(report["total"]["unaccounted"], 0);
}

#[test]
fn an_address_that_cannot_be_had_is_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = run(&["count", "gen:?packets=10", "--metrics", &address]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("--metrics {address}: ")), "{}", refused.stderr);
    assert_says(&["count", "gen:?packets=10", "--metrics", "localhost"], 2, "ADDRESS:PORT");
}

const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/alerts.yml");

/// Prometheus, scraping a job five times a second.
struct Prometheus {
    _child: Killed,
    address: String,
}

impl Prometheus {
    /// Returns `None` if Prometheus is not installed.
    fn start(directory: &Directory, target: &str) -> Option<Self> {
        let (config, data) = (directory.file("prometheus.yml"), directory.file("data"));
        let text = format!(
            "global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\n\
             rule_files: ['{ALERTS}']\n\
             scrape_configs: [{{job_name: x, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        std::fs::write(&config, text).unwrap();
        // A port that is free now.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new("prometheus")
            .arg(format!("--config.file={config}"))
            .arg(format!("--storage.tsdb.path={data}"))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { _child: Killed(child), address })
    }

    /// Returns the answer to a request, or `None` while it does not answer.
    fn get(&self, path: &str) -> Option<serde_json::Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// Returns the first result of a query.
    fn value(&self, query: &str) -> Option<f64> {
        let answer = self.get(&format!("/api/v1/query?query={query}"))?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

/// Percent-encodes a query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn prometheus_scrapes_it_and_takes_the_alert_rules() {
    let directory = Directory::new("prometheus");
    let job = start(&["count", SOURCE]);
    let Some(prometheus) = Prometheus::start(&directory, &job.address) else {
        job.end();
        return skip("prometheus is not installed: scripts/setup metrics");
    };
    let counter = "burstline_received_packets_total";
    let first = || prometheus.value(counter).filter(|packets| *packets > 0.0);
    wait_until("it has scraped", || first().is_some());
    let packets = first().unwrap();
    wait_until("it has scraped again", || first().is_some_and(|later| later > packets));
    // It gives up a scrape after a fifth of a second.
    wait_until("its last scrape went well", || prometheus.value("up") == Some(1.0));
    let rules = prometheus.get("/api/v1/rules").unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() >= 4, "{rules:?}");
    for expression in dashboard() {
        let answer = prometheus.get(&format!("/api/v1/query?query={}", escaped(&expression)));
        assert_eq!(answer.unwrap()["status"], "success", "{expression}");
    }
    wait_until("it has looked at its rules", || {
        let now = prometheus.get("/api/v1/rules").unwrap();
        let now = now["data"]["groups"][0]["rules"].as_array().unwrap().clone();
        now.iter().all(|rule| rule["health"] == "ok")
    });
    job.end();
}

#[test]
fn the_page_has_each_family() {
    let job = start(&["capture", SOURCE, "-w", "/dev/null"]);
    wait_until("it runs", || job.status()["stages"].as_array().unwrap().len() == 2);
    let text = scrape(&job);
    job.end();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for kind in kinds {
        let (name, kind) = kind.split_once(' ').unwrap();
        let ending = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let name = format!("{name}{ending}");
        // Related metrics share a row, which has the first name in full.
        let whole = page.contains(&format!("`{name}`"));
        let ending = ["_bytes_total", "_wire_bytes_total"].iter().find(|end| name.ends_with(*end));
        let in_row = ending.is_some_and(|ending| page.contains(&format!("`{ending}`")));
        assert!(whole || in_row, "docs/metrics.md has no {name}");
    }
}

/// Returns the family of a metric's name in an expression.
fn family(name: &str) -> &str {
    let ends = ["_total", "_bucket", "_info"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// Fails unless the program has each metric that a text names.
fn assert_known(text: &str, asked: &str, least: usize) {
    let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let names = asked.split(|character| !word(character));
    let names: Vec<_> = names.filter(|name| name.starts_with("burstline_")).collect();
    assert!(names.len() >= least, "{names:?}");
    for name in names {
        assert!(text.contains(&format!("# TYPE {} ", family(name))), "{name}");
    }
}

#[test]
fn alert_rules_and_the_dashboard_ask_for_metrics_that_there_are() {
    let job = start(&["count", SOURCE]);
    let text = scrape(&job);
    job.end();
    assert_known(&text, &std::fs::read_to_string(ALERTS).unwrap(), 6);
    for expression in dashboard() {
        assert_known(&text, &expression, 1);
    }
}

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grafana.json");

/// Returns the expressions of the dashboard's panels, with Grafana's variables substituted.
fn dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(DASHBOARD).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let filled = expressions.map(|one| one.replace("$__rate_interval", "2s"));
    let filled: Vec<_> = filled.map(|one| one.replace("$instance", ".*")).collect();
    assert!(filled.len() >= 12 && filled.iter().all(|one| !one.contains('$')));
    filled
}

#[test]
fn threads_logs_and_readers_have_their_lines() {
    let names = crate::support::sharing::Names::new("metrics-names");
    let there = |job: &mut Command| {
        job.env("BURSTLINE_RUN", &names.0.0);
    };
    let words = ["capture", SOURCE, "-w", "/dev/null", "--publish", "tap"];
    let job = Watched::start_at("--metrics", "127.0.0.1:0", &words, there);
    wait_until("it is published", || names.look("tap").is_some());
    let reader = names.start(&["count", "log:tap"]);
    names.wait_for_readers("tap", 1);
    let age = "burstline_packet_age_seconds_count{stage=\"record\",number=";
    let has_aged = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with(age));
        lines.filter_map(|line| line.split(' ').nth(1)).any(|count| count != "0")
    };
    wait_until("packets had an age", || has_aged(&scrape(&job)));
    let offered = format!("burstline_offered_packets_total{{source=\"{SOURCE}\",number=\"0\"}} ");
    let mut text = String::new();
    // A source shows its counters at an interval of its own.
    wait_until("rho and the source's counters are known", || {
        text = scrape(&job);
        text.contains("\nburstline_rho ") && self::value(&text, &offered) > 0
    });
    for line in [
        "burstline_stage_cpu_seconds_total{stage=\"receive\"",
        "burstline_stage_busy_seconds_total{stage=\"record\"",
        "burstline_log_packets_total{log=\"0\"} ",
        "burstline_log_seats_taken{log=\"0\"} 2",
        "burstline_log_fill_ratio ",
        "burstline_readers{name=\"tap\"} 1",
        "burstline_reader_lag_packets{log=\"0\",seat=",
        "burstline_rho ",
    ] {
        assert!(text.lines().any(|other| other.starts_with(line)), "{line}\n{text}");
    }
    // A histogram's buckets are cumulative, up to its count.
    let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let of_record = |line: &&str| line.contains("stage=\"record\"");
    let buckets =
        text.lines().filter(|line| line.starts_with("burstline_packet_age_seconds_bucket"));
    let buckets: Vec<f64> = buckets.filter(of_record).map(value).collect();
    let count = text.lines().find(|line| line.starts_with(age)).map(value);
    assert!(buckets.is_sorted() && buckets.last().copied() == count, "{buckets:?} {count:?}");
    let offered = self::value(&text, &offered);
    let report = job.end();
    let last = report["ports"][0]["offered"].as_u64().unwrap();
    assert!((1..=last).contains(&offered), "{offered} by the page, then {last} by the report");
    drop(reader);
}
