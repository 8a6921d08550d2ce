"""Promise P2 on real processes: a commit or units that are not proved to be the request's are
refused and counted by reason, and the request still ends in the right answer or a clear error."""

import pytest

from fault.scene import Client, fault_cluster, long_prompt, received_bytes
from support import wire
from support.memory import Arena
from support.process import wait_until
from support.wire import COMMIT, GRANTED, Proxy, edit

PROMPT = long_prompt(5, 100)
UNIT_BYTES = 16 * 3 * 64 * 2  # positions × KV heads × head × bf16


class Tampered:
    """A cluster whose decode node is reached through a proxy, and what an undisturbed run says."""

    def __init__(self, cluster, proxy, undisturbed):
        self.cluster, self.proxy, self.undisturbed = cluster, proxy, undisturbed

    @property
    def decode(self):
        return self.cluster.decode[0]

    def once(self, message: int, *edits) -> None:
        """The next message of that kind passes with these edits (path, change)."""
        left = [1]

        def tamper(kind, envelope):
            if kind != message or not left:
                return [envelope]
            left.pop()
            for path, change in edits:
                envelope = edit(envelope, path, change)
            return [envelope]
        self.proxy.tamper = tamper

    def ask(self):
        out = self.cluster.complete(PROMPT, max_tokens=8, ignore_eos=True)
        right = out.trace and out.trace["token_ids"] == self.undisturbed
        assert right or (out.status >= 500 and out.error["code"]), out
        return out

    def counted(self, name: str) -> dict:
        return self.decode.metrics().by(name, "reason")


@pytest.fixture
def tampered(tmp_path):
    proxy = Proxy()
    cluster = fault_cluster(tmp_path)
    try:
        for worker in cluster.workers:
            worker.start()
        proxy.target = cluster.decode[0].announced["control"]
        cluster.router_options["decode"] = proxy.address
        cluster.start_routers()
        cluster.wait_ready()
        out = cluster.complete(PROMPT, max_tokens=8, ignore_eos=True)
        assert out.trace["attempts"] == 1 and COMMIT in proxy.seen
        yield Tampered(cluster, proxy, out.trace["token_ids"])
        cluster.wait_baseline()
        proxy.tamper = lambda kind, envelope: [envelope]
        assert cluster.complete(PROMPT, max_tokens=8, ignore_eos=True).trace["token_ids"] == (
            out.trace["token_ids"])
    except BaseException:
        cluster.show_state()
        raise
    finally:
        cluster.close()
        proxy.close()


def flip(data: bytes) -> bytes:
    return bytes([data[0] ^ 1, *data[1:]])


COMMITS = {
    "P-1": ((COMMIT, 3), lambda length: length - 1, "length_mismatch"),
    "P+1": ((COMMIT, 3), lambda length: length + 1, "length_mismatch"),
    "another fingerprint": ((COMMIT, 4), flip, "fingerprint_mismatch"),
    "another root": ((COMMIT, 5, 8, 1), lambda high: high ^ 1, "digest_mismatch"),
    "an unknown component": ((COMMIT, 5, 1), lambda _: 9, "unknown_component"),
    "fewer units": ((COMMIT, 5, 7), lambda units: units - 1, "length_mismatch"),
    "another unit size": ((COMMIT, 5, 4), lambda size: size // 2, None),
    "another dtype": ((COMMIT, 5, 3), lambda dtype: dtype ^ 3, None),
}


@pytest.mark.parametrize("what", COMMITS)
def test_a_commit_with_something_else_is_refused_by_that_name(tampered, what):
    path, change, reason = COMMITS[what]
    tampered.once(COMMIT, (path, change))
    out = tampered.ask()
    assert out.finish == "length" and out.trace["attempts"] == 2
    failures = tampered.counted("baton_handoff_failures_total")
    assert sum(failures.values()) == 1, failures
    assert reason is None or failures == {reason: 1}
    assert tampered.cluster.prefill[0].metrics().total("baton_handoff_failures_total") == 1


@pytest.mark.parametrize("leg", [(COMMIT, 1, 3), (COMMIT, 1, 4)], ids=["prefill", "decode"])
def test_a_commit_of_a_later_leg_starts_nothing(tampered, leg):
    tampered.once(COMMIT, (leg, lambda number: number + 1))
    steps = tampered.decode.metrics().value("baton_steps_total")
    assert tampered.ask().finish == "length"
    # A new prefill leg samples the second token as well.
    assert tampered.decode.metrics().value("baton_steps_total") - steps in (6, 7)
    assert tampered.counted("baton_handoff_failures_total") == {"stale_attempt": 1}


def test_a_commit_of_an_earlier_leg_starts_nothing(tampered):
    """The first leg's units are refused, the second leg's commit names the first."""
    tampered.once(GRANTED, ((GRANTED, 2, 3, 4, 3), lambda value: value + 1))
    first = tampered.proxy.tamper

    def second(kind, envelope):
        if kind != COMMIT:
            return first(kind, envelope)
        tampered.proxy.tamper = lambda _, frame: [frame]
        return [edit(envelope, (COMMIT, 1, 4), lambda leg: leg - 1)]
    tampered.proxy.tamper = second
    assert tampered.ask().finish == "length"
    assert tampered.counted("baton_handoff_failures_total")["stale_attempt"] == 1


def test_a_commit_for_another_life_of_the_process_is_dropped(tampered):
    tampered.once(COMMIT, (wire.TO_EPOCH, lambda epoch: epoch ^ 1))
    tampered.ask()
    assert tampered.counted("baton_control_dropped_total")["stale_epoch"] == 1


def test_a_commit_of_another_grant_is_refused(tampered):
    tampered.once(COMMIT, ((COMMIT, 2), lambda grant: grant + 1))
    assert tampered.ask().finish == "length"
    assert sum(tampered.counted("baton_handoff_failures_total").values()) == 1


def test_units_for_an_old_generation_are_refused_before_a_byte_is_taken(tampered):
    generation = (GRANTED, 2, 3, 4, 3)
    tampered.once(GRANTED, (generation, lambda value: value + 1))
    out = tampered.ask()
    assert out.finish == "length" and out.trace["attempts"] == 2
    refused = tampered.counted("baton_handoff_units_refused_total")
    assert set(refused) == {"stale_generation"}, refused


def test_units_outside_the_grant_are_refused_before_a_byte_is_taken(tampered):
    tampered.once(GRANTED, ((GRANTED, 2, 3, 4, 1), lambda first: first + 1))
    out = tampered.ask()
    assert out.finish == "length"
    assert tampered.counted("baton_handoff_units_refused_total")


def test_units_for_another_grant_are_refused_before_a_byte_is_taken(tampered):
    tampered.once(GRANTED, ((GRANTED, 2, 1), lambda grant: grant ^ 1))
    assert tampered.ask().finish == "length"
    assert tampered.counted("baton_handoff_units_refused_total")


# ---- the bytes themselves ----


def flip_a_bit(arena: Arena) -> None:
    at = arena.first_used()
    arena.write(at, flip(arena.read(at, 1)))


def swap_two_units(arena: Arena) -> None:
    at = arena.first_used() // UNIT_BYTES * UNIT_BYTES
    first, second = arena.read(at, UNIT_BYTES), arena.read(at + UNIT_BYTES, UNIT_BYTES)
    assert first != second
    arena.write(at, second + first)


def change_a_scale(arena: Arena) -> None:  # COR-19
    """One scale of the second unit of a q8_0 cache; its numbers stay as they are."""
    numbers, scales = 16 * 64, 16 * 2 * 2  # of a head: positions × d; positions × d / 32 × bf16
    unit_bytes = 3 * (numbers + scales)
    at = (arena.first_used() // unit_bytes + 1) * unit_bytes + numbers
    scale = arena.read(at, 2)
    assert scale != b"\0\0"
    arena.write(at, flip(scale))


@pytest.mark.parametrize("transport", ["shm", "ucx"])
@pytest.mark.parametrize("damage, dtype", [(flip_a_bit, "bf16"), (swap_two_units, "bf16"),
                                           (change_a_scale, "q8_0")])
def test_damaged_units_are_never_decoded_on(tmp_path, transport, damage, dtype):
    """The units of the sender change under way, after their digests were made: its decode node is
    stopped before it can take them. They are refused, also when they are sent again."""
    prompt = long_prompt(6, 100)
    # The router waits for the stopped node as long as the damage takes.
    with fault_cluster(tmp_path, transports=transport, cache_dtype=dtype,
                       router_options={"reconnect_wait": "600s"}) as cluster:
        (prefill,), (decode,) = cluster.prefill, cluster.decode
        arena = Arena(prefill.pid)
        cluster.decode[0].freeze()
        client = Client(cluster, prompt, max_tokens=8)
        wait_until(lambda: prefill.metrics().value("baton_forward_rows_total", phase="prefill")
                   == len(prompt), "the prompt is computed")
        damage(arena)
        decode.thaw()
        out = client.outcome()
        reasons = decode.metrics().by("baton_handoff_failures_total", "reason")
        assert reasons.get("digest_mismatch"), reasons
        assert out.failed_clearly, out
        assert decode.metrics().value("baton_forward_rows_total", phase="decode") == 0
        assert received_bytes(decode) > 0
        cluster.wait_baseline()
