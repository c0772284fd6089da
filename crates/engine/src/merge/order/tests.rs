use proptest::prelude::*;

use super::*;

/// Returns all packets of `inputs` as ordered, `most` at a time.
fn merged(inputs: &[Vec<u64>], most: usize) -> Vec<(usize, usize)> {
    let mut lanes: Vec<Lane> = inputs.iter().map(|_| Lane::new()).collect();
    for (lane, times_ns) in lanes.iter_mut().zip(inputs) {
        lane.refill(times_ns.iter().copied(), NEVER_NS);
    }
    let (mut order, mut all) = (Order::default(), Vec::new());
    loop {
        let stop = order.find(&lanes, most);
        all.extend(take(&order, &mut lanes));
        match stop {
            Stop::Long => assert!((1..=most).contains(&order.len())),
            Stop::Over => return all,
            Stop::Empty(input) => panic!("input {input} has ended and is waited for"),
        }
    }
}

/// Takes the ordered packets. Returns their inputs, and indices into the bursts.
fn take(order: &Order, lanes: &mut [Lane]) -> Vec<(usize, usize)> {
    let inputs: Vec<usize> = match order.picks() {
        Picks::Keys(keys) => keys.iter().map(|key| input_of(*key)).collect(),
        Picks::Runs(runs) => {
            runs.iter().flat_map(|run| std::iter::repeat_n(run.input, run.count)).collect()
        }
    };
    assert_eq!(inputs.len(), order.len());
    let next = |input: usize| {
        let index = lanes[input].next();
        lanes[input].take(1);
        (input, index)
    };
    inputs.into_iter().map(next).collect()
}

/// Orders packets one by one: the least head comes next, the first input's if heads are equal. Ends
/// when the input whose turn it is has only its promise.
fn by_heads(inputs: &[Vec<u64>], low_ns: &[u64]) -> Vec<(usize, usize)> {
    let (mut next, mut all) = (vec![0; inputs.len()], Vec::new());
    let head = |input: usize, at: usize| match inputs[input].get(at) {
        Some(&time_ns) => (time_ns.min(NEVER_NS - 1), input),
        None => (low_ns[input], input),
    };
    loop {
        let heads = (0..inputs.len()).map(|input| head(input, next[input]));
        let Some((_, input)) = heads.min() else { return all };
        if next[input] == inputs[input].len() {
            return all;
        }
        all.push((input, next[input]));
        next[input] += 1;
    }
}

/// Returns the times of an input, in steps and runs of varying sizes.
fn times(steps: &[(u8, u16)], unit: u64) -> Vec<u64> {
    let mut time_ns = 0;
    let next = |&(pause, count): &(u8, u16)| {
        time_ns += u64::from(pause) * unit;
        let first_ns = time_ns;
        time_ns += u64::from(count % 200);
        first_ns..time_ns
    };
    steps.iter().flat_map(next).take(1024).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn sorted_inputs_come_out_as_a_stable_sort(
        mut inputs in prop::collection::vec(prop::collection::vec(0..50_u64, 0..40), 1..9),
        chunk in 1..70_usize,
    ) {
        inputs.iter_mut().for_each(|times| times.sort_unstable());
        let mut wanted: Vec<(u64, usize, usize)> = Vec::new();
        for (input, times) in inputs.iter().enumerate() {
            wanted.extend(times.iter().enumerate().map(|(at, &time)| (time, input, at)));
        }
        wanted.sort();
        let wanted: Vec<_> = wanted.into_iter().map(|(_, input, at)| (input, at)).collect();
        prop_assert_eq!(merged(&inputs, chunk), wanted);
    }

    #[test]
    fn of_unsorted_inputs_the_least_head_comes_next_and_none_is_lost(
        inputs in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..40), 1..9),
        most in 1..70_usize,
    ) {
        prop_assert_eq!(merged(&inputs, most), by_heads(&inputs, &vec![NEVER_NS; inputs.len()]));
    }

    #[test]
    fn runs_come_out_as_packet_by_packet(
        steps in prop::collection::vec(prop::collection::vec(any::<(u8, u16)>(), 0..60), 1..6),
        unit in 1..5_u64,
        most in prop::sample::select(vec![1_usize, 33, 512, usize::MAX]),
    ) {
        let inputs: Vec<_> = steps.iter().map(|steps| times(steps, unit)).collect();
        prop_assert_eq!(merged(&inputs, most), by_heads(&inputs, &vec![NEVER_NS; inputs.len()]));
    }

    #[test]
    fn it_ends_before_an_input_that_may_bring_the_next(
        inputs in prop::collection::vec(prop::collection::vec(0..50_u64, 0..40), 1..9),
        low_ns in prop::collection::vec(prop::sample::select(vec![0, 10, 49, NEVER_NS]), 8),
        is_sorted: bool,
    ) {
        let mut inputs = inputs;
        if is_sorted {
            inputs.iter_mut().for_each(|times| times.sort_unstable());
        }
        let mut lanes = vec![Lane::new(); inputs.len()];
        for ((lane, times_ns), low_ns) in lanes.iter_mut().zip(&inputs).zip(&low_ns) {
            lane.refill(times_ns.iter().copied(), *low_ns);
        }
        let (mut order, mut all) = (Order::default(), Vec::new());
        let stop = loop {
            let stop = order.find(&lanes, usize::MAX);
            all.extend(take(&order, &mut lanes));
            if stop != Stop::Long {
                break stop;
            }
        };
        prop_assert_eq!(&all, &by_heads(&inputs, &low_ns));
        let left = lanes.iter().map(Lane::left).sum::<usize>();
        match stop {
            Stop::Empty(input) => prop_assert!(lanes[input].left() == 0),
            _ => prop_assert_eq!(left, 0),
        }
    }
}

#[test]
fn hundreds_of_inputs_are_put_in_order() {
    for count in [63, 64, 65, 600, 1_100] {
        let inputs: Vec<Vec<u64>> = (0..count)
            .map(|input| (0..7).map(|at| at * 1_000 + input * 7_919 % 500).collect())
            .collect();
        let expected = by_heads(&inputs, &vec![NEVER_NS; inputs.len()]);
        assert_eq!(merged(&inputs, usize::MAX), expected, "{count}");
    }
}

#[test]
fn traffic_in_runs_is_found_by_run_and_other_is_not() {
    let by_run = |turn: u64| {
        let mut lanes = vec![Lane::new(), Lane::new()];
        for (lane, first) in lanes.iter_mut().zip([0, turn]) {
            lane.refill((0..1_000).map(|at| at / turn * 2 * turn + at % turn + first), NEVER_NS);
        }
        let (mut order, mut found) = (Order::default(), Vec::new());
        while order.find(&lanes, usize::MAX) == Stop::Long {
            found.push(matches!(order.picks(), Picks::Runs(_)));
            take(&order, &mut lanes);
        }
        found
    };
    let (runs, other) = (by_run(32), by_run(1));
    assert!(runs.len() > 2 && !runs[0] && runs[1..].iter().all(|is_by_run| *is_by_run));
    assert!(other.len() > 2 && !other.contains(&true));
}

#[test]
fn an_idle_input_holds_back_what_is_younger_than_its_promise() {
    let mut lanes = vec![Lane::new(), Lane::new()];
    lanes[1].refill([10, 16, 17].into_iter(), 17);
    let mut order = Order::default();
    let mut go = |lanes: &mut Vec<Lane>| {
        let stop = order.find(lanes, 100);
        take(&order, lanes);
        (stop, order.len())
    };
    assert_eq!(go(&mut lanes), (Stop::Empty(0), 0));
    // Its next packet may have time 16, and would precede input 1's.
    lanes[0].promise(16);
    assert_eq!(go(&mut lanes), (Stop::Empty(0), 1));
    lanes[0].promise(17);
    assert_eq!(go(&mut lanes), (Stop::Empty(0), 1));
    lanes[0].promise(NEVER_NS);
    assert_eq!(go(&mut lanes), (Stop::Empty(1), 1));
    lanes[1].promise(NEVER_NS);
    assert_eq!(go(&mut lanes), (Stop::Over, 0));
}

#[test]
fn times_that_no_key_can_tell_apart_come_in_order_nevertheless() {
    let day_ns = 86_400 * 1_000_000_000;
    let inputs = [
        vec![5, 30 * day_ns, 60 * day_ns, NEVER_NS - 1],
        vec![0, 29 * day_ns, 31 * day_ns, 40 * day_ns, 2],
        vec![u64::MAX / 2, 3],
    ];
    let wanted =
        [(1, 0), (0, 0), (1, 1), (0, 1), (1, 2), (1, 3), (1, 4), (0, 2), (2, 0), (2, 1), (0, 3)];
    assert_eq!(merged(&inputs, 100), wanted);
}
