//! Suggests words that the user may have meant.

/// The maximum edit distance of a suggestion.
const SLIPS_MOST: usize = 2;

/// Returns how many letters must be added, removed or changed to turn one word into the other.
/// Source: Wagner and Fischer, The String-to-String Correction Problem, JACM 21(1), 1974.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (left, other) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[left + 1];
            row[left + 1] = changed.min(diagonal + 1).min(row[left] + 1);
        }
    }
    row[other.len()]
}

/// Returns ` (did you mean WORD?)`, or an empty string if no word is similar.
pub fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let letters = |word: &str| {
        let mut letters = word.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    let wanted = letters(word);
    // Of two at the same distance, prefer the one with the same letters: a transposition.
    let near = known.min_by_key(|known| (distance(word, known), letters(known) != wanted));
    let near = near.map(|known| (distance(word, known), known));
    // A word without any common letter was not meant.
    let near = near.filter(|(slips, known)| *slips <= SLIPS_MOST && *slips < known.len());
    near.map_or_else(String::new, |(_, known)| format!(" (did you mean {known}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_between_words() {
        for (one, other, wanted) in [
            ("tap", "tap", 0),
            ("tap", "tab", 1),
            ("tap", "taps", 1),
            ("", "abc", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!((distance(one, other), distance(other, one)), (wanted, wanted));
        }
    }

    #[test]
    fn only_a_word_that_is_near_is_named() {
        let mean = |word| did_you_mean(word, ["size", "seed", "ip"].into_iter());
        assert_eq!(mean("sise"), " (did you mean size?)");
        assert_eq!(did_you_mean("xpd", ["dpdk", "xdp"].into_iter()), " (did you mean xdp?)");
        assert_eq!((mean("colour"), mean("xy")), (String::new(), String::new()));
    }
}
