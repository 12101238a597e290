"""64 streams at once on SmolLM2, in a quarter of the memory that they need: nobody is cut, nobody's
text changes.

`python test_streams.py URL` sends the same load to another server and tells how it went; GP_STREAMS
and GP_STREAM_TOKENS make it smaller.
"""

import json
import os
import random
import sys
import threading
import time
import urllib.request

STREAMS = int(os.environ.get("GP_STREAMS", "64"))
TOKENS = int(os.environ.get("GP_STREAM_TOKENS", "224"))
PAGE = 32

WORDS = ("time day man house water light road river stone king green old small long new good early "
         "north sea hand eye door tree field word").split()


def bodies():
    """Prompts of 20 to 32 words; each stream is prompt and answer of 256 tokens at most."""
    rng = random.Random(5)
    return [{"prompt": "The " + " ".join(rng.choices(WORDS, k=rng.randrange(20, 32))),
             "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "seed": 1, "stream": True,
             "stream_options": {"include_usage": True}} for _ in range(STREAMS)]


def ask(url, body, timeout=3600):
    """(text, finish_reason or what went wrong, tokens) of one stream."""
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    text, finish, tokens = "", None, 0
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            for line in answer:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    return text, "error: " + event["error"]["message"], tokens
                tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
                for choice in event.get("choices", []):
                    text += choice.get("text") or ""
                    finish = choice.get("finish_reason") or finish
    except OSError as error:
        body = error.read().decode() if hasattr(error, "read") else ""
        return text, f"error: {error} {body}"[:200], tokens
    return text, finish or "error: the stream ended without a word", tokens


def together(url):
    results = [None] * STREAMS
    requests = bodies()

    def run(index):
        results[index] = ask(url, requests[index])

    threads = [threading.Thread(target=run, args=(index,)) for index in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def summary(results, seconds):
    ends = {}
    for _, finish, _ in results:
        ends[finish] = ends.get(finish, 0) + 1
    tokens = sum(count for _, _, count in results)
    return f"{STREAMS} streams, {tokens} tokens in {seconds:.0f} s; ends: {ends}"


def test_a_quarter_of_the_memory_cuts_nobody(smollm):
    from serving import serving  # not needed where only the load is sent

    common = ["--page-size", str(PAGE), "-c", "1024", "-np", str(STREAMS), "--kv-fallback",
              "preempt", "--kv-initial-pages", "4", "--no-access-log"]
    needed = STREAMS * ((TOKENS + PAGE) // PAGE)
    with serving(smollm, *common, "--kv-pages", str(2 * needed)) as server:
        alone = [ask(server.url, body) for body in bodies()]
    with serving(smollm, *common, "--kv-pages", str(needed // 4)) as server:
        began = time.monotonic()
        results = together(server.url)
        print(summary(results, time.monotonic() - began),
              f"pages: {needed // 4} of {needed}; preemptions:",
              int(server.metric("vllm:num_preemptions_total")))
        assert server.metric("vllm:num_preemptions_total") > 0
        server.wait_idle()
    for index, (text, finish, tokens) in enumerate(results):
        assert (finish, tokens) == ("length", TOKENS), (index, finish, tokens)
        assert text == alone[index][0], (index, text, alone[index][0])


if __name__ == "__main__":
    start = time.monotonic()
    print(summary(together(sys.argv[1]), time.monotonic() - start))
