"""growpage loadtest against our server, and against one that does what a test wants."""

import contextlib
import http.server
import json
import threading
import time

import pytest
from program import SLOW, growpage, refused
from serving import serving


@pytest.fixture(scope="module")
def server(endless):
    with serving(endless, "-np", "8", "-c", "2048", "--page-size", "64", "--kv-pages", "300",
                 "--api-key", "k", "--alias", "ours") as server:
        yield server


def loadtest(url, *args, **kwargs):
    return growpage("loadtest", url, "-o", "json", *args, **kwargs)


def figures(url, *args):
    result = loadtest(url, *args)
    assert result.returncode == 0, result.err
    return result.json[0]


SPREAD = {"mean", "p50", "p90", "p99", "max"}


@pytest.mark.parametrize("chat", [False, True])
def test_figures_of_our_server(server, chat):
    before = server.request("GET", "/metrics", headers={"X-Api-Key": "k"})[2]
    got = figures(server.url + ("/v1/" if chat else ""), "--api-key", "k", "--requests", "20",
                  "--prompt-len", "uniform:10:60", "--output-len", "24", "--concurrency", "4",
                  *(["--chat"] if chat else []))
    assert (got["requests"], got["failed"], got["model"], got["counted"]) == (20, 0, "ours", True)
    assert got["output_tokens"] == 20 * 24 and got["prompt_tokens"] > 20 * 10
    for name in ("ttft_ms", "tpot_ms", "gap_ms", "e2e_ms"):
        assert set(got[name]) == SPREAD
        assert 0 <= got[name]["p50"] <= got[name]["p90"] <= got[name]["p99"] <= got[name]["max"]
    assert got["ttft_ms"]["p50"] <= got["e2e_ms"]["p50"]
    assert abs(got["tps"] - got["output_tokens"] / got["total_s"]) < 1e-6 * got["tps"]
    assert got["rate"] is None and got["concurrency"] == 4
    after = server.request("GET", "/metrics", headers={"X-Api-Key": "k"})[2]
    name = "vllm:generation_tokens_total "
    told = [float(next(line for line in text.splitlines() if line.startswith(name)).split()[1])
            for text in (before, after)]
    assert told[1] - told[0] == 480


def test_other_forms(server):
    args = ("--api-key", "k", "--requests", "4", "--prompt-len", "8", "--output-len", "3")
    table = growpage("loadtest", server.url, *args)
    assert table.returncode == 0 and "ttft_ms" in table.out and "loadtest |" in table.out
    lines = growpage("loadtest", server.url, "-o", "csv", *args).out.splitlines()
    assert len(lines) == 2 and "ttft_ms.p99" in lines[0]


# ---- a server that does what it is told ----

class Fake(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def chunk(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_GET(self):
        body = b'{"data":[{"id":"fake"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        plan = self.server.plan
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with plan.lock:
            plan.bodies.append(body)
            plan.arrivals.append(time.monotonic())
            plan.now += 1
            plan.most = max(plan.most, plan.now)
        try:
            plan.answer(self, body)
        finally:
            with plan.lock:
                plan.now -= 1

    def stream(self, frames, wait=0.0):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for frame in frames:
            time.sleep(wait)
            self.chunk(frame)
        self.wfile.write(b"0\r\n\r\n")


class Plan:
    def __init__(self, answer):
        self.answer, self.lock = answer, threading.Lock()
        self.bodies, self.arrivals, self.now, self.most = [], [], 0, 0


@contextlib.contextmanager
def fake(answer):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    server.plan = Plan(answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.plan
    finally:
        server.shutdown()
        server.server_close()


def text(word):
    return 'data: {"choices":[{"index":0,"text":"%s"}]}\n\n' % word


USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":5}}\n\n'
DONE = "data: [DONE]\n\n"


def test_times_are_those_of_the_stream():
    def answer(handler, body):
        handler.stream([": ping\n\n", 'data: {"choices":[{"text":""}]}\n\n', text("a"), text("b"),
                        text("c"), USAGE + DONE], wait=0.1)

    with fake(answer) as (url, plan):
        got = figures(url, "--requests", "6", "--concurrency", "3", "--prompt-len", "20",
                      "--output-len", "9", "--seed", "5")
        again = figures(url, "--requests", "6", "--prompt-len", "20", "--output-len", "9",
                        "--seed", "5", "--model", "x")
    assert plan.most <= 6 and (got["model"], again["model"]) == ("fake", "x")
    assert got["prompt_tokens"] == 66 and got["output_tokens"] == 30
    slack = 400 * SLOW
    assert 300 <= got["ttft_ms"]["p50"] < 300 + slack  # the third frame is the first with text
    assert 90 <= got["gap_ms"]["p50"] < 100 + slack
    assert 45 <= got["tpot_ms"]["p50"] < 50 + slack    # 200 ms for 4 tokens behind the first
    assert 500 <= got["e2e_ms"]["p50"] < 500 + slack
    first, second = ([body["prompt"] for body in plan.bodies[i:i + 6]] for i in (0, 6))
    assert sorted(first) == sorted(second) and len(set(first)) == 6
    assert all(len(prompt.split()) == 20 for prompt in first)
    body = plan.bodies[0]
    assert body["stream"] is True and body["max_tokens"] == 9 and body["ignore_eos"] is True


def test_closed_and_open_loops():
    def answer(handler, body):
        handler.stream([text("a"), DONE], wait=0.15)

    args = ("--prompt-len", "4", "--output-len", "4")
    with fake(answer) as (url, plan):
        figures(url, "--requests", "9", "--concurrency", "3", *args)
        assert plan.most == 3
    with fake(answer) as (url, plan):
        got = figures(url, "--requests", "12", "--rate", "40", *args)
        assert got["concurrency"] is None and got["rate"] == 40 and not got["counted"]
        assert got["output_tokens"] == 12  # pieces, for there was no usage
        assert plan.most > 3 and plan.arrivals[-1] - plan.arrivals[0] < 3 * SLOW


@pytest.mark.parametrize("frames, word", [
    ([text("a")], "without an answer"),
    ([DONE], "without an answer"),
    ([text("a"), 'data: {"error":{"message":"out of luck"}}\n\n', DONE], "out of luck"),
    (["data: {not json\n\n", DONE], "not JSON"),
    ([text("x" * (2 << 20)), DONE], "too large")])
def test_bad_streams_are_told(frames, word):
    with fake(lambda handler, body: handler.stream(frames)) as (url, _):
        result = loadtest(url, "--requests", "3", "--prompt-len", "4", "--output-len", "4")
    refused(result, 1, "3 of 3 requests failed", word)


def test_some_failures_leave_the_others_figures():
    def answer(handler, body):
        if body["seed"] % 2:
            handler.stream([text("a"), DONE])
        else:
            data = b'{"error":{"message":"queue is full"}}'
            handler.send_response(503)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)

    with fake(answer) as (url, _):
        result = loadtest(url, "--requests", "6", "--prompt-len", "4", "--output-len", "4")
    assert result.returncode == 1 and "status 503: queue is full" in result.err
    assert (result.json[0]["requests"], result.json[0]["failed"]) == (3, 3)


def test_a_request_has_its_time():
    def answer(handler, body):
        time.sleep(1.7)

    with fake(answer) as (url, _):
        result = loadtest(url, "--requests", "1", "--timeout", "1", "--model", "m")
    refused(result, 1, "1 of 1 requests failed", "imeout")


def test_what_cannot_be_asked(server):
    refused(growpage("loadtest"), 2, "URL")
    refused(growpage("loadtest", "http://127.0.0.1:1"), 1, "127.0.0.1:1")
    refused(growpage("loadtest", "ftp://127.0.0.1"), 1, "ftp")
    refused(growpage("loadtest", server.url), 1, "401")
    refused(growpage("loadtest", server.url, "more"), 2, "more")
    refused(growpage("loadtest", "http://" + "x" * 2000), 2, "too long")
    refused(growpage("loadtest", server.url, "--rate", "0"), 2, "--rate")
