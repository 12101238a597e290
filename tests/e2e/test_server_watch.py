"""What the server shows of itself: the web page, the memory as it changes, what clients look up."""

import contextlib
import http.client
import json
import pathlib
import re
import time

import pytest
from program import ROOT, SLOW, growpage
from serving import serving

PAGE = pathlib.Path(ROOT / "src/server/page")
FILES = {"/": ("page.html", "text/html"), "/page.css": ("page.css", "text/css"),
         "/page.js": ("page.js", "text/javascript")}


@pytest.fixture(scope="module")
def server(endless):
    """Small pages, so that boundaries come often."""
    with serving(endless, "-np", "4", "-c", "4096", "--page-size", "16", "--kv-pages", "64",
                 "--kv-protect", "4", "--kv-initial-pages", "2", "--api-key", "k") as server:
        yield server


ASK = {"headers": {"X-Api-Key": "k"}}
LONG = {"prompt": "x", "max_tokens": 3000, "ignore_eos": True}


# ---- the page ----

def test_the_page_is_served_as_it_lies_in_the_tree(server):
    for path, (name, kind) in FILES.items():
        status, headers, body = server.request("GET", path)
        assert status == 200 and headers["Content-Type"] == kind + "; charset=utf-8"
        assert body == (PAGE / name).read_text()
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy
        assert "unsafe" not in policy and headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_asks_nobody_else_and_runs_nothing_inline():
    html = (PAGE / "page.html").read_text()
    assert set(re.findall(r'(?:src|href)="([^"#][^"]*)"', html)) - {"/page.css", "/page.js"} == {
        re.search(r'rel="icon" href="(data:[^"]*)"', html)[1]}
    assert not re.search(r"\son\w+\s*=", html) and not re.search(r"\sstyle\s*=", html)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", html) == [""]
    for name in ("page.css", "page.js"):
        text = (PAGE / name).read_text()
        assert not re.search(r"@import|url\(|innerHTML|insertAdjacentHTML|\beval\(", text)
        assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}


def test_the_script_finds_what_it_looks_for():
    ids = re.findall(r'\sid="([^"]+)"', (PAGE / "page.html").read_text())
    assert len(ids) == len(set(ids))
    script = (PAGE / "page.js").read_text()
    wanted = set(re.findall(r'\$\("([\w-]+)"\)', script))
    assert len(wanted) > 15 and wanted <= set(ids)
    names = re.findall(r'setNumbers\(\w+, ([^)]*)\)', script)
    assert {"o-" + n for line in names for n in re.findall(r'"(\w+)"', line)} <= set(ids)


# ---- events ----

@contextlib.contextmanager
def pictures(server, timeout=30):
    """The pictures of /v1/kv/events, as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout * SLOW)
    connection.request("GET", "/v1/kv/events", headers=ASK["headers"])
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.headers["Content-Type"] == "text/event-stream"

    def read():
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    try:
        yield read()
    finally:
        connection.close()


def test_every_event_is_told_once_and_in_order(server):
    told = {}
    with pictures(server) as stream:
        assert next(stream)["requests"] == []
        with server.open_post("/v1/completions", {**LONG, "n": 2, "max_tokens": 900}, "k"):
            ends = {}
            for picture in stream:
                for request in picture["requests"] + picture.get("ended", []):
                    who = request["id_task"], request["choice"]
                    told.setdefault(who, []).extend(request["events"])
                    assert len(told[who]) == request["event_count"]
                for request in picture.get("ended", []):
                    ends[request["choice"]] = request["finish"]
                if ends == {0: "length", 1: "length"}:
                    break
    assert len(told) == 2
    for events in told.values():
        tokens = [event["tokens"] for event in events]
        assert len(tokens) > 20 and tokens == sorted(set(tokens))
        assert any("delta" in event for event in events)
        for event in events:
            change = event["pages_after"] - event["pages_before"]
            assert change == {"grow": 1, "compress": 0, "shrink": -1}[event["action"]]


def test_a_late_listener_sees_the_whole(server):
    with server.open_post("/v1/completions", {**LONG, "kv": {"policy": "fixed:64"}}, "k"):
        deadline = time.monotonic() + 20 * SLOW
        while True:
            requests = server.get("/v1/kv", **ASK)["requests"]
            if requests and requests[0]["event_count"] >= 10:
                break
            assert time.monotonic() < deadline
        with pictures(server) as stream:
            request, = next(stream)["requests"]
        assert request["state"] == "running" and request["policy"] == "fixed:64"
        assert request["event_count"] >= 10 and 10 <= len(request["events"]) <= 32
        kv = request["kv"]
        assert kv["pages"] <= kv["budget_pages"] == 4 and kv["tokens_kept"] < kv["tokens_logical"]


def test_listeners_are_counted_and_forgotten(server):
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            next(stack.enter_context(pictures(server)))
        assert "listen" in server.get("/v1/kv/events", 503, **ASK)["error"]["message"]
    deadline = time.monotonic() + 10 * SLOW
    while True:
        with contextlib.suppress(AssertionError), pictures(server) as stream:
            assert next(stream)["pool"]["pages"] == 64
            return
        assert time.monotonic() < deadline


def test_a_stop_ends_who_listens(tiny):
    with serving(tiny, "-c", "512") as server, pictures(server) as stream:
        next(stream)
        began = time.monotonic()
        assert server.stop() == 0
        assert list(stream) == [] and time.monotonic() - began < 5 * SLOW


# ---- what clients look up ----

def test_a_harness_finds_the_tokenizer(server, smollm):
    info = server.get("/tokenizer_info", **ASK)
    assert set(info) >= {"eos_token", "bos_token", "pad_token", "chat_template"}
    with serving(smollm, "-c", "512", "-np", "1") as small:
        info = small.get("/tokenizer_info")
        assert (info["bos_token"], info["eos_token"]) == ("<|im_start|>", "<|im_end|>")
        assert info["chat_template"].startswith("{% for message in messages %}")
        tokens = small.post("/tokenize", {"prompt": "test", "add_special_tokens": False})["tokens"]
        assert small.post("/detokenize", {"tokens": tokens})["prompt"] == "test"
        props = small.get("/props")
        assert props["chat_template"] == info["chat_template"]
        assert props["model_path"] == smollm and props["total_slots"] == 1


# ---- the description ----

def test_the_description_has_every_route_and_no_other():
    table = pathlib.Path(ROOT / "src/server/routes.c").read_text()
    routes = {(path.replace("*", "{id}"), method.lower()) for method, path in
              re.findall(r'\.method = "(\w+)", \.path = "([^"]+)"', re.sub(r"\s+", " ", table))}
    described, path = set(), None
    text = pathlib.Path(ROOT / "docs/openapi.yaml").read_text()
    for line in text[text.index("\npaths:"):text.index("\ncomponents:")].splitlines():
        if match := re.fullmatch(r"  (/\S*):", line):
            path = match[1]
        elif match := re.match(r"    (get|post|put|delete):", line):
            described.add((path, match[1]))
    assert len(routes) > 15 and described == routes


def test_the_dashboard_asks_for_what_is_measured(server):
    text = pathlib.Path(ROOT / "deploy/grafana.json").read_text()
    known = set(re.findall(r"^# TYPE (\S+)", server.get("/metrics", **ASK), re.MULTILINE))
    expressions = " ".join(target["expr"] for panel in json.loads(text)["panels"]
                           for target in panel["targets"])
    asked = set(re.findall(r"(?:vllm|growpage):\w+", expressions))
    assert len(asked) > 20
    assert {re.sub(r"_bucket$", "", name) for name in asked} <= known


def test_the_unit_and_the_container_start_what_there_is():
    unit = pathlib.Path(ROOT / "deploy/growpage.service").read_text()
    container = pathlib.Path(ROOT / "deploy/Containerfile").read_text()
    assert "ExecStart=/usr/local/bin/growpage serve\n" in unit
    help_text = growpage("serve", "--help").out
    for name in re.findall(r"GROWPAGE_ARG_([A-Z_]+)", unit + container):
        assert "--" + name.lower().replace("_", "-") + " " in help_text
