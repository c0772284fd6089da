//! Finds every `unsafe` block outside of tests, with the place of its first expression.

use std::fmt;

use crate::rust;
use crate::tree::{TextFile, Tree};

/// An `unsafe` block. Prints as `path:line function`.
pub(super) struct Block {
    /// Path from the root of the repository.
    pub(super) path: String,
    /// Line of its `unsafe`, from 1.
    pub(super) line: usize,
    /// The innermost function around it; empty in a constant and in a macro outside of functions.
    pub(super) function: String,
    /// Line and column, from 1, of what comes first inside its braces.
    pub(super) first: (usize, usize),
    /// Line and column of its closing brace.
    pub(super) end: (usize, usize),
}

impl Block {
    /// Returns the name by which the page excuses blocks: `PATH::FUNCTION`.
    pub(super) fn place(&self) -> String {
        format!("{}::{}", self.path, self.function)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{} {}", self.path, self.line, self.function)
    }
}

/// Returns the blocks of all crates, in git's order of files.
pub(super) fn of(tree: &Tree) -> Vec<Block> {
    let is_ours = |file: &&TextFile| file.crate_folder().is_some() && !file.is_test();
    tree.rust_files().filter(is_ours).flat_map(of_file).collect()
}

fn of_file(file: &TextFile) -> Vec<Block> {
    let code = rust::code_only(&file.text);
    let (tests, functions) = (rust::test_spans(&code), rust::functions(&code));
    let mut blocks = Vec::new();
    for at in rust::words(&code, "unsafe").filter(|at| !tests.iter().any(|t| t.contains(at))) {
        let inside = at + "unsafe".len();
        let Some(body) = code[inside..].trim_start().strip_prefix('{') else { continue };
        let first = code.len() - body.trim_start().len();
        let end = rust::item_end(&code, at) - 1;
        let line = rust::line_of(&code, at);
        let around = functions.iter().filter(|f| (f.line..f.line + f.lines).contains(&line));
        let function = around.max_by_key(|f| f.line).map_or("", |f| &f.name);
        blocks.push(Block {
            path: file.path.clone(),
            line,
            function: function.to_owned(),
            first: place(&code, first),
            end: place(&code, end),
        });
    }
    blocks
}

/// Returns the line and the column, from 1, of the byte position `at`.
fn place(code: &str, at: usize) -> (usize, usize) {
    let start = code[..at].rfind('\n').map_or(0, |end| end + 1);
    (rust::line_of(code, at), at - start + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_with_their_function_and_extent() {
        let text = "fn a() {\n    // SAFETY: unsafe {\n    let x = unsafe { f() };\n}\n\
                    unsafe fn b() {}\nunsafe impl Send for A {}\n\
                    const C: u8 = unsafe {\n    g()\n};\n\
                    #[cfg(test)]\nmod tests {\n    fn t() { unsafe { f() } }\n}\n";
        let tree = Tree::of(&[("crates/log/src/a.rs", text), ("crates/log/tests/b.rs", text)]);
        let found: Vec<_> = of(&tree).iter().map(|b| (b.place(), b.line, b.first, b.end)).collect();
        let path = "crates/log/src/a.rs";
        assert_eq!(found[0], (format!("{path}::a"), 3, (3, 22), (3, 26)));
        assert_eq!(found[1], (format!("{path}::"), 7, (8, 5), (9, 1)));
        assert_eq!(found.len(), 2);
    }
}
