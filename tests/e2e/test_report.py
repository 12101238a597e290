"""growpage report: records as one page that needs nothing else, the same page for the same records."""

import json
import random
import re
from html.parser import HTMLParser

import pytest
from program import growpage, refused

COUNTS = ["grow", "compress", "shrink", "start", "initial", "pressure", "capped", "fallback", "preempt"]
TIMES = ["queue_ms", "prefill_ms", "decode_ms", "demand_ms", "score_ms", "select_ms", "compact_ms"]
SUITES = ["gsm8k", "<b>sum</b>"]
POLICIES = ["full", "growpage", "fixed:512", "fixed:1024", "fixed:2048", "zipage:512", "zipage:1024"]


def run_line(**changes):
    run = {"kind": "run", "version": "0.1.0", "started": "2026-11-30T00:00:00Z", "seed": 1,
           "model": {"path": "/models/m.gguf", "hash": "xxh128:00ff", "name": "a model"},
           "cpu": "avx2", "threads": 2, "machine": {"processor": "a processor", "cores": 2},
           "suites": [], "policies": [], "concurrency": 8, "difficulty": None, "form": "short",
           "sampling": {"temperature": 0.6}, "kv": {"initial_pages": 12, "threshold": 0.0},
           "engine": {"page_size": 32, "pages": 64, "kv_bytes": 4096}}
    run.update(changes)
    return run


def sample(policy, suite, index, number, correct, pages, **changes):
    line = {"kind": "sample", "policy": policy, "suite": suite, "index": index, "sample": number,
            "correct": correct, "prompt_tokens": 20, "output_tokens": 101, "pages_mean": pages,
            "pages_peak": 9, **dict.fromkeys(COUNTS, 1), **dict.fromkeys(TIMES, 10.0)}
    line.update(changes)
    return line


def served(policy, tokens, ms):
    return {"kind": "served", "policy": policy, "samples": 1, "output_tokens": tokens,
            "serving_ms": ms, "decode_steps": 10, "concurrency": 4.5, "concurrency_max": 6,
            "pages_max": 60}


def write(path, *records):
    path.write_text("".join(json.dumps(line) + "\n" for line in records), encoding="utf-8")
    return path


@pytest.fixture
def record(tmp_path):
    """Every policy with 40 problems of each suite, twice; a problem needs a budget of its own."""
    rng = random.Random(1)
    need = {(suite, i): rng.choice([400, 900, 1500, 5000]) for suite in SUITES for i in range(40)}
    out = [run_line()]
    for place, policy in enumerate(POLICIES):
        budget = int(policy.split(":")[1]) if ":" in policy else 4000
        for (suite, i), least in need.items():
            out += [sample(policy, suite, i, n, budget >= least or rng.random() < 0.1,
                           (least / 80 + rng.random() if policy == "growpage" else budget / 32))
                    for n in range(2)]
        out.append(served(policy, 2000, 10000 - 1000 * place))
    return write(tmp_path / "record.jsonl", *out, {"kind": "end", "complete": True})


class Page(HTMLParser):
    """Tables by the title above them, rows of cells; what is fetched from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.title, self.cell, self.tags, self.foreign = {}, "", None, [], []
        self.in_title = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.foreign += [value for name, value in attrs if name in ("src", "href") and
                         not value.startswith("#")]
        if tag == "h2":
            self.title, self.in_title = "", True
        elif tag == "table":
            self.rows = self.tables.setdefault(self.title, [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None
        if tag == "h2":
            self.in_title = False

    def handle_data(self, data):
        if self.cell:
            self.rows[-1][-1] += data
        elif self.in_title:
            self.title += data


def report(path, *records):
    result = growpage("report", *records, "-o", path)
    assert result.returncode == 0 and result.out == "" and result.stderr == b"", result.err
    return path.read_text(encoding="utf-8")


def test_a_page_has_every_arm_with_its_figures(record, tmp_path):
    text = report(tmp_path / "page.html", record)
    page = Page(text)
    accuracy = page.tables["Accuracy"]
    assert accuracy[0] == ["policy", "gsm8k", "<b>sum</b>", "mean", "difference", "answers"]
    assert [row[0] for row in accuracy[1:]] == POLICIES and accuracy[1][4] == "–"
    lines = [json.loads(line) for line in record.open()]
    for row in accuracy[1:]:
        mine = [s for s in lines if s.get("policy") == row[0] and s["kind"] == "sample"]
        for cell, suite in zip(row[1:], SUITES):
            share = [s["correct"] for s in mine if s["suite"] == suite]
            mean, low, high = map(float, re.findall(r"[\d.]+", cell))
            assert abs(mean - 100 * sum(share) / len(share)) < 0.051 and low <= mean <= high
        assert row[5] == "160"
    differences = [float(row[4].split()[0]) for row in accuracy[2:]]
    assert all(abs(d - (float(row[3].split()[0]) - float(accuracy[1][3].split()[0]))) < 0.11
               for d, row in zip(differences, accuracy[2:]))
    serving = {row[0]: row[1:] for row in page.tables["Serving"]}
    assert serving["full"] == ["200.0", "0.10", "10.0", "101", "–", "4000", "4.5"]
    assert serving["fixed:512"][4:6] == ["512", "512"]
    assert page.tables["Events"][1][1:4] == ["160", "33.3", "160"]
    assert page.tables["Work at boundaries"][1] == ["full", "10.000", "10.000", "10.000", "10.000",
                                                    "400.00"]
    assert "Budgets that suffice: fixed<" in text and "Budgets that suffice: zipage<" in text
    facts = dict(page.tables["Where this comes from"])
    assert "xxh128:00ff" in facts["model"] and "a processor" in facts["machine"]
    assert facts["seed"] == "1" and facts["record"] == "record.jsonl"


def test_a_page_needs_nothing_else_and_breaks_nowhere(record, tmp_path):
    text = report(tmp_path / "page.html", record)
    page = Page(text)
    assert page.foreign == [] and "script" not in page.tags and "@import" not in text
    assert page.tags.count("svg") == 5 and text.count("</svg>") == 5
    assert "<b>" not in text and "prefers-color-scheme:dark" in text and "viewport" in text
    assert not re.search(r"['\"]black['\"]", text)


def test_the_same_records_give_the_same_page(record, tmp_path):
    assert report(tmp_path / "a", record) == report(tmp_path / "b", record)


def test_records_of_the_same_settings_are_one_arm_and_others_are_named(record, tmp_path):
    more = write(tmp_path / "more.jsonl", run_line(started="later", machine={"cores": 9}),
                 sample("full", "walk", 0, 0, True, 3.0))
    other = write(tmp_path / "other.jsonl", run_line(kv={"initial_pages": 4, "threshold": 0.0}),
                  sample("full", "walk", 0, 0, False, 3.0))
    rows = Page(report(tmp_path / "page.html", record, more, other)).tables["Accuracy"]
    assert [row[0] for row in rows[1:3]] == ["full, initial_pages 12", "growpage, initial_pages 12"]
    assert rows[-1][0] == "full, initial_pages 4" and rows[-1][1] == "–"
    assert rows[1][3].startswith("100.0") and rows[-1][3].startswith("0.0")


def test_what_cannot_be_reported_is_refused(record, tmp_path):
    page = tmp_path / "page.html"
    refused(growpage("report"), 2, "no file")
    refused(growpage("report", tmp_path / "none"), 1, "none", "No such file")
    refused(growpage("report", record, "-o", tmp_path / "no" / "page"), 1, "no/page")
    refused(growpage("report", record, record, "-o", page), 1, "twice")
    for content, word in ((b"", "no record"), (b"x\n", "not JSON"), (b'{"kind":"end"}\n', "no record"),
                          (json.dumps(run_line()).encode() + b"\n", "no answers")):
        (tmp_path / "bad").write_bytes(content)
        refused(growpage("report", tmp_path / "bad", "-o", page), 1, "bad", word)
    broken = record.read_text().splitlines(keepends=True)
    broken[3] = broken[3].replace('"correct"', '"korrect"')
    (tmp_path / "bad").write_text("".join(broken))
    refused(growpage("report", tmp_path / "bad", "-o", page), 1, "line 4", "correct is missing")
    assert not page.exists()


def test_without_gnuplot_it_is_said(record, tmp_path):
    refused(growpage("report", record, "-o", tmp_path / "page", env={"PATH": str(tmp_path)}), 1,
            "gnuplot")
    assert not (tmp_path / "page").exists()
