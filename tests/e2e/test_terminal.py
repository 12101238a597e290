"""What only happens on a terminal: the load line, and a conversation."""

import os
import pty
import re
import select
import subprocess
import time

import pytest
from program import PROGRAM, ROOT, SLOW, growpage, refused, start

WORDS = "The quick brown fox jumps over it."


class Terminal:
    """The program on a pseudo terminal; what it shows is read as a person would see it."""

    def __init__(self, *args, locale="C.UTF-8"):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [PROGRAM, *args], stdin=slave, stdout=slave, stderr=slave, cwd=ROOT,
            start_new_session=True, preexec_fn=self._take_terminal,
            env={**os.environ, "LC_ALL": locale, "TERM": "xterm"})
        os.close(slave)
        self.shown = ""

    @staticmethod
    def _take_terminal():
        import fcntl
        import termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches it

    def expect(self, pattern, seconds=20):
        """Wait for the pattern; what came up to its end is taken."""
        deadline = time.monotonic() + seconds * SLOW
        while not (found := re.search(pattern, self.shown, re.S)):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.shown!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.shown += os.read(self.master, 65536).decode(errors="replace")
                except OSError:  # the other end is gone
                    assert re.search(pattern, self.shown, re.S), f"no {pattern!r} in {self.shown!r}"
        taken, self.shown = self.shown[:found.end()], self.shown[found.end():]
        return taken

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        try:
            status = self.process.wait(timeout=20 * SLOW)
        finally:
            self.process.kill()
            os.close(self.master)
        return status


def test_a_load_line_is_shown_and_wiped(smollm):
    terminal = Terminal("run", "-m", smollm, "-p", "x", "-n", "2")
    shown = terminal.expect("events")
    assert "loading" in shown and "\r\033[K" in shown
    assert terminal.end() == 0


def test_a_conversation(speaker):
    terminal = Terminal("run", "-m", speaker, "--chat")
    terminal.expect("fits .*> ")
    terminal.type("Hello there\r")
    shown = terminal.expect(r"\[stop; [^]]*\].*> ")
    assert WORDS in shown
    terminal.type("/kv\r")
    assert "pool " in terminal.expect("pages in use now.*> ")
    first = int(re.search(r"\[stop; (\d+) \+", shown)[1])
    terminal.type("And again\r")
    second = int(re.search(r"\[stop; (\d+) \+", terminal.expect(r"\[stop; [^]]*\].*> "))[1])
    assert second > 2 * first - 5  # all turns went through the template again
    terminal.type("/clear\r")
    terminal.expect("> ")
    terminal.type("Hello there\r")
    assert int(re.search(r"\[stop; (\d+) \+", terminal.expect(r"\[stop; [^]]*\].*> "))[1]) == first
    terminal.type("/nonsense\r")
    terminal.expect("/nonsense: unknown.*> ")
    terminal.type("/help\r")
    terminal.expect("/clear .*> ")
    terminal.type("/quit\r")
    assert terminal.end() == 0


def test_lines_are_edited_and_remembered(speaker):
    terminal = Terminal("run", "-m", speaker, "--chat")
    terminal.expect("fits .*> ")
    terminal.type("/helpp\x7f\r")  # backspace
    terminal.expect("/clear .*> ")
    terminal.type("\033[A\r")  # the line before
    terminal.expect("/clear .*> ")
    terminal.type("\x04")
    assert terminal.end() == 0


@pytest.mark.parametrize("locale", ["C.UTF-8", "C", "xx_XX.UTF-8"])
def test_every_character_that_is_typed_arrives(speaker, locale):
    def tokens(line):
        terminal.type(line + "\r")
        return int(re.search(r"\[stop; (\d+) \+", terminal.expect(r"\[stop; [^]]*\].*> "))[1])

    terminal = Terminal("run", "-m", speaker, "--chat", locale=locale)
    terminal.expect("fits .*> ")
    plain = tokens("word")
    terminal.type("/clear\r")
    terminal.expect("forgotten.*> ")
    assert tokens("w\u00f6rd \u6f22") == plain + 5  # a token a byte
    terminal.type("\x04")
    assert terminal.end() == 0


def test_an_answer_is_interrupted_and_the_conversation_goes_on(endless):
    terminal = Terminal("run", "-m", endless, "--chat")
    terminal.expect("fits .*> ")
    for _ in range(2):
        terminal.type("Go\r")
        terminal.expect("tick, tock; tick, tock; ")
        terminal.type("\x03")
        terminal.expect(r"\[cancelled; [^]]*\].*> ")
    terminal.type("\x03")  # at the prompt it leaves
    assert terminal.end() == 0


def test_ctrl_c_behind_an_answer_is_the_prompts(speaker):
    for _ in range(5):
        terminal = Terminal("run", "-m", speaker, "--chat")
        terminal.expect("fits .*> ")
        terminal.type("Hi\r")
        terminal.expect(r"\[stop; [^]]*\]")
        terminal.type("\x03")  # the prompt may be there by now, or not yet
        assert terminal.end() == 0


def test_a_message_that_does_not_fit_is_taken_back(speaker):
    terminal = Terminal("run", "-m", speaker, "--chat", "-c", "64")
    terminal.expect("fits .*> ")
    terminal.type("word " * 40 + "\r")
    terminal.expect("growpage: prompt: .*taken back.*> ")
    terminal.type("Hi\r")
    terminal.expect(r"\[(stop|length); [^]]*\].*> ")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_a_conversation_has_no_json(speaker):
    terminal = Terminal("run", "-m", speaker, "--chat", "--json")
    terminal.expect("growpage: --json: ")
    assert terminal.end() == 2


def test_without_a_terminal_there_is_no_conversation(speaker):
    refused(growpage("run", "-m", speaker, "--chat"), 2, "no prompt")


def test_detokenize_ends_its_line_on_a_terminal_only(speaker):
    assert growpage("detokenize", "-m", speaker, "100").stdout.count(b"\n") == 0
    terminal = Terminal("detokenize", "-m", speaker, "100")
    terminal.expect("\n")
    assert terminal.end() == 0


def test_an_evaluation_shows_where_it_stands(endless):
    terminal = Terminal("eval", "-m", endless, "--suite", "sum", "--limit", "1000000", "-n", "100",
                        "-np", "2", "-c", "1024", "--kv", "fixed:512")
    line = terminal.expect(r"fixed:512  [1-9]\d*/1000000  pass@1 +0\.0% +\d+ tok/s +\d+ pages "
                           r"+\d+:\d\d left +0 %")
    assert "\r" in line
    terminal.type("\x03")
    rest = terminal.expect(r"interrupted after \d+ of 1000000 samples")
    assert "\r\033[K" in rest and "policy " in rest  # wiped before the table
    assert terminal.end() == 130
