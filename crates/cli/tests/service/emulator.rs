//! A minimal terminal emulator: executes the control sequences that `top` uses.
//!
//! Sources: ECMA-48 CUP, ED, EL, SGR; other sequences are skipped.

/// Returns the lines of a screen of this size after `output`.
pub(crate) fn screen(output: &str, columns: usize, rows: usize) -> Vec<String> {
    let mut cells = vec![vec![' '; columns]; rows];
    let (mut row, mut column) = (0, 0);
    let mut letters = output.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' if letters.peek() == Some(&'[') => {
                letters.next();
                let mut parameters = String::new();
                let order = loop {
                    match letters.next() {
                        Some(one @ ('@'..='~')) => break one,
                        Some(one) => parameters.push(one),
                        None => break ' ',
                    }
                };
                let number =
                    |at| parameters.split(';').nth(at).and_then(|one| one.parse::<usize>().ok());
                match order {
                    'H' => {
                        row = number(0).unwrap_or(1).saturating_sub(1);
                        column = number(1).unwrap_or(1).saturating_sub(1);
                    }
                    'J' => cells.iter_mut().for_each(|line| line.fill(' ')),
                    'K' => {
                        if let Some(line) = cells.get_mut(row) {
                            line.iter_mut().skip(column).for_each(|cell| *cell = ' ');
                        }
                    }
                    _ => {}
                }
            }
            '\u{1b}' => {}
            '\r' => column = 0,
            '\n' => row += 1,
            _ => {
                if let Some(cell) = cells.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    let line = |cells: Vec<char>| cells.into_iter().collect::<String>().trim_end().to_owned();
    cells.into_iter().map(line).collect()
}
