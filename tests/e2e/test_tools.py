"""The scripts behind make setup, make model and make demo."""

import os
import re
import shutil
import subprocess

from program import BUILD, ROOT, SLOW


def tool(*args, **env):
    return subprocess.run(args, capture_output=True, text=True, cwd=ROOT, timeout=300 * SLOW,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **env})


def test_the_demo_shows_growth_and_compaction(smollm):
    result = tool("tools/demo", smollm, GP_BUILD=str(BUILD))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("$ growpage run ") and len(result.stdout) > 800
    grow, compress = map(int, re.search(r"events  (\d+) grow, (\d+) compress", result.stderr).groups())
    assert grow >= 3 and compress >= 3
    held, full = re.search(r"kv +([\d.]+) MiB held; a full cache: ([\d.]+) MiB", result.stderr).groups()
    assert float(held) < 0.8 * float(full)


def test_the_demo_is_right_in_half_the_memory():
    result = tool("tools/demo", GP_BUILD=str(BUILD))
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip().endswith("\\boxed{abcel}")  # 7 + 8 + 3 + 6 + 2 = 26
    grow, compress = map(int, re.search(r"events  (\d+) grow, (\d+) compress", result.stderr).groups())
    assert grow >= 1 and compress >= 3
    held, full = re.search(r"kv +([\d.]+) MiB held; a full cache: ([\d.]+) MiB", result.stderr).groups()
    assert float(held) <= 0.6 * float(full)


def test_setup_has_nothing_to_do_twice():
    result = tool("tools/setup")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def setup_on_a_bare_machine(folder, **commands):
    """As anybody but root, where no package is installed, and nothing is there but these commands."""
    for name, body in {"id": "echo 1000", "dpkg-query": "exit 1", **commands}.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    (folder / "dirname").symlink_to(shutil.which("dirname"))
    return tool("/bin/sh", "tools/setup", PATH=str(folder))


def test_setup_names_what_only_root_can_install(tmp_path):
    result = setup_on_a_bare_machine(tmp_path)
    assert result.returncode == 1 and result.stdout == ""
    assert "apt-get update && apt-get install --no-install-recommends gcc make" in result.stderr


def test_setup_goes_through_sudo_where_it_is(tmp_path):
    result = setup_on_a_bare_machine(tmp_path, sudo='echo "sudo $*" >&2')
    assert result.returncode == 0 and "setup: installing gcc make" in result.stdout
    update, install = result.stderr.splitlines()
    assert update.startswith("sudo apt-get update") and "apt-get install" in install
    assert install.split()[-1] == (ROOT / "tools/packages.txt").read_text().split()[-1]


def test_a_model_that_is_there_is_not_fetched(smollm, tmp_path):
    there = tmp_path / "there.gguf"
    there.write_bytes(b"whatever")
    quiet = (0, "", "")
    for args, env in ((["models/none.gguf"], {"MODEL": str(there)}), ([str(there)], {"MODEL": ""})):
        result = tool("tools/fetch-model", *args, **env)
        assert (result.returncode, result.stdout, result.stderr) == quiet
    result = tool("tools/fetch-model", MODEL=str(tmp_path / "gone"))
    assert result.returncode == 1 and "gone: no such file" in result.stderr
