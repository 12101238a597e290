"""The paper's policies with another method's scorer ("growpage+zipage"): when they compact is
compress_reference.py's, what a slot scores is baselines_reference.py's, and the page quota applies to it.

    selected_reference.py DUMP [--tolerance 1e-5] [--json]     exit 1 when they differ

The dump is that of compress_reference.py; behind a compaction's `kept` come `windows`, `before`, `memory` and
`score`, and `answer` has before_count and first, all as in baselines_reference.py.
"""

import argparse
import json
import sys

import baselines_reference as baselines
import compress_reference as method
import numpy as np


def read_dump(path):
    model, events = None, []
    for name, value in method.read_sections(path):
        if name == "model":
            model = value
            model["options"] = {**method.OPTIONS, **model["options"]}
        elif name == "inv_freq":
            model["inv_freq"] = value.reshape(-1)
        elif name == "event":
            events.append({"event": value})
        else:
            events[-1][name] = value
    return model, events


def head_of(data, layer, kv_head, model, known):
    group = model["query_heads"] // model["kv_heads"]
    keys = data["keys"][layer, kv_head].astype(np.float64)
    heads = slice(kv_head * group, (kv_head + 1) * group)
    return {"keys": keys, "before": np.array(known), "before_count": len(known),
            "first": data["answer"]["first"],
            "queries": data["windows"][layer, :, heads].astype(np.float64)}


def compare_head(report, data, model, place, known, retention):
    """Returns the survivors' keys, and what is remembered of them."""
    (layer, kv_head), (_, protect, keep, quota) = place, retention
    policy, slots = model["options"]["select"], data["keys"].shape[2]
    where, tolerance = f"layer {layer} head {kv_head}", report["tolerance"]
    head = head_of(data, layer, kv_head, model, known)
    score, magnitude, memory, unsure = baselines.METHODS[policy](head, model)
    kept = [int(s) for s in data["kept"][layer, kv_head, :, 0]]
    slack, history = tolerance * magnitude, slots - protect
    report["heads"] += 1
    report["unsure"] += unsure
    if not unsure:
        baselines.compare_numbers(report, where, "the score",
                                  data["score"][layer, kv_head, :history, 0].astype(np.float64),
                                  score[:history], slack[:history])
        ours = method.select(score[:history], model["page_tokens"], quota, keep)
        out, into = sorted(set(ours) - set(kept)), sorted(set(kept) - set(ours))
        report["kept_pairs"] += keep
        if len(kept) != keep or len(out) != len(into) or max(kept) >= history:
            report["wrong"].append(f"{where}: not a set of {keep} that may stay")
        for a, b in zip(sorted(out, key=lambda s: -score[s]), sorted(into, key=lambda s: -score[s])):
            if abs(score[a] - score[b]) <= slack[a] + slack[b]:
                report["near_pairs"] += 1
            else:
                report["wrong"].append(f"{where}: slot {b} stays, slot {a} should")
        baselines.compare_order(report, where, kept, score, slack, policy)
    if memory is not None and not unsure:
        theirs = data["memory"][layer, kv_head, : len(memory), 0].astype(np.float64)
        baselines.compare_numbers(report, where, "the memory", theirs, memory, tolerance * memory)
    stay = kept + list(range(history, slots))
    carried = [] if memory is None else stay if policy == "zipage" else kept
    return data["keys"][layer, kv_head, stay], [memory[s] for s in carried]


def compare_event(data, model, tolerance, past):
    """One event's report, and what must be true at the next one: survivors' keys, what is known."""
    event, answer, b = data["event"], data["answer"], model["page_tokens"]
    report = {"pages": event["pages"], "tokens": event["tokens"], "wrong": [], "kept_pairs": 0,
              "near_pairs": 0, "near_decisions": 0, "unsure": 0, "worst": 0.0, "heads": 0,
              "tolerance": tolerance}
    heads = [(x, y) for x in range(model["layers"]) for y in range(model["kv_heads"])]
    keys, known = past or (None, {place: [] for place in heads})
    if keys is not None and data["keys"][:, :, : keys.shape[2]].tobytes() != keys.tobytes():
        report["wrong"].append("the survivors of the event before are not where they should be")
    method.compare_demand(report, data, model, 1e-6)
    if answer["action"] == "grow":
        return report, (data["keys"], known)
    for place in heads:
        if answer["before_count"] != len(known[place]):
            report["wrong"].append(f"{place}: {answer['before_count']} slots are remembered")
            return report, None
    retention = method.retention(model["options"], b, event["pages"], answer["action"])
    if data["kept"].shape[2] != retention[2]:
        report["wrong"].append(f"{data['kept'].shape[2]} are kept, not {retention[2]}")
        return report, None
    survivors = np.empty((model["layers"], model["kv_heads"], (retention[0] - 1) * b,
                          model["key_dim"]), dtype=np.float32)
    future = {}
    for place in heads:
        survivors[place], future[place] = compare_head(report, data, model, place, known[place],
                                                       retention)
    return report, (survivors, future)


def main():
    parser = argparse.ArgumentParser(description="Compare a dump of the engine with the methods.")
    parser.add_argument("dump")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    model, events = read_dump(args.dump)
    past, wrong = None, 0
    for index, data in enumerate(events):
        report, past = compare_event(data, model, args.tolerance, past)
        wrong += len(report["wrong"])
        if args.json:
            print(json.dumps({"event": index, **report}))
        else:
            print(f"event {index}: {report['pages']} pages, {report['tokens']} tokens: "
                  f"{report.get('action', '-')}, {report['kept_pairs']} kept, {report['near_pairs']} "
                  f"near ties, worst {report['worst']:.2g}")
            for text in report["wrong"]:
                print(f"  WRONG: {text}")
    return 1 if wrong or not events else 0


if __name__ == "__main__":
    sys.exit(main())
