//! `burstline capture`.

use burstline_port::Address;
use clap::{Args, ValueEnum};

use super::values;
use super::{CommonArgs, FormatArgs, LogArgs, OutputArgs, PORT_HINT};

const EXAMPLES: &str = "\
Examples:
  burstline capture a.pcap b.pcap -w both.pcapng             two files of one link type into one
  burstline capture 'gen:?size=imix' --duration 10s -w x.pcapng
  burstline capture big.pcap.gz -w - | tshark -r - -c 10      plain pcapng into a pipe
  burstline capture eth0 --filter 'tcp port 443' -w https.pcapng
                                                             filtered in the kernel
  burstline capture trace.pcapng --format pcap -w old.pcap    for programs that know only pcap
  burstline capture eth0 -w x.pcapng.zst                      compressed, and still indexed
  burstline capture a.pcap -o xdp:eth1                        sends the packets at full speed
  burstline capture a.pcap -w b.pcapng --buffer 1g --pages 1g --cores 2,3
  burstline capture eth0 eth1 eth2 -w x.pcapng --cores 2,4,6
                                  cores 2 and 4 receive, 6 records
  burstline capture eth0 --publish tap &
  burstline count log:tap         other programs read the same packets, without a copy
  burstline capture 'log:tap?from=oldest' -w - | tshark -r - -c 10
  burstline capture eth0 -w x.pcapng -b filesize:1000000 -b duration:3600 -b files:24
                                  files of at most 1 GB or an hour, the newest 24
  burstline capture eth0 -w '/disk{0..3}/x.pcapng'
                                  four files that take turns; `count 'set:/disk{0..3}/x.pcapng'`
                                  reads them as one
  burstline capture eth0 -w x-%H%M.pcapng -G 60 --on-close 'sha256sum {}'
  burstline capture eth0 --keep 30s --buffer 4g -w incident.pcapng
                                  nothing is written until `kill -USR1 PID`; then the 30 s before
                                  and the 10 s after, and at the next signal incident-2.pcapng
  burstline capture eth0 --keep 5s --trigger drop --after 1s -w drops.pcapng
                                  the time before and after each loss";

/// Record packets into a file, or send them to a port
///
/// One thread receives all sources into a log in shared memory, another records the log into a
/// file. A single afpacket: source needs no log: one thread records it from a kernel ring of size
/// --buffer. Two cores in --cores, --segment or --pages turn the log on. With three or more --cores
/// the last one records. Each of the others receives into its own log; sources are assigned to them
/// in turn. Packets of one core stay in order; packets of different cores are not merged by time.
/// If every source can wait, a full log holds the sources up and no packet is lost. Otherwise the
/// recorder's losses are counted exactly. The file is valid whenever the program ends, also by
/// SIGINT and SIGTERM. At exit, a pipe stalled for 1 s is abandoned. A second signal, at least a
/// second after the first, ends the program at once.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// The file to write, as PATH or file:PATH; - is standard output, and then all text goes to
    /// standard error; null: keeps nothing, and is the default with --publish. Quoted braces name
    /// several files that are written in turn, e.g. one per disk: '/disk{0..3}/x.pcapng',
    /// '{/a,/b}/x.pcapng'
    #[arg(long, short, value_name = "FILE", value_parser = values::written)]
    #[arg(required_unless_present_any = ["publish", "output"])]
    pub(crate) write: Option<String>,

    /// A sink to send to, in place of a file: a port like xdp:eth1, afpacket:veth0, inject:veth1,
    /// file:x.pcapng?format=pcap
    #[arg(long, short, value_name = "SINK", conflicts_with_all = ["write", "keep"])]
    #[arg(value_parser = values::sink, value_hint = PORT_HINT)]
    pub(crate) output: Option<Address>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    #[command(flatten)]
    pub(crate) files: OutputArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Let a full log also hold up sources that cannot wait; any loss is then a failure. Packets
    /// that a filter rejects are not counted as a loss
    #[arg(long)]
    pub(crate) lossless: bool,

    /// Continue a recording that was broken off, in a new file: FILE-2 after FILE, or with -b, -C
    /// or -G the next one after the file that was written last. With -C the numbers in names go on,
    /// behind the highest. A name of -G may have numbers of the time, and names of months and
    /// days. Of files that take turns each continues by itself. Files that are there stay as they
    /// are, and packet numbers go on. The comment of the new file, which capinfos shows, says what
    /// the file before it has, and what was lost in it. If there is no file yet, a recording begins
    #[arg(long, requires = "write", conflicts_with = "keep")]
    pub(crate) resume: bool,

    /// Keep the last TIME of packets in memory and write nothing until a trigger. Then FILE gets
    /// the kept packets and those that follow; later triggers write FILE-2 and so on (before the
    /// extension). No file is overwritten, no packet written twice. Packets outside every
    /// trigger's window are counted as `expired`. The report says how long a past the memory held:
    /// see --buffer
    #[arg(long, value_name = "TIME", value_parser = values::span_ns)]
    #[arg(conflicts_with_all = ["rotate", "file_bytes", "file_ns"])]
    pub(crate) keep: Option<u64>,

    /// What triggers a file: the signal SIGUSR1, any packet that a source loses, or both
    #[arg(long, value_name = "WHEN", requires = "keep", default_value = "sigusr1")]
    pub(crate) trigger: Trigger,

    /// How long a file continues after its last trigger; another trigger extends it
    #[arg(long, value_name = "TIME", requires = "keep", default_value = "10s")]
    #[arg(value_parser = values::span_ns)]
    pub(crate) after: u64,

    /// The reader of standard output ends the job: its own end is no error.
    #[arg(id = UNTIL_READER, long, hide = true)]
    pub(crate) until_reader: bool,
}

/// The flag of a capture for Wireshark.
pub(crate) const UNTIL_READER: &str = "until-reader";

impl CaptureArgs {
    /// Returns the path to write to.
    pub(crate) fn write(&self) -> &str {
        self.write.as_deref().unwrap_or(NOTHING)
    }
}

/// The one word for `-w` that is not a path.
pub(crate) const NOTHING: &str = "null:";

/// What triggers a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trigger {
    /// The signal SIGUSR1
    Sigusr1,
    /// Any packet that a source loses
    Drop,
    /// Either
    Both,
}
