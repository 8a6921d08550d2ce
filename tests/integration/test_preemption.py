"""A decode pool of half the demand: every stream still ends at its exact length, with the bits of a
run in which nothing was preempted (API-16, HNG-17)."""

import concurrent.futures

from support.build import PATIENCE_S
from support.cluster import COMPLETIONS, Cluster, completion
from support.http_api import collect

# However long the streams before it take on a slow machine.
PATIENT = {"space_wait": f"{4 * PATIENCE_S}s"}
STREAMS = 32
BLOCK = 16


def requests() -> list[tuple[list[int], int]]:
    """(prompt, tokens to generate), of mixed lengths."""
    out = []
    for number in range(STREAMS):
        length = (5, 40, 90, 170)[number % 4] + number
        prompt = [1 + (number * 977 + i * 7919) % 49000 for i in range(length)]
        out.append((prompt, (30, 60, 120)[number % 3]))
    return out


def blocks_of(positions: int) -> int:
    return -(-positions // BLOCK)


def stream(cluster: Cluster, prompt: list[int], count: int):
    body = completion(prompt, max_tokens=count, ignore_eos=True)
    with cluster.stream(COMPLETIONS, body, timeout=4 * PATIENCE_S) as answer:
        return collect(answer)


def all_at_once(cluster: Cluster) -> list:
    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        return list(pool.map(lambda each: stream(cluster, *each), requests()))


def test_streams_on_half_of_the_cache_they_want_end_with_the_same_bits(tmp_path):
    demand = sum(blocks_of(len(prompt) + count) for prompt, count in requests())
    with Cluster(tmp_path / "half", decode_options={"cache_tokens": demand // 2 * BLOCK},
                 router_options=PATIENT) as small:
        short_of_space = all_at_once(small)
        assert small.decode[0].metrics().value("baton_preemptions_total") > 0
        small.wait_baseline()
    with Cluster(tmp_path / "enough") as large:
        undisturbed = all_at_once(large)
        assert large.decode[0].metrics().value("baton_preemptions_total") == 0
    for (_, count), got, expected in zip(requests(), short_of_space, undisturbed):
        assert got.finished and got.finish == "length", got
        assert len(got.trace["token_ids"]) == count
        for part in ("token_ids", "logits_digests"):
            assert got.trace[part] == expected.trace[part]
