"""The element types of arrays: the only definition of their fields.

The worklist is the log's own memory: two words a packet, 16 bytes. ``length`` has 19 bits and
``flags`` has 5, so numpy cannot name them; ``marks`` has both, and ``lengths_of`` returns lengths.
"""

from __future__ import annotations

import numpy as np

#: One packet's entry: ``offset`` of its first byte in ``Burst.memory``; ``marks``: bits 0 to 7 the
#: port, 8 to 12 the flags, 13 to 31 the length in bytes; ``port``; ``hash``: the flow hash;
#: ``time_delta_ns``: ns after ``Burst.base_time_ns``.
WORKLIST = np.dtype(
    {
        "names": ["offset", "marks", "port", "hash", "time_delta_ns"],
        "formats": ["<u4", "<u4", "u1", "<u4", "<u4"],
        "offsets": [0, 4, 4, 8, 12],
        "itemsize": 16,
    }
)

#: One packet's row of ``Burst.columns()``. ``flow``: a 64-bit hash of the exact five-tuple, in the
#: packet's direction, 0 for what is not IP. ``source`` and ``destination``: 16 bytes, IPv4 behind
#: ``::ffff``. ``vlan``: 65535 where there is no tag. ``version``: 4, 6, or 0 for what is not IP.
COLUMNS = np.dtype(
    {
        "names": [
            "time_ns", "flow", "source", "destination", "length", "original_length", "hash",
            "source_port", "destination_port", "vlan", "version", "protocol", "port", "flags",
            "has_ports",
        ],
        "formats": [
            "<u8", "<u8", "V16", "V16", "<u4", "<u4", "<u4",
            "<u2", "<u2", "<u2", "u1", "u1", "u1", "u1",
            "?",
        ],
        "offsets": [0, 8, 16, 32, 48, 52, 56, 60, 62, 64, 66, 67, 68, 69, 70],
        "itemsize": 80,
    }
)


def lengths_of(worklist: np.ndarray) -> np.ndarray:
    """Captured bytes of each packet, uint32, from the marks of a worklist."""
    return worklist["marks"] >> np.uint32(13)
