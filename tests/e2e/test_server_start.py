"""What a server is started with: the environment, TLS, policies that requests may bring."""

import http.client
import json
import socket
import ssl
import subprocess
import time

import pytest
from program import SLOW, growpage, refused
from serving import Server, serving


# ---- the environment ----

@pytest.fixture
def environ(monkeypatch):
    def set_all(**variables):
        for name, value in variables.items():
            monkeypatch.setenv("GROWPAGE_ARG_" + name, value)
    return set_all


def test_options_from_the_environment(tiny, environ):
    environ(CTX_SIZE="384", MAX_SEQS="3", KV="fixed:128", PAGE_SIZE="32", ALIAS="from-outside",
            NO_ACCESS_LOG="1", API_KEY="sesame", STRICT_MODEL="off", KV_PAGES="40",
            CHAT_TEMPLATE_KWARGS='{"a":1}')
    with serving(tiny, "--kv-pages", "20", "-np", "2") as server:
        ask = {"headers": {"X-Api-Key": "sesame"}}
        model = server.get("/v1/models", **ask)["data"][0]
        assert (model["id"], model["max_model_len"]) == ("from-outside", 384)
        assert server.get("/props", **ask)["total_slots"] == 2
        assert server.get("/v1/kv", **ask)["pool"]["pages"] == 20
        server.get("/v1/models", 401)
        server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "model": "any"}, **ask)
        assert server.stop() == 0 and not any("GET" in line for line in server.lines if line)


@pytest.mark.parametrize("name, value, words", [
    ("PORT", "tcp://10.0.0.1:80", ["GROWPAGE_ARG_PORT", "not a whole number"]),
    ("PROT", "1", ["GROWPAGE_ARG_PROT", "no such option"]),
    ("N_GEN", "1", ["GROWPAGE_ARG_N_GEN", "no such option"]),
    ("STRICT_MODEL", "maybe", ["GROWPAGE_ARG_STRICT_MODEL"]),
    ("KV", "none", ["GROWPAGE_ARG_KV"]),
    ("X" * 300, "1", ["GROWPAGE_ARG_XXX", "no such option"])])
def test_a_wrong_variable_is_named(tiny, name, value, words):
    env = {"GROWPAGE_ARG_" + name: value}
    refused(growpage("serve", "-m", tiny, "--port", "0", env=env), 2, *words)
    assert growpage("tokenize", "-m", tiny, "-p", "x", env=env).returncode == 0


# ---- TLS ----

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key,
                    "-out", cert], check=True, capture_output=True)
    return str(cert), str(key)


@pytest.fixture(scope="module")
def secure(endless, certificate):
    server = Server(endless, "-np", "2", "-c", "200000", "--kv-pages", "64", "--kv", "fixed:512",
                    "--tls-cert", certificate[0], "--tls-key", certificate[1])
    yield server
    server.process.terminate()
    server.stop()


def connect(server, certificate):
    context = ssl.create_default_context(cafile=certificate[0])
    return http.client.HTTPSConnection("localhost", server.port, context=context,
                                       timeout=30 * SLOW)


def ask(server, certificate, method, path, body=None):
    connection = connect(server, certificate)
    connection.request(method, path, json.dumps(body) if body else None)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def test_https_answers_and_streams(secure, certificate):
    assert secure.url.startswith("https://127.0.0.1:")
    assert ask(secure, certificate, "GET", "/health") == (200, b'{"status":"ok"}')
    body = {"prompt": "x", "max_tokens": 50, "temperature": 0}
    status, data = ask(secure, certificate, "POST", "/v1/completions", body)
    whole = json.loads(data)["choices"][0]["text"]
    status, data = ask(secure, certificate, "POST", "/v1/completions", {**body, "stream": True})
    frames = [json.loads(f[6:]) for f in data.decode().split("\n\n")[:-2]]
    assert status == 200 and "".join(f["choices"][0]["text"] for f in frames) == whole
    big = {"prompt": "x" * 300000, "max_tokens": 1}  # many records
    assert ask(secure, certificate, "POST", "/v1/completions", big)[0] == 400


def running(server, certificate):
    return json.loads(ask(server, certificate, "GET", "/v1/kv")[1])["running"]


def test_b43_a_client_leaves_a_secure_stream(secure, certificate):
    connection = connect(secure, certificate)
    connection.request("POST", "/v1/completions", json.dumps(
        {"prompt": "x", "max_tokens": 100000, "ignore_eos": True, "stream": True}))
    assert connection.getresponse().read(100)
    assert running(secure, certificate) == 1
    connection.sock.close() if connection.sock else None
    connection.close()
    deadline = time.monotonic() + 5 * SLOW
    while running(secure, certificate):
        assert time.monotonic() < deadline


def test_what_is_no_tls_is_cut(secure, certificate):
    with socket.create_connection(("127.0.0.1", secure.port), timeout=15 * SLOW) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in s.recv(4096)
    assert ask(secure, certificate, "GET", "/health")[0] == 200


def test_bad_certificates(tiny, certificate, tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate\n")
    cert, key = certificate
    refused(growpage("serve", "-m", tiny, "--port", "0", "--tls-cert", cert), 2, "--tls-cert")
    refused(growpage("serve", "-m", tiny, "--port", "0", "--tls-cert", cert, "--tls-key",
                     "/nonexistent"), 1, "/nonexistent")
    result = growpage("serve", "-m", tiny, "--port", "0", "--tls-cert", bad, "--tls-key", key)
    assert result.returncode == 1 and "PEM" in result.err.splitlines()[-1]


# ---- policies ----

def test_policies_with_a_scorer_may_be_brought(tiny):
    body = {"prompt": "x", "max_tokens": 60, "ignore_eos": True}
    common = ("-c", "512", "-np", "2", "--page-size", "16", "--kv-pages", "64", "--kv-protect", "4")
    with serving(tiny, *common, "--kv-also", "rkv:48,h2o:48") as server:
        for policy in ("rkv:48", "h2o:48", "growpage", "full"):
            kv = server.complete(**{**body, "kv": {"policy": policy, "stats": True}})
            kv = kv["choices"][0]["kv"]
            assert kv["policy"] == policy and (policy == "full" or kv["pages_peak"] <= 5)
    with serving(tiny, *common) as server:
        server.refuse("/v1/completions", {**body, "kv": {"policy": "h2o:48"}}, words=["h2o:48"])
    for value in ("nonsense", "rkv:48,,", "x" * 100):
        refused(growpage("serve", "-m", tiny, "--port", "0", "--kv-also", value), 2, "--kv-also")
