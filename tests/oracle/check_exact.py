"""Compare the kernels' exact arithmetic and the policies with compress_reference.py on random cases.

    check_exact.py [--cases 2000] [--seed 1] [--cc gcc]

Builds src/base, src/policy and src/kernels/exact.c into a shared library in a temporary folder and calls it
through ctypes.  Run from the repository root; needs numpy.  Exit 1 at the first difference.
"""

import argparse
import ctypes as C
import glob
import subprocess
import sys
import tempfile

import numpy as np

import compress_reference as reference

POLICIES = ["full", "growpage", "fixed", "random", "inverse", "shrink"]
ACTIONS = ["grow", "compress", "shrink"]
CAUSES = ["policy", "start", "initial", "pressure", "capped", "fallback"]


class Options(C.Structure):  # struct gp_kv_options
    _fields_ = [
        ("policy", C.c_int),
        ("budget_tokens", C.c_uint32),
        ("compress_probability", C.c_double),
        ("seed", C.c_uint64),
        ("shrink_threshold", C.c_double),
        ("shrink_floor", C.c_uint32),
        ("beta_short", C.c_float),
        ("beta_long", C.c_float),
        ("summary_init", C.c_int),
        ("select", C.c_int),
        ("coverage", C.c_double),
        ("threshold", C.c_double),
        ("metric", C.c_int),
        ("gqa_demand", C.c_int),
        ("initial_pages", C.c_uint32),
        ("max_pages", C.c_uint32),
        ("pressure", C.c_double),
        ("local", C.c_uint32),
        ("protect", C.c_uint32),
        ("gqa_score", C.c_int),
        ("score_domain", C.c_int),
        ("fallback", C.c_int),
        ("resume", C.c_int),
    ]


class View(C.Structure):  # struct gp_boundary_view
    _fields_ = [
        ("page_tokens", C.c_uint32),
        ("pages", C.c_uint32),
        ("pool_used", C.c_uint32),
        ("pool_total", C.c_uint32),
        ("index", C.c_uint64),
        ("has_summaries", C.c_bool),
        ("reached_initial", C.c_bool),
    ]


class Decision(C.Structure):  # struct gp_decision
    _fields_ = [("action", C.c_int), ("cause", C.c_int)]


class Retention(C.Structure):  # struct gp_retention
    _fields_ = [(name, C.c_uint32) for name in ("pages_after", "protect", "keep", "local")]


def build(folder, cc):
    path = f"{folder}/exact.so"
    sources = glob.glob("src/base/[!m]*.c") + ["src/base/mem.c", "src/kernels/exact.c"]
    sources += glob.glob("src/policy/*.c")
    flags = "-std=gnu11 -O2 -ffp-contract=off -shared -fPIC -D_GNU_SOURCE -Isrc -Iinclude -pthread"
    subprocess.run([cc, *flags.split(), *sources, "-lm", "-o", path], check=True)
    library = C.CDLL(path)
    library.gp_policy_decide.restype = Decision
    library.gp_policy_decide.argtypes = [C.POINTER(Options), C.POINTER(View), C.c_double]
    library.gp_policy_wants_signal.restype = C.c_bool
    library.gp_policy_retention.restype = Retention
    library.gp_coverage_count.restype = C.c_uint32
    library.gp_coverage_count.argtypes = [C.c_void_p, C.c_uint32, C.c_double, C.c_void_p]
    return library


def scores_of(rng, count):
    """Few different values, so that there are ties, or a softmax's many magnitudes."""
    if rng.integers(2):
        return rng.integers(0, rng.integers(1, 8), count).astype(np.float32)
    return np.exp(rng.normal(0, rng.uniform(0.1, 8), count)).astype(np.float32)


def check_select(library, rng):
    b = int(rng.integers(1, 70))
    pages = int(rng.integers(1, 9))
    count = int(rng.integers((pages - 1) * b + 1, pages * b + 1))
    scores = scores_of(rng, count)
    quota = int(rng.integers(0, b + 1))
    sizes = [b] * (pages - 1) + [count - (pages - 1) * b]
    least = sum(min(quota, size) for size in sizes)
    keep = int(rng.integers(least, count + 1))
    kept = np.zeros(max(keep, 1), dtype=np.uint32)
    scratch = np.zeros(count, dtype=np.uint64)
    library.gp_select(
        scores.ctypes.data_as(C.c_void_p), count, b, quota, keep,
        kept.ctypes.data_as(C.c_void_p), scratch.ctypes.data_as(C.c_void_p),
    )
    return list(kept[:keep]), reference.select([float(s) for s in scores], b, quota, keep)


def check_coverage(library, rng):
    count = int(rng.integers(1, 400))
    weights = scores_of(rng, count).astype(np.float64)
    weights = np.asarray(reference.fixed(weights / max(weights.sum(), 1)), dtype=np.uint32)
    coverage = float(rng.choice([0.5, 0.9, 0.99, 0.999, 1.0, rng.uniform(0.01, 1)]))
    scratch = np.zeros(count, dtype=np.uint32)
    ours = library.gp_coverage_count(weights.ctypes.data, count, coverage, scratch.ctypes.data)
    weights = [int(w) for w in weights]
    exact = reference.coverage_count(weights, coverage)
    # A product of doubles may miss a whole number by one unit of 2^-30, no more.
    low, high = (reference.coverage_count(weights, coverage, units) for units in (-1, 1))
    return ours, ours if low <= ours <= high else exact


def random_options(rng, b):
    low = -float(rng.uniform(0, 0.01))
    return {
        **reference.OPTIONS,
        "policy": POLICIES[rng.integers(len(POLICIES))],
        "budget_tokens": int(rng.integers(1, 12 * b)),
        "shrink_threshold": low,
        "shrink_floor": int(rng.integers(0, 6 * b)),
        "threshold": float(rng.uniform(low, 0.01)),
        "initial_pages": int(rng.integers(2, 6)),
        "max_pages": int(rng.choice([0, rng.integers(2, 9)])),
        "pressure": float(rng.choice([0, rng.uniform(0, 1)])),
        "local": int(rng.integers(0, b + 1)),
        "protect": int(rng.integers(0, b)),
    }


def as_struct(options):
    out = Options(policy=POLICIES.index(options["policy"]))
    for name in ("budget_tokens", "shrink_threshold", "shrink_floor", "threshold", "initial_pages",
                 "max_pages", "pressure", "local", "protect", "coverage"):
        setattr(out, name, options[name])
    return out


def check_decision(library, rng):
    b = int(rng.integers(2, 65))
    options = random_options(rng, b)
    event = {
        "pages": int(rng.integers(1, 12)),
        "has_summaries": bool(rng.integers(2)),
        "reached_initial": bool(rng.integers(2)),
        "pool_used": int(rng.integers(0, 101)),
        "pool_total": 100,
    }
    delta = float(rng.choice([0.0, options["threshold"], options["shrink_threshold"],
                              rng.uniform(-0.02, 0.02)]))
    view = View(page_tokens=b, **event)
    struct = as_struct(options)
    if options["policy"] == "random":
        return 0, 0
    decision = library.gp_policy_decide(C.byref(struct), C.byref(view), delta)
    asked = library.gp_policy_wants_signal(C.byref(struct), C.byref(view))
    ours = (ACTIONS[decision.action], CAUSES[decision.cause], asked)
    return ours, (*reference.decide(event, options, b, delta), bool(reference.asks(event, options)))


def check_retention(library, rng):
    b, pages = int(rng.integers(2, 129)), int(rng.integers(2, 40))
    options = random_options(rng, b)
    action = ACTIONS[rng.integers(1, 3)] if pages > 2 else "compress"
    r = library.gp_policy_retention(C.byref(as_struct(options)), b, pages, ACTIONS.index(action))
    ours = (r.pages_after, r.protect, r.keep, r.local)
    return ours, reference.retention(options, b, pages, action)


def main():
    parser = argparse.ArgumentParser(description="Compare exact C arithmetic with the reference.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", default="gcc")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder, args.cc)
        for check in (check_select, check_coverage, check_decision, check_retention):
            rng = np.random.default_rng([args.seed, len(check.__name__)])
            for case in range(args.cases):
                ours, theirs = check(library, rng)
                if ours != theirs:
                    print(f"{check.__name__} seed {args.seed} case {case}: {ours} against {theirs}")
                    return 1
            print(f"{check.__name__}: {args.cases} cases agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
