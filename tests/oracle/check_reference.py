"""Does compress_reference.py find what it is there to find?

Writes a dump of six successive events as an engine in float32 would, which must pass, and then dumps with one
thing wrong each, which must not.  Run from the repository root; needs numpy.  Exit 1 when it does not.
"""

import contextlib
import io
import os
import sys
import tempfile

import numpy as np

import compress_reference as reference

LAYERS, HEADS, KV_HEADS, DIM, PAGE, EVENTS = 2, 6, 2, 24, 16, 6


def random_model(rng, options):
    return {
        "layers": LAYERS,
        "query_heads": HEADS,
        "kv_heads": KV_HEADS,
        "key_dim": DIM,
        "rope_dim": 16,
        "rope_neox": bool(rng.integers(2)),
        "rope_scale": float(rng.choice([1.0, 1.1])),
        "attention_scale": DIM**-0.5,
        "page_tokens": PAGE,
        "options": {**reference.OPTIONS, **options},
        "inv_freq": 10000.0 ** (-np.arange(8) / 8),
    }


def in_float32(function):
    """The engine's part of a computation, rounded as float32 would at the end of each step."""
    rotate, softmax = reference.rotate, reference.softmax
    reference.rotate = lambda *a: rotate(*a).astype(np.float32).astype(np.float64)
    reference.softmax = lambda x: softmax(x.astype(np.float32)).astype(np.float32)
    try:
        return function()
    finally:
        reference.rotate, reference.softmax = rotate, softmax


def answer_of(data, model):
    event, options = data["event"], model["options"]
    answer, delta = {}, 0.0
    if reference.asks(event, options):
        short, long, _ = in_float32(lambda: reference.demand(data, model, 0))
        delta = short - long
        answer.update(delta=delta, demand_short=short, demand_long=long)
    action, cause = reference.decide(event, options, PAGE, delta)
    return {**answer, "action": action, "cause": cause}


def kept_of(data, model):
    pages = data["event"]["pages"]
    _, protect, keep, quota = reference.retention(
        model["options"], PAGE, pages, data["answer"]["action"]
    )
    history = pages * PAGE - protect
    kept = np.empty((LAYERS, KV_HEADS, keep), dtype=np.uint32)
    for layer in range(LAYERS):
        for head in range(KV_HEADS):
            scores = in_float32(
                lambda: reference.head_scores(data, layer, head, history, model)
            )
            kept[layer, head] = reference.select(list(scores), PAGE, quota, keep)
    return kept, protect


def random_events(rng, model):
    events, pages, tokens = [], 3, 3 * PAGE
    keys = rng.normal(size=(LAYERS, KV_HEADS, pages * PAGE, DIM)).astype(np.float32)
    for _ in range(EVENTS):
        data = {
            "event": {
                "pages": pages,
                "tokens": tokens,
                "has_summaries": True,
                "reached_initial": bool(events),
            },
            "keys": keys,
            "summaries": rng.normal(size=(LAYERS, 2, HEADS, DIM)).astype(np.float32)
            * np.float32(rng.uniform(0.2, 3)),
            "query_rms": rng.uniform(0.5, 6, size=(LAYERS, HEADS)).astype(np.float32),
        }
        data["answer"] = answer_of(data, model)
        rest = keys
        if data["answer"]["action"] == "grow":
            pages += 1
        else:
            data["kept"], protect = kept_of(data, model)
            stay = np.concatenate(
                [data["kept"], np.broadcast_to(
                    np.arange(pages * PAGE - protect, pages * PAGE, dtype=np.uint32),
                    (LAYERS, KV_HEADS, protect))], axis=2)
            rest = np.take_along_axis(keys, stay[..., None].astype(np.int64), axis=2)
            pages = rest.shape[2] // PAGE + 1
        fresh = rng.normal(size=(LAYERS, KV_HEADS, PAGE, DIM)).astype(np.float32)
        keys = np.concatenate([rest, fresh], axis=2)
        tokens += PAGE
        events.append(data)
    return events


def write_dump(path, model, events):
    with open(path, "wb") as file:
        file.write(reference.MAGIC)
        plain = {key: value for key, value in model.items() if key != "inv_freq"}
        reference.write_section(file, "model", plain)
        reference.write_section(file, "inv_freq", model["inv_freq"])
        for data in events:
            for name in ("event", "keys", "summaries", "query_rms", "answer", "kept"):
                if name in data:
                    reference.write_section(file, name, data[name])


def verdict(path):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        sys.argv = ["compress_reference.py", path]
        status = reference.main()
    return status, out.getvalue()


def spoil_kept(events):
    """The worst kept slot of one head gives its place to one that was dropped."""
    data = next(d for d in events if "kept" in d)
    kept = data["kept"][1, 0]
    dropped = next(s for s in range(PAGE) if s not in kept)
    data["kept"][1, 0] = np.sort(np.append(kept[1:], dropped)).astype(np.uint32)


def spoil_order(events):
    data = next(d for d in events if "kept" in d)
    data["kept"][0, 1, :2] = data["kept"][0, 1, 1::-1]


def spoil_keys(events):
    events[-1]["keys"][0, 0, 3, 0] += np.float32(1)


def spoil_delta(events):
    data = next(d for d in events if "delta" in d["answer"])
    data["answer"]["delta"] += 0.02


def spoil_action(events):
    data = next(d for d in events if "kept" in d)
    data["answer"]["action"] = "shrink"


def spoil_cause(events):
    events[0]["answer"]["cause"] = "policy"


def main():
    rng = np.random.default_rng(1)
    cases = [
        {"policy": "growpage", "initial_pages": 2},
        {"policy": "growpage", "metric": "entropy", "gqa_score": "mean", "score_domain": "all"},
        {"policy": "growpage", "metric": "exp-entropy", "gqa_demand": "max", "max_pages": 3},
        {"policy": "inverse", "gqa_demand": "per-head", "protect": 3, "local": 1},
        {"policy": "shrink", "shrink_floor": 0, "shrink_threshold": -0.0001},
        {"policy": "fixed", "budget_tokens": 40, "local": 16},
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump")
        for options in cases:
            model = random_model(rng, options)
            write_dump(path, model, random_events(rng, model))
            status, text = verdict(path)
            if status:
                print(f"{options}: a right dump is called wrong\n{text}")
                return 1
            print(f"{options['policy']}: {text.splitlines()[-1]}")
        for spoil in (spoil_kept, spoil_order, spoil_keys, spoil_delta, spoil_action, spoil_cause):
            model = random_model(rng, {"policy": "growpage", "threshold": 0.005})
            events = random_events(rng, model)
            spoil(events)
            write_dump(path, model, events)
            if verdict(path)[0] == 0:
                print(f"{spoil.__name__}: not found")
                return 1
            print(f"{spoil.__name__}: found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
