#!/usr/bin/env python3
"""Write what llama.cpp makes of the bundled model: greedy answers, and texts for its logits.

usage: reasoner.py LLAMA_GREEDY GROWPAGE MODEL OUT

LLAMA_GREEDY is build/oracle/bin/llama_greedy (tools/oracle/build.sh).  The first 200 problems of
`growpage eval --suite all --seed 7` are put into the model's chat template by hand and continued
greedily.  OUT/answers.jsonl keeps each answer and the hash of the whole continuation;
OUT/texts/NN.txt are 20 of the problems with their right thoughts, for logits.py.
"""

import argparse
import hashlib
import json
import pathlib
import re
import subprocess

PROBLEMS = 200
TEXTS = 20
TEXT_BYTES = 700
TOKENS_MAX = 3000


def problems(program, count):
    out = subprocess.run([program, "eval", "--suite", "all", "--print", "--json", "--seed", "7",
                          "--limit", str(count)], check=True, stdout=subprocess.PIPE).stdout
    return [json.loads(line) for line in out.splitlines()][:count]


def question(problem):
    return (f"<|im_start|>user\n{problem['prompt']}<|im_end|>\n"
            "<|im_start|>assistant\n").encode()


def solution(problem):
    return question(problem) + (f"<think>\n{problem['thought']}</think>\n"
                                f"\\boxed{{{problem['answer']}}}").encode()


def answer_of(text):
    boxes = re.findall(rb"\\boxed\{([^{}]*)\}", text)
    return boxes[-1].decode() if boxes else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("greedy")
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()

    asked = problems(args.program, PROBLEMS)
    (args.out / "texts").mkdir(parents=True, exist_ok=True)
    for number, problem in enumerate(asked[:TEXTS]):
        (args.out / "texts" / f"{number:02}.txt").write_bytes(solution(problem)[:TEXT_BYTES])
    texts = b"".join(question(problem) + b"\0" for problem in asked)
    said = subprocess.run([args.greedy, args.model, str(TOKENS_MAX)], input=texts, check=True,
                          stdout=subprocess.PIPE).stdout.split(b"\0")[:-1]
    with open(args.out / "answers.jsonl", "w", encoding="utf-8") as out:
        for problem, text in zip(asked, said, strict=True):
            line = {"suite": problem["suite"], "index": problem["index"],
                    "answer": answer_of(text), "text": hashlib.sha256(text).hexdigest()[:16]}
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
