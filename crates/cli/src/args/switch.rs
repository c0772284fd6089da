//! `burstline switch`.

use std::path::PathBuf;

use burstline_engine::{InlineOptions, SwitchPort};
use burstline_port::{AddressError, Filter};
use burstline_switch::ADDRESSES_MOST;
use clap::{Args, Subcommand};

use super::flags::inline::inline;
use super::{JobArgs, PORT_HINT, values};

const EXAMPLES: &str = "\
Examples:
  burstline switch --port tap:a --port tap:b --port xdp:eth1 --name lab
  burstline switch --port 'tap:a?vlan=10' --port 'tap:host0?trunk=10,20' --port eth1
  burstline switch --config switch.toml --name lab &
  burstline switch add-port lab 'tap:c?vlan=20&security=1'
  burstline switch rules lab --set switch.toml          all of its rules, or none
  burstline switch mirror lab log:sensor --both tap:a &&
  burstline capture log:sensor -w a.pcapng
  burstline switch stats lab
  burstline switch --port tap:a --port tap:b --inline 'ips?workers=2'   a program decides on each
  burstline switch --port tap:a --port eth1 --inline ips --inline-port eth1

Keys of the switch, for any port, beside those of its kind (burstline ports tap):
  vlan=N          the VLAN of a port without tags [default: 1]
  trunk=LIST|all  the VLANs of a port with tags: 10,20-29
  native=N        the VLAN of a trunk's frames without tags
  isolate=GROUP   ports of one group do not reach each other
  security=N      maximum number of source addresses on the port
  storm=RATE      rate limit for packets flooded from the port: 500, 10Mbit
  mirror=TARGET   a sink or a port that gets a copy of both directions: log:sensor

docs/switch.md explains the configuration file and the words of rules.";

/// Forward packets between many ports, by their addresses
///
/// Learns which address is at which port, in each VLAN, and floods what it does not know. Rules
/// drop, redirect, copy, meter or change packets. One thread runs all ports: each packet is copied
/// once, into the ring of the port that it leaves by; one that gets or loses a tag is copied
/// twice. A port that takes nothing loses its own packets and holds up no other. With --name the
/// other commands control it while it runs.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SwitchArgs {
    #[command(subcommand)]
    pub(crate) action: Option<SwitchAction>,

    /// A port, with keys of the switch: 'tap:a?vlan=10', xdp:eth1, eth2; may be given several times
    #[arg(long = "port", value_name = "ADDRESS", value_parser = port, value_hint = PORT_HINT)]
    pub(crate) ports: Vec<SwitchPort>,

    /// Ports, rules, meters, mirrors and static addresses from a TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The name by which the other commands find it: a socket beside those of --publish, for this
    /// user and root
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Maximum number of known addresses; further ones are not learned
    #[arg(long, value_name = "N", value_parser = values::number::<usize>(1..=ADDRESSES_MOST))]
    pub(crate) addresses: Option<usize>,

    /// How long to keep an address that does not send
    #[arg(long, value_name = "TIME", value_parser = values::span_ns)]
    pub(crate) age: Option<u64>,

    /// Have packets wait in the published log NAME until a reader gives a verdict, before they are
    /// switched: as for bounce --inline
    #[arg(long, value_name = "NAME[?KEYS]", value_parser = inline)]
    pub(crate) inline: Option<InlineOptions>,

    /// Only packets received by PORT wait; the switch must start with PORT. May be given several
    /// times [default: all ports that it starts with]
    #[arg(long = "inline-port", value_name = "PORT", requires = "inline")]
    pub(crate) inline_ports: Vec<String>,

    /// xdp: takes only packets that match EXPR and leaves the others to the host, counted as
    /// `passed`. Forms as for count --filter
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) only: Option<Filter>,

    /// Let xdp: take packets from an interface that the host uses
    #[arg(long)]
    pub(crate) steal: bool,

    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// Parses a port with keys of the switch.
fn port(text: &str) -> Result<SwitchPort, AddressError> {
    text.parse()
}

/// Checks a port and returns it as typed.
fn port_text(text: &str) -> Result<String, AddressError> {
    port(text).map(|_| text.to_owned())
}

/// What to do with a switch that runs.
#[derive(Debug, Subcommand)]
pub(crate) enum SwitchAction {
    /// Print ports, VLANs and mirrors
    ///
    /// Example: burstline switch show lab
    Show(Named),
    /// Print the packet counts of each port
    ///
    /// Example: burstline switch stats lab --json
    Stats(Named),
    /// Print the addresses that it knows, or forget those that it learned
    ///
    /// Example: burstline switch macs lab
    Macs {
        #[command(flatten)]
        named: Named,
        /// Forget the addresses that were learned
        #[arg(long)]
        flush: bool,
    },
    /// Add a port
    ///
    /// Example: burstline switch add-port lab 'tap:c?vlan=20'
    AddPort {
        #[command(flatten)]
        named: Named,
        /// The port, with keys of the switch
        #[arg(value_name = "ADDRESS", value_parser = port_text)]
        port: String,
    },
    /// Remove a port
    ///
    /// Example: burstline switch del-port lab tap:c
    DelPort {
        #[command(flatten)]
        named: Named,
        /// The port, without keys
        #[arg(value_name = "PORT")]
        port: String,
    },
    /// Print the rules with their counts, or replace them
    ///
    /// Example: burstline switch rules lab --set switch.toml
    Rules {
        #[command(flatten)]
        named: Named,
        /// Replace rules, meters and mirrors by those of a TOML file: all of them, or none if one
        /// is wrong
        #[arg(long, value_name = "FILE")]
        set: Option<PathBuf>,
    },
    /// Print the mirrors, add one, or remove those to a target
    ///
    /// Example: burstline switch mirror lab log:sensor --both tap:a
    Mirror(MirrorArgs),
}

/// A mirror.
#[derive(Debug, Args)]
pub(crate) struct MirrorArgs {
    #[command(flatten)]
    pub(crate) named: Named,

    /// Where copies go: a sink like log:sensor, or a port
    #[arg(value_name = "TARGET")]
    pub(crate) to: Option<String>,

    /// Copy packets received by this port
    #[arg(long = "in", value_name = "PORT", requires = "to")]
    pub(crate) incoming: Vec<String>,

    /// Copy packets sent by this port
    #[arg(long = "out", value_name = "PORT", requires = "to")]
    pub(crate) outgoing: Vec<String>,

    /// Copy both directions of this port
    #[arg(long, value_name = "PORT", requires = "to")]
    pub(crate) both: Vec<String>,

    /// Copy packets received in these VLANs: 10,20-29
    #[arg(long, value_name = "LIST", requires = "to")]
    pub(crate) vlans: Option<String>,

    /// Remove the mirrors to TARGET
    #[arg(long, requires = "to", conflicts_with_all = ["incoming", "outgoing", "both", "vlans"])]
    pub(crate) remove: bool,
}

/// Which switch, and how it is shown.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The switch's name: its --name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use burstline_engine::SWITCH_KEYS;

    use super::*;

    #[test]
    fn the_help_has_every_key_of_the_switch() {
        let (_, keys) = EXAMPLES.split_once("Keys of the switch").unwrap();
        for key in SWITCH_KEYS {
            assert!(keys.contains(&format!("\n  {}=", key.name)), "{}", key.name);
        }
    }
}
