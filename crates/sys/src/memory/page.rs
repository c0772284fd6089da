//! Page sizes, requested and granted, and the number of a NUMA node.

use std::fmt;
use std::str::FromStr;

/// A NUMA node, as Linux numbers them: the `1` of `/sys/devices/system/node/node1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The requested page size of a region. Text form: `auto`, `1g`, `2m`, `thp`, `4k`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PageChoice {
    /// The largest available page not above the region's size: 1g, 2m, thp, then 4k.
    #[default]
    Auto,
    /// Reserved pages of 1 GiB, or an error.
    Size1G,
    /// Reserved pages of 2 MiB, or an error.
    Size2M,
    /// Ordinary memory collapsed into 2 MiB pages, as far as the kernel can. The result and the
    /// remedy are in [`super::Placement`].
    Transparent,
    /// Pages of 4 KiB and never larger.
    Size4K,
}

impl FromStr for PageChoice {
    type Err = PageChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "1g" => Ok(Self::Size1G),
            "2m" => Ok(Self::Size2M),
            "thp" => Ok(Self::Transparent),
            "4k" => Ok(Self::Size4K),
            _ => Err(PageChoiceError(text.to_owned())),
        }
    }
}

impl fmt::Display for PageChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Size1G => "1g",
            Self::Size2M => "2m",
            Self::Transparent => "thp",
            Self::Size4K => "4k",
        })
    }
}

/// The text is not a page size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page size `{0}` is not one of auto, 1g, 2m, thp, 4k")]
pub struct PageChoiceError(pub String);

/// The kind of page that a region got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Reserved 1 GiB pages.
    Size1G,
    /// Reserved 2 MiB pages.
    Size2M,
    /// 2 MiB pages that the kernel collapsed; they map the whole region.
    Transparent,
    /// 4 KiB pages, for all of the region or for a part of it.
    Size4K,
}

impl PageKind {
    /// The size of one page, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Size1G => 1 << 30,
            Self::Size2M | Self::Transparent => 2 << 20,
            Self::Size4K => 4 << 10,
        }
    }
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Size1G => "1 GiB",
            Self::Size2M => "2 MiB",
            Self::Transparent => "2 MiB transparent",
            Self::Size4K => "4 KiB",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_survive_a_round_trip_through_text() {
        for text in ["auto", "1g", "2m", "thp", "4k"] {
            assert_eq!(text.parse::<PageChoice>().unwrap().to_string(), text);
        }
        let error = "2M".parse::<PageChoice>().unwrap_err();
        assert_eq!(error.to_string(), "page size `2M` is not one of auto, 1g, 2m, thp, 4k");
    }
}
