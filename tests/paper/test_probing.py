"""The codes in the report are those of a decoder that knows the subject of every trial."""

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.paper import probing
from braindecode_censor.run.training import TrialData


def test_codes_are_normalised_by_subject(data, monkeypatch):
    X, y, subjects = (array[::3] for array in data)
    X = X * np.where(subjects == subjects[0], 50, 1)[:, None, None]  # one subject with a large amplitude
    decoder = CensoredEEGClassifier(normalize="subject", max_epochs=1, module__F1=2, module__D=1)
    decoder.fit(X, y, subjects=subjects)

    trials = TrialData(X, y, subjects)
    trials.all_subjects, trials.classes = sorted(set(subjects.tolist())), ["left", "right"]
    index = pd.DataFrame(
        {"setting": ["baseline"], "seed": 0, "key": "one", "subject": trials.all_subjects[0]}
    )
    monkeypatch.setattr(probing, "load_decoder", lambda out, key: decoder)
    codes = probing._codes(None, {"baseline": "baseline"}, index, trials)

    order = np.argsort(subjects, kind="stable")
    assert codes["subject"].tolist() == subjects[order].tolist()
    z = decoder.features(X[order], subjects=subjects[order])
    expected = PCA(2, svd_solver="full").fit_transform(z)
    np.testing.assert_allclose(codes[["first", "second"]], expected, atol=1e-5)
    together = PCA(2, svd_solver="full").fit_transform(decoder.features(X[order]))
    assert np.abs(together - expected).max() > 0.1  # the large amplitude would scale all subjects
