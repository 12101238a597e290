"""Answers of a given shape: response_format and tools, through the openai client and on the wire."""

import json

import jsonschema
import openai
import pytest
from program import ROOT, make_model
from serving import joined, serving

TEMPLATES = ROOT / "tests/oracle/templates"
PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
          "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer",
                         "minimum": 0, "maximum": 120}, "tags": {"type": "array", "maxItems": 2,
                         "items": {"enum": ["kind", "shy", "loud"]}}}}
ASK = [{"role": "user", "content": "Describe a person as JSON."}]
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place.",
    "parameters": {"type": "object", "additionalProperties": False, "required": ["city"],
                   "properties": {"city": {"type": "string", "maxLength": 16},
                                  "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}}
TIME = {"type": "function", "function": {"name": "get_time"}}
TOOLS = [WEATHER, TIME]
CALLS = ('Let me see.\\n<tool_call>\\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\\n'
         '</tool_call>\\n<tool_call>\\n{"name": "get_time", "arguments": {}}\\n</tool_call>')


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": schema, "strict": True}}


@pytest.fixture(scope="module")
def small(smollm):
    with serving(smollm, "-np", "16", "-c", "2048", "--page-size", "64", "--tool-format",
                 "hermes") as server:
        yield server


@pytest.fixture(scope="module")
def llama(smollm):
    with serving(smollm, "-np", "8", "-c", "2048", "--page-size", "64", "--tool-format",
                 "llama3") as server:
        yield server


@pytest.fixture(scope="module")
def caller(folder):
    """Answers anything with two calls; its template is Qwen3's."""
    model = make_model(folder, "caller.gguf", "--spell", CALLS, "--context", "4096")
    with serving(model, "-np", "8", "--chat-template-file",
                 TEMPLATES / "Qwen-Qwen3-0.6B.jinja") as server:
        yield server


@pytest.fixture(scope="module")
def llama_caller(folder):
    model = make_model(folder, "llama_caller.gguf", "--spell",
                       '{"name": "get_weather", "parameters": {"city": "Oslo", "days": 2}}',
                       "--context", "4096")
    with serving(model, "-np", "8", "--chat-template-file",
                 TEMPLATES / "meta-llama-Llama-3.1-8B-Instruct.jinja") as server:
        yield server


@pytest.fixture(scope="module")
def thinker(folder):
    model = make_model(folder, "shape_thinker.gguf", "--token", "<think>", "--token", "</think>",
                       "--spell", '<think>\\nhmm, {"a": so\\n</think>\\n\\n{"a": 7}')
    with serving(model, "-np", "8") as server:
        yield server


# ---- documents ----

@pytest.mark.parametrize("temperature", [0, 1])
def test_client_json_schema(small, temperature):
    answer = small.client().chat.completions.create(
        model="any", messages=ASK, response_format=schema_format(PERSON), n=3, seed=5,
        temperature=temperature, max_tokens=200)
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        jsonschema.validate(json.loads(choice.message.content), PERSON)


def test_client_json_object_and_parse(small):
    client = small.client()
    answer = client.chat.completions.create(
        model="any", messages=ASK, response_format={"type": "json_object"}, temperature=0,
        max_tokens=40)
    assert answer.choices[0].message.content.startswith("{")
    import pydantic

    class Point(pydantic.BaseModel):
        x: int
        label: str = pydantic.Field(max_length=8)

    parsed = client.chat.completions.parse(model="any", messages=ASK, response_format=Point,
                                           max_tokens=120)
    assert isinstance(parsed.choices[0].message.parsed, Point)


def test_a_stream_of_a_document_is_the_plain_answer(small):
    ask = {"messages": ASK, "response_format": schema_format(PERSON), "max_tokens": 200, "seed": 3,
           "temperature": 1}
    plain = small.post("/v1/chat/completions", ask)["choices"][0]["message"]["content"]
    assert joined(small.stream("/v1/chat/completions", ask)) == plain
    jsonschema.validate(json.loads(plain), PERSON)


def test_completions_have_documents_too(small):
    answer = small.complete(["A person:", "Another:"], n=2, temperature=1, seed=2, max_tokens=200,
                            response_format=schema_format(PERSON))
    assert len(answer["choices"]) == 4
    for choice in answer["choices"]:
        jsonschema.validate(json.loads(choice["text"]), PERSON)


def test_a_document_ends_by_itself(small):
    """Neither an end token that is ignored nor a least length makes more of it."""
    for fields in ({"ignore_eos": True}, {"min_tokens": 50}):
        choice = small.chat("x", response_format=schema_format({"const": "fixed text"}),
                            max_tokens=100, **fields)["choices"][0]
        assert choice["message"]["content"] == '"fixed text"' and choice["finish_reason"] == "stop"


def test_a_document_that_is_cut_says_length(small):
    choice = small.chat("x", response_format=schema_format(PERSON), max_tokens=5)["choices"][0]
    assert choice["finish_reason"] == "length" and choice["message"]["content"].startswith("{")


def test_one_answer_does_not_change_another(small):
    """Documents beside each other, and beside free text, are what they are alone."""
    asks = [{"messages": ASK, "seed": i, "temperature": 1, "max_tokens": 30,
             "response_format": schema_format(PERSON) if i % 2 else {"type": "text"}}
            for i in range(4)]
    alone = [small.post("/v1/chat/completions", ask)["choices"][0]["message"] for ask in asks]
    sockets = [small.open_post("/v1/chat/completions", ask) for ask in asks]
    for s, want in zip(sockets, alone):
        data = b""
        while b"\r\n\r\n" not in data or b'"usage"' not in data:
            piece = s.recv(65536)
            assert piece
            data += piece
        s.close()
        body = data.split(b"\r\n\r\n", 1)[1].decode()
        got = json.loads(body[:body.rindex("}") + 1])["choices"][0]["message"]
        assert got == want


def test_the_thought_is_free(thinker):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    message = thinker.chat("x", response_format=schema_format(schema))["choices"][0]["message"]
    assert message["reasoning_content"] == 'hmm, {"a": so'
    assert json.loads(message["content"]) == {"a": 7}


def test_a_thought_that_is_cut_is_followed_by_its_document(thinker):
    schema = {"type": "object", "properties": {"a": {"const": 3}}, "required": ["a"]}
    choice = thinker.chat("x", response_format=schema_format(schema),
                          thinking_token_budget=4)["choices"][0]
    assert choice["reasoning_truncated"] and json.loads(choice["message"]["content"]) == {"a": 3}


@pytest.mark.parametrize("schema, word", [
    ({"not": {}}, "not"), ({"type": "foo"}, "type"), ({"$ref": "#"}, "itself"),
    ({"type": "string", "pattern": "(a*)*$("}, "pattern"),
    ({"type": "string", "pattern": "(" * 1000}, "deep"),
    ({"type": "string", "pattern": "*"}, "quantifier"),
    ({"type": "string", "pattern": "a{1,1000000000}"}, "repetitions"),
    ({"enum": list(range(100000))}, "states"), ({"type": "array", "minItems": 60000}, "states"),
    ({"type": "object", "properties": {"a": {"multipleOf": 2}}}, "properties.a: multipleOf")])
def test_b26_hostile_schemas_are_refused_by_name(small, schema, word):
    small.refuse("/v1/chat/completions", {"messages": ASK, "response_format": schema_format(schema)},
                 param="response_format", words=[word])


def test_b26_a_pattern_that_others_choke_on(small):
    schema = {"type": "object", "properties": {"p": {"type": "string", "pattern": "^(a*)*$"}},
              "required": ["p"]}
    choice = small.chat("x", response_format=schema_format(schema), max_tokens=40)["choices"][0]
    assert choice["finish_reason"] in ("stop", "length")
    small.lives()


@pytest.mark.parametrize("fields, param", [
    ({"response_format": 1}, "response_format"), ({"response_format": {}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema"),
    ({"tools": {}}, "tools"), ({"tools": [{"type": "function"}]}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "a", "parameters": 3}}]}, "tools"),
    ({"tools": TOOLS * 100}, "tools"), ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": "some"}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "no"}}},
     "tool_choice"),
    ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {"not": {}}}}],
      "tool_choice": "required"}, "tools"),
    ({"tools": TOOLS, "parallel_tool_calls": 1}, "parallel_tool_calls")])
def test_what_is_wrong_with_a_shape_is_named(small, fields, param):
    small.refuse("/v1/chat/completions", {"messages": ASK, **fields}, param=param)


# ---- tools ----

def assert_calls(calls):
    for call in calls:
        arguments = json.loads(call.function.arguments)
        assert call.type == "function" and call.id
        if call.function.name == "get_weather":
            jsonschema.validate(arguments, WEATHER["function"]["parameters"])
        else:
            assert call.function.name == "get_time" and isinstance(arguments, dict)


@pytest.mark.parametrize("which", ["small", "llama"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_client_named_function_is_called(which, temperature, request):
    client = request.getfixturevalue(which).client()
    answer = client.chat.completions.create(
        model="any", messages=ASK, tools=TOOLS, temperature=temperature, seed=4, max_tokens=200,
        tool_choice={"type": "function", "function": {"name": "get_weather"}}, n=2)
    for choice in answer.choices:
        assert choice.finish_reason == "tool_calls" and choice.message.content is None
        assert [call.function.name for call in choice.message.tool_calls] == ["get_weather"]
        assert_calls(choice.message.tool_calls)


@pytest.mark.parametrize("which", ["small", "llama"])
def test_client_required_calls_something(which, request):
    client = request.getfixturevalue(which).client()
    answer = client.chat.completions.create(model="any", messages=ASK, tools=[WEATHER], seed=1,
                                            tool_choice="required", parallel_tool_calls=False,
                                            max_tokens=200)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert len(answer.choices[0].message.tool_calls) == 1
    assert_calls(answer.choices[0].message.tool_calls)


def test_client_auto_finds_calls(caller):
    answer = caller.client().chat.completions.create(model="any", messages=ASK, tools=TOOLS,
                                                     temperature=0)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls" and message.content == "Let me see."
    assert [(c.function.name, c.function.arguments) for c in message.tool_calls] == [
        ("get_weather", '{"city": "Oslo"}'), ("get_time", "{}")]
    assert message.tool_calls[0].id != message.tool_calls[1].id


def test_client_auto_finds_llama_calls(llama_caller):
    answer = llama_caller.client().chat.completions.create(model="any", messages=ASK, tools=TOOLS,
                                                           temperature=0)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls" and message.content is None
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Oslo", "days": 2}


def streamed_calls(caller):
    """How many pieces the two calls came in."""
    chunks = list(caller.client().chat.completions.create(
        model="any", messages=ASK, tools=TOOLS, temperature=0, stream=True))
    text, calls, pieces = "", {}, 0
    for chunk in chunks:
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for call in delta.tool_calls or []:
            if call.index not in calls:
                assert call.id and call.type == "function" and call.function.name
                calls[call.index] = [call.id, call.function.name, ""]
            else:
                assert call.id is None and call.function.name is None
            pieces += 1
            calls[call.index][2] += call.function.arguments
    assert text == "Let me see." and chunks[-1].choices[0].finish_reason == "tool_calls"
    assert [call[1:] for call in calls.values()] == [["get_weather", '{"city": "Oslo"}'],
                                                     ["get_time", "{}"]]
    return pieces


def test_client_streams_calls(caller):
    # In pieces, not in one each, unless the server is held up and finds all of it at once.
    assert any(streamed_calls(caller) > 2 for _ in range(10))


def test_client_one_call_at_a_time(caller):
    answer = caller.client().chat.completions.create(model="any", messages=ASK, tools=TOOLS,
                                                     temperature=0, parallel_tool_calls=False)
    assert [c.function.name for c in answer.choices[0].message.tool_calls] == ["get_weather"]


def test_without_tools_calls_are_text(caller):
    for fields in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        choice = caller.chat("x", **fields)["choices"][0]
        assert choice["finish_reason"] == "stop" and "tool_calls" not in choice["message"]
        assert choice["message"]["content"] == CALLS.replace("\\n", "\n")


def test_tools_and_their_results_reach_the_template(caller):
    messages = [*ASK, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function",
         "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "snow"}]
    prompt = caller.post("/apply-template", {"messages": messages, "tools": TOOLS})["prompt"]
    assert '"name": "get_weather"' in prompt and "The weather of a place." in prompt
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>' in prompt
    assert "<tool_response>\nsnow\n</tool_response>" in prompt
    none = caller.post("/apply-template", {"messages": ASK, "tools": TOOLS, "tool_choice": "none"})
    assert "get_weather" not in none["prompt"]
    answer = caller.client().chat.completions.create(model="any", messages=messages, tools=TOOLS,
                                                     temperature=0)
    assert answer.choices[0].finish_reason == "tool_calls"
    messages[1]["tool_calls"][0]["function"]["arguments"] = "not JSON"
    caller.refuse("/v1/chat/completions", {"messages": messages, "tools": TOOLS}, param="messages")


def test_a_document_or_a_call(caller):
    """With a format and tools the answer is one or the other."""
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5}},
              "required": ["city"], "additionalProperties": False}
    choice = caller.chat("x", tools=TOOLS, response_format=schema_format(schema),
                         max_tokens=60)["choices"][0]
    message = choice["message"]
    if "tool_calls" in message:
        assert len(message["tool_calls"]) == 1 and message["content"] is None
    elif choice["finish_reason"] == "stop":
        jsonschema.validate(json.loads(message["content"]), schema)


def test_tools_want_a_style(tiny):
    with serving(tiny, "-np", "2") as server:
        server.refuse("/v1/chat/completions", {"messages": ASK, "tools": TOOLS}, param="tools",
                      words=["--tool-format"])
        with pytest.raises(openai.BadRequestError):
            server.client().chat.completions.create(model="any", messages=ASK, tools=TOOLS)
