"""Which processors a process runs on, and what it takes of the machine's memory."""

import json
import os
import re
import subprocess

import pytest

from support.build import BUILD, PATIENCE_S
from support.cluster import Cluster, default_model
from support.process import Process, wait_until

ALLOWED = sorted(os.sched_getaffinity(0))
KERNEL = {"baton-engine", "baton-kernel"}
BATON = str(BUILD / "bin/baton")


def list_of(processors) -> str:
    return ",".join(map(str, processors))


def affinities(pid: int) -> list[tuple[str, set[int]]]:
    """(name, processors) of each thread."""
    out = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
                fields = dict(line.split(":\t", 1) for line in file.read().splitlines())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        ends = [part.split("-") for part in fields["Cpus_allowed_list"].split(",")]
        mask = {cpu for end in ends for cpu in range(int(end[0]), int(end[-1]) + 1)}
        out.append((fields["Name"], mask))
    return out


@pytest.fixture(name="decode_node")
def start_decode_node(tmp_path):
    """Starts one with these options and ends it."""
    started = []

    def start(**options) -> Process:
        options = {"model": default_model(), "cache_tokens": 1024, **options}
        node = Process("baton-decode", f"d{len(started)}", tmp_path, options)
        started.append(node)
        node.start().wait_ready()
        # The kernel threads are pinned before the node is ready, the engine's as it begins.
        wait_until(lambda: any(name == "baton-engine" for name, _ in affinities(node.pid)),
                   "the engine thread has its name")
        return node

    yield start
    for node in started:
        node.kill()


def kernel_threads(node: Process) -> list[set[int]]:
    return [mask for name, mask in affinities(node.pid) if name in KERNEL]


def test_each_kernel_thread_has_a_processor_of_its_own(decode_node):
    node = decode_node(cpus=list_of(ALLOWED), threads=len(ALLOWED))
    wait_until(lambda: all(len(mask) == 1 for mask in kernel_threads(node)), "they are pinned")
    pinned = kernel_threads(node)
    assert sorted(cpu for mask in pinned for cpu in mask) == ALLOWED
    log = node.log.read_text()
    assert re.search(r"kernel threads? pinned to .*: \d+ cores? in processors", log), log
    assert re.search(r"memory: .*, in huge pages so far \d+ MiB", log), log


def test_no_thread_leaves_the_list(decode_node):
    node = decode_node(cpus=ALLOWED[-1])
    assert {name for name, mask in affinities(node.pid) if mask != {ALLOWED[-1]}} == set()
    assert len(affinities(node.pid)) > 2


def test_without_a_list_the_system_places_the_threads(decode_node):
    node = decode_node(threads=len(ALLOWED))
    assert all(mask == set(ALLOWED) for _, mask in affinities(node.pid))
    assert len(kernel_threads(node)) == len(ALLOWED)
    assert "not pinned" in node.log.read_text()


def children_of(pid: int) -> dict[str, int]:
    """Program -> pid."""
    out = {}
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        for child in file.read().split():
            out[os.path.basename(os.readlink(f"/proc/{child}/exe"))] = int(child)
    return out


@pytest.mark.skipif(len(ALLOWED) < 2, reason="one processor cannot be shared")
def test_up_gives_each_node_processors_of_its_own():
    command = [BATON, "up", "--model", str(default_model()), "--cache-tokens", "2048",
               "--max-tokens", "4", "--cpus", list_of(ALLOWED)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as up:
        try:
            shown = ""
            while "Ctrl-C stops everything" not in shown:
                line = up.stdout.readline()
                assert line, shown
                shown += line
            nodes = children_of(up.pid)
            parts = [set().union(*(mask for _, mask in affinities(nodes[program])))
                     for program in ("baton-prefill", "baton-decode")]
        finally:
            up.terminate()
            up.communicate(timeout=PATIENCE_S)
    assert parts[0] and parts[1] and not parts[0] & parts[1]
    assert parts[0] | parts[1] <= set(ALLOWED)
    assert re.search(r"processors +decode-1 on \S+ prefill-1 on \S+", shown), shown


def test_a_list_that_is_none_is_an_error_of_usage():
    done = subprocess.run([BATON, "up", "--cpus", "1,,2"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 64 and '"1,,2"' in done.stderr, done.stderr
    done = subprocess.run([BATON, "up", "--model", str(default_model()), "--cpus", "1023"],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 78 and "cpus: 1023" in done.stderr, done.stderr


def digests(*options) -> list:
    command = [BATON, "complete", "--local", "--json", "--logits-digest", "--temperature", "0",
               "--max-tokens", "8", "--model", str(default_model()), *options,
               "The five boxing wizards jump quickly. " * 20]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    answer = json.loads(done.stdout)
    assert len(answer["logits_digests"]) == 8
    return [answer["token_ids"], answer["logits_digests"]]


def test_the_bits_do_not_depend_on_threads_and_processors():
    one = digests("--threads", "1")
    for options in (["--threads", "2"], ["--threads", "5"], ["--cpus", list_of(ALLOWED)],
                    ["--cpus", str(ALLOWED[0])]):
        assert digests(*options) == one, options


def test_the_share_of_memory_is_exported_and_shown(tmp_path):
    with Cluster(tmp_path, worker_options={"cache_tokens": 1024}) as cluster:
        for node in cluster.processes:
            assert node.metrics().value("baton_memory_proportional_bytes") > 1e6
        # Both map one file of packed weights: neither share holds all of it.
        with open(f"/proc/{cluster.decode[0].pid}/smaps_rollup", encoding="utf-8") as file:
            resident = int(re.search(r"Rss: +(\d+)", file.read())[1]) * 1024
        assert cluster.decode[0].metrics().value("baton_memory_proportional_bytes") < resident
        status = subprocess.run([BATON, "status", "--url", "http://" + cluster.router.admin],
                                capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert re.search(r"^decode .* free +\d+\.\d MB ", status.stdout, re.MULTILINE), status.stdout
