"""Verdicts on the packets of `burstline bounce --inline`, in columns and one by one."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

import burstline

FLOWS = 6
PACKETS = 3000


class Bounce:
    """A bounce from its input to a file, and its report."""

    def __init__(self, program: str, folder: Path, name: str, inline: str = "deadline=1s"):
        self.traffic, self.out = folder / "in.pcap", folder / "out.pcap"
        source = f"gen:?packets={PACKETS}&size=imix&flows={FLOWS}"
        subprocess.run([program, "capture", "-q", source, "-w", self.traffic], check=True)
        command = [program, "bounce", "-", self.out, "--json", "-q", "--inline", f"{name}?{inline}"]
        self.job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not Path(name).exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def feed(self) -> None:
        """Sends all traffic; the log ends when all packets are decided."""
        self.job.stdin.write(self.traffic.read_bytes())
        self.job.stdin.close()

    def end(self) -> dict:
        report = json.loads(self.job.stdout.read())
        self.job.stdout.close()
        assert self.job.wait(timeout=30) == 0, report
        total = report["total"]
        assert (total["offered"], total["unaccounted"], total["in_flight"]) == (PACKETS, 0, 0)
        return total


@pytest.fixture
def bounce(program, tmp_path, name):
    made = Bounce(program, tmp_path, name)
    yield made
    made.job.kill()
    made.job.wait()


def lengths(file: Path) -> list[int]:
    return [int(length) for burst in burstline.open(f"file:{file}") for length in burst.lengths()]


def test_a_column_decides_and_the_rest_passes(bounce, name):
    with burstline.open(f"log:{name}", verdicts=True) as reader:
        bounce.feed()
        seen = dropped = 0
        for burst in reader:
            verdicts, is_long = burst.verdicts, burst.lengths() > 500
            assert verdicts.dtype == "u1" and (verdicts == burstline.PASS).all()
            verdicts[is_long] = burstline.DROP
            seen, dropped = seen + len(burst), dropped + int(is_long.sum())
        assert reader.report()["total"]["unaccounted"] == 0
    total = bounce.end()
    assert seen == PACKETS and 0 < dropped < PACKETS
    assert total["lost"] == {"dropped_by_verdict": dropped}
    assert lengths(bounce.out) == [n for n in lengths(bounce.traffic) if n <= 500]


def test_a_packet_is_decided_once_and_at_once(bounce, name):
    with burstline.open(f"log:{name}", verdicts=True) as reader:
        bounce.feed()
        replaced = dropped = 0
        for burst in reader:
            burst.verdicts[:] = burstline.DROP
            for at, packet in enumerate(burst.packets):
                if at % 3 == 0:
                    burst.verdict(at - len(burst), "pass")
                    with pytest.raises(ValueError, match="already"):
                        burst.verdict(at, burstline.DROP)
                elif at % 3 == 1:
                    burst.replace(at, bytes(packet)[:-1] + b"!")
                    replaced += 1
                else:
                    dropped += 1
            for wrong in (len(burst), -len(burst) - 1):
                with pytest.raises(IndexError, match=f"packet {wrong} of a burst"):
                    burst.verdict(wrong, "drop")
            last, kept = burst, burst.verdicts
        kept[:] = burstline.PASS  # too late, and no harm
        for late in (lambda: last.verdict(0, "drop"), lambda: last.verdicts):
            with pytest.raises(burstline.ReleasedError):
                late()
    assert bounce.end()["lost"] == {"dropped_by_verdict": dropped}
    out = [bytes(p) for burst in burstline.open(f"file:{bounce.out}") for p in burst.packets]
    assert sum(packet.endswith(b"!") for packet in out) >= replaced > 0


def test_what_is_wrong_is_said_and_costs_only_its_packet(bounce, name):
    with burstline.open(f"log:{name}", verdicts=True) as reader:
        with pytest.raises(burstline.RefusedError, match="another reader gives verdicts"):
            burstline.open(f"log:{name}", verdicts=True)
        bounce.feed()
        burst = next(reader)
        for wrong in ("replace", 3, 0):
            with pytest.raises(ValueError, match="must be 'pass'"):
                burst.verdict(0, wrong)
        for wrong in (b"short", bytes(70_000)):
            with pytest.raises(ValueError, match="a replacement of"):
                burst.replace(0, wrong)
        burst.verdicts[0] = 77
        with pytest.raises(ValueError, match=r"verdicts\[0\] is 77"):
            burst.release()
        assert sum(map(len, reader)) > 0, "the loop goes on"
    total = bounce.end()
    assert total["lost"] == {"verdict_late": 1}, "the one packet without a verdict"


def test_what_the_filter_does_not_want_passes(bounce, name):
    with burstline.open(f"log:{name}", verdicts=True, filter="greater 500") as reader:
        bounce.feed()
        dropped = 0
        for burst in reader:
            burst.verdicts[:] = burstline.DROP
            dropped += len(burst)
    assert bounce.end()["lost"] == {"dropped_by_verdict": dropped}
    assert dropped > 0 and max(lengths(bounce.out)) < 500


def test_who_looks_on_and_what_takes_none_are_errors(bounce, name, trace, tmp_path):
    looker = burstline.open(f"log:{name}")
    with burstline.open(f"log:{name}", verdicts=True) as reader:
        bounce.feed()
        burst = next(looker)
        with pytest.raises(ValueError, match="verdicts=True"):
            burst.verdict(0, "drop")
        with pytest.raises(ValueError, match="verdicts=True"):
            burst.verdicts  # noqa: B018 - it is the look that is wrong
        assert sum(map(len, reader)) == PACKETS
    assert bounce.end()["lost_total"] == 0
    with pytest.raises(ValueError, match="not a published log"):
        burstline.open(str(trace), verdicts=True)
    with burstline.publish(f"{name}-plain"):
        with pytest.raises(burstline.RefusedError, match="verdicts"):
            burstline.open(f"log:{name}-plain", verdicts=True)


def test_the_example_of_the_page_runs(bounce, name):
    page = Path(__file__, "../../../../docs/python.md").resolve().read_text()
    section = page.split("\n## Give verdicts\n")[1]
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    assert '"log:ips"' in example
    opened = burstline.open

    def open_and_feed(source, **options):
        reader = opened(source.replace("ips", name), **options)
        bounce.feed()
        return reader

    burstline.open = open_and_feed
    try:
        exec(compile(example, "python.md", "exec"), {})  # noqa: S102 - it is our own page
    finally:
        burstline.open = opened
    long = sum(length > 1000 for length in lengths(bounce.traffic))
    assert bounce.end()["lost"] == {"dropped_by_verdict": long} and long > 0
