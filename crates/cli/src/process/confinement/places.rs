//! Paths and names that a job opens later, by what its user has written.

use std::path::{Component, Path, PathBuf};

use burstline_share::{folder_to_publish, folders_of_names};
use burstline_sys::calendar::Text;
use burstline_sys::folder;

/// Returns the links in a folder that lead to files; none if it is a file.
pub(super) fn links_in(folder: &Path) -> Vec<PathBuf> {
    let names = folder::names(folder).into_iter().flatten();
    names.map(|name| folder.join(name)).filter(|path| path.is_symlink() && path.is_file()).collect()
}

/// Returns the names of the folders from `steady` down to `folder`.
pub(super) fn folders_below(steady: &Path, folder: &Path) -> Vec<String> {
    let below = folder.strip_prefix(steady).unwrap_or(folder);
    let names = below.components().filter(|one| matches!(one, Component::Normal(_)));
    names.map(|name| name.as_os_str().to_string_lossy().into_owned()).collect()
}

/// If it cannot be created, the publishing code reports the error.
pub(super) fn make_folder_of_names() {
    let _ = folder_to_publish();
}

/// Returns where a name may be published; it can also be a path.
pub(super) fn places_of(name: &str) -> Vec<PathBuf> {
    match name.contains('/') {
        true => vec![name.into()],
        false => folders_of_names().into_iter().map(|folder| folder.join(name)).collect(),
    }
}

/// Returns what the names of all files of an output begin with: numbers, times and extensions
/// follow.
pub(super) fn prefix_of_names(name: &str) -> &str {
    let is_end = |&(at, one): &(usize, char)| one == '%' || one == '.' && at > 0;
    name.char_indices().find(is_end).map_or(name, |(end, _)| &name[..end])
}

/// Returns the characters that the names of an output's files may have because of its name. Some
/// conversions of strftime(3) pad with spaces.
pub(super) fn characters_of_names(path: &str) -> String {
    let pads = Text::in_format(path).any(Text::has_spaces);
    format!("{path}{}", if pads { " " } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_an_output_begin_alike() {
        for (name, prefix) in [
            ("x.pcapng", "x"),
            ("x.pcapng.zst", "x"),
            ("eth%H.pcapng", "eth"),
            ("%H.pcapng", ""),
            (".x.pcapng", ".x"),
            ("x", "x"),
        ] {
            assert_eq!(prefix_of_names(name), prefix, "{name}");
        }
        assert_eq!(characters_of_names("x%k"), "x%k ");
    }
}
