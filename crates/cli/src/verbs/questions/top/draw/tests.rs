use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::board::Series;
use super::super::source::News;
use super::*;

/// Returns a job's state after `seconds` at 1000 packets per second.
fn state(seconds: u64) -> Value {
    let packets = seconds * 1000;
    json!({
        "command": "capture", "state": "running", "elapsed_s": seconds, "sink": "x.pcapng",
        "ports": [{"port": "eth0", "number": 0, "offered": packets + 7, "delivered": packets,
            "bytes": packets * 60, "lost": {"rx_ring_full": 5, "filtered": 2}, "in_flight": 0}],
        "workers": [{"worker": "0", "number": 0, "delivered": packets, "bytes": packets * 60,
            "lost": {}, "file": "x.pcapng"}],
        "total": {"delivered": packets, "wire_bytes": packets * 60, "missing": 5,
            "lost": {"rx_ring_full": 5, "filtered": 2}},
        "stages": [{"name": "record", "cpu_percent": 1.0, "cpu_s": seconds as f64 / 4.0,
            "sleeps": 3, "age_s": 0.0001}],
        "placement": {"threads": [{"stage": "record", "core": 3, "node": 0}]},
        "logs": [{"packets": packets, "segments": 9, "log_bytes": 67108864, "seats_taken": 2}],
        "log_percent": 12.34,
        "published": {"name": "tap", "readers": [{"command": "count\u{1b}[2J", "pid": 42,
            "log": 0, "policy": "lossy", "delivered": 900, "missed": 100, "lag": 11,
            "held_segments": 1, "window": 2, "there": true, "demoted": false}]},
    })
}

fn series(seconds: &[u64]) -> Series {
    let mut series = Series::new("127.0.0.1:1".to_owned());
    let begun = Instant::now();
    for &second in seconds {
        series.hear_at(News::State(state(second)), begun + Duration::from_secs(second));
    }
    series
}

/// Returns the lines that a terminal of this size shows.
fn shown(series: &Series, columns: u16, rows: u16, sight: &Sight) -> Vec<String> {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
    let board = series.board();
    let _ = terminal.draw(|frame| draw(frame, &board, sight));
    let buffer = terminal.backend().buffer();
    let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..rows).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn a_job_has_its_state_rates_losses_and_readers() {
    let lines = shown(&series(&[1, 2]), 100, 40, &Sight::default());
    let has =
        |wanted: &str| assert!(lines.iter().any(|line| line == wanted), "{wanted}\n{lines:#?}");
    assert_eq!(lines[0], "burstline capture to x.pcapng");
    assert_eq!(lines[1], "running for 2 s");
    assert_eq!(lines[2], "1.00 kpps, 480.00 kbit/s; 2,000 packets delivered, 5 lost");
    has("rx_ring_full        5");
    has("eth0    2,007      2,000  1.00 kpps  120.00 kB     7          0");
    has("0           2,000  1.00 kpps  120.00 kB     0  x.pcapng");
    has("Logs, published as tap");
    has("0      2,000  1.00 kpps         9  64 MiB  12.3 %            2");
    has("record     3     0  25.0 %       3        0.100 ms");
    // An untrusted name must not move the cursor.
    has("count\\u001b[2J (42)    0  lossy    900     100      11         1 of 2");
    assert_eq!(lines[39], KEYS);
}

#[test]
fn a_small_terminal_is_scrolled_and_the_smallest_shows_something() {
    let small = shown(&series(&[1, 2]), 30, 8, &Sight::default());
    assert_eq!(small[0], "burstline capture to x.pcapng");
    assert_eq!(small[4], "Losses by cause");
    let sight = Sight { row: 6, column: 8, ..Sight::default() };
    let scrolled = shown(&series(&[1, 2]), 30, 8, &sight);
    assert_eq!(scrolled[4], "fered  delivered   a second", "{scrolled:?}");
    for (columns, rows) in [(1, 1), (2, 3), (200, 2), (3, 100), (1000, 300)] {
        for has_help in [false, true] {
            let sight = Sight { has_help, row: u16::MAX, column: 9999, ..Sight::default() };
            assert_eq!(shown(&series(&[1, 2]), columns, rows, &sight).len(), usize::from(rows));
        }
    }
}

#[test]
fn the_end_the_failure_and_the_lost_connection_are_told_apart() {
    let head = |series: &Series| shown(series, 100, 40, &Sight::default())[1].clone();
    let mut job = series(&[1, 2]);
    job.hear(News::Lost("127.0.0.1:1: gone".to_owned()));
    assert_eq!(head(&job), "connection lost, the figures are old: 127.0.0.1:1: gone");
    job.hear(News::State(state(3)));
    assert_eq!(head(&job), "running for 3 s");
    let mut end = state(4);
    end["state"] = "ended".into();
    end["outcome"] = json!({"success": true, "faults": [], "lost": 5});
    end["total"]["unaccounted"] = 0.into();
    job.hear(News::End(end.clone()));
    assert_eq!(head(&job), "the job has ended: 5 packets lost, 0 unaccounted");
    let lines = shown(&job, 100, 40, &Sight::default());
    assert!(lines[2].starts_with("1.00 kpps on average; 4,000 packets delivered"), "{lines:?}");
    end["state"] = "failed".into();
    end["errors"] = json!(["write x: No space left"]);
    end["outcome"]["faults"] = json!(["error", "loss"]);
    job.hear(News::End(end));
    let failed = "the job has failed: write x: No space left; loss; 5 packets lost, 0 unaccounted";
    assert_eq!(head(&job), failed);
    let mut nobody = Series::new("127.0.0.1:1".to_owned());
    assert_eq!(head(&nobody), "connecting");
    nobody.hear(News::Lost("no job answers".to_owned()));
    assert_eq!(head(&nobody), "no job answers");
}

#[test]
fn what_a_peer_makes_up_is_no_panic() {
    for text in [
        "{}",
        "[]",
        "null",
        "7",
        "{\"total\": 3, \"ports\": {}, \"logs\": [1, null, []]}",
        "{\"names\": [1, {}, {\"logs\": 5, \"readers\": [{}]}]}",
        "{\"state\": \"ended\", \"errors\": 1, \"outcome\": {\"lost\": -1, \"faults\": [[]]}}",
        "{\"total\": {\"delivered\": 1e300}, \"elapsed_s\": -5, \"stages\": [{\"age_s\": \"x\"}]}",
        "{\"logs\": [{\"log_bytes\": 18446744073709551615}], \"log_percent\": 1e308}",
        "{\"names\": [{\"logs\": [{\"segments\": 18446744073709551615, \
          \"segment_bytes\": 18446744073709551615}]}]}",
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        let mut series = series(&[1]);
        for news in [News::State, News::Past, News::State, News::End] {
            series.hear(news(value.clone()));
            shown(&series, 80, 30, &Sight::default());
        }
    }
}

#[test]
fn text_is_the_same_without_keys_and_as_long_as_it_is() {
    let text = text(&series(&[1, 2]).board(), 100);
    assert!(text.starts_with("burstline capture to x.pcapng\nrunning for 2 s\n"), "{text}");
    assert!(text.contains("record     3     0") && !text.contains(KEYS), "{text}");
    assert!(text.ends_with("ms\n"), "{text:?}");
}

#[test]
fn words_for_colors_are_left_out_where_none_are_wished() {
    let board = series(&[1, 2]).board();
    for has_colors in [true, false] {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(100, 40));
        let sight = Sight { has_colors, ..Sight::default() };
        let _ = terminal.draw(|frame| draw(frame, &board, &sight));
        let cells = terminal.backend().buffer().content.iter();
        let colored = cells.filter(|cell| cell.fg != Color::Reset).count();
        assert_eq!(colored > 0, has_colors);
    }
}
