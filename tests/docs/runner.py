"""Run scripts in processes that are forked from one with all imports.

A fork server imports Braindecode, MOABB and torch once per test worker, which takes about ten seconds. No script sees
what another one has registered, patched or filtered.
"""

import gc
import os
import re
import runpy
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from processes import fork_server

ROOT = Path(__file__).parent.parent.parent


class Run(NamedTuple):
    """Exit code, output and processor time of a script."""

    code: int
    output: str
    seconds: float


def run_script(path, folder, timeout=300, arguments=(), figures=None):
    """Run a Python file in `folder`, which also takes temporary files and settings, and without network.

    Reports draw only these `figures`, because all of them take most of a report's time.
    """
    arguments = [*map(str, arguments)]
    process = fork_server().Process(target=_work, args=(str(path), str(folder), arguments, figures))
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
    output = (folder / "output.txt").read_text()
    last = re.search(r"^cpu ([\d.]+)$", output, re.MULTILINE)
    return Run(process.exitcode, output, float(last[1]) if last else 0.0)


def _work(path, folder, arguments, figures):
    import matplotlib.pyplot as plt
    import torch

    from braindecode_censor.paper import page

    gc.freeze()  # Imports are no garbage.
    if figures is not None:
        page.PLOTS = [plot for plot in page.PLOTS if plot.name in figures]
    with open(Path(folder, "output.txt"), "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ.update(MNE_DATA=folder, _MNE_FAKE_HOME_DIR=folder, TMPDIR=folder)
    tempfile.tempdir = folder
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).parent))
    plt.switch_backend("Agg")
    torch.set_num_threads(1)
    socket.socket.connect = _no_network
    started = time.process_time()
    runpy.run_path(path, run_name="__main__")
    print(f"cpu {time.process_time() - started:.1f}", flush=True)


def _no_network(*args):
    raise OSError("examples and snippets must run without network")
