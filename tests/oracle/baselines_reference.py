"""The fixed-budget baselines (zipage, gkv, rkv, snapkv, morphkv, h2o, streaming), each written out from its
own authors' description, with its own numbers in it.

Plain numpy in float64, one head at a time, slow on purpose: this file is compared with the engine's one
scorer and its table of switches, and must not share their idea.  It reads a dump of what the engine saw at
successive cuts of one request, and what it answered, and says where the two differ.

    baselines_reference.py DUMP [--tolerance 1e-5] [--json]     exit 1 when they differ

THE DUMP

    Sections as compress_reference.py describes them.  First `model` and `inv_freq`; then for each cut
        cut       JSON: slots, tokens (n_tokens), prompt, protect, before_count, first, in_order
        keys      float32 [layers, kv_heads, slots, key_dim], as cached
        windows   float32 [layers, rows, query_heads, key_dim], newest queries after RoPE, oldest first
        before    float32 [layers, kv_heads, slots], what the slots scored at the cut before
        memory    the same, what the next cut is to know
        score     the same, by which slots were chosen
        position  uint32 of the same shape, unless slots lie in order
        kept      uint32 [layers, kv_heads, K], in the order in which they stay

WHAT MAY DIFFER

    The engine works in float32: scores may differ by `tolerance` of what they are sums of.  Two slots nearer
    than that may change places in a kept set (counted).  A cosine so near to the threshold of 0.5
    that rounding decides spoils the scores of its head: such heads are counted and left out.
"""

import argparse
import json
import sys

import numpy as np
from compress_reference import read_sections

HALF_SLACK = 3e-6  # how near to 0.5 a cosine of float32 keys can be misread


def read_dump(path):
    model, cuts = None, []
    for name, value in read_sections(path):
        if name == "model":
            model = value
        elif name == "cut":
            cuts.append({"cut": value})
        elif name != "inv_freq":
            cuts[-1][name] = value
    return model, cuts


# ---- parts that several methods have --------------------------------------------------------------


def softmax(logits):
    weights = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)


def logits_of(head, scale):
    """[query heads of the group, rows, slots]"""
    return np.einsum("rgd,nd->grn", head["queries"], head["keys"]) * scale


def causal(logits):
    """The newest row sees all slots, the row before one less, and so on."""
    rows, slots = logits.shape[-2:]
    seen = np.arange(slots)[None, :] <= (slots - rows + np.arange(rows))[:, None]
    return np.where(seen, logits, -np.inf)


def neighbours_max(values, width):
    reach = width // 2
    padded = np.concatenate([np.full(reach, -np.inf), values, np.full(reach, -np.inf)])
    return np.array([np.max(padded[i : i + width]) for i in range(len(values))])


def cosines(keys):
    norms = np.linalg.norm(keys, axis=1)
    unit = keys / np.where(norms > 0, norms, 1)[:, None]
    cos = unit @ unit.T
    np.fill_diagonal(cos, 0.0)
    return cos


def spare_newest_twin(cos, slot0_when_none):
    """For each token: of those that it resembles, the newest is not blamed by it.

    cos[token, other]; returns how much each `other` is blamed, and whether a cosine was too near to call.
    """
    unsure = bool(np.any(np.abs(cos - 0.5) < HALF_SLACK))
    cos = cos.copy()
    for token in range(len(cos)):
        twins = np.nonzero(cos[token] > 0.5)[0]
        if len(twins):
            cos[token, twins[-1]] = 0.0
        elif slot0_when_none:
            cos[token, 0] = 0.0
    return cos.sum(axis=0), unsure


def remember(score, before, count, decay):
    out = score.copy()
    out[:count] = np.maximum(score[:count], decay * before[:count])
    return out


# ---- the methods ----------------------------------------------------------------------------------
# Each gives, for one head: score [slots], magnitude [slots] (what it is a sum of), memory [slots] or None, and
# whether a threshold was too near to call.


def zipage(head, model):
    b, slots = model["page_tokens"], len(head["keys"])
    weights = softmax(causal(logits_of(head, model["attention_scale"])))
    now = weights.max(axis=0).mean(axis=0)
    memory = remember(now, head["before"], head["before_count"], 0.8)
    attention = neighbours_max(memory, 5) if head["first"] else memory
    blame, unsure = np.zeros(slots), False
    for page in range(0, slots, b):
        of_page, near = spare_newest_twin(cosines(head["keys"][page : page + b]), False)
        blame[page : page + b] = of_page / (0.4 * b)
        unsure = unsure or near
    redundancy = softmax(blame)
    score = 0.2 * attention - 0.8 * redundancy
    return score, 0.2 * attention + 0.8 * redundancy, memory, unsure


def gkv(head, model):
    slots, window = len(head["keys"]), 16
    weights = softmax(causal(logits_of(head, model["attention_scale"])))
    now = weights.max(axis=0)[:, : slots - window].mean(axis=0)
    now = now / now.max()
    memory = remember(now, head["before"], head["before_count"], 0.8)
    blame, unsure = spare_newest_twin(cosines(head["keys"]), False)
    redundancy = softmax(blame / slots)[: slots - window]
    redundancy = redundancy / redundancy.max()
    score = 0.5 * memory - 0.5 * redundancy
    return score, 0.5 * memory + 0.5 * redundancy, memory, unsure


def window_importance(head, model, window):
    """R-KV's: one logit a group, and a softmax that never sees the window's own keys."""
    logits = logits_of(head, model["attention_scale"]).max(axis=0)[:, :-window]
    return neighbours_max(softmax(logits).mean(axis=0), 7)


def rkv(head, model):
    importance = window_importance(head, model, 8)
    blame, unsure = spare_newest_twin(cosines(head["keys"]), True)
    redundancy = softmax(blame / len(head["keys"]))[:-8]
    return 0.1 * importance - 0.9 * redundancy, 0.1 * importance + 0.9 * redundancy, None, unsure


def snapkv(head, model):
    importance = window_importance(head, model, 8)
    return importance, importance, None, False


def morphkv(head, model):
    """Window of 32: the 31 queries that have run, over all but the 32 newest tokens."""
    old = head["position"] < head["next"] - 32
    weights = softmax(logits_of(head, model["attention_scale"])[:, :, old])
    score = np.zeros(len(old))
    score[old] = weights.max(axis=0).sum(axis=0)
    return score, score, None, False


def h2o(head, model):
    """The sum was kept while rows ran; check_sums() looks at how."""
    return head["before"], head["before"], None, False


def streaming(head, model):
    """Nothing is scored: the first four stay, whatever is newest stays."""
    score = np.where(head["position"] < 4, np.inf, head["position"].astype(np.float64))
    return score, np.zeros(len(score)), None, False


METHODS = {"zipage": zipage, "gkv": gkv, "rkv": rkv, "snapkv": snapkv, "morphkv": morphkv, "h2o": h2o,
           "streaming": streaming}
IN_SCORE_ORDER = ("rkv", "snapkv")
TOKEN_BY_TOKEN = ("morphkv", "h2o", "streaming")


def newest(options):
    """Tokens that a cut never touches."""
    budget = options["budget_tokens"]
    return {"zipage": 16, "gkv": 16, "rkv": 8, "snapkv": 8, "morphkv": 32, "h2o": budget // 2,
            "streaming": budget - 4}[options["policy"]]


def budget_of(options, b):
    if options["policy"] == "zipage":
        return options["budget_tokens"] // b * b
    return options["budget_tokens"]


def next_cut(options, b, tokens):
    """n_tokens at the cut after the one at `tokens`, when no page is ever denied."""
    budget = budget_of(options, b)
    if options["trigger"] == "token":
        return tokens + 1
    if options["trigger"] == "page":
        return tokens + (-(-budget // b) + 1) * b - budget
    return tokens + options["trigger_steps"]


def first_cut(options, b, prompt):
    """n_tokens at the first cut: the budget is passed, and a generated token has been run."""
    budget = budget_of(options, b)
    if options["trigger"] == "token":
        return max(budget, prompt) + 1
    if options["trigger"] == "page":
        return max(-(-budget // b) + 1, prompt // b + 1) * b
    start, steps = prompt, options["trigger_steps"]
    if options["policy"] in ("rkv", "snapkv"):  # the row behind a whole number of steps, from token 0
        start = 1
    tokens = max(budget, prompt) + 1
    return tokens + (start - tokens) % steps


# ---- comparing ------------------------------------------------------------------------------------


def head_of(data, layer, kv_head, model):
    group = model["query_heads"] // model["kv_heads"]
    cut = data["cut"]
    head = {
        "keys": data["keys"][layer, kv_head].astype(np.float64),
        "before": data["before"][layer, kv_head, :, 0].astype(np.float64),
        "before_count": cut["before_count"],
        "first": cut["first"],
        "tokens": cut["tokens"],
        "next": cut["slots"] if cut["in_order"] else cut["tokens"],
        "position": np.arange(cut["slots"]),
    }
    if "windows" in data:
        heads = slice(kv_head * group, (kv_head + 1) * group)
        head["queries"] = data["windows"][layer, :, heads].astype(np.float64)
    if "position" in data:
        head["position"] = data["position"][layer, kv_head, :, 0].astype(np.int64)
    return head


def compare_kept(report, where, kept, candidates, score, slack, keep):
    """The engine's set against the best `keep`; slots within the slack of the border may change places."""
    order = sorted(candidates, key=lambda slot: (-score[slot], -slot))
    ours, theirs = set(order[:keep]), set(kept)
    if len(theirs) != keep or len(kept) != keep or not theirs <= set(candidates):
        report["wrong"].append(f"{where}: not a set of {keep} that may stay")
        return
    report["kept_pairs"] += keep
    out = sorted((s for s in ours - theirs), key=lambda s: -score[s])
    into = sorted((s for s in theirs - ours), key=lambda s: -score[s])
    for a, b in zip(out, into):
        if abs(score[a] - score[b]) <= slack[a] + slack[b]:
            report["near_pairs"] += 1
        else:
            report["wrong"].append(f"{where}: slot {b} stays, slot {a} scores more")


def compare_order(report, where, kept, score, slack, policy):
    if policy not in IN_SCORE_ORDER:
        if sorted(kept) != list(kept):
            report["wrong"].append(f"{where}: survivors out of order")
        return
    for a, b in zip(kept, kept[1:]):
        if score[b] - score[a] > slack[a] + slack[b]:
            report["wrong"].append(f"{where}: slot {b} comes behind slot {a}, which scores less")


def compare_numbers(report, where, what, theirs, ours, slack):
    off = np.abs(theirs - ours) - slack
    worst = float(np.max(np.where(slack > 0, np.abs(theirs - ours) / np.where(slack > 0, slack, 1), 0)))
    report["worst"] = max(report["worst"], worst)
    if np.any(off > 0):
        slot = int(np.argmax(off))
        report["wrong"].append(f"{where}: {what} of slot {slot} is {theirs[slot]}, not {ours[slot]}")


def check_sums(report, where, head, carried, rows, model, tolerance):
    """h2o: `before` is the sum over all rows of the mean over the group, the row's own slot included.

    `rows` have run since the cut before, whose survivors brought what was `carried`, by their places.
    """
    logits = logits_of(head, model["attention_scale"])
    places = {int(p): s for s, p in enumerate(head["position"])}
    ours = np.zeros(len(head["keys"]))
    if carried is None:
        if logits.shape[1] != head["tokens"]:
            return
        ours = softmax(causal(logits)).mean(axis=0).sum(axis=0)
    else:
        for place, value in carried.items():
            ours[places[place]] = value
        ours += softmax(causal(logits[:, -rows:])).mean(axis=0).sum(axis=0)
    compare_numbers(report, where, "the sum", head["before"], ours, tolerance * ours)
    report["sums"] += 1


def compare_cut(data, model, tolerance, past):
    """One cut's report, and what must be true at the next one: [(layer, head)] -> survivors."""
    options, cut = model["options"], data["cut"]
    policy, b = options["policy"], model["page_tokens"]
    report = {"slots": cut["slots"], "tokens": cut["tokens"], "wrong": [], "kept_pairs": 0,
              "near_pairs": 0, "unsure": 0, "worst": 0.0, "sums": 0, "heads": 0}
    budget, protect = budget_of(options, b), newest(options)
    keep, future = budget - protect, {"tokens": cut["tokens"], "heads": {}}
    if cut["protect"] != protect:
        report["wrong"].append(f"{cut['protect']} are protected, not {protect}")
        return report, None
    due = next_cut(options, b, past["tokens"]) if past else first_cut(options, b, cut["prompt"])
    if cut["tokens"] != due:
        report["wrong"].append(f"a cut at {cut['tokens']} tokens, not at {due}")
    if past and cut["slots"] != budget + cut["tokens"] - past["tokens"]:
        report["wrong"].append(f"{cut['slots']} slots")
    for layer in range(model["layers"]):
        for kv_head in range(model["kv_heads"]):
            where = f"layer {layer} head {kv_head}"
            head = head_of(data, layer, kv_head, model)
            last = past["heads"][layer, kv_head] if past else None
            if last:
                compare_survivors(report, where, head, last, data["keys"][layer, kv_head])
            if policy == "h2o":
                carried = last["memory"] if last else None
                rows = cut["tokens"] - past["tokens"] if past else 0
                check_sums(report, where, head, carried, rows, model, tolerance)
            elif policy in ("zipage", "gkv"):
                expected = last["memory"] if last else {}
                if cut["before_count"] != len(expected):
                    report["wrong"].append(f"{where}: {cut['before_count']} slots are remembered")
                    return report, None
                known = np.array([expected[s] for s in range(len(expected))])
                if len(known):
                    compare_numbers(report, where, "what is remembered",
                                    head["before"][: len(known)], known, tolerance * known)
                head["before"] = known
            score, magnitude, memory, unsure = METHODS[policy](head, model)
            kept = [int(s) for s in data["kept"][layer, kv_head, :, 0]]
            theirs = data["score"][layer, kv_head, : len(score), 0].astype(np.float64)
            slack = tolerance * magnitude
            candidates = [s for s in range(cut["slots"]) if head["position"][s] < head["next"] - protect]
            report["heads"] += 1
            if unsure:
                report["unsure"] += 1
            else:
                finite = [s for s in candidates if np.isfinite(score[s])]
                compare_numbers(report, where, "the score", theirs[finite], score[finite], slack[finite])
                compare_kept(report, where, kept, candidates, score, slack, keep)
                compare_order(report, where, kept, score, slack, policy)
            if memory is not None and not unsure:
                answered = data["memory"][layer, kv_head, : len(memory), 0].astype(np.float64)
                compare_numbers(report, where, "the memory", answered, memory, tolerance * memory)
            future["heads"][layer, kv_head] = survivors_of(data, head, layer, kv_head, kept, protect,
                                                           memory, policy)
    return report, future


def survivors_of(data, head, layer, kv_head, kept, protect, memory, policy):
    cut, keys = data["cut"], data["keys"][layer, kv_head]
    if not cut["in_order"]:
        stay = [s for s in range(cut["slots"]) if head["position"][s] >= cut["tokens"] - protect]
        stay = sorted(kept + stay)
        return {
            "keys": {int(head["position"][s]): keys[s].tobytes() for s in stay},
            "memory": {int(head["position"][s]): head["before"][s] for s in stay},
        }
    stay = kept + list(range(cut["slots"] - protect, cut["slots"]))
    carried = stay if policy in ("zipage", "h2o") else kept
    if policy == "h2o":
        memory = head["before"]
    known = {} if memory is None else {to: memory[s] for to, s in enumerate(carried)}
    return {"keys": keys[stay].tobytes(), "memory": known}


def compare_survivors(report, where, head, last, keys):
    """The keys that stayed are there, to the bit, and where they should be."""
    if isinstance(last["keys"], dict):
        now = {int(p): keys[s].tobytes() for s, p in enumerate(head["position"])}
        lost = [p for p, key in last["keys"].items() if now.get(p) != key]
        if lost:
            report["wrong"].append(f"{where}: the tokens at {lost[:5]} are gone or changed")
    elif not keys.tobytes().startswith(last["keys"]):
        report["wrong"].append(f"{where}: the survivors of the cut before are not where they should be")


def main():
    parser = argparse.ArgumentParser(description="Compare a dump of the engine with the baselines.")
    parser.add_argument("dump")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    model, cuts = read_dump(args.dump)
    past, wrong, total = None, 0, {"kept_pairs": 0, "near_pairs": 0, "unsure": 0, "heads": 0}
    worst = 0.0
    for index, data in enumerate(cuts):
        report, past = compare_cut(data, model, args.tolerance, past)
        wrong += len(report["wrong"])
        worst = max(worst, report["worst"])
        for name in total:
            total[name] += report[name]
        if args.json:
            print(json.dumps({"cut": index, **report}))
        for text in report["wrong"] if not args.json else []:
            print(f"cut {index} at {report['tokens']} tokens: WRONG: {text}")
    if not args.json:
        print(f"{len(cuts)} cuts, {total}, worst {worst * args.tolerance:.1e} of {args.tolerance}, "
              f"{wrong} wrong")
    return 1 if wrong or not cuts else 0


if __name__ == "__main__":
    sys.exit(main())
