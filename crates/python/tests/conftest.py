"""Fixtures of all tests: the program, a capture file, unique published names."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest

PACKETS = 20_000
FLOWS = 50


@pytest.fixture(scope="session")
def program() -> str:
    """The program burstline of the same tree, at the path that scripts/python sets."""
    return os.environ["BURSTLINE_PROGRAM"]


@pytest.fixture(scope="session")
def trace(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pcapng file of PACKETS packets of several lengths in FLOWS flows."""
    path = tmp_path_factory.mktemp("trace") / "trace.pcapng"
    source = f"gen:?packets={PACKETS}&size=imix&flows={FLOWS}"
    subprocess.run([program, "capture", source, "-w", path, "-q"], check=True, timeout=60)
    return path


@pytest.fixture
def count(program: str):
    """The report of `burstline count --json`."""

    def run(*arguments: str) -> dict:
        command = [program, "count", "--json", "-q", *arguments]
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        return json.loads(done.stdout)

    return run


@pytest.fixture
def name(tmp_path: Path) -> str:
    """A unique socket path, so that tests do not collide."""
    return f"{tmp_path}/{uuid.uuid4().hex[:8]}"
