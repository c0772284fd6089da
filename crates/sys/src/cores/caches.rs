//! The data caches of a core, as the kernel describes them.

use std::fs;
use std::path::Path;

use crate::affinity::{CoreId, parse_cores};
use crate::folder;

const CORES: &str = "/sys/devices/system/cpu";

/// A data cache of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2 or 3.
    pub level: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The cores that share it, ascending.
    pub shared_with: Vec<CoreId>,
}

/// Returns the data caches of this machine's first core, the smallest level first. Empty if the
/// kernel does not report them.
pub fn of_first_core() -> Vec<Cache> {
    of_core(&Path::new(CORES).join("cpu0"))
}

/// Returns the data caches of the core whose folder is `folder`, the smallest level first. Caches
/// of unknown size, level or type are left out.
pub fn of_core(folder: &Path) -> Vec<Cache> {
    let caches = folder.join("cache");
    let names = folder::names(&caches).into_iter().flatten();
    let names = names.filter(|name| name.as_encoded_bytes().starts_with(b"index"));
    let folders = names.map(|name| caches.join(name));
    let mut caches: Vec<_> = folders.filter_map(|folder| read(&folder)).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn read(folder: &Path) -> Option<Cache> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    if text("type").is_some_and(|kind| kind.trim() == "Instruction") {
        return None;
    }
    let level = text("level")?.trim().parse().ok()?;
    let kibibytes: u64 = text("size")?.trim().strip_suffix('K')?.parse().ok()?;
    let shared = text("shared_cpu_list").and_then(|list| parse_cores(list.trim()).ok());
    let mut shared_with = shared.unwrap_or_default();
    shared_with.sort_unstable();
    Some(Cache { level, bytes: kibibytes.saturating_mul(1024), shared_with })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_core_has_caches_that_grow() {
        let caches = of_first_core();
        assert!(caches.windows(2).all(|pair| pair[0].level <= pair[1].level), "{caches:?}");
        assert!(caches.iter().all(|cache| cache.bytes > 0), "{caches:?}");
        assert!(of_core(Path::new("/nowhere")).is_empty());
    }
}
