"""Files, sets and generators: the packets are right, and the ledger is the program's."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import burstline
from conftest import FLOWS, PACKETS

ROW = ["offered", "delivered", "bytes", "wire_bytes", "lost", "in_flight", "truncated",
       "fragments_unmatched", "unaccounted"]


def read(source, **options):
    with burstline.open(str(source), **options) as reader:
        packets = [bytes(packet) for burst in reader for packet in burst.packets]
    return packets, reader.report()


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"filter": "udp and greater 200"}, ["--filter", "udp and greater 200"]),
        ({"filter": "tcp"}, ["--filter", "tcp"]),
        ({"snaplen": 96}, ["--snaplen", "96"]),
        ({"filter": "less 100", "snaplen": 20}, ["--filter", "less 100", "--snaplen", "20"]),
    ],
)
def test_the_ledger_is_the_programs(trace, count, options, flags):
    packets, report = read(trace, **options)
    theirs = count(str(trace), "--hash", "five-tuple", *flags)
    assert {key: report["total"][key] for key in ROW} == {key: theirs["total"][key] for key in ROW}
    assert report["total"]["offered"] == PACKETS and report["total"]["unaccounted"] == 0
    assert len(packets) == report["total"]["delivered"]
    assert [row["lost"] for row in report["ports"]] == [row["lost"] for row in theirs["ports"]]


def test_bytes_and_times_are_those_of_the_file(trace):
    """An independent reader of the file: dpkt's."""
    dpkt = pytest.importorskip("dpkt")
    with open(trace, "rb") as file:
        expected = list(dpkt.pcapng.Reader(file))
    index = 0
    for burst in burstline.open(str(trace)):
        times = burst.times_ns().tolist()
        for packet, time_ns in zip(burst.packets, times, strict=True):
            time_s, data = expected[index]
            assert bytes(packet) == data and len(packet) == len(data) == packet.original_length
            assert packet.time_ns == time_ns and abs(time_ns / 1e9 - float(time_s)) < 1e-6
            index += 1
    assert index == PACKETS


def test_arrays_say_what_packets_say(trace):
    for burst in burstline.open(str(trace)):
        worklist, memory, columns = burst.worklist, burst.memory, burst.columns()
        lengths = burst.lengths()
        assert worklist.dtype == burstline.WORKLIST and columns.dtype == burstline.COLUMNS
        assert worklist.shape == columns.shape == lengths.shape == (len(burst),)
        assert (burstline.lengths_of(worklist) == lengths).all()
        assert (columns["length"] == lengths).all()
        assert (columns["hash"] == worklist["hash"]).all()
        assert (burst.original_lengths() == columns["original_length"]).all()
        deltas = burst.base_time_ns + worklist["time_delta_ns"].astype("u8")
        assert (deltas == burst.times_ns()).all()
        for index in (0, len(burst) // 2, len(burst) - 1):
            packet, at = burst.packets[index], int(worklist["offset"][index])
            data = bytes(packet)
            assert memory[at : at + lengths[index]].tobytes() == data
            row = columns[index]
            assert row["source"].tobytes()[12:] == data[26:30]
            assert row["destination"].tobytes()[12:] == data[30:34]
            ports = struct.unpack(">HH", data[34:38])
            assert (row["source_port"], row["destination_port"]) == ports
            assert (row["version"], row["protocol"], row["vlan"]) == (4, data[23], 65535)
            assert row["has_ports"] and packet.link_type == 1 and packet.port == row["port"]


def test_flows_are_counted_without_an_object_a_packet(trace):
    dpkt = pytest.importorskip("dpkt")
    expected: dict[tuple, int] = {}
    with open(trace, "rb") as file:
        for _, data in dpkt.pcapng.Reader(file):
            key = (data[23], data[26:38])
            expected[key] = expected.get(key, 0) + 1
    for column in ("flow", "hash"):
        found: dict[int, int] = {}
        for burst in burstline.open(str(trace)):
            for key, packets in zip(*np.unique(burst.columns()[column], return_counts=True)):
                found[int(key)] = found.get(int(key), 0) + int(packets)
        assert sorted(found.values()) == sorted(expected.values()), column
        assert len(found) == FLOWS


def test_a_set_is_its_files_one_after_the_other(trace, tmp_path):
    for number in (1, 2):
        (tmp_path / f"{number}.pcapng").write_bytes(trace.read_bytes())
    packets, report = read(f"set:{tmp_path}/*.pcapng")
    assert len(packets) == 2 * PACKETS == report["total"]["offered"]
    assert report["total"]["unaccounted"] == 0


def test_a_damaged_file_delivers_what_is_whole(trace, tmp_path):
    cut = tmp_path / "cut.pcapng"
    data = trace.read_bytes()
    cut.write_bytes(data[: len(data) * 3 // 4])
    packets, report = read(cut)
    assert 0 < len(packets) < PACKETS
    assert report["damaged"] and report["notes"] and report["total"]["unaccounted"] == 0


def test_cut_packets_say_how_long_they_were(trace):
    whole, _ = read(trace)
    with burstline.open(str(trace), snaplen=40) as reader:
        index = 0
        for burst in reader:
            originals = burst.original_lengths().tolist()
            for packet, original in zip(burst.packets, originals, strict=True):
                assert bytes(packet) == whole[index][:40]
                assert packet.original_length == original == len(whole[index])
                index += 1
    assert index == PACKETS


def test_reading_ends_and_next_says_so(trace):
    reader = burstline.open(str(trace))
    seen = 0
    while (burst := reader.next(timeout=1.0)) is not None:
        assert not reader.ended
        seen += len(burst)
    assert seen == PACKETS and reader.ended and list(reader) == [] and reader.next(timeout=0) is None
    reader.close()
    reader.close()
    with pytest.raises(burstline.ClosedError):
        next(reader)
    assert reader.closed and reader.report()["total"]["delivered"] == PACKETS
