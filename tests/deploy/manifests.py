"""What stands in deploy/: Kubernetes objects, pods, containers, services, and their commands."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
K8S = DEPLOY / "k8s"
DOCKERFILE = DEPLOY / "Dockerfile"
NOT_OBJECTS = ("kustomization.yaml",)

Object = dict[str, Any]


def objects() -> list[Object]:
    """Every object of every manifest."""
    files = [file for file in sorted(K8S.glob("*.yaml")) if file.name not in NOT_OBJECTS]
    return [one for file in files for one in yaml.safe_load_all(file.read_text("utf-8"))]


def of_kind(kind: str) -> list[Object]:
    """The objects of a kind."""
    return [one for one in objects() if one["kind"] == kind]


def named(kind: str, name: str) -> Object:
    """The object of this kind and name."""
    (found,) = (one for one in of_kind(kind) if one["metadata"]["name"] == name)
    return found


def pod_templates() -> dict[str, Object]:
    """Every pod template by the name of its object; those of a RayJob by their group too."""
    found = {one["metadata"]["name"]: one["spec"]["template"] for one in of_kind("Job")}
    for one in of_kind("CronJob"):
        found[one["metadata"]["name"]] = one["spec"]["jobTemplate"]["spec"]["template"]
    for one in of_kind("RayJob"):
        cluster, name = one["spec"]["rayClusterSpec"], one["metadata"]["name"]
        found[f"{name} head"] = cluster["headGroupSpec"]["template"]
        for group in cluster["workerGroupSpecs"]:
            found[f"{name} {group['groupName']}"] = group["template"]
    return found


def compose() -> Object:
    """The compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


class Instruction(NamedTuple):
    """An instruction of a Dockerfile; continued lines are one."""

    name: str
    value: str


def stages() -> list[list[Instruction]]:
    """The instructions of the Dockerfile, by stage; each begins with FROM."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text("utf-8"), flags=re.M)
    lines = filter(None, (line.strip() for line in text.replace("\\\n", " ").splitlines()))
    found: list[list[Instruction]] = []
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append(Instruction(name, value.strip()))
    return found


def values(stage: list[Instruction], name: str) -> list[str]:
    """What stands behind every instruction of a name."""
    return [one.value for one in stage if one.name == name]


def environment(stage: list[Instruction]) -> dict[str, str]:
    """The variables that a stage sets, unexpanded."""
    words = (word for value in values(stage, "ENV") for word in shlex.split(value))
    return dict(word.split("=", 1) for word in words)


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ingot: where it stands, and its words behind `ingot`."""
    for name, template in pod_templates().items():
        for container in template["spec"]["containers"]:
            if args := container.get("args"):
                yield name, args
    for one in of_kind("RayJob"):
        program, *words = shlex.split(one["spec"]["entrypoint"])
        assert program == "ingot"
        yield one["metadata"]["name"], words
    service = compose()["services"]["ingot"]
    yield "compose", service["command"]
    for stage in stages():
        for run in values(stage, "RUN"):
            for words in re.findall(r"\bingot +([a-z][^;&|]*)", run):
                yield "Dockerfile", shlex.split(words)
    (default,) = values(stages()[-1], "CMD")
    yield "Dockerfile", json.loads(default)


def variables() -> Iterator[tuple[str, str]]:
    """Every variable that begins with INGOT_: where it is set, and its name."""
    for name, template in pod_templates().items():
        for container in template["spec"]["containers"]:
            yield from ((name, one["name"]) for one in container.get("env", []))
    yield from (("compose", one) for one in compose()["services"]["ingot"]["environment"])
    yield from (("Dockerfile", one) for stage in stages() for one in environment(stage))
