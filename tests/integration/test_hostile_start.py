"""What a worker is started with: one clear line and the right exit code, never a crash."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from support.cluster import Cluster, default_model
from support.build import BUILD, PATIENCE_S
from support.gguf_file import edited, number_value

CONFIG = 78  # EX_CONFIG
GROUP = Path("/sys/fs/cgroup/memory")


def start(*options, program: str = "baton-decode", environment=None, before=None):
    return subprocess.run([str(BUILD / "bin" / program), *map(str, options)], timeout=PATIENCE_S,
                          capture_output=True, text=True, check=False, preexec_fn=before,
                          env={**os.environ, **(environment or {})})


def refused(run, *words: str) -> None:
    lines = (run.stdout + run.stderr).strip().splitlines()
    assert run.returncode == CONFIG, (run.returncode, lines[-5:])
    assert "terminate" not in run.stderr
    for word in words:
        assert word in lines[-1], lines[-1]


def test_files_that_are_no_model_are_refused_in_one_line(tmp_path):
    model = default_model()
    whole = model.stat().st_size
    for size in (0, 3, 24, 100_000, 5_000_000, whole - 1):
        path = tmp_path / f"cut-{size}.gguf"
        shutil.copyfile(model, path)
        os.truncate(path, size)
        refused(start("--model", path), path.name)
        path.unlink()
    path = tmp_path / "noise.gguf"
    path.write_bytes(b"GGUF" + os.urandom(100_000))
    refused(start("--model", path), path.name)
    refused(start("--model", tmp_path / "missing.gguf"), "missing.gguf")
    refused(start("--model", tmp_path), "not a regular file")
    refused(start("--model", "/dev/zero"), "not a regular file")


def test_options_that_cannot_be_met_are_refused_by_name(tmp_path):
    model = default_model()
    refused(start(), "model")
    refused(start("--model", model, "--cache-tokens", 1_000_000_000), "cache_tokens")
    refused(start("--model", model, "--threads", 9999), "threads")
    refused(start("--model", model, "--cpus", "3-1"), "cpus", "3-1")
    refused(start("--model", model, "--cpus", "1023"), "cpus", "1023", "may use")
    cpu = min(os.sched_getaffinity(0))
    refused(start("--model", model, "--cpus", cpu, "--threads", 2), "threads", "do not fit")
    refused(start("--model", model, "--kernels", "none"), "kernels")
    refused(start("--model", model, "--context-length", 1_000_000), "context length")
    refused(start("--model", model, "--transports", "smoke"), "transport")
    refused(start("--model", model, "--transports", ""), "transports")
    refused(start("--model", model, "--announce", tmp_path / "none/x"), "announce")
    refused(start("--model", model, "--control-listen", "0.0.0.0:0"), "trusted_network")


def test_heads_that_a_cache_of_q8_0_cannot_hold_are_refused_with_the_way_out(tmp_path):
    def twelve_heads(name, value):
        if name == "llama.rope.dimension_count":
            return None
        return number_value(12) if name == "llama.attention.head_count" else value
    model = edited(default_model(), tmp_path / "heads-of-48.gguf", twelve_heads)
    refused(start("--model", model, "--cache-dtype", "q8_0"), "cache_dtype", "multiple of 32",
            "48", "bf16 or f32")
    refused(start("--model", model, "--cache-dtype", "q4_0"), "cache_dtype", "q8_0")


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for option in ("--control-listen", "--admin-listen", "--data-listen"):
            refused(start("--model", default_model(), "--cache-tokens", 256, option, address),
                    address, "in use")
        refused(start("--prefill", "127.0.0.1:1", "--decode", "127.0.0.1:2", "--listen", address,
                      program="baton-router"), address, "in use")


def test_configuration_files_of_any_kind_are_refused_in_words(tmp_path):
    bad = {"syntax": "decode: [1,2", "key": "decode:\n  modle: x\n",
           "deep": "decode: " + "[" * 50_000, "type": "decode:\n  threads: many\n",
           "bomb": "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\ndecode: {model: *b}\n"}
    for name, text in bad.items():
        path = tmp_path / f"{name}.yml"
        path.write_text(text)
        refused(start("--config", path))
    refused(start("--config", tmp_path), str(tmp_path))
    refused(start("--config", tmp_path / "missing.yml"), "missing.yml")


@pytest.mark.skipif(not os.access(GROUP, os.W_OK), reason="no writable memory controller (v1)")
def test_a_memory_limit_below_the_need_is_said_before_the_kernel_acts():
    group = GROUP / f"baton-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        (group / "memory.limit_in_bytes").write_text("64M")
        refused(start("--model", default_model(),
                      before=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))),
                "the limit is 64 MiB")
    finally:
        group.rmdir()


def test_a_full_disk_costs_the_packed_weights_and_nothing_else(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", cache], check=False,
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted: {mounted.stderr.strip()}")
    try:
        with Cluster(tmp_path, environment={"BATON_CACHE": str(cache)}) as cluster:
            out = cluster.complete("The capital of France is", max_tokens=8)
            assert "Paris" in out.text
            cluster.wait_baseline()
        left = [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size > 4096]
        assert not left, "half of a packed file was left behind"
    finally:
        subprocess.run(["umount", cache], check=True)
