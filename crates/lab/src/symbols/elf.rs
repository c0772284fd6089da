//! Reads the functions of a program file by offset.

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// Functions, ordered by their first bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Functions(Vec<Function>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    end: u64,
    name: String,
}

impl Functions {
    /// Returns the name of the function at this place.
    pub(super) fn name(&self, place: u64) -> Option<&str> {
        let behind = self.0.partition_point(|function| function.start <= place);
        let function = self.0[..behind].last()?;
        (place < function.end).then_some(&function.name)
    }

    /// Reads the functions of a program file. Empty if the file is not ELF or is truncated.
    pub(super) fn of_file(file: &[u8]) -> Self {
        let mut found = Self(read(file).unwrap_or_default());
        found.0.sort_by_key(|function| function.start);
        found
    }

    /// Reads /proc/kallsyms: address, type and name of functions, each of which ends at the next.
    pub(super) fn of_kernel(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = words.next()?.eq_ignore_ascii_case("t");
            is_code.then(|| (start, words.next().unwrap_or_default().to_owned()))
        };
        let mut starts: Vec<(u64, String)> = text.lines().filter_map(line).collect();
        // Without permission all addresses are 0.
        starts.retain(|(start, _)| *start != 0);
        starts.sort();
        let ends: Vec<u64> = starts.iter().skip(1).map(|(start, _)| *start).collect();
        let ends = ends.into_iter().chain([u64::MAX]);
        let functions = starts.into_iter().zip(ends);
        Self(functions.map(|((start, name), end)| Function { start, end, name }).collect())
    }
}

/// A loaded segment: its address, its offset in the file, and its bytes there.
struct Loaded {
    address: u64,
    offset: u64,
    length: u64,
}

fn read(file: &[u8]) -> object::Result<Vec<Function>> {
    let file = object::File::parse(file)?;
    let segments = file.segments().map(|segment| {
        let (offset, length) = segment.file_range();
        Loaded { address: segment.address(), offset, length }
    });
    let segments: Vec<Loaded> = segments.collect();
    let function = |symbol: object::Symbol<'_, '_>| {
        let (address, bytes) = (symbol.address(), symbol.size());
        if symbol.kind() != SymbolKind::Text || bytes == 0 {
            return None;
        }
        let place = segments.iter().find_map(|loaded| {
            let into = address.checked_sub(loaded.address).filter(|into| *into < loaded.length)?;
            loaded.offset.checked_add(into)
        })?;
        let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
        Some(Function { start: place, end: place.checked_add(bytes)?, name: readable(&name) })
    };
    Ok(file.symbols().chain(file.dynamic_symbols()).filter_map(function).collect())
}

/// Demangles a Rust name: parts preceded by their lengths, a hash at the end. Keeps other names.
/// Source: rustc's legacy mangling, `_ZN` length part ... `17h` hash `E`.
fn readable(name: &str) -> String {
    parts(name).unwrap_or_else(|| name.to_owned())
}

fn parts(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_ZN")?;
    let mut parts: Vec<&str> = Vec::new();
    while !rest.starts_with('E') {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (length, from) = (rest[..digits].parse::<usize>().ok()?, &rest[digits..]);
        parts.push(from.get(..length)?);
        rest = from.get(length..)?;
    }
    if parts.last().is_some_and(|part| part.len() == 17 && part.starts_with('h')) {
        parts.pop();
    }
    let marks = [("_$LT$", "<"), ("$LT$", "<"), ("$GT$", ">"), ("$u20$", " "), ("$RF$", "&")];
    let text = parts.join("::");
    Some(marks.iter().fold(text, |text, (mark, by)| text.replace(mark, by)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_places_and_gaps_have_none() {
        let function = |start, end, name: &str| Function { start, end, name: name.to_owned() };
        let functions = Functions(vec![function(10, 20, "a"), function(30, 40, "b")]);
        let names = [9, 10, 19, 20, 35, 40].map(|place| functions.name(place));
        assert_eq!(names, [None, Some("a"), Some("a"), None, Some("b"), None]);
    }

    #[test]
    fn nothing_that_is_no_program_has_functions() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let whole = Functions::of_file(&program);
        assert!(whole.0.len() > 100, "{}", whole.0.len());
        for cut in [0, 5, 6, 63, 64, 100, 1000, program.len() / 2, program.len() - 1] {
            let cut = Functions::of_file(&program[..cut]);
            assert!(cut.0.len() <= whole.0.len());
        }
        let mut wrong = program;
        wrong[32..64].fill(0xff);
        assert_eq!(Functions::of_file(&wrong), Functions::default());
    }

    #[test]
    fn rust_names_are_readable_and_others_stay() {
        let name = "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE";
        assert_eq!(readable(name), "core::fmt::Formatter::pad");
        assert_eq!(readable("_ZN23_$LT$A$u20$as$u20$B$GT$1fE"), "<A as B>::f");
        for other in ["main", "_ZN99xE", "_ZN3abc", "_ZNxE"] {
            assert_eq!(readable(other), other);
        }
    }

    #[test]
    fn the_kernels_functions_go_on_to_the_next() {
        let text = "ffff0010 T b\nffff0000 t a\nffff0008 D data\n0 T hidden\n";
        let kernel = Functions::of_kernel(text);
        let names = [0xffff_0000, 0xffff_000f, 0xffff_0011].map(|place| kernel.name(place));
        assert_eq!(names, [Some("a"), Some("a"), Some("b")]);
    }
}
