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


# ---- outlines ----

def analysis(kind, *lines):
    return [{**run_line(), "kind": "analysis", "analysis": kind}, *lines]


def analyses(folder):
    """One record of each analysis; the numbers are such that they can be found again."""
    bins = [{"kind": "bin", "bin": f"delta {side} 0 {i}/4", "delta_low": low, "delta_high": low + 0.05,
             "boundaries": 3, "advantage": 0.125 * i, "advantage_low": 0, "advantage_high": 1}
            for side, low in (("<=", -0.1), (">", 0.1)) for i in range(1, 5)]
    classes = [{"kind": "class", "suite": suite, "policy": "growpage", "sufficient": budget,
                "problems": 5, "capacity": 200.0, "capacity_low": 190.0, "capacity_high": 210.0}
               for suite in ("prog", "all") for budget in (128, 256, None)]
    found = {
        "signal": [*({"kind": "pair", "delta": i - 5.5, "share_page": 0.25, "share_next": i / 10}
                     for i in range(10)),
                   {"kind": "signal", "reading": "page, share", "pairs": 10, "requests": 2, "rho": 0.625,
                    "rho_low": 0.5, "rho_high": 0.75, "agreement": 0.9, "agreement_low": 0.8,
                    "agreement_high": 1.0}],
        "counterfactual": [*bins, {"kind": "counterfactual", "boundaries": 24, "requests": 4,
                                   "horizon": 16, "advantage": 0.0625, "rho": None}],
        "budget": classes,
        "sparsity": [{"kind": "position", "from": 1 + 16 * i, "to": 16 * i + 16, "requests": 3,
                      "rows": 48, "share": 0.5, "share_low": 0.4, "share_high": 0.6, "slots": 8.0,
                      "layers": [0.25, 0.75]} for i in range(4)],
        "overhead": [{"kind": "overhead", "policy": policy, "stage": stage, "events": events,
                      "ms": 8.0, "ms_per_event": events and 0.375, "share": 0.01}
                     for policy in ("growpage", "zipage:64")
                     for stage, events in (("demand", 7), ("compact", 7), ("all", None))]}
    return {kind: write(folder / f"{kind}.jsonl", *analysis(kind, *lines)).name
            for kind, lines in found.items()}


def outlined(folder, *sections):
    path = folder / "outline.json"
    path.write_text(json.dumps({"title": "All & more", "sections": list(sections)}), encoding="utf-8")
    return path


def test_an_outline_has_sections_with_the_arms_that_it_names(record, tmp_path):
    one = write(tmp_path / "one.jsonl", run_line(suites=[{"suite": "walk"}]),
                sample("zipage:64", "walk", 0, 0, True, 2.0), served("zipage:64", 300, 1000))
    two = write(tmp_path / "two.jsonl", run_line(suites=[{"suite": "sum"}]),
                sample("zipage:96", "sum", 0, 0, False, 3.0), served("zipage:96", 100, 1000))
    outline = outlined(tmp_path,
                       {"title": "First", "text": "What <it> shows.", "records": [record.name],
                        "show": ["serving", "accuracy"]},
                       {"title": "Second", "records": [{"name": "z", "files": [one.name, str(two)],
                                                        "series": "s", "point": "p"}]})
    result = growpage("report", "--outline", outline, "-o", tmp_path / "page.html")
    assert result.returncode == 0, result.err
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>All &amp; more</h1>" in text and "What &lt;it&gt; shows." in text
    headings = re.findall(r"<h([23])>(.*?)</h", text)
    assert headings == [("2", "First"), ("3", "Serving"), ("3", "Accuracy"), ("2", "Second"),
                        ("3", "Accuracy"), ("3", "Throughput"), ("3", "Total time"),
                        ("3", "Time per output token"), ("3", "Budget"), ("3", "Serving"),
                        ("3", "Events"), ("3", "Work at boundaries"), ("2", "Where this comes from")]
    second = re.findall(r"<tr><td>z</td>.*", text)
    assert "<td>100.0 <small>" in second[0] and "<td>0.0 <small>" in second[0]
    assert second[1] == "<tr><td>z</td><td>300</td><td>100</td><td>200</td><td>–</td></tr>"
    assert second[5].startswith("<tr><td>z</td><td>200.0</td>")


def test_analyses_become_figures_and_tables(tmp_path):
    files = analyses(tmp_path)
    outline = outlined(tmp_path, *({"title": kind, "records": [{"name": "a <model>", "files": [file]}]}
                                   for kind, file in files.items()))
    result = growpage("report", "--outline", outline, "-o", tmp_path / "page.html")
    assert result.returncode == 0, result.err
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.foreign == [] and page.tags.count("svg") == 6
    assert text.count("<b>a &lt;model&gt;</b>") == 4
    assert ["page, share", "10", "2", "0.625", "0.500", "0.750", "90.0", "80.0",
            "100.0"] in page.tables["signal"]
    assert page.tables["counterfactual"][3][4] == "0.37500"
    assert page.tables["counterfactual"][-1] == ["24", "4", "16", "0.06250", "-", "-", "-", "-", "-"]
    assert ["zipage:64", "compact", "7", "8.0", "0.375", "1.00"] in page.tables["overhead"]
    # But for gnuplot's own, which are the same in every picture.
    ids = re.findall(r"id=.(\w+_plot_\d+)", text)
    assert len(ids) == len(set(ids)) > 6
    plain = report(tmp_path / "plain.html", *(tmp_path / file for file in files.values()))
    assert Page(plain).tags.count("svg") == 6


def test_a_wrong_outline_is_refused_by_its_place(record, tmp_path):
    page = tmp_path / "page.html"
    good = {"title": "t", "records": [record.name]}
    for sections, words in (([], ["sections"]),
                            ([good, {"records": []}], ["section 2", "records"]),
                            ([{**good, "shows": []}], ["section 1", "shows", "unknown"]),
                            ([{**good, "show": ["moon"]}], ["t", "moon", "no such part"]),
                            ([{**good, "show": "moon"}], ["section 1", "show"]),
                            ([{**good, "title": 3}], ["section 1", "title"]),
                            ([{"records": [{"files": [3]}]}], ["section 1", "files"]),
                            ([{"records": [{"file": "x", "files": []}]}], ["section 1", "records"]),
                            ([{"records": ["gone"]}], ["gone", "No such file"])):
        refused(growpage("report", "--outline", outlined(tmp_path, *sections), "-o", page), 1, *words)
    (tmp_path / "bad").write_text("{")
    refused(growpage("report", "--outline", tmp_path / "bad", "-o", page), 1, "bad")
    refused(growpage("report", "--outline", tmp_path / "none", "-o", page), 1, "none")
    refused(growpage("report", record, "--outline", outlined(tmp_path, good)), 2, "--outline")
    empty = write(tmp_path / "empty.jsonl", *analysis("signal"))
    refused(growpage("report", empty, "-o", page), 1, "signal", "nothing")
    assert not page.exists()


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
