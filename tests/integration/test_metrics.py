"""What the processes export: well-formed, complete from the start, and equal to what a client
measures."""

import statistics
import subprocess
import time

import pytest

from support import queries
from support.cluster import COMPLETIONS, Cluster
from support.http_api import collect
from support.process import wait_until

PHASES = queries.PHASES


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A cluster that has answered nothing."""
    with Cluster(tmp_path_factory.mktemp("fresh")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("metrics")) as running:
        yield running


def prompt_of(length: int, number: int = 0) -> list[int]:
    return [1 + (number * 977 + i * 7919) % 49000 for i in range(length)]


def difference(before, after, name: str, **labels) -> float:
    return after.total(name, **labels) - before.total(name, **labels)


def test_promtool_finds_nothing_wrong(fresh):
    for process in fresh.processes:
        text = process.metrics().text
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                              capture_output=True)
        assert done.returncode == 0 and not done.stderr, (process.node, done.stderr)


def test_zeros_are_exported_before_anything_happened_K8S14(fresh):
    router, prefill, decode = (node.metrics() for node in
                               (fresh.router, fresh.prefill[0], fresh.decode[0]))
    for metrics in (router, prefill, decode):
        for gauge in ("baton_queue_depth", "baton_running_requests", "baton_handoffs_in_flight"):
            assert metrics.value(gauge) == 0
        assert metrics.value("baton_handoff_failures_total", reason="digest_mismatch") == 0
    assert prefill.value("baton_prefill_backlog_seconds") == 0
    assert decode.total("baton_cache_usage_ratio") == 0
    for outcome in ("stop", "length", "error", "refused", "cancelled"):
        assert router.value("baton_requests_total", outcome=outcome) == 0
    for phase in PHASES:
        assert router.value("baton_request_phase_seconds_count", phase=phase) == 0


def test_every_metric_of_the_board_is_exported_with_its_labels(fresh):
    exported = {}
    for process in fresh.processes:
        for name, labels in process.metrics().samples:
            exported.setdefault(name, set()).update(dict(labels))
    for name, (kind, own) in queries.METRICS.items():
        series = name + "_bucket" if kind == "histogram" else name
        assert series in exported, name
        assert exported[series] - {"le"} <= own, name


def test_every_process_says_its_version(fresh):
    versions = [node.metrics().by("baton_build_info", "version") for node in fresh.processes]
    assert len(versions[0]) == 1 and versions == [versions[0]] * 3
    assert set(versions[0].values()) == {1.0}


def test_prompt_rows_are_counted_where_they_are_computed_MET01(cluster):
    before = {node.node: node.metrics() for node in cluster.workers}
    cluster.complete(prompt_of(100), max_tokens=5, ignore_eos=True)
    sources = {(node.program, source): difference(before[node.node], node.metrics(),
                                                  "baton_prompt_tokens_total", source=source)
               for node in cluster.workers for source in ("computed", "cached", "received")}
    assert sources == {
        ("baton-prefill", "computed"): 100, ("baton-prefill", "cached"): 0,
        ("baton-prefill", "received"): 0, ("baton-decode", "computed"): 0,
        ("baton-decode", "cached"): 0, ("baton-decode", "received"): 100}
    rows = {(node.program, phase): difference(before[node.node], node.metrics(),
                                              "baton_forward_rows_total", phase=phase)
            for node in cluster.workers for phase in ("prefill", "decode")}
    assert rows == {("baton-prefill", "prefill"): 100, ("baton-prefill", "decode"): 0,
                    ("baton-decode", "prefill"): 0, ("baton-decode", "decode"): 4}


def test_only_the_router_exports_what_a_user_waits_for_MET02(cluster):
    before = cluster.router.metrics()
    with cluster.stream(COMPLETIONS, {"prompt": "Once", "max_tokens": 3}) as stream:
        assert collect(stream).finished
    name = "baton_time_to_first_token_seconds_count"
    assert difference(before, cluster.router.metrics(), name) == 1
    for worker in cluster.workers:
        assert name not in {each for each, _ in worker.metrics().samples}


def test_buckets_reach_from_a_millisecond_to_the_longest_request_MET03_MET04(cluster):
    edges = {}
    for name, labels in cluster.router.metrics().samples:
        if name.endswith("_seconds_bucket") and dict(labels)["le"] != "+Inf":
            edges.setdefault(name, []).append(float(dict(labels)["le"]))
    ttft = edges["baton_time_to_first_token_seconds_bucket"]
    assert min(ttft) <= 0.001 and max(ttft) >= 600, "a request may take ten minutes"
    assert min(edges["baton_inter_token_latency_seconds_bucket"]) <= 0.001
    assert max(edges["baton_request_phase_seconds_bucket"]) >= 600


def test_times_are_those_that_a_client_measures_MET05(cluster):
    """But for the way between them, which the median of many requests knows."""
    names = ("baton_time_to_first_token_seconds_sum", "baton_inter_token_latency_seconds_sum")
    off = {name: [] for name in names}
    for number in range(20):
        before = cluster.router.metrics()
        times = [time.monotonic()]
        body = {"prompt": prompt_of(60, number), "max_tokens": 12, "ignore_eos": True,
                "temperature": 0}
        with cluster.stream(COMPLETIONS, body) as stream:
            outcome = collect(stream, lambda _: times.append(time.monotonic()))
        assert outcome.finished
        after = cluster.router.metrics()
        for name, measured in zip(names, (times[1] - times[0], times[-2] - times[1])):
            off[name].append((measured - difference(before, after, name)) / max(measured, 0.2))
    for name in names:
        assert abs(statistics.median(off[name])) <= 0.1, off


def test_what_is_said_to_come_from_the_cache_was_not_computed_MET08(cluster):
    node = cluster.prefill[0]
    for stream in (False, True):
        for _ in range(2):
            body = {"prompt": prompt_of(160), "max_tokens": 2, "stream": stream}
            before = node.metrics().value("baton_forward_rows_total", phase="prefill")
            if stream:
                with cluster.stream(COMPLETIONS, {**body, "stream_options": {
                        "include_usage": True}}) as events:
                    usage = collect(events).usage
            else:
                usage = cluster.post(COMPLETIONS, body).json()["usage"]
            rows = node.metrics().value("baton_forward_rows_total", phase="prefill") - before
            assert usage["prompt_tokens"] == 160
            assert usage["prompt_tokens_details"]["cached_tokens"] == 160 - rows


def test_bytes_are_counted_on_both_sides_and_by_the_router(cluster):
    (prefill,), (decode,) = cluster.prefill, cluster.decode
    before = [node.metrics() for node in (prefill, decode, cluster.router)]
    bytes_moved = cluster.complete(prompt_of(77), max_tokens=2).trace["handoff"]["bytes"]
    name = "baton_handoff_bytes_total"
    # The end of the last send may come to its sender after the client's answer.
    wait_until(lambda: difference(before[0], prefill.metrics(), name, direction="sent")
               >= bytes_moved, "the bytes are counted")
    after = [node.metrics() for node in (prefill, decode, cluster.router)]
    assert difference(before[0], after[0], name, direction="sent") == bytes_moved
    assert difference(before[1], after[1], name, direction="received") == bytes_moved
    assert difference(before[2], after[2], name) == bytes_moved


def test_outcomes_are_counted_once_a_request(cluster):
    before = cluster.router.metrics()
    cluster.complete("x", max_tokens=2, ignore_eos=True)
    cluster.complete("x", max_tokens=2, logit_bias={"2": 100})
    cluster.complete("x", max_tokens=0)
    with cluster.stream(COMPLETIONS, {"prompt": "x", "max_tokens": 500,
                                      "ignore_eos": True}) as stream:
        next(iter(stream))
        stream.abort()
    wanted = {"length": 1, "stop": 1, "refused": 1, "cancelled": 1, "error": 0}

    def counted() -> dict:
        after = cluster.router.metrics()
        return {outcome: difference(before, after, "baton_requests_total", outcome=outcome)
                for outcome in wanted}

    # The client's end is seen last.
    wait_until(lambda: counted()["cancelled"] >= 1, "the cancelled one is counted")
    assert counted() == wanted
