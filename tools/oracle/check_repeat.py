#!/usr/bin/env python3
"""Run the generators of expected values twice; every byte must be the same, and the committed one.

usage: check_repeat.py [STEP...]      steps of tools/oracle/all.sh; all that write, without an argument

Works on two copies of tests/oracle, from the root of a repository where make oracles has run.  Exit 1
and one line for each file that differs.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

STEPS = ["logits", "tokens", "templates", "reference", "perplexity"]
COMMITTED = pathlib.Path("tests/oracle")


def contents(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def generate(folder, steps):
    shutil.copytree(COMMITTED, folder, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["tools/oracle/all.sh", "--out", str(folder)] + steps, check=True)
    return contents(folder)


def differences(a, b):
    return [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]


def main():
    steps = sys.argv[1:] or STEPS
    with tempfile.TemporaryDirectory() as folder:
        first = generate(pathlib.Path(folder) / "first", steps)
        second = generate(pathlib.Path(folder) / "second", steps)
    committed = {k: v for k, v in contents(COMMITTED).items() if "__pycache__" not in k}
    wrong = [f"{name}: two runs differ" for name in differences(first, second)]
    wrong += [f"{name}: not what is committed" for name in differences(first, committed)]
    print("\n".join(wrong) or f"{len(first)} files, twice the same bytes and as committed: {steps}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
