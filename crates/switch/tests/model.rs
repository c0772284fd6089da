//! Tests the switch against a model that is as simple as possible: lists, and no tables.

use std::collections::BTreeMap;
use std::convert::Infallible;

use burstline_log::{Burst, Meta, Scratch};
use burstline_switch::{
    Cause, Config, EndId, LookUps, Outgoing, Plan, PortConfig, Quota, Switch, SwitchConfig,
    VlanMode,
};
use proptest::prelude::*;

const AGE: u64 = 50;
const ADDRESSES: usize = 4;

/// A frame by its fields.
#[derive(Clone, Debug)]
struct Fields {
    source: u8,
    destination: u8,
    tag: Option<u16>,
    /// A second tag; only with `tag`.
    inner: Option<u16>,
    /// Destination port, and last byte of the destination's IP address.
    udp: Option<(u16, u8)>,
}

impl Fields {
    fn address(number: u8) -> [u8; 6] {
        match number {
            // Broadcast, and an address that no switch forwards.
            0 => [0xff; 6],
            1 => [1, 0x80, 0xc2, 0, 0, 0],
            _ => [2, 0, 0, 0, 0, number],
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [Self::address(self.destination), Self::address(self.source)].concat();
        for tag in self.tag.into_iter().chain(self.inner) {
            bytes.extend([0x81, 0]);
            bytes.extend(tag.to_be_bytes());
        }
        match self.udp {
            None => bytes.extend([0x88, 0xb5, 1, 2, 3]),
            Some((port, host)) => {
                bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
                bytes.extend([10, 0, 0, 1, 10, 0, 0, host, 0, 9]);
                bytes.extend(port.to_be_bytes());
                bytes.extend([0, 8, 0, 0]);
            }
        }
        bytes
    }
}

/// A rule by its fields.
#[derive(Clone, Debug)]
struct Flow {
    priority: u16,
    in_port: Option<usize>,
    vlan: Option<u16>,
    source: Option<u8>,
    udp: bool,
    host_bits: Option<(u8, u8)>,
    port: Option<u16>,
    action: u8,
    to: usize,
}

impl Flow {
    fn text(&self) -> String {
        let mut words = vec![format!("priority={}", self.priority)];
        words.extend(self.in_port.map(|port| format!("in_port=p{port}")));
        words.extend(self.vlan.map(|vlan| format!("dl_vlan={vlan}")));
        words.extend(self.source.map(|source| format!("dl_src=02:00:00:00:00:{source:02x}")));
        if self.udp {
            words.push("udp".into());
            let hosts = self.host_bits;
            words.extend(hosts.map(|(host, bits)| format!("nw_dst=10.0.0.{host}/{bits}")));
            words.extend(self.port.map(|port| format!("tp_dst={port}")));
        }
        let action = match self.action {
            0 => "drop".to_owned(),
            1 => "normal".to_owned(),
            2 => format!("output:p{}", self.to),
            4 => format!("output:p{},normal", self.to),
            _ => "mod_vlan_vid:20,normal".to_owned(),
        };
        format!("{},actions={action}", words.join(","))
    }

    fn holds(&self, from: usize, vlan: u16, fields: &Fields) -> bool {
        let is_udp = match (self.udp, fields.udp) {
            (false, _) => true,
            (true, None) => false,
            (true, Some((port, host))) => {
                let hosts = self.host_bits.is_none_or(|(wanted, bits)| {
                    (u32::from(host) ^ u32::from(wanted)) >> (32 - u32::from(bits)) == 0
                });
                hosts && self.port.is_none_or(|wanted| wanted == port)
            }
        };
        is_udp
            && self.in_port.is_none_or(|port| port == from)
            && self.vlan.is_none_or(|wanted| wanted == vlan)
            && self.source.is_none_or(|source| source == fields.source)
    }
}

struct Model {
    ports: Vec<PortConfig>,
    flows: Vec<Flow>,
    /// VLAN and address: port and time.
    addresses: BTreeMap<(u16, u8), (usize, u64)>,
    sent: Vec<Vec<Vec<u8>>>,
    causes: Vec<BTreeMap<Cause, u64>>,
}

impl Model {
    fn take(&mut self, from: usize, fields: &Fields, now: u64) {
        if let Err(cause) = self.try_take(from, fields, now) {
            *self.causes[from].entry(cause).or_default() += 1;
        }
    }

    fn try_take(&mut self, from: usize, fields: &Fields, now: u64) -> Result<(), Cause> {
        let number = fields.tag.map(|tag| tag & 0xfff).filter(|&number| number > 0);
        let vlan = match (&self.ports[from].vlan, number) {
            (VlanMode::Access(vlan), None) => *vlan,
            (VlanMode::Trunk { native: Some(vlan), .. }, None) => *vlan,
            (VlanMode::Trunk { allowed, .. }, Some(vlan)) if allowed.has(vlan) => vlan,
            _ => return Err(Cause::Vlan),
        };
        if number.is_none() && fields.inner.is_some() {
            return Err(Cause::Vlan);
        }
        if fields.source < 2 {
            return Err(Cause::BadSource);
        }
        if fields.destination == 1 {
            return Err(Cause::LinkLocal);
        }
        let (mut out_vlan, mut is_given) = (vlan, false);
        let best = self.flows.iter().filter(|flow| flow.holds(from, vlan, fields));
        // `max_by_key` returns the last maximum, which is the first rule of the reversed list.
        if let Some(flow) = best.rev().max_by_key(|flow| flow.priority) {
            let to = flow.to;
            match flow.action {
                0 => return Err(Cause::Rule),
                2 => return self.give(from, to, vlan, fields),
                3 => out_vlan = 20,
                4 => is_given = self.give(from, to, vlan, fields).is_ok(),
                _ => {}
            }
        }
        let outcome = self.go_on(from, [vlan, out_vlan], fields, now);
        if is_given { Ok(()) } else { outcome }
    }

    /// Forwards a frame as without rules.
    fn go_on(
        &mut self,
        from: usize,
        [vlan, out_vlan]: [u16; 2],
        fields: &Fields,
        now: u64,
    ) -> Result<(), Cause> {
        self.learn(from, vlan, fields.source, now)?;
        let known = self.addresses.get(&(out_vlan, fields.destination));
        match known.filter(|(_, seen)| now - seen < AGE && fields.destination != 0) {
            Some(&(to, _)) => self.give(from, to, out_vlan, fields),
            None => self.flood(from, out_vlan, fields),
        }
    }

    fn learn(&mut self, from: usize, vlan: u16, source: u8, now: u64) -> Result<(), Cause> {
        let known = self.addresses.get(&(vlan, source)).copied();
        let here = self.addresses.values().filter(|(port, _)| *port == from).count() as u32;
        let most = self.ports[from].addresses_max;
        let is_known_here = known.is_some_and(|(port, _)| port == from);
        if !is_known_here && most.is_some_and(|most| here >= most) {
            return Err(Cause::Security);
        }
        if known.is_some() || self.addresses.len() < ADDRESSES {
            self.addresses.insert((vlan, source), (from, now));
        } else if most.is_some() {
            return Err(Cause::Security);
        }
        Ok(())
    }

    fn flood(&mut self, from: usize, vlan: u16, fields: &Fields) -> Result<(), Cause> {
        let outcomes: Vec<_> =
            (0..self.ports.len()).map(|to| self.give(from, to, vlan, fields)).collect();
        match outcomes.iter().any(Result::is_ok) {
            true => Ok(()),
            false if outcomes.contains(&Err(Cause::Vlan)) => Err(Cause::Vlan),
            false if outcomes.contains(&Err(Cause::Isolated)) => Err(Cause::Isolated),
            false => Err(Cause::NoDestination),
        }
    }

    fn give(&mut self, from: usize, to: usize, vlan: u16, fields: &Fields) -> Result<(), Cause> {
        if from == to {
            return Err(Cause::SamePort);
        }
        let (is_carried, is_tagged) = match &self.ports[to].vlan {
            VlanMode::Access(own) => (*own == vlan, false),
            VlanMode::Trunk { allowed, native } => {
                (*native == Some(vlan) || allowed.has(vlan), *native != Some(vlan))
            }
        };
        if !is_carried {
            return Err(Cause::NoDestination);
        }
        let group = &self.ports[from].isolate;
        if group.is_some() && *group == self.ports[to].isolate {
            return Err(Cause::Isolated);
        }
        if !is_tagged && fields.inner.is_some() {
            return Err(Cause::Vlan);
        }
        let priority = fields.tag.map_or(0, |tag| tag & 0xf000);
        let tag = is_tagged.then_some(priority | vlan);
        self.sent[to].push(Fields { tag, ..fields.clone() }.bytes());
        Ok(())
    }
}

fn vlan_mode() -> impl Strategy<Value = VlanMode> {
    prop_oneof![
        prop_oneof![Just(10), Just(20)].prop_map(VlanMode::Access),
        prop::option::of(prop_oneof![Just(10_u16), Just(30)]).prop_map(|native| {
            VlanMode::Trunk { allowed: [10, 20].into_iter().collect(), native }
        }),
    ]
}

fn port() -> impl Strategy<Value = PortConfig> {
    let isolate = prop::option::weighted(0.3, Just("g".to_owned()));
    let most = prop::option::weighted(0.2, 1..3_u32);
    (vlan_mode(), isolate, most).prop_map(|(vlan, isolate, addresses_max)| PortConfig {
        vlan,
        isolate,
        addresses_max,
        storm: None,
    })
}

fn fields() -> impl Strategy<Value = Fields> {
    let tag = prop::option::of(prop_oneof![Just(0xe000), Just(10), Just(20 | 0x2000), Just(40)]);
    let udp = prop::option::of((1..4_u16, 1..8_u8));
    let inner = prop::option::weighted(0.2, prop_oneof![Just(10_u16), Just(20)]);
    let all = (1..7_u8, 0..7_u8, tag, inner, udp);
    all.prop_map(|(source, destination, tag, inner, udp)| {
        let inner = inner.filter(|_| tag.is_some());
        // Rules do not parse past a second tag.
        let udp = udp.filter(|_| inner.is_none());
        Fields { source, destination, tag, inner, udp }
    })
}

fn flow() -> impl Strategy<Value = Flow> {
    let about = (
        prop::option::of(0..3_usize),
        prop::option::of(prop_oneof![Just(10_u16), Just(20)]),
        prop::option::of(2..7_u8),
    );
    let udp = (any::<bool>(), prop::option::of((1..8_u8, 29..=32_u8)), prop::option::of(1..4_u16));
    (1..4_u16, about, udp, 0..5_u8, 0..3_usize).prop_map(|(priority, about, udp, action, to)| {
        let ((in_port, vlan, source), (udp, host_bits, port)) = (about, udp);
        Flow { priority, in_port, vlan, source, udp, host_bits, port, action, to }
    })
}

/// The receiving port of a burst, its frames, and the time since the last burst.
type Step = (usize, Vec<Fields>, u64);

fn with_burst<T>(packets: &[Vec<u8>], job: impl FnOnce(&Burst<'_>) -> T) -> T {
    let (mut bytes, mut scratch) = (Vec::new(), Scratch::new());
    for packet in packets {
        let length = packet.len() as u32;
        scratch.push(bytes.len() as u32, length, &Meta::new(0, length, 0));
        bytes.extend_from_slice(packet);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
    }
    job(&scratch.burst(&bytes, 0))
}

/// Returns the frames sent to each end.
fn forward(
    switch: &mut Switch,
    from: EndId,
    packets: &[Vec<u8>],
    now: u64,
    sent: &mut [Vec<Vec<u8>>],
) {
    let (mut plan, mut outgoing) = (Plan::default(), Outgoing::default());
    with_burst(packets, |burst| {
        switch.forward(from, burst, now, &mut plan);
        for (end, copies) in plan.outputs() {
            let sent = &mut sent[end.index()];
            let send = |burst: &Burst<'_>| {
                sent.extend(burst.packets().map(|packet| packet.bytes().to_vec()));
                Ok::<_, Infallible>(())
            };
            outgoing.send(burst, copies, switch.rules(), send).unwrap();
        }
    });
}

fn switch(ports: &[PortConfig], rules: &str) -> Switch {
    let config = SwitchConfig { addresses_max: ADDRESSES, age_ns: AGE, seed: 5 };
    let mut switch = Switch::new(config, 0);
    for (index, port) in ports.iter().enumerate() {
        let id = switch.add(&format!("p{index}"), Some(port.clone()), 0).unwrap();
        assert_eq!(id.index(), index);
    }
    let config = Config::parse(rules).unwrap();
    config.rules.check(|name| switch.find(name).is_some()).unwrap();
    switch.set_rules(config.rules.shared(), 0);
    switch
}

fn check(ports: Vec<PortConfig>, flows: Vec<Flow>, steps: Vec<Step>) {
    let rules: String =
        flows.iter().map(|flow| format!("[[rule]]\nflow = '{}'\n", flow.text())).collect();
    let mut switch = switch(&ports, &rules);
    let count = ports.len();
    let mut sent = vec![Vec::new(); count];
    let mut model = Model {
        ports,
        flows,
        addresses: BTreeMap::new(),
        sent: sent.clone(),
        causes: vec![BTreeMap::new(); count],
    };
    let (mut now, mut frames) = (0, vec![0; count]);
    for (from, fields, pause) in steps {
        let from = from % count;
        now += pause;
        let packets: Vec<_> = fields.iter().map(Fields::bytes).collect();
        forward(&mut switch, EndId(from as u16), &packets, now, &mut sent);
        fields.iter().for_each(|fields| model.take(from, fields, now));
        frames[from] += packets.len() as u64;
        assert_eq!(sent, model.sent);
    }
    for end in 0..count {
        let counters = switch.counters(EndId(end as u16));
        assert!(counters.closes(), "{counters:?}");
        assert_eq!(counters.frames_in, frames[end]);
        assert_eq!(counters.copies_out, sent[end].len() as u64);
        for cause in Cause::ALL {
            let expected = model.causes[end].get(&cause).copied().unwrap_or(0);
            assert_eq!(counters.of(cause), expected, "{cause:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        ports in prop::collection::vec(port(), 3..5),
        flows in prop_oneof![Just(Vec::new()), prop::collection::vec(flow(), 1..12)],
        steps in prop::collection::vec(
            (0..5_usize, prop::collection::vec(fields(), 1..20), 0..30_u64), 1..20),
    ) {
        check(ports, flows, steps);
    }
}

fn plain(source: u8, destination: u8) -> Vec<u8> {
    Fields { source, destination, tag: None, inner: None, udp: None }.bytes()
}

#[test]
fn mirrors_get_what_comes_in_and_what_leaves_as_it_is_there() {
    let trunk = VlanMode::Trunk { allowed: [1].into_iter().collect(), native: None };
    let trunk = PortConfig { vlan: trunk, ..PortConfig::default() };
    let mut switch = switch(&[PortConfig::default(), trunk], "");
    let sensor = switch.add("log:x", None, 0).unwrap();
    let rules = "[[mirror]]\nto = 'log:x'\nboth = ['p1']\n";
    switch.set_rules(Config::parse(rules).unwrap().rules.shared(), 0);
    let mut sent = vec![Vec::new(); 3];
    forward(&mut switch, EndId(0), &[plain(5, 6), plain(5, 7)], 0, &mut sent);
    let tagged = Fields { source: 6, destination: 5, tag: Some(1), inner: None, udp: None }.bytes();
    forward(&mut switch, EndId(1), std::slice::from_ref(&tagged), 0, &mut sent);
    assert_eq!(sent[0], [plain(6, 5)]);
    let crossed = [&sent[1][..], &[tagged]].concat();
    assert_eq!(sent[sensor.index()], crossed, "as a tcpdump at the port would see it");
    assert_eq!(switch.counters(sensor).mirrored, 3);
}

/// A station in VLAN 5, a trunk's native VLAN, sends a VLAN 0 tag followed by a VLAN 10 tag.
#[test]
fn a_second_tag_brings_no_frame_into_another_vlan() {
    let access = PortConfig { vlan: VlanMode::Access(5), ..PortConfig::default() };
    let trunk = |allowed: &[u16], native| PortConfig {
        vlan: VlanMode::Trunk { allowed: allowed.iter().copied().collect(), native },
        ..PortConfig::default()
    };
    let ports = [access, trunk(&[10], Some(5)), trunk(&[5], None)];
    let mut switch = switch(&ports, "");
    let mut sent = vec![Vec::new(); 3];
    let fields = |tag| Fields { source: 5, destination: 0, tag, inner: Some(10), udp: None };
    forward(&mut switch, EndId(0), &[fields(Some(0)).bytes()], 0, &mut sent);
    assert_eq!(sent, [const { Vec::<Vec<u8>>::new() }; 3]);
    assert_eq!(switch.counters(EndId(0)).of(Cause::Vlan), 1);
    forward(&mut switch, EndId(2), &[fields(Some(5)).bytes()], 0, &mut sent);
    assert_eq!(sent, [const { Vec::<Vec<u8>>::new() }; 3], "its first tag would go");
    assert_eq!(switch.counters(EndId(2)).of(Cause::Vlan), 1);
}

#[test]
fn a_storm_is_limited_and_what_is_known_passes() {
    let storm = Some(Quota { per_s: 100.0, is_bits: false });
    let ports = [PortConfig { storm, ..PortConfig::default() }, PortConfig::default()];
    let mut switch = switch(&ports, "");
    let mut sent = vec![Vec::new(); 2];
    forward(&mut switch, EndId(1), &[plain(6, 0)], 0, &mut sent);
    let burst: Vec<_> = (0..200).map(|number| plain(5, number % 2 * 6)).collect();
    forward(&mut switch, EndId(0), &burst, 1, &mut sent);
    let counters = switch.counters(EndId(0));
    assert_eq!((counters.flooded, counters.of(Cause::Storm), counters.forwarded), (10, 90, 100));
    assert_eq!(sent[1].len(), 110);
}

#[test]
fn meters_fields_and_ends_that_come_and_go() {
    let rules = "[[meter]]\nname = 'slow'\nrate = '10'\n\
                 [[rule]]\nflow = 'dl_dst=02:00:00:00:00:06,actions=meter:slow,normal'\n\
                 [[rule]]\nflow = 'dl_dst=02:00:00:00:00:07,\
                 actions=mod_dl_dst:02:00:00:00:00:08,output:p1'\n";
    let two = [PortConfig::default(), PortConfig::default()];
    let mut switch = switch(&two, rules);
    let mut sent = vec![Vec::new(); 2];
    forward(&mut switch, EndId(0), &[plain(5, 6), plain(5, 6), plain(5, 7)], 0, &mut sent);
    assert_eq!(sent[1], [plain(5, 6), plain(5, 8)]);
    assert_eq!(switch.counters(EndId(0)).of(Cause::Metered), 1);
    let packets: Vec<_> = switch.rules().counts().iter().map(|rule| rule.packets).collect();
    assert_eq!(packets, [2, 1]);
    let gone = switch.remove(EndId(1), 0).unwrap();
    assert_eq!(gone.copies_out, 2);
    forward(&mut switch, EndId(0), &[plain(5, 7)], 0, &mut sent);
    assert_eq!(switch.counters(EndId(0)).of(Cause::NoDestination), 1);
    assert_eq!(switch.add("p1", Some(PortConfig::default()), 0).unwrap(), EndId(1));
    forward(&mut switch, EndId(0), &[plain(5, 7)], 0, &mut sent);
    assert_eq!(sent[1].len(), 3);
    let packets: Vec<_> = switch.rules().counts().iter().map(|rule| rule.packets).collect();
    assert_eq!(packets, [2, 3], "the rules go on counting");
}

#[test]
fn ten_thousand_rules_are_found_by_their_keys() {
    let rules: String = (0..10_000_u32)
        .map(|number| {
            let (high, low) = (number / 256, number % 256);
            format!(
                "[[rule]]\nflow = 'udp,nw_dst=10.0.{high}.{low},tp_dst={number},actions=drop'\n"
            )
        })
        .collect();
    let mut switch = switch(&[PortConfig::default(), PortConfig::default()], &rules);
    let mut sent = vec![Vec::new(); 2];
    let hit = Fields { source: 5, destination: 6, tag: None, inner: None, udp: Some((7, 7)) };
    let miss = Fields { udp: Some((8, 7)), ..hit.clone() };
    let packets = [hit.bytes(), miss.bytes(), hit.bytes()];
    forward(&mut switch, EndId(0), &packets, 0, &mut sent);
    assert_eq!(sent[1], [miss.bytes()]);
    assert_eq!(switch.rules().counts()[7].packets, 2);
    assert_eq!(switch.rules().look_ups(), LookUps { masks: 1, count: 3, cache_hits: 1 });
}

#[test]
fn addresses_that_move_all_the_time_look_like_a_loop() {
    let two = [PortConfig::default(), PortConfig::default()];
    let mut switch = switch(&two, "");
    let mut sent = vec![Vec::new(); 2];
    for step in 0..3000_u64 {
        let now = step * 1_000_000;
        forward(&mut switch, EndId((step % 2) as u16), &[plain(5, 0)], now, &mut sent);
        switch.tick(now);
    }
    assert_eq!(switch.address_totals().moved, 0, "older than the age of this table");
    let config = SwitchConfig { addresses_max: 4, ..SwitchConfig::default() };
    let mut switch = Switch::new(config, 0);
    for name in ["a", "b"] {
        switch.add(name, Some(PortConfig::default()), 0).unwrap();
    }
    for step in 0..3000_u64 {
        let (now, from) = (step * 500_000, EndId((step % 2) as u16));
        forward(&mut switch, from, &[plain(5, 0)], now, &mut sent);
        switch.tick(now);
    }
    assert_eq!((switch.address_totals().moved, switch.loops()), (2999, 1));
}
