//! Selects the cores of a generator and a contender.

use std::fmt;

use burstline_sys::affinity::{CoreId, allowed_cores};
use burstline_sys::topology::Topology;

/// The valid placements, for error messages.
pub(super) const WANTED: &str = "\"auto\", cores as \"0>1\" or \"0>1,2\" (the generator's, then \
                                 the contender's), or nodes as \"A_AB\" (receiver, then workers)";

/// A placement of threads on cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The generator gets the first allowed core, the contender the second, and its workers the
    /// next ones, as far as they are available.
    Auto,
    /// The given cores.
    Cores {
        /// The generator's core.
        generator: CoreId,
        /// The contender's cores; the first receives.
        contender: Vec<CoreId>,
    },
    /// The receiver on node A (0) or B (1), its workers on the nodes of the letters, and the
    /// generator on node A. Source: H. Wang, D. He, H. Wang, "Comparison of High-Performance Packet
    /// Processing Frameworks on NUMA", section V, whose A is either node.
    Nodes(String),
}

/// The selected cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The generator's core.
    pub generator: CoreId,
    /// The contender's cores, at least one; the first receives.
    pub contender: Vec<CoreId>,
}

impl Placement {
    /// Parses a placement, or returns `None`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "auto" {
            return Some(Self::Auto);
        }
        let core = |text: &str| text.parse().ok().map(CoreId);
        if let Some((generator, contender)) = text.split_once('>') {
            let contender = contender.split(',').map(core).collect::<Option<Vec<_>>>()?;
            return Some(Self::Cores { generator: core(generator)?, contender });
        }
        let (receiver, workers) = text.split_once('_')?;
        let is_node = |letter: u8| (b'A'..=b'D').contains(&letter);
        let is_fine =
            ["A", "B"].contains(&receiver) && !workers.is_empty() && workers.bytes().all(is_node);
        is_fine.then(|| Self::Nodes(text.to_owned()))
    }

    /// Selects the cores on this machine.
    ///
    /// # Errors
    /// If there are too few: the rest of a sentence after "because".
    pub fn find(&self, workers: usize) -> Result<Places, String> {
        let allowed = allowed_cores().map_err(|error| error.to_string())?;
        let nodes = Topology::read().map(|topology| topology.nodes).unwrap_or_default();
        let nodes: Vec<Vec<CoreId>> = nodes.into_iter().map(|node| node.cores).collect();
        self.find_among(&allowed, &nodes, workers)
    }

    fn find_among(
        &self,
        allowed: &[CoreId],
        nodes: &[Vec<CoreId>],
        workers: usize,
    ) -> Result<Places, String> {
        match self {
            Self::Auto => {
                let generator = *allowed.first().ok_or("no core is available")?;
                let rest = if allowed.len() > 1 { &allowed[1..] } else { allowed };
                let wanted = 1 + workers;
                // With too few cores for all threads, they share the first.
                let taken = if rest.len() < wanted { 1 } else { wanted };
                Ok(Places { generator, contender: rest[..taken].to_vec() })
            }
            Self::Cores { generator, contender } => {
                let missing = contender.iter().chain([generator]).find(|c| !allowed.contains(c));
                match missing {
                    Some(core) => Err(format!("core {core} is not allowed here")),
                    None => Ok(Places { generator: *generator, contender: contender.clone() }),
                }
            }
            Self::Nodes(text) => by_nodes(text, allowed, nodes),
        }
    }
}

fn by_nodes(text: &str, allowed: &[CoreId], nodes: &[Vec<CoreId>]) -> Result<Places, String> {
    let letters: Vec<u8> = text.bytes().filter(|&letter| letter != b'_').collect();
    let wanted = 1 + usize::from(letters.iter().max().copied().unwrap_or(b'A') - b'A');
    if nodes.len() < wanted {
        return Err(format!("{text} needs {wanted} nodes, this machine has {}", nodes.len()));
    }
    let mut free: Vec<Vec<CoreId>> = nodes.to_vec();
    free.iter_mut().for_each(|cores| cores.retain(|core| allowed.contains(core)));
    let mut take = |node: usize| {
        let cores = &mut free[node];
        let none = || format!("{text} needs more cores of node {node} than are allowed");
        if cores.is_empty() { Err(none()) } else { Ok(cores.remove(0)) }
    };
    let contender = letters.iter().map(|letter| take(usize::from(letter - b'A')));
    let contender = contender.collect::<Result<Vec<_>, _>>()?;
    Ok(Places { contender, generator: take(0)? })
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cores { generator, contender } => {
                let cores: Vec<String> = contender.iter().map(CoreId::to_string).collect();
                write!(f, "{generator}>{}", cores.join(","))
            }
            Self::Nodes(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(numbers: &[u32]) -> Vec<CoreId> {
        numbers.iter().copied().map(CoreId).collect()
    }

    #[test]
    fn words_are_read_and_written() {
        for text in ["auto", "0>1", "3>1,2,0", "A_A", "A_BB", "A_ABCD", "B_BA"] {
            assert_eq!(Placement::parse(text).unwrap().to_string(), text);
        }
        for wrong in ["", "Auto", "1", "0>", ">1", "C_AA", "A_", "A_aa", "A_E", "0>x"] {
            assert_eq!(Placement::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn cores_are_found_by_number_by_order_and_by_node() {
        let find = |text: &str, allowed: &[u32], nodes: &[&[u32]], workers| {
            let nodes: Vec<_> = nodes.iter().map(|node| cores(node)).collect();
            let places = Placement::parse(text).unwrap();
            let places = places.find_among(&cores(allowed), &nodes, workers)?;
            Ok::<_, String>((places.generator.0, places.contender))
        };
        assert_eq!(find("auto", &[0, 1], &[&[0, 1]], 0), Ok((0, cores(&[1]))));
        assert_eq!(find("auto", &[0, 1], &[&[0, 1]], 2), Ok((0, cores(&[1]))));
        assert_eq!(find("auto", &[0, 1, 2, 3], &[], 2), Ok((0, cores(&[1, 2, 3]))));
        assert_eq!(find("auto", &[5], &[], 0), Ok((5, cores(&[5]))));
        assert_eq!(find("1>0", &[0, 1], &[], 0), Ok((1, cores(&[0]))));
        assert!(find("0>7", &[0, 1], &[], 0).unwrap_err().contains("core 7 is not allowed"));
        let two: [&[u32]; 2] = [&[0, 1, 2, 3], &[4, 5, 6, 7]];
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(find("A_AB", &all, &two, 2), Ok((2, cores(&[0, 1, 4]))));
        assert_eq!(find("A_BB", &all, &two, 2), Ok((1, cores(&[0, 4, 5]))));
        assert_eq!(find("B_BA", &all, &two, 2), Ok((1, cores(&[4, 5, 0]))));
        let one = find("A_AB", &[0, 1], &[&[0, 1]], 2).unwrap_err();
        assert_eq!(one, "A_AB needs 2 nodes, this machine has 1");
        assert!(find("A_AA", &[0, 1], &[&[0, 1]], 2).unwrap_err().contains("more cores of node 0"));
    }
}
