"""What is installed: types, docstrings, the guide's notebook."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import burstline

ROOT = Path(__file__).resolve().parents[3]


def test_stubs_are_as_the_code_is():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "burstline"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_typed_program_is_checked(tmp_path):
    pytest.importorskip("mypy")
    good = "import burstline\nwith burstline.open('x') as r:\n    n: int = sum(map(len, r))\n"
    for text, code in [(good, 0), (good.replace("open('x'", "open(1"), 1)]:
        (tmp_path / "program.py").write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stdout


def test_everything_public_is_documented():
    for name in burstline.__all__:
        thing = getattr(burstline, name)
        if not callable(thing):
            continue
        assert thing.__doc__, name
        if isinstance(thing, type):
            own = [key for key in vars(thing) if not key.startswith("_")]
            assert all(getattr(thing, key).__doc__ for key in own), (name, own)


def test_version_is_the_workspaces():
    text = (ROOT / "Cargo.toml").read_text()
    version = next(line.split('"')[1] for line in text.splitlines() if line.startswith("version ="))
    assert burstline.__version__ == version == importlib.metadata.version("burstline")


def test_the_notebook_runs(trace, monkeypatch, capsys):
    """Runs its cells, in order, in one namespace, like Jupyter."""
    notebook = json.loads((ROOT / "examples/python/flows.ipynb").read_text())
    monkeypatch.setenv("TRACE", str(trace))
    names: dict = {"__name__": "__main__"}
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert len(cells) >= 4
    for number, cell in enumerate(cells):
        exec(compile(cell, f"cell {number}", "exec"), names)  # noqa: S102 - it is our own
    assert names["report"]["total"]["unaccounted"] == 0
    assert "packets" in capsys.readouterr().out
