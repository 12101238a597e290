"""The server against clients that err, leave, dawdle or attack, on raw sockets."""

import json
import os
import signal
import socket
import threading
import time

import pytest
from program import SANITIZED, SLOW, growpage, refused, start
from serving import serving

LONG = {"prompt": "x", "max_tokens": 100000, "ignore_eos": True}


@pytest.fixture(scope="module")
def server(endless):
    """Ticks for as long as it is let."""
    with serving(endless, "-np", "2", "-c", "200000", "--kv-pages", "64", "--max-waiting", "3",
                 "--kv", "fixed:512") as server:
        yield server


@pytest.fixture
def idle(server):
    yield server
    server.wait_idle()
    server.lives()


def answer_of(data):
    """(status, headers, body) of the first answer in raw bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    return int(lines[0].split(" ")[1]), headers, body


def error_of(data, status):
    got, headers, body = answer_of(data)
    assert got == status, data
    assert headers["Content-Type"] == "application/json"
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


# ---- routes ----

def test_health_and_models(server):
    for path in ("/health", "/v1/health"):
        assert server.get(path) == {"status": "ok"}
    model = server.get("/v1/models")["data"][0]
    assert model["object"] == "model" and model["max_model_len"] == 200000
    assert server.get("/v1/models/" + model["id"]) == model
    assert server.get("/v1/models/other", 404)["error"]["type"] == "not_found_error"


def test_unknown_paths_and_wrong_methods_answer_in_json(server):
    for path in ("/v2/models", "/page.html", "/v1/completions/", "/v1/completion", "/../etc/passwd"):
        error = server.get(path, 404)["error"]
        assert error["type"] == "not_found_error" and error["code"] == 404
    status, headers, body = server.request("GET", "/v1/completions")
    assert (status, headers["Allow"]) == (405, "POST") and body["error"]["code"] == 405
    status, headers, _ = server.request("DELETE", "/health")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert server.request("HEAD", "/health")[0] == 200


def test_connections_are_kept(server):
    with server.socket() as s:
        for _ in range(3):
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert s.recv(4096).startswith(b"HTTP/1.1 200")


def test_old_clients_are_served(server):
    data = server.raw(b"GET /health HTTP/1.0\r\n\r\n")
    assert answer_of(data)[0] == 200 and data.endswith(b'{"status":"ok"}')


# ---- B25, B36: bodies ----

@pytest.mark.parametrize("nest", ["[", '{"a":'])
@pytest.mark.parametrize("closed", [True, False])
def test_b25_deep_json(server, nest, closed):
    end = ("]" if nest == "[" else "1" + "}") if closed else ""
    body = '{"prompt":"a","x":' + nest * 100000 + ("1" if nest == "{" and closed else "")
    body += end * 100000 + ("}" if closed else "")
    began = time.monotonic()
    server.refuse("/v1/completions", body, words=["nested"])
    assert time.monotonic() - began < 0.1 * SLOW + 0.4
    server.lives()


def test_b25_brackets_in_strings_do_not_count(server):
    server.post("/tokenize", {"content": "[{" * 500 + '\\"'})


@pytest.mark.parametrize("body", [
    b'{"prompt":"\xff\xfe"}', b'{"prompt":"\\ud83d"}', b'{"model":"\\u0000"}',
    b'{"prompt":"\xc0\x80"}', b'\xef\xbb\xbf{"prompt":"x"}', b"", b"{", b"nonsense", b"[]", b'"x"',
    b"null", b'{"prompt":"x"}{', b'{"prompt":"x",}', b"{'prompt':1}", b'{"prompt":"x"\x00}',
    b'{"prompt":"x","prompt":"y"}', b'{"prompt":nan}', bytes(range(256)), b"\x00" * 100])
def test_b36_bad_bytes(server, body):
    error = server.refuse("/v1/completions", body)
    assert error["type"] == "invalid_request_error" and error["message"].startswith("body: ")


def test_b36_a_nul_in_a_text_is_a_character(server):
    """Models write them, chats send them back, and benchmarks draw any token."""
    text = "a\0b"
    ids = server.post("/tokenize", {"content": text})["tokens"]
    assert server.post("/detokenize", {"tokens": ids})["content"] == text
    echoed = server.complete(text, echo=True, max_tokens=1)
    assert echoed["choices"][0]["text"].startswith(text)
    assert echoed["usage"]["prompt_tokens"] >= len(ids)
    for content in (text, [{"type": "text", "text": text}]):
        messages = [{"role": "user", "content": content}]
        prompt = server.post("/apply-template", {"messages": messages})["prompt"]
        assert text in prompt and prompt.index(text) + len(text) < len(prompt)
        count = server.post("/tokenize", {"messages": messages})["count"]
        assert server.chat(content, max_tokens=1)["usage"]["prompt_tokens"] == count
    for path, body in (("/v1/completions", {"prompt": "x", "stop": "\0"}),
                       ("/v1/completions", {"prompt": "x", "kv": {"policy": "full\0"}}),
                       ("/v1/chat/completions",
                        {"messages": [{"role": "user\0", "content": "x"}]})):
        server.refuse(path, body, words=["NUL"])


# ---- B27: framing ----

POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"


def test_b27_no_length(server):
    assert "Content-Length" in error_of(server.raw(POST + b"\r\n", 1), 411)["message"]


def test_b27_two_lengths(server):
    for second in (b"5", b"3"):
        data = server.raw(POST + b"Content-Length: 3\r\nContent-Length: " + second + b"\r\n\r\nabc")
        assert "more than once" in error_of(data, 400)["message"]
        assert answer_of(data)[1]["Connection"] == "close"


def test_b27_length_and_chunked(server):
    data = server.raw(POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    error_of(data, 400)
    error_of(server.raw(POST + b"Transfer-Encoding: gzip\r\n\r\n"), 501)


@pytest.mark.parametrize("length, status", [(b"abc", 400), (b"-1", 400), (b"3, 3", 400),
                                            (b"99999999999999999999999", 413)])
def test_b27_lengths_that_are_none(server, length, status):
    data = server.raw(POST + b"Content-Length: " + length + b"\r\n\r\n")
    assert answer_of(data)[0] == status


def test_b27_a_body_too_large_is_refused_by_its_word(server):
    data = server.raw(POST + b"Content-Length: 999999999999\r\n\r\n")
    assert "at most" in error_of(data, 413)["message"]


def test_b27_a_chunked_body_too_large(tiny):
    with serving(tiny, "--max-body", "4KiB", "-np", "1", "-c", "512") as server:
        chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
        head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
        error_of(server.raw(head + chunk * 3 + b"0\r\n\r\n", 1), 413)
        body = b'{"prompt":"x","max_tokens":1}'
        whole = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        assert answer_of(server.raw(whole, 1))[0] == 200


def test_b27_headers_too_large(server):
    data = server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 65536 + b"\r\n\r\n")
    assert answer_of(data)[0] == 431
    many = b"".join(b"H%d: a\r\n" % i for i in range(10000))
    assert answer_of(server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n"))[0] == 431
    server.lives()


def test_b27_expect_continue(server):
    body = b'{"prompt":"x","max_tokens":1}'
    with server.socket() as s:
        s.sendall(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert s.recv(100).startswith(b"HTTP/1.1 100")
        s.sendall(body)
        assert s.recv(65536).startswith(b"HTTP/1.1 200")


def test_b27_slow_senders_are_dropped_and_hurt_nobody(server):
    """200 sockets that send a header's bytes one a second, until they are shut down."""
    sockets = [server.socket() for _ in range(200)]
    began = time.monotonic()
    try:
        for s in sockets:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
        open_ones = list(sockets)
        while open_ones and time.monotonic() - began < 20 * SLOW:
            for s in list(open_ones):
                try:
                    s.sendall(b"X")
                    s.setblocking(False)
                    if s.recv(1) == b"":
                        open_ones.remove(s)
                except BlockingIOError:
                    s.setblocking(True)
                except OSError:
                    open_ones.remove(s)
            server.lives()
            time.sleep(1)
        assert not open_ones and time.monotonic() - began >= 9
    finally:
        for s in sockets:
            s.close()


@pytest.mark.parametrize("junk", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
                                  b"GET /\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n" * 50,
                                  b"POST /v1/completions HTTP/1.1\r\n\r\n"])
def test_junk_is_survived(server, junk):
    server.raw(junk, 0.3)
    server.lives()


# ---- B43: leaving ----

def test_b43_leaving_the_queue(idle):
    """Two run, three wait; the waiting ones leave and cost nothing."""
    runners = [idle.open_post("/v1/completions", LONG) for _ in range(2)]
    wait_for(lambda: idle.kv()["running"] == 2)
    prompts = idle.metric("vllm:prompt_tokens_total")
    waiting = [idle.open_post("/v1/completions", LONG) for _ in range(3)]
    wait_for(lambda: idle.kv()["waiting"] == 3)
    for s in waiting:
        s.close()
    wait_for(lambda: idle.kv()["waiting"] == 0, 1)
    assert idle.kv()["running"] == 2
    for s in runners:
        s.close()
    wait_for(lambda: idle.kv()["running"] == 0, 1)
    assert idle.metric("vllm:prompt_tokens_total") == prompts


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_b43_leaving_while_it_runs(idle, stream, n):
    s = idle.open_post("/v1/completions", {**LONG, "stream": stream, "n": n})
    wait_for(lambda: idle.kv()["pool"]["pages_used"] > 0)
    if stream:
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    s.close()
    wait_for(lambda: idle.kv()["pool"]["pages_used"] == 0, 1)


def test_b43_leaving_with_half_a_body(idle):
    with idle.socket() as s:
        s.sendall(POST + b"Content-Length: 100\r\n\r\n{")


def test_b43_leaving_at_random_points(idle):
    def leave(delay):
        s = idle.open_post("/v1/completions", {**LONG, "stream": delay % 2 == 0})
        time.sleep(delay / 200)
        s.close()

    threads = [threading.Thread(target=leave, args=(delay,)) for delay in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_reader_that_stops_reading_is_left_behind(idle):
    """Its tokens wait in the engine: what is unsent here is bounded, and others go on."""
    with idle.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = json.dumps({**LONG, "stream": True}).encode()
        s.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: idle.kv()["running"] == 1)
        idle.lives()
        time.sleep(1)
        idle.lives()


# ---- full ----

def test_a_full_queue_says_when_to_come_back(idle):
    held = [idle.open_post("/v1/completions", LONG) for _ in range(5)]
    wait_for(lambda: idle.kv()["waiting"] == 3)
    status, headers, answer = idle.request("POST", "/v1/completions", {"prompt": "x"})
    assert status == 503 and headers["Retry-After"] == "1"
    assert answer["error"]["type"] == "unavailable_error"
    rejected = 'vllm:admission_rejections_total{reason="queue_full"}'
    assert idle.metric(rejected) >= 1
    # One of several prompts that finds no room takes none.
    assert idle.request("POST", "/v1/completions", {"prompt": ["x", "y"]})[0] == 503
    assert idle.kv()["waiting"] == 3
    for s in held:
        s.close()


def test_many_answers_at_once_are_refused_whole(server):
    server.refuse("/v1/completions", {"prompt": ["x"] * 257}, param="prompt")
    server.refuse("/v1/completions", {"prompt": ["x"] * 100, "n": 3}, param="n")
    server.refuse("/v1/completions", {"prompt": "x", "n": 6}, words=["n: 6"])


# ---- keys ----

def test_keys(tiny, tmp_path):
    file = tmp_path / "keys"
    file.write_text("# ours\n\n  from-file \n")
    with serving(tiny, "-c", "512", "--api-key", "typed", "--api-key-file", str(file)) as server:
        assert server.get("/health") == {"status": "ok"}
        for path in ("/v1/models", "/metrics", "/v1/kv", "/v1/kv/events", "/props", "/slots",
                     "/tokenizer_info"):
            assert server.get(path, 401)["error"]["type"] == "authentication_error"
        body = {"prompt": "x", "max_tokens": 1}
        for key in ("", "Bearer ", "Bearer wrong", "typed", "Bearer type", "Bearer typedd",
                    "Bearer " + "x" * 5000):
            status, headers, _ = server.request("POST", "/v1/completions", body,
                                                {"Authorization": key})
            assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
        for headers in ({"Authorization": "Bearer typed"}, {"Authorization": "bearer from-file"},
                        {"X-Api-Key": "typed"}):
            assert server.request("POST", "/v1/completions", body, headers)[0] == 200
        assert server.request("GET", "/none", headers={"X-Api-Key": "typed"})[0] == 404
        file.write_text("renewed\n")
        server.process.send_signal(signal.SIGHUP)
        ask = {"headers": {"X-Api-Key": "renewed"}}
        wait_for(lambda: server.request("GET", "/v1/models", **ask)[0] == 200)
        assert server.request("GET", "/v1/models", headers={"X-Api-Key": "from-file"})[0] == 401
        assert server.request("GET", "/v1/models", headers={"X-Api-Key": "typed"})[0] == 200
        file.write_text("bad key with blanks\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_line("keys stay as they were")
        assert server.request("GET", "/v1/models", **ask)[0] == 200


def test_an_empty_key_is_fine_where_none_is_wanted(server):
    assert server.request("GET", "/v1/models", headers={"Authorization": "Bearer "})[0] == 200


def test_pages_of_an_origin_may_ask(tiny, server):
    ask = {"Origin": "http://page.test", "Access-Control-Request-Method": "POST"}
    with serving(tiny, "-c", "512", "--cors-origin", "http://page.test",
                 "--api-key", "k") as open_one:
        status, headers, _ = open_one.request("OPTIONS", "/v1/completions", headers=ask)
        assert status == 204 and headers["Access-Control-Allow-Origin"] == "http://page.test"
        assert headers["Access-Control-Allow-Methods"] == "POST"
        assert "Authorization" in headers["Access-Control-Allow-Headers"]
        status, headers, _ = open_one.request("POST", "/v1/completions", {"prompt": "x"}, ask)
        assert status == 401 and headers["Access-Control-Allow-Origin"] == "http://page.test"
        assert open_one.request("OPTIONS", "/none", headers=ask)[0] == 404
    status, headers, _ = server.request("OPTIONS", "/v1/completions", headers=ask)
    assert status == 405 and "Access-Control-Allow-Origin" not in headers


# ---- start and stop ----

def test_it_listens_before_the_model_is_there(tiny):
    with serving(tiny, "-c", "512") as server:
        told = server.lines.index("growpage: ready")
        assert any("listening at" in line for line in server.lines[:told])


def test_a_taken_port_and_bad_hosts(server, tiny):
    refused(growpage("serve", "-m", tiny, "--port", str(server.port)), 1, str(server.port))
    refused(growpage("serve", "-m", tiny, "--host", "no such host"), 2, "no such host")
    refused(growpage("serve", "-m", tiny, "--port", "65536"), 2, "--port")
    refused(growpage("serve", "-m", tiny, "--api-key", ""), 2, "--api-key")
    refused(growpage("serve", "-m", tiny, "--api-key-file", "/nonexistent"), 1, "/nonexistent")


def failed_start(*args):
    process = start("serve", "--port", "0", *args)
    _, err = process.communicate(timeout=60 * SLOW)
    return process.returncode, err.decode()


def test_a_model_that_cannot_be_loaded_ends_it(tmp_path, tiny):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF")
    code, err = failed_start("-m", str(bad))
    assert code == 1 and "bad.gguf" in err.splitlines()[-1]
    code, err = failed_start("-m", tiny, "-np", "64", "-b", "8")
    assert code == 2 and "max-batch-tokens" in err.splitlines()[-1]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_what_runs_finish(endless, sig):
    with serving(endless, "-np", "2", "-c", "8192") as server:
        s = server.open_post("/v1/completions", {**LONG, "max_tokens": 2000})
        wait_for(lambda: server.kv()["running"] == 1)
        kept = server.socket()
        server.process.send_signal(sig)
        wait_for(lambda: refuses(server))
        data = b""
        while piece := s.recv(65536):
            data += piece
        assert json.loads(answer_of(data)[2])["usage"]["completion_tokens"] == 2000
        kept.close()
        assert server.stop() == 0


def test_a_second_stop_cuts(endless):
    with serving(endless, "-np", "2", "-c", "200000", "--kv", "fixed:512") as server:
        stream = server.open_post("/v1/completions", {**LONG, "stream": True})
        plain = server.open_post("/v1/completions", LONG)
        wait_for(lambda: server.kv()["running"] == 2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.process.poll() is None
        assert server.stop(signal.SIGTERM) == 0
        data = b""
        while piece := stream.recv(65536):
            data += piece
        assert b'"type":"unavailable_error"' in data and b"data: [DONE]" in data
        assert error_of(plain.recv(65536), 503)["message"] == "the server is stopping"
        stream.close()
        plain.close()


def test_a_stop_waits_no_longer_than_it_was_told(endless):
    with serving(endless, "-np", "1", "-c", "200000", "--kv", "fixed:512",
                 "--shutdown-timeout", "1") as server:
        s = server.open_post("/v1/completions", LONG)
        wait_for(lambda: server.kv()["running"] == 1)
        began = time.monotonic()
        assert server.stop() == 0
        assert 0.9 < time.monotonic() - began < 6 * SLOW
        s.close()


def test_a_stop_while_loading(smollm):
    with serving(smollm, "-np", "1", "-c", "512", ready=False) as server:
        status, _, answer = server.request("GET", "/v1/models")
        assert status == 200 or answer["error"]["message"] == "Loading model"
        assert server.stop() == 0


def test_a_stop_while_nothing_runs(tiny):
    with serving(tiny, "-c", "512") as server:
        server.lives()
        assert server.stop() == 0


# ---- the log ----

def test_every_request_is_a_line(tiny):
    with serving(tiny, "-c", "512") as server:
        server.complete(max_tokens=3, ignore_eos=True)
        server.get("/no%1Bsuch", 404)
        line = server.wait_line("POST /v1/completions 200")
        assert line.startswith("growpage: 127.0.0.1 POST") and line.endswith("3 tokens")
        line = server.wait_line("404")
        assert "\x1b" not in line
    with serving(tiny, "-c", "512", "--no-access-log") as server:
        server.lives()
        assert server.stop() == 0
        assert not any("POST" in line for line in server.lines if line)


# ---- B55, B56 ----

def rss(server):
    with open(f"/proc/{server.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_b55_nothing_is_left_behind(idle):
    """Answers, errors and departures by the hundred: pages, requests and memory return."""
    def round_trip(count):
        for i in range(count):
            idle.complete(max_tokens=1 + i % 20)
            idle.post("/v1/completions", {"prompt": "x", "n": 0}, 400)
            idle.stream("/v1/completions", {"prompt": "x", "max_tokens": 5})
            idle.open_post("/v1/completions", LONG).close()
        idle.wait_idle()

    round_trip(60)
    before = rss(idle)
    round_trip(150)
    if not SANITIZED:  # which keeps what was freed
        assert rss(idle) <= before * 1.02 + (1 << 20)


def test_b21_a_long_text_holds_up_no_stream(idle):
    """A stream goes on while a text of a megabyte is tokenized for somebody else."""
    with idle.socket() as s:
        body = json.dumps({**LONG, "stream": True}).encode()
        s.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert s.recv(65536)
        text = threading.Thread(target=idle.post, args=("/tokenize", {"content": "a" * 1000000}))
        text.start()
        events = 0
        while text.is_alive():
            events += s.recv(65536).count(b"data:")
        text.join()
        # Held up, it says what was under way and no more; else it says hundreds.
        assert events > 5


def wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds * SLOW
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def refuses(server):
    try:
        return server.request("GET", "/health")[0] == 503
    except OSError:
        return True


def test_a_lower_priority_number_is_served_first(endless):
    """One runs at a time; of those that wait, the last to come has the lowest number."""
    order, threads = [], []
    with serving(endless, "-np", "1", "-c", "4096") as server:
        def ask(name, priority, tokens):
            server.post("/v1/completions", {"prompt": name, "max_tokens": tokens,
                                            "priority": priority})
            order.append(name)

        def come():
            return server.metric("vllm:num_requests_running") + \
                server.metric("vllm:num_requests_waiting") == len(threads)

        for name, priority, tokens in [("first", 0, 3000), ("late", 5, 200), ("urgent", -1, 200)]:
            threads.append(threading.Thread(target=ask, args=(name, priority, tokens)))
            threads[-1].start()
            wait_for(come)
        for thread in threads:
            thread.join()
    assert order == ["first", "urgent", "late"]
