"""docs/openapi.yaml against a running server: schemathesis makes requests that it allows and ones
that it forbids, and holds every answer to it.

GP_CASES is how many requests of each operation are made (default 20; times 22 operations and the
tool's own systematic ones).
"""

import os
import subprocess
import sys

import pytest
from program import ROOT, SLOW
from serving import serving

pytest.importorskip("schemathesis")

CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_headers_conformance,response_schema_conformance,negative_data_rejection")


def test_every_answer_is_as_described(tiny, tmp_path):
    with serving(tiny, "-np", "16", "-c", "96", "--page-size", "16", "--kv-pages", "256",
                 "--kv-protect", "4", "--no-access-log", "--max-waiting", "4096") as server:
        result = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", str(ROOT / "docs/openapi.yaml"),
             "--url", server.url, "--checks", CHECKS, "--max-examples",
             os.environ.get("GP_CASES", "20"), "--exclude-path", "/v1/kv/events",
             "--continue-on-failure", "--seed", os.environ.get("GP_SEED", "1"), "--no-color",
             "--suppress-health-check", "all", "--request-timeout", str(20 * SLOW)],
            cwd=tmp_path, capture_output=True, text=True)
        print(result.stdout[-20000:])
        assert result.returncode == 0, result.stderr[-2000:]
        server.wait_idle()
        server.lives()
        assert server.stop() == 0
