"""The Kubernetes manifests and the compose file: valid, consistent, and as strict as they say."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

import ingot
from tests.deploy.manifests import (
    DEPLOY,
    DOCKERFILE,
    K8S,
    compose,
    environment,
    named,
    objects,
    of_kind,
    pod_templates,
    stages,
    values,
)

SCHEMAS = {
    file.name.partition(".")[0]: json.loads(file.read_text("utf-8"))
    for file in (Path(__file__).parent / "schemas").glob("*.json")
}
# The oldest version that deploy/README.md names, and the newest whose schemas there are.
VERSIONS = ("1.31", kubernetes_validate.latest_version())
PODS = pod_templates()
OBJECTS = [pytest.param(one, id=f"{one['kind']} {one['metadata']['name']}") for one in objects()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", OBJECTS)
def test_manifests_follow_their_schemas(manifest, version):
    if schema := SCHEMAS.get(manifest["kind"].lower()):
        jsonschema.validate(manifest, schema)
    else:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_every_schema_is_used():
    assert set(SCHEMAS) <= {one["kind"].lower() for one in objects()}


def test_schemas_refuse_unknown_fields():
    changed = named("RayJob", "ingot-ray")
    changed["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParameters"] = {}
    with pytest.raises(jsonschema.ValidationError, match="rayStartParameters"):
        jsonschema.validate(changed, SCHEMAS["rayjob"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", PODS)
def test_pod_templates_are_pods(name, version):
    pod = {"apiVersion": "v1", "kind": "Pod", **PODS[name]}
    pod["metadata"] = {**pod["metadata"], "name": "one"}
    kubernetes_validate.validate(pod, version, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_pods_run_without_privileges(name):
    spec = PODS[name]["spec"]
    security = spec["securityContext"]
    (user,) = values(stages()[-1], "USER")
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == user
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("name", PODS)
def test_pods_can_write_where_ingot_needs_it(name):
    spec = PODS[name]["spec"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    (container,) = spec["containers"]
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert {one["name"] for one in mounts.values()} == set(volumes)
    for folder in ("/tmp", environment(stages()[-1])["HOME"]):
        assert volumes[mounts[folder]["name"]]["emptyDir"] == {}
    claims = [
        one["persistentVolumeClaim"]["claimName"]
        for one in volumes.values()
        if "persistentVolumeClaim" in one
    ]
    assert [named("PersistentVolumeClaim", claim)["kind"] for claim in claims]


@pytest.mark.parametrize("name", PODS)
def test_pods_have_limits_and_time_to_stop(name):
    spec = PODS[name]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 30
    for container in spec["containers"]:
        assert container["image"] == f"ingot:{ingot.__version__}"
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert set(requests) == set(limits) == {"cpu", "memory", "ephemeral-storage"}
        assert requests["memory"] == limits["memory"]


@pytest.mark.parametrize("name", PODS)
def test_configuration_is_mounted_where_the_variable_says(name):
    (container,) = PODS[name]["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    generated = yaml.safe_load((K8S / "kustomization.yaml").read_text("utf-8"))
    (config,) = generated["configMapGenerator"]
    volumes = {one["name"]: one for one in PODS[name]["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == config["name"]
    assert [f"{mounts['config']}/{file}" for file in config["files"]] == [env["INGOT_CONFIG"]]
    assert generated["generatorOptions"]["disableNameSuffixHash"] is True


def job_specs():
    """The specs of all Jobs, also those that a CronJob makes."""
    found = {one["metadata"]["name"]: one["spec"] for one in of_kind("Job")}
    crons = of_kind("CronJob")
    return found | {one["metadata"]["name"]: one["spec"]["jobTemplate"]["spec"] for one in crons}


@pytest.mark.parametrize("name", job_specs())
def test_jobs_try_again_only_where_that_helps(name):
    spec = job_specs()[name]
    wrong, disrupted = spec["podFailurePolicy"]["rules"]
    assert wrong["action"] == "FailJob"
    assert wrong["onExitCodes"]["operator"] == "In"
    assert wrong["onExitCodes"]["values"] == [1, 2, 3]
    assert (
        wrong["onExitCodes"]["containerName"] == spec["template"]["spec"]["containers"][0]["name"]
    )
    assert disrupted["action"] == "Ignore"
    assert disrupted["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    # Any other exit code, such as 137 and 143, counts against this.
    assert spec.get("backoffLimitPerIndex", spec.get("backoffLimit")) == 3
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_shards_of_the_job_are_the_shards_of_the_command():
    spec = named("Job", "ingot-convert")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    shard = container["args"][container["args"].index("--shard") + 1]
    assert spec["completionMode"] == "Indexed"
    assert shard == f"$(JOB_COMPLETION_INDEX)/{spec['completions']}"
    assert spec["parallelism"] <= spec["completions"]


def test_merge_names_the_destination_of_the_conversion():
    convert, merge = PODS["ingot-convert"]["spec"], PODS["ingot-merge"]["spec"]
    args = convert["containers"][0]["args"]
    assert merge["containers"][0]["args"] == ["merge", args[args.index("--out") + 1]]
    assert merge["volumes"] == convert["volumes"]


def test_many_nodes_can_mount_the_results():
    claims = {
        one["metadata"]["name"]: one["spec"]["accessModes"]
        for one in of_kind("PersistentVolumeClaim")
    }
    assert claims == {"ingot-data": ["ReadWriteMany"], "ingot-lake": ["ReadWriteOnce"]}
    users = {
        name
        for name, pod in PODS.items()
        if any(
            one.get("persistentVolumeClaim", {}).get("claimName") == "ingot-lake"
            for one in pod["spec"]["volumes"]
        )
    }
    assert users == {"ingot-lake"}


def test_image_of_the_ray_cluster_can_hold_its_version_of_ray():
    (job,) = of_kind("RayJob")
    wanted = f"ray[default]=={job['spec']['rayClusterSpec']['rayVersion']}"
    for file in (DOCKERFILE, K8S / "ray-job.yaml", DEPLOY / "README.md"):
        assert wanted in file.read_text("utf-8"), file


def test_ray_head_offers_the_ports_that_the_operator_needs():
    (container,) = PODS["ingot-ray head"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {"gcs-server": 6379, "dashboard": 8265, "ingot-metrics": 9464}


def test_the_jobs_of_ray_are_taken_from_few():
    policy = named("NetworkPolicy", "ingot")["spec"]
    labels = policy["podSelector"]["matchLabels"]
    for pod in PODS.values():
        assert labels.items() <= pod["metadata"]["labels"].items()
    within, metrics, operator = policy["ingress"]
    assert within == {"from": [{"podSelector": {"matchLabels": labels}}]}
    assert [one["port"] for one in metrics["ports"]] == ["ingot-metrics"]
    assert [one["port"] for one in operator["ports"]] == [8265]
    assert all("podSelector" in one for one in operator["from"])
    kustomization = yaml.safe_load((K8S / "kustomization.yaml").read_text("utf-8"))
    assert "network.yaml" in kustomization["resources"]


def test_everything_is_in_one_namespace():
    (namespace,) = of_kind("Namespace")
    kustomization = yaml.safe_load((K8S / "kustomization.yaml").read_text("utf-8"))
    named_here = {one["metadata"].get("namespace") for one in objects()} - {None}
    assert named_here == {kustomization["namespace"]} == {namespace["metadata"]["name"]}
    enforced = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"


def test_no_manifest_holds_a_key():
    for file in [*K8S.glob("*"), DEPLOY / "compose.yaml"]:
        assert "kind: Secret" not in file.read_text("utf-8")
    services = compose()["services"]
    keys = {
        key: value
        for one in services.values()
        for key, value in one.get("environment", {}).items()
        if key.endswith("_KEY")
    }
    assert keys == {"OPENAI_API_KEY": None}, "taken from the environment"


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kustomization_builds():
    built = subprocess.run(
        ["kubectl", "kustomize", str(K8S)], capture_output=True, text=True, check=True
    ).stdout
    found = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(built)}
    assert found == {
        ("Namespace", "ingot"),
        ("NetworkPolicy", "ingot"),
        ("ConfigMap", "ingot-config"),
        ("PersistentVolumeClaim", "ingot-data"),
        ("PersistentVolumeClaim", "ingot-lake"),
    }


@pytest.mark.more
def test_compose_file_follows_the_specification():
    vendored = files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    jsonschema.validate(compose(), json.loads(vendored.read_text("utf-8")))


def test_compose_services_are_pinned_checked_and_restricted():
    services = compose()["services"]
    for name, service in services.items():
        tag = service["image"].rpartition(":")[2]
        assert tag.count(".") == 2, f"{name}: pinned by version"
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        for other, state in service.get("depends_on", {}).items():
            if state["condition"] == "service_healthy":
                assert services[other]["healthcheck"]["test"]
    ours = services["ingot"]
    assert ours["image"] == f"ingot:{ingot.__version__}"
    assert ours["read_only"] is True
    assert (DEPLOY / ours["build"]["context"] / ours["build"]["dockerfile"]).resolve() == DOCKERFILE
    mounted = {
        one.rpartition("}:")[2].split(":")[-1] if "}" in one else one.split(":")[1]
        for one in ours["volumes"]
    }
    assert environment(stages()[-1])["INGOT_HOME"] in mounted
