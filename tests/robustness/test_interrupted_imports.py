"""Ctrl-C during the first imports: the next attempt in the same process works."""

from docs.runner import run_script

SCRIPT = """
import sys
import warnings
warnings.simplefilter("error", FutureWarning)
import numpy as np

def forget():
    for name in [name for name in sys.modules if name.startswith("braindecode_censor")]:
        del sys.modules[name]

def fit():
    import braindecode_censor as bc
    rng = np.random.default_rng(0)
    X, y, subjects = rng.normal(size=(48, 4, 64)).astype("float32"), np.arange(48) % 2, np.arange(48) // 12
    options = {"penalty__score": "nu", "max_steps": 2, "augment": None}
    bc.CensoredEEGClassifier("EEGNet", "mige", **options).fit(X, y, subjects=subjects)

# An import that was interrupted leaves no module behind, though what it has registered with torch stays.
for word in ("spectral", "callback", "protocol"):
    forget()

    class Interrupt:
        def find_spec(self, name, path=None, target=None):
            if name.startswith("braindecode_censor") and name.endswith(word):
                raise KeyboardInterrupt

    sys.meta_path.insert(0, Interrupt())
    try:
        fit()
    except KeyboardInterrupt:
        print("interrupted")
    sys.meta_path.pop(0)
    fit()
forget()
fit()
"""


def test_fit_after_an_interrupted_import(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    run = run_script(tmp_path / "script.py", tmp_path, timeout=120)
    assert run.code == 0, run.output[-3000:]
    assert run.output.count("interrupted") == 3
