"""What runs in the sandbox before the program does: python3 -c THIS SECONDS BYTES FILE_BYTES [FUNCTION].

The program comes in descriptor 3. A byte goes to standard output when it is about to begin: without
it, the sandbox has failed and not the program.
"""
import json
import os
import random
import resource
import sys
import types

MODULES = """string re datetime collections heapq bisect copy math random statistics itertools functools
operator io sys json""".split()
PREAMBLE = "".join(f"from {m} import *\n" for m in [*MODULES, "builtins", "typing"]) + \
    f"import {', '.join(MODULES)}\n"


def limit(seconds, memory, file):
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory),
                       (resource.RLIMIT_FSIZE, file), (resource.RLIMIT_CORE, 0),
                       (resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_NPROC, 64),
                       (resource.RLIMIT_STACK, 64 << 20)):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # A signal that says what it is about, and a second later one that cannot be caught.
        last = most + 1 if what == resource.RLIMIT_CPU and most != hard else most
        resource.setrlimit(what, (most, last))


def begin(name):
    """A module for the program, with the names that programs of this kind take for granted."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(PREAMBLE, module.__dict__)
    sys.argv[:] = ["program.py"]
    sys.setrecursionlimit(50000)
    random.seed(0)
    return module


def plain(value):
    """Arrays and numbers of numpy's as lists and numbers."""
    return value.tolist()


def call(module, function, output):
    arguments = [json.loads(line) for line in sys.stdin.read().strip("\n").split("\n")]
    owner = module.Solution() if "Solution" in module.__dict__ else module
    result = json.dumps(getattr(owner, function)(*arguments), default=plain).encode()
    while result:
        result = result[os.write(output, result):]
    os._exit(0)


def main(seconds, memory, file, function=None):
    limit(int(seconds), int(memory), int(file))
    with open(3, "rb") as stream:
        source = stream.read()
    module = begin("solution" if function else "__main__")
    os.write(1, b"+")
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 2)
    output = os.dup(1) if function else None
    if function:
        os.dup2(null, 1)
    os.close(null)
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
        if function:
            call(module, function, output)
    except SystemExit:
        # As the benchmark has it: whatever the status is, the output counts.
        pass


main(*sys.argv[1:])
