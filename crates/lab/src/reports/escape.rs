//! Escapes a record's text for its destination: HTML and SVG, Markdown, CSV, a script block.
//!
//! A record may come from an untrusted source. All its text that reaches a page is escaped here.

/// Escapes text for HTML and SVG, inside elements and double-quoted attributes.
///
/// Control characters, characters that change the text direction, and characters that are invalid
/// in XML become U+FFFD.
pub(super) fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(printable(letter)),
        }
    }
    safe
}

/// Escapes JSON for a `<script type="application/json">`; it remains the same JSON.
///
/// In JSON a `<` occurs only in strings, where it can be escaped. Without a `<`, JSON cannot
/// contain the end of the script block or the start of a comment.
pub(super) fn json_block(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Escapes text for a cell or line of Markdown: no markup, no HTML, no end of the cell.
pub(super) fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                safe.push('\\');
                safe.push(letter);
            }
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            '\n' | '\r' | '\t' => safe.push(' '),
            _ => safe.push(printable(letter)),
        }
    }
    safe
}

/// Escapes a field of CSV, with quotes if necessary. Source: RFC 4180, section 2.
///
/// A text that a spreadsheet would read as a formula gets an apostrophe in front.
pub(super) fn csv(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let mut field = String::from(if is_formula { "'" } else { "" });
    field.push_str(text);
    if !field.contains([',', '"', '\n', '\r']) {
        return field;
    }
    format!("\"{}\"", field.replace('"', "\"\""))
}

fn printable(letter: char) -> char {
    let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_control = letter.is_control() && !matches!(letter, '\n' | '\t');
    let is_none = matches!(letter, '\u{fffe}' | '\u{ffff}');
    if turns || is_control || is_none { '\u{fffd}' } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_survives() {
        assert_eq!(html("<b a='x' c=\"y\">&"), "&lt;b a=&#39;x&#39; c=&quot;y&quot;&gt;&amp;");
        assert_eq!(html("a\u{0}b\u{202e}c\n"), "a\u{fffd}b\u{fffd}c\n");
        assert_eq!(markdown("a|b `c` <i>\n*d*"), "a\\|b \\`c\\` &lt;i> \\*d\\*");
    }

    #[test]
    fn json_stays_the_same_json() {
        let json = r#"{"a":"</script><!-- <b>"}"#;
        let block = json_block(json);
        assert!(!block.contains('<'), "{block}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(json), read(&block));
    }

    #[test]
    fn fields_are_quoted_where_needed_and_formulas_are_text() {
        assert_eq!(csv("plain"), "plain");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("=1+1"), "'=1+1");
        assert_eq!(csv("two\nlines"), "\"two\nlines\"");
    }
}
