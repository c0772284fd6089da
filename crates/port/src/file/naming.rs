//! Derives format and compression from an output's name: `x.pcap.zst` is pcap in Zstandard.

use std::path::Path;

use super::layout::Format;

/// How an output is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

/// Format and compression implied by a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Naming {
    pub(super) format: Option<Format>,
    pub(super) compression: Option<Compression>,
}

/// Extensions of compressions that are not supported for output.
const NOT_WRITTEN: [&str; 4] = ["bz2", "br", "lz4", "xz"];

/// The other extensions of captures.
const CAPTURES: [&str; 5] = ["pcapng", "pcap", "cap", "gz", "zst"];

/// Whether a name has the extension of a capture, so that it is not meant as an interface. One that
/// cannot be written counts, too: its error says why.
pub(crate) fn is_capture_name(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|end| end.to_str()).unwrap_or_default();
    CAPTURES.iter().chain(&NOT_WRITTEN).any(|known| extension.eq_ignore_ascii_case(known))
}

impl Naming {
    /// Parses the extensions of a name. An error is the reason why such a file is not supported.
    pub(super) fn of(path: &Path) -> Result<Self, String> {
        let extension = |path: &Path| Some(path.extension()?.to_str()?.to_ascii_lowercase());
        let last = extension(path);
        let compression = match last.as_deref() {
            Some("gz") => Some(Compression::Gzip),
            Some("zst") => Some(Compression::Zstd),
            Some(other) if NOT_WRITTEN.contains(&other) => {
                return Err(format!("cannot write .{other}: use .zst or .gz"));
            }
            _ => None,
        };
        let inner = match compression {
            Some(_) => path.file_stem().and_then(|stem| extension(Path::new(stem))),
            None => last,
        };
        // Timestamps keep their nanoseconds, which every current reader accepts.
        let format =
            (inner.as_deref() == Some("pcap")).then_some(Format::Classic { nanoseconds: true });
        Ok(Self { format, compression })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_format_and_compression() {
        let pcap = Some(Format::Classic { nanoseconds: true });
        let (gzip, zstd) = (Some(Compression::Gzip), Some(Compression::Zstd));
        for (name, format, compression) in [
            ("x", None, None),
            ("a.pcap/x", None, None),
            ("x.pcapng", None, None),
            ("x.pcap", pcap, None),
            ("X.PCAP", pcap, None),
            ("x.pcap.zst", pcap, zstd),
            ("x.pcapng.gz", None, gzip),
            ("x.zst", None, zstd),
            (".pcap", None, None),
        ] {
            let expected = Naming { format, compression };
            assert_eq!(Naming::of(Path::new(name)), Ok(expected), "{name}");
        }
        let reason = Naming::of(Path::new("x.pcap.lz4")).unwrap_err();
        assert_eq!(reason, "cannot write .lz4: use .zst or .gz");
    }
}
