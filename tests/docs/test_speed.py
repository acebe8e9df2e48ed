"""The commands of the page on speed, on the loopback and without a GPU."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from docs.runner import ROOT, run_script
from tiny import DATA, ONE_EPOCH, finished

from braindecode_censor.cli.main import main

PAGE = (ROOT / "docs" / "speed.md").read_text()
OPTIONS = " ".join(f"--dataset-option {name}={value}" for name, value in DATA.items())
# An experiment and a search of seconds in the place of hours.
SMALL = {
    "--dataset errp --preset paper --seeds 5": f"--dataset simulated {OPTIONS} --preset grid.yml --no-report --quiet",
    "fit --data": "fit --trainings 2 --candidates waveform --quiet --data",
    "--device cuda": "--device cpu",
    "--jobs 16": "--jobs 1",
    "--nworkers 16": "--nworkers 1",
}


def blocks(title, language="sh"):
    """Return the code blocks of a section."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def run_line(line):
    """Run a line of the shell that starts the command of this package."""
    for old, new in SMALL.items():
        line = line.replace(old, new)
    command, *arguments = shlex.split(line)
    assert command == "autotransfer" and main(arguments) == 0


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make an empty folder with a small grid the current one."""
    monkeypatch.chdir(tmp_path)
    grid = {"grid": [{"method": "mmd", "mode": "marginal", "weight": 0.1}], "training": ONE_EPOCH}
    Path("grid.yml").write_text(yaml.safe_dump(grid))
    return tmp_path


@contextmanager
def cluster(lines, folder):
    """Run the lines that start a cluster, with a stand-in for SLURM's srun; give the address and the other lines."""
    pytest.importorskip("dask.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (folder / "srun").write_text('#!/bin/sh\nexec "$@"\n')
    (folder / "srun").chmod(0o755)
    lines = lines.replace("HOST", "127.0.0.1").replace("$(hostname)", "127.0.0.1").replace("8786", port)
    for old, new in SMALL.items():
        lines = lines.replace(old, new)
    *start, last = lines.strip().splitlines()
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    with open(folder / "log", "w") as log:
        command = ["bash", "-ec", "\n".join([*start, "wait"])]
        env = os.environ | {"PATH": path, "DASK_DISTRIBUTED__DASHBOARD__LINK": ""}
        shell = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield f"tcp://127.0.0.1:{port}", last
    finally:
        os.killpg(shell.pid, signal.SIGKILL)  # of the session that was started here
        shell.wait(timeout=10)


def test_one_machine_plans_and_trains():
    plan, run = blocks("One machine")[0].strip().splitlines()
    run_line(plan)
    assert finished(Path("results/errp")) == []
    run_line(run)
    assert finished(Path("results/errp"))


def test_commands_for_a_gpu_write_an_experiment_and_a_decoder():
    Path("recordings").mkdir()
    rng = np.random.default_rng(0)
    for k in range(1, 4):
        X, y = rng.normal(size=(12, 3, 64)), np.arange(12) % 2
        np.savez(f"recordings/subject_{k:02}.npz", X=X, y=y, sfreq=64.0, unit="uV")
    for line in blocks("GPU")[0].strip().splitlines():
        run_line(line)
    assert finished(Path("results/gpu")) and Path("decoder/model_card.md").is_file()


def test_a_dask_cluster_trains_an_experiment_and_a_search(folder):
    commands, gpus = blocks("Dask")
    scheduler, _, last = commands.strip().splitlines()
    with cluster("\n".join([scheduler, gpus.strip(), last]), folder) as (address, line):
        run_line(line)
        code = blocks("Dask", "python")[0].replace("tcp://HOST:8786", address)
        code = code.replace('time_limit="2h"', 'candidates=["waveform"], max_trainings=2, time_limit=None')
        names = {}
        exec(compile(code, "speed.md", "exec"), names)
        X, y = np.random.default_rng(0).normal(size=(36, 3, 64)), np.arange(36) % 2
        names["clf"].fit(X, y, subjects=np.arange(36) // 12)
        names["clf"].client.close()
    assert finished(Path("results/dask"))
    assert len(list(Path("search").glob("*.training"))) == 2


def test_a_slurm_job_trains_an_experiment(folder):
    with cluster(blocks("SLURM")[0], folder) as (_, line):
        run_line(line)
    assert finished(Path("results/slurm"))


def test_trials_in_a_file_are_trained_on(folder):
    script = folder / "memory.py"
    script.write_text(blocks("Memory", "python")[0])
    run = run_script(script, folder)
    assert run.code == 0, run.output[-3000:]
