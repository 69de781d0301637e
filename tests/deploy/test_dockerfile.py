"""The Dockerfile: what a linter would say, what the image holds, and that its steps work."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import ingot
from ingot.converters.output.monitoring import MetricsServer
from tests.conftest import SURE
from tests.deploy.manifests import (
    DEPLOY,
    DOCKERFILE,
    ROOT,
    environment,
    pod_templates,
    stages,
    values,
)

BUILD, FINAL = stages()
PODS = pod_templates()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
HEALTHCHECK = DEPLOY / "healthcheck.py"


def arguments(stage):
    """The build arguments of a stage with their defaults."""
    return dict(value.split("=", 1) for value in values(stage, "ARG"))


def test_base_images_are_pinned_and_of_one_python():
    images = [value.split()[0] for stage in stages() for value in values(stage, "FROM")]
    versions = [re.fullmatch(r"python:(3\.\d+\.\d+)(-slim)?-[a-z]+", image) for image in images]
    assert all(versions), images
    assert len({found[1] for found in versions}) == 1, "the environment is copied as it is"
    assert versions[-1][2] == "-slim"


def test_last_stage_installs_nothing_and_no_stage_is_careless():
    for stage in stages():
        for run in values(stage, "RUN"):
            assert not re.search(r"\b(sudo|curl|wget)\b", run)
            if "apt-get install" in run:
                assert "--no-install-recommends" in run
                assert "rm -rf /var/lib/apt/lists" in run
        assert values(stage, "ADD") == []
        assert all(value.startswith("/") for value in values(stage, "WORKDIR"))
    assert not re.search(r"\b(apt-get|pip|gcc)\b", " ".join(values(FINAL, "RUN")))


def test_image_runs_as_a_user_with_a_fixed_number():
    (user,) = values(FINAL, "USER")
    number, group = user.split(":")
    assert number == group
    assert int(number) >= 10_000, "not a user of a host by chance"
    (made,) = (run for run in values(FINAL, "RUN") if "useradd" in run)
    assert f"--uid {number} --user-group" in " ".join(made.split())
    assert f"--home-dir {environment(FINAL)['HOME']} " in made
    after = FINAL[[one.name for one in FINAL].index("USER") :]
    assert [one for one in after if one.name in ("RUN", "COPY")] == []


def test_one_entry_point_and_one_command_without_a_shell():
    assert [json.loads(value) for value in values(FINAL, "ENTRYPOINT")] == [["ingot"]]
    assert [json.loads(value) for value in values(FINAL, "CMD")] == [["--help"]]
    assert "ingot" in PROJECT["project"]["scripts"]


def test_labels_and_arguments_agree_with_the_project():
    labels = dict(word.split("=", 1) for word in shlex.split(values(FINAL, "LABEL")[0]))
    assert labels["org.opencontainers.image.licenses"] == PROJECT["project"]["license"]
    assert arguments(FINAL)["VERSION"] == ingot.__version__
    for name in ("version", "revision"):
        assert labels[f"org.opencontainers.image.{name}"] == f"${{{name.upper()}}}"
    extras = arguments(BUILD)["EXTRAS"].split(",")
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])


def test_image_holds_no_secret():
    names = {*environment(FINAL), *environment(BUILD), *arguments(FINAL), *arguments(BUILD)}
    assert [name for name in names if re.search("KEY|TOKEN|SECRET|PASSWORD", name)] == []


def test_kernels_are_looked_for_where_the_build_compiled_them():
    for name in ("NUMBA_CPU_NAME", "NUMBA_CACHE_DIR"):
        assert environment(FINAL)[name] == environment(BUILD)[name]
    folder = environment(FINAL)["NUMBA_CACHE_DIR"]
    assert f"--from=builder {folder} {folder}" in values(FINAL, "COPY")


def copied():
    """Sources in the build context of every COPY, with the folder that they go to."""
    for stage in stages():
        for value in values(stage, "COPY"):
            *sources, target = value.split()
            if not value.startswith("--from="):
                yield from ((source, target) for source in sources)


def test_everything_copied_exists_and_is_sent_to_the_builder():
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    sources = {source for source, _ in copied()}
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert sources == sent


def test_every_package_and_file_that_the_wheel_needs_is_copied():
    needed = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    needed |= {"ingot"}
    needed |= {link.resolve().name for link in (ROOT / "ingot").iterdir() if link.is_symlink()}
    assert needed <= {source for source, _ in copied()}


@pytest.mark.skipif(not shutil.which("hadolint"), reason="hadolint is not installed")
def test_hadolint_has_nothing_to_say():
    run = subprocess.run(["hadolint", str(DOCKERFILE)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def check_health(port):
    """What the health check of the image ends with and says."""
    (value,) = values(FINAL, "HEALTHCHECK")
    command = json.loads(value[value.index("[") :])
    assert command[0] == "python"
    assert ("deploy/healthcheck.py", command[1]) in set(copied())
    run = subprocess.run(
        [sys.executable, str(HEALTHCHECK)],
        env={"INGOT_METRICS_PORT": str(port)},
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stderr


@pytest.mark.parametrize(
    ("trouble", "code", "said"),
    [(None, 0, ""), ("no batch was finished for 300 s", 1, "no batch was finished for 300 s")],
)
def test_health_is_what_the_job_says(trouble, code, said):
    server = MetricsServer("127.0.0.1", 0, CollectorRegistry(), lambda: trouble)
    with closing(server):
        found, text = check_health(server.port)
    assert found == code
    assert said in text
    assert bool(text) == bool(trouble)


def test_a_command_that_serves_nothing_is_healthy():
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        assert check_health(free.getsockname()[1]) == (0, "")


@pytest.mark.parametrize("link", ["tcp://10.0.0.1:80", "udp://[fd00::1]:53", ""])
def test_a_service_link_is_no_port(link):
    code, text = check_health(link)
    assert "Traceback" not in text
    assert (code, text) == (0, "")


@pytest.mark.more
def test_a_job_that_answers_nothing_is_not_healthy():
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        code, text = check_health(silent.getsockname()[1])
    assert code == 1
    assert "no answer" in text


def test_health_check_gives_up_before_the_engine_does():
    text = HEALTHCHECK.read_text("utf-8")
    (timeout,) = re.findall(r"--timeout=(\d+)s", values(FINAL, "HEALTHCHECK")[0])
    assert int(re.search(r"^TIMEOUT = (\d+)", text, flags=re.M)[1]) < int(timeout)
    (exposed,) = values(FINAL, "EXPOSE")
    assert re.search(r"^USUAL_PORT = (\d+)", text, flags=re.M)[1] == exposed


class Machine:
    """Carries out the steps of the Dockerfile below a folder instead of in a container.

    Every absolute path that the file names lies below the folder. The accounts of this machine
    stay as they are: `useradd` only says what it was asked for.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.variables: dict[str, str] = {}
        self.folder = root
        tools = root / "tools"
        tools.mkdir()
        python = Path(sys.base_prefix) / "bin/python3"
        (tools / "python").symlink_to(python)
        (tools / "useradd").write_text(f'#!/bin/sh\necho "$@" >> {root}/accounts\n')
        (tools / "useradd").chmod(0o755)
        passed = ("PIP_", "SSL_", "REQUESTS_", "HTTP_", "HTTPS_", "NO_PROXY", "http", "no_proxy")
        kept = {name: value for name, value in os.environ.items() if name.startswith(passed)}
        self.env = kept | {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(root)}

    def inside(self, text: str) -> str:
        """The text with its absolute paths below the folder."""
        return re.sub(r"(?<![\w.})/~-])/(?=(opt|src|data|var/lib/ingot)\b)", f"{self.root}/", text)

    def carry_out(self, stage) -> None:
        """Carry out the instructions of a stage."""
        for name, value in stage:
            match name:
                case "ARG":
                    key, _, default = value.partition("=")
                    self.variables[key] = default.strip('"')
                case "ENV":
                    for word in shlex.split(value):
                        key, text = word.split("=", 1)
                        self.env[key] = self.inside(text).replace("$PATH", self.env["PATH"])
                case "WORKDIR":
                    self.folder = Path(self.inside(value))
                    self.folder.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self.copy(value.split())
                case "RUN":
                    self.run(["sh", "-c", self.inside(re.sub(r"^(--mount=\S+\s+)+", "", value))])

    def copy(self, words: list[str]) -> None:
        """Copy from the top folder; what another stage made is there already."""
        if words[0] == "--from=builder":
            assert words[1] == words[2]
            assert Path(self.inside(words[1])).is_dir()
            return
        *sources, target = words
        place = self.folder / self.inside(target)
        for source in map(ROOT.joinpath, sources):
            ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
            if source.is_dir():
                shutil.copytree(source, place, symlinks=True, ignore=ignore)
            else:
                shutil.copy(source, place)

    def run(self, command: list[str]) -> str:
        """Run a command to its end; give what it printed."""
        env = self.variables | self.env
        run = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)
        assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
        return run.stdout


@pytest.mark.long
def test_steps_make_an_ingot_that_works(tmp_path):
    machine = Machine(tmp_path)
    for stage in stages():
        machine.carry_out(stage)
    entry = json.loads(values(FINAL, "ENTRYPOINT")[0])
    assert "Usage: ingot" in machine.run([*entry, *json.loads(values(FINAL, "CMD")[0])])
    assert (tmp_path / "accounts").read_text().startswith("--uid 10001")

    kernels = {file.name for file in (tmp_path / "opt/kernels").rglob("*.nb?")}
    assert kernels
    listed = machine.run(["python", "-m", "pip", "list", "--format=freeze"])
    for package in ("numba", "gigatoken", "fastokens", "protobuf"):
        assert f"{package}==" in listed
    assert "torch==" not in listed

    raw = machine.folder / "set.jsonl"
    rows = [
        {"question": f"How much is {n} plus {n}?", "answer": f"It is {2 * n}."} for n in range(50)
    ]
    raw.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    machine.run([*entry, "run", "set.jsonl", "--out", "out", *SURE, "--mapper", "rules"])
    assert json.loads((machine.folder / "out/manifest.json").read_text())["rows"]["read"] == 50
    (health,) = values(FINAL, "HEALTHCHECK")
    machine.run(json.loads(machine.inside(health[health.index("[") :])))
    # The kernels that are there serve: nothing is compiled again.
    machine.run([*entry, "warm"])
    assert {file.name for file in (tmp_path / "opt/kernels").rglob("*.nb?")} == kernels


@pytest.mark.parametrize(("code", "ends"), [(5, 0), (0, 0), (1, 1), (3, 3), (4, 4), (143, 143)])
def test_a_part_that_is_done_is_a_success_for_a_pod(code, ends, monkeypatch):
    (convert,) = PODS["ingot-convert"]["spec"]["containers"]
    assert ("deploy/part.py", convert["command"][-1]) in set(copied())
    module = spec_from_file_location("part", DEPLOY / "part.py")
    part = module_from_spec(module)
    module.loader.exec_module(part)
    monkeypatch.setattr(part, "main", lambda: sys.exit(code))
    with pytest.raises(SystemExit) as ended:
        part.run_part()
    assert ended.value.code == ends


def test_the_default_image_writes_to_buckets():
    assert "s3" in arguments(BUILD)["EXTRAS"].split(",")
