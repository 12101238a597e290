"""llama-server's own /completion, and the fields that only vLLM or llama-server have."""

import json

import pytest
from serving import joined, serving


@pytest.fixture(scope="module")
def server(speaker):
    with serving(speaker, "-np", "4", "-c", "512", "--page-size", "64") as server:
        yield server


@pytest.fixture(scope="module")
def tiny_server(tiny):
    with serving(tiny, "-np", "4", "-c", "2048", "--page-size", "16", "--alias", "tiny",
                 "--strict-model") as server:
        yield server


TEXT = "The quick brown fox jumps over it."


def native(server, prompt="x", **fields):
    return server.post("/completion", {"prompt": prompt, "temperature": 0, **fields})


def pieces(server, prompt="x", **fields):
    data = server.post("/completion", {"prompt": prompt, "temperature": 0, "stream": True, **fields})
    frames = data.split("\n\n")
    assert frames.pop() == "" and "[DONE]" not in data
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def test_an_answer_in_its_shape(server):
    answer = native(server)
    assert answer["content"] == TEXT and answer["stop"] and answer["stop_type"] == "eos"
    assert answer["prompt"] == "x" and answer["tokens"] == [] and not answer["truncated"]
    assert answer["tokens_evaluated"] >= 1 and answer["tokens_predicted"] > 5
    assert answer["timings"]["predicted_n"] == answer["tokens_predicted"]
    assert answer["generation_settings"]["top_k"] == 40 and answer["index"] == 0
    assert {"model", "tokens_cached", "stopping_word", "id_slot", "has_new_line"} <= set(answer)


def test_pieces_join_to_the_answer(server):
    whole = native(server, return_tokens=True, n_probs=3)
    events = pieces(server, return_tokens=True, n_probs=3)
    assert "".join(event["content"] for event in events) == whole["content"]
    assert sum((event["tokens"] for event in events), []) == whole["tokens"]
    assert sum((event.get("completion_probabilities", []) for event in events), []) == \
        whole["completion_probabilities"]
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["content"] == "" and events[-1]["stop_type"] == "eos"
    assert server.post("/detokenize", {"tokens": whole["tokens"]})["content"].startswith(TEXT)
    for entry in whole["completion_probabilities"]:
        assert set(entry) == {"id", "token", "bytes", "logprob", "top_logprobs"}
        assert entry["top_logprobs"][0]["id"] == entry["id"] and len(entry["top_logprobs"]) == 3


def test_stops_and_limits(server):
    answer = native(server, stop=["fox"])
    assert answer["content"] == "The quick brown " and answer["stopping_word"] == "fox"
    assert answer["stop_type"] == "word"
    assert native(server, n_predict=2)["stop_type"] == "limit"
    assert native(server, n_predict=0)["content"] == "" and native(server, n_predict=0)["stop"]
    assert [a["content"] for a in native(server, ["x", "y"], n_cmpl=2)] == [TEXT] * 4
    assert native(server, max_tokens=3)["tokens_predicted"] == 3


def test_both_paths_and_both_forms_of_bias(server):
    ids = native(server, return_tokens=True)["tokens"]
    for path in ("/completion", "/completions"):
        for bias in ([[ids[0], False]], {str(ids[0]): -100}):
            answer = server.post(path, {"prompt": "x", "temperature": 0, "return_tokens": True,
                                        "n_predict": 3, "logit_bias": bias})
            assert answer["tokens"][0] != ids[0]
    for bias in ([[0]], [["x", 1]], [[-1, 1]], [[0, 101]], [1], "x"):
        server.refuse("/completion", {"prompt": "x", "logit_bias": bias}, param="logit_bias")
    assert server.post("/chat/completions", {"messages": [{"role": "user", "content": "x"}],
                                             "temperature": 0})["object"] == "chat.completion"


@pytest.mark.parametrize("fields", [
    {"n_keep": -5}, {"n_discard": -1000000}, {"id_slot": -7}, {"cache_reuse": -1},
    {"n_predict": -1, "max_tokens": 2}, {"cache_prompt": True}, {"temperature": 5.0}])
def test_b37_numbers_of_old_clients(server, fields):
    assert server.post("/completion", {"prompt": "x", "n_predict": 2, **fields})["stop"]


@pytest.mark.parametrize("fields", [
    {"n_predict": -2}, {"truncate_prompt_tokens": -3}, {"n_probs": 21}, {"n_probs": -1},
    {"mirostat": 1}, {"dry_multiplier": 0.5}, {"grammar": "root ::= x"}, {"n_cmpl": 0},
    {"cache_salt": ""}, {"cache_salt": 1}, {"priority": "high"},
    {"priority": 2**31}])
def test_what_is_refused_by_name(server, fields):
    server.refuse("/completion", {"prompt": "x", **fields}, param=next(iter(fields)))


# ---- vLLM's fields ----

PROMPT = list(range(100, 140))


def test_prompt_logprobs(tiny_server):
    body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0}
    echoed = tiny_server.post("/v1/completions", {**body, "echo": True, "logprobs": 2})
    for _ in range(2):  # B50: a cached prompt has the same
        answer = tiny_server.post("/v1/completions", {**body, "prompt_logprobs": 5})
        entries = answer["choices"][0]["prompt_logprobs"]
        assert entries[0] is None and len(entries) == len(PROMPT)
        values = echoed["choices"][0]["logprobs"]["token_logprobs"]
        for id, entry, value in list(zip(PROMPT, entries, values))[1:]:
            assert entry[str(id)]["logprob"] == value and 5 <= len(entry) <= 6
            ranks = sorted(e["rank"] for e in entry.values() if e["rank"])
            assert ranks == [1, 2, 3, 4, 5]
            best = max(entry.values(), key=lambda e: e["logprob"])
            assert best["rank"] == 1
    both = tiny_server.post("/v1/completions", {**body, "echo": True, "logprobs": 2,
                                                "prompt_logprobs": 5})["choices"][0]
    assert both["logprobs"] == echoed["choices"][0]["logprobs"]
    assert both["prompt_logprobs"] == entries
    tiny_server.refuse("/v1/completions", {**body, "prompt_logprobs": 1, "stream": True},
                       param="prompt_logprobs")
    tiny_server.refuse("/v1/completions", {**body, "prompt_logprobs": 21}, param="prompt_logprobs")


def test_token_ids(tiny_server):
    body = {"prompt": PROMPT, "max_tokens": 9, "ignore_eos": True, "return_token_ids": True}
    choice = tiny_server.post("/v1/completions", {**body, "temperature": 0})["choices"][0]
    assert choice["prompt_token_ids"] == PROMPT and len(choice["token_ids"]) == 9
    events = tiny_server.stream("/v1/completions", body)
    assert sum((e["choices"][0].get("token_ids", []) for e in events), []) == choice["token_ids"]
    assert joined(events) == choice["text"]


def test_a_prompt_is_cut_when_asked(tiny_server):
    body = {"temperature": 0, "max_tokens": 4, "ignore_eos": True}
    cut = tiny_server.post("/v1/completions", {**body, "prompt": PROMPT,
                                               "truncate_prompt_tokens": 7})
    plain = tiny_server.post("/v1/completions", {**body, "prompt": PROMPT[-7:]})
    assert cut["usage"]["prompt_tokens"] == 7
    assert cut["choices"][0]["text"] == plain["choices"][0]["text"]
    tiny_server.refuse("/v1/completions", {**body, "prompt": PROMPT, "truncate_prompt_tokens": 0},
                       param="truncate_prompt_tokens")
    tiny_server.refuse("/v1/completions", {**body, "prompt": PROMPT, "truncate_prompt_tokens": 7,
                                           "echo": True}, param="truncate_prompt_tokens")


def test_b51_salts_keep_prompts_apart(tiny_server):
    body = {"prompt": list(range(300, 364)), "temperature": 0, "max_tokens": 4}

    def cached(**fields):
        usage = tiny_server.post("/v1/completions", {**body, **fields})["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    assert cached() == 0 and cached() >= 48
    assert cached(cache_salt="a") == 0 and cached(cache_salt="a") >= 48
    assert cached(cache_salt="b") == 0
    hits = tiny_server.metric("vllm:prefix_cache_hits_total")
    assert hits >= 96 and tiny_server.metric("vllm:prefix_cache_queries_total") > hits


def test_a_strict_server_knows_its_name(tiny_server):
    body = {"prompt": "x", "max_tokens": 1}
    tiny_server.post("/v1/completions", {**body, "model": "tiny"})
    tiny_server.post("/v1/completions", body)
    error = tiny_server.refuse("/v1/completions", {**body, "model": "other"}, 404, param="model")
    assert error["type"] == "not_found_error"
