#!/usr/bin/env python3
"""Train the small reasoning model, or go on training it.  README.md has the recipe.

Everything follows from the options and the seed; --resume continues a run exactly, but for what
the clock decides under --minutes.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
from collections import defaultdict

import numpy as np
import torch
from data import Batch, Feeder, Mixture, Source
from layout import Shape
from model import Reasoner
from optimizer import make_optimizers
from ranks import Ranks, start_others

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SUITES = "sum,mul,prog,sort,phase,walk,find"
WARM_UP_STEPS = 100
LAST_RATE = 0.02  # of the highest
GRADIENT_NORM = 1.0


def parse_suites(text: str) -> dict[str, float]:
    pairs = (part.partition(":") for part in text.split(","))
    return {name: float(weight or 1) for name, _, weight in pairs}


def parse_range(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    return float(low), float(high or low)


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=float, help="how long to train, at most 120")
    budget.add_argument("--tokens", type=float, help="how much to train, without padding")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on from OUT/checkpoint.pt")
    parser.add_argument("--init", type=pathlib.Path, help="weights (.npz) to begin with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch-tokens", type=int, default=8192, help="with padding")
    parser.add_argument("--max-len", type=int, default=4096, help="longer examples are skipped")
    parser.add_argument("--suites", type=parse_suites, default=SUITES, help="NAME[:WEIGHT],...")
    parser.add_argument("--difficulty", type=parse_range, default="0.2:1", metavar="LO:HI",
                        help="of the hardest problems, at the beginning and from 2/3 on")
    parser.add_argument("--long-share", type=float, default=0.3, help="of the tokens")
    parser.add_argument("--warm-up-share", type=float, default=0.6,
                        help="tokens from copy and look in the first 15 %% of the run")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.4, help="last share of the run")
    parser.add_argument("--ranks", type=int, default=os.cpu_count(), metavar="N",
                        help="processes, which share a step's tokens (default: one a core)")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--eager", action="store_true", help="do without torch.compile")
    parser.add_argument("--checkpoint-seconds", type=float, default=300)
    parser.add_argument("--program", default=REPOSITORY / "build/gcc-release/growpage")
    options = parser.parse_args(arguments)
    if options.minutes and not 0 < options.minutes <= 120:
        parser.error("--minutes: more than 0 and at most 120")
    return options


def rate_at(step: int, progress: float, decay: float) -> float:
    """The learning rate as a share of the highest: warm-up, plateau, a straight line down."""
    falling = max(0.0, (progress - (1 - decay)) / decay) if decay > 0 else 0.0
    return min(1.0, (step + 1) / WARM_UP_STEPS) * (1 - min(1.0, falling) * (1 - LAST_RATE))


def write_atomically(path: pathlib.Path, write):
    """A crash or a full disk leaves the old file."""
    beside = path.with_name(path.name + ".new")
    with open(beside, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def save_weights(model: Reasoner, path: pathlib.Path):
    arrays = {name: p.detach().numpy().astype(np.float16)
              for name, p in model.gguf_names().items()}
    write_atomically(path, lambda file: np.savez(file, **arrays))


def load_weights(model: Reasoner, path: pathlib.Path):
    with np.load(path) as arrays, torch.no_grad():
        names = model.gguf_names()
        if set(arrays.files) != set(names):
            raise ValueError(f"{path}: the tensors of another model")
        for name, p in names.items():
            p.copy_(torch.from_numpy(arrays[name].astype(np.float32)).view_as(p))


class Scores:
    """Per suite, since the last line of the log: loss, correct tokens of answers, exact traces."""

    def __init__(self):
        self.sums = defaultdict(lambda: np.zeros(6))

    def add(self, batch: Batch, losses: np.ndarray, correct: np.ndarray):
        count = len(batch.suites)

        def by_row(values) -> np.ndarray:
            return np.bincount(batch.rows, weights=values, minlength=count)

        places = by_row(None)
        per_row = np.stack([by_row(losses), places, by_row(correct * batch.answers),
                            by_row(batch.answers), by_row(correct) == places,
                            np.ones(count)], axis=1)
        for suite, row in zip(batch.suites, per_row):
            self.sums[suite] += row

    def take(self, ranks: Ranks) -> dict:
        """The line's figures, at the first process; begins anew."""
        everybody, self.sums = ranks.gather(dict(self.sums)), defaultdict(self.sums.default_factory)
        sums: dict[str, np.ndarray] = {}
        for part in everybody:
            for suite, values in part.items():
                sums[suite] = sums.get(suite, 0) + values
        if not sums:
            return {}
        total = sum(sums.values())
        ratios = {suite: s[0::2] / s[1::2] for suite, s in sorted(sums.items())}
        return {
            "loss": round(total[0] / total[1], 4),
            "loss_of": {suite: round(r[0], 4) for suite, r in ratios.items()},
            "answer_of": {suite: round(r[1], 4) for suite, r in ratios.items()},
            "exact_of": {suite: round(r[2], 3) for suite, r in ratios.items()},
        }


class Run:
    """One process' part of a run."""

    def __init__(self, options: argparse.Namespace, ranks: Ranks):
        self.options, self.ranks = options, ranks
        torch.set_num_threads(options.threads)
        torch.manual_seed(options.seed)
        self.model = Reasoner(Shape())
        self.optimizers = make_optimizers(self.model, options.lr, ranks)
        self.forward = self.model
        if not options.eager:
            self.forward = torch.compile(self.model, dynamic=True)
        self.step = self.tokens = 0
        self.seconds = self.clock = 0.0  # of training, in all sittings
        feeder_state = None
        if options.resume:
            feeder_state = self.load_checkpoint()
        elif options.init:
            load_weights(self.model, options.init)
        mixture = Mixture(options.suites, begin=options.difficulty[0], end=options.difficulty[1],
                          long_share=options.long_share, warm_up_share=options.warm_up_share)
        self.feeder = Feeder(Source(str(options.program), options.max_len), mixture, options.seed,
                             options.batch_tokens // ranks.count, feeder_state)
        self.mixture = mixture
        self.scores = Scores()

    # ---- checkpoints ----

    def checkpoint_path(self) -> pathlib.Path:
        return self.options.out / "checkpoint.pt"

    def save_checkpoint(self):
        if self.ranks.rank > 0:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "feeder": self.feeder.state(), "random": torch.get_rng_state(),
            "step": self.step, "tokens": self.tokens, "seconds": self.seconds,
        }
        write_atomically(self.checkpoint_path(), lambda file: torch.save(state, file))
        save_weights(self.model, self.options.out / "weights.f16.npz")

    def load_checkpoint(self) -> dict:
        state = torch.load(self.checkpoint_path(), weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        torch.set_rng_state(state["random"])
        self.step, self.tokens = state["step"], state["tokens"]
        self.seconds = state["seconds"]
        return state["feeder"]

    # ---- training ----

    def progress(self) -> float:
        """The share of the run that is behind us."""
        if self.options.tokens:
            return self.tokens / self.options.tokens
        return self.seconds / (60 * self.options.minutes)

    def take_batch(self) -> Batch:
        """Ours; the others take theirs from the same sequence."""
        batches = [self.feeder.take(self.progress()) for _ in range(self.ranks.count)]
        return batches[self.ranks.rank]

    def gradients(self, batch: Batch, stop: bool) -> bool:
        """Of the mean loss over everybody's tokens.  Returns whether anybody wants to stop."""
        inputs = (batch.tokens, batch.places, batch.targets)
        losses, correct = self.forward(*map(torch.from_numpy, inputs))
        losses.sum().backward()
        self.scores.add(batch, losses.detach().numpy(), correct.numpy())
        now = time.monotonic()
        seconds = now - self.clock if self.ranks.rank == 0 else 0.0
        self.clock = now
        counts = torch.tensor([len(batch.targets), batch.token_count, seconds, stop])
        gradients = [p.grad for p in self.model.parameters()]
        self.ranks.sum([*gradients, counts])
        learned, tokens, seconds, stops = counts.tolist()
        torch._foreach_div_(gradients, learned)
        self.tokens += int(tokens)
        self.seconds += seconds
        return stops > 0

    def update(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), GRADIENT_NORM)
        rate = self.options.lr * rate_at(self.step, self.progress(), self.options.decay)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1

    def log(self, tokens: int, seconds: float):
        scores = self.scores.take(self.ranks)
        if self.ranks.rank > 0:
            return
        line = {
            "step": self.step, "tokens": self.tokens, "seconds": round(self.seconds, 1),
            "tok_s": round(tokens / seconds), "progress": round(self.progress(), 4),
            "lr": self.optimizers[0].param_groups[0]["lr"],
            "difficulty": round(self.mixture.hardest(self.feeder.progress), 3),
            **scores,
        }
        text = json.dumps(line)
        print(text, flush=True)
        with open(self.options.out / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(text + "\n")

    def train(self, stop: list):
        """Until the budget is used up or `stop` is no longer empty."""
        logged_tokens, logged_seconds, saved_seconds = self.tokens, self.seconds, self.seconds
        self.clock = time.monotonic()
        stopped = False
        while self.progress() < 1 and not stopped:
            stopped = self.gradients(self.take_batch(), bool(stop))
            self.update()
            if self.step % 50 == 0 or stopped or self.progress() >= 1:
                self.log(self.tokens - logged_tokens, self.seconds - logged_seconds)
                logged_tokens, logged_seconds = self.tokens, self.seconds
            if self.seconds - saved_seconds >= self.options.checkpoint_seconds:
                self.save_checkpoint()
                saved_seconds = self.seconds
        self.save_checkpoint()
        self.feeder.close()


def work(rank: int, options: argparse.Namespace, meeting_point: pathlib.Path):
    """One process, from its start to its end."""
    stop: list = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: stop.append(number))
    ranks = Ranks(rank, options.ranks, meeting_point)
    Run(options, ranks).train(stop)
    ranks.close()
    return stop


def main():
    options = parse_options()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.resume and (options.out / "checkpoint.pt").exists():
        sys.exit(f"{options.out}: there is a run; --resume continues it")
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = pathlib.Path(folder) / "ranks"
        others = start_others(work, options.ranks, options, meeting_point)
        stop = work(0, options, meeting_point)
        for other in others:
            other.join()
    if stop:
        sys.exit(f"stopped by signal {stop[0]}; --resume goes on")


if __name__ == "__main__":
    main()
