//! Programs as numbers in text form.
//!
//! | printed by | looks like |
//! |---|---|
//! | `tcpdump -ddd` | `2`, then a line each: `40 0 0 12`, `6 0 0 65535` |
//! | `bpfc -f tcpdump` | the same without the count |
//! | `bpfc -f xt_bpf`, `nfbpf_compile` | `2,40 0 0 12,6 0 0 65535,` |
//! | `tcpdump -dd`, `bpfc` | a line each: `{ 0x28, 0, 0, 0x0000000c },` |
//!
//! Source: tcpdump(1), bpfc(8), iptables-extensions(8) under `bpf`.

use std::fmt;

use super::{FilterError, Instruction, Program};

/// Characters of invalid text that an error quotes.
const QUOTED: usize = 40;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.instructions().len())?;
        for Instruction { code, jt, jf, k } in self.instructions() {
            write!(f, "\n{code} {jt} {jf} {k}")?;
        }
        Ok(())
    }
}

/// Reads instructions, and the leading count if there is one.
pub(super) fn parse(text: &str) -> Result<Vec<Instruction>, FilterError> {
    let is_braced = text.contains('{');
    let between: &[char] = if is_braced { &['}'] } else { &['\n', ','] };
    let is_blank = |c: char| c.is_whitespace() || (is_braced && c == ',');
    let mut records =
        text.split(between).map(|r| r.trim_matches(is_blank)).filter(|r| !r.is_empty()).peekable();
    let stated = records.next_if(|record| !is_braced && !record.contains(is_blank));
    let instruction = |(at, record): (usize, &str)| {
        let inside = if is_braced { record.strip_prefix('{') } else { Some(record) };
        inside
            .and_then(|inside| parse_instruction(inside, is_blank))
            .ok_or_else(|| wrong(at, record))
    };
    let instructions = records.enumerate().map(instruction).collect::<Result<Vec<_>, _>>()?;
    let Some(stated) = stated else {
        return Ok(instructions);
    };
    match stated.parse() {
        Ok(count) if count == instructions.len() as u64 => Ok(instructions),
        Ok(stated) => Err(FilterError::Count { stated, found: instructions.len() }),
        Err(_) => Err(wrong(0, stated)),
    }
}

fn parse_instruction(text: &str, is_blank: impl Fn(char) -> bool) -> Option<Instruction> {
    let mut numbers = text.split(is_blank).filter(|word| !word.is_empty()).map(number);
    let mut next = || numbers.next().flatten();
    let (code, jt, jf, k) = (next()?, next()?, next()?, next()?);
    if numbers.next().is_some() {
        return None;
    }
    let (code, jt, jf) = (code.try_into().ok()?, jt.try_into().ok()?, jf.try_into().ok()?);
    Some(Instruction { code, jt, jf, k })
}

fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn wrong(at: usize, text: &str) -> FilterError {
    FilterError::Text { at, text: text.chars().take(QUOTED).collect() }
}
