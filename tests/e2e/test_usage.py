"""What is typed is understood or refused by name: exit status 2, one line."""

import pytest
from program import ROOT, growpage, refused

COMMANDS = ["run", "inspect", "tokenize", "detokenize", "perplexity", "eval", "analyze", "bench",
            "serve"]
VERSION = (ROOT / "VERSION").read_text().strip()


def test_help_lists_every_command():
    result = growpage("--help")
    assert result.returncode == 0 and result.stderr == b""
    for command in COMMANDS:
        assert command in result.out
    assert growpage("help").stdout == result.stdout
    assert growpage("-h").stdout == result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_version(command):
    result = growpage(command, "--help")
    assert result.returncode == 0 and result.stderr == b""
    assert f"usage: growpage {command}" in result.out and "--model" in result.out
    assert all(len(line) <= 100 for line in result.out.splitlines())
    assert growpage("help", command).stdout == result.stdout
    assert growpage(command, "--version").out == f"growpage {VERSION}\n"


def test_version():
    result = growpage("--version")
    assert (result.returncode, result.out, result.err) == (0, f"growpage {VERSION}\n", "")


def test_no_command_is_a_usage_error():
    refused(growpage(), 2, "no command", "--help")


@pytest.mark.parametrize("typed, meant", [("rnu", "run"), ("inspct", "inspect"),
                                          ("tokenise", "tokenize"), ("perplex", "perplexity")])
def test_a_mistyped_command_is_suggested(typed, meant):
    refused(growpage(typed), 2, typed, f"did you mean {meant}?")


@pytest.mark.parametrize("typed, meant", [("--promt", "--prompt"), ("--tmp", "--temp"),
                                          ("--page-sizes", "--page-size"), ("--jsno", "--json"),
                                          ("--kv-thresold", "--kv-threshold")])
def test_a_mistyped_option_is_suggested(typed, meant):
    refused(growpage("run", typed), 2, typed, f"did you mean {meant}?")


@pytest.mark.parametrize("args, words", [
    (["run", "-p", "x", "--page-size", "100"], ["--page-size", "100", "multiple of 16"]),
    (["run", "-p", "x", "--page-size", "0"], ["--page-size"]),
    (["run", "-p", "x", "-n", "0"], ["--max-tokens"]),
    (["run", "-p", "x", "-n", "many"], ["-n", "many"]),
    (["run", "-p", "x", "--temp", "nan"], ["--temp", "nan"]),
    (["run", "-p", "x", "--top-p", "1.5"], ["--top-p", "1.5"]),
    (["run", "-p", "x", "--kv-memory", "12 MB"], ["--kv-memory", "12 MB"]),
    (["run", "-p", "x", "--kv-memory", "1GiB", "--kv-pages", "7"], ["--kv-memory", "--kv-pages"]),
    (["run", "-p", "x", "--kv", "minference:1024"], ["--kv", "minference"]),
    (["run", "-p", "x", "--kv", "fixed:"], ["--kv", "fixed"]),
    (["run", "-p", "x", "--kv-type", "q4_0"], ["--kv-type", "q8_0"]),
    (["run", "-p", "x", "--kv-compact", "sort"], ["--kv-compact", "shift|fill"]),
    (["run", "-p", "x", "--kv-trigger", "token"], ["--kv-trigger", "growpage"]),
    (["run", "-p", "x", "--kv", "rkv:512", "--kv-scorer", "windw=8"], ["--kv-scorer", "windw"]),
    (["run", "-p", "x", "--kv-trace="], ["--kv-trace", "empty"]),
    (["run", "-p", "x", "--port", "8080"], ["--port", "serve"]),
    (["run", "-p", "x", "--gpu-memory-utilization", "0.9"], ["--kv-memory"]),
    (["run", "-p", "x", "-f", "y"], ["--prompt", "--file"]),
    (["run", "-p", "x", "surplus"], ["surplus"]),
    (["run", "-p"], ["-p", "needs a value"]),
    (["run", "--chat-template", "x", "-p", "x"], ["--chat"]),
    (["tokenize", "--temp", "1", "-p", "x"], ["--temp", "not an option of this command"]),
    (["inspect", "stray"], ["stray"]),
    (["run", "-p", "x", "-t", "0"], ["-t", "0"]),
    (["run", "-p", "x", "-m", ""], ["--model", "empty"]),
    (["run", "-f", ""], ["--file", "empty"]),
    (["run", "-p", "x", "--chat", "--chat-template-file", ""], ["--chat-template-file", "empty"]),
    (["run", "-p", "x", "-np", "513"], ["-np", "513"]),
])
def test_impossible_options_are_refused_by_name(args, words, speaker):
    # The model is there and good, so that nothing else can be the reason.
    refused(growpage(*args[:1], "-m", speaker, *args[1:]), 2, *words)


@pytest.mark.parametrize("command", ["run", "tokenize", "perplexity"])
def test_nothing_to_do_is_a_usage_error(command, speaker):
    refused(growpage(command, "-m", speaker), 2, command, "-f FILE")


def test_options_that_name_present_behaviour_are_accepted(speaker):
    result = growpage("run", "-m", speaker, "-p", "x", "--kv-sync", "--no-prefix-cache",
                      "--no-enable-prefix-caching", "--preempt", "newest")
    assert result.returncode == 0
    assert result.out == "The quick brown fox jumps over it.\n"


def test_options_that_only_the_engine_can_judge(speaker):
    refused(growpage("run", "-m", speaker, "-p", "x", "--kv-memory", "1KiB"), 2, "kv-memory")
    refused(growpage("run", "-m", speaker, "-p", "x", "-np", "8", "-b", "4"), 2, "max-batch-tokens")


def test_an_unknown_cpu_level_is_named(speaker):
    refused(growpage("run", "-m", speaker, "-p", "x", env={"GP_CPU": "z80"}), 1, "z80")
