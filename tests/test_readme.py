"""Does every Python snippet of the README run, in order, in one process?"""

import re
import warnings
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_readme_snippets_run():
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(snippets) >= 3
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for snippet in snippets:
            exec(compile(snippet, str(README), "exec"), names)
    assert names["clf"].predict_proba(names["X"]).shape == (160, 2)
    assert all(p.grad is not None for p in names["penalty"].critic_parameters())
