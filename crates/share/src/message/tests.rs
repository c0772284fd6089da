use proptest::prelude::*;

use super::*;

fn attach_request() -> impl Strategy<Value = AttachRequest> {
    let policy = prop_oneof![Just(Policy::Lossy), Just(Policy::Lossless)];
    let start = prop_oneof![Just(Start::Now), Just(Start::Segment)];
    let log = prop_oneof![Just(None), (0..u32::MAX).prop_map(Some)];
    (policy, start, any::<[bool; 2]>(), any::<u32>(), log).prop_map(
        |(policy, start, [is_untrusted, gives_verdicts], window, log)| AttachRequest {
            policy,
            start,
            is_untrusted,
            window,
            log,
            gives_verdicts,
        },
    )
}

fn reader() -> impl Strategy<Value = ReaderStatus> {
    (any::<[u32; 6]>(), any::<[u64; 4]>(), any::<[bool; 4]>(), "[a-z ]{0,16}").prop_map(
        |(words, wide, marks, command)| {
            let [log, seat, pid, uid, window, held_segments] = words;
            let [delivered, missed, lag_packets, attached_s] = wide;
            let [is_lossless, is_untrusted, is_demoted, is_claimed] = marks;
            let policy = if is_lossless { Policy::Lossless } else { Policy::Lossy };
            ReaderStatus {
                log,
                seat,
                pid,
                uid,
                window,
                held_segments,
                delivered,
                missed,
                lag_packets,
                attached_s,
                policy,
                is_untrusted,
                is_demoted,
                is_claimed,
                command,
            }
        },
    )
}

fn refusal() -> impl Strategy<Value = Refusal> {
    // Some codes do not carry their numbers.
    (1..=11u16, any::<u64>(), any::<u64>())
        .prop_map(|(code, first, second)| Refusal::decode(Coded { code, first, second }).unwrap())
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        any::<(u64, [u32; 5])>().prop_map(|(epoch, [pid, index, count, seat, window])| {
            let part = (epoch % 3 > 0).then(|| Buckets::of_worker(epoch as usize % 7, 7));
            Reply::Welcome(Welcome { epoch, pid, index, count, seat, window, part })
        }),
        refusal().prop_map(Reply::Refused),
        any::<(u64, u32, u32, u64)>().prop_map(|(epoch, pid, logs, up_s)| Reply::Publisher {
            epoch,
            pid,
            logs,
            up_s
        }),
        any::<[u64; 6]>().prop_map(
            |[published, segments, segment_bytes, readers, most, kept_ns]| {
                let max_readers = most;
                let status =
                    LogStatus { published, segments, segment_bytes, readers, max_readers, kept_ns };
                Reply::Log(status)
            }
        ),
        prop::collection::vec(reader(), 0..=READERS_A_MESSAGE).prop_map(Reply::Readers),
        Just(Reply::End),
    ]
}

proptest! {
    #[test]
    fn what_is_said_is_what_is_heard(request in attach_request(), reply in reply()) {
        let bytes = Request::Attach(request).encode();
        prop_assert_eq!(Request::decode(&bytes), Ok(Request::Attach(request)));
        let bytes = reply.encode();
        prop_assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        prop_assert_eq!(Reply::decode(&bytes), Ok(reply));
    }

    #[test]
    fn no_other_length_will_do(reply in reply(), more in 1..100usize, less in any::<usize>()) {
        let good = reply.encode();
        prop_assert!(Reply::decode(&good[..less % good.len()]).is_err());
        let mut longer = good.clone();
        longer.resize(good.len() + more, 0);
        prop_assert!(Reply::decode(&longer).is_err());
    }

    #[test]
    fn nonsense_is_refused_and_never_worse(
        kind in 0..12u16,
        mut bytes in prop::collection::vec(any::<u8>(), 0..MESSAGE_BYTES_MAX),
        has_header in any::<bool>(),
    ) {
        if has_header {
            bytes.splice(0..0, header(kind));
        }
        // An accepted message decodes to the same value after it is encoded again.
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        if let Ok(reply) = Reply::decode(&bytes) {
            prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }
}

#[test]
fn a_query_is_a_header() {
    assert_eq!(Request::decode(&Request::Query.encode()), Ok(Request::Query));
    assert_eq!(Request::Query.encode().len(), HEADER_BYTES);
}

#[test]
fn what_a_process_calls_itself_moves_no_cursor() {
    assert_eq!(crate::status::plain(b"a\x1b[2J\xff\n"), "a?[2J\u{fffd}");
    assert_eq!(crate::status::plain(b"tap\0garbage"), "tap");
}
