"""The numpy reference of the method is held to account, too: spoiled dumps must be found wrong, and the
kernels' exact arithmetic and the policies must agree with it on random cases."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("script", ["check_reference.py", "check_exact.py"])
def test_reference_is_right_and_notices_what_is_wrong(script):
    run = subprocess.run([sys.executable, HERE / script], cwd=HERE.parents[1], capture_output=True,
                         text=True)
    assert run.returncode == 0, run.stdout + run.stderr
