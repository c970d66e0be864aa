"""examples/torch, where PyTorch (and transformers) are installed: on the CPU, two processes by gloo."""

import os
import subprocess
import sys

import pytest

import test_docs

pytest.importorskip("torch")
folder = os.path.join(test_docs.top, "examples", "torch")


def run(*command):
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tensor_parallel():
    out = run("-m", "torch.distributed.run", "--nproc-per-node", "3", os.path.join(folder, "tensor_parallel.py"))
    assert out.count("largest difference") == 3


def test_llama():
    pytest.importorskip("transformers")
    assert "largest difference of logits" in run(os.path.join(folder, "llama.py"))
