"""Bodies that nobody meant: every field with every kind of value, and bytes hit by chance."""

import json
import os
import random

import pytest
from serving import serving

SEED = int(os.environ.get("GP_SEED", "1"))
COUNT = 400

CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3, "temperature": 0.5,
        "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3, "n": 2, "stop": ["a", "bc"],
        "stream": False, "logprobs": True, "top_logprobs": 2, "presence_penalty": 0.5,
        "frequency_penalty": 0.5, "repetition_penalty": 1.1, "logit_bias": {"5": 1},
        "stop_token_ids": [9], "min_tokens": 1, "ignore_eos": True, "skip_special_tokens": False,
        "include_stop_str_in_output": True, "chat_template_kwargs": {"a": 1},
        "reasoning_effort": "low", "thinking_token_budget": 3, "user": "me",
        "kv": {"policy": "fixed:64", "threshold": 0.5, "max_pages": 4, "stats": True}}
TEXT = {**{k: v for k, v in CHAT.items() if k not in ("messages", "top_logprobs", "logprobs",
                                                      "thinking_token_budget")},
        "prompt": ["one", "two"], "echo": True, "logprobs": 1, "add_special_tokens": False}
BODIES = [("/v1/chat/completions", CHAT), ("/v1/completions", TEXT),
          ("/tokenize", {"prompt": "x", "add_special": True, "with_pieces": True}),
          ("/detokenize", {"tokens": [5, 6, 7]}),
          ("/apply-template", {"messages": CHAT["messages"], "add_generation_prompt": False})]
ODD = [None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, -1e308, 5e-324, 2 ** 31, 2 ** 53, 2 ** 62,
       -2 ** 63, "", "x", "\x7f\u202e", "x" * 5000,
       [], [[]], [None], ["x"], [1], [-1], [1, "x"], [[1], "x"],
       [{}], {}, {"a": 1}, {"role": "user"}, {"5": "x"}, {"policy": "full"}, {"policy": None},
       {"threshold": []}, {"type": "text"}, {"include_usage": True}, list(range(200))]


@pytest.fixture(scope="module")
def server(tiny):
    with serving(tiny, "-c", "512", "--page-size", "16", "-np", "8", "--no-access-log") as server:
        yield server


def check(server, path, body, note):
    status, headers, answer = server.request("POST", path, body)
    assert status in (200, 400), (note, status, answer)
    if status == 400:
        assert set(answer["error"]) >= {"message", "type", "param", "code"}, note
    elif headers["Content-Type"] == "text/event-stream":
        assert answer.endswith("data: [DONE]\n\n"), note


def test_every_field_takes_every_value_or_refuses_it(server):
    for path, body in BODIES:
        check(server, path, body, path)
        for field in [*body, "response_format", "tools", "suffix", "stream_options"]:
            for value in random.Random(field).sample(ODD, 12):
                check(server, path, {**body, field: value}, (path, field, value))
        for field in body:
            check(server, path, {k: v for k, v in body.items() if k != field}, (path, field))
    server.wait_idle()
    server.lives()


def test_bodies_hit_by_chance(server):
    rng = random.Random(SEED)
    for number in range(COUNT):
        path, body = rng.choice(BODIES)
        data = bytearray(json.dumps(body).encode())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                del data[at:at + rng.randrange(1, 20)]
            elif kind == 2:
                data[at:at] = bytes(rng.choice(b'[]{},:"\\0-9eE.') for _ in range(rng.randrange(5)))
            else:
                data[at:at] = data[rng.randrange(len(data)):][:30]
            data = data or bytearray(b" ")
        check(server, path, bytes(data), ("GP_SEED", SEED, number, bytes(data)))
    server.wait_idle()
    server.lives()
