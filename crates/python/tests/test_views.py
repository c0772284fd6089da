"""Views: read-only, counted, valid as long as they are referenced; bursts: until released."""

from __future__ import annotations

import gc
import os
import weakref
from random import Random

import numpy as np
import pytest

import burstline
from conftest import PACKETS

ENDLESS = "gen:?size=64&flows=4"


def test_use_after_release_is_a_clear_error(trace):
    reader = burstline.open(str(trace))
    first = next(reader)
    packet, packets = first.packets[0], first.packets
    iterator = iter(packets)
    second = next(reader)
    assert first.released and not second.released
    for use in (
        lambda: first.worklist, lambda: first.memory, lambda: first.lengths(), lambda: len(first),
        lambda: first.columns(), lambda: first.packets, lambda: packets[0], lambda: packet.bytes,
        lambda: packet.length, lambda: bytes(packet), lambda: next(iterator), lambda: first.log,
        lambda: first.__enter__(), lambda: packet.scapy(), lambda: first.to_pandas(),
    ):
        with pytest.raises(burstline.ReleasedError, match="copy what you keep"):
            use()
    first.release()
    assert "released" in repr(first) and "released" in repr(packet)
    with second as burst:
        length = len(burst)
    assert length > 0 and second.released


def test_views_outlive_burst_reader_and_loop(trace):
    expected = [bytes(p) for burst in burstline.open(str(trace)) for p in burst.packets][:50]
    reader = burstline.open(str(trace))
    burst = next(reader)
    worklist, memory, one = burst.worklist, burst.memory, burst.packets[7].bytes
    for _ in reader:
        pass
    reader.close()
    del reader, burst
    gc.collect()
    lengths = burstline.lengths_of(worklist)
    for index, data in enumerate(expected):
        at = int(worklist["offset"][index])
        assert memory[at : at + lengths[index]].tobytes() == data
    assert bytes(one) == expected[7]


def test_views_cannot_be_written(trace):
    burst = next(burstline.open(str(trace)))
    for array in (burst.worklist, burst.memory):
        assert not array.flags.writeable and not array.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    view = burst.packets[0].bytes
    assert view.readonly and view.nbytes == len(burst.packets[0])
    with pytest.raises(TypeError):
        view[0] = 1


def test_a_loop_that_keeps_the_last_view_goes_on(trace):
    """A variable in the loop's body holds the burst before: the most common pattern."""
    seen = 0
    for burst in burstline.open(str(trace), window=2):
        worklist = burst.worklist
        seen += len(worklist)
    assert seen == PACKETS


def test_too_many_views_are_an_error_that_says_how_many():
    reader, kept = burstline.open(ENDLESS, window=3), []
    with pytest.raises(BufferError, match=r"\d+ bursts are held .* window of 3: copy"):
        for burst in reader:
            kept.append(burst.worklist)
    held = reader.report()["held"]
    assert held == len(kept) >= 3
    kept.clear()
    gc.collect()
    assert reader.report()["held"] == 0
    assert len(next(reader)) > 0, "and it goes on where it was"
    assert reader.report()["total"]["unaccounted"] == 0


def test_copies_hold_nothing():
    reader, kept, total = burstline.open(ENDLESS, window=2), [], 0
    for burst in reader:
        kept.append((burst.worklist.copy(), burst.columns(), burst.lengths(), burst.times_ns()))
        total += len(burst)
        del burst
        if total > 200_000:
            break
    assert reader.report()["held"] <= 1
    assert sum(len(columns) for _, columns, _, _ in kept) == total


def test_cycles_are_collected_late_and_nothing_is_lost():
    class Node:
        pass

    reader = burstline.open(ENDLESS, window=8)
    gc.disable()
    try:
        refs = []
        for _ in range(3):
            node = Node()
            node.self, node.view = node, next(reader).worklist
            refs.append(weakref.ref(node))
            del node
        reader.next(timeout=5)
        assert reader.report()["held"] >= 3 and all(ref() for ref in refs)
        gc.collect()
        assert not any(ref() for ref in refs)
        assert reader.report()["held"] == 1, "the last burst, which is not released"
    finally:
        gc.enable()


def test_no_reference_is_kept_that_is_not_needed(trace):
    reader = burstline.open(str(trace))
    burst = next(reader)
    array = burst.worklist
    base = array
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    assert type(base.base).__name__ in ("View", "memoryview")
    del base
    assert reader.report()["held"] == 1
    burst.release()
    assert reader.report()["held"] == 1, "the array's"
    del array
    assert reader.report()["held"] == 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("trust", ["own", "nobody"])
def test_whatever_order_things_go_in_bytes_stay(name, seed, trust):
    """Packets carry their numbers; views of any age must still have them."""
    random = Random(seed)
    kept, number = [], 0
    with burstline.publish(name, bytes=8 << 20) as publisher:
        reader = burstline.open(f"log:{name}?from=oldest&trust={trust}", window=8)
        for _ in range(400):
            match random.randrange(6):
                case 0 | 1:
                    count = random.randrange(1, 3000)
                    numbers = range(number, number + count)
                    publisher.write(n.to_bytes(8) + bytes(52) for n in numbers)
                    number += count
                case 2 | 3:
                    try:
                        burst = reader.next(timeout=0)
                    except BufferError:
                        kept.clear()
                        continue
                    if burst is not None:
                        kept.append((burst.first_packet, burst.worklist, burst.memory))
                        random.choice([lambda: None, burst.release])()
                case 4 if kept:
                    first, worklist, memory = kept[random.randrange(len(kept))]
                    index = random.randrange(len(worklist))
                    at = int(worklist["offset"][index])
                    assert int.from_bytes(memory[at : at + 8].tobytes()) == first + index
                case 5 if kept:
                    kept.pop(random.randrange(len(kept)))
        total = reader.report()["total"]
        assert total["offered"] == number and total["unaccounted"] == 0


def test_readers_that_come_and_go_leave_nothing(trace):
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    next(burstline.open(str(trace)))
    before = descriptors()
    for _ in range(50):
        kept = next(burstline.open(str(trace))).worklist
    del kept
    assert descriptors() <= before
