"""Prompts that a decode node computes itself: nothing crosses, no prefill node is asked, and the
bits are the same."""

import concurrent.futures

import pytest

from support.build import PATIENCE_S
from support.cluster import COMPLETIONS, Cluster, completion
from support.http_api import collect
from support.local import local_answers
from support.local import token_ids as ids

EVERYTHING = {"prefill_suffix_tokens": 100_000}


PROMPTS = [ids(length, length) for length in (1, 2, 15, 16, 17, 63, 64, 65, 130, 700)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return local_answers(tmp_path_factory.mktemp("local"), PROMPTS)


def prefill_rows(node) -> float:
    return node.metrics().value("baton_forward_rows_total", phase="prefill")


def test_a_lone_decode_node_serves_everything(tmp_path, reference):
    with Cluster(tmp_path, prefill=0, decode_options=EVERYTHING) as cluster:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(
                lambda prompt: cluster.complete(prompt, max_tokens=8, ignore_eos=True), PROMPTS))
        for prompt, out, expected in zip(PROMPTS, answers, reference, strict=True):
            assert out.trace["token_ids"] == expected["token_ids"]
            assert out.trace["logits_digests"] == expected["logits_digests"]
            assert out.trace["attempts"] == 1
            assert out.trace["handoff"]["units"] == 0
            decode = out.trace["decode"]
            assert decode["prompt_rows"] == len(prompt)
            assert (decode["cache_before"], decode["cache_after"]) == (len(prompt),
                                                                       len(prompt) + 1)
            assert out.trace["prefill"] == {"node": decode["node"], "cached_tokens": 0}
        one = cluster.complete(ids(40, 9), max_tokens=1, ignore_eos=True)
        assert one.finish == "length" and len(one.trace["token_ids"]) == 1
        again = cluster.complete(PROMPTS[-1], max_tokens=8, ignore_eos=True)
        assert again.usage["prompt_tokens_details"] == {"cached_tokens": 640}
        assert again.trace["decode"]["prompt_rows"] == 60
        assert again.trace["logits_digests"] == reference[-1]["logits_digests"]
        cluster.wait_baseline_by_itself()


def test_short_prompts_and_next_turns_never_reach_the_prefill_node(tmp_path):
    options = {"decode_options": {"prefill_suffix_tokens": 64}}
    with Cluster(tmp_path, **options) as cluster:
        prefill, decode = cluster.prefill[0], cluster.decode[0]
        short = cluster.complete(ids(60, 2), max_tokens=4, ignore_eos=True)
        assert short.trace["decode"]["prompt_rows"] == 60
        assert prefill_rows(prefill) == 0
        first = cluster.complete(ids(300, 3), max_tokens=40, ignore_eos=True)
        assert first.trace["decode"]["prompt_rows"] == 0
        assert prefill_rows(prefill) == 300
        prompt = ids(300, 3) + first.trace["token_ids"] + ids(20, 4)
        moved = decode.metrics().value("baton_handoff_bytes_total", direction="received")
        next_turn = cluster.complete(prompt, max_tokens=8, ignore_eos=True)
        assert prefill_rows(prefill) == 300
        assert next_turn.trace["decode"]["prompt_rows"] == len(prompt) - 320
        assert next_turn.usage["prompt_tokens_details"] == {"cached_tokens": 320}
        assert decode.metrics().value("baton_handoff_bytes_total", direction="received") == moved
        (expected,) = local_answers(tmp_path, [prompt])
        assert next_turn.trace["logits_digests"] == expected["logits_digests"]
        cluster.wait_baseline_by_itself()


@pytest.mark.parametrize("budget", ["20ms", "0s"])
def test_prompts_beside_streams_change_no_bit(tmp_path, reference, budget):
    options = {**EVERYTHING, "step_budget": budget}
    with Cluster(tmp_path, prefill=0, decode_options=options) as cluster:
        body = completion(ids(20, 5), max_tokens=1000, ignore_eos=True)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with cluster.stream(COMPLETIONS, body, timeout=4 * PATIENCE_S) as stream:
                streamed = pool.submit(collect, stream)
                cluster.wait_running(cluster.decode)
                out = cluster.complete(PROMPTS[-1], max_tokens=8, ignore_eos=True)
                assert not streamed.done()  # so they shared steps
                assert streamed.result(4 * PATIENCE_S).finish == "length"
        assert out.trace["logits_digests"] == reference[-1]["logits_digests"]
        cluster.wait_baseline()


def test_a_decode_node_that_dies_while_it_computes_is_replaced(tmp_path, reference):
    small_steps = {**EVERYTHING, "chunk_rows": 16, "token_budget": 16}
    with Cluster(tmp_path, prefill=0, decode=2, decode_options=small_steps) as cluster:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(cluster.complete, PROMPTS[-1], max_tokens=1000, ignore_eos=True)
            cluster.wait_running(cluster.decode)
            (busy,) = [node for node in cluster.decode
                       if node.metrics().value("baton_running_requests")]
            busy.kill()
            out = answer.result(PATIENCE_S)
        assert out.trace["attempts"] == 2
        assert out.trace["logits_digests"][:8] == reference[-1]["logits_digests"]
        cluster.wait_baseline()
