"""Models that the tests of the command line share."""

import os

import pytest
from program import SMOLLM, make_model


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def tiny(folder):
    """Two random layers: output means nothing, but depends on everything."""
    return make_model(folder, "tiny.gguf", "--seed", "7", "--context", "8192")


@pytest.fixture(scope="session")
def tiny_q8(folder):
    return make_model(folder, "tiny_q8.gguf", "--seed", "7", "--type", "q8_0", "--context", "8192")


@pytest.fixture(scope="session")
def speaker(folder):
    """Answers anything with the same words."""
    return make_model(folder, "speaker.gguf", "--spell", "The quick brown fox jumps over it.")


@pytest.fixture(scope="session")
def endless(folder):
    """Never stops by itself."""
    return make_model(folder, "endless.gguf", "--spell", "tick, tock; ", "--loop",
                      "--context", "1000000")


@pytest.fixture(scope="session")
def smollm():
    assert os.path.exists(SMOLLM), "make model"
    return SMOLLM
