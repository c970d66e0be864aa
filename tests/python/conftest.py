import os

import pytest

import tegula


@pytest.fixture(scope="session")
def k():
    return tegula.load(os.path.join(os.path.dirname(__file__), "kernels.tgl"))
