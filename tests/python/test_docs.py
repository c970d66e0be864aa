"""What README.md and docs/ print as Python is run: a document's ```python fences one behind the other, in a folder with its
```tgl file=NAME fences and dsl_examples."""

import os
import re

import pytest

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
needs = {"README.md": ["numpy"], "docs/python.md": ["numpy"], "docs/pytorch.md": ["torch"], "docs/jax.md": ["jax"],
         "docs/several-gpus.md": ["torch"]}


def fences(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for m in re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        yield m.group(1), m.group(2).strip(), m.group(3), text.count("\n", 0, m.start(3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("document", needs)
def test_document(document, tmp_path, monkeypatch):
    for package in needs[document]:
        pytest.importorskip(package)
    os.symlink(os.path.join(top, "dsl_examples"), tmp_path / "dsl_examples")
    monkeypatch.chdir(tmp_path)
    names, ran = {}, 0
    for kind, options, text, line in fences(os.path.join(top, document)):
        if kind == "tgl" and options.startswith("file="):
            (tmp_path / options[5:]).write_text(text, encoding="utf-8")
        elif kind == "python":
            exec(compile("\n" * line + text, document, "exec"), names)
            ran += 1
    assert ran
