"""A server under attack: slow senders, malformed bodies and clients that leave, all at once, while
an ordinary client asks for one token again and again.

For GP_HOSTILE_MINUTES (default 20) 200 connections send a byte a second, GP_HOSTILE_BODIES (default
10,000) bodies made out of bodies.jsonl arrive, and eight clients leave at random points.  Nothing
may crash or leak, every answer must be one that docs/openapi.yaml knows, and one token must be had
within two seconds throughout, less the time that the asker or a thread of the server was ready to
run while others had the processors.  It means most under ASan.  GP_SEED draws other attacks.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import socket
import struct
import threading
import time

from program import SANITIZED
from serving import serving

MINUTES = float(os.environ.get("GP_HOSTILE_MINUTES", "20"))
BODIES = int(os.environ.get("GP_HOSTILE_BODIES", "10000"))
SEED = int(os.environ.get("GP_SEED", "1"))

SLOW_SENDERS = 200
LEAVERS = 8
FUZZERS = 2
WITHIN = 2.0  # seconds, for one token

CORPUS = [json.loads(line) for line in
          pathlib.Path(__file__).with_name("bodies.jsonl").read_text().splitlines()]
# What numbers and words are replaced by: ends of ranges, other types, what parsers stumble over.
ODD = ["-1", "0", "1e999", "-0.0", "1e-400", "2147483648", "-9223372036854775809",
       "18446744073709551616", "0.1e1", "01", "NaN", "null", "true", "\"\"", "[]", "{}", "[[]]", "[null]", "\"\\ud800\"",
       "\"\\u0000\"", "\"" + "a" * 5000 + "\"", "[" * 70 + "]" * 70,
       "{\"a\":" * 65 + "1" + "}" * 65,
       "[" + "1," * 3000 + "1]", "\"\xff\"", "128", "129", "65536", "2000000"]
STATUSES = {200, 400, 404, 411, 413, 503}


def mutate(rng, body):
    """Bytes near to a body: one to four edits of its text."""
    data = bytearray(json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace"))
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + 1 + int(rng.expovariate(0.1)))
        kind = rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 3:
            data[at:at] = data[at:end] * rng.randrange(1, 20)
        elif kind == 4:
            other = json.dumps(rng.choice(CORPUS)[1]).encode()
            cut = rng.randrange(len(other))
            data[at:end] = other[cut:cut + rng.randrange(60)]
        elif kind == 5:
            del data[at:]
        else:  # a value as a whole
            colon = data.find(b":", at)
            comma = min((i for i in (data.find(b",", colon), data.find(b"}", colon)) if i >= 0),
                        default=len(data))
            if colon >= 0:
                data[colon + 1:comma] = rng.choice(ODD).encode("latin-1")
    return bytes(data)


def waits(pid):
    """Seconds that each thread of a process has been ready to run and did not."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found


class Attack:
    """What the attackers share: when it ends, what they saw, and what went wrong first."""

    def __init__(self, server):
        self.server = server
        self.end = time.monotonic() + MINUTES * 60
        self.over = threading.Event()
        self.statuses = {}
        self.counts = {"bodies": 0, "left": 0, "slow": 0, "dropped": 0}
        self.times = []
        self.failure = None
        self.lock = threading.Lock()

    def goes_on(self):
        return not self.over.is_set() and time.monotonic() < self.end

    def count(self, name):
        with self.lock:
            self.counts[name] += 1

    def guarded(self, work, *args):
        try:
            work(*args)
        except BaseException as error:  # it must reach the test's own thread
            self.failure = self.failure or error
            self.over.set()

    # ---- the attackers ----

    def fuzz(self, number):
        """Its share of the bodies, evenly over the time, each when the last one is answered."""
        rng = random.Random(f"{SEED} fuzz {number}")
        began = time.monotonic()
        share = BODIES // FUZZERS
        for i in range(share):
            wait = began + MINUTES * 60 * 0.95 * i / share - time.monotonic()
            if self.over.wait(max(0, wait)):
                return
            path, body = rng.choice(CORPUS)
            data = mutate(rng, body)
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
            with contextlib.closing(connection):
                connection.request("POST", path, data, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
            assert answer.status in STATUSES, (answer.status, path, data, text)
            if answer.status != 200:
                error = json.loads(text)["error"]
                assert set(error) >= {"message", "type", "param", "code"}, (path, data, text)
            self.count("bodies")
            with self.lock:
                self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1

    def leave(self, number):
        """Ends a connection somewhere: in the head, the body, the queue, the prompt, the answer."""
        rng = random.Random(f"{SEED} leave {number}")
        while self.goes_on():
            path, body = rng.choice(CORPUS)
            if "max_tokens" in body and rng.random() < 0.5:
                body = {**body, "max_tokens": 400, "ignore_eos": True}
            data = json.dumps(body).encode()
            data = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() \
                + data
            with contextlib.suppress(OSError), self.server.socket() as s:
                if rng.random() < 0.4:
                    s.sendall(data[:rng.randrange(len(data))])
                else:
                    s.sendall(data)
                    if rng.random() < 0.4:
                        s.recv(rng.randrange(1, 2000))
                time.sleep(min(3, rng.expovariate(3)))
                kind = rng.randrange(3)
                if kind == 0:  # without a farewell
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif kind == 1:  # the sending half alone
                    s.shutdown(socket.SHUT_WR)
                    s.settimeout(5)
                    while s.recv(65536):
                        pass
            self.count("left")

    def dawdle(self):
        """Connections that send a byte a second of a head or of a body; a dropped one returns."""
        rng = random.Random(f"{SEED} dawdle")
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
        starts = [b"", head + b"X", head + b"Content-Length: 5000\r\n\r\n[",
                  head + b"Transfer-Encoding: chunked\r\n\r\n1000\r\n"]
        slow = []
        try:
            while self.goes_on():
                while len(slow) < SLOW_SENDERS:
                    s = self.server.socket()
                    s.sendall(rng.choice(starts))
                    s.setblocking(False)
                    slow.append(s)
                    self.count("slow")
                for s in list(slow):
                    try:
                        s.sendall(b"a")
                        gone = s.recv(65536) == b""
                    except BlockingIOError:
                        gone = False
                    except OSError:
                        gone = True
                    if gone:
                        s.close()
                        slow.remove(s)
                        self.count("dropped")
                self.over.wait(1)
        finally:
            for s in slow:
                s.close()

    def ask(self):
        """The ordinary client, twice a second."""
        me = str(threading.get_native_id())
        while self.goes_on():
            before, mine = waits(self.server.process.pid), waits(os.getpid())[me]
            began = time.monotonic()
            self.server.complete(max_tokens=1)
            took = time.monotonic() - began
            after = waits(self.server.process.pid)
            starved = max(after[name] - before.get(name, after[name]) for name in after)
            self.times.append((took, took - starved - waits(os.getpid())[me] + mine))
            self.over.wait(0.5)


def test_hostile_clients_hurt_nobody(tiny):
    with serving(tiny, "-np", "64", "-c", "512", "--page-size", "16", "--kv-pages", "512",
                 "--kv-protect", "4", "--no-access-log") as server:
        attack = Attack(server)
        threads = [threading.Thread(target=attack.guarded, args=args) for args in
                   [(attack.fuzz, i) for i in range(FUZZERS)] +
                   [(attack.leave, i) for i in range(LEAVERS)] + [(attack.dawdle,), (attack.ask,)]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"{MINUTES:g} minutes, sanitized: {SANITIZED}; {attack.counts}; "
              f"answers to bodies: {attack.statuses}")
        for name, times in zip(("by the clock", "less what others had"), zip(*attack.times)):
            times = sorted(times)
            print(f"one token, {name}: {len(times)} times, median {times[len(times) // 2]:.3f} s, "
                  f"p99 {times[len(times) * 99 // 100]:.3f} s, worst {times[-1]:.3f} s")
        if attack.failure:
            raise attack.failure
        assert attack.counts["bodies"] == BODIES // FUZZERS * FUZZERS
        assert attack.counts["dropped"] > 0 or MINUTES < 1
        server.wait_idle(10)
        assert max(net for _, net in attack.times) < WITHIN
        assert server.stop() == 0  # with what a sanitizer says of leaks
