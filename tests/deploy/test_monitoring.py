"""Alerts and dashboard ask for metrics that exist, in PromQL that parses."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.request import urlopen

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ingot.cli.job_watch import JobWatch, Watching
from ingot.converters.megatron.messages import BuildMeter
from tests.deploy.manifests import DEPLOY, named, of_kind, pod_templates, stages, values

DASHBOARD = json.loads((DEPLOY / "grafana/ingot.json").read_text("utf-8"))
RULES = [
    rule
    for one in of_kind("PrometheusRule")
    for group in one["spec"]["groups"]
    for rule in group["rules"]
]
# Metrics of others: kube-state-metrics, cAdvisor, the KubeRay operator.
FOREIGN = {
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "kube_cronjob_status_last_successful_time",
    "kube_job_failed",
    "kuberay_job_deployment_status",
}
VARIABLES = {"$__rate_interval": "5m", "$namespace": "ingot"}


def expressions() -> dict[str, str]:
    """Every expression by the alert or panel that asks for it."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in RULES}
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found[f"panel {panel['title']} {target['refId']}"] = expression
    return found


def metrics_of(expression: promql_parser.Expr) -> set[str]:
    """The names of the metrics that an expression selects."""
    found: set[str] = set()

    def visit(one: object) -> bool:
        if isinstance(one, promql_parser.VectorSelector):
            found.add(one.name)
        elif isinstance(one, promql_parser.MatrixSelector):
            found.add(one.vector_selector.name)
        return True

    promql_parser.walk(expression, visit)
    return found


def metrics_of_jobs() -> set[str]:
    """The names that a job serves on its port, those of a token build among them."""
    with JobWatch("tokens build", Watching(port=0)) as watch:
        meter = BuildMeter(watch)
        meter({"kind": "plan", "bytes": 1, "files": 1, "units": 1})
        with urlopen(f"http://127.0.0.1:{watch.port}/metrics", timeout=30) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in families}


@pytest.mark.parametrize("where", expressions())
def test_expressions_select_metrics_that_exist(where):
    selected = metrics_of(promql_parser.parse(expressions()[where]))
    assert selected
    selected -= FOREIGN
    assert not selected or selected <= metrics_of_jobs()


def test_an_unknown_metric_is_found_in_any_part_of_an_expression():
    text = 'sum by (pod) (rate(a_total{x="y"}[5m])) / b > 0.1 and time() - c > max_over_time(d[1h])'
    assert metrics_of(promql_parser.parse(text)) == {"a_total", "b", "c", "d"}


def test_alerts_say_what_happened_and_what_to_do():
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    readme = (DEPLOY / "README.md").read_text("utf-8")
    assert [name for name in names if f"`{name}`" not in readme] == []


def test_panels_have_their_own_place():
    cells: list[tuple[int, int]] = []
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        across = range(place["x"], place["x"] + place["w"])
        cells += [(x, y) for x in across for y in range(place["y"], place["y"] + place["h"])]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_dashboard_uses_the_variables_that_it_defines():
    defined = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD))) == defined


@pytest.mark.more
def test_monitor_scrapes_the_port_that_the_jobs_serve():
    (monitor,) = of_kind("ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    service = named("Service", "ingot-metrics")
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    (port,) = service["spec"]["ports"]
    assert endpoint["port"] == port["name"] == port["targetPort"]
    labels = service["spec"]["selector"].items()
    served = {}
    for name, template in pod_templates().items():
        assert labels <= template["metadata"]["labels"].items()
        (container,) = template["spec"]["containers"]
        ports = {one["name"]: one["containerPort"] for one in container.get("ports", [])}
        if endpoint["port"] in ports:
            served[name] = str(ports[endpoint["port"]])
    assert set(served) == {"ingot-convert", "ingot-lake", "ingot-ray head"}
    assert set(served.values()) == set(values(stages()[-1], "EXPOSE"))
    for name in ("ingot-convert", "ingot-lake"):
        args = pod_templates()[name]["spec"]["containers"][0]["args"]
        assert args[args.index("--metrics-port") + 1] == served[name]
    ray = named("RayJob", "ingot-ray")["spec"]["entrypoint"]
    assert f"--metrics-port {served['ingot-ray head']}" in ray


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_alerts_fire_when_they_should(tmp_path):
    (rules,) = of_kind("PrometheusRule")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules["spec"]), "utf-8")
    shutil.copy(Path(__file__).parent / "alerts.yaml", tmp_path)
    run = subprocess.run(
        ["promtool", "test", "rules", "alerts.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
