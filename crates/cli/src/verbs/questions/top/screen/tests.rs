use std::env;
use std::process::Command;
use std::time::Instant;

use burstline_testbed::Terminal as Pty;

use super::*;

/// The child of the test below: this program again, in a terminal.
#[test]
#[ignore = "run by a_panic_gives_the_terminal_back, in a terminal"]
fn panics_on_its_screen() {
    if env::var_os("BURSTLINE_TEST_PANIC").is_none() {
        return;
    }
    let _screen = Screen::open().unwrap();
    panic!("on purpose");
}

#[test]
fn a_panic_gives_the_terminal_back() {
    let own = env::current_exe().unwrap();
    let name = "verbs::questions::top::screen::tests::panics_on_its_screen";
    let arguments = ["--exact", name, "--ignored", "--nocapture"];
    let says = |command: &mut Command| {
        command.env("BURSTLINE_TEST_PANIC", "yes");
    };
    let mut pty = Pty::start(own.to_str().unwrap(), &arguments, 80, 24, says).unwrap();
    let status = pty.wait(Duration::from_secs(60)).unwrap();
    assert!(!status.success());
    assert!(pty.is_sane().unwrap());
    // Its output may be read some time after its end.
    let begun = Instant::now();
    let parts = ["\u{1b}[?1049l", "\u{1b}[?25h", "on purpose"];
    while !parts.iter().all(|part| pty.shown().contains(part)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", pty.shown());
        thread::sleep(Duration::from_millis(10));
    }
    let shown = pty.shown();
    let (left, message) = (shown.rfind("\u{1b}[?1049l"), shown.find("on purpose"));
    assert!(shown.contains("\u{1b}[?1049h"), "it was on the other screen: {shown:?}");
    assert!(left.is_some() && message.is_some(), "{shown:?}");
    let first_left = shown.find("\u{1b}[?1049l");
    assert!(first_left < message, "the message is on the usual screen: {shown:?}");
    assert!(shown.contains("\u{1b}[?25h"), "the cursor is there again: {shown:?}");
}

#[test]
fn keys_scroll_help_pause_and_end() {
    let mut sight = Sight::default();
    let press = |code, sight: &mut Sight| obey(KeyEvent::from(code), sight, 10);
    for (code, row, column) in [
        (KeyCode::Down, 1, 0),
        (KeyCode::PageDown, 11, 0),
        (KeyCode::Up, 10, 0),
        (KeyCode::Right, 10, 8),
        (KeyCode::PageUp, 0, 8),
        (KeyCode::Up, 0, 8),
        (KeyCode::Left, 0, 0),
        (KeyCode::Down, 1, 0),
        (KeyCode::Home, 0, 0),
    ] {
        assert!(press(code, &mut sight));
        assert_eq!((sight.row, sight.column), (row, column), "{code:?}");
    }
    assert!(press(KeyCode::Char('?'), &mut sight) && sight.has_help);
    assert!(press(KeyCode::Esc, &mut sight) && !sight.has_help, "it takes the words away");
    assert!(press(KeyCode::Char('p'), &mut sight) && sight.is_paused);
    assert!(!press(KeyCode::Esc, &mut sight) && !press(KeyCode::Char('q'), &mut sight));
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(!obey(control, &mut sight, 10) && press(KeyCode::Char('c'), &mut sight));
}
