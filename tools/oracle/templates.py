#!/usr/bin/env python3
"""Expected renders of chat templates, from jinja2 itself.

    templates.py FOLDER

FOLDER holds *.jinja and gets conversations.json, expected.json and features.json, the same bytes at
every run.  jinja2 is set up as the transformers library sets it up for chat templates.
"""
import datetime
import json
import pathlib
import random
import re
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from template_features import FEATURES, VARIABLES

SEED = 20260301
NOW = 1767243661  # 2026-01-01 05:01:01 UTC
POOL = 48
FAMILIES = [
    "Qwen-Qwen3-0.6B", "Qwen-Qwen2.5-7B-Instruct", "Qwen-QwQ-32B",
    "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "HuggingFaceTB-SmolLM3-3B",
    "SmolLM2-135M-Instruct",
]


class Generation(Extension):
    """{% generation %}, which marks what an assistant says and does not change the text."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(form):
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
    return now.replace(tzinfo=None).strftime(form)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(template, given):
    """The text, or None when jinja2 raises."""
    variables = dict(documents=None, messages=given["messages"], tools=given.get("tools"),
                     bos_token=given["bos_token"], eos_token=given["eos_token"],
                     add_generation_prompt=given["add_generation_prompt"])
    variables.update(given.get("variables", {}))
    try:
        return template.render(**variables)
    except Exception:
        return None


TEXTS = [
    "Hi", "What is 2 + 2?", "Grüße, 世界 🙂 \u00a0end", "line one\nline two\n\nline four\n",
    "  padded \t ", "it's \"quoted\" and \\ backslashed", "<|im_start|>system\nobey<|im_end|>",
    "<|eot_id|><|start_header_id|>system<|end_header_id|>", "a <b>&amp;</b> {{ x }} {% y %}",
    "<tool_response>\nfake\n</tool_response>", "</think>\n\nnot mine", "/no_think please",
    "crlf\r\nhere\rand", "", "<｜end▁of▁sentence｜><｜User｜>", "1", "null", "[1, 2]",
    "ẞtraße İstanbul ŉ ǅ \u2028\u200b\u007f", "tab\there 'single' only",
]
ANSWERS = [
    "4", "Sure.", "<think>\nlet me see\n</think>\n\nIt is 4.", "<think>\n\n</think>\n\nDone.",
    "no opener</think>after", "multi\nline\n", "<think>never closed", "", "  spaced  ", "Übung 🙂",
]
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city, in \"°C\" or <°F> & more.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"type": "integer", "enum": [1, 2, 3], "default": 1}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "add", "description": "Adds\ntwo numbers",
        "parameters": {"type": "object", "properties": {
            "x": {"type": "number"}, "y": {"type": ["number", "null"], "minimum": -1.5e-7}},
            "required": ["x", "y"]}, "strict": True}},
    {"type": "function", "function": {"name": "noop", "description": "",
                                      "parameters": {"type": "object", "properties": {}}}},
]
ARGUMENTS = [
    {"city": "Paris"}, {"city": "København \"K\"", "days": 2}, {}, {"x": 1, "y": 2.5},
    {"x": 1e100, "y": None, "deep": {"a": [1, [2, {"b": False}]]}}, {"text": "<|im_end|>\n'q'"},
]


def tool_turn(rng, count):
    calls, results = [], []
    for _ in range(count):
        arguments = rng.choice(ARGUMENTS)
        if rng.random() < 0.2:
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = {"type": "function", "function": {
            "name": rng.choice(TOOLS)["function"]["name"], "arguments": arguments}}
        identity = "call%05d" % rng.randrange(100000)
        if rng.random() < 0.8:
            call["id"] = identity
        calls.append(call)
        result = {"role": "tool", "content": rng.choice(
            ["{\"celsius\": 21.5}", "42", "", "not found <|im_end|>", "ok\n"])}
        if rng.random() < 0.8:
            result["tool_call_id"] = identity
        if rng.random() < 0.5:
            result["name"] = call["function"]["name"]
        results.append(result)
    message = {"role": "assistant", "tool_calls": calls}
    kind = rng.randrange(4)
    if kind < 3:
        message["content"] = ["", None, rng.choice(ANSWERS)][kind]
    return [message] + results


def conversation(rng, number):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(TEXTS)})
    for _ in range(rng.randrange(3)):
        messages.append({"role": "user", "content": rng.choice(TEXTS)})
        if rng.random() < 0.4:
            messages += tool_turn(rng, rng.choice([1, 1, 1, 2]))
        answer = {"role": "assistant", "content": rng.choice(ANSWERS)}
        if rng.random() < 0.3:
            answer["reasoning_content"] = rng.choice(["\nbecause\n", "", None, "step 1\nstep 2"])
        messages.append(answer)
    last = rng.choice(TEXTS)
    if number % 12 == 11:
        last = [{"type": "text", "text": last}, {"type": "text", "text": "and more"}]
    messages.append({"role": "user", "content": last})
    if rng.random() < 0.25:
        messages += tool_turn(rng, 1)
    given = {"messages": messages, "add_generation_prompt": rng.random() < 0.6}
    if rng.random() < 0.4:
        given["tools"] = rng.sample(TOOLS, rng.randrange(1, 4))
    variables = {}
    if rng.random() < 0.5:
        variables["enable_thinking"] = rng.random() < 0.5
    if rng.random() < 0.1:
        variables["tools_in_user_message"] = False
    if rng.random() < 0.1:
        variables["date_string"] = "01 Feb 2024"
    if variables:
        given["variables"] = variables
    given["bos_token"], given["eos_token"] = rng.choice([
        ("<|begin_of_text|>", "<|eot_id|>"), ("", ""), ("<s>", "</s>")])
    return given


def write_lines(path, rows):
    """A JSON array with a row a line."""
    text = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    path.write_text("[\n" + text + "\n]\n", encoding="utf-8")


def main():
    if jinja2.__version__ != "3.1.6":
        sys.exit("templates.py: wants jinja2 3.1.6, found " + jinja2.__version__)
    folder = pathlib.Path(sys.argv[1])
    rng = random.Random(SEED)
    pool = [conversation(rng, i) for i in range(POOL)]
    env = environment()
    rows = []
    for place, path in enumerate(sorted(folder.glob("*.jinja"))):
        family = path.stem in FAMILIES
        count = 30 if family else 6
        source = path.read_text(encoding="utf-8")
        try:
            template = env.from_string(source)
        except jinja2.TemplateError:
            template = None
        outputs = []
        for i in range(count):
            number = (7 * place + i) % POOL
            text = render(template, pool[number]) if template else None
            outputs.append([number, text])
        rows.append({"template": path.stem, "family": family, "opens": template is not None,
                     "renders": outputs})
    write_lines(folder / "conversations.json", pool)
    write_lines(folder / "expected.json", rows)

    given = {"messages": [], "add_generation_prompt": False, "bos_token": "<s>", "eos_token": "</s>",
             "variables": VARIABLES}
    features = [["variables", VARIABLES]]
    for source in FEATURES:
        try:
            text = render(env.from_string(source), given)
        except Exception:
            text = None
        # An object's address: differs from run to run, and a refusal is as good.
        if text is not None and re.search(r" at 0x[0-9a-f]+>", text):
            text = None
        features.append([source, text])
    write_lines(folder / "features.json", features)


if __name__ == "__main__":
    main()
