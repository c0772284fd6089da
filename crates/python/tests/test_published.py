"""Published names: from Python to Python, from Python to the program, and the counts of both."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time

import numpy as np
import pytest

import burstline

ETHERNET = bytes.fromhex("020000000001020000000002" "0800" "4500002e000040004011")
UDP = ETHERNET + bytes(2) + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + (1000).to_bytes(2) + bytes(24)


def packets(count: int) -> list[bytes]:
    return [UDP[:34] + (1000 + n % 7).to_bytes(2) + n.to_bytes(8) + UDP[44:] for n in range(count)]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def wait_for_a_reader(before: int) -> None:
    """Waits until a reader is connected: then this process, the publisher, has more descriptors."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if descriptors() > before:
            return
        time.sleep(0.01)
    raise TimeoutError("no reader connected")


@pytest.mark.parametrize("trust", ["nobody", "own"])
def test_what_python_publishes_python_reads(name, trust):
    sent = packets(5000)
    with burstline.publish(name, interface="mine") as publisher:
        reader = burstline.open(f"log:{name}?from=oldest&trust={trust}")
        assert publisher.write(sent) == 5000
        got, names = [], set()
        while len(got) < 5000:
            with reader.next(timeout=10) as burst:
                got += [bytes(packet) for packet in burst.packets]
                names |= {packet.port_name for packet in burst.packets}
                assert burst.hash_kind == "five-tuple" and burst.epoch > 0
                assert np.unique(burst.worklist["hash"]).size == 7
        assert got == sent and names == {"mine"}
        total = reader.report()["total"]
        assert (total["offered"], total["delivered"], total["unaccounted"]) == (5000, 5000, 0)
    assert list(reader) == [], "its end is final"
    row = publisher.report()["ports"][0]
    assert (row["offered"], row["delivered"], row["unaccounted"]) == (5000, 5000, 0)


def test_a_held_burst_of_a_log_lies_where_the_publisher_put_it(name):
    with burstline.publish(name) as publisher:
        readers = [burstline.open(f"log:{name}?from=oldest&trust={t}") for t in ("own", "nobody")]
        publisher.write(packets(10))
        own, copied = (next(reader) for reader in readers)
        assert (own.worklist == copied.worklist).all()
        with open("/proc/self/maps") as maps:
            regions = [line for line in maps if "memfd" in line]
        address = own.memory.__array_interface__["data"][0]
        other = copied.memory.__array_interface__["data"][0]

        def is_shared(at):
            ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in regions]
            return any(start <= at < end for start, end in ranges)

        assert is_shared(address) and not is_shared(other)


@pytest.mark.parametrize("trust", ["nobody", "own"])
def test_filters_choose_without_a_copy(name, trust):
    with burstline.publish(name) as publisher:
        source = f"log:{name}?from=oldest&trust={trust}"
        reader = burstline.open(source, filter="udp src port 1003", snaplen=44)
        publisher.write(packets(7000))
        got = []
        while len(got) < 1000:
            burst = reader.next(timeout=10)
            assert set(burst.columns()["source_port"].tolist()) == {1003}
            assert set(burst.lengths().tolist()) == {44}
            assert (burstline.lengths_of(burst.worklist) == 44).all()
            assert set(burst.original_lengths().tolist()) == {len(UDP)}
            got += [bytes(packet) for packet in burst.packets]
        assert got == [packet[:44] for packet in packets(7000) if packet[34:36] == b"\x03\xeb"]
        reader.next(timeout=0)
        total = reader.report()["total"]
        assert total["lost"]["filtered"] == 6000 and total["truncated"] == 1000
        assert (total["offered"], total["unaccounted"]) == (7000, 0)


def test_the_program_reads_what_python_publishes(name, program):
    with burstline.publish(name, lossless=True) as publisher:
        command = [program, "count", "--json", "-q", f"log:{name}?lossless&from=oldest"]
        before = descriptors() + 1  # and the pipe
        reader = subprocess.Popen(command, stdout=subprocess.PIPE)
        wait_for_a_reader(before)
        for _ in range(20):
            publisher.write(packets(1000))
    report = json.loads(reader.communicate(timeout=30)[0])
    assert report["total"]["delivered"] == 20_000 == publisher.report()["total"]["delivered"]
    assert report["total"]["unaccounted"] == 0


def test_python_reads_what_the_program_publishes(name, program):
    source = "gen:?packets=300000&size=64&flows=9&rate=500k"
    command = [program, "count", source, "--publish", f"{name}?lossless=9s", "--json", "-q"]
    publisher = subprocess.Popen(command, stdout=subprocess.PIPE)
    reader = burstline.open(f"log:{name}?wait=20s&from=oldest&lossless")
    seen = sum(len(burst) for burst in reader)
    theirs = json.loads(publisher.communicate(timeout=30)[0])
    total = reader.report()["total"]
    assert total["unaccounted"] == 0 and seen == total["delivered"]
    assert total["offered"] <= theirs["total"]["delivered"] == 300_000
    assert total["offered"] == total["delivered"] + total["lost"]["reader_overrun"]


def test_a_slow_reader_misses_packets_and_counts_them(name):
    with burstline.publish(name, bytes=2 << 20) as publisher:
        reader = burstline.open(f"log:{name}?from=oldest")
        for _ in range(40):
            publisher.write(packets(2000))
        assert publisher.report()["total"]["lost_total"] == 0
        publisher.close()
        seen = sum(len(burst) for burst in reader)
    total = reader.report()["total"]
    assert total["offered"] == 80_000 and total["lost"]["reader_overrun"] > 0
    assert seen == total["delivered"] == 80_000 - total["lost"]["reader_overrun"]
    assert total["unaccounted"] == 0


def test_bursts_and_packets_are_published_as_they_are(name, trace):
    with burstline.publish(name) as publisher, burstline.open(str(trace)) as source:
        reader = burstline.open(f"log:{name}?from=oldest")
        burst = next(source)
        expected = [(bytes(p), p.time_ns, p.hash) for p in burst.packets] * 2
        assert publisher.write(burst) == len(burst) == publisher.write(burst.packets)
        got = []
        while len(got) < len(expected):
            got += [(bytes(p), p.time_ns, p.hash) for p in reader.next(timeout=10).packets]
        assert got == expected
        assert publisher.write([bytearray(UDP), memoryview(UDP), np.frombuffer(UDP, "u1")]) == 3
        last = reader.next(timeout=10)
        assert [bytes(packet) for packet in last.packets] == [UDP] * 3


def test_one_thread_waits_and_another_closes(name):
    with burstline.publish(name):
        reader, errors = burstline.open(f"log:{name}"), []

        def wait():
            while not errors:
                try:
                    next(reader)
                except burstline.BusyError:
                    pass  # the other thread is in a call at the moment
                except Exception as error:  # noqa: BLE001 - whatever it is, it is what is judged
                    errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.2)
        with pytest.raises(burstline.BusyError, match="another thread"):
            while True:
                reader.next(timeout=0)
        reader.close()
        thread.join(timeout=10)
        assert not thread.is_alive() and isinstance(errors[0], burstline.ClosedError)


def test_waiting_lets_other_threads_run(name):
    with burstline.publish(name):
        reader, steps = burstline.open(f"log:{name}"), 0
        thread = threading.Thread(target=lambda: reader.next(timeout=2.0))
        thread.start()
        while thread.is_alive():
            steps += 1
        assert steps > 100_000


def test_readers_of_several_threads_share_nothing(trace):
    counts = []

    def read():
        counts.append(sum(len(burst) for burst in burstline.open(str(trace))))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert counts == [20_000] * 8


def test_a_word_is_what_exists_by_that_name(tmp_path, monkeypatch, trace):
    monkeypatch.setenv("BURSTLINE_RUN", str(tmp_path / "run"))
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    with burstline.publish("tap") as publisher:
        reader = burstline.open("tap")
        publisher.write(packets(3))
        assert len(reader.next(timeout=10)) == 3
        assert reader.report()["ports"][0]["port"] == "log:tap"
        (tmp_path / "tap").write_bytes(trace.read_bytes())
        with pytest.raises(ValueError, match="write log:tap or file:tap"):
            burstline.open("tap")
        assert sum(map(len, burstline.open("./tap"))) == 20_000
        burstline.open("log:tap").close()
    assert sum(map(len, burstline.open("tap"))) == 20_000, "nobody publishes it any more"
    with pytest.raises(burstline.AbsentError, match="tip"):
        burstline.open("tip")
