"""The web page in a browser: Debian's chromium without a screen, driven by playwright.

make test-long installs playwright (tests/requirements-long.txt); chromium is Debian's package.
GP_SHOTS=FOLDER keeps pictures of what was seen.
"""

import os
import shutil
import time

import pytest
from program import SLOW, make_model
from serving import serving

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
if not CHROMIUM:
    pytest.skip("needs Debian's package chromium", allow_module_level=True)

MS = 1000 * SLOW
KV = ("-np", "4", "-c", "200000", "--page-size", "16", "--kv-pages", "96", "--kv-protect", "4",
      "--kv-initial-pages", "2")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(endless):
    with serving(endless, *KV) as server:
        yield server


@pytest.fixture(scope="module")
def thinker(folder):
    model = make_model(folder, "thinker.gguf", "--spell",
                       "<think>hm, so</think>**Yes**: `1 < 2`\n\n- one\n- two\n\n```\n<b>\n```")
    with serving(model, *KV) as server:
        yield server


@pytest.fixture
def open_page(browser):
    """A page of a server; whatever it complains of, or asks of others, fails the test."""
    bad, contexts = [], []

    def open_one(server, width=1280, height=800, scheme="light", live=True):
        context = browser.new_context(viewport={"width": width, "height": height},
                                      color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20 * MS)
        page.on("pageerror", lambda e: bad.append(str(e)))
        page.on("console", lambda m: bad.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith((server.url, "data:"))
                else bad.append(r.url))
        page.goto(server.url + "/")
        if live:
            page.wait_for_selector("#live.on")
        return page

    yield open_one
    for context in contexts:
        context.close()
    # Browsers tell of refusals that the page handles.
    assert [b for b in bad if "server responded with a status of 40" not in b] == []


def shot(page, name):
    if os.environ.get("GP_SHOTS"):
        page.screenshot(path=os.path.join(os.environ["GP_SHOTS"], name + ".png"))


def say(page, text):
    page.fill("#text", text)
    page.press("#text", "Enter")


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds * SLOW
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def colours(page):
    """How many different pixels the map has."""
    return page.evaluate("""() => {
        const map = document.getElementById("map");
        const data = map.getContext("2d").getImageData(0, 0, map.width, map.height).data;
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 4).join());
        return seen.size;
    }""")


def test_an_answer_streams_and_is_shown_as_what_it_means(thinker, open_page):
    page = open_page(thinker)
    page.click("#options-toggle")
    page.fill("#o-temperature", "0")
    say(page, "a question <i>with</i> markup")
    page.wait_for_selector(".answer:not(.busy)")
    assert page.inner_text(".own") == "a question <i>with</i> markup"
    assert page.inner_text(".thought summary").startswith("Thought for")
    assert page.text_content(".thought div") == "hm, so"
    assert not page.evaluate("document.querySelector('.thought').open")
    text = page.locator(".answer .text")
    assert text.locator("strong").inner_text() == "Yes"
    assert text.locator("p code").inner_text() == "1 < 2"
    assert text.locator("li").all_inner_texts() == ["one", "two"]
    assert text.locator("pre").inner_text().strip() == "<b>" and text.locator("b").count() == 0
    assert "tokens" in page.inner_text(".answer .foot")
    shot(page, "thought")


def test_stop_stops(server, open_page):
    page = open_page(server)
    for stop in (lambda: page.click("#stop"), lambda: page.keyboard.press("Escape")):
        say(page, "go on")
        page.wait_for_selector("#stop:visible")
        wait_until(lambda: page.locator(".answer").count() and
                   len(page.text_content(".answer .text")) > 40)
        stop()
        page.wait_for_selector("#send:visible")
        assert "stopped" in page.locator(".answer .foot").last.inner_text()
        server.wait_idle()
        page.click("#clear")
        assert page.locator(".answer").count() == 0


def test_the_map_follows_the_memory(server, open_page):
    page = open_page(server)
    wait_until(lambda: page.text_content("#legend"))
    idle = colours(page)
    ask = {"prompt": "x", "ignore_eos": True, "max_tokens": 90000}
    with server.open_post("/v1/completions", ask), \
            server.open_post("/v1/completions", {**ask, "kv": {"policy": "random:0.5"}}):
        page.wait_for_selector("#requests .chip")
        wait_until(lambda: all(word in page.text_content("#events")
                               for word in ("grew", "compressed", "Δ")))
        assert page.locator("#requests li").count() == 2
        assert colours(page) > idle
        assert "2 running" in page.inner_text("#pool")
        assert float(page.get_attribute("#meter", "aria-valuenow")) > 0
        assert page.locator("#requests .spark").count() >= 1
        shot(page, "memory")
    wait_until(lambda: colours(page) == idle)
    page.wait_for_selector("#requests .none", timeout=20 * MS)


def test_options_reach_the_request(server, open_page):
    page = open_page(server)
    page.click("#options-toggle")
    page.fill("#o-max_tokens", "7")
    page.select_option("#o-policy", "fixed")
    page.fill("#o-budget", "256")
    say(page, "x")
    page.wait_for_selector(".answer:not(.busy)")
    foot = page.inner_text(".answer .foot")
    assert foot.startswith("7 tokens") and "fixed:256" in foot and "length limit" in foot
    page.reload()
    page.wait_for_selector("#live.on")
    assert page.input_value("#o-max_tokens") == "7"
    page.click("#options-toggle")
    page.fill("#o-max_tokens", "0")
    say(page, "x")
    page.wait_for_selector(".answer .error")
    assert "max_tokens" in page.inner_text(".answer .error")


def test_dark_and_light(server, open_page):
    def ground(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = open_page(server), open_page(server, scheme="dark")
    shot(dark, "dark")
    assert ground(light) != ground(dark)
    light.click("#theme")
    assert ground(light) == ground(dark)
    light.reload()
    assert ground(light) == ground(dark)
    light.click("#theme")
    assert ground(light) != ground(dark)


def test_a_phone(server, open_page):
    page = open_page(server, width=375, height=720)
    say(page, "a long word: " + "x" * 200)
    page.wait_for_selector(".answer")
    for view in ("chat", "memory"):
        page.click(f"button[data-view={view}]")
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        assert page.is_visible("#" + view)
        shot(page, "phone-" + view)
    assert page.locator("#map").bounding_box()["width"] > 300
    page.click("button[data-view=chat]")
    page.click("#options-toggle")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.is_visible("#stop")
    page.click("#stop")


def test_the_keyboard_reaches_everything(server, open_page):
    page = open_page(server)
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id"))
    assert {"theme", "log", "text", "options-toggle", "clear", "send"} <= seen
    page.focus("#options-toggle")
    page.keyboard.press("Enter")
    assert page.is_visible("#options")
    assert page.get_attribute("#options-toggle", "aria-expanded") == "true"
    unnamed = page.evaluate("""() => [...document.querySelectorAll("input, select, textarea, button")]
        .filter((e) => !(e.labels?.length || e.textContent.trim() || e.ariaLabel)).map((e) => e.id)""")
    assert unnamed == []


def test_a_key_is_asked_for(tiny, open_page):
    with serving(tiny, "-c", "512", "--api-key", "secret") as server:
        page = open_page(server, live=False)
        for key in ("wrong", "secret"):
            page.wait_for_selector("#key[open]")
            page.fill("#key-text", key)
            page.press("#key-text", "Enter")
        page.wait_for_selector("#live.on")
        wait_until(lambda: page.text_content("#model"))
        page.reload()
        page.wait_for_selector("#live.on")
        page.close()


def test_shared_pages_are_drawn_once(smollm, open_page):
    with serving(smollm, "-np", "4", "-c", "1024", "--page-size", "32", "--kv", "full") as server:
        page = open_page(server)
        with server.open_post("/v1/completions", {"prompt": "a word, " * 60, "ignore_eos": True,
                                                  "n": 2, "max_tokens": 600}):
            wait_until(lambda: "reused" in page.text_content("#requests"))
            pool = server.kv()["pool"]
            both = page.locator("#requests .row .end").all_inner_texts()
            held = [int(text.split()[0]) for text in both if "pages" in text]
            assert len(held) == 2 and sum(held) > pool["pages_used"]
            shot(page, "shared")
        page.close()
