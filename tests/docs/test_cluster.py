"""The commands for Dask and SLURM on the page on speed, on the loopback and without a GPU."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from docs.blocks import ROOT
from tiny import DATA, ONE_EPOCH, finished

from braindecode_censor.cli.main import main

pytest.importorskip("dask.distributed")
PAGE = (ROOT / "docs" / "speed.md").read_text()
SMALL = " ".join(f"--dataset-option {name}={value}" for name, value in DATA.items())


def block(title, language="sh", number=0):
    """Return a code block of a section."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)[number]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a cluster by lines of the shell, in an empty folder with a stand-in for srun; return its address."""
    monkeypatch.chdir(tmp_path)
    grid = [{"method": "mmd", "mode": "marginal", "weight": 0.1}]
    Path("small.yml").write_text(str({"grid": grid, "training": ONE_EPOCH}))
    Path("srun").write_text('#!/bin/sh\nexec "$@"\n')
    Path("srun").chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    shells = []

    def run(lines):
        host, port = address.split(":")
        lines = lines.replace("HOST", host).replace("$(hostname)", host).replace("8786", port)
        path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
        command = ["bash", "-ec", f"{lines}\nwait"]
        shells.append(subprocess.Popen(command, env=os.environ | {"PATH": path}, start_new_session=True))
        return address

    yield run
    for shell in shells:
        os.killpg(shell.pid, signal.SIGKILL)  # scheduler and workers
        shell.wait(timeout=10)


def run_experiment(line, address):
    """Run the experiment of the page on four simulated subjects."""
    line = re.sub(r"tcp://\S+", f"tcp://{address}", line)
    line = line.replace(
        "--dataset errp --preset paper --seeds 5", f"{SMALL} --preset small.yml --no-report --quiet"
    )
    command, *arguments = shlex.split(line)
    assert command == "autotransfer" and main(arguments) == 0
    assert finished(Path(arguments[-1]))


def test_workers_of_several_gpus_train_an_experiment_and_a_search(start):
    scheduler, _, experiment = block("Dask").strip().splitlines()
    address = start(f"{scheduler}\n{block('Dask', number=1)}")
    run_experiment(experiment, address)
    names = {}
    code = block("Dask", "python").replace("HOST:8786", address)
    exec(code.replace('"2h"', 'None, candidates=["waveform"], max_trainings=2'), names)
    X, y = np.random.default_rng(0).normal(size=(36, 3, 64)), np.arange(36) % 2
    names["clf"].fit(X, y, subjects=np.arange(36) // 12).client.close()
    assert len(list(Path("search").glob("*.training"))) == 2


def test_a_slurm_job_trains_an_experiment(start):
    *job, experiment = block("SLURM").strip().splitlines()
    run_experiment(experiment, start("\n".join(job)))
