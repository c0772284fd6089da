"""Counts the packets of each flow of a file with scapy: its reader, and its layers."""

import sys
import time

from scapy.layers.inet import IP, TCP, UDP
from scapy.utils import PcapReader

from rivals import tell


def main(path: str) -> None:
    began = time.perf_counter()
    flows: dict = {}
    with PcapReader(path) as reader:
        for packet in reader:
            ip = packet[IP]
            ports = ip[TCP] if ip.proto == 6 else ip[UDP]
            key = (ip.src, ip.dst, ip.proto, ports.sport, ports.dport)
            flows[key] = flows.get(key, 0) + 1
    tell(time.perf_counter() - began, list(flows.values()))


main(sys.argv[1])
