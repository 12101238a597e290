#!/usr/bin/env python3
"""Hold the comparison of answers against math-verify.

usage: tools/oracle/answers.py MATH.jsonl [ANSWER_SAME]

Every answer of the file (field `answer`) is rewritten in three ways that are equal and three that are
not; each is compared with the answer by our program and by math-verify (pip install
math-verify==0.9.0).  Prints each disagreement, and the share of agreement at the end.
"""

import json
import random
import re
import subprocess
import sys

import math_verify


def split_top(text):
    """The elements of a comma list, by brackets of any kind."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and depth == 0 and text[i:i + 3] != ",\\!":
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in parts + [text[begin:]]]


def plus_one(x):
    return "\\infty" if "infty" in x and "-" in x else "0" if "infty" in x else f"{x} + 1"


def twice_half(x):
    """A fraction made larger, a whole number made a fraction, anything else over and under 2."""
    fraction = re.fullmatch(r"(-?)\\d?frac ?(?:\{(\d+)\}|(\d)) ?(?:\{(\d+)\}|(\d+))", x)
    if "infty" in x or "\\pm" in x:
        return x
    if re.fullmatch(r"-?\d+", x):
        return f"\\frac{{{2 * int(x)}}}{{2}}"
    if fraction:
        sign, *parts = fraction.groups()
        above, below = (int(part) for part in parts if part)
        return f"{sign}\\frac{{{3 * above}}}{{{3 * below}}}"
    return f"\\frac{{2\\left({x}\\right)}}{{2}}"


def number(x):
    n = int(x)
    equal = [f"{n}.0", f"\\frac{{{3 * n}}}{{3}}", f"{n:,}" if abs(n) > 999 else f"{n} \\text{{ units}}"]
    return equal, [str(n + 1), str(-n) if n else "10", f"\\frac{{{n * 7 + 1}}}{{7}}"]


def words(x):
    inner = re.sub(r"\\text\{(.*)\}", r"\1", x)
    other = {"(": "(F)"}.get(inner[0], "north")
    return ([inner, f"\\textbf{{{inner}}}", f"$\\text{{{inner}}}$"],
            [f"\\text{{{other}}}", other, f"\\text{{not {inner.strip('()')}}}"])


def based(x):
    digits, base = re.fullmatch(r"(\d+)_\{?(\d+)\}?", x).groups()
    return ([f"{digits}_{{{base}}}", f"{digits}_{base}", digits],
            [f"{digits[:-1]}{(int(digits[-1]) + 1) % int(base)}_{base}", f"{digits}1_{base}", f"1{digits}_{base}"])


def matrix(x):
    head, body, tail = re.fullmatch(r"(\\begin\{pmatrix\})(.*)(\\end\{pmatrix\})", x).groups()
    rows = [[cell.strip() for cell in row.split("&")] for row in body.split("\\\\")]
    join = lambda rows, kind: (f"\\begin{{{kind}}}" + " \\\\ ".join(" & ".join(r) for r in rows) +
                               f"\\end{{{kind}}}")
    edit = lambda i: [[c + "+1" if (r, k) == (i % len(rows), 0) else c for k, c in enumerate(row)]
                      for r, row in enumerate(rows)]
    return ([join(rows, "bmatrix"), join([[f"{c}+0" for c in row] for row in rows], "pmatrix"),
             join([[re.sub(r"^(-?)(\d+)/(\d+)$", r"\1\\frac{\2}{\3}", c) for c in row] for row in rows],
                  "pmatrix")],
            [join(edit(0), "pmatrix"), join(edit(1), "pmatrix"), join(rows[:-1], "pmatrix")])


def bracketed(x):
    plain = x.replace("\\left", "").replace("\\right", "").strip()
    open_, close, parts = plain[0], plain[-1], split_top(plain[1:-1])
    build = lambda parts, a=open_, b=close: f"\\left{a} {', '.join(parts)} \\right{b}"
    equal = [build(parts), f"{open_}{','.join(parts)}{close}", build([twice_half(p) for p in parts])]
    unequal = [build([plus_one(parts[0])] + parts[1:]), build(parts[:-1] + [plus_one(parts[-1])])]
    unequal.append(build(parts, open_, "]" if close == ")" else ")") if len(parts) == 2 else
                   build(parts[::-1]))
    return equal, unequal


def listed(x):
    parts = split_top(x)
    return ([", ".join(parts[::-1]), "\\{" + ",".join(parts) + "\\}",
             ", ".join(twice_half(p) for p in parts)],
            [", ".join(parts[:-1] + [plus_one(parts[-1])]), ", ".join(parts + ["99"]), parts[0]])


def in_set(x):
    parts = split_top(x[2:-2])
    return ([f"\\{{ {', '.join(parts[::-1])} \\}}", ", ".join(parts),
             f"\\left\\{{{', '.join(twice_half(p) for p in parts)}\\right\\}}"],
            [f"\\{{{', '.join(parts[:-1] + [plus_one(parts[-1])])}\\}}",
             f"\\{{{', '.join(parts + ['99'])}\\}}", f"\\{{{parts[-1]}\\}}"])


def union(x):
    parts = [p.strip() for p in x.split("\\cup")]
    return ([" \\cup ".join(parts[::-1]), "\\cup".join(parts),
             " \\cup ".join("\\left" + p[:-1] + "\\right" + p[-1] for p in parts)],
            [parts[0], " \\cup ".join(parts).replace("(", "[", 1),
             " \\cup ".join([re.sub(r"\d+", lambda m: str(int(m[0]) + 1), parts[0], count=1)] +
                            parts[1:]) if re.search(r"\d", parts[0]) else parts[-1]])


def related(x):
    if "\\in" in x:
        name, rest = x.split("\\in", 1)
        equal, unequal = bracketed(rest.strip())
        return [rest.strip(), f"{name}\\in {equal[0]}", equal[2]], unequal
    left, right = (side.strip() for side in x.split("=", 1))
    if right == "0":
        return ([f"{left} - 1 = -1", f"0 = {left}", f"{left} + 0 = 0"],
                [f"{left} = 1", f"{left} + x = 0", f"2x + {left} = 0"])
    return ([right, f"{left} = \\frac{{2\\left({right}\\right)}}{{2}}", f"{left}={right}+0"],
            [f"{right} + 1", f"{left} = {right} + 1", f"{left} = 3\\left({right}\\right)"])


def expression(x):
    core = re.sub(r"\^\\circ$|\\text\{.*\}$|\\mbox\{.*?\}(\^2)?$|^\\\$", "", x).strip()
    if "\\pm" in core:
        a, b = core.split("\\pm")
        return ([f"{a} + {b}, {a} - {b}", f"{a} - {b}, {a} + {b}", f"\\left\\{{{core}\\right\\}}"],
                [f"{a} + {b}", f"{a} \\pm 2 {b}", f"{a} + 1 \\pm {b}"])
    mixed = re.fullmatch(r"(\d+) ?\\frac\{(\d+)\}\{(\d+)\}", core)
    whole = re.sub(r",(\\!)? ?(?=\d{3})", "", core)
    if re.fullmatch(r"[\d.]+", whole):
        value = f"{int(whole)}" if "." not in whole else whole
        return ([f"\\${x}" if "$" not in x else value, f"{value}0" if "." in value else f"{value}.0", f"\\frac{{2 \\cdot {value}}}{{2}}"],
                [f"{value}1", f"-{value}", f"{value} + 1"])
    if mixed:
        n, a, b = map(int, mixed.groups())
        return ([f"\\frac{{{n * b + a}}}{{{b}}}", f"{n} + \\frac{{{a}}}{{{b}}}", f"{(n * b + a) / b}"],
                [f"\\frac{{{n * a}}}{{{b}}}", f"{n} - \\frac{{{a}}}{{{b}}}", f"{n}"])
    return ([x.replace("\\frac", "\\dfrac"), twice_half(core), f"-\\left(-\\left({core}\\right)\\right)"],
            [f"{core} + 1", f"2\\left({core}\\right)", f"-\\left({core}\\right)"])


def rewrite(x):
    if re.fullmatch(r"-?\d+", x):
        return number(x)
    if x.startswith("\\text{"):
        return words(x)
    if re.fullmatch(r"\d+_\{?\d+\}?", x):
        return based(x)
    if "pmatrix" in x:
        return matrix(x)
    if "\\cup" in x:
        return union(x)
    if "=" in x or "\\in " in x:
        return related(x)
    if x.startswith("\\{"):
        return in_set(x)
    if re.match(r"(\\left)?[(\[]", x) and x[-1] in ")]" and len(split_top(re.sub(r"\\left|\\right", "", x)[1:-1])) > 1:
        return bracketed(x)
    if len(split_top(x)) > 1 and not re.fullmatch(r"\d+,\d{3}", x):
        return listed(x)
    return expression(x)


def judge(answer, other):
    read = lambda text: math_verify.parse(f"${text}$" if "$" not in text.replace("\\$", "") else text)
    return math_verify.verify(read(answer), read(other))


def main():
    answers = [" ".join(json.loads(line)["answer"].split()) for line in open(sys.argv[1])]
    program = sys.argv[2] if len(sys.argv) > 2 else "build/gcc-release/tools/oracle/answer_same"
    pairs = [(x, y, truth) for x in answers for truth, ys in zip((1, 0), rewrite(x)) for y in ys]
    out = subprocess.run([program], input="".join(f"{x}\t{y}\n" for x, y, _ in pairs), text=True,
                         capture_output=True, check=True).stdout
    ours = [int(line) for line in out.split()]
    agreed, right, theirs_right = 0, 0, 0
    for (x, y, truth), mine in zip(pairs, ours, strict=True):
        theirs = int(judge(x, y))
        agreed += mine == theirs
        right += mine == truth
        theirs_right += theirs == truth
        if mine != theirs or mine != truth:
            print(f"{x}\t{y}\tours {mine}\tmath-verify {theirs}\tmade to be {truth}")
    n = len(pairs)
    print(f"{n} pairs: {agreed / n:.2%} agreement; as they were made: ours {right / n:.2%}, "
          f"math-verify {theirs_right / n:.2%}")
    return agreed / n < 0.98


if __name__ == "__main__":
    sys.exit(main())
