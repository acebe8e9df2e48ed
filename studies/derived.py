"""Arrays that are computed from fitted models: in parallel, and once, because a store keeps them beside the models."""

import joblib

from braindecode_censor.run.decode import quiet
from braindecode_censor.run.model import unpack_model
from braindecode_censor.storage.tensors import read_tensors, write_tensors

__all__ = ["derive"]

_FORMAT = "braindecode-censor arrays of a study 1"


def derive(results, data, store, name, function, n_jobs=1):
    """Yield results of trainings, each with function(training, estimator): a dictionary of arrays.

    The name stands for all that the arrays depend on besides the training.
    """
    keys = [f"{result.training.key(data)}-{name}" for result in results]
    contents = [store.read(key) for key in keys]
    tasks = [(result.training, result.model) for result, content in zip(results, contents) if content is None]
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        pool = joblib.Parallel(n_jobs, return_as="generator")
        computed = pool(joblib.delayed(_apply)(function, training, model) for training, model in tasks)
        for result, key, content in zip(results, keys, contents):
            if content is None:
                content = write_tensors(next(computed), {}, _FORMAT)
                store.write(key, content)
            _, tensors = read_tensors(content, _FORMAT, key, finite=False)
            yield result, {column: tensor.numpy() for column, tensor in tensors.items()}


def _apply(function, training, model):
    with quiet():
        return function(training, unpack_model(model))
