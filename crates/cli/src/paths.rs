//! Paths: of files, as addresses, and of this program.

use std::env;
use std::path::PathBuf;

use burstline_port::{Address, AddressError};
use clap::ValueEnum;

use crate::args::{FormatArgs, NOTHING};

/// This program's file, even if another file has replaced it since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Returns this program's real path if it still exists, so that tools show its name.
pub(crate) fn own_program() -> PathBuf {
    let path = env::current_exe().ok().filter(|path| path.is_file());
    path.unwrap_or_else(|| OWN_PROGRAM.into())
}

/// Returns the path of `file:PATH`, or the text if it is a path.
pub(crate) fn unschemed(text: &str) -> &str {
    text.strip_prefix("file:").unwrap_or(text)
}

/// Returns the address of a file, escaping special characters in its path.
pub(crate) fn file_address(path: &str) -> String {
    let mut address = String::from("file:");
    for character in path.chars() {
        match character {
            '%' => address += "%25",
            '?' => address += "%3F",
            _ => address.push(character),
        }
    }
    address
}

/// Returns the address of the file at `path`.
pub(crate) fn address_of(path: &str, format: FormatArgs) -> Result<Address, AddressError> {
    if path == NOTHING {
        return path.parse();
    }
    let (name, way) = (format.format.as_ref(), format.compress.as_ref());
    let keys = [("format", name.map(word)), ("compress", way.map(word))];
    let keys = keys.into_iter().filter_map(|(key, word)| Some(format!("{key}={}", word?)));
    let address = match keys.collect::<Vec<_>>().join("&") {
        keys if keys.is_empty() => file_address(path),
        keys => format!("{}?{keys}", file_address(path)),
    };
    address.parse()
}

/// Returns a value as it is typed on the command line.
fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
