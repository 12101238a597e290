"""Grammars against jsonschema: what a random walk through their masks writes is JSON of the schema,
and documents of the schema are let through, over a real vocabulary and one of bytes."""

import copy
import json
import os
import random

import guide
import jsonschema
import numpy
import pytest
from guide import MAY_THINK, THINKS, Refused, Vocabulary
from program import ROOT, SANITIZED, SMOLLM

SEED = int(os.environ.get("GP_SEED", "1"))
WALKS = int(os.environ.get("GP_WALKS", "1"))

# A shared library of a sanitized build cannot be loaded by an unsanitized Python.
pytestmark = pytest.mark.skipif(SANITIZED, reason="the library is sanitized, Python is not")


def obj(required=None, **properties):
    return {"type": "object", "properties": properties,
            "required": list(properties) if required is None else required}


TEXT, WHOLE, YES = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
SHORT = {"type": "string", "maxLength": 8}
TREE = {"$defs": {"tree": obj(["v"], v=WHOLE, l={"$ref": "#/$defs/tree"},
                              r={"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]})},
        "$ref": "#/$defs/tree"}
LINE = {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}
TAGGED = {"oneOf": [obj(kind={"const": "a"}, x=WHOLE), obj(kind={"const": "b"}, y=SHORT),
                    obj(kind={"enum": ["c", "d"]})]}
# Each with documents that its grammar lets through.
SCHEMAS = [
    (True, [1, "x", None, [], {}, {"a": [{"b": -0.5e-3}]}, [[["é"]]], "\u20ac\U0001f600"]),
    ({}, [True, {"": ""}]),
    ({"type": "object"}, [{}, {"a": 1}, {"a": {"b": {"c": []}}}]),
    ({"type": "array"}, [[], [1, [2]], [{"a": None}]]),
    (TEXT, ["", "abc", 'q"\\/\n\t', "日本", "\U0001f600 x"]),
    (WHOLE, [0, -1, 7, 123456789012345678]),
    ({"type": "number"}, [0, -0.5, 1e20, 3.25]),
    (YES, [True, False]),
    ({"type": "null"}, [None]),
    ({"type": ["string", "null", "boolean"]}, ["a", None, True]),
    ({"const": 'a"b\né'}, ['a"b\né']),
    ({"const": None}, [None]),
    ({"enum": [1, "x", "xy", None, {"a": [1, 2]}, 1.5, 0.1]}, [1, "x", "xy", None, 1.5, 0.1]),
    ({"type": "string", "enum": ["x", 3, "yz"]}, ["x", "yz"]),
    (obj(a=TEXT, b=WHOLE), [{"a": "s", "b": 3}]),
    (obj([], a=WHOLE, b=WHOLE, c=WHOLE), [{}, {"b": 1}, {"a": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}]),
    (obj(["b"], a=WHOLE, b=WHOLE, c=WHOLE), [{"b": 1}, {"a": 1, "b": 2}, {"b": 1, "c": 3}]),
    ({**obj(["b"], a=WHOLE, b=WHOLE), "additionalProperties": False}, [{"b": 1}]),
    ({**obj(["zz"], a=WHOLE, ab=WHOLE, éa=WHOLE), "additionalProperties": SHORT},
     [{"zz": "x"}, {"a": 1, "zz": "x", "b": "y", "abc": "", "é": "", "éab": "", "": "z"}]),
    ({"type": "object", "additionalProperties": WHOLE}, [{}, {"x": 1, "y y": 2}]),
    ({"type": "object", "required": ["n"]}, [{"n": 1}, {"n": [], "m": 2}]),
    (obj(["b"], a=False, b=True), [{"b": {"a": 1}}]),
    ({"type": "array", "items": {"type": "integer", "minimum": -12, "maximum": 345},
      "minItems": 2, "maxItems": 4}, [[-12, 345], [0, 1, 2, 3]]),
    ({"type": "array", "prefixItems": [SHORT, WHOLE], "items": {"type": "null"}, "minItems": 1},
     [["a"], ["a", 1], ["a", 1, None, None]]),
    ({"type": "array", "prefixItems": [SHORT, WHOLE], "items": False}, [[], ["x"], ["x", 2]]),
    ({"type": "array", "items": YES, "minItems": 3}, [[True] * 3, [False] * 5]),
    ({"type": "array", "maxItems": 0}, [[]]),
    ({"type": "string", "minLength": 2, "maxLength": 5}, ["ab", "é\n\"日\\"]),
    ({"type": "string", "minLength": 3}, ["abc", "abcdefgh"]),
    ({"type": "string", "pattern": "^[a-c]{2,3}-\\d+(x|yz)?$"}, ["ab-0", "abc-123yz"]),
    ({"type": "string", "pattern": "foo"}, ["foo", "a foo b"]),
    ({"type": "string", "pattern": "^.{1,3}$"}, ["a", "é\"\\"]),
    ({"type": "string", "pattern": "^[^\"\\\\a-z]+$|b$"}, ["XY 9é", "aab"]),
    ({"type": "string", "pattern": "^(?:\\w+@\\w+\\.com|[\\u00e9-\\u00ff]\\x41)$"}, ["a@b.com", "éA"]),
    ({"type": "string", "pattern": "^(a|b(c|d)*)+?$"}, ["a", "bcdda"]),
    ({"type": "string", "pattern": "(a*)*$"}, ["", "aaa", "b"]),
    ({"type": "number", "minimum": -3, "exclusiveMaximum": 2}, [-3, -2.75, 0, 1.999]),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, [1, 0.5, 0.001]),
    ({"type": "number", "minimum": 5}, [5, 5.5, 123456]),
    ({"type": "number", "maximum": -5}, [-5, -5.5, -77]),
    ({"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 0}, [-0.5]),
    ({"type": "number", "minimum": -7, "maximum": 7}, [-7, -6.5, 0, 6.9, 7]),
    ({"type": "integer", "exclusiveMinimum": -1000, "maximum": -13}, [-999, -13, -100]),
    ({"type": "integer", "minimum": 9999999, "maximum": 20000000}, [9999999, 10000000, 20000000]),
    ({"type": "integer", "minimum": 0.5, "maximum": 7.9}, [1, 7]),
    (TREE, [{"v": 1}, {"v": 1, "l": {"v": 2}, "r": {"v": 3, "r": None}}]),
    (LINE, [[], [[], [[]]]]),
    (TAGGED, [{"kind": "a", "x": 1}, {"kind": "b", "y": "s"}, {"kind": "d"}]),
    ({"oneOf": [TEXT, {"type": "array", "items": WHOLE}, {"const": 3}]}, ["x", [1], 3]),
    ({"anyOf": [obj(a=WHOLE), obj(a=TEXT), obj(b=WHOLE)]}, [{"a": 1}, {"a": "x"}, {"b": 2}]),
    ({"allOf": [TEXT]}, ["x"]),
    ({"properties": {"a": WHOLE}}, [{"a": 1}]),
    ({"title": "t", "type": "string", "format": "date", "default": 1, "x-mine": {}}, ["2024-02-28"]),
    ({"type": "string", "format": "date-time"}, ["1999-12-31T23:59:59.5+01:00"]),
    ({"type": "string", "format": "uuid"}, ["01234567-89ab-cdef-0123-456789abcdef"]),
    ({"type": "string", "format": "ipv4"}, ["255.0.10.199"]),
    ({"type": "string", "format": "email"}, ["a.b@c-d.org"]),
    ({"type": "string", "format": "made-up"}, ["anything"]),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": WHOLE}}, [3]),
]

# And documents that are no JSON of their schema.
WRONG = [
    (obj(a=WHOLE), ['{}', '{"a":1,"b":2}', '{"a":"x"}', '{"a":1', '{"a":1}}', '[1]', '{"a": 01}']),
    ({"type": "object", "additionalProperties": WHOLE}, ['{"a":"x"}', '{"a":1,}', '{,}']),
    ({**obj([], ab=WHOLE), "additionalProperties": TEXT}, ['{"ab":"x"}', '{"a\\u0062":"x"}']),
    ({"type": "string", "maxLength": 2}, ['"abc"', '"\\n\\n\\n"', '"日本語"', 'a']),
    ({"type": "integer", "maximum": 99}, ['100', '9.5', '1e1', '-']),
    ({"type": "number", "maximum": 1}, ['1.5', '2', '1.']),
    ({"type": "array", "items": WHOLE, "maxItems": 1}, ['[1,2]', '["x"]', '[1', '[,1]']),
    (TEXT, ['"\\ud800"', '"\n"', '"\\x"', '"a"b', '""""']),
    ({"type": "string", "pattern": "^ab?$"}, ['"b"', '"abb"', '"a "']),
    (YES, ['True', '1', 'tru', ' true']),
]

# What is not available, and the words that say so.
REFUSED = [
    ({"not": {}}, "not"), ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"type": "foo"}, "type"), ({"type": []}, "type"), ({"enum": []}, "enum"),
    ({"$ref": "#"}, "itself"), ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "itself"),
    ({"$ref": "#/$defs/no"}, "$ref"), ({"$ref": "http://x/y"}, "$ref"), ({"$ref": 3}, "$ref"),
    (obj(a={"$ref": "#"}), "no document"), (False, "no document"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "no document"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "no document"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "no document"),
    ({"type": "string", "const": 3}, "no document"),
    ({"type": "string", "pattern": "a{1,1000000000}"}, "pattern"),
    ({"type": "string", "pattern": "((a{1,999}){1,999}){1,999}"}, "states"),
    ({"type": "string", "pattern": "*a"}, "quantifier"), ({"type": "string", "pattern": "(?=a)"}, "group"),
    ({"type": "string", "pattern": "(a"}, "end"), ({"type": "string", "pattern": "a)"}, "closes"),
    ({"type": "string", "pattern": "[a"}, "class"), ({"type": "string", "pattern": "\\1"}, "escape"),
    ({"type": "string", "pattern": "a^b"}, "anchor"), ({"type": "string", "pattern": "\\bx"}, "escape"),
    ({"type": "string", "pattern": "x" * 2000}, "bytes"), ({"type": "string", "pattern": "(" * 60000}, "bytes"),
    ({"type": "string", "pattern": "(" * 100}, "deep"), ({"type": "string", "pattern": 3}, "pattern"),
    ({"type": "string", "pattern": "a", "minLength": 1}, "minLength"),
    ({"type": "string", "minLength": -1}, "minLength"), ({"type": "array", "maxItems": "x"}, "maxItems"),
    ({"type": "array", "items": TEXT, "minItems": 65535}, "states"),
    ({"type": "array", "items": [TEXT]}, "prefixItems"),
    ({"type": "number", "minimum": 0.5}, "minimum"), ({"type": "integer", "maximum": 1e300}, "maximum"),
    ({"type": "number", "multipleOf": 2}, "multipleOf"), ({"minProperties": 1}, "minProperties"),
    ({"enum": [f"value {i * 7919}" for i in range(40000)]}, "states"),
    ({"enum": [f"value {i * 7919}" for i in range(100000)]}, "bytes"),
    ({"oneOf": [WHOLE, {"type": "number"}]}, "oneOf"), ({"oneOf": [obj(a=TEXT), obj(b=TEXT)]}, "oneOf"),
    ({"allOf": [TEXT, WHOLE]}, "allOf"), ({"anyOf": []}, "anyOf"), ({"anyOf": [3]}, "schema"),
    ({"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": TEXT}}, "$ref"),
    ({"type": "object", "properties": {"a": {"properties": {"b": {"if": True}}}}},
     "properties.a.properties.b: if"),
    ({"properties": 3}, "properties"), ({"required": [1]}, "required"), ({"required": "a"}, "required"),
    ({"properties": {"x" * 300: TEXT}}, "256"),
    ({"properties": {f"p{i}": TEXT for i in range(3000)}}, "2048"), (3, "schema"),
]


def nested(depth):
    schema = {}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.fixture(scope="module")
def words():
    return Vocabulary(SMOLLM)


@pytest.fixture(scope="module")
def bytewise():
    return Vocabulary(str(ROOT / "models/growpage-reasoner.gguf"))


def walk(guide, rng, patience=60):
    """A text that is drawn token by token, made to end after some patience; None: it did not."""
    vocabulary, ids = guide.vocabulary, []
    closing = [i for i, text in enumerate(vocabulary.texts) if text in (b'"', b"}", b"]", b":")]
    for step in range(6 * patience):
        allowed = guide.allowed()
        assert allowed.any(), vocabulary.text(ids)
        assert all(allowed[i] == guide.may_end() for i in vocabulary.ends)
        allowed[list(vocabulary.ends)] = False
        late = step > patience
        if guide.may_end() and (late or not allowed.any() or rng.random() < 0.3):
            return vocabulary.text(ids)
        some = [i for i in closing if allowed[i]] if late or rng.random() < 0.3 else []
        token = int(rng.choice(some or numpy.flatnonzero(allowed)))
        ids.append(token)
        if guide.take(token):
            return vocabulary.text(ids)
    return None


def check(schema, text):
    document = json.loads(text.decode())
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError:
        return  # a remark that is malformed, which is not read here
    try:
        jsonschema.validate(document, schema)
    except RecursionError:
        pytest.fail(f"{schema}: refers to itself")


@pytest.mark.parametrize("kind", ["words", "bytewise"])
def test_random_walks_write_documents_of_the_schema(kind, request):
    vocabulary = request.getfixturevalue(kind)
    rng = random.Random(SEED)
    finished = 0
    for schema, _ in SCHEMAS:
        for _ in range(WALKS if kind == "words" else 4 * WALKS):
            text = walk(vocabulary.guide(("", json.dumps(schema), "")), rng)
            if text is not None:
                finished += 1
                check(schema, text)
    assert finished > len(SCHEMAS) * WALKS * 0.8, (SEED, finished)


@pytest.mark.parametrize("kind", ["words", "bytewise"])
def test_documents_are_let_through_in_three_spacings(kind, request):
    vocabulary = request.getfixturevalue(kind)
    spacings = [{"separators": (",", ":")}, {}, {"indent": 2}]
    for schema, documents in SCHEMAS:
        # Escapes of letters are for free strings; nor are there pairs of them.
        has_one_spelling = any(word in str(schema) for word in
                               ("pattern", "const", "enum", "additionalProperties"))
        for document in documents:
            for spacing in spacings:
                for ascii_only in (False, True):
                    text = json.dumps(document, ensure_ascii=ascii_only, **spacing)
                    if ascii_only and "\\u" in text and (has_one_spelling or "\\ud83d" in text):
                        continue
                    guide_ = vocabulary.guide(("", json.dumps(schema), ""))
                    assert guide_.accepts(text.encode()), (schema, text)


def test_what_is_no_document_is_not_let_through(words, bytewise):
    for schema, texts in WRONG:
        for text in texts:
            for vocabulary in (words, bytewise):
                guide_ = vocabulary.guide(("", json.dumps(schema), ""))
                assert not guide_.accepts(text.encode()), (schema, text)


def test_refusals_name_the_keyword(bytewise):
    for schema, word in [*REFUSED, (nested(80), "deep")]:
        with pytest.raises(Refused) as error:
            bytewise.guide(("", json.dumps(schema), ""))
        assert word in str(error.value), (schema, str(error.value))
    for text in ["", "{", '{"a":1,"a":2}', "nul", "[" * 3000]:
        with pytest.raises(Refused):
            bytewise.guide(("", text, ""))


def test_changed_schemas_never_break_it(bytewise):
    """Schemas with parts that were cut out, swapped, or made something else: refused or obeyed."""
    rng = random.Random(SEED)
    pieces = [s for s, _ in SCHEMAS if isinstance(s, dict)]
    finished = 0
    for _ in range(400):
        schema = copy.deepcopy(rng.choice(pieces))
        spots = [schema]
        while spots and rng.random() < 0.8:
            spot = rng.choice(spots)
            if isinstance(spot, dict) and spot:
                key = rng.choice(sorted(spot))
                if rng.random() < 0.4:
                    spot[key] = rng.choice([*copy.deepcopy(pieces), True, False, 2, "x", None])
                elif rng.random() < 0.3:
                    del spot[key]
                else:
                    spots.append(spot[key])
            elif isinstance(spot, list) and spot:
                spots.append(rng.choice(spot))
        try:
            guide_ = bytewise.guide(("", json.dumps(schema), ""))
        except Refused:
            continue
        text = walk(guide_, rng)
        if text is None:
            continue
        finished += 1
        check(schema, text)
    assert finished > 50, (SEED, finished)


def test_a_thought_comes_first_and_is_free(words):
    schema = json.dumps(obj(a=WHOLE))
    for thought, text, fine in [
            (THINKS, b'so {"a": x} </thin hmm</think>\n\n{"a": 5}', True),
            (THINKS, b'{"a": 5}', False), (THINKS, b'</think>{"a": 5}', True),
            (MAY_THINK, b'<think>hm</think>{"a":5}', True), (MAY_THINK, b'{"a":5}', True),
            (MAY_THINK, b'<think>{"a":5}', False), (MAY_THINK, b'hm</think>{"a":5}', False),
            (guide.NO_THOUGHT, b'<think>hm</think>{"a":5}', False)]:
        made = words.guide(("", schema, ""), thought=thought)
        assert made.accepts(text) == fine, (thought, text)


def test_forms_and_separators(words):
    forms = [('<call>{"n": "f", "a": ', json.dumps(obj(x=WHOLE)), "}</call>"),
             ('<call>{"n": "fg", "a": ', None, "}</call>")]
    one, two = '<call>{"n": "f", "a": {"x": 1}}</call>', '<call>{"n": "fg", "a": {"y": [2]}}</call>'
    for text, separator, fine in [
            (one, None, True), (two, None, True), (one + "\n" + two, None, False),
            (one + "\n" + two + "\n" + one, "\n", True), (one + two, "\n", False),
            (one + "\n", "\n", False), ('<call>{"n": "f", "a": {"y": 1}}</call>', None, False)]:
        assert words.guide(*forms, separator=separator).accepts(text.encode()) == fine, text


def test_choices_of_one_guide_are_apart(bytewise):
    guide_ = bytewise.guide(("", json.dumps(obj(a=TEXT, b=WHOLE)), ""), choices=256)
    rng = random.Random(SEED)
    texts = [json.dumps({"a": "".join(rng.choices('ab"\\é日', k=rng.randrange(40))), "b": i}).encode()
             for i in range(256)]
    at = [0] * 256
    while any(at[i] < len(texts[i]) for i in range(256)):
        i = rng.choice([i for i in range(256) if at[i] < len(texts[i])])
        for token in bytewise.tokens(texts[i][at[i]:at[i] + rng.randrange(1, 60)]):
            if rng.random() < 0.05:
                assert guide_.allowed(i)[token]
            over = guide_.take(token, i)
            at[i] += 1
        assert over == (at[i] == len(texts[i]))
    assert all(guide_.may_end(i) for i in range(256))
