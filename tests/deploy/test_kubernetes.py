from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml

from tests.deploy.commands import DEFAULTS, DEPLOY, STOP_SECONDS, parsed

FOLDER = DEPLOY / "kubernetes"


def resource(file):
    return yaml.safe_load((FOLDER / file).read_text())


def pod_of(file):
    spec = resource(file)["spec"]
    return spec["jobTemplate"]["spec"]["template"]["spec"] if "jobTemplate" in spec else spec["template"]["spec"]


def container_of(file):
    [container] = pod_of(file)["containers"]
    return container


PODS = ("worker.yaml", "once.yaml")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def test_kubectl_puts_them_together():
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on this machine; the files are read by the tests beside this one")
    done = subprocess.run([kubectl, "kustomize", str(FOLDER)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert {each["kind"] for each in built} == {"Deployment", "PodDisruptionBudget", "CronJob"}
    assert {each["metadata"]["namespace"] for each in built} == {"shop"}


def test_every_file_is_part_of_the_whole():
    listed = set(resource("kustomization.yaml")["resources"])
    assert listed == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}


@pytest.mark.parametrize("file", PODS)
def test_a_pod_has_time_to_stop(file):
    assert pod_of(file)["terminationGracePeriodSeconds"] >= STOP_SECONDS


def test_the_containers_run_commands_that_there_are():
    assert parsed(container_of("worker.yaml")["command"])["verb"] == "worker"
    assert parsed(container_of("once.yaml")["command"])["verb"] == "once"


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_asks_for_the_heartbeat(probe):
    assert parsed(container_of("worker.yaml")[probe]["exec"]["command"])["verb"] == "health"


def test_a_database_that_is_away_makes_a_worker_unready_but_does_not_restart_it():
    patient = {probe: parsed(container_of("worker.yaml")[probe]["exec"]["command"])["patient"] for probe in PROBES}
    assert patient == {"startupProbe": True, "readinessProbe": False, "livenessProbe": True}


def test_a_worker_that_lost_its_lease_has_time_to_take_another():
    probe = container_of("worker.yaml")["livenessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] - 1) > 2 * DEFAULTS.LEASE_SECONDS


@pytest.mark.parametrize("file", PODS)
def test_secrets_come_by_reference_and_none_is_written_down(file):
    container = container_of(file)
    assert {"secretRef": {"name": "shop-database"}} in container["envFrom"]
    assert "env" not in container
    assert not list(FOLDER.glob("*secret*"))


@pytest.mark.parametrize("file", PODS)
def test_a_container_has_no_rights_beyond_its_work(file):
    pod, own = pod_of(file), container_of(file)["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}


def test_a_disruption_takes_one_of_the_workers_at_a_time():
    budget, workers = resource("disruption.yaml")["spec"], resource("worker.yaml")["spec"]
    assert budget["selector"]["matchLabels"] == workers["template"]["metadata"]["labels"]
    assert budget["maxUnavailable"] < workers["replicas"]


def test_rounds_do_not_pile_up():
    spec = resource("once.yaml")["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
