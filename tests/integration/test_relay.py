"""The relay: what prefill computed is continued by decode on another process, bit for bit."""

import concurrent.futures

import pytest

from support import http_api
from support.cluster import Cluster
from support.local import local_answers, token_ids

UNIT, BLOCK = 16, 64
# Lengths of the prompts: short ones, unit and block edges with both neighbours, chunk and tile
# edges, long ones.
EDGES = sorted({length + off for length in (UNIT, 2 * UNIT, 3 * UNIT, BLOCK, 2 * BLOCK, 4 * BLOCK,
                                            8 * BLOCK, 16 * BLOCK) for off in (-1, 0, 1)})
LENGTHS = sorted({1, 2, 3, 4, 5, 7, 9, 11, 13, 24, 40, 50, 90, 100, 150, 200, 300, 333, 400, 450,
                  600, 700, 777, 900, 1200, 1500, 1999, 2000, *EDGES})


def prompt_of(length: int) -> list[int]:
    """Of two lengths none is the beginning of the other."""
    return token_ids(length, length)


def answers_of(folder, lengths, max_tokens: int = 6, options=()) -> dict:
    answers = local_answers(folder, map(prompt_of, lengths), max_tokens, options)
    return {length: (answer["token_ids"], answer["logits_digests"])
            for length, answer in zip(lengths, answers, strict=True)}


def answer_of(cluster: Cluster, length: int, max_tokens: int = 6) -> tuple:
    out = cluster.complete(prompt_of(length), max_tokens=max_tokens, ignore_eos=True)
    assert out.finish == "length", out
    assert len(out.trace["logits_digests"]) == max_tokens
    return out.trace["token_ids"], out.trace["logits_digests"]


def all_answers(cluster: Cluster, lengths, at_once: int = 1) -> dict:
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return dict(zip(lengths, pool.map(lambda length: answer_of(cluster, length), lengths)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("shm"), worker_options={"transports": "shm"}) as running:
        yield running


def test_three_tokens_are_decoded_from_position_three_by_a_step_of_one_row(cluster):
    out = cluster.complete(prompt_of(3), max_tokens=2, ignore_eos=True)
    decode = out.trace["decode"]
    assert decode["first_step_rows"] == 1
    assert (decode["cache_before"], decode["cache_after"]) == (3, 4)
    assert decode["prompt_rows"] == 0 and decode["recomputed_rows"] == 0


def test_units_leave_while_prefill_still_computes(cluster):
    # Long enough for the grant to be there before its last layer, whoever gets a processor first.
    handoff = cluster.complete(prompt_of(1500), max_tokens=2).trace["handoff"]
    assert 0 < handoff["first_unit_sent_ms"] < handoff["last_layer_computed_ms"], handoff


def test_what_crossed_is_what_a_cache_of_the_prompt_is_made_of(cluster):
    for length in (3, 16, 17, 130):
        handoff = cluster.complete(prompt_of(length), max_tokens=2).trace["handoff"]
        layers, kv_heads, head_size, bf16_bytes = 30, 3, 64, 2
        units = 2 * layers * ((length + UNIT - 1) // UNIT)
        assert handoff["units"] == units
        assert handoff["bytes"] == units * UNIT * kv_heads * head_size * bf16_bytes


def test_PFX05_decode_computes_no_row_of_a_prompt_that_it_was_handed(cluster):
    node = cluster.decode[0]
    before = node.metrics()
    cluster.complete(prompt_of(100), max_tokens=5, ignore_eos=True)
    after = node.metrics()
    rows = {phase: after.value("baton_forward_rows_total", phase=phase) -
            before.value("baton_forward_rows_total", phase=phase)
            for phase in ("prefill", "decode")}
    assert rows == {"prefill": 0, "decode": 4}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Token ids and digests of every logits row of one process without a handoff."""
    assert len(LENGTHS) >= 50
    return answers_of(tmp_path_factory.mktemp("local"), LENGTHS)


@pytest.mark.parametrize("transport, at_once", [("shm", 1), ("ucx", 4)])
def test_handed_over_requests_have_the_bits_of_one_process(tmp_path, reference, transport, at_once):
    with Cluster(tmp_path, worker_options={"transports": transport}) as cluster:
        answers = all_answers(cluster, LENGTHS, at_once)
        used = cluster.complete(prompt_of(20), max_tokens=2).trace["handoff"]["transport"]
        assert used == transport
        cluster.wait_baseline()
    assert answers == reference


def test_many_requests_at_once_have_the_bits_of_one_process(cluster, reference):
    lengths = LENGTHS[::2]
    answers = all_answers(cluster, lengths, at_once=12)
    assert answers == {length: reference[length] for length in lengths}


def test_a_cache_of_q8_0_crosses_at_half_the_bytes_and_has_the_bits_of_one_process(tmp_path):
    lengths = LENGTHS[::3]
    expected = answers_of(tmp_path, lengths, options=["--cache-dtype", "q8_0"])
    with Cluster(tmp_path, worker_options={"cache_dtype": "q8_0"}) as cluster:
        answers = all_answers(cluster, lengths, at_once=2)
        handoff = cluster.complete(prompt_of(130), max_tokens=2).trace["handoff"]
        cluster.wait_baseline()
    assert answers == expected
    layers, units, kv_heads, head_size, scale_bytes, scales = 30, 9, 3, 64, 2, 2
    assert handoff["bytes"] == 2 * layers * units * UNIT * kv_heads * (
        head_size + scales * scale_bytes)


@pytest.mark.parametrize("others", ["f32", "q8_0"])
def test_nodes_whose_caches_are_of_different_dtypes_do_not_pair(tmp_path, others):
    with Cluster(tmp_path, prefill=2, decode_options={"cache_dtype": others}) as cluster:
        listed = http_api.get(cluster.router.admin, "/workers").json()["workers"]
        assert {worker["cache_dtype"] for worker in listed} == {"bf16", others}
        out = cluster.complete(prompt_of(20), max_tokens=2)
        assert out.status == 503 and out.error["code"] == "no_worker", out
        cluster.wait_baseline()


def test_a_prefill_node_that_takes_one_token_at_a_time_has_the_same_bits(tmp_path, reference):
    with Cluster(tmp_path, prefill_options={"sequential_prefill": True}) as cluster:
        short = [length for length in LENGTHS if length <= 2 * UNIT + 1]
        answers = all_answers(cluster, short)
        assert cluster.prefill[0].metrics().value("baton_steps_total") >= sum(short)
    assert answers == {length: reference[length] for length in short}
