"""Workers and routers die, hang and come back in every state of a handoff: a stream finishes or
ends with a clear error, and what survives holds nothing of it. How soon: test_deadlines.py."""

import itertools
import signal
import time

import pytest

from fault.scene import LEASE_S, STATES, Client, Scene, fault_cluster, long_prompt
from support import http_api
from support.build import PATIENCE_S
from support.cluster import COMPLETIONS, used_blocks
from support.process import wait_until


@pytest.fixture
def cluster(tmp_path):
    with fault_cluster(tmp_path) as running:
        yield running


@pytest.fixture
def short_leases(tmp_path):
    with fault_cluster(tmp_path, lease_s=LEASE_S) as running:
        yield running


@pytest.fixture
def pairs(tmp_path):
    with fault_cluster(tmp_path, prefill=2, decode=2) as running:
        yield running


def works(cluster) -> None:
    """A request is answered again, without a hand on anything else."""
    cluster.wait_ready()
    out = cluster.complete([1, 2, 3], max_tokens=4, ignore_eos=True)
    assert out.finish == "length", out


# ---- death in each state ----


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("victim", ["prefill", "decode"])
def test_a_killed_worker_ends_a_stream_clearly_and_comes_back_RST01(cluster, victim, state):
    scene = Scene(cluster, state)
    (node,) = getattr(cluster, victim)
    node.kill()
    scene.thaw()
    for client in [scene.client, *scene.others]:
        out = client.outcome()
        assert out.finished or out.failed_clearly, out
    cluster.wait_baseline()
    node.start()
    works(cluster)
    cluster.wait_baseline()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("victim", ["prefill", "decode"])
def test_with_another_worker_the_stream_goes_on_with_the_same_tokens_P3(pairs, victim, state):
    undisturbed = pairs.complete(long_prompt(), max_tokens=24, ignore_eos=True)
    scene = Scene(pairs, state)
    getattr(scene, victim).kill()
    scene.thaw()
    out = scene.client.outcome()
    assert out.finished, out
    assert out.text == undisturbed.text
    assert out.trace["token_ids"] == undisturbed.trace["token_ids"]
    for other in scene.others:
        assert other.outcome().finished
    pairs.wait_baseline()


@pytest.mark.parametrize("transport", ["shm", "ucx"])
def test_death_in_the_middle_of_a_transfer_is_survived_over_every_transport_RST14(tmp_path,
                                                                                  transport):
    with fault_cluster(tmp_path, prefill=2, decode=2, transports=transport) as cluster:
        for victim in ("decode", "prefill"):
            scene = Scene(cluster, "prefilling")
            node = getattr(scene, victim)
            node.kill()
            out = scene.client.outcome()
            assert out.finished, out
            cluster.wait_baseline()
            node.start()
            cluster.wait_ready()


def test_a_killed_router_leaves_nothing_behind(short_leases):
    scene = Scene(short_leases, "decoding", max_tokens=500)
    short_leases.router.kill()
    assert not scene.client.outcome().finished
    short_leases.wait_baseline()
    short_leases.router.start()
    works(short_leases)


def test_a_routers_new_life_ends_what_its_old_one_owned(cluster):
    scene = Scene(cluster, "decoding", max_tokens=500)
    cluster.router.restart()
    assert not scene.client.outcome().finished
    cluster.wait_baseline()
    works(cluster)


def test_requests_in_the_queue_of_a_killed_worker_end_HNG21(cluster):
    clients = [Client(cluster, long_prompt(number, 300), max_tokens=4) for number in range(12)]
    clients[0].wait_chunks(1)
    cluster.prefill[0].kill()
    for client in clients:
        out = client.outcome()
        assert out.finished or out.failed_clearly, out
    for gauge in ("baton_running_requests", "baton_queue_depth"):
        wait_until(lambda: cluster.router.metrics().value(gauge) == 0, f"no {gauge}")
    cluster.wait_baseline()


# ---- silence ----


@pytest.mark.parametrize("victim", ["prefill", "decode"])
def test_a_worker_that_stops_is_down_and_up_again_when_it_goes_on_RST03(short_leases, victim):
    (node,) = getattr(short_leases, victim)
    node.freeze()
    wait_until(lambda: short_leases.workers_up(short_leases.router) == 1, "marked down")
    time.sleep(LEASE_S + 0.5)  # its own leases end while it sleeps
    node.thaw()
    wait_until(lambda: short_leases.workers_up(short_leases.router) == 2, "marked up")
    works(short_leases)
    short_leases.wait_baseline()


def test_a_router_that_was_stopped_does_not_take_its_workers_for_silent(cluster):
    """What they said meanwhile waits in its sockets."""
    scene = Scene(cluster, "decoding", max_tokens=100)
    cluster.router.freeze()
    time.sleep(3)  # twice the silence after which a worker counts as lost
    cluster.router.thaw()
    out = scene.client.outcome()
    assert out.finished and out.trace["attempts"] == 1, out
    assert "is down" not in cluster.router.log.read_text()
    cluster.wait_baseline_by_itself()


@pytest.mark.parametrize("state", ["prefilling", "decoding"])
@pytest.mark.parametrize("victim", ["prefill", "decode"])
def test_a_worker_that_wakes_up_too_late_gives_back_all_it_held(tmp_path, victim, state):
    with fault_cluster(tmp_path, prefill=2, decode=2, lease_s=LEASE_S) as cluster:
        undisturbed = cluster.complete(long_prompt(), max_tokens=24, ignore_eos=True)
        scene = Scene(cluster, state)
        node = getattr(scene, victim)
        node.freeze()
        out = scene.client.outcome()
        assert out.finished and out.text == undisturbed.text, out
        node.thaw()
        cluster.wait_baseline()
        works(cluster)


def test_clients_that_leave_between_the_phases_free_prefill_before_decode_answers_HNG02(cluster):
    scene = Scene(cluster, "transferring")
    scene.client.leave()
    cluster.wait_baseline(cluster.prefill)
    scene.thaw()
    cluster.wait_baseline_by_itself()


# ---- who is there ----


def test_a_request_succeeds_whenever_both_roles_are_up_RST11(cluster):
    (prefill,), (decode,) = cluster.prefill, cluster.decode
    for first, second in itertools.permutations([prefill, decode]):
        for node in (first, second):
            node.kill()
        wait_until(lambda: cluster.workers_up(cluster.router) == 0, "both are down")
        for node in (second, first):
            node.start()
        works(cluster)
        first.restart()
        works(cluster)


def test_one_of_two_workers_stopping_costs_at_most_one_request_RST13(pairs):
    failures = []
    for number in range(40):
        if number == 10:
            pairs.decode[0].kill()
        if number == 25:
            pairs.prefill[1].kill()
        out = pairs.complete([number + 1] * 20, max_tokens=3, ignore_eos=True)
        if out.finish != "length":
            failures.append(out)
    assert len(failures) <= 1, failures


def test_until_both_roles_are_up_there_are_only_503s_RST16_RTR20(tmp_path):
    cluster = fault_cluster(tmp_path)
    try:
        (prefill,), (decode,) = cluster.prefill, cluster.decode
        prefill.start()
        prefill.kill()  # its port is known now, and nobody is there
        decode.start()
        cluster.start_routers()
        router = cluster.router
        began, statuses = time.monotonic(), []
        while 200 not in statuses:
            if time.monotonic() - began > 3 and not prefill.running:
                prefill.start()
            answer = cluster.post(COMPLETIONS, {"prompt": "x", "max_tokens": 2})
            statuses.append(answer.status)
            if answer.status != 200:
                assert answer.headers["retry-after"] and answer.json()["error"]["code"], answer
                assert http_api.get(router.admin, "/livez").status == 200
            assert time.monotonic() - began < PATIENCE_S, statuses
            time.sleep(0.05)
        assert set(statuses) == {200, 503}
        assert cluster.post(COMPLETIONS, {"prompt": "x", "max_tokens": 2}).status == 200
    finally:
        cluster.close()


def test_a_router_without_decode_nodes_is_alive_and_not_ready_RTR18(cluster):
    cluster.decode[0].kill()
    wait_until(lambda: http_api.get(cluster.router.admin, "/readyz").status == 503, "not ready")
    assert http_api.get(cluster.router.admin, "/livez").status == 200
    assert cluster.post(COMPLETIONS, {"prompt": "x", "max_tokens": 2}).status == 503
    # One token needs no decode node.
    assert cluster.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1}).status == 200


# ---- shutting down ----


@pytest.mark.parametrize("role", ["routers", "prefill", "decode"])
def test_SIGTERM_finishes_what_runs_and_takes_nothing_new_K8S02(cluster, role):
    (node,) = getattr(cluster, role)
    # Long answers: the node is still there for what is asked of it meanwhile.
    clients = [Client(cluster, long_prompt(number, 40), max_tokens=250) for number in range(4)]
    for client in clients:
        client.wait_chunks(2)
    node.signal(signal.SIGTERM)
    if role == "prefill":  # its work is over: it may be gone at any moment
        wait_until(lambda: not node.running, "its end")
    else:
        wait_until(lambda: http_api.get(node.admin, "/readyz").status == 503, "not ready")
        assert http_api.get(node.admin, "/livez").status == 200
    answer = cluster.post(COMPLETIONS, {"prompt": "x", "max_tokens": 2})
    assert answer.status == 503, answer
    for client in clients:
        assert client.outcome().finished
    assert node.process.wait(PATIENCE_S) == 0


# ---- cancelling beside others ----


def test_queued_requests_of_clients_that_left_are_never_computed_HNG22(cluster):
    node = cluster.prefill[0]
    # A step is shared by two prompts: the third and fourth wait.
    first = [Client(cluster, long_prompt(number, 1000), max_tokens=400) for number in (1, 2)]
    cluster.wait_running([node], 2)
    late = [Client(cluster, long_prompt(number, 600)) for number in (3, 4)]
    wait_until(lambda: node.metrics().value("baton_queue_depth") == 2, "two wait")
    for client in late:
        client.leave()
    for client in first:
        client.wait_chunks(2)
    assert node.metrics().value("baton_forward_rows_total", phase="prefill") == 2000
    assert used_blocks(cluster.decode[0])
    for client in first:
        client.leave()
    cluster.wait_baseline_by_itself()


def test_a_queued_client_that_leaves_disturbs_no_other_HNG23(cluster):
    wanted = cluster.complete(long_prompt(1), max_tokens=16, ignore_eos=True).text
    running = Client(cluster, long_prompt(1), max_tokens=16)
    cluster.wait_running(cluster.prefill)
    Client(cluster, long_prompt(2)).leave()
    out = running.outcome()
    assert out.finished and out.text == wanted


def test_cancelling_one_of_eight_leaves_seven_HNG24(cluster):
    for round_ in range(5):
        clients = [Client(cluster, long_prompt(number, 150), max_tokens=4) for number in range(8)]
        clients[round_].wait_chunks(0)
        time.sleep(0.03 * round_)
        clients[round_].leave()
        for number, client in enumerate(clients):
            if number != round_:
                assert client.outcome().finished
    assert all(process.running for process in cluster.processes)
    cluster.wait_baseline_by_itself()
