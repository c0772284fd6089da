"""Burstline: packets of published logs, files and sets as numpy views.

    import burstline

    with burstline.open("tap", filter="udp") as reader:
        for burst in reader:
            print(len(burst), burst.lengths().sum())
    print(reader.report()["total"])

A burst is a run of packets that stay where their source put them. It is valid until the loop moves
on; arrays and memoryviews of it are valid until they are collected. See docs/python.md.
"""

from __future__ import annotations

from ._dtypes import COLUMNS, WORKLIST, lengths_of
from ._errors import (
    AbsentError,
    BusyError,
    ClosedError,
    Error,
    ForkedError,
    RefusedError,
    ReleasedError,
)
from ._native import Burst, Packet, Packets, Publisher, Reader, __version__

#: A mark: the kernel left the transport checksum to a device.
FLAG_PARTIAL_CHECKSUM = 2
#: A mark: GRO or LRO merged several packets of the wire into this one.
FLAG_MERGED = 4
#: A mark: sent by the capturing host, not received.
FLAG_OUTGOING = 8
#: A mark: the device or file says that it arrived damaged.
FLAG_DAMAGED = 16

#: A verdict: the packet goes on as it is.
PASS = 1
#: A verdict: the packet is dropped.
DROP = 2
#: A verdict: the packet is dropped, and its sender gets an answer.
REJECT = 4
#: A verdict: the packet goes on, and so do all later ones of its flow, which readers do not see.
PASS_FLOW = 5

__all__ = [
    "AbsentError", "Burst", "BusyError", "COLUMNS", "ClosedError", "DROP", "Error",
    "FLAG_DAMAGED", "FLAG_MERGED", "FLAG_OUTGOING", "FLAG_PARTIAL_CHECKSUM", "ForkedError",
    "PASS", "PASS_FLOW", "Packet", "Packets", "Publisher", "REJECT", "Reader", "RefusedError",
    "ReleasedError", "WORKLIST", "__version__", "lengths_of", "open", "publish",
]


def open(  # noqa: A001 - as in io, gzip, zipfile
    source: str,
    *,
    filter: str | None = None,  # noqa: A002 - as in tcpdump's words
    snaplen: int | None = None,
    hash: str = "five-tuple",  # noqa: A002
    window: int = 4,
    steal: bool = False,
    verdicts: bool = False,
) -> Reader:
    """Opens a source, to read it burst by burst.

    source: a published name ("tap", "log:tap?from=oldest&lossless"), a file ("a.pcapng.gz"), a set
        ("set:/var/rec/*.pcapng"), an interface ("eth0"), or another address of ``burstline help
        sources``. If a word names several of these, the error asks for the scheme.
    filter: packets to deliver, as pcap-filter(7) or as ``tcpdump -ddd`` prints; the others are
        ``filtered`` in report().
    snaplen: bytes of each packet to deliver, in [1, 524287].
    hash: what the flow hash of files, sets and interfaces is computed from; a published log has
        its publisher's.
    window: segments (of a log that is copied: bursts) that may be held at a time, in [2, 8].
        Bursts held by views count; BufferError means that there are too many.
    steal: whether xdp: may take an interface away from the host that uses it.
    verdicts: whether packets wait for this reader: ``source`` is the name of ``burstline bounce A B
        --inline NAME``. Burst.verdicts and Burst.verdict() decide; undecided packets pass when
        their burst is released, and those that the filter rejects pass at once.

    A published log is copied and checked burst by burst, because its publisher is another process.
    "log:tap?trust=own" reads in place and copies nothing: you then vouch for publishers of your own
    user and of root.
    """
    return Reader(
        source, filter=filter, snaplen=snaplen, hash=hash, window=window, steal=steal,
        verdicts=verdicts,
    )


def publish(
    name: str,
    *,
    bytes: int = 16 << 20,  # noqa: A002
    mode: int = 0o600,
    lossless: bool = False,
    hash: str = "five-tuple",  # noqa: A002
    link_type: int = 1,
    interface: str = "python",
    wait_ms: int = 100,
) -> Publisher:
    """Publishes packets under ``name``, for readers in other processes.

    name: a word, or the path of a socket with a slash in it.
    bytes: memory of the log, from 1793 KiB to 64 GiB, in whole segments of 256 KiB.
    mode: who may read, like a file's mode.
    lossless: whether readers that ask for it may hold the publisher up.
    hash: what the flow hash of each packet is computed from.
    link_type: what packets begin with, a LINKTYPE_ number of libpcap; 1 is Ethernet.
    interface: the name that readers see.
    wait_ms: how long write() waits for slow readers while the log is full, before packets are lost
        as ``log_full``.
    """
    return Publisher(
        name, bytes=bytes, mode=mode, lossless=lossless, hash=hash, link_type=link_type,
        interface=interface, wait_ms=wait_ms,
    )
