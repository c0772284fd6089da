//! Parses licence expressions: `OR`, `AND`, `WITH` and parentheses.
//!
//! `/` is read as `OR`, as crates.io once did. Source: SPDX specification 2.3, annex D.

/// Returns whether a package under `expression` may be used, given `is_allowed` for licences.
///
/// `A WITH B` is looked up as the single text `"A WITH B"`.
///
/// # Errors
/// The expression is malformed; the text says where.
pub(crate) fn is_satisfied(
    expression: &str,
    is_allowed: &dyn Fn(&str) -> bool,
) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, is_allowed };
    let result = parser.alternatives()?;
    match parser.peek() {
        None => Ok(result),
        Some(word) => Err(format!("`{word}` is not expected in `{expression}`")),
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn alternatives(&mut self) -> Result<bool, String> {
        let mut result = self.conjunction()?;
        while self.take("OR") {
            result |= self.conjunction()?;
        }
        Ok(result)
    }

    fn conjunction(&mut self) -> Result<bool, String> {
        let mut result = self.licence()?;
        while self.take("AND") {
            result &= self.licence()?;
        }
        Ok(result)
    }

    fn licence(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let result = self.alternatives()?;
            return if self.take(")") { Ok(result) } else { Err("`)` is missing".to_owned()) };
        }
        let name = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok((self.is_allowed)(&format!("{name} WITH {exception}")));
        }
        Ok((self.is_allowed)(&name))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(word) if !["OR", "AND", "WITH", "(", ")"].contains(&word) => {
                self.at += 1;
                Ok(word.to_owned())
            }
            other => Err(format!("expected a licence, not `{}`", other.unwrap_or("end"))),
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.at += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mit_and_zlib(expression: &str) -> Result<bool, String> {
        is_satisfied(expression, &|name| name == "MIT" || name == "Zlib")
    }

    #[test]
    fn or_needs_one_and_needs_both() {
        for accepted in
            ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "MIT AND Zlib", "(A OR MIT) AND Zlib"]
        {
            assert_eq!(mit_and_zlib(accepted), Ok(true), "{accepted}");
        }
        for refused in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR A) AND B", "A OR B AND MIT"] {
            assert_eq!(mit_and_zlib(refused), Ok(false), "{refused}");
        }
    }

    #[test]
    fn an_exception_is_part_of_the_name() {
        assert_eq!(mit_and_zlib("MIT WITH X"), Ok(false));
        assert_eq!(is_satisfied("A WITH X", &|name| name == "A WITH X"), Ok(true));
    }

    #[test]
    fn what_is_not_an_expression_is_an_error() {
        for broken in ["", "MIT OR", "(MIT", "MIT)", "MIT Zlib", "AND MIT", "MIT WITH"] {
            assert!(mit_and_zlib(broken).is_err(), "{broken}");
        }
    }
}
