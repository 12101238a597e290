"""Batches of problems from `growpage eval --print`, made in the background, the same for one seed.

The text comes in blocks.  A block is a pure function of the run's seed, its own number and how far
the run had come when it was asked for, so that a run is continued by naming these three.
"""
import hashlib
import json
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from layout import THINK, THINK_END, TURN_END, TURN_START

PROBLEMS_A_CALL = 32
# More of them waste less on padding (32: 3 %, 64: 2 %), but follow the curriculum less closely.
BATCHES_A_BLOCK = 64
WARM_UPS = ("copy", "look")
WARM_UP_PHASE = 0.15  # of the run


@dataclass
class Example:
    suite: str
    tokens: np.ndarray
    begin: int   # of the thought: the first place that is learned
    answer: int  # of the answer's first byte


@dataclass
class Batch:
    """Rows of like length.  `places` are those of the flattened tokens whose next token counts."""

    tokens: np.ndarray   # [row, position]
    places: np.ndarray   # [n]
    targets: np.ndarray  # [n]
    rows: np.ndarray     # [n], the row of each place
    answers: np.ndarray  # [n], whether the target is part of the answer
    suites: list[str]    # of each row
    token_count: int     # without padding, nor the last token of a row, which predicts nothing


@dataclass
class Mixture:
    """What there is to learn, and how it gets harder."""

    suites: dict[str, float]  # name -> weight, in tokens
    easiest: float = 0.15
    begin: float = 0.2        # the hardest there is, at first ...
    end: float = 1.0          # ... and from two thirds of the run on
    long_share: float = 0.3   # of the tokens
    warm_up_share: float = 0.6

    def hardest(self, progress: float) -> float:
        return self.begin + (self.end - self.begin) * min(1.0, progress * 1.5)

    def shares(self, progress: float) -> dict[tuple[str, str], float]:
        """(suite, form) -> its share of the tokens."""
        warm = self.warm_up_share if progress < WARM_UP_PHASE else min(0.02, self.warm_up_share)
        shares = {(name, "short"): warm / len(WARM_UPS) for name in WARM_UPS}
        total = sum(self.suites.values())
        for name, weight in self.suites.items():
            part = (1 - warm) * weight / total
            shares[name, "short"] = part * (1 - self.long_share)
            shares[name, "long"] = part * self.long_share
        return {key: share for key, share in shares.items() if share > 0}


def encode(problem: dict) -> Example:
    """The text as the chat template gives it, and behind it what the model should say."""
    prompt = b"user\n" + problem["prompt"].encode()
    thought = b"\n" + problem["thought"].rstrip("\n").encode() + b"\n"
    before = b"\n\\boxed{"
    answer = problem["answer"].encode() + b"}"
    head = [TURN_START, *prompt, TURN_END, *b"\n", TURN_START, *b"assistant\n"]
    tokens = [*head, THINK, *thought, THINK_END, *before, *answer, TURN_END]
    begin = len(head)
    return Example(problem["suite"], np.array(tokens, np.int64), begin,
                   begin + 2 + len(thought) + len(before))


def hash_numbers(*parts) -> int:
    """A seed of 53 bits; Python's own hash() of texts differs between runs."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 11


class Source:
    """Problems from the program, by suite, form, difficulty and seed."""

    def __init__(self, program: str, max_len: int):
        self.program = program
        self.max_len = max_len

    def draw(self, suite: str, form: str, difficulty: tuple[float, float],
             seed: int) -> list[Example]:
        command = [self.program, "eval", "--suite", suite, "--print", "--json", "--form", form,
                   "--limit", str(PROBLEMS_A_CALL), "--seed", str(seed),
                   "--difficulty", "{:.4f}:{:.4f}".format(*difficulty)]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()
        examples = [encode(json.loads(line)) for line in lines]
        return [e for e in examples if len(e.tokens) <= self.max_len]


def gather(source: Source, key: tuple[str, str], budget: float, mixture: Mixture, seed: int,
           block: int, progress: float) -> list[Example]:
    """About `budget` tokens of one suite and form, over the difficulties of the moment."""
    suite, form = key
    examples: list[Example] = []
    tokens = misses = call = 0
    hardest = mixture.hardest(progress)
    difficulty = min(mixture.easiest, hardest), hardest
    while tokens < budget and misses < 20:
        call_seed = hash_numbers(seed, block, suite, form, call)
        drawn = source.draw(suite, form, difficulty, call_seed)
        misses = 0 if drawn else misses + 1
        call += 1
        for example in drawn:
            if tokens < budget:
                examples.append(example)
                tokens += len(example.tokens)
    return examples


def collate(examples: list[Example]) -> Batch:
    longest = max(len(e.tokens) for e in examples) - 1
    tokens = np.zeros((len(examples), longest), np.int64)
    places, targets, rows, answers = [], [], [], []
    for row, e in enumerate(examples):
        n = len(e.tokens)
        tokens[row, : n - 1] = e.tokens[:-1]
        places.append(row * longest + np.arange(e.begin - 1, n - 1))
        targets.append(e.tokens[e.begin:])
        rows.append(np.full(n - e.begin, row))
        answers.append(np.arange(e.begin, n) >= e.answer)
    return Batch(tokens, *map(np.concatenate, (places, targets, rows, answers)),
                 [e.suite for e in examples], sum(len(e.tokens) - 1 for e in examples))


def cut_batches(examples: list[Example], batch_tokens: int, rng: random.Random) -> list[Batch]:
    """Neighbours in length share a batch; which batch comes when is left to chance."""
    rng.shuffle(examples)
    examples.sort(key=lambda e: len(e.tokens), reverse=True)
    groups: list[list[Example]] = []
    for e in examples:
        if not groups or (len(groups[-1]) + 1) * len(groups[-1][0].tokens) > batch_tokens:
            groups.append([])
        groups[-1].append(e)
    rng.shuffle(groups)
    return [collate(group) for group in groups]


def make_block(source: Source, mixture: Mixture, seed: int, block: int, progress: float,
               batch_tokens: int) -> list[Batch]:
    examples: list[Example] = []
    for key, share in mixture.shares(progress).items():
        budget = share * batch_tokens * BATCHES_A_BLOCK
        examples += gather(source, key, budget, mixture, seed, block, progress)
    if not examples:
        raise RuntimeError("no problem is as short as --max-len")
    return cut_batches(examples, batch_tokens, random.Random(hash_numbers(seed, block, "order")))


class Feeder:
    """Batches in order, one block made ahead."""

    def __init__(self, source: Source, mixture: Mixture, seed: int, batch_tokens: int,
                 state: dict | None = None):
        self.make = lambda block, progress: make_block(source, mixture, seed, block, progress,
                                                       batch_tokens)
        state = state or {"block": 0, "position": 0, "progress": 0.0, "next_progress": 0.0}
        self.pool = ThreadPoolExecutor(1)
        self.block, self.progress = state["block"], state["progress"]
        self.batches = self.make(self.block, self.progress)
        self.position = state["position"]
        self.ask(state["next_progress"])

    def ask(self, progress: float):
        self.next_progress = progress
        self.next = self.pool.submit(self.make, self.block + 1, progress)

    def take(self, progress: float) -> Batch:
        """The next batch; progress, from 0 to 1, is for the block that is asked for meanwhile."""
        if self.position == len(self.batches):
            self.batches, self.position = self.next.result(), 0
            self.block, self.progress = self.block + 1, self.next_progress
            self.ask(progress)
        self.position += 1
        return self.batches[self.position - 1]

    def state(self) -> dict:
        return {"block": self.block, "position": self.position, "progress": self.progress,
                "next_progress": self.next_progress}

    def close(self):
        self.pool.shutdown(cancel_futures=True)
