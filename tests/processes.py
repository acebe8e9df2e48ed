"""Workers that start in a moment: they are forked from a process that has imported everything already.

A fresh process imports torch, Braindecode and MOABB for about eight seconds. Tests that are about what workers do, and
about what is left when they die, need not pay for that; that fresh ones can be started is shown where a shell starts
them (tests/docs/test_cluster.py, tests/autotransfer/test_cli.py).
"""

from contextlib import contextmanager
from multiprocessing import forkserver, get_context

import pytest

PRELOAD = ["matplotlib.pyplot", "braindecode_censor.paper.experiment"]


def fork_server():
    """Return the context of a server that has imported what a training needs; it is started once per test worker.

    Its order of sets is another one than the test worker's, so that nothing can depend on it.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "4242")
        forkserver.ensure_running()
    return context


@contextmanager
def dask_cluster(n_workers):
    """Give a cluster of processes with one thread each, on the loopback; nannies replace those that are killed."""
    import dask
    from dask.distributed import LocalCluster

    fork_server()
    options = dict(n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    # This long after a cluster has lost a worker it looks whether there is a new one, and if not gives up: it must not
    # look just when the next test has killed that one, too.
    config = {"distributed.worker.multiprocessing-method": "forkserver"}
    config["distributed.deploy.lost-worker-timeout"] = "1h"
    with (
        dask.config.set(config),
        LocalCluster(**options) as cluster,
    ):
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
