use proptest::prelude::*;

use super::*;

/// All packets of `inputs` in the order that comes out, `chunk` at a time.
fn merged(inputs: &[Vec<u64>], chunk: usize) -> Vec<(usize, usize)> {
    let mut lanes: Vec<Lane> = inputs.iter().map(|_| Lane::new()).collect();
    for (lane, times_ns) in lanes.iter_mut().zip(inputs) {
        lane.refill(times_ns.iter().copied(), NEVER_NS);
    }
    let (mut order, mut heads, mut all) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let base = keys(&lanes, &mut heads);
        let tree = &mut LoserTree::new(&heads);
        let stop = interleave(base, tree, &mut lanes, &mut order, chunk);
        all.extend(order.iter().map(|pick| (pick.input(), pick.index())));
        match stop {
            Stop::Long => assert!((1..=chunk).contains(&order.len())),
            Stop::Over => return all,
            Stop::Empty(input) => panic!("input {input} has ended and is waited for"),
        }
    }
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
        chunk in 1..70_usize,
    ) {
        let mut next = vec![0; inputs.len()];
        let mut wanted = Vec::new();
        let head = |input: usize, at: usize| {
            inputs[input].get(at).map(|&time| time.min(NEVER_NS - 1))
        };
        while let Some(input) = (0..inputs.len())
            .filter(|&input| head(input, next[input]).is_some())
            .min_by_key(|&input| (head(input, next[input]), input))
        {
            wanted.push((input, next[input]));
            next[input] += 1;
        }
        prop_assert_eq!(merged(&inputs, chunk), wanted);
    }
}

#[test]
fn an_idle_input_holds_back_what_is_younger_than_its_promise() {
    let mut lanes = vec![Lane::new(), Lane::new()];
    lanes[1].refill([10, 16, 17].into_iter(), 17);
    let (mut order, mut heads) = (Vec::new(), Vec::new());
    let mut go = |lanes: &mut Vec<Lane>| {
        let base = keys(lanes, &mut heads);
        let stop = interleave(base, &mut LoserTree::new(&heads), lanes, &mut order, 100);
        (stop, order.len())
    };
    assert_eq!(go(&mut lanes), (Stop::Empty(0), 0));
    // Its next packet may be of 16, and comes before input 1's then.
    lanes[0].promise(16);
    assert_eq!(go(&mut lanes), (Stop::Empty(0), 1));
    lanes[0].promise(17);
    assert_eq!(go(&mut lanes), (Stop::Empty(0), 1));
    lanes[0].promise(NEVER_NS);
    assert_eq!(go(&mut lanes), (Stop::Empty(1), 1));
    lanes[1].promise(NEVER_NS);
    assert_eq!(go(&mut lanes), (Stop::Over, 0));
    lanes[1].put_back(1);
    assert_eq!((lanes[1].left(), go(&mut lanes)), (2, (Stop::Over, 2)));
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
