"""A wheel of what the build tree installs, in a virtual environment of its own, runs what the README prints."""

import importlib.util
import os
import subprocess
import sys
import zipfile

import numpy
import pytest

import tegula
import test_docs

build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(tegula.__file__))))


def make_wheel(folder):
    """As pyproject.toml has it made: a zip of the component and three files about it."""
    stage = folder / "stage"
    command = ["cmake", "--install", build, "--component", "python", "--prefix", str(stage)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    about = f"tegula-{tegula.__version__}.dist-info"
    files = {str(p.relative_to(stage)): p.read_bytes() for p in stage.rglob("*") if p.is_file()}
    assert "tegula/_tegula.abi3.so" in files and "tegula/nn.tgl" in files and "tegula/torch.py" in files
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: tegula\nVersion: {tegula.__version__}\n".encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp310-abi3-linux_x86_64\n"
    files[f"{about}/RECORD"] = "".join(f"{n},,\n" for n in [*files, f"{about}/RECORD"]).encode()
    path = folder / f"tegula-{tegula.__version__}-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as z:
        for name, data in files.items():
            z.writestr(name, data)
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="the wheel's name")
def test_fresh_environment(tmp_path):
    if not os.path.exists(os.path.join(build, "cmake_install.cmake")):
        pytest.skip("the package is not in a build tree")
    venv = tmp_path / "venv"
    has_pip = importlib.util.find_spec("pip") is not None       # a copy in the environment takes most of the test's time
    made = subprocess.run([sys.executable, "-m", "venv", *["--without-pip"][:has_pip], str(venv)], capture_output=True)
    if made.returncode:
        pytest.skip("this Python makes no virtual environments")
    python = str(venv / "bin" / "python")
    wheel = make_wheel(tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", wheel],
                   check=True)
    os.symlink(os.path.join(test_docs.top, "dsl_examples"), tmp_path / "dsl_examples")
    lines = [t for kind, _, t, _ in test_docs.fences(os.path.join(test_docs.top, "README.md")) if kind == "python"]
    numpy_at = os.path.dirname(os.path.dirname(numpy.__file__))
    # NumPy is the tests' own, behind the environment's packages: none is downloaded.
    program = f"import sys; sys.path.append({numpy_at!r})\n" + "\n".join(lines) + "\nprint(tegula.__file__)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([python, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(venv) in done.stdout
