"""Demand, decision, retention and Compress & Hold, written from the method's description alone.

Plain numpy in float64, one head at a time, slow on purpose: this file is compared with the engine and
must not share its ideas.  It reads a dump of what the engine saw at successive capacity boundaries of
one request, and what it answered, and says where the two differ.

    compress_reference.py DUMP [--tolerance 1e-6] [--json]     exit 1 when they differ

THE DUMP

    8 bytes "GPKVDMP1", then sections until the end of the file.  A section is
        char     name[16]    zero padded
        uint32   type        0 bytes (JSON), 1 float32, 2 uint32, 3 float64
        uint32   dims[4]     unused ones are 1; for JSON dims[0] is the number of bytes
        uint32   zero
        data                 row-major, then zeros up to a multiple of 8 bytes
    all little-endian.  First, once:
        model     JSON: layers, query_heads, kv_heads, key_dim, rope_dim, rope_neox, rope_scale,
                  attention_scale, page_tokens, options (see OPTIONS below; absent ones are defaults)
        inv_freq  float64 [rope_dim / 2]
    then for each event, in this order:
        event     JSON: pages, tokens (n_tokens, the last cached token is tokens - 1), reached_initial,
                  has_summaries; with pressure also pool_used, pool_total
        keys      float32 [layers, kv_heads, pages * page_tokens, key_dim], as cached, before anything
        summaries float32 [layers, 2, query_heads, key_dim], short then long, before RoPE
        query_rms float32 [layers, query_heads], RMS of the latest query
        answer    JSON: action ("grow", "compress", "shrink"), cause ("policy", "start", "initial",
                  "pressure", "capped", "fallback"); with a measured demand also delta,
                  demand_short, demand_long
        kept      uint32 [layers, kv_heads, K], ascending; after compress and shrink only
    Between two events the request only decodes, so the keys that survived one are the first keys of the
    next, to the bit; that is checked too.

WHAT MAY DIFFER

    The engine works in float32.  Two slots whose scores differ by less than `tolerance`, relatively, may
    change places in a kept set (counted).  A count K of a head may differ where the covered mass passes p
    within the tolerance; a decision may differ only where delta is nearer to a threshold than
    those heads can move it (counted).
"""

import argparse
import json
import math
import struct
import sys
from fractions import Fraction

import numpy as np

MAGIC = b"GPKVDMP1"
TYPES = {1: "<f4", 2: "<u4", 3: "<f8"}
OPTIONS = {
    "policy": "growpage",
    "budget_tokens": 4096,
    "shrink_threshold": -0.005,
    "shrink_floor": 1024,
    "coverage": 0.99,
    "threshold": 0.0,
    "metric": "top-p",  # entropy, exp-entropy
    "gqa_demand": "mean",  # max, per-head
    "initial_pages": 12,
    "max_pages": 0,
    "pressure": 0.0,
    "local": 0,
    "protect": 0,
    "gqa_score": "max",  # mean
    "score_domain": "unprotected",  # all
    "compact": "shift",  # fill
}
ONE = 1 << 30  # fixed point of weights


# ---- reading and writing dumps ---------------------------------------------------------------------


def read_sections(path):
    with open(path, "rb") as file:
        if file.read(8) != MAGIC:
            raise ValueError(f"{path}: not a dump")
        while True:
            head = file.read(40)
            if not head:
                return
            name, kind, d0, d1, d2, d3, _ = struct.unpack("<16s6I", head)
            name = name.rstrip(b"\0").decode()
            if kind == 0:
                value = json.loads(file.read(d0))
                size = d0
            else:
                dtype = np.dtype(TYPES[kind])
                size = d0 * d1 * d2 * d3 * dtype.itemsize
                data = file.read(size)
                if len(data) != size:
                    raise ValueError(f"{path}: section {name} is cut short")
                value = np.frombuffer(data, dtype=dtype).reshape(d0, d1, d2, d3)
            file.read(-size % 8)
            yield name, value


def write_section(file, name, value):
    if isinstance(value, dict):
        data, kind, dims = json.dumps(value).encode(), 0, [0, 1, 1, 1]
        dims[0] = len(data)
    else:
        kind = {"<f4": 1, "<u4": 2, "<f8": 3}[value.dtype.newbyteorder("<").str]
        data, dims = value.tobytes(), list(value.shape) + [1] * (4 - value.ndim)
    file.write(struct.pack("<16s6I", name.encode(), kind, *dims, 0) + data + b"\0" * (-len(data) % 8))


def read_dump(path):
    """The model's JSON (with inv_freq in it) and a list of events, each a dict of its sections."""
    model, events = None, []
    for name, value in read_sections(path):
        if name == "model":
            model = value
            model["options"] = {**OPTIONS, **model.get("options", {})}
        elif name == "inv_freq":
            model["inv_freq"] = value.reshape(-1)
        elif name == "event":
            events.append({"event": value})
        elif name in ("keys", "summaries", "query_rms", "answer", "kept"):
            events[-1][name] = value
        else:
            raise ValueError(f"{path}: unknown section {name}")
    return model, events


# ---- the method ------------------------------------------------------------------------------------


def rotate(vector, position, model):
    """RoPE of one vector at one position, angles in float64."""
    half = model["rope_dim"] // 2
    angle = position * np.asarray(model["inv_freq"], dtype=np.float64)
    cos, sin = np.cos(angle) * model["rope_scale"], np.sin(angle) * model["rope_scale"]
    out = vector.copy()
    if model["rope_neox"]:
        first, second = np.arange(half), np.arange(half) + half
    else:
        first, second = 2 * np.arange(half), 2 * np.arange(half) + 1
    out[first] = vector[first] * cos - vector[second] * sin
    out[second] = vector[first] * sin + vector[second] * cos
    return out


def view_query(summary, query_rms, position, model):
    """A summary scaled to the latest query's RMS, rotated to the last cached position."""
    summary = summary.astype(np.float64)
    rms = math.sqrt(float(np.mean(summary**2)))
    if rms == 0.0:
        return np.zeros_like(summary)
    return rotate(summary * (float(query_rms) / rms), position, model)


def softmax(logits):
    weights = np.exp(logits - np.max(logits))
    return weights / np.sum(weights)


def attention(data, layer, view, head, slots, model):
    """Weights of one query head's summary over the first `slots` slots."""
    kv_head = head // (model["query_heads"] // model["kv_heads"])
    query = view_query(
        data["summaries"][layer, view, head],
        data["query_rms"].reshape(model["layers"], -1)[layer, head],
        data["event"]["tokens"] - 1,
        model,
    )
    keys = data["keys"][layer, kv_head, :slots].astype(np.float64)
    return softmax(keys @ query * model["attention_scale"])


def fixed(weights):
    return [int(w) for w in np.rint(np.asarray(weights) * ONE)]


def coverage_count(weights, coverage, units=0):
    """The fewest largest of some integers that reach the share `coverage` of their sum.

    The share is the decimal that was written (0.9, not the double next to it), in exact arithmetic; `units`
    moves the target, for asking what a rounded product might have made of it.
    """
    target, covered = Fraction(str(coverage)) * sum(weights) + units, 0
    if target <= 0:
        return 0
    for count, weight in enumerate(sorted(weights, reverse=True), start=1):
        covered += weight
        if covered >= target:
            return count
    return len(weights)


def coverage_range(weights, coverage, tolerance):
    """The counts between which float32 weights may come out."""
    return coverage_count(weights, coverage * (1 - tolerance)), coverage_count(
        weights, min(1.0, coverage * (1 + tolerance))
    )


def entropy(weights):
    weights = np.asarray(weights, dtype=np.float64)
    weights = weights[weights > 0] / np.sum(weights)
    return float(-np.sum(weights * np.log(weights)))


def head_demand(weights, options):
    if options["metric"] == "top-p":
        return coverage_count(fixed(weights), options["coverage"]) / len(weights)
    if options["metric"] == "entropy":
        return entropy(weights) / math.log(len(weights))
    return math.exp(entropy(weights)) / len(weights)


def joined(group, how):
    """The weights that a KV head's demand is taken of."""
    if how == "mean":
        return [np.mean(group, axis=0)]
    if how == "max":
        largest = np.max(group, axis=0)
        return [largest / np.sum(largest)]
    return group


def demand(data, model, tolerance):
    """(r_S, r_L, how far delta may be off)"""
    options, candidates = model["options"], (data["event"]["pages"] - 1) * model["page_tokens"]
    shares, slack = ([], []), 0.0
    per_kv = model["query_heads"] // model["kv_heads"]
    for layer in range(model["layers"]):
        for kv_head in range(model["kv_heads"]):
            for view in (0, 1):
                heads = range(kv_head * per_kv, (kv_head + 1) * per_kv)
                group = [attention(data, layer, view, h, candidates, model) for h in heads]
                for weights in joined(np.array(group), options["gqa_demand"]):
                    shares[view].append(head_demand(weights, options))
                    if options["metric"] == "top-p":
                        low, high = coverage_range(fixed(weights), options["coverage"], tolerance)
                        slack += (high - low) / candidates
                    else:
                        slack += tolerance
    return float(np.mean(shares[0])), float(np.mean(shares[1])), slack / len(shares[0])


def cap_pages(options, page_tokens):
    caps = []
    if options["policy"] != "full" and options["max_pages"]:
        caps.append(options["max_pages"])
    if options["policy"] == "fixed":
        caps.append(max(2, options["budget_tokens"] // page_tokens))
    return min(caps) if caps else None


def asks(event, options):
    """Does the decision hang on the demand?"""
    if not event["has_summaries"] or options["policy"] not in ("growpage", "inverse", "shrink"):
        return False
    idle = options["pressure"] and event["pool_used"] < options["pressure"] * event["pool_total"]
    return event["reached_initial"] and event["pages"] >= 2 and not idle


def decide(event, options, page_tokens, delta):
    """(action, cause); `random` is not decided here, for its draws are the engine's own."""
    if not event["has_summaries"]:
        return "grow", "start"
    policy, pages = options["policy"], event["pages"]
    if policy == "full":
        return "grow", "policy"
    if not event["reached_initial"] or pages < 2:
        action, cause = "grow", "initial"
    elif (
        policy != "fixed"
        and options["pressure"]
        and event["pool_used"] < options["pressure"] * event["pool_total"]
    ):
        action, cause = "grow", "pressure"
    else:
        cause = "policy"
        if policy == "fixed":
            action = "compress"
        elif policy == "inverse":
            action = "grow" if delta <= options["threshold"] else "compress"
        else:
            action = "grow" if delta > options["threshold"] else "compress"
            floor = max(options["shrink_floor"], 2 * page_tokens)
            if policy == "shrink" and delta < options["shrink_threshold"]:
                if (pages - 1) * page_tokens >= floor:
                    action = "shrink"
    if action == "grow" and options["max_pages"] and 2 <= pages and pages >= options["max_pages"]:
        return "compress", "capped"
    return action, cause


def retention(options, page_tokens, pages, action):
    """(P', protected, K, quota of a page)"""
    after = pages - 1 if action == "shrink" else pages
    cap = cap_pages(options, page_tokens)
    after = after if cap is None else min(after, cap)
    protect = options["protect"] or min(16, page_tokens // 2)
    keep = (after - 1) * page_tokens - protect
    quota = options["local"] or page_tokens // 4
    open_slots = [page_tokens] * (pages - 1) + [page_tokens - protect]
    while sum(min(quota, n) for n in open_slots) > keep:
        quota -= 1
    return after, protect, keep, quota


def select(scores, page_tokens, quota, keep):
    """Kept slots, ascending: the best of every page, then the best of the rest, ties to the newer."""
    ranking = sorted(range(len(scores)), key=lambda slot: (-scores[slot], -slot))
    kept = set()
    for page in range(-(-len(scores) // page_tokens)):
        kept.update([slot for slot in ranking if slot // page_tokens == page][:quota])
    rest = [slot for slot in ranking if slot not in kept]
    kept.update(rest[: keep - len(kept)])
    return sorted(kept)


def head_scores(data, layer, kv_head, history, model):
    options = model["options"]
    slots = data["event"]["pages"] * model["page_tokens"]
    domain = slots if options["score_domain"] == "all" else history
    per_kv = model["query_heads"] // model["kv_heads"]
    group = []
    for head in range(kv_head * per_kv, (kv_head + 1) * per_kv):
        short, long = (attention(data, layer, view, head, domain, model) for view in (0, 1))
        group.append(np.maximum(short, long)[:history])
    join = np.mean if options["gqa_score"] == "mean" else np.max
    return join(np.array(group), axis=0)


def arrange(stay, how):
    """The slot that each slot's content comes from, given those that stay, ascending."""
    if how == "shift":
        return stay
    room = set(range(len(stay)))
    layout = {slot: slot for slot in stay if slot in room}
    outside = [slot for slot in stay if slot not in room]
    layout.update(zip(sorted(room - set(layout)), outside))
    return [layout[slot] for slot in range(len(stay))]


# ---- comparing -------------------------------------------------------------------------------------


def compare_kept(ours, theirs, scores, tolerance):
    """(pairs that may have changed places, pairs that may not)"""
    only_ours = sorted((scores[s] for s in set(ours) - set(theirs)), reverse=True)
    only_theirs = sorted((scores[s] for s in set(theirs) - set(ours)), reverse=True)
    if len(only_ours) != len(only_theirs):
        return 0, max(len(only_ours), len(only_theirs))
    near = sum(abs(a - b) <= tolerance * max(a, b) for a, b in zip(only_ours, only_theirs))
    return near, len(only_ours) - near


def near_threshold(delta, slack, options):
    edges = [options["threshold"]]
    if options["policy"] == "shrink":
        edges.append(options["shrink_threshold"])
    return any(abs(delta - edge) <= slack for edge in edges)


def compare_demand(report, data, model, tolerance):
    """The event's decision, and how it compares; returns the reference's delta."""
    event, answer, options = data["event"], data["answer"], model["options"]
    delta, slack = 0.0, 0.0
    if asks(event, options):
        short, long, slack = demand(data, model, tolerance)
        delta = short - long
        report.update(demand_short=short, demand_long=long, delta=delta, slack=slack)
        if "delta" not in answer:
            report["wrong"].append("the engine did not measure")
        elif abs(answer["delta"] - delta) > slack + 1e-9:
            report["wrong"].append(f"delta {answer['delta']} against {delta}")
    elif "delta" in answer:
        report["wrong"].append("the engine measured for nothing")
    if options["policy"] == "random" and event["has_summaries"]:
        return
    action, cause = decide(event, options, model["page_tokens"], delta)
    report.update(action=action, cause=cause)
    if answer["cause"] == "fallback":
        if action != "grow" or answer["action"] != "compress":
            report["wrong"].append("a fallback that is no denied growth")
    elif (answer["action"], answer["cause"]) != (action, cause):
        if near_threshold(delta, slack, options):
            report["near_decisions"] += 1
        else:
            report["wrong"].append(
                f"{answer['action']}/{answer['cause']} against {action}/{cause}"
            )


def compare_compaction(report, data, model, tolerance):
    """Returns the keys that must be the first ones of the next event."""
    event, options, b = data["event"], model["options"], model["page_tokens"]
    after, protect, keep, quota = retention(options, b, event["pages"], data["answer"]["action"])
    slots = event["pages"] * b
    report.update(pages_after=after, protect=protect, keep=keep, local=quota)
    kept = data["kept"][:, :, :, 0]
    survivors = np.empty(
        (model["layers"], model["kv_heads"], (after - 1) * b, model["key_dim"]), dtype=np.float32
    )
    if kept.shape != (model["layers"], model["kv_heads"], keep):
        report["wrong"].append(f"kept sets of shape {kept.shape}, K = {keep}")
        return None
    for layer in range(model["layers"]):
        for head in range(model["kv_heads"]):
            theirs = [int(slot) for slot in kept[layer, head]]
            scores = head_scores(data, layer, head, slots - protect, model)
            ours = select(scores, b, quota, keep)
            if sorted(set(theirs)) != theirs or theirs[-1] >= slots - protect:
                report["wrong"].append(f"layer {layer} head {head}: not an ascending set of history")
                continue
            near, wrong = compare_kept(ours, theirs, scores, tolerance)
            report["kept_pairs"] += keep
            report["near_pairs"] += near
            if wrong:
                report["wrong"].append(f"layer {layer} head {head}: {wrong} slots differ")
            stay = theirs + list(range(slots - protect, slots))
            order = arrange(stay, options["compact"])
            survivors[layer, head] = data["keys"][layer, head, order]
    return survivors


def compare_event(data, model, tolerance, survivors):
    """One event's report, and what its keys must be at the next event."""
    report = {"pages": data["event"]["pages"], "tokens": data["event"]["tokens"], "wrong": [],
              "kept_pairs": 0, "near_pairs": 0, "near_decisions": 0}
    if survivors is not None:
        now = data["keys"][:, :, : survivors.shape[2]]
        if now.tobytes() != survivors.tobytes():
            report["wrong"].append("the survivors of the event before are not where they should be")
    compare_demand(report, data, model, tolerance)
    if data["answer"]["action"] == "grow":
        return report, data["keys"]
    return report, compare_compaction(report, data, model, tolerance)


def main():
    parser = argparse.ArgumentParser(description="Compare a dump of the engine with the method.")
    parser.add_argument("dump")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    model, events = read_dump(args.dump)
    survivors, wrong, pairs, near, decisions = None, 0, 0, 0, 0
    for index, data in enumerate(events):
        report, survivors = compare_event(data, model, args.tolerance, survivors)
        wrong += len(report["wrong"])
        pairs += report["kept_pairs"]
        near += report["near_pairs"]
        decisions += report["near_decisions"]
        if args.json:
            print(json.dumps({"event": index, **report}))
        else:
            what = f"{report.get('action', '-')}/{report.get('cause', '-')}"
            delta = f" delta {report['delta']:+.6f}" if "delta" in report else ""
            print(f"event {index}: {report['pages']} pages, {report['tokens']} tokens: {what}{delta}")
            for text in report["wrong"]:
                print(f"  WRONG: {text}")
    if not args.json:
        print(f"{len(events)} events, {pairs} kept, {near} near ties, {decisions} near decisions, "
              f"{wrong} wrong")
    return 1 if wrong or not events else 0


if __name__ == "__main__":
    sys.exit(main())
