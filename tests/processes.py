"""Workers that start at once: they are forked from a process that has imported everything.

A fresh process imports torch, Braindecode and MOABB for about eight seconds; tests/docs/test_cluster.py starts some.
"""

import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from multiprocessing import forkserver, get_context

import pytest

PRELOAD = ["matplotlib.pyplot", "braindecode_censor.paper.experiment"]


def fork_server():
    """Start a server that has imported the package, once per test worker; its order of sets is another one."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "4242")
        forkserver.ensure_running()
    return context


@contextmanager
def dask_cluster(n_workers):
    """Yield a local cluster of processes with one thread each; nannies replace killed ones."""
    import dask
    from dask.distributed import LocalCluster

    fork_server()
    options = dict(n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    # A cluster gives up if no worker has replaced a lost one by then; the next test may just have killed that one.
    config = {"distributed.worker.multiprocessing-method": "forkserver"}
    config["distributed.deploy.lost-worker-timeout"] = "1h"
    with dask.config.set(config), LocalCluster(**options) as cluster:
        yield cluster


@contextmanager
def forking_joblib():
    """Let joblib fork its workers, which it warns of, and end them."""
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.backend.context import set_start_method

    get_reusable_executor().shutdown(wait=True)
    set_start_method("fork", force=True)
    try:
        yield
    finally:
        get_reusable_executor().shutdown(wait=True)
        set_start_method(None, force=True)


def seconds_to_end():
    """Return how long an ending process may take: five seconds, and more on a loaded machine."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import joblib"], check=True)  # a process that does nothing
    return 5 + 3 * (time.monotonic() - began)


@contextmanager
def file_size_limit(size):
    """Let no file grow beyond ``size`` bytes, as the kernel does for a quota: write fails with EFBIG."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
