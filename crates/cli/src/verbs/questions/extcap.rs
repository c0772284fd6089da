//! `burstline extcap`: lists logs and ports for Wireshark, and captures one into a pipe.
//!
//! ```text
//! wireshark --extcap-interfaces -------------------> interface {value=burst-tap}{display=...}
//!                                                    interface {value=burstport-eth0}{...}
//!           --extcap-interface burst-tap --capture -> burstline capture log:tap -w -  > fifo
//!              --fifo PATH
//! ```
//!
//! This process executes the verb `capture` itself. The capture ends when Wireshark closes the
//! pipe, which is not an error: Wireshark opens a window for any output on standard error.
//!
//! Source: extcap(4), doc/extcap.4 of Wireshark.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use burstline_port::interfaces_up;
use burstline_share::{Published, published};
use burstline_sys::pcap;
use burstline_wire::files::MAX_CAPTURED;
use burstline_wire::headers::LinkType;

use crate::args::{ExtcapArgs, UNTIL_READER};
use crate::confinement::give_up;
use crate::failure::Failure;
use crate::view;

/// Prefix of a log's name. Wireshark treats a name with a colon as another kind.
const LOG: &str = "burst-";

/// Prefix of a port's name. No log's name can start with it.
const PORT: &str = "burstport-";

/// Options in Wireshark's dialogue; a port has only the first.
const CHOICES: &str = "\
arg {number=0}{call=--snaplen}{display=Snapshot length}{type=unsigned}{default=262144}\
{tooltip=Keep at most this many bytes of each packet}{required=false}
arg {number=1}{call=--worker}{display=Worker}{type=unsigned}\
{tooltip=Only this worker's share of burstline balance --publish}{required=false}
arg {number=2}{call=--oldest}{display=Begin with the oldest packet}{type=boolflag}\
{tooltip=Otherwise with the next packet that is published}{required=false}
";

/// A Wireshark interface name, parsed.
#[derive(Clone, Copy)]
enum Tap<'a> {
    Log(&'a str),
    Port(&'a str),
}

impl<'a> Tap<'a> {
    fn of(interface: &'a str) -> Option<Self> {
        let log = interface.strip_prefix(LOG).map(Self::Log);
        let found = log.or_else(|| interface.strip_prefix(PORT).map(Self::Port))?;
        let (Self::Log(name) | Self::Port(name)) = found;
        (!name.is_empty()).then_some(found)
    }

    fn choices(self) -> &'static str {
        match self {
            Self::Log(_) => CHOICES,
            Self::Port(_) => CHOICES.split_inclusive('\n').next().unwrap_or_default(),
        }
    }

    /// Returns the source of the capture.
    fn source(self, args: &ExtcapArgs) -> Result<String, Failure> {
        match (self, args.worker, args.oldest) {
            (Self::Log(name), worker, oldest) => {
                let worker = worker.map(|worker| format!("@{worker}")).unwrap_or_default();
                Ok(format!("log:{name}{worker}{}", if oldest { "?from=oldest" } else { "" }))
            }
            (Self::Port(name), None, false) => Ok(format!("afpacket:{name}")),
            (Self::Port(name), ..) => Err(Failure::usage(format!(
                "extcap: {PORT}{name}: a port has no workers, and no packets from before; they \
                 are for logs"
            ))),
        }
    }
}

/// Answers Wireshark's request.
pub(crate) fn extcap(args: &ExtcapArgs) -> Result<ExitCode, Failure> {
    if args.extcap_interfaces {
        // A helper connects to publishers.
        give_up()?;
        return view::say(&interfaces());
    }
    let Some(interface) = &args.extcap_interface else {
        return Err(Failure::usage(
            "extcap: --extcap-interfaces or --extcap-interface burst-NAME is needed; Wireshark \
             gives them",
        ));
    };
    let tap = Tap::of(interface).ok_or_else(|| {
        Failure::usage(format!(
            "extcap: {interface}: expected {LOG}NAME or {PORT}INTERFACE, e.g. {LOG}tap"
        ))
    })?;
    match &args.fifo {
        Some(fifo) if args.capture => Err(capture(args, &tap.source(args)?, fifo)),
        _ if args.extcap_dlts => view::say("dlt {number=1}{name=EN10MB}{display=Ethernet}\n"),
        _ if args.extcap_config => view::say(tap.choices()),
        _ => match &args.extcap_capture_filter {
            // Wireshark expects the error in the filter on standard output.
            Some(filter) => {
                match pcap::compile(filter, LinkType::ETHERNET.0, MAX_CAPTURED, false) {
                    Ok(_) => Ok(ExitCode::SUCCESS),
                    Err(error) => view::say(&format!("{error}\n")),
                }
            }
            None => Ok(ExitCode::SUCCESS),
        },
    }
}

/// Returns a line for the program, for each published name, and for each port. Capturing from such
/// a port takes no packets away from the host.
fn interfaces() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("extcap {{version={version}}}{{display=Burstline}}\n");
    for Published { name, status } in published() {
        let pid = status.pid;
        text +=
            &format!("interface {{value={LOG}{name}}}{{display=Burstline log of process {pid}}}\n");
    }
    for name in interfaces_up() {
        text += &format!(
            "interface {{value={PORT}{name}}}{{display=Burstline port afpacket:{name}}}\n"
        );
    }
    text
}

/// Executes the verb `capture` with the pipe as standard output. Returns only on failure.
fn capture(args: &ExtcapArgs, source: &str, fifo: &Path) -> Failure {
    let failed = |what: &str, error: &io::Error| Failure::new(format!("extcap: {what}: {error}"));
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed("its own program's path", &error),
    };
    let pipe = match OpenOptions::new().write(true).open(fifo) {
        Ok(pipe) => pipe,
        Err(error) => return failed(&fifo.display().to_string(), &error),
    };
    let mut command = Command::new(program);
    command.args(["capture", source, "-w", "-", "--quiet", &format!("--{UNTIL_READER}")]);
    if let Some(bytes) = args.snaplen {
        command.args(["--snaplen", &bytes.to_string()]);
    }
    if let Some(filter) = args.extcap_capture_filter.as_deref().filter(|text| !text.is_empty()) {
        command.args(["--filter", filter]);
    }
    failed("burstline capture", &command.stdout(pipe).exec())
}
