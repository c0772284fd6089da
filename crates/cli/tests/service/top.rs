//! `burstline top` in a pseudo-terminal, and without one.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::emulator::screen;
use crate::support::live::wait_until;
use crate::support::sharing::Names;
use crate::support::{PROGRAM, assert_says, hangup, run, run_with_code};
use crate::watched::Watched;
use burstline_testbed::{Terminal, signal};

const SOURCE: &str = "gen:?rate=20k&pace=yes&flows=4";

/// Timeout for the end of the program.
const SOON: Duration = Duration::from_secs(20);

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;

fn start(arguments: &[&str]) -> Terminal {
    Terminal::start(PROGRAM, arguments, COLUMNS, ROWS, |_| {}).unwrap()
}

/// Returns whether the terminal shows this text.
fn shows(terminal: &Terminal, what: &str) -> bool {
    let lines = screen(&terminal.shown(), usize::from(COLUMNS), usize::from(ROWS));
    lines.iter().any(|line| line.contains(what))
}

/// Waits until the terminal shows this text.
fn wait_for(terminal: &Terminal, what: &str) {
    wait_until(what, || shows(terminal, what));
}

/// Fails unless the terminal is sane, and back from the alternate screen.
fn assert_given_back(terminal: &Terminal) {
    assert!(terminal.is_sane().unwrap(), "{:?}", terminal.shown());
    wait_until("it is given back", || {
        let shown = terminal.shown();
        let (entered, left) = (shown.rfind("\u{1b}[?1049h"), shown.rfind("\u{1b}[?1049l"));
        let has_cursor = shown.rfind("\u{1b}[?25l") < shown.rfind("\u{1b}[?25h");
        entered.is_some() && entered < left && has_cursor
    });
}

/// Ends the program by this key.
fn quit(terminal: &mut Terminal, key: &str) {
    terminal.press(key).unwrap();
    assert!(terminal.wait(SOON).unwrap().success());
    assert_given_back(terminal);
}

#[test]
fn a_server_that_says_nothing_or_never_ends_its_head_is_left() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut endless, _) = server.accept().unwrap();
        let _ = endless.write_all(b"HTTP/1.1 200 OK\r\n");
        while endless.write_all(b"X: y\r\n").is_ok() {}
        let _silent = server.accept();
        thread::park();
    });
    for said in ["this is not a burstline job", "no data for 5s"] {
        assert_says(&["top", &address, "--once"], 1, said);
    }
}

#[test]
fn a_job_is_watched_to_its_end_and_q_gives_the_terminal_back() {
    for flag in ["--web", "--metrics"] {
        let job = Watched::start(flag, &["count", SOURCE]);
        // The name is looked up without rights.
        let address = job.address.replace("127.0.0.1", "localhost");
        let mut terminal = start(&["top", &address]);
        wait_for(&terminal, "burstline count");
        wait_for(&terminal, "running for");
        wait_for(&terminal, SOURCE);
        assert!(!terminal.is_sane().unwrap(), "it is ours");
        terminal.press("?").unwrap();
        let help = "Nothing here changes anything";
        wait_for(&terminal, help);
        terminal.press("?").unwrap();
        // While the help closes, parts of the title are drawn. Only once it is gone does the resize
        // draw the whole title in one piece.
        wait_until("the help is closed", || !shows(&terminal, help));
        let before = terminal.shown().len();
        terminal.resize(60, 12).unwrap();
        wait_until("it is drawn anew", || terminal.shown()[before..].contains("burstline count"));
        let report = job.end();
        assert_eq!(report["total"]["unaccounted"], 0);
        wait_for(&terminal, "the job has ended: no packets lost, 0 unaccounted");
        quit(&mut terminal, "q");
    }
}

#[test]
fn a_signal_and_control_c_give_the_terminal_back() {
    let job = Watched::start("--web", &["count", SOURCE]);
    let hangup = hangup();
    for name in ["-TERM", "-INT"].into_iter().chain(hangup) {
        let mut terminal = start(&["top", &job.address]);
        wait_for(&terminal, "running for");
        signal(terminal.process_id(), name).unwrap();
        terminal.wait(SOON).unwrap();
        assert_given_back(&terminal);
    }
    let mut terminal = start(&["top", &job.address]);
    wait_for(&terminal, "running for");
    quit(&mut terminal, "\u{3}");
    job.end();
}

#[test]
fn a_job_that_is_killed_is_said_to_be_gone() {
    let mut job = Watched::start("--web", &["count", SOURCE]);
    let mut terminal = start(&["top", &job.address]);
    wait_for(&terminal, "running for");
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    wait_for(&terminal, "connection lost, the figures are old");
    wait_for(&terminal, "no job answers here");
    quit(&mut terminal, "q");
}

#[test]
fn published_logs_are_watched_with_their_readers() {
    let names = Names::new("top-names");
    let publisher = names.start(&["count", SOURCE, "--publish", "tap"]);
    wait_until("it is published", || names.look("tap").is_some());
    let reader = names.start(&["count", "log:tap"]);
    names.wait_for_readers("tap", 1);
    let once = names.run(&["top"]);
    assert_eq!(once.code, Some(0), "{}", once.stderr);
    assert!(once.stdout.contains("published logs\n1 name\n"), "{}", once.stdout);
    assert!(once.stdout.contains("\ntap: process "), "{}", once.stdout);
    assert!(once.stdout.contains("Readers of tap\nreader"), "{}", once.stdout);
    let there = |command: &mut Command| {
        command.env("BURSTLINE_RUN", &names.0.0);
    };
    let arguments = ["top", "--interval", "100ms"];
    let mut terminal = Terminal::start(PROGRAM, &arguments, COLUMNS, ROWS, there).unwrap();
    wait_for(&terminal, "Readers of tap");
    wait_for(&terminal, "kpps");
    quit(&mut terminal, "q");
    drop((reader, publisher));
}

/// Whoever closes the window, or loses the connection, leaves nothing behind that spins.
#[test]
fn a_terminal_that_is_closed_ends_it() {
    let job = Watched::start("--web", &["count", SOURCE]);
    for arguments in [&["top", &job.address][..], &["top"]] {
        let mut terminal = start(arguments);
        wait_for(&terminal, if arguments.len() == 1 { "published logs" } else { "running for" });
        terminal.hang_up();
        terminal.wait(Duration::from_secs(20)).unwrap();
    }
    job.end();
}

/// Whether a text sets a colour: `ESC [ ... m` with 30 to 37, 90 to 97, 38, or a background's.
fn has_colors(text: &str) -> bool {
    let sequences = text.split("\u{1b}[").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ';')?;
        rest[end..].starts_with('m').then(|| &rest[..end])
    });
    let is_color = |number: u32| matches!(number, 30..=38 | 40..=48 | 90..=97 | 100..=107);
    let mut numbers = sequences.flat_map(|sequence| sequence.split(';'));
    numbers.any(|number| number.parse().is_ok_and(is_color))
}

#[test]
fn a_terminal_has_colors_and_no_color_takes_them_away() {
    assert!(has_colors("\u{1b}[1;31mx") && !has_colors("\u{1b}[1mx\u{1b}[31;4H"));
    let job = Watched::start("--web", &["count", SOURCE]);
    for (value, expected) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let setting = |command: &mut Command| {
            command.env_remove("NO_COLOR");
            if let Some(value) = value {
                command.env("NO_COLOR", value);
            }
        };
        let arguments = ["top", &job.address];
        let mut terminal = Terminal::start(PROGRAM, &arguments, COLUMNS, ROWS, setting).unwrap();
        wait_for(&terminal, "Threads");
        quit(&mut terminal, "q");
        assert_eq!(has_colors(&terminal.shown()), expected, "{value:?}: {:?}", terminal.shown());
    }
    let piped = run(&["top", &job.address, "--once"]);
    assert!(piped.code == Some(0) && !piped.stdout.contains('\u{1b}'), "{}", piped.stdout);
    job.end();
}

#[test]
fn one_frame_is_text_and_bad_words_are_one_line() {
    let job = Watched::start("--web", &["count", SOURCE]);
    wait_until("it runs", || job.status()["state"] == "running");
    let once = run_with_code(&["top", &job.address, "--once"], 0);
    assert!(once.stdout.starts_with("burstline count\nrunning for "), "{}", once.stdout);
    assert!(once.stdout.contains("\nThreads\n") && !once.stdout.contains('\u{1b}'));
    let address = job.address.clone();
    job.end();
    let gone = run(&["top", &address]);
    assert_eq!((gone.code, gone.stderr.lines().count()), (Some(1), 1), "{}", gone.stderr);
    assert!(gone.stderr.contains("start one with --web or --metrics"), "{}", gone.stderr);
    let wrong = run(&["top", "tap"]);
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (Some(2), 1), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("HOST:PORT"), "{}", wrong.stderr);
}
