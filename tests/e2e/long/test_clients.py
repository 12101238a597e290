"""The lines of docs/CLIENTS.md, run as they stand there: curl, llm, LiteLLM, LangChain.  A client
that is not installed is left out."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
from program import ROOT, SLOW
from serving import serving

PAGE = (ROOT / "docs/CLIENTS.md").read_text()
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BIN = os.path.dirname(sys.executable)
PATH = BIN + os.pathsep + os.environ["PATH"]


@pytest.fixture(scope="module")
def server(smollm):
    with serving(smollm, "-c", "2048", "-np", "4") as server:
        yield server


def wanted(kind, text):
    """What a block needs to be there: a program or a module."""
    if kind == "sh":
        return "llm" if "llm -m" in text else "curl"
    return re.search(r"^(?:import|from) (\w+)", text, re.MULTILINE).group(1)


def test_the_page_has_them_all():
    assert [wanted(*block) for block in BLOCKS] == ["curl", "curl", "llm", "litellm",
                                                    "langchain_openai"]


@pytest.mark.parametrize("kind, text", BLOCKS, ids=[f"{i}-{wanted(*block)}"
                                                    for i, block in enumerate(BLOCKS)])
def test_as_written(server, tmp_path, kind, text):
    need = wanted(kind, text)
    if not (shutil.which(need, path=PATH) if kind == "sh" else importlib.util.find_spec(need)):
        pytest.skip(f"{need} is not installed")
    command = [sys.executable, "-c"] if kind == "python" else ["sh", "-ec"]
    text = text.replace("http://127.0.0.1:8080", server.url)
    before = server.metric("vllm:generation_tokens_total")
    result = subprocess.run([*command, text], capture_output=True, text=True, timeout=300 * SLOW,
                            cwd=tmp_path, env={**os.environ, "PATH": PATH, "HOME": str(tmp_path),
                                               "LLM_USER_PATH": str(tmp_path)})
    print(result.stdout)
    assert result.returncode == 0, result.stderr[-3000:]
    assert len(result.stdout.strip()) > 1
    assert server.metric("vllm:generation_tokens_total") > before
    if "stream" in text and kind == "sh":
        assert result.stdout.rstrip().endswith("data: [DONE]")
