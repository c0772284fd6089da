//! `burstline generate`.

use std::ffi::OsStr;

use burstline_port::{Address, AddressError, GENERATOR_KEYS, Kind};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{JobArgs, PORT_HINT, values};

const EXAMPLES: &str = "\
Examples:
  burstline generate -o eth1 --packets 1M --size 64        at full speed, through a packet socket
  burstline generate -o xdp:eth1 --size imix --rate 9.5Gbit/s --flows 10000 --duration 60s
  burstline generate -o eth1 --rate 100k                a packet each 10 us
  burstline generate -o eth1 --rate 1M --burst 32             the same load in bursts
  burstline generate -o eth1 --rate 50% --size 1518           half of the link's rate
  burstline generate -o x.pcapng --packets 1000 --src 10.0.0.0/24 --dport 80,443 --protocol tcp
  burstline generate -o eth1 --vlan 10-19 --ip 6 --size random:68-1518 --seed 7
  burstline generate -o eth1 --template trace.pcap --packets 1M
  burstline generate -o null: --duration 3s                   how fast this core can make packets
  burstline count xdp:eth2 --verify                           the receiving end: check them

Sinks are eth1 or afpacket:eth1, xdp:eth1, a file (x.pcapng, x.pcap?format=pcap, -), null:,
inject:eth1 (comes in by eth1 as if off the wire), log:NAME; burstline --help-all has their keys.

The last 18 bytes of each packet are its mark, big-endian: magic b57e, check (2 bytes), run and flow
(12 and 20 bits), number in the flow (4 bytes), time due in ns since 1970 modulo 2^48 (6 bytes); in
packets of odd length a zero follows. The least frames that have room for one are 64 bytes with
UDP/IPv4, 76 with TCP, 20 more with IPv6, 4 with a VLAN tag, 50 with VXLAN. Others have none.";

/// Generate packets, at a rate or as fast as the sink accepts them
///
/// One thread makes packets and gives them to a sink. `offered` counts packets made, `delivered`
/// those that the sink took. With a rate, each packet is sent when it is due. The report says how
/// late packets were, and the rate reached if it differs from --rate. Everything here is also a
/// parameter of gen:, as in 'gen:?size=64&rate=100k'.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct GenerateArgs {
    /// Where to send: an interface, xdp:, inject:, log:, a file, - or null:
    #[arg(long, short, value_name = "SINK", value_parser = values::sink, value_hint = PORT_HINT)]
    pub(crate) output: Address,

    #[command(flatten)]
    pub(crate) recipe: RecipeArgs,

    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// A flag for each key of `gen:`, from the port's own table.
#[derive(Debug, Default)]
pub(crate) struct RecipeArgs(Vec<(&'static str, String)>);

/// The key that is also a flag of every job.
const PACKETS: &str = "packets";

impl RecipeArgs {
    /// Returns the value typed for a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }

    /// Returns the address of a generator with the typed values, a number of packets, and the known
    /// link speed.
    pub(crate) fn address(
        &self,
        packets: Option<u64>,
        link: Option<String>,
    ) -> Result<Address, AddressError> {
        let typed = self.0.iter().map(|(key, value)| (*key, value.clone()));
        let packets = packets.map(|packets| (PACKETS, packets.to_string()));
        let link = link.map(|link| ("link", link));
        let parameters = typed.chain(packets).chain(link).map(|(key, value)| {
            let value = value.replace('%', "%25").replace('&', "%26");
            format!("{key}={value}")
        });
        let parameters: Vec<_> = parameters.collect();
        match parameters.is_empty() {
            true => "gen:".parse(),
            false => format!("gen:?{}", parameters.join("&")).parse(),
        }
    }
}

/// A parser that accepts any text, since the port checks it, and lists the known values for
/// completions.
#[derive(Clone, Copy)]
struct RecipeValue(Kind);

impl TypedValueParser for RecipeValue {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        flag: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, flag, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = match self.0 {
            Kind::Words(words) => words,
            Kind::Switch => "yes|no",
            Kind::Quantity(_) | Kind::Text => return None,
        };
        Some(Box::new(words.split('|').map(PossibleValue::new)))
    }
}

impl Args for RecipeArgs {
    fn augment_args(command: Command) -> Command {
        let keys = GENERATOR_KEYS.iter().filter(|key| key.name != PACKETS);
        keys.fold(command, |command, key| {
            let flag = Arg::new(key.name).long(key.name).value_name(key.shape());
            let flag = flag.help(key.description()).help_heading("Packets");
            command.arg(flag.value_parser(RecipeValue(key.kind)).hide_possible_values(true))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RecipeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let keys = GENERATOR_KEYS.iter().filter(|key| key.name != PACKETS);
        let typed =
            keys.filter_map(|key| Some((key.name, matches.get_one::<String>(key.name)?.clone())));
        Ok(Self(typed.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
