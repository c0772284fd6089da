"""Hostile and wrong arguments: one clear line each, never a crash."""

from __future__ import annotations

import os

import pytest

import burstline


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"source": "gen:?size=x"}, ValueError, "size"),
        ({"source": "gen:?nosuch=1"}, ValueError, "nosuch"),
        ({"source": "nosuch:x"}, ValueError, "nosuch"),
        ({"source": ""}, ValueError, ""),
        ({"source": "null:"}, ValueError, "cannot receive"),
        ({"source": "/nosuch/file.pcap"}, burstline.AbsentError, "/nosuch/file.pcap"),
        ({"source": "/nosuch/file.pcap"}, FileNotFoundError, "/nosuch/file.pcap"),
        ({"source": "nosuch-name"}, burstline.AbsentError, "nosuch-name"),
        ({"source": "log:nosuch-name"}, burstline.AbsentError, "nosuch-name"),
        ({"source": "log:x?window=9"}, ValueError, "window"),
        ({"source": "log:x?trust=maybe"}, ValueError, "trust"),
        ({"source": "gen:", "filter": "no such filter"}, ValueError, "no such filter"),
        ({"source": "gen:", "filter": "1,2"}, ValueError, "filter"),
        ({"source": "gen:", "hash": "md5"}, ValueError, "hash"),
        ({"source": "gen:", "snaplen": 0}, ValueError, "snaplen is 0"),
        ({"source": "gen:", "snaplen": 1 << 20}, ValueError, "snaplen is 1048576"),
        ({"source": "gen:", "snaplen": -1}, OverflowError, ""),
        ({"source": "gen:", "window": 1}, ValueError, "window is 1"),
        ({"source": "gen:", "window": 9}, ValueError, "window is 9"),
        ({"source": "gen:", "window": 1 << 70}, OverflowError, ""),
        ({"source": b"gen:"}, TypeError, ""),
        ({"source": None}, TypeError, ""),
        ({"source": "a\0b"}, (ValueError, burstline.Error), ""),
    ],
)
def test_open(arguments, error, text):
    with pytest.raises(error) as raised:
        burstline.open(**arguments)
    said = str(raised.value)
    assert text in said and "\n" not in said and "panic" not in said.lower()


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e300])
def test_timeouts(timeout):
    with pytest.raises(OverflowError, match="timeout"):
        burstline.open("gen:?packets=1").next(timeout=timeout)


@pytest.mark.parametrize("index", [10**30, -(10**30), 1 << 62, -(1 << 62), 1.0, "a", None])
def test_indices(index):
    packets = next(burstline.open("gen:?packets=10")).packets
    assert bytes(packets[-1]) == bytes(packets[len(packets) - 1])
    with pytest.raises((IndexError, TypeError, OverflowError)):
        packets[index]


def test_a_filter_that_wants_none_ends():
    reader = burstline.open("gen:?packets=1000", filter="ether proto 0x1234")
    assert list(reader) == [] and reader.report()["total"]["lost"] == {"filtered": 1000}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"name": ""}, ValueError, "name"),
        ({"name": "a?b"}, ValueError, "name"),
        ({"bytes": 1}, ValueError, "bytes"),
        ({"bytes": 1 << 60}, ValueError, "bytes"),
        ({"mode": 0o1777}, ValueError, "mode"),
        ({"hash": "x"}, ValueError, "hash"),
        ({"link_type": 1 << 16}, OverflowError, ""),
        ({"wait_ms": -1}, OverflowError, ""),
        ({"name": "/nosuch/folder/x"}, burstline.Error, "/nosuch/folder"),
    ],
)
def test_publish(name, options, error, text):
    with pytest.raises(error) as raised:
        burstline.publish(**{"name": name, **options})
    assert text in str(raised.value) and "\n" not in str(raised.value)


def test_write_takes_packets_only(name):
    class Liar:
        def __bytes__(self):
            return "text"

    class Failing:
        def __bytes__(self):
            raise KeyError("mine")

    with burstline.publish(name) as publisher:
        for wrong, error in [
            (1, TypeError), ([1], TypeError), (["text"], TypeError), (b"one packet", TypeError),
            ([Liar()], TypeError), ([Failing()], KeyError), ([b""], ValueError),
            ([bytes(200_000)], ValueError), (None, TypeError), ([[1.5]], TypeError),
        ]:
            with pytest.raises(error):
                publisher.write(wrong)
        assert publisher.report()["total"]["offered"] == 0
        with pytest.raises(TypeError, match=r"packets\[2\] is int"):
            publisher.write([bytes(60), bytes(60), 3])
        assert publisher.report()["total"]["delivered"] == 2, "those before it are published"

        def calls_back():
            yield bytes(60)
            publisher.write([bytes(60)])

        with pytest.raises(burstline.BusyError):
            publisher.write(calls_back())
    with pytest.raises(burstline.ClosedError):
        publisher.write([bytes(60)])


def test_a_name_is_one_publishers(name):
    with burstline.publish(name), pytest.raises(burstline.RefusedError, match=os.path.basename(name)):
        burstline.publish(name)


def test_a_list_that_shrinks_meanwhile(name):
    items = [bytes(60) for _ in range(100)]

    class Shrinking(bytes):
        pass

    class Evil:
        def __bytes__(self):
            items.clear()
            return bytes(60)

    items[10] = Evil()
    with burstline.publish(name) as publisher:
        assert publisher.write(items) == 11


def test_nobody_makes_bursts():
    for kind in (burstline.Burst, burstline.Packet, burstline.Packets):
        with pytest.raises(TypeError):
            kind()
