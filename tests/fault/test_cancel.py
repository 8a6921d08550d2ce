"""Cancelled requests free both sides at once: a deadline of promise P4, measured in a run of its
own. One of a hundred may take longer."""

import random
import threading
import time

import pytest

from fault.scene import Client, fault_cluster, long_prompt
from support.cluster import used_blocks
from support.process import wait_until

CANCELS, LIMIT_S = 100, 0.2
# What the scheduler gives to another machine's work is nobody's delay. A round that such a moment
# fell into says nothing, so one of three must hold.
ROUNDS = 3


def seconds_until_free(cluster) -> float:
    began = time.monotonic()
    wait_until(lambda: not any(used_blocks(node) for node in cluster.workers),
               "both sides are free", every=0.002)
    return time.monotonic() - began


def cancel_many(cluster, dice: random.Random) -> list[float]:
    """One request at a time, cut at a random time of its life (from before its placement to deep in
    decode), so that what is still held can only be its. How long that was, ascending."""
    took = []
    for number in range(CANCELS):
        length = dice.choice([1, 15, 16, 64, 200, 400, 700])
        client = Client(cluster, long_prompt(number, length), max_tokens=200)
        time.sleep(dice.choice([0.001, 0.01]) + dice.random() * length / 900)
        client.leave()
        took.append(seconds_until_free(cluster))
        client.outcome()
    return sorted(took)


@pytest.mark.parametrize("transport", ["shm", "ucx"])
def test_a_hundred_cancels_in_random_states_free_both_sides_in_time_P4(tmp_path, transport):
    dice = random.Random(20)
    with fault_cluster(tmp_path, transports=transport) as cluster:
        for _ in range(ROUNDS):
            took = cancel_many(cluster, dice)
            p50, p99, worst = (took[int((len(took) - 1) * share)] for share in (0.5, 0.99, 1))
            print(f"{transport}: freed after p50 {1e3 * p50:.0f}, p99 {1e3 * p99:.0f}, "
                  f"max {1e3 * worst:.0f} ms")
            if p99 <= LIMIT_S:
                break
        cluster.wait_baseline_by_itself()
        for node in cluster.workers:
            assert node.metrics().total("baton_requests_total", outcome="cancelled") > 10
    assert p99 <= LIMIT_S


def test_three_hundred_requests_cancelled_together_leave_nothing_HNG03(tmp_path):
    with fault_cluster(tmp_path, router_options={"connections_per_address": 0}) as cluster:
        for round_ in range(2):
            clients = [Client(cluster, long_prompt(number, 300), max_tokens=50)
                       for number in range(150)]
            time.sleep(0.5 + round_)
            threads = [threading.Thread(target=client.leave) for client in clients]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for client in clients:
                client.outcome()
            cluster.wait_baseline_by_itself()
            out = cluster.complete([1, 2, 3], max_tokens=2, ignore_eos=True)
            assert out.finish == "length", out
        for gauge in ("baton_handoffs_in_flight", "baton_running_requests", "baton_queue_depth"):
            for process in cluster.processes:
                wait_until(lambda: process.metrics().value(gauge) == 0, f"no {gauge}")
