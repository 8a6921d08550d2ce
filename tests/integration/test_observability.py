"""The board, the recording rules and the autoscalers' queries: well-formed, about metrics that
exist, complete, and with data on a real Prometheus that scrapes an exporter of every metric, and
on one that scrapes a cluster under load."""

import http.server
import math
import re
import subprocess
import threading

import pytest
import yaml

from support import queries
from support.build import PATIENCE_S
from support.cluster import COMPLETIONS, Cluster
from support.http_api import collect
from support.process import wait_until
from support.prometheus import Prometheus

CONFIGURATION = queries.ROOT / "deploy/prometheus"
ALL = queries.all_queries(rate_interval="10s")


def promtool(*arguments) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def base_of(series: str) -> str:
    return re.sub(r"_(?:bucket|sum|count)$", "", series)


def test_prometheus_accepts_the_configuration_and_the_rules():
    promtool("check", "config", CONFIGURATION / "prometheus.yml")
    promtool("check", "rules", CONFIGURATION / "rules.yml")


def test_prometheus_accepts_the_configuration_for_kubernetes(tmp_path):
    # Debian builds Prometheus without the discovery of Kubernetes; the rest can be checked.
    configuration = yaml.safe_load((CONFIGURATION / "kubernetes.yml").read_text())
    configuration["rule_files"] = [str(CONFIGURATION / "rules.yml")]
    for job in configuration["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs")
        job["static_configs"] = [{"targets": ["127.0.0.1:1"]}]
    (tmp_path / "kubernetes.yml").write_text(yaml.safe_dump(configuration))
    promtool("check", "config", tmp_path / "kubernetes.yml")


def test_the_rules_compute_what_their_names_say():
    promtool("test", "rules", CONFIGURATION / "rules_test.yml")


@pytest.mark.parametrize("query", ALL, ids=lambda query: query.where)
def test_a_query_reads_only_metrics_and_labels_that_exist(query):
    assert query.series()
    labels = {"le", "role", "node"}
    for series in query.series():
        assert base_of(series) in queries.METRICS, series
        kind, own = queries.METRICS[base_of(series)]
        assert (kind == "histogram") == (base_of(series) != series), f"{series} is a {kind}"
        labels |= own
    used = re.findall(r"by \(([^)]*)\)", query.expr)
    used += re.findall(r"[{,](\w+)(?:=~|!=|=)", query.expr)
    assert {name.strip() for names in used for name in names.split(",")} <= labels, query.expr


def test_the_board_shows_every_metric():
    shown = {base_of(series) for query in queries.board_queries() for series in query.series()}
    assert shown == set(queries.METRICS)


def test_the_board_stacks_every_part_of_a_request():
    stacked = next(panel for panel in queries.board()["panels"] if "by part" in panel["title"])
    assert stacked["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    selected = re.findall(r'phase=~"([^"]*)"', stacked["targets"][0]["expr"])
    assert [set(phases.split("|")) for phases in selected] == [set(queries.PHASES)] * 2


def test_the_panels_of_the_board_do_not_overlap():
    taken = {}
    for panel in queries.board()["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])):
            assert taken.setdefault(cell, panel["title"]) == panel["title"]


def test_each_phase_scales_on_its_own_signal():
    metrics = queries.autoscaler_metrics()
    assert metrics == {"baton-router": "baton_queue_depth",
                       "baton-prefill": "baton_prefill_backlog_seconds",
                       "baton-decode": "baton_cache_usage_ratio"}
    assert set(metrics.values()) == set(queries.adapter_queries())


LABEL_VALUES = {"phase": queries.PHASES, "reason": ("digest_mismatch",), "group": ("0",),
                "outcome": ("stop",), "version": ("0.1.0",), "direction": ("sent",)}


def exposition(scrape: int) -> str:
    """Every metric in the text format, counters growing with each scrape, for one node per role."""
    lines = []
    for name, (kind, own) in queries.METRICS.items():
        lines.append(f"# TYPE {name} {kind}")
        for role in ("router", "prefill", "decode"):
            for value in LABEL_VALUES[next(iter(own))] if own else ("",):
                own_label = f',{next(iter(own))}="{value}"' if own else ""
                labels = f'role="{role}",node="{role}-0"{own_label}'
                if kind == "histogram":
                    lines += [f'{name}_bucket{{{labels},le="0.1"}} {scrape}',
                              f'{name}_bucket{{{labels},le="+Inf"}} {2 * scrape}',
                              f"{name}_sum{{{labels}}} {0.3 * scrape}",
                              f"{name}_count{{{labels}}} {2 * scrape}"]
                else:
                    lines.append(f"{name}{{{labels}}} {scrape}")
    return "\n".join(lines) + "\n"


class Exporter(http.server.BaseHTTPRequestHandler):
    scrapes = 0

    def do_GET(self):
        Exporter.scrapes += 1
        body = exposition(Exporter.scrapes).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    folder = tmp_path_factory.mktemp("prometheus")
    with Prometheus([f"127.0.0.1:{server.server_port}"], folder) as running:
        yield running
    server.shutdown()


def test_the_exposition_is_one_that_promtool_accepts_but_for_help():
    done = subprocess.run(["promtool", "check", "metrics"], input=exposition(1), text=True,
                          capture_output=True)
    complaints = [line for line in done.stderr.splitlines() if "no help text" not in line]
    assert not complaints


def test_every_query_finds_data_where_every_metric_is_exported(prometheus):
    assert not prometheus.without_data(ALL, PATIENCE_S)
    recorded = [queries.Query(name, name) for name in queries.rules()]
    assert not prometheus.without_data(recorded, PATIENCE_S)


def test_a_query_without_data_is_noticed(prometheus):
    absent = queries.Query("planted", "baton_no_such_metric")
    nothing = queries.Query("planted", "0 / (0 * sum(baton_queue_depth))")
    assert len(prometheus.without_data([absent, nothing], seconds=0)) == 2


@pytest.fixture(scope="module")
def cluster_under_load(tmp_path_factory):
    """A Prometheus that scrapes a cluster of real processes, which answer two streams at a time."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        over = threading.Event()

        def load():
            while not over.is_set():
                body = {"prompt": "Once upon a time", "max_tokens": 20, "ignore_eos": True}
                with cluster.stream(COMPLETIONS, body) as stream:
                    assert collect(stream).finished

        clients = [threading.Thread(target=load) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            targets = [process.admin for process in cluster.processes]
            with Prometheus(targets, tmp_path_factory.mktemp("scraping")) as running:
                yield running
        finally:
            over.set()
            for client in clients:
                client.join()


def test_every_query_finds_data_on_a_real_cluster_under_load(cluster_under_load):
    assert not cluster_under_load.without_data(ALL, PATIENCE_S)
    recorded = [queries.Query(name, name) for name in queries.rules()]
    assert not cluster_under_load.without_data(recorded, PATIENCE_S)


def test_a_real_clusters_figures_make_sense(cluster_under_load):
    def value(expr: str) -> float:
        """NaN for no data: a scrape of a busy machine may come too late for one moment."""
        samples = cluster_under_load.query(expr)
        return float(samples[0]["value"][1]) if samples else math.nan

    wait_until(lambda: value('count(up == 1)') == 3, "three targets are up")
    rate = 'sum(rate(baton_requests_total{role="router",outcome="length"}[10s]))'
    wait_until(lambda: value(rate) > 0, "requests are counted")
    for counter in ("baton_request_errors_total", "baton_handoff_failures_total"):
        wait_until(lambda: value(f"sum({counter})") == 0, f"no {counter}")
