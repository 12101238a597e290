"""The program as a user has it: a command line, files, pipes, a terminal."""

import json
import os
import pathlib
import resource
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GP_BUILD", ROOT / "build/gcc-release"))
BUILD = BUILD if BUILD.is_absolute() else ROOT / BUILD
SANITIZED = "asan" in BUILD.name or "tsan" in BUILD.name
SLOW = 10 if SANITIZED else 1  # times everything that is bounded by a clock
PROGRAM = str(BUILD / "growpage")
SMOLLM = os.environ.get("MODEL") or str(ROOT / "models/smollm2-135m-instruct-q4_1.gguf")

HOSTILE_BYTES = 100 << 20
HOSTILE_SECONDS = 1.0


class Result:
    def __init__(self, returncode, stdout, stderr, cpu_seconds):
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        self.cpu_seconds = cpu_seconds

    @property
    def out(self):
        return self.stdout.decode()

    @property
    def err(self):
        return self.stderr.decode()

    @property
    def json(self):
        return json.loads(self.stdout)


def limit_memory():
    # The address space is never smaller than the resident set.  Sanitizers map terabytes of shadow.
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (HOSTILE_BYTES, HOSTILE_BYTES))


def start(*args, env=None, program=PROGRAM, cwd=ROOT, **kwargs):
    """The program with pipes for what the caller does not say."""
    for name in ("stdin", "stdout", "stderr"):
        kwargs.setdefault(name, subprocess.PIPE)
    full_env = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    full_env = {k: v for k, v in full_env.items() if v is not None}
    return subprocess.Popen([program, *map(os.fspath, args)], env=full_env, cwd=cwd, **kwargs)


def growpage(*args, input=b"", env=None, timeout=120, **kwargs):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if isinstance(input, str):
        input = input.encode()
    with start(*args, env=env, **kwargs) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout * SLOW)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Result(process.returncode, stdout or b"", stderr or b"", cpu)


def refused(result, status, *words):
    """One line that names the thing, this exit status, nothing on standard output."""
    assert result.returncode == status, (result.returncode, result.stderr)
    lines = [line for line in result.err.splitlines() if ": warning: " not in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("growpage: "), lines
    assert result.stderr.endswith(b"\n")
    for word in words:
        assert word in lines[0], (word, lines[0])
    assert result.stdout == b""
    return lines[0]


def refused_cheaply(*args, words=()):
    """As a hostile file must be: without a signal, in under a second and 100 MiB."""
    result = growpage(*args, preexec_fn=limit_memory, timeout=10)
    line = refused(result, 1, *words)
    assert "out of memory" not in line and "cannot allocate" not in line.lower(), line
    if not SANITIZED:
        assert result.cpu_seconds < HOSTILE_SECONDS
    return line


def make_model(folder, name, *args):
    path = folder / name
    subprocess.run([BUILD / "tools/make_model", *args, "-o", path], check=True, cwd=ROOT)
    return str(path)
