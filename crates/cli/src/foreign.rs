//! Text that others made: names of files, interfaces and logs.
//!
//! A terminal obeys some characters: a name could clear the screen, or write a line of a report. So
//! everything printed for people goes through [`harmless`]. A name from elsewhere goes through
//! [`one_line`] before it gets into a text of several lines. Both write such a character as JSON
//! does, so that JSON that goes through them still says the same.

use std::borrow::Cow;
use std::path::Path;

/// The text with nothing in it that a terminal obeys, but for ends of lines and tabs.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter == '\n' || letter == '\t')
}

/// The same without ends of lines.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// A path, in one line.
pub(crate) fn path_text(path: &Path) -> String {
    one_line(&path.to_string_lossy()).into_owned()
}

fn escaped(text: &str, is_fine: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_obeyed = |letter: char| is_order(letter) && !is_fine(letter);
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match is_obeyed(letter) {
            true => safe += &format!("\\u{:04x}", u32::from(letter)),
            false => safe.push(letter),
        }
    }
    Cow::Owned(safe)
}

/// Whether a terminal obeys a character: controls, and those that turn the direction of text.
/// Source: Unicode Standard Annex 9, table 4.
fn is_order(letter: char) -> bool {
    let turns = ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    letter.is_control() || turns.iter().any(|range| range.contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        let name = "a\x1b[2Jb\n0 unaccounted\u{9b}\u{202e}\té";
        assert_eq!(harmless(name), "a\\u001b[2Jb\n0 unaccounted\\u009b\\u202e\té");
        assert_eq!(one_line(name), "a\\u001b[2Jb\\u000a0 unaccounted\\u009b\\u202e\\u0009é");
        assert!(matches!(one_line("eth0"), Cow::Borrowed("eth0")));
    }

    #[test]
    fn json_says_the_same_as_before() {
        let value = serde_json::json!({ "name": "x\u{9b}31m\n" });
        let printed = value.to_string();
        let read: serde_json::Value = serde_json::from_str(&harmless(&printed)).unwrap();
        assert_eq!(read, value);
    }
}
