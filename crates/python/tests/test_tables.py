"""pandas, Arrow, scapy and dpkt: the same packets in their types."""

from __future__ import annotations

import socket

import pytest

import burstline


@pytest.fixture
def burst(trace):
    reader = burstline.open(str(trace))
    yield next(reader)
    reader.close()


def check(burst, times, lengths, sources, destinations, data):
    for index, packet in enumerate(burst.packets):
        raw = bytes(packet)
        assert times[index] == packet.time_ns and lengths[index] == len(raw)
        assert sources[index] == socket.inet_ntoa(raw[26:30])
        assert destinations[index] == socket.inet_ntoa(raw[30:34])
        assert data[index] == raw


def test_pandas(burst):
    pandas = pytest.importorskip("pandas")
    frame = burst.to_pandas(with_bytes=True)
    assert len(frame) == len(burst) and frame["time"].dt.tz is not None
    times = frame["time"].astype("int64").tolist()
    check(burst, times, frame["length"], frame["source"], frame["destination"], frame["bytes"])
    flows = frame.groupby("flow")["length"].agg(["size", "sum"])
    assert flows["size"].sum() == len(burst) and flows["sum"].sum() == burst.lengths().sum()
    assert "bytes" not in burst.to_pandas() and isinstance(frame, pandas.DataFrame)


def test_arrow(burst):
    arrow = pytest.importorskip("pyarrow")
    batch = burst.to_arrow(with_bytes=True)
    assert batch.num_rows == len(burst) and batch.schema.field("time").type == arrow.timestamp(
        "ns", tz="UTC"
    )
    columns = {name: batch.column(name) for name in batch.schema.names}
    check(
        burst,
        columns["time"].cast(arrow.int64()).to_pylist(),
        columns["length"].to_pylist(),
        columns["source"].to_pylist(),
        columns["destination"].to_pylist(),
        columns["bytes"].to_pylist(),
    )


def test_scapy(burst):
    pytest.importorskip("scapy")
    packet = burst.packets[0]
    dissected = packet.scapy()
    assert bytes(dissected) == bytes(packet)
    assert dissected["IP"].src == socket.inet_ntoa(bytes(packet)[26:30])
    assert abs(float(dissected.time) - packet.time_ns / 1e9) < 1e-5


def test_dpkt(burst):
    pytest.importorskip("dpkt")
    packet = burst.packets[0]
    dissected = packet.dpkt()
    assert bytes(dissected) == bytes(packet)
    assert dissected.data.src == bytes(packet)[26:30]


def test_tables_are_copies(burst):
    pytest.importorskip("pandas")
    frame = burst.to_pandas()
    total = int(burst.lengths().sum())
    burst.release()
    assert int(frame["length"].sum()) == total
