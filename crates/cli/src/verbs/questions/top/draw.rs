//! Draws a board on a terminal of any size, or as text.
//!
//! ```text
//!   title, state            always
//!   rate over time          if there is one, and room
//!   tables                  scrolled by rows and columns
//!   keys                    the last row
//! ```

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Sparkline, Wrap};

use super::board::{Board, Cell, Mood, Table};

/// The user's view of a board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Rows and columns scrolled away.
    pub(super) row: u16,
    pub(super) column: u16,
    pub(super) has_help: bool,
    pub(super) is_paused: bool,
    pub(super) has_colors: bool,
}

const KEYS: &str = "q quits  arrows scroll  p pauses  ? keys";

const HELP: &str = "\
q, Esc, Ctrl-C   quits
up, down         scrolls by a row
Page Up, Down    scrolls by half a screen
left, right      scrolls by columns
Home             back to the first row and column
p                pauses the figures, and resumes
?                shows and hides this help

Nothing here changes anything in a job.";

/// Height of the graph of the rate.
const PICTURE: u16 = 3;

/// Returns the number of rows that the tables take.
pub(super) fn rows(board: &Board) -> u16 {
    u16::try_from(lines(board, false).len()).unwrap_or(u16::MAX)
}

/// Draws a frame.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, sight: &Sight) {
    let has_picture = !board.rates.is_empty() && frame.area().height >= 12;
    let picture = if has_picture { PICTURE } else { 0 };
    let head = 2 + u16::from(!board.sum.is_empty());
    let heights = [
        Constraint::Length(head),
        Constraint::Length(picture),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [top, middle, body, bottom] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines(board, sight)), top);
    if has_picture {
        let width = usize::from(middle.width);
        let from = board.rates.len().saturating_sub(width);
        let line = Sparkline::default().data(&board.rates[from..]);
        frame.render_widget(line.style(colored(sight.has_colors, Color::Cyan)), middle);
    }
    let text = lines(board, sight.has_colors);
    frame.render_widget(Paragraph::new(text).scroll((sight.row, sight.column)), body);
    let keys = if sight.is_paused { format!("paused  {KEYS}") } else { KEYS.to_owned() };
    frame.render_widget(Line::styled(keys, Modifier::DIM), bottom);
    if sight.has_help {
        help(frame);
    }
}

fn help(frame: &mut Frame<'_>) {
    let whole = frame.area();
    let height = whole.height.min(HELP.lines().count() as u16);
    let width = whole.width.min(64);
    let (x, y) = ((whole.width - width) / 2, (whole.height - height) / 2);
    let area = Rect { x, y, width, height };
    frame.render_widget(Clear, area);
    let text = Paragraph::new(HELP).wrap(Wrap { trim: false });
    frame.render_widget(text.style(Modifier::REVERSED), area);
}

fn colored(has_colors: bool, color: Color) -> Style {
    if has_colors { Style::new().fg(color) } else { Style::new() }
}

fn head_lines(board: &Board, sight: &Sight) -> Vec<Line<'static>> {
    let color = match board.mood {
        Mood::Waiting => Color::Yellow,
        Mood::Good => Color::Green,
        Mood::Bad => Color::Red,
    };
    let state = colored(sight.has_colors, color).add_modifier(Modifier::BOLD);
    let mut lines = vec![
        Line::styled(board.title.clone(), Modifier::BOLD),
        Line::styled(board.state.clone(), state),
    ];
    if !board.sum.is_empty() {
        lines.push(Line::raw(board.sum.clone()));
    }
    lines
}

/// Returns the lines of all tables.
fn lines(board: &Board, has_colors: bool) -> Vec<Line<'static>> {
    board.tables.iter().flat_map(|table| table_lines(table, has_colors)).collect()
}

fn table_lines(table: &Table, has_colors: bool) -> Vec<Line<'static>> {
    let widths: Vec<usize> = (0..table.columns.len()).map(|column| width(table, column)).collect();
    let mut lines = vec![Line::raw(""), Line::styled(table.title.clone(), Modifier::BOLD)];
    let heads: Vec<Cell> = table.columns.iter().map(|name| Cell::of(name.trim_end())).collect();
    lines.push(row(table, &heads, &widths, has_colors).style(Modifier::DIM));
    lines.extend(table.rows.iter().map(|cells| row(table, cells, &widths, has_colors)));
    lines
}

fn letters(text: &str) -> usize {
    Span::raw(text).width()
}

/// Returns the width of a column's widest cell, up to a limit.
fn width(table: &Table, column: usize) -> usize {
    let cells = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| letters(&cell.text));
    let head = table.columns[column].trim_end();
    cells.chain([letters(head)]).max().unwrap_or(0).min(60)
}

fn row(table: &Table, cells: &[Cell], widths: &[usize], has_colors: bool) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let space = " ".repeat(width.saturating_sub(letters(&cell.text)));
        let is_text = number == 0 || table.columns[number].ends_with(' ');
        let text = match is_text {
            true => format!("{}{space}", cell.text),
            false => format!("{space}{}", cell.text),
        };
        let style = match cell.is_bad {
            true => colored(has_colors, Color::Red).add_modifier(Modifier::BOLD),
            false => Style::new(),
        };
        spans.push(Span::styled(text, style));
        spans.push(Span::raw("  "));
    }
    Line::from(spans)
}

/// Returns a board as text without the keys, with lines of at most `columns` characters.
pub(super) fn text(board: &Board, columns: u16) -> String {
    let height = rows(board).saturating_add(PICTURE + 4);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, height));
    // The terminal is in memory, so drawing cannot fail.
    let _ = terminal.draw(|frame| draw(frame, board, &Sight::default()));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    // The last row has the keys.
    for y in 0..height - 1 {
        let line: String = (0..columns).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests;
