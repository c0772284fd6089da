"""Readers killed, forked, interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import burstline
from test_published import packets


STARTED: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def nobody_is_left():
    """A test that fails leaves no process behind."""
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.communicate()


def start(text: str, *arguments: str) -> subprocess.Popen:
    # A shell's background jobs, and so their children, ignore SIGINT.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", heeds + textwrap.dedent(text), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    STARTED.append(process)
    return process


def run_in_child(body) -> str:
    """Returns the output of `body` in a child of fork(2)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing went wrong"
        try:
            body()
        except Exception as error:  # noqa: BLE001 - it is what the parent judges
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os.close(write)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the child was killed"
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_cannot_use_what_its_parent_opened(name):
    with burstline.publish(name) as publisher:
        reader = burstline.open(f"log:{name}?from=oldest&trust=own")
        publisher.write(packets(100))
        burst = next(reader)
        packet = burst.packets[0]
        for use in (
            lambda: next(reader), lambda: reader.report(), lambda: reader.close(),
            lambda: burst.worklist, lambda: burst.release(), lambda: packet.bytes,
            lambda: publisher.write(packets(1)), lambda: publisher.close(),
        ):
            said = run_in_child(use)
            assert said.startswith("ForkedError: process") and "open it again" in said, said


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_drops_everything_costs_its_parent_nothing(name):
    with burstline.publish(name) as publisher:
        reader = burstline.open(f"log:{name}?from=oldest&trust=own")
        publisher.write(packets(100))
        burst = next(reader)

        def drop():
            nonlocal reader, burst, publisher
            del reader, burst, publisher

        assert run_in_child(drop) == "nothing went wrong"
        assert [bytes(packet) for packet in burst.packets] == packets(100)
        publisher.write(packets(50))
        assert len(reader.next(timeout=10)) == 50
        assert reader.report()["total"]["unaccounted"] == 0


def test_a_killed_reader_costs_the_publisher_nothing(name):
    text = """
        import burstline, sys, time
        reader = burstline.open(f"log:{sys.argv[1]}?from=oldest&lossless&trust=own")
        kept = [next(reader).worklist]
        print("holding", flush=True)
        time.sleep(60)
    """
    with burstline.publish(name, bytes=2 << 20, lossless=True, wait_ms=60_000) as publisher:
        publisher.write(packets(100))
        reader = start(text, name)
        assert reader.stdout.readline() == "holding\n", reader.stderr.read()
        reader.kill()
        reader.communicate()
        for _ in range(40):  # more than the log has room for
            assert publisher.write(packets(2000)) == 2000
        assert publisher.report()["total"]["lost_total"] == 0


def test_a_killed_publisher_is_noticed_and_the_next_one_read(name):
    text = """
        import burstline, sys, time
        publisher = burstline.publish(sys.argv[1])
        publisher.write([bytes(60)] * 100)
        print("published", flush=True)
        time.sleep(60)
    """
    first = start(text, name)
    assert first.stdout.readline() == "published\n", first.stderr.read()
    reader = burstline.open(f"log:{name}?from=oldest")
    burst = next(reader)
    assert len(burst) == 100
    epoch = burst.epoch
    first.kill()
    first.communicate()
    assert reader.next(timeout=0.3) is None
    second = start(text, name)
    burst = reader.next(timeout=30)
    assert len(burst) == 100 and burst.epoch == epoch + 1
    total = reader.report()["total"]
    assert (total["writer_down"], total["offered"], total["unaccounted"]) == (1, 200, 0)
    second.kill()
    second.communicate()


def test_ctrl_c_ends_a_read_that_waits(name):
    text = """
        import burstline, sys
        reader = burstline.open(f"log:{sys.argv[1]}")
        try:
            print("waiting", flush=True)
            next(reader)
        except KeyboardInterrupt:
            print("interrupted", reader.report()["total"]["unaccounted"], flush=True)
    """
    with burstline.publish(name):
        reader = start(text, name)
        assert reader.stdout.readline() == "waiting\n", reader.stderr.read()
        time.sleep(0.2)
        reader.send_signal(signal.SIGINT)
        out, error = reader.communicate(timeout=30)
        assert out == "interrupted 0\n", error


def test_ctrl_c_ends_an_open_that_waits_for_a_publisher(name):
    text = """
        import burstline, sys
        try:
            print("waiting", flush=True)
            burstline.open(f"log:{sys.argv[1]}?wait=1h")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    reader = start(text, name)
    assert reader.stdout.readline() == "waiting\n", reader.stderr.read()
    time.sleep(0.5)
    reader.send_signal(signal.SIGINT)
    out, error = reader.communicate(timeout=30)
    assert out == "interrupted\n", error


def test_the_interpreter_ends_cleanly_with_everything_open(name):
    text = """
        import burstline, sys
        publisher = burstline.publish(sys.argv[1])
        reader = burstline.open(f"log:{sys.argv[1]}?from=oldest&trust=own")
        publisher.write([bytes(60)] * 10)
        burst = next(reader)
        kept, packet = burst.worklist, burst.packets[3]
        sys.modules["keep"] = (publisher, reader, burst, kept, packet)
    """
    done = start(text, name)
    out, error = done.communicate(timeout=30)
    assert (done.returncode, out, error) == (0, "", "")
