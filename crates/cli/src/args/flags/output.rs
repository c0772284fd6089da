//! The flags of jobs that write files: rotation, ownership, and syncing to disk.

use burstline_port::{FileNaming, Flush, OutputOptions, Rotation};
use burstline_sys::direct::Creation;
use burstline_sys::users;
use burstline_wire::grammar::{Bounds, GrammarError, Quantity};
use clap::Args;

use crate::args::{LinkTypeArgs, values};

/// A kB as in dumpcap, and an MB as in tcpdump.
const KILOBYTE: u64 = 1000;
const MEGABYTE: u64 = 1_000_000;

/// How files are written.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Begin the next file when the current one is full; repeat it for several limits (the first
    /// one reached counts), as in dumpcap: filesize:KB (of 1000 bytes), duration:S, interval:S
    /// (where the time is a multiple of S), packets:N; files:N keeps the newest N files of this run
    /// and removes older ones. Files of earlier runs stay, also with --resume. Times are those of
    /// packets, and the clock's after a second without any. Files are called
    /// NAME_00001_YYYYMMDDhhmmss.ext, by the local time of their first packet; if a name is taken,
    /// NAME_00001_YYYYMMDDhhmmss-2.ext
    #[arg(short = 'b', long = "rotate", value_name = "RULE", value_parser = rule)]
    #[arg(requires = "write")]
    pub(crate) rotate: Vec<Rule>,

    /// As tcpdump: begin the next file after SIZE million bytes (with k, m, g: powers of 1024).
    /// Files are called FILE, FILE1, FILE2
    #[arg(short = 'C', value_name = "SIZE", value_parser = file_size)]
    #[arg(requires = "write", conflicts_with = "rotate")]
    pub(crate) file_bytes: Option<u64>,

    /// As tcpdump: begin the next file after S seconds. FILE may have strftime's conversions:
    /// -w x-%H%M%S.pcapng. Folders may, too, and are made: -w /rec/%Y-%m-%d/x-%H.pcapng. A name
    /// that is taken gets -2, -3 and so on, before the extension
    #[arg(short = 'G', value_name = "S", value_parser = seconds_ns)]
    #[arg(requires = "write", conflicts_with = "rotate")]
    pub(crate) file_ns: Option<u64>,

    /// As tcpdump: with -C keep the newest N files of this run and remove older ones, with leading
    /// zeros in their numbers; with -G end after N files
    #[arg(short = 'W', value_name = "N", value_parser = values::number::<u64>(1..=1_000_000))]
    #[arg(conflicts_with = "rotate")]
    pub(crate) file_count: Option<u64>,

    /// When packets are synced to the disk: after a time, a number of bytes, or either (1s,4MiB);
    /// none leaves it to the kernel. What is synced survives a power cut [default: 1s,4MiB]
    #[arg(long, value_name = "TIME,SIZE|none", value_parser = flush)]
    pub(crate) flush: Option<FlushWish>,

    /// Stop, or with a ring remove the oldest file, before less than SIZE is free, with a margin of
    /// 2 MiB and of unwritten bytes. It checks the file system after each MiB
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub(crate) min_free: Option<usize>,

    /// Run CMD for each file that is closed and synced, without a shell: words are separated by
    /// spaces, '...' and "..." keep spaces, {} is the file's path. One runs at a time. If it
    /// fails, a note says so. It runs without capabilities, unless --keep-privileges
    #[arg(long, value_name = "CMD", value_parser = command)]
    pub(crate) on_close: Option<Words>,

    /// Permission bits of the file, in octal [default: 0600 for a new file]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<u32>,

    /// Owner of the file: USER, USER:GROUP or :GROUP, by name or number
    #[arg(long, value_name = "USER:GROUP", value_parser = owner)]
    pub(crate) owner: Option<Owner>,

    /// Follow a symbolic link; otherwise a link is refused
    #[arg(long)]
    pub(crate) follow_links: bool,

    /// Write to a block device, overwriting its contents
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) links: LinkTypeArgs,
}

/// One rule of `-b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Bytes(u64),
    Duration(u64),
    Interval(u64),
    Packets(u64),
    Files(u64),
}

/// When to sync, or `None` to leave it to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlushWish(pub(crate) Option<Flush>);

/// A command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<String>);

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
}

impl OutputArgs {
    /// Returns the options with which the job's ports are opened.
    pub(crate) fn options(&self, keeps_privileges: bool) -> OutputOptions {
        let Owner { user, group } = self.owner.unwrap_or(Owner { user: None, group: None });
        let (mode, follows_links) = (self.mode, self.follow_links);
        OutputOptions {
            creation: Creation {
                mode,
                user,
                group,
                follows_links,
                is_new: false,
                overwrites_devices: self.force,
            },
            flush: self.flush.map_or(Some(Flush::default()), |wish| wish.0),
            rotation: self.rotation(),
            least_free_bytes: self.min_free.unwrap_or(0) as u64,
            on_close: self.on_close.clone().map_or(Vec::new(), |words| words.0),
            keeps_privileges,
            splits_links: self.links.splits(),
            resumed: None,
        }
    }

    /// Returns when the next file begins, or `None` for a single file.
    pub(crate) fn rotation(&self) -> Option<Rotation> {
        let mut rotation = Rotation::default();
        for rule in &self.rotate {
            match *rule {
                Rule::Bytes(bytes) => rotation.bytes = Some(bytes),
                Rule::Duration(span_ns) => rotation.duration_ns = Some(span_ns),
                Rule::Interval(span_ns) => rotation.interval_ns = Some(span_ns),
                Rule::Packets(packets) => rotation.packets = Some(packets),
                Rule::Files(files) => rotation.ring_files = Some(files),
            }
        }
        if self.file_bytes.is_some() || self.file_ns.is_some() {
            let (bytes, duration_ns) = (self.file_bytes, self.file_ns);
            let is_ring = duration_ns.is_none();
            let naming = if is_ring { FileNaming::Counted } else { FileNaming::Timed };
            let (ring_files, most_files) =
                if is_ring { (self.file_count, None) } else { (None, self.file_count) };
            rotation = Rotation { bytes, duration_ns, ring_files, most_files, naming, ..rotation };
        }
        (rotation != Rotation::default()).then_some(rotation)
    }

    /// Rejects contradicting flags.
    pub(crate) fn check(&self) -> Result<(), String> {
        let limits = |rule: &Rule| !matches!(rule, Rule::Files(_));
        if !self.rotate.is_empty() && !self.rotate.iter().any(limits) {
            return Err("-b files:N needs a limit, after which the next file begins: \
                        -b filesize:KB, duration:S, interval:S or packets:N"
                .to_owned());
        }
        if self.file_count.is_some() && self.file_bytes.is_none() && self.file_ns.is_none() {
            return Err("-W counts the files of -C or -G: name one of them".to_owned());
        }
        Ok(())
    }
}

/// Parses `filesize:KB`, `duration:S`, `interval:S`, `packets:N` or `files:N`.
fn rule(text: &str) -> Result<Rule, String> {
    let wanted = || {
        "must be filesize:KB, duration:S, interval:S, packets:N or files:N, e.g. filesize:100000"
            .to_owned()
    };
    let (name, value) = text.split_once(':').ok_or_else(wanted)?;
    let number = |most: u64| {
        let number = values::number::<u64>(1..=most)(value);
        number.map_err(|error| format!("{name}: {error}"))
    };
    match name {
        "filesize" => {
            number(u64::MAX / KILOBYTE).map(|kilobytes| Rule::Bytes(kilobytes * KILOBYTE))
        }
        "duration" => seconds_ns(value).map(Rule::Duration),
        "interval" => seconds_ns(value).map(Rule::Interval),
        "packets" => number(u64::MAX).map(Rule::Packets),
        "files" => number(1_000_000).map(Rule::Files),
        _ => Err(wanted()),
    }
}

/// Parses seconds, possibly with a fraction, or a time with a unit.
fn seconds_ns(text: &str) -> Result<u64, String> {
    match burstline_wire::grammar::decimal(text) {
        Some(seconds) => {
            let ns = seconds * 1e9;
            let is_possible = (1.0..9e18).contains(&ns);
            is_possible.then_some(ns as u64).ok_or("must be seconds above 0".to_owned())
        }
        None => values::span_ns(text).map_err(|error| error.to_string()),
    }
}

/// Parses a number of million bytes, or a size with a unit.
fn file_size(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(millions) if (1..=u64::MAX / MEGABYTE).contains(&millions) => Ok(millions * MEGABYTE),
        Ok(_) => Err("must be million bytes, at least 1".to_owned()),
        Err(_) => Bounds::new(Quantity::Size, 1..=u64::MAX)
            .read(text)
            .map_err(|error: GrammarError| error.to_string()),
    }
}

/// Parses `1s`, `4MiB`, `1s,4MiB` or `none`.
fn flush(text: &str) -> Result<FlushWish, String> {
    if text == "none" {
        return Ok(FlushWish(None));
    }
    let mut flush = Flush { after_ns: None, bytes: None };
    for part in text.split(',') {
        let (time, size) = (values::span_ns(part).ok(), values::bytes(part).ok());
        match (time, size) {
            (Some(_), Some(_)) => {
                return Err(format!("{part} can be a time or a size: write 60s or 1MiB"));
            }
            (Some(time), None) if flush.after_ns.is_none() => flush.after_ns = Some(time),
            (None, Some(size)) if flush.bytes.is_none() => flush.bytes = Some(size as u64),
            _ => return Err("must be a time, a size, both or none: 1s,4MiB".to_owned()),
        }
    }
    Ok(FlushWish(Some(flush)))
}

/// Splits words at spaces, except in quotes.
fn command(text: &str) -> Result<Words, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    match (quote, words.is_empty()) {
        (Some(quote), _) => Err(format!("the closing {quote} is missing")),
        (None, true) => Err("must be a program and its arguments: gzip {}".to_owned()),
        (None, false) => Ok(Words(words)),
    }
}

/// Parses permission bits in octal.
pub(crate) fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "must be octal, 0-777, e.g. 0640".to_owned())
}

/// Parses `USER`, `USER:GROUP` or `:GROUP`.
fn owner(text: &str) -> Result<Owner, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let number = |name: &str, find: fn(&str) -> Option<u32>, what: &str| match name {
        "" => Ok(None),
        _ => find(name).map(Some).ok_or_else(|| format!("there is no {what} '{name}'")),
    };
    let user = number(user, users::user_number, "user")?;
    let group = number(group, users::group_number, "group")?;
    match (user, group) {
        (None, None) => Err("must be USER, USER:GROUP or :GROUP".to_owned()),
        _ => Ok(Owner { user, group }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_sizes_are_those_of_dumpcap_and_tcpdump() {
        let second = 1_000_000_000;
        for (text, wanted) in [
            ("filesize:10", Rule::Bytes(10_000)),
            ("duration:1.5", Rule::Duration(3 * second / 2)),
            ("duration:2m", Rule::Duration(120 * second)),
            ("interval:60", Rule::Interval(60 * second)),
            ("packets:7", Rule::Packets(7)),
            ("files:3", Rule::Files(3)),
        ] {
            assert_eq!(rule(text), Ok(wanted), "{text}");
        }
        for wrong in ["filesize", "filesize:0", "files:", "duration:0", "duration:-1", "size:1"] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
        assert_eq!((file_size("2"), file_size("64k")), (Ok(2_000_000), Ok(64 << 10)));
        assert!(file_size("0").is_err() && file_size("x").is_err());
    }

    #[test]
    fn a_flush_is_a_time_a_size_both_or_none() {
        let wish = |after_ns, bytes| Ok(FlushWish(Some(Flush { after_ns, bytes })));
        assert_eq!(flush("none"), Ok(FlushWish(None)));
        assert_eq!(flush("500ms"), wish(Some(500_000_000), None));
        assert_eq!(flush("64MiB"), wish(None, Some(64 << 20)));
        assert_eq!(flush("4MiB,1s"), wish(Some(1_000_000_000), Some(4 << 20)));
        assert!(flush("1m").unwrap_err().contains("a time or a size"));
        for wrong in ["", "1s,2s", "1s,", "never"] {
            assert!(flush(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_command_is_words() {
        let words = |text: &str| command(text).map(|words| words.0);
        assert_eq!(words("gzip  -9 {}").unwrap(), ["gzip", "-9", "{}"]);
        assert_eq!(words("mv {} '/a b/'\"x y\"").unwrap(), ["mv", "{}", "/a b/x y"]);
        assert_eq!(words("x ''").unwrap(), ["x", ""]);
        assert!(words("").is_err() && words("x 'y").is_err());
    }

    #[test]
    fn modes_and_owners() {
        assert_eq!((mode("0640"), mode("0")), (Ok(0o640), Ok(0)));
        assert!(mode("8").is_err() && mode("1777").is_err());
        let root = |user, group| Ok(Owner { user, group });
        assert_eq!(owner("root"), root(Some(0), None));
        assert_eq!(owner("7:root"), root(Some(7), Some(0)));
        assert_eq!(owner(":root"), root(None, Some(0)));
        assert!(owner(":").is_err() && owner("no such user").is_err());
    }
}
