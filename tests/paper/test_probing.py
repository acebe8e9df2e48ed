"""Are the codes in the report those that the decoder computes when it knows whose trials they are?"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.paper.probing import _codes


def test_people_are_normalised_one_by_one(data):
    X, y, subjects = (part[::3] for part in data)
    X = X * np.where(subjects == subjects[0], 50, 1)[:, None, None]  # somebody with a loud amplifier
    decoder = CensoredEEGClassifier(normalize="subject", max_epochs=1, module__F1=2, module__D=1)
    decoder.fit(X, y, subjects=subjects)

    people = sorted(set(subjects.tolist()))
    recording = SimpleNamespace(X=X, y=y, subjects=subjects, all_subjects=people, classes=["left", "right"])
    index = pd.DataFrame({"setting": ["baseline"], "seed": 0, "key": "one", "subject": people[0]})
    shelf = SimpleNamespace(load=lambda key, device: decoder)
    shown = _codes({"baseline": "baseline"}, index, shelf, recording)

    order = np.argsort(subjects, kind="stable")
    assert shown["subject"].tolist() == subjects[order].tolist()
    z = decoder.features(X[order], subjects=subjects[order])
    expected = PCA(2, svd_solver="full").fit_transform(z)
    np.testing.assert_allclose(shown[["first", "second"]], expected, atol=1e-5)
    together = PCA(2, svd_solver="full").fit_transform(decoder.features(X[order]))
    assert np.abs(together - expected).max() > 0.1  # the loud one would have decided how all are scaled
