"""The API, as clients see it: the real openai client first, then what the wire holds."""

import json

import openai
import pytest
from program import growpage, make_model
from serving import joined, serving

SAID = "The quick brown fox jumps over it."


@pytest.fixture(scope="module")
def small(smollm):
    with serving(smollm, "-np", "16", "-c", "2048", "--page-size", "64") as server:
        yield server


@pytest.fixture(scope="module")
def talker(speaker):
    """Says SAID and ends, whatever is asked."""
    with serving(speaker, "-np", "8", "--alias", "talker") as server:
        yield server


@pytest.fixture(scope="module")
def thinker(folder):
    model = make_model(folder, "thinker.gguf", "--token", "<think>", "--token", "</think>",
                       "--spell", "<think>\\nhmm, so\\n</think>\\n\\nYes, of course.")
    with serving(model, "-np", "8") as server:
        yield server


MESSAGES = [{"role": "user", "content": "Write one sentence about the sea."}]


# ---- the openai client ----

def test_client_completion_is_what_run_prints(small, smollm):
    answer = small.client().completions.create(model="any", prompt="Once upon a time",
                                               max_tokens=24, temperature=0)
    alone = growpage("run", "-m", smollm, "-p", "Once upon a time", "-n", "24", "--temp", "0",
                     "--json").json
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert answer.choices[0].text == alone["text"]
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.prompt_tokens == alone["usage"]["prompt_tokens"]
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24


def test_client_chat_is_what_run_prints(small, smollm):
    answer = small.client().chat.completions.create(
        model="any", messages=MESSAGES, max_completion_tokens=24, temperature=0)
    alone = growpage("run", "-m", smollm, "--chat", "-p", MESSAGES[0]["content"], "-n", "24",
                     "--temp", "0", "--json").json
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == alone["text"]
    assert answer.usage.prompt_tokens == alone["usage"]["prompt_tokens"]


def test_client_stream_is_the_plain_answer(small):
    client = small.client()
    ask = dict(model="any", messages=MESSAGES, max_tokens=24, temperature=0)
    plain = client.chat.completions.create(**ask)
    chunks = list(client.chat.completions.create(**ask, stream=True,
                                                 stream_options={"include_usage": True}))
    assert len({chunk.id for chunk in chunks}) == 1
    assert len(chunks) > 20  # as they come, not in one piece
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain.choices[0].message.content
    assert chunks[-1].choices == [] and chunks[-1].usage == plain.usage


def test_client_seed_and_n(small):
    client = small.client()

    def four(temperature):
        answer = client.completions.create(model="any", prompt="My favourite", n=4, seed=7,
                                           max_tokens=12, temperature=temperature)
        return [choice.text for choice in answer.choices]

    first = four(1)
    assert len(set(first)) == 4 and four(1) == first
    assert len(set(four(0))) == 1


def test_client_logprobs(small):
    chat = small.client().chat.completions.create(
        model="any", messages=MESSAGES, max_tokens=8, temperature=0, logprobs=True, top_logprobs=3)
    entries = chat.choices[0].logprobs.content
    joined_bytes = b"".join(bytes(entry.bytes) for entry in entries)
    assert joined_bytes.decode() == chat.choices[0].message.content
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == max(top.logprob for top in entry.top_logprobs) <= 0
        assert entry.token == entry.top_logprobs[0].token
    text = small.client().completions.create(model="any", prompt="One two", max_tokens=4,
                                             temperature=0, logprobs=2)
    logprobs = text.choices[0].logprobs
    assert "".join(logprobs.tokens) == text.choices[0].text
    assert len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == 4
    assert logprobs.text_offset[0] == 0 and logprobs.text_offset == sorted(logprobs.text_offset)


def test_client_stop(talker):
    answer = talker.client().completions.create(model="any", prompt="x", max_tokens=50,
                                                stop=["own fox"])
    assert answer.choices[0].text == "The quick br"
    assert answer.choices[0].finish_reason == "stop"


def test_client_errors(small):
    client = small.client()
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="any", prompt="x", temperature=9)
    assert error.value.param == "temperature" and error.value.status_code == 400
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="any", prompt=[5] * 3000)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")
    assert client.models.retrieve(client.models.list().data[0].id).object == "model"


def test_client_leaves_a_stream(small):
    stream = small.client().chat.completions.create(model="any", messages=MESSAGES, stream=True,
                                                    extra_body={"ignore_eos": True})
    next(iter(stream))
    assert small.kv()["pool"]["pages_used"] > 0
    stream.close()
    small.wait_idle()


# ---- requests ----

def test_prompts_in_every_form(small):
    ids = small.post("/tokenize", {"prompt": "One two"})["tokens"]
    one = small.complete("One two", max_tokens=6)["choices"][0]["text"]
    assert small.complete(ids, max_tokens=6)["choices"][0]["text"] == one
    for many in (["One two", "Red blue"], [ids, ids]):
        answer = small.complete(many, max_tokens=6, n=2)
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert [choice["text"] for choice in answer["choices"]][:2] == [one, one]
        assert answer["usage"]["completion_tokens"] == 24
        assert answer["usage"]["prompt_tokens"] == 2 * len(ids)


def test_content_may_be_a_list_of_parts(small):
    plain = small.chat("Name a colour.", max_tokens=8)
    parts = [{"type": "text", "text": "Name a colour."}]
    listed = small.post("/v1/chat/completions",
                        {"messages": [{"role": "user", "content": parts}], "max_tokens": 8,
                         "temperature": 0})
    assert listed["choices"] == plain["choices"] and listed["usage"] == plain["usage"]


def test_lengths(talker):
    whole = talker.complete(max_tokens=50)
    assert whole["choices"][0]["text"] == SAID and whole["choices"][0]["finish_reason"] == "stop"
    assert talker.chat()["choices"][0]["message"]["content"] == SAID
    assert talker.complete()["usage"]["completion_tokens"] <= 16
    assert talker.chat(max_tokens=1, max_completion_tokens=3)["usage"]["completion_tokens"] == 3
    far = talker.complete(ignore_eos=True, max_tokens=40)
    assert far["choices"][0]["finish_reason"] == "length"
    assert far["usage"]["completion_tokens"] == 40


def test_min_tokens_bans_the_end(talker):
    count = talker.complete(max_tokens=50)["usage"]["completion_tokens"]
    more = talker.complete(max_tokens=50, min_tokens=count + 3)
    assert more["usage"]["completion_tokens"] >= count + 3


def test_stop_token_ids(talker):
    ids = talker.post("/tokenize", {"content": SAID})["tokens"]
    answer = talker.complete(max_tokens=50, logprobs=0)
    tokens = answer["choices"][0]["logprobs"]["tokens"]
    told = talker.complete(max_tokens=50, logprobs=0, return_tokens_as_token_ids=True)
    third = int(told["choices"][0]["logprobs"]["tokens"][2].split(":")[1])
    cut = talker.complete(max_tokens=50, stop_token_ids=[third])["choices"][0]
    assert cut["text"] == "".join(tokens[:2])
    assert cut["finish_reason"] == "stop" and cut["stop_reason"] == third
    assert len(ids) > 0


def test_logit_bias_bends_the_answer(small):
    told = small.complete("One", max_tokens=1, logprobs=2, return_tokens_as_token_ids=True)
    top = told["choices"][0]["logprobs"]["top_logprobs"][0]
    best, second = (key.split(":")[1] for key in sorted(top, key=top.get, reverse=True))
    bent = small.complete("One", max_tokens=1, logit_bias={best: -100}, logprobs=0,
                          return_tokens_as_token_ids=True)
    assert bent["choices"][0]["logprobs"]["tokens"] == ["token_id:" + second]


def test_echo_scores_the_prompt(small):
    ids = small.post("/tokenize", {"prompt": "One two three four"})["tokens"]
    ask = {"max_tokens": 1, "echo": True, "logprobs": 1}
    answer = small.complete([ids], **ask)["choices"][0]
    logprobs = answer["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"]) == len(ids) + 1
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    assert all(value < 0 for value in logprobs["token_logprobs"][1:])
    assert answer["text"].startswith("One two three four")
    assert "".join(logprobs["tokens"]) == answer["text"]
    events = small.stream("/v1/completions", {"prompt": [ids], **ask})
    assert joined(events) == answer["text"]
    streamed = [value for event in events for choice in event["choices"] if choice["logprobs"]
                for value in choice["logprobs"]["token_logprobs"]]
    assert streamed == logprobs["token_logprobs"]


def test_tokens_there_and_back(small):
    text = "Hello, wörld 😀"
    answer = small.post("/tokenize", {"content": text, "with_pieces": True})
    ids = [token["id"] for token in answer["tokens"]]
    assert answer["count"] == len(ids) and answer["max_model_len"] == 2048
    back = small.post("/detokenize", {"tokens": ids})
    assert back == {"prompt": text, "content": text}
    strings = small.post("/tokenize", {"prompt": "a b", "return_token_strs": True})
    assert "".join(strings["token_strs"]) == "a b"


def test_survivors_go_where_the_request_says(small):
    kv = {"policy": "fixed:128", "stats": True}
    ask = {"max_tokens": 200, "ignore_eos": True, "temperature": 0}
    shift, fill = (small.complete("Once", **ask, kv={**kv, "compact": how})["choices"][0]
                   for how in ("shift", "fill"))
    assert shift["kv"]["compress"] > 0 and fill["kv"]["compress"] > 0


def test_a_scorer_of_a_request(tiny):
    """Memory for a scorer is taken at start, for the policy that is named there."""
    ask = {"max_tokens": 200, "ignore_eos": True, "temperature": 0}
    with serving(tiny, "--kv", "rkv:64", "--page-size", "32", "--kv-trigger", "steps:40") as server:
        def cuts(**kv):
            return server.complete("Once", **ask, kv={**kv, "stats": True})["choices"][0]["kv"]

        own = cuts()
        assert own["policy"] == "rkv:64" and 2 <= own["compress"] <= 5
        assert cuts(trigger="steps:20")["compress"] > own["compress"]
        other = cuts(policy="snapkv:64", trigger="page",
                     scorer={"window": 4, "group": "mean", "lambda": 0.5, "window_keys": True})
        assert other["policy"] == "snapkv:64" and other["compress"] > 0
        server.refuse("/v1/completions",
                      {"prompt": "x", "kv": {"policy": "rkv:64", "scorer": {"window": 900}}},
                      words=["kv rkv: a budget of 64 tokens is too small"])


def test_templates_are_rendered(small):
    prompt = small.post("/apply-template", {"messages": MESSAGES})["prompt"]
    assert MESSAGES[0]["content"] in prompt and prompt.endswith("<|im_start|>assistant\n")
    bare = small.post("/apply-template", {"messages": MESSAGES, "add_generation_prompt": False})
    assert prompt.startswith(bare["prompt"]) and len(bare["prompt"]) < len(prompt)
    count = small.chat(MESSAGES[0]["content"], max_tokens=1)["usage"]["prompt_tokens"]
    assert len(small.post("/tokenize", {"messages": MESSAGES})["tokens"]) == count


def test_the_cache_of_a_request(small):
    ask = {"max_tokens": 150, "ignore_eos": True}
    answer = small.complete("Once", **ask, kv={"policy": "fixed:128", "stats": True})
    kv = answer["choices"][0]["kv"]
    assert kv["policy"] == "fixed:128" and kv["pages_peak"] == 2 and kv["compress"] > 0
    full = small.complete("Once", **ask, kv={"policy": "full", "stats": True})
    assert full["choices"][0]["kv"]["pages_peak"] == 3
    assert "kv" not in small.complete("Once", max_tokens=2)["choices"][0]
    events = small.stream("/v1/completions",
                          {"prompt": "Once", **ask, "kv": {"policy": "fixed:128", "stats": True}})
    assert events[-1]["choices"][0]["kv"]["compress"] == kv["compress"]


def test_props_slots_metrics(small):
    before = small.metric("vllm:generation_tokens_total")
    small.complete(max_tokens=5, ignore_eos=True)
    small.wait_idle()
    assert small.metric("vllm:generation_tokens_total") == before + 5
    assert small.get("/props")["total_slots"] == 16
    with small.open_post("/v1/completions", {"prompt": "x", "max_tokens": 1500,
                                             "ignore_eos": True}):
        while not (slots := small.get("/slots")) or slots[0]["kv"]["pages"] == 0:
            pass
        slot = slots[0]
        assert slot["is_processing"] and slot["kv"]["pages"] >= 1
        assert small.metric("vllm:num_requests_running") == 1
        assert small.metric("vllm:kv_cache_usage_perc") > 0
        assert small.kv()["requests"][0]["policy"] == "growpage"
    small.wait_idle()


# ---- B23: thoughts ----

def test_b23_thoughts_stand_apart(thinker):
    message = thinker.chat()["choices"][0]["message"]
    assert message["reasoning_content"] == message["reasoning"] == "hmm, so"
    assert message["content"] == "Yes, of course."
    events = thinker.stream("/v1/chat/completions", {"messages": MESSAGES})
    assert joined(events, name="reasoning_content") == "hmm, so"
    assert joined(events) == "Yes, of course."
    for event in events:
        delta = event["choices"][0]["delta"]
        assert "<" not in (delta.get("content") or "") + (delta.get("reasoning_content") or "")


def test_b23_cut_inside_the_thought(thinker):
    choice = thinker.chat(max_tokens=3)["choices"][0]
    assert choice["finish_reason"] == "length" and choice["message"]["content"] == ""
    assert "hmm, so".startswith(choice["message"]["reasoning_content"])


def test_b23_tags_that_are_no_tokens(folder):
    model = make_model(folder, "speller.gguf", "--spell",
                       "<thi\\|nk>a\\|b </t\\|hin\\|k>\\|\\nc")
    with serving(model) as server:
        message = server.chat()["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("ab ", "c")
        events = server.stream("/v1/chat/completions", {"messages": MESSAGES})
        assert joined(events, name="reasoning_content") == "ab " and joined(events) == "c"
        for tokens in range(1, 7):
            cut = server.chat(max_tokens=tokens)["choices"][0]["message"]
            assert "<" not in cut.get("reasoning_content", "")
    with serving(model, "--reasoning-format", "none") as server:
        message = server.chat()["choices"][0]["message"]
        assert message["content"] == "<think>ab </think>\nc"
        assert "reasoning_content" not in message


def test_b23_a_template_that_opens_the_thought(folder):
    model = make_model(folder, "opened.gguf", "--spell", "why \\|not</th\\|ink>\\|so")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
    with serving(model, "--chat-template", template) as server:
        message = server.chat()["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("why not", "so")


# ---- B24: thinking budgets ----

@pytest.fixture(scope="module")
def ponderer(folder):
    """Thinks for seven tokens, answers, thinks again, answers again."""
    model = make_model(
        folder, "ponderer.gguf", "--token", "<think>", "--token", "</think>", "--spell",
        "<think>\\|t1\\|t2\\|t3\\|t4\\|t5\\|t6\\|t7\\|</think>\\|a1\\|a2\\|a3\\|a4\\|a5\\|a6\\|a7\\|a8")
    with serving(model, "-np", "4") as server:
        yield server


ANSWERED = "a1a2a3a4a5a6a7a8"


@pytest.mark.parametrize("budget, thought, cut", [
    (-1, "t1t2t3t4t5t6t7", False), (8, "t1t2t3t4t5t6t7", False), (7, "t1t2t3t4t5t6t7", True),
    (5, "t1t2t3t4t5", True), (1, "t1", True), (0, None, True)])
def test_b24_a_budget_ends_the_thought_and_nothing_else(ponderer, budget, thought, cut):
    choice = ponderer.chat(thinking_token_budget=budget)["choices"][0]
    assert choice["message"].get("reasoning_content") == thought
    assert choice["message"]["content"] == ANSWERED and choice["finish_reason"] == "stop"
    assert choice.get("reasoning_truncated", False) == cut
    events = ponderer.stream("/v1/chat/completions", {"messages": MESSAGES, "n": 2,
                                                      "thinking_token_budget": budget})
    for index in range(2):
        assert joined(events, index, "reasoning_content") == (thought or "")
        assert joined(events, index) == ANSWERED
    ends = [choice for event in events for choice in event["choices"] if choice["finish_reason"]]
    assert [end.get("reasoning_truncated", False) for end in ends] == [cut, cut]


def test_b24_blocks_share_a_budget(folder):
    """A metronome that begins again: the second block has what the first one left."""
    model = make_model(folder, "again.gguf", "--token", "<think>", "--token", "</think>", "--loop",
                       "--spell", "<think>\\|t1\\|t2\\|t3\\|</think>\\|a1\\|a2")
    with serving(model, "--reasoning-format", "none", "-c", "512") as server:
        choice = server.chat(thinking_token_budget=5, max_tokens=40)["choices"][0]
        text = choice["message"]["content"]
        assert text.startswith("<think>t1t2t3</think>a1a2<think>t1t2</think>a1a2<think></think>a1")
        assert choice["reasoning_truncated"]


def test_b24_an_opened_thought_without_a_budget_is_closed_at_once(folder):
    model = make_model(folder, "closed.gguf", "--spell", "a1\\|a2")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
    with serving(model, "--chat-template", template, "--reasoning-budget", "0") as server:
        choice = server.chat(max_tokens=40)["choices"][0]
        assert choice["reasoning_truncated"] and "reasoning_content" not in choice["message"]
        assert choice["message"]["content"] == "a1a2"


# ---- B38 to B42: streams ----

@pytest.fixture(scope="module")
def smiler(folder):
    model = make_model(folder, "smiler.gguf", "--spell", "half \\xF0\\x9F\\|\\x98\\x80 done")
    with serving(model) as server:
        yield server


def test_b38_characters_split_across_tokens(smiler):
    whole = smiler.complete(max_tokens=50)["choices"][0]["text"]
    assert whole == "half 😀 done"
    events = smiler.stream("/v1/completions", {"prompt": "x", "max_tokens": 50})
    assert joined(events) == whole
    cut = smiler.complete(max_tokens=1)["choices"][0]["text"]
    assert cut == "half \ufffd"
    assert joined(smiler.stream("/v1/completions", {"prompt": "x", "max_tokens": 1})) == cut


@pytest.mark.parametrize("stop, said", [
    (["fox"], "The quick brown "), (["e quick br", "quick"], "The "),
    (["The"], ""), (["it.", "over it."], "The quick brown fox jumps "), (["zzz"], SAID),
    (["it.zz"], SAID), (["T", "Th"], ""), ("own fo", "The quick br")])
def test_b40_stop_strings(talker, stop, said):
    plain = talker.complete(max_tokens=50, stop=stop)["choices"][0]
    events = talker.stream("/v1/completions", {"prompt": "x", "max_tokens": 50, "stop": stop})
    assert plain["text"] == joined(events) == said
    assert plain["finish_reason"] == "stop"
    stops = [stop] if isinstance(stop, str) else stop
    kept = talker.complete(max_tokens=50, stop=stop, include_stop_str_in_output=True)["choices"][0]
    if said != SAID:
        assert plain["stop_reason"] in stops
        assert kept["text"] == said + plain["stop_reason"]


def test_b40_withheld_text_comes_at_the_end(talker):
    for tokens in range(1, 8):
        text = talker.complete(max_tokens=tokens)["choices"][0]["text"]
        held = talker.complete(max_tokens=tokens, stop=text + "\x01")["choices"][0]
        assert held["text"] == text and held["stop_reason"] is None
        events = talker.stream("/v1/completions",
                               {"prompt": "x", "max_tokens": tokens, "stop": text + "\x01"})
        assert joined(events) == text


def test_b40_nothing_runs_past_a_stop(talker):
    answer = talker.complete(max_tokens=1000, ignore_eos=True, stop="quick")
    assert answer["usage"]["completion_tokens"] < 8


def test_b41_shape_of_chunks(talker):
    for n in (1, 2):
        events = talker.stream("/v1/chat/completions",
                               {"messages": MESSAGES, "n": n,
                                "stream_options": {"include_usage": True}})
        assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] > 0
        for index in range(n):
            mine = [event["choices"][0] for event in events[:-1]
                    if event["choices"][0]["index"] == index]
            assert mine[0]["delta"] == {"role": "assistant", "content": ""}
            assert mine[-1]["delta"] == {} and mine[-1]["finish_reason"] == "stop"
            assert all(choice["finish_reason"] is None for choice in mine[:-1])
            assert "".join(choice["delta"]["content"] for choice in mine[:-1]) == SAID
        assert all("usage" not in event for event in events[:-1])
    bare = talker.stream("/v1/chat/completions", {"messages": MESSAGES})
    assert all(event["choices"] for event in bare)
    running = talker.stream("/v1/chat/completions",
                            {"messages": MESSAGES, "stream_options":
                             {"continuous_usage_stats": True}})
    counts = [event["usage"]["completion_tokens"] for event in running]
    assert counts == sorted(counts) and counts[0] >= 1


def test_b41_a_stop_at_the_first_token(talker):
    events = talker.stream("/v1/completions", {"prompt": "x", "stop": "The"})
    assert [event["choices"][0]["text"] for event in events] == [""]
    assert events[0]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("stop", [None, "fox jum", " 😀 do"])
def test_b42_streamed_logprobs_are_the_plain_ones(talker, smiler, stop):
    for server in (talker, smiler):
        ask = {"messages": MESSAGES, "logprobs": True, "top_logprobs": 5, "stop": stop}
        plain = server.post("/v1/chat/completions", {**ask, "temperature": 0})["choices"][0]
        entries = plain["logprobs"]["content"]
        events = server.stream("/v1/chat/completions", ask)
        streamed = [entry for event in events for choice in event["choices"]
                    if choice["logprobs"] for entry in choice["logprobs"]["content"]]
        assert streamed == entries
        data = b"".join(bytes(entry["bytes"]) for entry in entries)
        text = plain["message"]["content"].encode()
        # A token that a stop string cut in its middle is shown whole.
        assert data.startswith(text) and (stop or data == text)
        for entry in entries:
            assert any(top["bytes"] == entry["bytes"] for top in entry["top_logprobs"])


# ---- what else a request can get wrong ----

@pytest.mark.parametrize("fields, param", [
    ({"temperature": -1}, "temperature"), ({"temperature": 999999}, "temperature"),
    ({"temperature": "1"}, "temperature"), ({"top_p": 0}, "top_p"), ({"top_p": -1}, "top_p"),
    ({"top_p": 1.5}, "top_p"), ({"top_k": -5}, "top_k"), ({"min_p": 2}, "min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"), ({"presence_penalty": 3}, "presence_penalty"),
    ({"n": 0}, "n"), ({"n": 129}, "n"), ({"n": 1.5}, "n"), ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 1e9}, "max_tokens"), ({"seed": 1.5}, "seed"), ({"stream": 1}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"logprobs": 21}, "logprobs"), ({"logprobs": True}, "logprobs"),
    ({"min_tokens": 20}, "min_tokens"), ({"best_of": 2}, "best_of"), ({"suffix": "x"}, "suffix"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"), ({"logit_bias": {"abc": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias"), ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"stop_token_ids": [-1]}, "stop_token_ids"), ({"stop_token_ids": [99999999]},
                                                  "stop_token_ids"),
    ({"tools": [{}]}, "tools"), ({"thinking_token_budget": -2}, "thinking_token_budget"),
    ({"kv": 1}, "kv"), ({"kv": {"polcy": "full"}}, "kv.polcy"), ({"kv": {"é" * 99: 1}}, None),
    ({"kv": {"policy": "none"}}, "kv.policy"), ({"kv": {"threshold": "x"}}, "kv.threshold"),
    ({"kv": {"max_pages": -1}}, "kv.max_pages"), ({"kv": {"metric": "x"}}, "kv.metric"),
    ({"kv": {"trigger": "often"}}, "kv.trigger"), ({"kv": {"scorer": 1}}, "kv.scorer"),
    ({"kv": {"policy": "rkv:64", "scorer": {"windw": 8}}}, "kv.scorer"),
    ({"kv": {"policy": "rkv:64", "scorer": {"window": [8]}}}, "kv.scorer"),
    ({"kv": {"scorer": {"window": 8}}}, "kv.scorer"), ({"kv": {"compact": "sort"}}, "kv.compact"),
    ({"model": 1}, "model")])
def test_b29_fields_out_of_range_are_named(talker, fields, param):
    words = [param[:2]] if param else []
    talker.refuse("/v1/completions", {"prompt": "x", **fields}, param=param, words=words)


def test_b29_what_is_in_range(talker):
    for fields in ({"temperature": 1e-30}, {"seed": -1}, {"seed": 2 ** 63 - 1}, {"top_k": -1},
                   {"temperature": None, "top_p": None, "stop": None, "logit_bias": None},
                   {"logit_bias": {str(i): -100 for i in range(200)}}):
        assert talker.complete(**fields)["choices"][0]["finish_reason"] in ("stop", "length")
    talker.refuse("/v1/completions", '{"prompt":"x","logit_bias":{"1":1e999}}')
    talker.refuse("/v1/completions", '{"prompt":"x","seed":9223372036854775808}')


@pytest.mark.parametrize("prompt", [[-1], [[-1]], [2147483648], [1.5], [1, "a", 2], [[], [1]],
                                    [["a"]], {"a": 1}, 7, [None], [99999999]])
def test_b28_ids_out_of_range(talker, prompt):
    error = talker.refuse("/v1/completions", {"prompt": prompt}, param="prompt")
    assert error["message"].startswith("prompt:")


def test_b28_ids_of_detokenize(talker):
    for tokens in ([-1], [2147483648], [1.5], [1, "a"], "x", None):
        talker.refuse("/detokenize", {"tokens": tokens}, param="tokens")


@pytest.mark.parametrize("stop", ["", [""], ["", "x"], 5, [5], ["x"] * 17, "x" * 1025])
def test_b31_stops_that_cannot_be(talker, stop):
    talker.refuse("/v1/completions", {"prompt": "x", "stop": stop}, param="stop")


def test_b31_no_stop(talker):
    for stop in (None, []):
        assert talker.complete(max_tokens=50, stop=stop)["choices"][0]["text"] == SAID


@pytest.mark.parametrize("prompt", ["", [""], [], [[]], None])
def test_b32_nothing_to_complete(talker, prompt):
    talker.refuse("/v1/completions", {"prompt": prompt}, param="prompt")
    talker.refuse("/v1/completions", {}, param="prompt")
    talker.lives()
    talker.lives()


def test_b32_messages(talker):
    chat = "/v1/chat/completions"
    for messages in ([], None, "x", [5], [{"content": "x"}], [{"role": "king", "content": "x"}],
                     [{"role": "user", "content": [{"type": "image_url"}]}],
                     [{"role": "user", "content": 5}]):
        talker.refuse(chat, {"messages": messages}, param="messages")
    for content in ("", None, []):
        answer = talker.post(chat, {"messages": [{"role": "user", "content": content}]})
        assert answer["choices"][0]["message"]["content"] == SAID


def test_b33_max_tokens_zero_and_one_with_echo(small):
    ids = small.post("/tokenize", {"prompt": "The first of several short words"})["tokens"]
    prompts = [ids, ids[:3], ids[1:], ids[2:4]]
    ask = {"echo": True, "logprobs": 1}
    one = small.complete(prompts, max_tokens=1, **ask)
    none = small.complete(prompts, max_tokens=0, **ask)
    again = small.complete(prompts, max_tokens=1, **ask)
    assert again["choices"] == one["choices"]
    assert one["usage"]["completion_tokens"] == 4 and none["usage"]["completion_tokens"] == 0
    for index, (with_one, with_none) in enumerate(zip(one["choices"], none["choices"])):
        count = len(prompts[index])
        assert with_one["index"] == with_none["index"] == index
        values = with_one["logprobs"]["token_logprobs"]
        assert len(values) == count + 1 and values[0] is None
        assert with_none["logprobs"]["token_logprobs"] == values[:count]
        assert with_one["text"].startswith(with_none["text"])
        # Greedy, so the drawn token's number is the largest of its map, to the last digit.
        assert values[-1] == max(with_one["logprobs"]["top_logprobs"][-1].values())
    alone = [small.complete(p, max_tokens=1, **ask)["choices"][0]["logprobs"] for p in prompts]
    assert alone == [choice["logprobs"] for choice in one["choices"]]


def test_b33_an_end_token_keeps_its_entry(talker):
    answer = talker.complete(max_tokens=50, logprobs=0)
    logprobs = answer["choices"][0]["logprobs"]
    assert len(logprobs["tokens"]) == answer["usage"]["completion_tokens"]
    assert "".join(logprobs["tokens"][:-1]) == SAID
    assert logprobs["tokens"][-1].startswith("<|")


def test_b35_no_silent_cut(tiny):
    with serving(tiny, "-c", "512", "-np", "2") as server:
        error = server.refuse("/v1/completions", {"prompt": [5] * 600}, words=[
            "maximum context length is 512", "600 tokens", "exceeds the available context size"])
        assert error["type"] == "exceed_context_size_error"
        assert error["code"] == "context_length_exceeded"
        assert (error["n_prompt_tokens"], error["n_ctx"]) == (600, 512)
        streamed = server.refuse("/v1/completions", {"prompt": [5] * 512, "stream": True})
        assert streamed["code"] == "context_length_exceeded"
        far = server.complete([5] * 100, max_tokens=65535, ignore_eos=True)
        assert far["choices"][0]["finish_reason"] == "length"
        usage = far["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (100, 412)


def test_b35_a_text_far_too_long_is_refused_by_its_length(small):
    small.refuse("/v1/completions", {"prompt": "word " * 2000000}, words=["context"])


def test_b35_what_the_pool_can_never_hold(tiny):
    with serving(tiny, "--kv-pages", "2", "--page-size", "64", "-np", "1") as server:
        error = server.refuse("/v1/completions", {"prompt": [5] * 200}, words=["KV pool"])
        assert error["code"] == "context_length_exceeded"


def test_b54_choices_are_prompt_major(small):
    answer = small.complete(["One", "Two"], n=2, max_tokens=6, temperature=1, seed=7)
    texts = [choice["text"] for choice in answer["choices"]]
    assert len(texts) == 4 and len(set(texts)) >= 3
    alone = [small.complete(prompt, n=2, max_tokens=6, temperature=1, seed=7)["choices"]
             for prompt in ("One", "Two")]
    assert texts == [choice["text"] for choices in alone for choice in choices]


def test_every_answer_is_the_one_alone(small):
    """32 at once on 16 places, each the greedy answer that it gets alone."""
    prompts = [f"Number {i} is" for i in range(32)]
    alone = [small.complete(prompt, max_tokens=10)["choices"][0]["text"] for prompt in prompts]
    together = small.complete(prompts, max_tokens=10)["choices"]
    assert [choice["text"] for choice in together] == alone
    small.wait_idle()


def test_json_is_one_line_of_utf8(smiler):
    data = json.dumps(smiler.complete(max_tokens=50), ensure_ascii=False)
    assert "😀" in data
