//! `burstline extcap`: Wireshark asks which logs there are, and has one written into a pipe.
//!
//! ```text
//! wireshark --extcap-interfaces -------------------> interface {value=burst-tap}{display=...}
//!           --extcap-interface burst-tap --capture -> burstline capture log:tap -w -  > fifo
//!              --fifo PATH
//! ```
//!
//! The capture is the verb `capture` itself: this process becomes it.
//!
//! Source: extcap(4), doc/extcap.4 of Wireshark.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use burstline_share::{Published, published};
use burstline_sys::pcap;
use burstline_wire::files::MAX_CAPTURED;
use burstline_wire::headers::LinkType;

use crate::args::ExtcapArgs;
use crate::failure::Failure;
use crate::view;

/// What a name of an interface begins with. Wireshark takes a name with a colon for another kind.
const PREFIX: &str = "burst-";

/// What can be chosen in Wireshark's dialogue.
const CHOICES: &str = "\
arg {number=0}{call=--worker}{display=Worker}{type=unsigned}\
{tooltip=Only this worker's share of burstline balance --publish}{required=false}
arg {number=1}{call=--snaplen}{display=Snapshot length}{type=unsigned}{default=262144}\
{tooltip=The most bytes of each packet}{required=false}
arg {number=2}{call=--oldest}{display=Begin with the oldest packet}{type=boolflag}\
{tooltip=Not with the next one that is published}{required=false}
";

/// Answers what Wireshark asks.
pub(crate) fn extcap(args: &ExtcapArgs) -> Result<ExitCode, Failure> {
    if args.extcap_interfaces {
        view::print(&interfaces())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(interface) = &args.extcap_interface else {
        return Err(Failure::usage(
            "extcap: --extcap-interfaces or --extcap-interface burst-NAME is needed; Wireshark \
             gives them",
        ));
    };
    let name = interface.strip_prefix(PREFIX).filter(|name| !name.is_empty()).ok_or_else(|| {
        Failure::usage(format!("extcap: {interface}: expected burst-NAME, e.g. burst-tap"))
    })?;
    match &args.fifo {
        Some(fifo) if args.capture => Err(capture(args, name, fifo)),
        _ if args.extcap_dlts => say("dlt {number=1}{name=EN10MB}{display=Ethernet}\n"),
        _ if args.extcap_config => say(CHOICES),
        _ => match &args.extcap_capture_filter {
            // What it prints is what is wrong with the filter.
            Some(filter) => {
                match pcap::compile(filter, LinkType::ETHERNET.0, MAX_CAPTURED, false) {
                    Ok(_) => Ok(ExitCode::SUCCESS),
                    Err(error) => say(&format!("{error}\n")),
                }
            }
            None => Ok(ExitCode::SUCCESS),
        },
    }
}

fn say(text: &str) -> Result<ExitCode, Failure> {
    view::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// One line for the program, and one for each name that is published now.
fn interfaces() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("extcap {{version={version}}}{{display=Burstline}}\n");
    for Published { name, status } in published() {
        let pid = status.pid;
        text += &format!(
            "interface {{value={PREFIX}{name}}}{{display=Burstline log of process {pid}}}\n"
        );
    }
    text
}

/// Becomes the verb `capture`, with the pipe as its standard output. Returns why it did not.
fn capture(args: &ExtcapArgs, name: &str, fifo: &Path) -> Failure {
    let failed = |what: &str, error: &io::Error| Failure::new(format!("extcap: {what}: {error}"));
    let worker = args.worker.map(|worker| format!("@{worker}")).unwrap_or_default();
    let from = if args.oldest { "?from=oldest" } else { "" };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed("its own program's path", &error),
    };
    let pipe = match OpenOptions::new().write(true).open(fifo) {
        Ok(pipe) => pipe,
        Err(error) => return failed(&fifo.display().to_string(), &error),
    };
    let mut command = Command::new(program);
    command.args(["capture", &format!("log:{name}{worker}{from}"), "-w", "-", "--quiet"]);
    if let Some(bytes) = args.snaplen {
        command.args(["--snaplen", &bytes.to_string()]);
    }
    if let Some(filter) = args.extcap_capture_filter.as_deref().filter(|text| !text.is_empty()) {
        command.args(["--filter", filter]);
    }
    failed("burstline capture", &command.stdout(pipe).exec())
}
