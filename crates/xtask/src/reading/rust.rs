//! A minimal Rust reader: blanks comments and literals, and matches braces.
//!
//! [`code_only`] keeps every byte position and every line break, so that line numbers in its result
//! are line numbers in the file. In its result one can search for words and count braces. It does
//! not expand macros and knows no grammar; the rules need neither.

use std::ops::Range;

/// A function and its length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Line of its `fn`, from 1.
    pub(crate) line: usize,
    /// From the line of `fn` to the line of the closing brace, both counted.
    pub(crate) lines: usize,
}

/// Replaces comments, strings and character literals in `text` by spaces, and keeps the lines.
pub(crate) fn code_only(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        match literal_end(text.as_bytes(), at) {
            Some(end) => {
                let blank = bytes[at..end].iter_mut().filter(|byte| **byte != b'\n');
                blank.for_each(|byte| *byte = b' ');
                at = end;
            }
            None => at += 1,
        }
    }
    // Only whole comments and literals were blanked, so this is still UTF-8.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns each string literal with its start position: without quotes, and on one line where the
/// source breaks it with a backslash. Other escapes are unchanged.
pub(crate) fn strings(text: &str) -> Vec<(usize, String)> {
    let mut strings = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let Some(end) = literal_end(text.as_bytes(), at) else {
            at += 1;
            continue;
        };
        let literal = &text[at..end];
        let begin = literal.find('"').filter(|_| !literal.starts_with(['/', '\'']));
        if let Some(begin) = begin {
            let body = literal[begin + 1..].trim_end_matches('#').trim_end_matches('"');
            let mut parts = body.split("\\\n");
            let first = parts.next().unwrap_or_default().to_owned();
            strings.push((at, parts.fold(first, |whole, part| whole + part.trim_start())));
        }
        at = end;
    }
    strings
}

/// Returns the positions of `word` in `code` without an identifier character on either side.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_identifier) && !after.is_some_and(is_identifier)
    })
}

/// Returns the line, from 1, of the byte position `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the byte ranges of items under `#[cfg(test)]` or `#[cfg(all(test, ...))]`, with
/// attribute.
pub(crate) fn test_spans(code: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (start, found) in code.match_indices("#[cfg(") {
        let condition = &code[start + found.len()..];
        let is_test = condition.starts_with("test)") || condition.starts_with("all(test");
        let is_inside = spans.last().is_some_and(|span| span.contains(&start));
        if is_test && !is_inside {
            spans.push(start..item_end(code, start + found.len()));
        }
    }
    spans
}

/// Returns every function with a body, including nested ones.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    words(code, "fn").filter_map(|at| function_at(code, at)).collect()
}

fn function_at(code: &str, at: usize) -> Option<Function> {
    let rest = code[at + 2..].trim_start();
    let name: String = rest.chars().take_while(|c| is_identifier(*c)).collect();
    if name.is_empty() {
        return None; // a function pointer type
    }
    let end = item_end(code, at);
    if !code[..end].ends_with('}') {
        return None; // declared without a body
    }
    let line = line_of(code, at);
    Some(Function { name, line, lines: line_of(code, end - 1) - line + 1 })
}

/// Returns the end of the item that begins at `from`: past its closing brace or its semicolon.
pub(crate) fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_i32; // of all brackets; an attribute may leave it at -1 or below
    let mut braces = 0_i32;
    for (offset, byte) in code.as_bytes()[from..].iter().enumerate() {
        match byte {
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return from + offset + 1;
                }
            }
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if braces == 0 && depth <= 0 => return from + offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns the end of the comment or literal that begins at `at`, if there is one.
fn literal_end(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let is_fresh = at == 0 || !is_identifier(char::from(text[at - 1]));
    let length = match rest {
        [b'/', b'/', ..] => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_length(rest),
        [b'"', ..] => quoted_length(rest, b'"'),
        [b'b' | b'c', b'r', ..] if is_fresh => 1 + raw_string_length(&rest[1..])?,
        [b'r', ..] if is_fresh => raw_string_length(rest)?,
        [b'\'', b'\\', ..] => quoted_length(rest, b'\''),
        [b'\'', first, ..] => {
            // A lifetime has no closing quote right after its first character.
            let character = utf8_length(*first);
            (rest.get(1 + character) == Some(&b'\'')).then_some(character + 2)?
        }
        _ => return None,
    };
    Some(at + length)
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None; // an identifier, raw or not
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let end = rest[body..].windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |end| body + end + close.len()))
}

fn utf8_length(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squeezed(text: &str) -> String {
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.lines().count(), text.lines().count());
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn blanks_comments_even_nested_ones() {
        assert_eq!(squeezed("a // { \"\nb /* { /* } */ ' */ c"), "a b c");
    }

    #[test]
    fn blanks_every_kind_of_literal() {
        assert_eq!(
            squeezed(r##"f("}\"{", b"{", r#"{"}"#, br"\", '{', '\'', 'ü', b'{') g"##),
            "f( , b , , , , , , b ) g"
        );
    }

    #[test]
    fn leaves_lifetimes_and_raw_identifiers() {
        assert_eq!(squeezed("impl<'a> X<'a> { r#fn }"), "impl<'a> X<'a> { r#fn }");
    }

    #[test]
    fn survives_text_that_stops_early() {
        for text in ["\"abc\\", "/* a /* b", "r#\"x", "'", "'\\", "b", "r", "br"] {
            assert_eq!(code_only(text).len(), text.len());
        }
    }

    #[test]
    fn measures_functions_and_skips_declarations() {
        let code = "fn one() {}\nfn two(x: [u8; 2]) -> u8 {\n  if a {\n  }\n}\nfn three();\n";
        let found: Vec<_> =
            functions(code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("one".to_owned(), 1, 1), ("two".to_owned(), 2, 4)]);
        assert!(functions("type F = fn(u8) -> u8;").is_empty());
    }

    #[test]
    fn finds_the_extent_of_test_items() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n  #[cfg(test)] fn b() {}\n}\nfn c() {}\n";
        let spans = test_spans(code);
        assert_eq!(spans.len(), 1);
        assert_eq!(code[spans[0].end..].trim(), "fn c() {}");
        let file = "#[cfg(test)]\nmod tests;\nfn c() {}";
        assert_eq!(file[test_spans(file)[0].end..].trim(), "fn c() {}");
    }

    #[test]
    fn words_are_whole() {
        let found: Vec<usize> = words("spare_part spare {", "spare").collect();
        assert_eq!(found, [11]);
    }

    #[test]
    fn strings_are_read_whole() {
        let text = "a(\"one \\\n   line\"); // \"no\"\nlet c = '\"'; b(r#\"raw\"#); c(b\"x\")";
        let strings: Vec<_> = strings(text).into_iter().map(|(_, string)| string).collect();
        assert_eq!(strings, ["one line", "raw", "x"]);
    }
}
