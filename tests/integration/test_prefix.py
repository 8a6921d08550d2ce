"""The prefix cache: what was computed before is not computed again, changes no bit, and is told."""

import subprocess

import pytest

from support.build import BUILD
from support.cluster import COMPLETIONS, Cluster
from support.local import local_answers
from support.local import token_ids as ids

BLOCK = 64


# (request, its tokens that a prefill node has computed before), in the order of sending.
PROMPTS = [(ids(700), 0), (ids(700), 640), (ids(640) + ids(100, 2), 640), (ids(640), 576),
           (ids(130) + ids(60, 3), 128), (ids(30), 0), (ids(30), 0), (ids(63), 0), (ids(65), 64)]
# Tokens of them that the decode node holds: all whole blocks, for it computes none of them.
HELD = [0, 640, 640, 640, 128, 0, 0, 0, 64]
LAYERS, UNIT, UNIT_BYTES = 30, 16, 16 * 3 * 64 * 2


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return local_answers(tmp_path_factory.mktemp("local"), [prompt for prompt, _ in PROMPTS])


def units_of(tokens: int) -> int:
    return 2 * LAYERS * -(-tokens // UNIT)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("prefix")) as running:
        yield running


def test_MET08_MET09_hits_are_exact_told_and_change_no_bit(cluster, reference):
    node = cluster.prefill[0]
    before = node.metrics()
    for (prompt, cached), expected in zip(PROMPTS, reference, strict=True):
        out = cluster.complete(prompt, max_tokens=8, ignore_eos=True)
        assert out.usage["prompt_tokens"] == len(prompt)
        assert out.usage["prompt_tokens_details"] == {"cached_tokens": cached}
        assert out.trace["prefill"]["cached_tokens"] == cached
        assert out.trace["token_ids"] == expected["token_ids"]
        assert out.trace["logits_digests"] == expected["logits_digests"]
    after = node.metrics()

    def grown(name: str, **labels) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    asked = sum(len(prompt) for prompt, _ in PROMPTS)
    hits = sum(cached for _, cached in PROMPTS)
    assert grown("baton_prefix_cache_query_tokens_total") == asked
    assert grown("baton_prefix_cache_hit_tokens_total") == hits
    assert grown("baton_forward_rows_total", phase="prefill") == asked - hits
    cluster.wait_baseline()
    assert node.metrics().value("baton_cache_prefix_blocks", group="0") > 0


def test_PFX01_what_the_decode_node_holds_is_not_sent_and_changes_no_bit(tmp_path, reference):
    with Cluster(tmp_path) as cluster:
        for (prompt, _), held, expected in zip(PROMPTS, HELD, reference, strict=True):
            out = cluster.complete(prompt, max_tokens=8, ignore_eos=True)
            handoff = out.trace["handoff"]
            assert handoff["held_units"] == units_of(held)
            assert handoff["units"] == units_of(len(prompt)) - units_of(held)
            assert handoff["bytes"] == handoff["units"] * UNIT_BYTES
            assert out.trace["decode"]["prompt_rows"] == 0
            assert out.trace["attempts"] == 1
            assert out.trace["token_ids"] == expected["token_ids"]
            assert out.trace["logits_digests"] == expected["logits_digests"]
        node, router = cluster.decode[0].metrics(), cluster.router.metrics()
        sent = sum(units_of(len(prompt)) for prompt, _ in PROMPTS) - units_of(sum(HELD))
        assert node.value("baton_handoff_bytes_total", direction="received") == sent * UNIT_BYTES
        assert node.value("baton_prefix_cache_hit_tokens_total") == sum(HELD)
        assert router.value("baton_handoff_held_units_total") == units_of(sum(HELD))
        cluster.wait_baseline()


def test_the_next_turn_holds_what_the_decode_node_generated(tmp_path):
    with Cluster(tmp_path) as cluster:
        first = cluster.complete(ids(100, 5), max_tokens=60, ignore_eos=True)
        prompt = ids(100, 5) + first.trace["token_ids"] + ids(10, 6)
        out = cluster.complete(prompt, max_tokens=8, ignore_eos=True)
        assert out.trace["handoff"]["held_units"] == units_of(128)
        (expected,) = local_answers(tmp_path, [prompt])
        assert out.trace["logits_digests"] == expected["logits_digests"]
        assert out.trace["attempts"] == 1
        cluster.wait_baseline()


def test_a_stream_reports_its_hit_in_usage(cluster):
    body = {"prompt": ids(200, 9), "max_tokens": 4, "stream_options": {"include_usage": True}}
    for cached in (0, 192):
        with cluster.stream(COMPLETIONS, body) as stream:
            usage = [event["usage"] for event in stream if event != "[DONE]" and event["usage"]]
        assert [each["prompt_tokens_details"]["cached_tokens"] for each in usage] == [cached]


def test_a_small_pool_evicts_and_stays_right(tmp_path, reference):
    with Cluster(tmp_path, prefill_options={"cache_tokens": 12 * BLOCK}) as small:
        for _ in range(2):
            for (prompt, _), expected in zip(PROMPTS, reference, strict=True):
                out = small.complete(prompt, max_tokens=8, ignore_eos=True)
                assert out.trace["logits_digests"] == expected["logits_digests"]
        small.wait_baseline()


def test_switched_off_nothing_is_kept(tmp_path):
    with Cluster(tmp_path, worker_options={"no_prefix_cache": True}) as cluster:
        for _ in range(2):
            out = cluster.complete(ids(200), max_tokens=2)
            assert out.usage["prompt_tokens_details"] == {"cached_tokens": 0}
        for node in cluster.workers:
            assert node.metrics().value("baton_cache_prefix_blocks", group="0") == 0


def test_a_secret_that_is_none_stops_the_router(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("short\n")
    for path in (secret, tmp_path / "missing"):
        done = subprocess.run(
            [BUILD / "bin/baton-router", "--prefill", "127.0.0.1:1", "--decode", "127.0.0.1:2",
             "--listen", "127.0.0.1:0", "--prefix-secret-file", path],
            capture_output=True, text=True, timeout=20)
        assert done.returncode == 78
        assert "prefix_secret_file" in done.stdout + done.stderr
