"""Do the commands of the page on clusters work, on the loopback?"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from docs.runner import ROOT
from tiny import DATA, GRID, finished, run_as_fleet

from braindecode_censor.cli.main import main

pytest.importorskip("dask.distributed")


def commands(title):
    """Return the shell lines of a section."""
    section = (ROOT / "docs" / "cluster.md").read_text().split(f"\n## {title}\n")[1]
    return re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]


def test_the_lines_of_several_gpus(tmp_path, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    grid = tmp_path / "grid.yaml"
    training = {"max_epochs": 2, "batch_size": 16, "module__F1": 2, "module__D": 1}
    grid.write_text(yaml.safe_dump({"grid": GRID, "training": training}))
    data = " ".join(f"--dataset-option {name}={value}" for name, value in DATA.items())
    lines = commands("Several GPUs").replace("HOST", "127.0.0.1").replace("8786", str(port))
    lines = lines.replace("--dataset errp --seeds 5", f"--dataset simulated {data} --preset {grid} --top 1")
    lines = lines.replace("--device cuda", "--no-report --quiet").replace("results/errp", "out")
    assert "--engine fleet --backend dask" in lines and "CUDA_VISIBLE_DEVICES=$gpu" in lines
    *cluster, last = lines.strip().splitlines()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    options = {"DASK_DISTRIBUTED__DASHBOARD__LINK": "", "OMP_NUM_THREADS": "1"}
    with open(tmp_path / "log", "w") as log:
        shell = subprocess.Popen(
            ["bash", "-ec", "\n".join([*cluster, "wait"])],
            cwd=tmp_path,
            env={**os.environ, **options, "PATH": path},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            monkeypatch.chdir(tmp_path)
            command, *arguments = shlex.split(last)  # that a shell finds it: tests/autotransfer/test_cli.py
            assert command == "autotransfer" and main(arguments) == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            os.killpg(shell.pid, signal.SIGKILL)  # scheduler and workers stay, as they should
            shell.wait(timeout=10)
    alone = run_as_fleet()
    assert sorted(finished(tmp_path / "out")) == sorted(finished(alone))
    assert (tmp_path / "out" / "selected.json").read_bytes() == (alone / "selected.json").read_bytes()
