//! The output of `query`: a table with bars, comma-separated values, or JSON.
//!
//! A record's content is not trusted, so each cell goes through [`one_line`]: no name can control a
//! terminal or forge a row.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::foreign::one_line;
use crate::words::{count_text, counted_text, time_text};

/// Maximum width of a table cell and of a bar, in characters.
const CELL_MOST: usize = 60;
const BAR_MOST: usize = 30;

/// Returns a cell as text with control characters escaped.
fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => one_line(text),
        other => Cow::Owned(one_line(&other.to_string()).into_owned()),
    }
}

/// Returns a cell for people: digits in groups, times as dates.
fn cell(name: &str, value: &Value) -> String {
    let is_number = |name: &str| !name.ends_with("port") && name != "ports" || name == "records";
    let mut text = match value {
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(ns), _) if name.ends_with("_ns") && ns > 1 << 50 => time_text(ns),
            (Some(count), _) if is_number(name) => count_text(count),
            (None, Some(real)) if number.is_f64() => format!("{real:.3}"),
            _ => number.to_string(),
        },
        other => text_of(other).into_owned(),
    };
    if text.chars().count() > CELL_MOST {
        text = text.chars().take(CELL_MOST - 1).chain(['…']).collect();
    }
    text
}

/// Returns a table. `more`: number of rows left out. `chart`: the column shown as bars.
pub(crate) fn table(
    columns: &[String],
    types: &[String],
    rows: &[Vec<Value>],
    more: u64,
    chart: Option<usize>,
) -> String {
    let head = columns.iter().map(|name| one_line(name).into_owned()).collect::<Vec<_>>();
    let is_text = |number: usize| types.get(number).is_none_or(|kind| kind == "VARCHAR");
    let of_row = |row: &Vec<Value>| {
        columns.iter().zip(row).map(|(name, value)| cell(name, value)).collect::<Vec<_>>()
    };
    let cells: Vec<Vec<String>> = rows.iter().map(of_row).collect();
    let length = |text: &String| text.chars().count();
    let width = |number: usize| {
        let of_rows = cells.iter().filter_map(|row| row.get(number)).map(length);
        of_rows.chain([length(&head[number])]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &[String]| {
        let padded = row.iter().zip(&widths).enumerate().map(|(number, (cell, &width))| {
            match is_text(number) {
                true => format!("{cell:width$}"),
                false => format!("{cell:>width$}"),
            }
        });
        padded.collect::<Vec<_>>().join("  ")
    };
    let value =
        |row: &Vec<Value>| chart.and_then(|number| row.get(number)?.as_f64()).unwrap_or(0.0);
    let most = rows.iter().map(value).fold(0.0, f64::max);
    let mut text = format!("{}\n", line(&head).trim_end());
    for (row, cells) in rows.iter().zip(&cells) {
        let bar = if chart.is_some() { bar(value(row), most) } else { String::new() };
        text += line(cells).trim_end();
        text += if bar.is_empty() { "" } else { "  " };
        text += &bar;
        text += "\n";
    }
    if more > 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "and {} more: --limit", counted_text(more, "row"));
    }
    text
}

/// Returns a bar, in eighths of a character.
fn bar(value: f64, most: f64) -> String {
    if value <= 0.0 || most <= 0.0 {
        return String::new();
    }
    let eighths = (value / most * (8 * BAR_MOST) as f64).round().max(1.0) as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

/// Returns the header line. Source: RFC 4180, except for the line ending.
pub(crate) fn csv_head(columns: &[String]) -> String {
    csv_line(columns.iter().map(|name| one_line(name)))
}

/// Returns a line of values.
pub(crate) fn csv_row(row: &[Value]) -> String {
    csv_line(row.iter().map(text_of))
}

fn csv_line<'a>(cells: impl Iterator<Item = Cow<'a, str>>) -> String {
    let quoted = cells.map(|cell| match cell.contains([',', '"']) {
        true => Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\""))),
        false => cell,
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

/// Returns the JSON object.
pub(crate) fn object(columns: &[String], types: &[String], rows: Vec<Vec<Value>>) -> String {
    let object = json!({
        "command": "query",
        "columns": columns,
        "types": types,
        "rows": rows,
        "success": true,
    });
    format!("{object}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_make_no_rows_and_no_cells() {
        let columns = ["sensor".to_owned(), "bytes".to_owned()];
        let types = ["VARCHAR".to_owned(), "BIGINT".to_owned()];
        let rows =
            vec![vec![json!("a\u{1b}[2J\nb"), json!(1_234_567)], vec![json!("c,\"d\""), json!(5)]];
        let text = table(&columns, &types, &rows, 2, Some(1));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0], "sensor                 bytes");
        assert!(lines[1].starts_with("a\\u001b[2J\\u000ab  1,234,567  █"), "{text}");
        assert!(lines[2].ends_with("5  ▏"), "{text}");
        assert_eq!(lines[3], "and 2 rows more: --limit");
        let text = table(&columns, &types, &rows, 1, None);
        assert!(text.ends_with("\nand 1 row more: --limit\n"), "{text}");
        assert_eq!(csv_row(&rows[0]), "a\\u001b[2J\\u000ab,1234567\n");
        assert_eq!(csv_row(&rows[1]), "\"c,\"\"d\"\"\",5\n");
    }
}
