"""growpage run: what it prints where, what it reports, and that the same request gives the same tokens."""

import json
import resource
import signal
import struct
import subprocess
import time

import pytest
from program import (PROGRAM, ROOT, SANITIZED, SLOW, growpage, limit_memory, make_model, refused,
                      start)
from gguf_bytes import U32, File

WORDS = "The quick brown fox jumps over it."
SMALL = ["--page-size", "16", "--kv-initial-pages", "2"]

COUNTS = ["grow", "compress", "shrink", "start", "initial", "pressure", "capped", "fallback",
          "preempt"]


def test_the_answer_goes_to_stdout_and_the_report_to_stderr(speaker):
    result = growpage("run", "-m", speaker, "-p", "anything")
    assert result.returncode == 0 and result.out == WORDS + "\n"
    for word in ("model ", "cpu ", "memory ", "cache ", "fits ", "prompt ", "decode ", "pages ",
                 "kv ", "events ", "work ", "total ", "ms a token", "tok/s", "first token", "finish stop", "full cache"):
        assert word in result.err, word
    assert "\r" not in result.err and "\033" not in result.err and "loading" not in result.err


def test_prompts_come_from_anywhere(speaker, tmp_path):
    (tmp_path / "prompt").write_bytes(b"any\xff\x00thing\n")
    asked = [["-p", "x"], ["-"], ["-f", "-"], ["-f", tmp_path / "prompt"], ["--chat", "-p", "x"],
             ["--chat", "-"]]
    for args in asked:
        result = growpage("run", "-m", speaker, *args, input="x\n")
        assert (result.returncode, result.out) == (0, WORDS + "\n"), (args, result.err)


def test_json_is_one_object_of_the_documented_shape(tiny):
    result = growpage("run", "-m", tiny, "-p", "shape", "-n", "100", "--seed", "3", "--json", *SMALL)
    assert result.returncode == 0 and result.out.count("\n") == 1
    answer = result.json
    assert set(answer) == {"text", "tokens", "finish_reason", "seed", "usage", "timings", "kv"}
    assert isinstance(answer["text"], str) and answer["finish_reason"] == "length"
    assert all(isinstance(token, int) for token in answer["tokens"])
    assert answer["seed"] == 3
    usage = answer["usage"]
    assert usage["completion_tokens"] == len(answer["tokens"]) == 100
    assert usage["total_tokens"] == usage["prompt_tokens"] + 100
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}
    assert set(answer["timings"]) == {"queue_ms", "prompt_ms", "prompt_per_second", "ttft_ms",
                                      "decode_ms", "decode_per_second", "tpot_ms", "total_ms"}
    assert all(value >= 0 for value in answer["timings"].values())
    kv = answer["kv"]
    assert set(kv) == {"policy", "page_size", "pages_peak", "pages_mean", "budget", "grow_ratio",
                       "work", *COUNTS, "delta"}
    assert kv["policy"] == "growpage" and kv["page_size"] == 16
    boundaries = (usage["total_tokens"] - 1) // 16
    assert len(kv["delta"]) == boundaries
    assert kv["start"] + kv["initial"] + kv["grow"] + kv["compress"] == boundaries
    measured = [d for d in kv["delta"] if d is not None]
    assert len(measured) == kv["grow"] + kv["compress"] > 0
    assert sum(d > 0 for d in measured) == kv["grow"]
    assert kv["pages_peak"] == 1 + kv["start"] + kv["initial"] + kv["grow"]
    assert 1 <= kv["pages_mean"] <= kv["pages_peak"]
    assert kv["budget"] == pytest.approx(16 * kv["pages_mean"])
    assert kv["grow_ratio"] == pytest.approx(kv["grow"] / len(measured))
    times, work = answer["timings"], kv["work"]
    assert times["tpot_ms"] == pytest.approx(times["decode_ms"] / 99)
    assert times["total_ms"] == pytest.approx(times["ttft_ms"] + times["decode_ms"])
    assert set(work) == {"demand_ms", "score_ms", "mask_ms", "select_ms", "compact_ms", "share"}
    assert work["demand_ms"] > 0 and (work["score_ms"] > 0) == (kv["compress"] > 0)
    assert work["mask_ms"] == 0
    stages = sum(value for name, value in work.items() if name != "share")
    assert work["share"] == pytest.approx(stages / times["decode_ms"])


def test_streamed_text_and_json_text_agree(tiny):
    args = ["run", "-m", tiny, "-p", "agree", "-n", "60", "--seed", "9"]
    plain, whole = growpage(*args), growpage(*args, "--json")
    assert plain.out == whole.json["text"] + "\n"


def test_characters_are_never_split(folder):
    # B38: half an emoji a token; every flush of the stream must be whole UTF-8.
    model = make_model(folder, "emoji.gguf", "--spell", r"half \xF0\x9F\|\x98\x80 emoji")
    with start("run", "-m", model, "-p", "x", bufsize=0) as process:
        text = b""
        while chunk := process.stdout.read(65536):
            chunk.decode()
            text += chunk
    assert text.decode() == "half \U0001f600 emoji\n"


@pytest.mark.parametrize("marker, eos", [
    ("<|im_end|>", "<|endoftext|>"), ("<|endoftext|>", "<|im_end|>"),
    *[(marker, "<|endoftext|>") for marker in ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
                                               "<|end|>", "</s>", "<｜end▁of▁sentence｜>")],
])
def test_b22_every_end_token_stops(marker, eos, folder):
    control = [] if marker in ("<|im_end|>", "<|endoftext|>") else ["--control", marker]
    model = make_model(folder, "walk.gguf", *control, "--eos", eos, "--spell",
                       f"Done.{marker}And on it runs.", "--loop")
    result = growpage("run", "-m", model, "-p", "x", "-n", "50")
    assert result.out == "Done.\n" and "finish stop" in result.err
    answer = growpage("run", "-m", model, "-p", "x", "-n", "50", "--json").json
    assert answer["finish_reason"] == "stop" and answer["text"] == "Done."
    answer = growpage("run", "-m", model, "-p", "x", "-n", "50", "--ignore-eos", "--json").json
    assert answer["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 50
    assert "And on it runs." in answer["text"] and marker not in answer["text"]
    shown = growpage("run", "-m", model, "-p", "x", "-n", "50", "--ignore-eos", "--special").out
    assert marker in shown


def test_the_context_ends_an_answer(endless):
    answer = growpage("run", "-m", endless, "-p", "x", "-c", "100", "--json").json
    assert answer["finish_reason"] == "length" and answer["usage"]["total_tokens"] == 100
    answer = growpage("run", "-m", endless, "-p", "x", "-c", "100", "-n", "5000", "--json").json
    assert answer["usage"]["total_tokens"] == 100


def test_a_prompt_that_cannot_fit_is_refused(tiny):
    refused(growpage("run", "-m", tiny, "-", "-c", "64", input="word " * 500), 1, "prompt", "64")
    refused(growpage("run", "-m", tiny, "-", *SMALL, "--kv-pages", "4", input="word " * 500), 1,
            "prompt", "pages")
    refused(growpage("run", "-m", tiny, "-p", ""), 1, "prompt", "empty")


def test_a_chat_prompt_that_is_no_utf8_is_refused(tiny):
    refused(growpage("run", "-m", tiny, "--chat", "-", input=b"caf\xe9"), 1, "prompt", "byte 3")
    assert growpage("run", "-m", tiny, "-", "-n", "3", input=b"caf\xe9").returncode == 0


def test_a_request_alone_that_cannot_go_on_says_so(tiny):
    result = growpage("run", "-m", tiny, "-p", "x", "--kv", "full", "--page-size", "16",
                      "--kv-pages", "3", "--ignore-eos", "--json")
    assert result.returncode == 1
    assert result.json["finish_reason"] == "capacity" and len(result.json["tokens"]) > 30
    assert result.err.splitlines()[-1].startswith("growpage: answer: cut after")


def test_a_bad_template_is_named(tiny, tmp_path):
    refused(growpage("run", "-m", tiny, "--chat", "-p", "x", "--chat-template", "{% nonsense %}"),
            1, "template")
    (tmp_path / "t").write_text("{{ messages[0]['content'] }}!")
    result = growpage("run", "-m", tiny, "--chat", "-p", "four", "--chat-template-file",
                      tmp_path / "t", "-n", "1", "--json").json
    plain = growpage("run", "-m", tiny, "-p", "four!", "-n", "1", "--json").json
    assert result["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]
    refused(growpage("run", "-m", tiny, "--chat", "-p", "x", "--chat-template-kwargs", "{nonsense"),
            1, "variables")


def test_template_variables_arrive(tiny):
    template = "{{ messages[0].content }}{% if shout %} IN CAPITALS INDEED{% endif %}"
    args = ["run", "-m", tiny, "--chat", "-p", "x", "--chat-template", template, "-n", "1", "--json"]
    plain = growpage(*args).json["usage"]["prompt_tokens"]
    more = growpage(*args, "--chat-template-kwargs", '{"shout": true}').json["usage"]
    assert more["prompt_tokens"] > plain + 4


def test_a_message_cannot_spell_control_tokens(smollm):
    def count(message):
        return growpage("run", "-m", smollm, "--chat", "-p", message, "-n", "1",
                        "--json").json["usage"]["prompt_tokens"]
    # As one control token it would count for one; as text it takes several.
    assert count("<|im_end|>") - count("") > 3


def test_more_context_than_the_model_was_trained_for_is_warned_of(tiny):
    args = ["run", "-m", tiny, "-p", "x", "-n", "1", "-c"]
    assert "trained for 8192" in growpage(*args, "8193").err
    assert "trained for" not in growpage(*args, "8192").err


# ---- the same request gives the same tokens ------------------------------------------------------

def answer_of(model, *args, env=None, n=80):
    result = growpage("run", "-m", model, "-p", "The same request, the same tokens", "-n", str(n),
                      "--json", *args, env=env)
    assert result.returncode == 0, result.err
    return result.json


def same(a, b):
    """But for the time that it took."""
    return a["tokens"] == b["tokens"] and {**a["kv"], "work": None} == {**b["kv"], "work": None}


@pytest.fixture(scope="module")
def reference(tiny_q8):
    answer = answer_of(tiny_q8, "--seed", "11", "-t", "1", *SMALL)
    assert answer["kv"]["compress"] > 0 and answer["kv"]["grow"] > 0
    return answer


@pytest.mark.parametrize("args", [["-t", "2"], ["-t", "3"], ["-b", "1"], ["-b", "7"],
                                  ["-np", "4"], ["--kv-pages", "40"], ["-c", "512"]], ids=str)
def test_threads_batches_and_pools_change_nothing(args, reference, tiny_q8):
    assert same(reference, answer_of(tiny_q8, "--seed", "11", *SMALL, *args))


@pytest.mark.parametrize("level", ["ref", "avx2", "avx512"])
def test_cpu_levels_change_nothing(level, reference, tiny_q8):
    probe = growpage("run", "-m", tiny_q8, "-p", "x", "-n", "1", env={"GP_CPU": level})
    if probe.returncode:
        pytest.skip(f"skipped: {probe.err.strip()}")
    assert f"cpu     {level}" in probe.err
    assert same(reference, answer_of(tiny_q8, "--seed", "11", *SMALL, env={"GP_CPU": level}))


def test_seeds_matter_and_drawn_ones_are_reported(reference, tiny_q8):
    assert not same(reference, answer_of(tiny_q8, "--seed", "12", *SMALL))
    drawn = answer_of(tiny_q8, *SMALL)
    assert same(drawn, answer_of(tiny_q8, "--seed", str(drawn["seed"]), *SMALL))
    assert drawn["seed"] != answer_of(tiny_q8, "--seed", "-1", *SMALL)["seed"]


def test_an_unreached_budget_and_an_ever_growing_one_are_full(tiny_q8):
    full = answer_of(tiny_q8, "--seed", "1", "--page-size", "16", "--kv", "full")
    for args in (["--kv-threshold", "-1000", "--kv-initial-pages", "2"], ["--kv", "fixed:1024"],
                 ["--kv-initial-pages", "100"], ["--kv", "random:0", "--kv-initial-pages", "2"]):
        assert answer_of(tiny_q8, "--seed", "1", "--page-size", "16", *args)["tokens"] == full["tokens"]


@pytest.mark.parametrize("policy, check", [
    ("full", lambda kv: kv["compress"] == 0),
    ("fixed:64", lambda kv: kv["pages_peak"] == 4 and kv["compress"] > 0),
    ("fixed:5", lambda kv: kv["pages_peak"] == 2),
    ("random", lambda kv: kv["compress"] > 0),
    ("random:1", lambda kv: kv["pages_peak"] == 2 and kv["grow"] == 0),
    ("inverse", lambda kv: kv["grow"] == sum(d is not None and d <= 0 for d in kv["delta"])),
    ("shrink:-0.001:32", lambda kv: kv["shrink"] > 0),
    ("growpage", lambda kv: kv["grow"] == sum(d is not None and d > 0 for d in kv["delta"])),
])
def test_policies_do_what_their_names_say(policy, check, tiny_q8):
    kv = answer_of(tiny_q8, "--seed", "2", *SMALL, "--kv", policy, n=300)["kv"]
    assert kv["policy"].split(":")[0] == policy.split(":")[0]
    assert check(kv), kv


def test_a_real_model_answers_alike_on_one_and_two_threads(smollm):
    args = ["--seed", "5", "--temp", "0.8", *SMALL]
    one = answer_of(smollm, *args, "-t", "1", n=24)
    assert same(one, answer_of(smollm, *args, "-t", "2", n=24))


# ---- interrupts, pipes, disks --------------------------------------------------------------------

def test_ctrl_c_keeps_the_answer_and_reports(endless):
    with start("run", "-m", endless, "-p", "x") as process:
        begin = process.stdout.read(60)
        process.send_signal(signal.SIGINT)
        rest, stderr = process.communicate(timeout=20 * SLOW)
    assert process.returncode == 0, stderr
    text = (begin + rest).decode()
    assert text.startswith("tick, tock; tick, tock; ") and text.endswith("\n")
    assert b"finish cancelled" in stderr and b"events" in stderr


def test_ctrl_c_with_json_still_prints_the_object(endless):
    with start("run", "-m", endless, "-p", "x", "--json") as process:
        assert process.stderr.readline().startswith(b"model")
        time.sleep(0.2 * SLOW)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=20 * SLOW)
    assert process.returncode == 0
    assert json.loads(stdout)["finish_reason"] == "cancelled"


def test_a_second_ctrl_c_kills(smollm):
    # One step of thousands of tokens, during which nothing can be cancelled.
    with start("run", "-m", smollm, "-", "-b", "4096", "-c", "8000") as process:
        process.stdin.write(b"a long prompt; " * 1000)
        process.stdin.close()
        process.stdin = None
        while not process.stderr.readline().startswith(b"fits"):
            pass
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20 * SLOW)
    assert process.returncode == -signal.SIGINT


def test_a_closed_pipe_ends_it_with_a_line(endless):
    with start("run", "-m", endless, "-p", "x") as process:
        assert process.stdout.read(10)
        process.stdout.close()
        stderr = process.stderr.read()
        assert process.wait(timeout=20 * SLOW) == 1
    assert stderr.splitlines()[-1] == b"growpage: standard output: Broken pipe"


@pytest.mark.parametrize("args", [["run", "-p", "x"], ["run", "-p", "x", "--json"],
                                  ["tokenize", "-p", "x"], ["inspect"], ["--help"], ["--version"],
                                  ["detokenize", "5"]], ids=str)
def test_a_full_disk_is_a_failure(args, speaker):
    model = [] if args[0].startswith("--") else ["-m", speaker]
    with open("/dev/full", "w") as full:
        result = growpage(args[0], *model, *args[1:], stdout=full)
    assert result.returncode == 1
    assert result.err.splitlines()[-1] == "growpage: standard output: No space left on device"


def test_a_file_that_may_not_grow_is_a_failure(speaker, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with open(tmp_path / "out", "w") as out:
        result = growpage("tokenize", "-m", speaker, "-p", "x", stdout=out, preexec_fn=limit)
    assert result.returncode == 1
    assert result.err == "growpage: standard output: File too large\n"


def test_closed_standard_streams_are_survived(speaker):
    def shell(redirections):
        return subprocess.run(["sh", "-c", f'"$@" {redirections}', "sh", PROGRAM, "run", "-m",
                               speaker, "-p", "x"], capture_output=True, cwd=ROOT)
    result = shell(">&-")
    assert result.returncode == 1 and b"standard output: Bad file descriptor" in result.stderr
    result = shell("<&- 2>&-")
    assert (result.returncode, result.stdout) == (0, WORDS.encode() + b"\n")
    assert shell("<&- >&- 2>&-").returncode == 1


def test_memory_that_cannot_be_had_is_refused(tiny):
    if SANITIZED:
        pytest.skip("skipped: address space cannot be limited under a sanitizer")
    result = growpage("run", "-m", tiny, "-p", "x", "--kv-memory", "64GiB", preexec_fn=limit_memory)
    refused(result, 1, "kv-memory")


def test_the_graph_follows_the_locale(tiny):
    args = ["run", "-m", tiny, "-p", "x", "-n", "60", *SMALL]
    assert "\u2588" in growpage(*args).err
    assert growpage(*args, env={"LC_ALL": "C"}).stderr.isascii()


@pytest.mark.parametrize("args", [[], ["--chat"]], ids=["plain", "chat"])
def test_a_text_far_too_long_is_refused_before_it_is_tokenized(args, tiny):
    result = growpage("run", "-m", tiny, "-n", "1", "-", *args, input="a" * (64 << 20))
    refused(result, 1, "prompt", str(64 << 20), "cannot hold")
    if not SANITIZED:
        assert result.cpu_seconds < 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 3e38], ids=str)
@pytest.mark.parametrize("name", ["token_embd.weight", "blk.0.attn_k.weight", "output_norm.weight"])
def test_weights_that_are_no_numbers_kill_nothing(name, value, tiny, tmp_path):
    file = File(tiny)
    weights = file.find(name)
    weights[2] = struct.pack("<f", value) * (len(weights[2]) // 4)
    path = file.write(tmp_path / "bad.gguf")
    result = growpage("run", "-m", path, "-p", "x", "-n", "60", "--ignore-eos", *SMALL)
    assert result.returncode in (0, 1), result.stderr
    if result.returncode:
        assert "no number for any token" in result.err.splitlines()[-1]
    text = ROOT / "LICENSE"
    assert growpage("perplexity", "-m", path, "-f", text, "-c", "512").returncode == 0


# ---- perplexity ----------------------------------------------------------------------------------

def perplexity(*args, **kwargs):
    result = growpage("perplexity", *args, **kwargs)
    assert result.returncode == 0, result.err
    assert "llama-perplexity's convention" in result.out
    return float(result.out.splitlines()[-1].split()[-1]), result.out


def test_perplexity_ends_with_its_number(smollm, tmp_path):
    text = (ROOT / "LICENSE").read_text()[:2400]
    (tmp_path / "text").write_text(text)
    value, out = perplexity("-m", smollm, "-f", tmp_path / "text", "-c", "128")
    assert 1 < value < 60 and "windows of 128 tokens" in out
    assert perplexity("-m", smollm, "-", "-c", "128", "-t", "1", input=text)[0] == value


def test_a_context_too_short_for_perplexity_is_named(tiny, tmp_path):
    path = File(tiny).set("llama.context_length", U32, 1).write(tmp_path / "one.gguf")
    refused(growpage("perplexity", "-m", path, "-f", ROOT / "LICENSE"), 1, "context is 1 tokens")


def test_too_short_a_text_for_perplexity_is_refused(tiny):
    refused(growpage("perplexity", "-m", tiny, "-", input="short"), 1, "tokens")
