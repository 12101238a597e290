"""make install, and a program built against what it installed."""

import os
import re
import subprocess

import pytest
from program import BUILD, ROOT, SANITIZED


def run(*args, **kwargs):
    result = subprocess.run([os.fspath(arg) for arg in args], capture_output=True, text=True,
                            **kwargs)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if SANITIZED:
        pytest.skip("skipped: a sanitized library is not what is installed")
    target = tmp_path_factory.mktemp("install")
    compiler, _, config = BUILD.name.partition("-")
    known = compiler in ("gcc", "clang") and config
    names = [f"CC={compiler}", f"CONFIG={config}"] if known else [f"B={BUILD}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    run("make", "-s", "install", f"DESTDIR={target}", "PREFIX=/opt/gp", *names, cwd=ROOT, env=env)
    return target


def pkg_config(installed, *args):
    env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(installed),
           "PKG_CONFIG_PATH": f"{installed}/opt/gp/lib/pkgconfig"}
    return run("pkg-config", *args, "growpage", env=env).split()


def test_everything_is_there(installed):
    root = installed / "opt/gp"
    for name in ("bin/growpage", "lib/libgrowpage.a", "lib/libgrowpage.so", "lib/libgrowpage.so.0",
                 "include/growpage.h", "share/man/man1/growpage.1", "lib/pkgconfig/growpage.pc",
                 "share/growpage/growpage-reasoner.gguf"):
        assert (root / name).exists(), name
    version = (ROOT / "VERSION").read_text().strip()
    assert run(root / "bin/growpage", "--version") == f"growpage {version}\n"
    assert pkg_config(installed, "--modversion") == [version]


@pytest.mark.parametrize("form", ["shared", "static"])
def test_the_example_runs_against_it(form, installed, smollm, tmp_path):
    flags = pkg_config(installed, "--cflags", "--libs", *(["--static"] if form == "static" else []))
    if form == "static":
        flags = [f"{installed}/opt/gp/lib/libgrowpage.a" if f == "-lgrowpage" else f for f in flags]
    # Only public headers are on the path, and they are clean C under strict warnings.
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", ROOT / "examples/simple.c",
        *flags, "-o", tmp_path / "simple")
    out = run(tmp_path / "simple", smollm, env={"LD_LIBRARY_PATH": f"{installed}/opt/gp/lib"})
    assert len(out) > 50 and re.search(r"\[(stop|length) after \d+ tokens, 1 pages\]\n$", out)
    failed = subprocess.run([tmp_path / "simple", "/nonexistent"], capture_output=True, text=True,
                            env={"LD_LIBRARY_PATH": f"{installed}/opt/gp/lib"})
    assert failed.returncode == 1 and "simple: /nonexistent: No such file" in failed.stderr


def test_headers_stand_alone_in_c_and_cplusplus(installed, tmp_path):
    include = f"-I{installed}/opt/gp/include"
    for name in ("growpage.h", "growpage_options.h", "growpage_status.h"):
        for compiler, suffix in (("cc", "c"), ("c++", "cc")):
            source = tmp_path / f"one.{suffix}"
            source.write_text(f"#include <{name}>\n")
            if subprocess.run(["which", compiler], capture_output=True).returncode == 0:
                run(compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", include, source)


def test_the_library_exports_its_interface_and_nothing_else(installed):
    symbols = run("nm", "-D", "--defined-only", installed / "opt/gp/lib/libgrowpage.so")
    exported = {line.split()[-1] for line in symbols.splitlines()}
    header = (installed / "opt/gp/include/growpage.h").read_text()
    declared = set(re.findall(r"GP_API [^;(]*?\b(gp_\w+)\(", header))
    assert declared and exported == declared


def test_the_man_page_is_clean(installed):
    page = installed / "opt/gp/share/man/man1/growpage.1"
    if subprocess.run(["which", "groff"], capture_output=True).returncode:
        pytest.skip("skipped: no groff here")
    warnings = subprocess.run(["groff", "-ww", "-man", "-Tutf8", page], capture_output=True)
    assert warnings.stderr == b""


def test_the_man_page_names_every_option(installed):
    page = (installed / "opt/gp/share/man/man1/growpage.1").read_text().replace("\\-", "-")
    for command in ("run", "inspect", "tokenize", "detokenize", "perplexity"):
        text = run(installed / "opt/gp/bin/growpage", command, "--help")
        for option in set(re.findall(r"--[a-z][a-z-]+", text)) - {"--help", "--version"}:
            assert option in page, (command, option)
