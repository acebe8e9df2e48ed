"""A PyTorch user tries every method in the loop of the page on training."""

import re
from pathlib import Path

from braindecode_censor.penalties.measures import MEASURES

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
(LOOP,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "critic_step" in text]
README = (Path(__file__).parents[2] / "README.md").read_text()
(STEP,) = [text for text in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "make_penalty" in text]

for method in MEASURES:
    for text, word in ((LOOP, '"adv"'), (STEP, '"mmd"')):
        assert word in text
        names = {}
        exec(text.replace(word, f'"{method}"'), names)
        # Without a critic too, its loss can be backpropagated.
        z, s = names["z"], names.get("s", names.get("s_batch"))
        names["criterion"].critic_loss(z, s, names.get("y", names.get("y_batch"))).backward()
