use super::*;

fn parse(text: &str) -> Result<Recipe, AddressError> {
    Recipe::parse(&text.parse().unwrap())
}

fn pattern(query: &str) -> Pattern {
    match parse(&format!("gen:?{query}")).unwrap().content {
        Content::Made(pattern) => pattern,
        Content::Template(path) => panic!("{}", path.display()),
    }
}

#[test]
fn what_is_not_said_has_a_default() {
    let recipe = parse("gen:").unwrap();
    assert_eq!((recipe.packets, recipe.seed, recipe.start_ns), (None, 1, None));
    assert!(recipe.has_marks && !recipe.is_cycled);
    let pattern = pattern("");
    assert_eq!(pattern.flows, 16);
    let spec = pattern.spec(15);
    assert_eq!(Ipv4Addr::from(spec.source as u32), Ipv4Addr::new(198, 18, 0, 16));
    assert_eq!(Ipv4Addr::from(spec.destination as u32), Ipv4Addr::new(198, 19, 0, 1));
    assert_eq!((spec.source_port, spec.destination_port, spec.vlan), (1024, 7, None));
}

#[test]
fn lists_combine_to_flows_that_all_differ() {
    let pattern = pattern("src=10.0.0.1-10.0.0.3&dport=80,443&vlan=5-6");
    assert_eq!(pattern.flows, 3 * 2 * 2);
    let mut specs: Vec<_> = (0..pattern.flows).map(|flow| pattern.spec(flow)).collect();
    assert_eq!((specs[3].destination_port, specs[3].source), (443, 0x0a00_0001));
    assert_eq!(specs[11].vlan, Some(6));
    specs.sort_by_key(|spec| (spec.source, spec.destination_port, spec.vlan));
    specs.dedup();
    assert_eq!(specs.len(), 12);
}

#[test]
fn a_million_flows_of_any_kind_differ() {
    for query in ["flows=1048576", "flows=1048576&protocol=mix&ip=mix"] {
        let pattern = pattern(query);
        let ends = |flow| {
            let spec = pattern.spec(flow);
            (spec.source, spec.destination, spec.source_port)
        };
        let all: std::collections::HashSet<_> = (0..pattern.flows).map(ends).collect();
        assert_eq!(all.len(), 1 << 20, "{query}");
    }
    assert_eq!(pattern("src=10.0.0.0/8").flows, 1 << 20);
}

#[test]
fn nonsense_and_contradictions_are_errors_with_the_value() {
    for (query, word) in [
        ("size=63", "64-65535"),
        ("size=65536", "64-65535"),
        ("size=", "size"),
        ("size=64,x", "size"),
        ("size=random:9-8", "size"),
        ("size=random:64", "size"),
        ("size=59&size-basis=no-fcs", "60-65531"),
        ("size-basis=x", "one of"),
        ("flows=0", "must be 1-1048576"),
        ("flows=9999999", "must be 1-1048576"),
        ("flows=7&src=10.0.0.1-10.0.0.3&dst=10.1.0.1&sport=1,2", "combine to only 6"),
        ("src=10.0.0.1&dst=::1", "src has IPv4"),
        ("src=10.0.0.1&ip=6", "addresses are IPv4"),
        ("src=::1&ip=mix", "addresses are IPv6"),
        ("src=10.0.0.9-10.0.0.1", "one IP version"),
        ("sport=65536", "0-65535"),
        ("vlan=4095", "0-4094"),
        ("protocol=sctp", "one of udp, tcp, mix"),
        ("ip=5", "one of 4, 6, mix"),
        ("order=x", "one of"),
        ("mark=1", "one of"),
        ("src-mac=02:00", "expected a MAC"),
        ("vxlan=16777216", "0-16777215"),
        ("outer-src=10.0.0.1", "needs vxlan"),
        ("template=a.pcap&vlan=1", "leave out vlan"),
        ("packets=-1", "expected an integer"),
    ] {
        let error = parse(&format!("gen:?{query}")).unwrap_err();
        assert!(matches!(error, AddressError::Value { .. }), "{query}: {error}");
        assert!(error.to_string().contains(word), "{query}: {error}");
    }
    assert!(matches!(parse("gen:?sizes=1"), Err(AddressError::UnknownKey { .. })));
}
