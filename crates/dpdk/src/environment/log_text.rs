//! DPDK's log messages, as the text of an error.

use std::io;

use crate::ffi;

/// Maximum of characters of DPDK's log in an error.
const MOST: usize = 400;

/// Discards the log so far.
pub(crate) fn forget() {
    taken();
}

/// Returns the log since the last call; if it is empty, the text of `code`, a negative errno.
pub(crate) fn reason(code: i32) -> String {
    match one_line(&taken()) {
        said if said.is_empty() => io::Error::from_raw_os_error(-code).to_string(),
        said => said,
    }
}

fn taken() -> String {
    let mut text = vec![0; 8192];
    // SAFETY: the shim writes at most as many bytes as the given length.
    let length = unsafe { ffi::shim_log_take(text.as_mut_ptr(), text.len()) };
    text.truncate(length);
    String::from_utf8_lossy(&text).into_owned()
}

/// Joins the distinct, non-empty lines into one.
fn one_line(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    // Drop EAL's usage text: the error comes before it.
    let text = text.split("\nUsage: ").next().unwrap_or(text);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !lines.iter().any(|known| known.ends_with(line) || line.ends_with(known)) {
            lines.push(line);
        }
    }
    let line = lines.join("; ");
    let mut line: String = line.chars().filter(|c| !c.is_control()).collect();
    if let Some((end, _)) = line.char_indices().nth(MOST) {
        line.truncate(end);
        line.push_str("...");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn lines_become_one_and_repetitions_none() {
        let said =
            "EAL: Cannot init memory\nEAL: Cannot init memory\n\n EAL: why\tnot \n\nUsage: x";
        assert_eq!(one_line(said), "EAL: Cannot init memory; EAL: whynot");
        assert_eq!(one_line("\n \n"), "");
        assert_eq!(one_line(&"x".repeat(1000)).len(), 403);
    }
}
