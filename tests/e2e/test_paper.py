"""tools/paper: killed at any point and started again it comes to the same; nothing twice, nothing lost."""

import json
import os
import signal
import subprocess
import sys
import time

from program import PROGRAM, ROOT, SLOW

TIMES = {"queue_ms", "prefill_ms", "decode_ms", "demand_ms", "score_ms", "select_ms", "compact_ms",
         "started", "wall_ms", "serving_ms", "ms", "ms_per_event", "share"}


def paper(out, *more):
    command = [sys.executable, str(ROOT / "tools" / "paper"), "--n", "4", "--only",
               "policies,overhead", "--second", "none", "--program", PROGRAM,
               "--out", str(out), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def run(out):
    process = paper(out)
    printed, complaint = process.communicate(timeout=60 * SLOW)
    assert process.returncode == 0, complaint
    return printed


def records(out):
    """All that was measured but for times."""
    found = {}
    for path in sorted(out.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.open(encoding="utf-8")]
        found[path.name] = [{k: v for k, v in line.items() if k not in TIMES} for line in lines]
    return found


def kill_behind(out, count):
    """As many records are whole, and another is being written."""
    process, limit = paper(out), time.monotonic() + 60 * SLOW
    while len(list(out.glob("*.jsonl"))) < count or not list(out.glob("*.part")):
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_a_run_that_was_killed_comes_to_the_same(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(whole)
    kill_behind(broken, 0)
    kill_behind(broken, 3)
    kept = {path.name: path.read_bytes() for path in broken.glob("*.jsonl")}
    assert 3 <= len(kept) < 7
    printed = run(broken)
    assert records(broken) == records(whole) and len(records(whole)) == 7
    assert not list(broken.glob("*.part"))
    # The one that was whole but not yet noted may have been run again.
    unchanged = [name for name, content in kept.items() if (broken / name).read_bytes() == content]
    assert len(unchanged) >= len(kept) - 1 and len(printed.splitlines()) <= 8 - len(unchanged)
    assert "Table" in (broken / "report.html").read_text(encoding="utf-8")
    asked = [(line["policy"], line["suite"], line["index"]) for lines in records(broken).values()
             for line in lines if line["kind"] == "sample"]
    assert len(asked) == len(set(asked)) == 6 * 2 * 2
    before = {path.name: path.stat().st_mtime_ns for path in broken.glob("*.jsonl")}
    page = (broken / "report.html").read_bytes()
    assert run(broken).splitlines() == [f"{broken}/report.html"]
    assert before == {path.name: path.stat().st_mtime_ns for path in broken.glob("*.jsonl")}
    assert (broken / "report.html").read_bytes() == page
