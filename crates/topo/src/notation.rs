//! The notation of placements: `A_AA`, `A_AB`, `A_BB`, `AB_AABB`.
//!
//! ```text
//!   AB _ AABB
//!   ││   └┴┴┴─ a worker each, on that node
//!   └┴──────── a receive thread each, on that node
//! ```
//!
//! A letter stands for a node, but not for a fixed one: different letters are different nodes, and
//! A is the node of the first receive thread. Letters appear in alphabetical order. A
//! run-to-completion job without workers has no second part: `A`, `AB`.
//!
//! Source: H. Wang, D. He, H. Wang, "Comparison of High-Performance Packet Processing Frameworks on
//! NUMA", section V: A and B each stand for node 0 or node 1. Its outlook mentions several receive
//! threads.

use std::fmt;
use std::str::FromStr;

/// Nodes that a placement can distinguish.
const LETTERS: u8 = 26;
/// Threads that a placement can name: the maximum number of sources.
const THREADS_MAX: usize = 256;

/// The nodes of a job's threads: 0 for A, 1 for B, ...
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Node of each receive thread, at least one.
    pub receivers: Vec<u8>,
    /// Node of each worker.
    pub workers: Vec<u8>,
}

/// Why a text is not a placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// No receive thread.
    #[error("placement `{0}` has no receive thread; it is written A_AB: receive threads, workers")]
    NoReceiver(String),
    /// A character other than a capital letter or the single underscore.
    #[error("placement `{text}`: `{character}` is neither a letter from A to Z nor the single _")]
    Character {
        /// The whole text.
        text: String,
        /// The invalid character.
        character: char,
    },
    /// A letter is used before an earlier one of the alphabet.
    #[error("placement `{text}`: {found} comes before {missing}; the first node is A, the next B")]
    Order {
        /// The whole text.
        text: String,
        /// The letter.
        found: char,
        /// The letter that should come first.
        missing: char,
    },
    /// More threads than a placement can name.
    #[error("placement of {threads} threads: {THREADS_MAX} at most")]
    TooMany {
        /// Number of threads.
        threads: usize,
    },
}

impl Placement {
    /// Returns the placement of threads on any kind of node, lettered in order of appearance.
    pub(crate) fn of<N: PartialEq + Copy>(receivers: &[N], workers: &[N]) -> (Self, Vec<N>) {
        let mut nodes: Vec<N> = Vec::new();
        let mut letter = |node: &N| {
            let known = nodes.iter().position(|known| known == node);
            let at = known.unwrap_or_else(|| {
                nodes.push(*node);
                nodes.len() - 1
            });
            u8::try_from(at).unwrap_or(LETTERS - 1).min(LETTERS - 1)
        };
        let receivers = receivers.iter().map(&mut letter).collect();
        let workers = workers.iter().map(&mut letter).collect();
        (Self { receivers, workers }, nodes)
    }

    /// Returns how many nodes it names.
    pub fn nodes(&self) -> usize {
        let letters = self.receivers.iter().chain(&self.workers);
        letters.max().map_or(0, |&last| usize::from(last) + 1)
    }
}

impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Self, PlacementError> {
        let owned = || text.to_owned();
        let (first, second) = text.split_once('_').unwrap_or((text, ""));
        let mut known = 0;
        let mut letters = |part: &str| -> Result<Vec<u8>, PlacementError> {
            let mut letters = Vec::new();
            for character in part.chars() {
                if !character.is_ascii_uppercase() {
                    return Err(PlacementError::Character { text: owned(), character });
                }
                let letter = character as u8 - b'A';
                if letter > known {
                    let missing = name(known);
                    return Err(PlacementError::Order { text: owned(), found: character, missing });
                }
                known = known.max(letter + 1);
                letters.push(letter);
            }
            Ok(letters)
        };
        let (receivers, workers) = (letters(first)?, letters(second)?);
        if receivers.is_empty() {
            return Err(PlacementError::NoReceiver(owned()));
        }
        match receivers.len() + workers.len() {
            threads if threads > THREADS_MAX => Err(PlacementError::TooMany { threads }),
            _ => Ok(Self { receivers, workers }),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |letters: &[u8]| letters.iter().map(|&letter| name(letter)).collect::<String>();
        match self.workers.is_empty() {
            true => write!(f, "{}", text(&self.receivers)),
            false => write!(f, "{}_{}", text(&self.receivers), text(&self.workers)),
        }
    }
}

/// Returns the letter of a node.
pub(crate) fn name(letter: u8) -> char {
    char::from(b'A' + letter.min(LETTERS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_and_written() {
        for text in ["A_AA", "A_AB", "A_BB", "AB_AABB", "A", "AB", "ABC_CBA"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
        let placement: Placement = "AB_BBA".parse().unwrap();
        assert_eq!((placement.receivers, placement.workers), (vec![0, 1], vec![1, 1, 0]));
        assert_eq!(Placement::of(&[7], &[3, 7]).0.to_string(), "A_BA");
        assert_eq!("A_".parse::<Placement>().unwrap().to_string(), "A");
    }

    #[test]
    fn wrong_ones_say_what_is_wrong() {
        let message = |text: &str| text.parse::<Placement>().unwrap_err().to_string();
        assert!(message("").contains("no receive thread"));
        assert!(message("_AA").contains("no receive thread"));
        assert_eq!(
            message("B_AA"),
            "placement `B_AA`: B comes before A; the first node is A, the next B"
        );
        assert!(message("A_CC").contains("C comes before B"));
        for (text, character) in [("a_bb", "`a`"), ("A_A_B", "`_`"), ("A-BB", "`-`"), ("Ä", "`Ä`")]
        {
            assert!(message(text).contains(character), "{text}");
        }
        assert!(message(&"A".repeat(257)).contains("257"));
    }
}
