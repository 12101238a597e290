"""Many clients at once on a pool that is too small for them: everybody gets what he would get alone."""

import json
import random
import threading
import time

import pytest
from program import SLOW
from serving import serving

SMALL = ["--page-size", "16", "-c", "512", "-b", "64"]
# A denied growth preempts, so that nothing depends on the neighbours.
EXACT = ["--kv-fallback", "preempt"]


def together(work, items):
    """work(item) on a thread each; the results in order, or the first failure."""
    results = [None] * len(items)

    def run(index):
        try:
            results[index] = work(items[index])
        except BaseException as error:  # an assertion must reach the test's own thread
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def text_of(server, body):
    if body.get("stream"):
        events = server.stream("/v1/completions", body)
        return "".join(event["choices"][0]["text"] for event in events)
    return server.post("/v1/completions", body)["choices"][0]["text"]


@pytest.mark.parametrize("kv", ["growpage", "full", "fixed:64"])
def test_b47_b49_a_pool_far_too_small(tiny, kv):
    """48 requests on 24 pages of 16 tokens, with a beginning that they share: none is ended."""
    rng = random.Random(7)
    shared = [rng.randrange(3, 200) for _ in range(32)]
    bodies = [{"prompt": shared + [rng.randrange(3, 200) for _ in range(rng.randrange(1, 60))],
               "max_tokens": rng.randrange(20, 120), "temperature": 0, "ignore_eos": True,
               "stream": i % 2 == 0} for i in range(48)]
    with serving(tiny, "--kv", kv, "--kv-initial-pages", "2", "-np", "48", *SMALL, *EXACT,
                 "--kv-pages", "200") as roomy:
        alone = [text_of(roomy, body) for body in bodies]
        roomy.wait_idle()
    with serving(tiny, "--kv", kv, "--kv-initial-pages", "2", "-np", "48", *SMALL, *EXACT,
                 "--kv-pages", "24") as tight:
        assert together(lambda body: text_of(tight, body), bodies) == alone
        assert kv == "fixed:64" or tight.metric("vllm:num_preemptions_total") > 0
        tight.wait_idle()


def test_b49_alone_and_too_large(tiny):
    """One that outgrows the whole pool ends alone, and says why."""
    with serving(tiny, "--kv", "full", "-np", "4", *SMALL, "--kv-pages", "8") as server:
        answer = server.complete([5] * 20, max_tokens=400, ignore_eos=True)["choices"][0]
        assert (answer["finish_reason"], answer["stop_reason"]) == ("length", "kv_capacity")
        server.wait_idle()
        server.lives()


def test_b53_the_same_request_the_same_answer(tiny):
    """Alone, among 16, in other chunks, on other threads, sampled with a seed and not."""
    rng = random.Random(11)
    bodies = [{"prompt": [rng.randrange(3, 200) for _ in range(rng.randrange(5, 150))],
               "max_tokens": 40, "ignore_eos": True, "temperature": i % 2, "seed": 5}
              for i in range(20)]
    answers = []
    for args in (["-t", "1", "-b", "512"], ["-t", "2", "-b", "64"]):
        with serving(tiny, "-np", "16", "--page-size", "16", "-c", "512", *args) as server:
            answers.append([text_of(server, body) for body in bodies])
            answers.append(together(lambda body, server=server: text_of(server, body), bodies))
    assert all(answer == answers[0] for answer in answers)


def test_b52_no_word_crosses(tiny):
    """24 clients, each with answers of its own; half of them leave somewhere in between."""
    rng = random.Random(3)
    bodies = [{"prompt": [3 + i] * (5 + i), "max_tokens": 60, "temperature": 0, "ignore_eos": True,
               "stream": True} for i in range(24)]
    with serving(tiny, "-np", "24", *SMALL, *EXACT, "--kv-initial-pages", "2",
                 "--kv-pages", "40") as server:
        alone = [text_of(server, body) for body in bodies]
        assert len(set(alone)) > 12
        for _ in range(3):
            leavers = set(rng.sample(range(24), 12))

            def visit(index, leavers=leavers):
                if index not in leavers:
                    return text_of(server, bodies[index])
                s = server.open_post("/v1/completions", bodies[index])
                time.sleep(random.Random(index).random() * 0.2)
                s.close()
                return alone[index]

            assert together(visit, list(range(24))) == alone
        server.wait_idle()


def test_b43_leaving_during_a_long_prompt(tiny):
    with serving(tiny, "-np", "2", "--page-size", "64", "-c", "8192", "-b", "64", "-t",
                 "1") as server:
        prompts = server.metric("vllm:prompt_tokens_total")
        s = server.open_post("/v1/completions", {"prompt": [5] * 8000, "max_tokens": 10})
        deadline = time.monotonic() + 10 * SLOW
        while server.kv()["running"] == 0:
            assert time.monotonic() < deadline
        s.close()
        server.wait_idle(2)
        assert server.metric("vllm:prompt_tokens_total") < prompts + 8000


def test_b56_a_long_prompt_does_not_freeze_a_stream(tiny):
    """Chunks of the prompt run beside the stream's tokens, and both get on."""
    with serving(tiny, "-np", "2", "--page-size", "64", "-c", "8192", "-b", "32") as server:
        body = json.dumps({"prompt": [5], "max_tokens": 4000, "ignore_eos": True,
                           "stream": True}).encode()
        with server.socket() as s:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                      % len(body) + body)
            s.recv(10)
            done = []
            thread = threading.Thread(target=lambda: done.append(
                server.complete([7] * 4000, max_tokens=2, ignore_eos=True)))
            before = server.kv()["requests"][0]["next_token"]["n_decoded"]
            thread.start()
            while thread.is_alive():
                assert s.recv(65536)
            thread.join()
            after = server.kv()["requests"][0]["next_token"]["n_decoded"]
            assert done[0]["usage"]["completion_tokens"] == 2
            # 4,000 tokens of prompt are at least 125 steps, and each has a token of the stream.
            assert after - before >= 125
