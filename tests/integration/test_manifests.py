"""The Kubernetes manifests and the image: valid, and by the rules that field cases taught (a test
that is about one of the project's rules or cases carries its number)."""

import re
import subprocess

import pytest
import yaml

from support import queries
from support.build import BUILD, SANITIZER

FOLDERS = ("base", "overlays/cpu")
WORKLOADS = ("Deployment", "StatefulSet", "Job")
SERVING = {"baton-router": "Deployment", "baton-prefill": "Deployment",
           "baton-decode": "StatefulSet"}


@pytest.fixture(scope="module", params=FOLDERS)
def documents(request) -> list[dict]:
    return queries.manifests(request.param)


def of_kind(documents, *kinds) -> list[dict]:
    return [document for document in documents if document["kind"] in kinds]


def pods(documents) -> list[tuple[str, dict]]:
    """(name, pod spec) of everything that makes pods."""
    return [(workload["metadata"]["name"], workload["spec"]["template"]["spec"])
            for workload in of_kind(documents, *WORKLOADS)]


def serving(documents) -> list[tuple[str, dict, dict]]:
    """(name, pod spec, its container) of the three roles."""
    found = [(name, pod, pod["containers"][0]) for name, pod in pods(documents) if name in SERVING]
    assert {name for name, _, _ in found} == set(SERVING)
    return found


def configuration_of(documents) -> dict:
    return yaml.safe_load(of_kind(documents, "ConfigMap")[0]["data"]["baton.yaml"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubernetes_accepts_every_document(folder, tmp_path):
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(queries.manifests(folder)))
    done = subprocess.run([queries.TOOLS / "kubernetes-validate", "-k", "1.34", "--strict", file],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_validation_refuses_a_field_that_does_not_exist(tmp_path):
    document = of_kind(queries.manifests("base"), "StatefulSet")[0]
    document["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run([queries.TOOLS / "kubernetes-validate", "-k", "1.34", "--strict", file],
                          capture_output=True, text=True)
    assert done.returncode != 0


def window(probe: dict) -> int:
    """Seconds that a pod may fail a probe before it counts."""
    return probe["periodSeconds"] * probe["failureThreshold"]


def test_k8s_05_a_pod_is_taken_out_before_it_is_restarted(documents):
    for name, _, container in serving(documents):
        assert window(container["livenessProbe"]) > window(container["readinessProbe"]), name
        assert window(container["startupProbe"]) >= 600, name


def test_k8s_06_every_probe_asks_its_own_endpoint_of_the_admin_listener(documents):
    paths = {"livenessProbe": "/livez", "readinessProbe": "/readyz", "startupProbe": "/startupz"}
    for name, _, container in serving(documents):
        for probe, path in paths.items():
            assert "exec" not in container[probe], name
            assert container[probe]["httpGet"] == {"path": path, "port": "admin"}, name
            assert container[probe]["timeoutSeconds"] < container[probe]["periodSeconds"], name


def test_r34_no_pod_can_do_more_than_it_needs(documents):
    assert pods(documents)
    for name, pod in pods(documents):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] > 0, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), name
        for container in pod["containers"] + pod.get("initContainers", []):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name


def test_r34_no_secret_is_an_argument_or_a_variable(documents):
    for name, pod in pods(documents):
        for container in pod["containers"]:
            assert "envFrom" not in container, name
            for variable in container.get("env", []):
                assert "secretKeyRef" not in variable.get("valueFrom", {}), name
                assert not re.search("KEY|SECRET|TOKEN|PASSWORD", variable["name"]), name


def test_every_container_says_what_it_needs_and_its_memory_is_limited(documents):
    for name, pod in pods(documents):
        for container in pod["containers"]:
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}, name
            assert container["resources"]["limits"]["memory"], name


def test_a_node_is_named_after_its_pod_and_advertises_the_pods_address(documents):
    for name, _, container in serving(documents):
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        section = name.replace("-", "_").upper()
        assert env[f"{section}_NODE"] == "$(POD_NAME)", name
        assert env[f"{section}_ADMIN_LISTEN"] == "$(POD_IP):9100", name
        if name != "baton-router":
            assert env[f"{section}_ADVERTISE"] == "$(POD_IP)", name
            assert env[f"{section}_CONTROL_LISTEN"] == "$(POD_IP):7100", name
            assert env[f"{section}_DATA_LISTEN"] == "$(POD_IP):7200", name


def test_r28_the_listeners_and_the_ports_of_the_pods_agree(documents):
    for name, _, container in serving(documents):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        own = {"api": 8000} if name == "baton-router" else {"control": 7100, "data": 7200}
        assert ports == {"admin": 9100} | own, name


def test_r31_plain_text_between_pods_is_asked_for_by_name(documents):
    configuration = configuration_of(documents)
    assert set(configuration) == {"router", "prefill", "decode"}
    for name, section in configuration.items():
        assert section["trusted_network"] is True, name


def test_a_node_has_the_time_to_drain_that_it_takes(documents):
    for name, pod, _ in serving(documents):
        grace = configuration_of(documents)[name.removeprefix("baton-")].get("drain_grace")
        if grace:
            assert int(grace.removesuffix("s")) < pod["terminationGracePeriodSeconds"], name


def test_each_role_has_an_autoscaler_and_leaves_its_number_of_pods_to_it(documents):
    targets = {(hpa["spec"]["scaleTargetRef"]["kind"], hpa["spec"]["scaleTargetRef"]["name"])
               for hpa in of_kind(documents, "HorizontalPodAutoscaler")}
    assert targets == {(kind, name) for name, kind in SERVING.items()}
    for workload in of_kind(documents, "Deployment", "StatefulSet"):
        assert "replicas" not in workload["spec"]


def test_workers_are_found_by_headless_services(documents):
    services = {service["metadata"]["name"]: service["spec"]
                for service in of_kind(documents, "Service")}
    for name in ("baton-prefill", "baton-decode"):
        assert services[name]["clusterIP"] == "None"
        assert services[name]["publishNotReadyAddresses"] is True
    for phase in ("prefill", "decode"):
        assert configuration_of(documents)["router"][phase] == [f"baton-{phase}:7100"]
    assert of_kind(documents, "StatefulSet")[0]["spec"]["serviceName"] in services


def test_every_selector_finds_its_pods(documents):
    labels = [workload["spec"]["template"]["metadata"]["labels"]
              for workload in of_kind(documents, *WORKLOADS)]
    for document in of_kind(documents, "Service", "PodDisruptionBudget"):
        selector = document["spec"]["selector"]
        selector = selector.get("matchLabels", selector)
        assert any(selector.items() <= found.items() for found in labels), document["metadata"]


def test_a_policy_covers_the_pods_of_each_role(documents):
    policies = {policy["metadata"]["name"]: policy["spec"]
                for policy in of_kind(documents, "NetworkPolicy")}
    roles = policies["baton-pods"]["podSelector"]["matchExpressions"][0]
    assert set(roles["values"]) == {"router", "prefill", "decode"}
    assert policies["baton-pods"]["policyTypes"] == ["Ingress", "Egress"]


def test_each_role_may_lose_one_pod_at_a_time(documents):
    budgets = of_kind(documents, "PodDisruptionBudget")
    assert {budget["metadata"]["name"] for budget in budgets} == set(SERVING)
    assert all(budget["spec"]["maxUnavailable"] == 1 for budget in budgets)


def test_the_image_runs_without_root_and_without_a_model():
    text = (queries.ROOT / "deploy/images/Dockerfile").read_text()
    for stage in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]:
        if "AS build" not in stage and "AS base" not in stage:
            assert re.search(r"^USER 10001:10001$", stage, re.MULTILINE), stage.split("\n")[0]
    assert ".gguf" not in text


BINARIES = [BUILD / "bin" / name
            for name in ("baton", "baton-router", "baton-prefill", "baton-decode")]


@pytest.mark.skipif(bool(SANITIZER), reason="the image has no sanitizer's library")
@pytest.mark.parametrize("binary", BINARIES, ids=lambda binary: binary.name)
def test_the_image_installs_every_library_that_a_binary_needs(binary):
    if not binary.exists():
        pytest.skip(f"{binary.name} is not part of this build")
    listed = subprocess.run([queries.ROOT / "deploy/install-dependencies", "--runtime"], text=True,
                            capture_output=True, check=True).stdout.split()
    headers = subprocess.run(["objdump", "-p", binary], text=True, capture_output=True, check=True)
    needed = re.findall(r"NEEDED\s+(\S+)", headers.stdout)
    assert needed
    for library in needed:
        found = subprocess.run(["dpkg", "-S", f"*/{library}"], text=True, capture_output=True,
                               check=True).stdout
        # Other architectures' packages have files of the same name.
        owners = {line.split(":")[0] for line in found.splitlines()}
        # The compiler's own libraries come with everything that is listed.
        installed = set(listed) | {"libc6", "libstdc++6", "libgcc-s1"}
        assert owners & installed, f"{library} is in {owners}"


@pytest.mark.parametrize("role", ["router", "prefill", "decode"])
def test_each_program_accepts_the_configuration_and_environment_of_the_base(role):
    program = BUILD / "bin" / f"baton-{role}"
    if not program.exists():
        pytest.skip(f"{program.name} is not built")
    (container,) = (container for name, _, container in serving(queries.manifests("base"))
                    if name == f"baton-{role}")
    values = {"POD_NAME": f"baton-{role}-0", "POD_IP": "10.0.0.7"}
    environment = {}
    for entry in container["env"]:
        value = entry.get("value", "")
        for name, text in values.items():
            value = value.replace(f"$({name})", text)
        environment[entry["name"]] = value
    config = queries.ROOT / "deploy/kubernetes/base/config/baton.yaml"
    done = subprocess.run([program, "--config", config, "--print-config"], capture_output=True,
                          text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)[role]["node"] == f"baton-{role}-0"
