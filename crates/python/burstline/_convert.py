"""Bursts and packets for other libraries, each imported on first use. All is copied."""

from __future__ import annotations

import importlib
import ipaddress
from typing import Any

import numpy as np

#: Columns of tables, in this order, with their units in their names.
_PLAIN = [
    "length", "original_length", "hash", "flow", "source_port", "destination_port", "vlan",
    "version", "protocol", "port", "flags",
]


def _library(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {package}: pip install {package}") from error


def _addresses(rows: np.ndarray, field: str) -> list[str | None]:
    """Addresses as text; each distinct one is converted once."""
    known: dict[bytes, str] = {}
    texts: list[str | None] = []
    raw = np.ascontiguousarray(rows[field]).tobytes()
    for index, version in enumerate(rows["version"].tolist()):
        if not version:
            texts.append(None)
            continue
        key = raw[16 * index : 16 * index + 16]
        if key not in known:
            packed = key[12:] if version == 4 else key
            known[key] = str(ipaddress.ip_address(packed))
        texts.append(known[key])
    return texts


def to_pandas(burst: Any, with_bytes: bool) -> Any:
    """A DataFrame: ``time`` (UTC, ns), the plain columns, addresses as text."""
    pandas = _library("pandas", "pandas")
    rows = burst.columns()
    columns: dict[str, Any] = {"time": pandas.to_datetime(rows["time_ns"], unit="ns", utc=True)}
    columns.update({name: rows[name].copy() for name in _PLAIN})
    columns["source"] = _addresses(rows, "source")
    columns["destination"] = _addresses(rows, "destination")
    if with_bytes:
        columns["bytes"] = [bytes(packet) for packet in burst.packets]
    return pandas.DataFrame(columns)


def to_arrow(burst: Any, with_bytes: bool) -> Any:
    """A RecordBatch: ``time`` as timestamp[ns, UTC], the plain columns, addresses as strings."""
    arrow = _library("pyarrow", "pyarrow")
    rows = burst.columns()
    times = arrow.array(rows["time_ns"].astype("<i8"), type=arrow.timestamp("ns", tz="UTC"))
    columns = {"time": times}
    columns.update({name: arrow.array(np.ascontiguousarray(rows[name])) for name in _PLAIN})
    for name in ("source", "destination"):
        columns[name] = arrow.array(_addresses(rows, name), type=arrow.string())
    if with_bytes:
        packets = [bytes(packet) for packet in burst.packets]
        columns["bytes"] = arrow.array(packets, type=arrow.binary())
    return arrow.RecordBatch.from_pydict(columns)


#: What packets of a link type begin with, in each library. Source: LINKTYPE_ values of libpcap.
_SCAPY = {1: ("scapy.layers.l2", "Ether"), 113: ("scapy.layers.l2", "CookedLinux"),
          101: ("scapy.layers.inet", "IP")}
_DPKT = {1: ("dpkt.ethernet", "Ethernet"), 113: ("dpkt.sll", "SLL"), 101: ("dpkt.ip", "IP")}


def _class_for(packet: Any, classes: dict[int, tuple[str, str]], library: str) -> Any:
    link_type = packet.link_type
    if link_type not in classes:
        known = ", ".join(map(str, sorted(classes)))
        raise ValueError(f"no {library} class for link type {link_type}: supported are {known}")
    module, name = classes[link_type]
    return getattr(_library(module, library), name)


def to_scapy(packet: Any) -> Any:
    """The packet as scapy dissects it, with its time."""
    for layers in ("scapy.layers.inet", "scapy.layers.inet6"):
        _library(layers, "scapy")  # otherwise scapy's Ethernet does not know IP
    found = _class_for(packet, _SCAPY, "scapy")(bytes(packet))
    found.time = packet.time_ns / 1e9
    found.wirelen = packet.original_length
    return found


def to_dpkt(packet: Any) -> Any:
    """The packet as dpkt dissects it."""
    return _class_for(packet, _DPKT, "dpkt")(bytes(packet))
