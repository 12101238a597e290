"""A server of ours on a port of its own, and the ways in which tests talk to it."""

import contextlib
import http.client
import json
import signal
import socket
import threading
import time

import openai
from program import SANITIZED, SLOW, start


class Server:
    """`growpage serve` from its first line on stderr to its exit status."""

    def __init__(self, model, *args, ready=True):
        self.process = start("serve", "-m", model, "--port", "0", *args)
        self.lines = []
        self.told = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        line = self.wait_line("listening at ")
        self.url = line.split("listening at ")[1].split(",")[0]
        self.port = int(self.url.rsplit(":", 1)[1])
        if ready:
            self.wait_line("growpage: ready")

    def read(self):
        for line in self.process.stderr:
            with self.told:
                self.lines.append(line.decode().rstrip("\n"))
                self.told.notify_all()
        with self.told:
            self.lines.append(None)
            self.told.notify_all()

    def wait_line(self, word, seconds=60):
        deadline = time.monotonic() + seconds * SLOW
        with self.told:
            while True:
                for line in self.lines:
                    if line is not None and word in line:
                        return line
                assert None not in self.lines, self.lines
                assert self.told.wait(max(0, deadline - time.monotonic())), (word, self.lines)

    def stop(self, sig=signal.SIGTERM, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        code = self.process.wait(seconds * SLOW)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        told = [line for line in self.lines if line]
        for at, line in enumerate(told):
            assert "Sanitizer" not in line and "runtime error" not in line, told[at:at + 40]
        return code

    # ---- requests ----

    def client(self, **kwargs):
        kwargs.setdefault("api_key", "none")
        return openai.OpenAI(base_url=self.url + "/v1", max_retries=0, timeout=120 * SLOW, **kwargs)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers, parsed body); body is bytes, text, or what JSON is made of."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if data and "json" in answer.headers.get("Content-Type", ""):
            return answer.status, answer.headers, json.loads(data)
        return answer.status, answer.headers, data.decode()

    def post(self, path, body, status=200, **kwargs):
        got, _, answer = self.request("POST", path, body, **kwargs)
        assert got == status, (got, answer)
        return answer

    def get(self, path, status=200, **kwargs):
        got, _, answer = self.request("GET", path, **kwargs)
        assert got == status, (got, answer)
        return answer

    def refuse(self, path, body, status=400, param=None, words=()):
        """An error in OpenAI's shape; and the server lives on."""
        error = self.post(path, body, status)["error"]
        assert set(error) >= {"message", "type", "param", "code"}, error
        assert param is None or error["param"] == param, error
        for word in words:
            assert word in error["message"], error
        return error

    def complete(self, prompt="x", **fields):
        return self.post("/v1/completions", {"prompt": prompt, "temperature": 0, **fields})

    def chat(self, text="x", **fields):
        messages = [{"role": "user", "content": text}]
        return self.post("/v1/chat/completions", {"messages": messages, "temperature": 0, **fields})

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30 * SLOW)

    def raw(self, data, seconds=10):
        """All that comes back to these bytes until the peer closes or nothing comes any more."""
        with self.socket() as s:
            s.settimeout(seconds * SLOW)
            got = b""
            with contextlib.suppress(OSError):
                s.sendall(data)
            with contextlib.suppress(OSError):
                while True:
                    piece = s.recv(65536)
                    if not piece:
                        break
                    got += piece
            return got

    def open_post(self, path, body, key="none"):
        """A socket with a request on its way, whose answer nobody has read."""
        body = json.dumps(body).encode()
        s = self.socket()
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: {key}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return s

    def stream(self, path, body):
        """The events of a streamed answer: parsed, with [DONE] as a word."""
        data = self.post(path, {"temperature": 0, **body, "stream": True})
        frames = data.split("\n\n")
        assert frames.pop() == ""
        assert all(frame.startswith("data: ") for frame in frames), frames
        assert frames[-1] == "data: [DONE]"
        return [json.loads(frame[6:]) for frame in frames[:-1]]

    # ---- state ----

    def kv(self):
        return self.get("/v1/kv")

    def metric(self, name):
        for line in self.get("/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(name)

    def lives(self):
        began = time.monotonic()
        self.complete(max_tokens=1)
        assert time.monotonic() - began < 2 * SLOW

    def wait_idle(self, seconds=5):
        """Nothing runs, nothing waits, every page is back."""
        deadline = time.monotonic() + seconds * SLOW
        while True:
            kv = self.kv()
            pool = kv["pool"]
            if not (kv["running"] or kv["waiting"] or kv["requests"] or pool["pages_used"]):
                assert pool["pages_free"] == pool["pages"]
                return
            assert time.monotonic() < deadline, kv
            time.sleep(0.02)


@contextlib.contextmanager
def serving(model, *args, **kwargs):
    server = Server(model, *args, **kwargs)
    try:
        yield server
    finally:
        server.stop(signal.SIGTERM if SANITIZED else signal.SIGKILL)


def joined(events, index=0, name="content"):
    """The text of one choice of a stream."""
    text = ""
    for event in events:
        for choice in event["choices"]:
            if choice["index"] == index:
                text += choice["text"] if "text" in choice else choice["delta"].get(name) or ""
    return text
