//! The terminal in `top`: raw mode and alternate screen, restored when the program ends.
//!
//! Invariant T1: each end of the program restores the terminal, except SIGKILL and a second signal.
//! After a user's key, an error or the first signal a drop does it; after a panic its hook, before
//! the message is printed. The second signal has an effect only if the terminal holds up a drawing,
//! and then it takes no more. If the terminal is gone, there is nothing to restore, and the program
//! ends at once.

use std::fs::File;
use std::io::{self, IsTerminal, Stdout, stdout};
use std::os::fd::AsFd;
use std::panic;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use burstline_sys::readiness;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use signal_hook::low_level;

use super::board::Series;
use super::draw::{self, Sight};
use super::source::Source;
use crate::failure::{FAILED, Failure};
use crate::signals;

/// Maximum delay for a key, an update or a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Number of updates that may wait to be drawn.
const NEWS_MOST: usize = 4;

/// A terminal in raw mode.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            give_back();
            usual(what);
        }));
        enable_raw_mode()?;
        let opened = execute!(stdout(), EnterAlternateScreen, Hide).and_then(|()| fitting());
        // From here on a drop restores the terminal.
        opened.map(Self).inspect_err(|_| give_back())
    }

    /// Adapts to a new terminal size.
    fn fit(&mut self) -> io::Result<()> {
        self.0 = fitting()?;
        Ok(())
    }
}

/// Returns an empty terminal of the current size. The size is fixed because an auto-sizing viewport
/// queries the cursor position, and not every terminal answers.
fn fitting() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let (columns, rows) = size()?;
    execute!(stdout(), Clear(ClearType::All))?;
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
    Terminal::with_options(CrosstermBackend::new(stdout()), TerminalOptions { viewport })
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. A terminal that is gone returns errors, which are ignored.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// Shows updates of a source until the user or a signal ends the program.
pub(super) fn watch(source: Source, mut series: Series, every: Duration) -> Result<(), Failure> {
    let stop = signals::stop_flag(true)?;
    let (tell, news) = mpsc::sync_channel(NEWS_MOST);
    let follow = move || source.follow(&tell, every);
    let started = thread::Builder::new().name("follow".to_owned()).spawn(follow);
    // The thread ends when the receiver is dropped, or with the process: it holds no resources.
    started.map_err(|error| Failure::new(format!("start the thread `follow`: {error}")))?;
    let failed = |error: io::Error| Failure::new(format!("the terminal: {error}"));
    end_with_terminal().map_err(failed)?;
    let mut screen = Screen::open().map_err(failed)?;
    let mut sight = Sight { has_colors: has_colors(), ..Sight::default() };
    let mut board = series.board();
    let mut is_drawn = false;
    // A request only; it carries no memory.
    while !stop.load(Relaxed) {
        let before = series.heard();
        news.try_iter().for_each(|one| series.hear(one));
        if !sight.is_paused && series.heard() != before {
            (board, is_drawn) = (series.board(), false);
        }
        if !is_drawn {
            sight.row = sight.row.min(draw::rows(&board).saturating_sub(1));
            screen.0.draw(|frame| draw::draw(frame, &board, &sight)).map_err(failed)?;
            is_drawn = true;
        }
        while event::poll(if is_drawn { LOOK } else { Duration::ZERO }).map_err(failed)? {
            is_drawn = false;
            match event::read().map_err(failed)? {
                Event::Key(key) if !obey(key, &mut sight, size().map_err(failed)?.1 / 2) => {
                    return Ok(());
                }
                Event::Resize(..) => screen.fit().map_err(failed)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Ends the program when its terminal is closed: crossterm reads its end again and again, and does
/// not return.
fn end_with_terminal() -> io::Result<()> {
    let keys = match io::stdin().is_terminal() {
        true => io::stdin().as_fd().try_clone_to_owned()?,
        false => File::open("/dev/tty")?.into(),
    };
    let wait = move || {
        if readiness::wait_for_end(keys.as_fd()).is_ok() {
            low_level::exit(FAILED.into());
        }
    };
    thread::Builder::new().name("terminal".to_owned()).spawn(wait).map(drop)
}

fn has_colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Handles a key. Returns false if the key ends the program.
fn obey(key: KeyEvent, sight: &mut Sight, page: u16) -> bool {
    if key.kind == KeyEventKind::Release {
        return true;
    }
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if has_control => return false,
        KeyCode::Char('q') => return false,
        KeyCode::Esc if sight.has_help => sight.has_help = false,
        KeyCode::Esc => return false,
        KeyCode::Char('?') => sight.has_help = !sight.has_help,
        KeyCode::Char('p') => sight.is_paused = !sight.is_paused,
        KeyCode::Up => sight.row = sight.row.saturating_sub(1),
        KeyCode::Down => sight.row = sight.row.saturating_add(1),
        KeyCode::PageUp => sight.row = sight.row.saturating_sub(page),
        KeyCode::PageDown => sight.row = sight.row.saturating_add(page),
        KeyCode::Left => sight.column = sight.column.saturating_sub(8),
        KeyCode::Right => sight.column = (sight.column + 8).min(400),
        KeyCode::Home => (sight.row, sight.column) = (0, 0),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests;
