#!/usr/bin/env python3
"""Random small templates, rendered by jinja2 and by growpage.

    template_diff.py PROGRAM [SEED [COUNT]]

PROGRAM is tools/oracle/template_lines.c, built.  growpage may refuse what jinja2 renders; it must never
render something else, nor render what jinja2 refuses.
"""
import json
import random
import re
import subprocess
import sys
import warnings

from templates import NOW, environment, render
from template_features import VARIABLES

# Expressions by the type they most likely have, so that most of them get past Python's type errors.
# %s stands for an operand: S string, N number, L list, D dict, B boolean, A any.
RULES = {
    "S": ["s", "u", "empty", "lines", "html", "'ab'", "''", "'a,b'", "' x '", "'é🙂'", "x", "bos_token",
          "messages[0].content", "messages[0]['role']",
          "(S + S)", "(A ~ A)", "(S * 2)", "(S)[0]", "(S)[-1]", "(S)[1:]", "(S)[::-1]", "(S)[:-2]",
          "(S)[2:0:-1]", "(S)[::2]", "(S)[N:N]", "S | upper", "(S | lower)", "(S | trim)", "(S | title)",
          "(S | capitalize)", "(A | string)", "(L | join(S))", "(A | tojson)", "(D | tojson(indent=N))",
          "(S | replace(S, S))", "(S | replace('a', 'Z', 1))", "(S | indent)", "(S | indent(2, B))",
          "(S | escape)", "(S | safe)", "(S | trim('a'))", "(S | reverse)", "(S | default(S))",
          "('%s' | format(A))", "'%s-%d' % (A, N)", "'{}{}'.format(A, A)", "(S).upper()", "(S).lower()",
          "(S).strip()", "(S).lstrip(S)", "(S).rstrip('b ')", "(S).replace(S, S)", "(S).title()",
          "(S).join(L | map('string'))", "(S).capitalize()", "(S).center(6, '*')", "(S).ljust(5)",
          "(S).removeprefix('a')", "(S).removesuffix('b')", "(S if B else S)", "(S or S)", "(L | first)",
          "(S).split(',')[0]", "(L | last)", "(L).items", "(D).keys() | join", "(A | default('D', true))",
          "(S | safe + S)", "(S | string | e)", "(S).rjust(9, '-')", "(undefinedthing | default(S))"],
    "N": ["n", "f", "1", "0", "-3", "2.5", "1e3", "tiny", "huge", "loop.index", "7", "x",
          "(N + N)", "(N - N)", "(N * N)", "(N / N)", "(N // N)", "(N % N)", "(N ** 2)", "-N", "+N",
          "(A | length)", "(S | int)", "(N | int)", "(S | float)", "(N | abs)", "(N | round)", "(N | round(1))",
          "(N | round(1, 'floor'))", "(L | length)", "(L | sum)", "([N, N] | min)", "([N, N] | max)",
          "(S).find(S)", "(S).count('a')", "(S).rfind(S)", "(N if B else N)", "(xs)[0]", "xs | first",
          "(L).count(A)", "(B + N)", "(N and N)", "(N or N)", "(D | length)", "d.b", "rows[0].age",
          "namespace(a=N).a", "range(3)[1]", "(S | length)"],
    "L": ["xs", "names", "mixed", "rows", "[]", "[1, 2, 3]", "['b', 'a']", "[A, A]", "(A, A)", "[A]",
          "messages", "(L + L)", "(L)[1:]", "(L)[::-1]", "(L)[:2]", "(L)[-2:]", "(L * 2)", "(A | list)",
          "(L | sort)", "(L | reverse | list)", "(S | list)", "(L | unique | list)", "(L | map('string') | list)",
          "(L | select | list)", "(L | reject('none') | list)", "(L | select('string') | list)",
          "(rows | selectattr('age') | list)", "(rows | map(attribute='name') | list)", "(L | batch(2) | list)",
          "(rows | selectattr('age', 'gt', N) | list)", "(rows | rejectattr('age', 'defined') | list)",
          "(L | map('upper') | list)", "(L | map('tojson') | list)", "(D).items() | list", "(D).values() | list",
          "(D | items | list)", "(D | dictsort)", "(S).split()", "(S).split(',')", "(S).split(S, 1)",
          "(S).rsplit(',', 1)", "(S).splitlines()", "(S).partition(',')", "(L if B else L)", "range(3) | list",
          "(names | sort(case_sensitive=B))", "(xs | sort(reverse=B))", "(L | default([]))", "(d.a.x)",
          "(names | map('length') | list)", "(L | select('in', L) | list)", "(L | reject('eq', A) | list)",
          "(L | map('default', A) | list)", "(names | unique(B) | list)", "(D | list)", "(D).keys() | list"],
    "D": ["d", "{}", "{'a': A}", "{'a': 1, 'b': none}", "{S: A}", "dict(a=A)", "rows[0]", "rows[-1]",
          "messages[0]", "{1: A, 'q': A}", "dict(D, k=A)", "(D if B else D)", "{N: N}", "(D or D)", "d.a",
          "dict(D | items)"],
    "B": ["t", "true", "false", "not A", "(A == A)", "(A != A)", "(N < N)", "(S < S)", "(N >= N)", "(S in S)",
          "(A in L)", "(S in D)", "(S not in S)", "(A is defined)", "(A is none)", "(A is string)",
          "(A is mapping)", "(A is iterable)", "(A is sequence)", "(A is number)", "(A is boolean)",
          "(A is true)", "(N is odd)", "(N is even)", "(A is in [1, 'a'])", "(A is eq A)", "(A is callable)",
          "(A is integer)", "(A is float)", "(A is not none)", "('aB' is lower)", "(N is divisibleby 2)",
          "(N is gt 0)", "(A is sameas none)", "(A is undefined)", "(S).startswith(S)", "(S).endswith('b')",
          "(S).isdigit()", "(B and B)", "(B or B)", "(N < N <= N)", "(L < L)", "loop.last", "loop.first",
          "(L == L)", "(S).isspace()", "(S | escape is escaped)", "(S).startswith(('a', S))"],
}


def expression(rng, depth, kind="A"):
    """A template's expression; in RULES a capital letter that stands alone is an operand."""
    if kind == "A":
        if rng.random() < 0.06:
            return rng.choice(["none", "undefinedthing", "d.nothing", "ns", "x", "z", "(A)[0]", "(A).a",
                               "(A)['a']", "(A if B)"]).replace("A", "d").replace("B", "t")
        kind = rng.choice("SSNLDB")
    elif rng.random() < 0.02:
        kind = rng.choice("SNLDB")
    rules = RULES[kind]
    if depth <= 0:
        rules = [rule for rule in rules if not re.search(r"\b[SNLDBA]\b", rule)]
    rule = rng.choice(rules)
    return re.sub(r"(?<!')\b[SNLDBA]\b(?!')", lambda m: expression(rng, depth - 1, m.group()), rule)


def statement(rng, depth):
    name = rng.choice(["x", "n", "q", "s"])
    if depth <= 0:
        return rng.choice(["{{ %s }}", "{{- %s -}} ", " {{ %s }}\n"]) % expression(rng, 2)
    kind = rng.randrange(11)
    body = "".join(statement(rng, depth - 1) for _ in range(rng.randrange(1, 3)))
    if kind == 0:
        return "{%% set %s = %s %%}\n%s" % (name, expression(rng, 2), body)
    if kind == 1:
        return "{%% if %s %%}%s{%% else %%}%s{%% endif %%}" % (
            expression(rng, 2), body, statement(rng, depth - 1))
    if kind == 2:
        return "  {%%- for %s in %s %%}\n%s[{{ loop.index }}{{ loop.last }}]{%% endfor %%}" % (
            name, rng.choice([expression(rng, 1), "xs", "d", "names", "rows"]), body)
    if kind == 3:
        return "{%% for %s in %s if %s %%}%s{%% else %%}E{%% endfor %%}" % (
            name, rng.choice(["xs", "names", "mixed", "'abc'"]), expression(rng, 1), body)
    if kind == 4:
        return "{%% macro m%d(%s=%s) %%}%s{%% endmacro %%}{{ m%d(%s) }}" % (
            depth, name, expression(rng, 1), body, depth, rng.choice(["", expression(rng, 1)]))
    if kind == 5:
        return "{%% set %s %%}%s{%% endset %%}{{ %s }}" % (name, body, name)
    if kind == 6:
        return "{%% set ns = namespace(v=0) %%}{%% for i in xs %%}{%% set ns.v = %s %%}%s{%% endfor %%}" \
            "{{ ns.v }}" % (rng.choice(["ns.v + i", "ns.v ~ i", expression(rng, 1)]), body)
    if kind == 7:
        return "{%% with %s = %s %%}%s{%% endwith %%}{{ %s }}" % (name, expression(rng, 1), body, name)
    if kind == 8:
        return "\n  {%% filter %s %%}\n%s{%% endfilter %%}\n" % (rng.choice(["upper", "trim", "indent"]), body)
    if kind == 9:
        return "{%% for i in xs %%}{%% if %s %%}{%% %s %%}{%% endif %%}%s{%% endfor %%}" % (
            expression(rng, 1), rng.choice(["break", "continue"]), body)
    return body + "{{ %s }}" % expression(rng, 3)


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    warnings.simplefilter("ignore")  # of the code that jinja2 writes
    program = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    env = environment()
    given = {"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": True,
             "bos_token": "<s>", "eos_token": "</s>", "variables": VARIABLES, "now": NOW}
    equal = refused = both = wrong = 0
    reasons = {}
    for number in range(count):
        rng = random.Random("%d %d" % (seed, number))
        source = statement(rng, rng.randrange(4))
        try:
            wanted = render(env.from_string(source), given)
        except Exception:
            wanted = None
        if wanted is not None and re.search(r" at 0x[0-9a-f]+>", wanted):
            wanted = None
        program.stdin.write((json.dumps(dict(given, source=source)) + "\n").encode())
        program.stdin.flush()
        line = program.stdout.readline()
        if not line:
            sys.exit("crashed on seed %d number %d: %r" % (seed, number, source))
        answer = json.loads(line)
        text = answer.get("text")
        if text is not None and text == wanted:
            equal += 1
        elif text is None and wanted is None:
            both += 1
        elif text is None:
            refused += 1
            reason = re.sub(r"line \d+: ", "", answer["error"])
            reasons.setdefault(reason, []).append((source, wanted))
        else:
            wrong += 1
            print("seed %d number %d\n  %r\n  wanted %r\n  got    %r" % (seed, number, source, wanted, text))
    print("%d equal, %d refused by both, %d by growpage alone, %d wrong" % (equal, both, refused, wrong))
    if "-v" in sys.argv:
        for reason, cases in sorted(reasons.items(), key=lambda item: -len(item[1])):
            print("%5d %s   %r -> %r" % (len(cases), reason, min(c[0] for c in cases)[:100], cases[0][1] and cases[0][1][:50]))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
