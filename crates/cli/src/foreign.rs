//! Escaping of text from outside: names of files, interfaces and logs.
//!
//! Control characters in a name could clear the terminal or forge a line of a report. So all output
//! for people goes through [`harmless`]. A name from outside goes through [`one_line`] before it
//! becomes part of a longer text. Both escape as JSON does, so that escaped JSON keeps its meaning.

use std::borrow::Cow;
use std::path::Path;

/// Escapes all control characters except line feeds and tabs.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter == '\n' || letter == '\t')
}

/// Escapes all control characters, line feeds and tabs included.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Returns a path as one line of text.
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

/// Returns whether a character controls a terminal: control characters and bidirectional marks.
/// Source: Unicode Standard Annex 9, table 4.
fn is_order(letter: char) -> bool {
    let turns = [
        '\u{61c}'..='\u{61c}',
        '\u{200e}'..='\u{200f}',
        '\u{202a}'..='\u{202e}',
        '\u{2066}'..='\u{2069}',
    ];
    letter.is_control() || turns.iter().any(|range| range.contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        let name = "a\x1b[2Jb\n0 unaccounted\u{9b}\u{202e}\té";
        assert_eq!(one_line("\u{61c}"), "\\u061c");
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
