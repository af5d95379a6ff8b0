"""Holds the manifests of packaging/kubernetes, and what `railwise topo export` writes for dra and nfd, against a strict
schema of the parts of the APIs that they use (kubernetes_schema.py).

Usage: kubernetes_test.py RAILWISE MACHINES
"""

import copy
import json
import re
import shlex
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import kubernetes_schema as schema  # noqa: E402
from export_runs import expect, export, machines, run, skip  # noqa: E402

try:
    import jsonschema
    import yaml
except ImportError as missing:
    skip(f"{missing.name} is not installed (apt: python3-jsonschema python3-yaml)")

MANIFESTS = Path(__file__).resolve().parents[3] / "packaging" / "kubernetes"
SCRIPTS = MANIFESTS.parent / "container" / "installer"  # in the image


def problems(thing: dict) -> list[str]:
    kind = thing.get("kind")
    if kind == "List":
        return [problem for item in thing["items"] for problem in problems(item)]
    if kind not in schema.KINDS:
        return [f"kind {kind}"]
    errors = jsonschema.Draft7Validator(schema.KINDS[kind]).iter_errors(thing)
    return [f"{kind}: {'/'.join(map(str, error.path))}: {error.message[:120]}" for error in errors]


def pods(thing: dict) -> list[dict]:
    spec = thing.get("spec", {})
    return [spec] if thing["kind"] == "Pod" else [spec["template"]["spec"]] if thing["kind"] in ("Job", "DaemonSet") else []


def check_pod(railwise: str, pod: dict, placeholders: set[str]) -> None:
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod["containers"] + pod.get("initContainers", []):
        expect(container["image"] in placeholders, True, f"README.md explains the image {container['image']}")
        mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
        expect(mounts - volumes, set(), f"volumes of {container['name']}")
        claims = {claim["name"] for claim in container.get("resources", {}).get("claims", [])}
        expect(claims - {claim["name"] for claim in pod.get("resourceClaims", [])}, set(), "claims")
        check_command(railwise, container.get("command", []))


def check_command(railwise: str, command: list[str]) -> None:
    """The shell reads the script, and railwise knows each subcommand and option in it."""
    if command[:1] == ["install.sh"] or command[:1] == ["preflight.sh"]:
        expect((SCRIPTS / command[0]).exists(), True, command[0])
        command = ["railwise", "doctor", *command[1:]] if command[0] == "preflight.sh" else []
    script = command[2] if command[:2] == ["sh", "-ec"] else shlex.join(command)
    expect(run(["sh", "-n", "-c", script]).returncode, 0, f"sh -n of {script}")
    for line in script.splitlines():
        if line.strip().startswith("railwise "):
            done = run([railwise, *shlex.split(line)[1:], "--help"])
            expect((done.returncode, done.stdout.startswith("usage: ")), (0, True), f"{line.strip()}: {done.stderr}")


def check_installer(railwise: str) -> None:
    """The scripts of the DaemonSet, with folders of the test for those of the host, and a software machine for the node."""
    things = yaml.safe_load_all((MANIFESTS / "installer.yaml").read_text())
    pod = next(pods(thing)[0] for thing in things if thing["kind"] == "DaemonSet")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for made in ("bin", "host/opt", "features.d", "usr/lib/x86_64-linux-gnu"):
            (folder / made).mkdir(parents=True)
        inside = re.compile(r"(?<![\w/])/(?=host/|features\.d|usr/lib/\*)")
        programs = {"railwise": f'#!/bin/sh\ncase $1 in topo) set -- "$@" --machine dgx ;; esac\nexec {railwise} "$@"\n',
                    "install.sh": inside.sub(f"{folder}/", (SCRIPTS / "install.sh").read_text())}
        for program, text in programs.items():
            (folder / "bin" / program).write_text(text)
            (folder / "bin" / program).chmod(0o755)
        (folder / "usr/lib/x86_64-linux-gnu/libnccl-net-railwise.so").write_text("a library")
        for container in pod["initContainers"]:
            settings = {row["name"]: row["value"] for row in container.get("env", [])}
            for _ in range(2):  # a restart finds its own files
                done = run([inside.sub(f"{folder}/", word) for word in container["command"]], PATH=f"{folder}/bin:/usr/bin:/bin", **settings)
                expect(done.returncode, 0, f"{container['name']}: {done.stderr}")
        opt = folder / "host/opt/railwise"
        expect((opt / "lib/libnccl-net-railwise.so").read_text(), "a library", "the plugin")
        sourced = run(["sh", "-ec", f". {opt}/railwise-env.sh; echo $NCCL_NET_PLUGIN $LD_LIBRARY_PATH"], PATH="/usr/bin:/bin")
        expect(sourced.stdout, "railwise /opt/railwise/lib\n", "the variables")
        expect("topo export --for env" in (opt / "railwise-env.sh").read_text(), True, "the variables of the node")
        expect(labels_of((folder / "features.d/railwise").read_text())["railwise.gpus"], "8", "the labels")
        left = [path.name for path in folder.rglob("*") if path.name.startswith(".") or ".new." in path.name]
        expect(left, [], "temporary files")


def check_manifests(railwise: str) -> dict[str, int]:
    readme = (MANIFESTS / "README.md").read_text()
    placeholders = set(re.findall(r"^\| `([^`]+)` \|", readme, re.M))
    counts = {}
    for file in sorted(MANIFESTS.glob("*.yaml")):
        expect(f"`{file.name}`" in readme, True, f"README.md names {file.name}")
        things = list(yaml.safe_load_all(file.read_text()))
        for thing in things:
            expect(problems(thing), [], file.name)
            for pod in pods(thing):
                check_pod(railwise, pod, placeholders)
            if thing["kind"] == "DaemonSet":
                labels = thing["spec"]["template"]["metadata"]["labels"].items()
                expect(thing["spec"]["selector"]["matchLabels"].items() <= labels, True, "selector of the DaemonSet")
        counts[file.name] = len(things)
    expect(len(counts) >= 4, True, "manifests")
    return counts


def labels_of(text: str) -> dict[str, str]:
    """As NFD reads a feature file: comments and empty lines aside, NAME=VALUE."""
    lines = [line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#")]
    expect(len({name for name, _ in lines}), len(lines), "a label twice")
    return dict(lines)


def check_labels(railwise: str, machine: Path) -> dict[str, str]:
    text = export(railwise, machine, "nfd")
    expect(any(line.startswith("# +") for line in text.splitlines()), False, "a directive to NFD by mistake")
    labels = {f"feature.node.kubernetes.io/{name}": value for name, value in labels_of(text).items()}
    expect(list(jsonschema.Draft7Validator(schema.LABELS).iter_errors(labels)), [], f"labels of {machine.name}")
    return labels


def check_rules_name_labels(known: set[str]) -> None:
    rules = yaml.safe_load((MANIFESTS / "nodefeaturerule.yaml").read_text())["spec"]["rules"]
    used = {name for rule in rules for match in rule["matchFeatures"] for name in match["matchExpressions"]}
    expect({f"feature.node.kubernetes.io/{name}" for name in used} - known, set(), "labels that rules use")
    selectors = yaml.safe_load((MANIFESTS / "preflight.yaml").read_text())["spec"]["template"]["spec"]["nodeSelector"]
    expect(set(selectors) - known, set(), "labels that the job selects")


def check_slice(railwise: str, machine: Path) -> dict:
    slice_ = json.loads(export(railwise, machine, "dra", "--node", "node-1"))
    expect(problems(slice_), [], f"slice of {machine.name}")
    names = [device["name"] for device in slice_["spec"]["devices"]]
    expect(len(set(names)), len(names), f"device names of {machine.name}")
    return slice_


def check_long_names(railwise: str, machine: Path) -> None:
    """Nodes whose names are as long as Kubernetes lets them be have slices of different names, within the limit."""
    names = set()
    for last in "12":
        node = ".".join(["n" * 63] * 3 + ["n" * 60 + last])
        slice_ = json.loads(export(railwise, machine, "dra", "--node", node, "--driver", "topology.example.com"))
        expect(problems(slice_), [], "slice of a node with a long name")
        expect(slice_["spec"]["nodeName"], node, "the node")
        names.add(slice_["metadata"]["name"])
    expect(len(names), 2, f"names of slices {names}")


def check_expressions(slices: list[dict]) -> None:
    """The attributes in the expressions of dra.yaml are those that the exports have."""
    known = {name for slice_ in slices for device in slice_["spec"]["devices"] for name in device["attributes"]}
    text = (MANIFESTS / "dra.yaml").read_text()
    used = set(re.findall(r'attributes\["[^"]+"\]\.(\w+)', text)) | set(re.findall(r"matchAttribute: (\S+)", text))
    expect(bool(used) and used <= known, True, f"{used} among {known}")


def check_that_the_schema_refuses(slice_: dict) -> None:
    def refused(change) -> bool:
        wrong = copy.deepcopy(slice_)
        change(wrong["spec"]["devices"][0], wrong)
        return bool(problems(wrong))

    changes = {
        "a name with a capital": lambda device, _: device.update(name="GPU-0"),
        "33 attributes": lambda device, _: device["attributes"].update({f"a{i}": {"int": i} for i in range(33)}),
        "a long text": lambda device, _: device["attributes"].update(model={"string": "x" * 65}),
        "two types": lambda device, _: device["attributes"].update(index={"int": 1, "string": "1"}),
        "a version of two numbers": lambda device, _: device["attributes"].update(v={"version": "9.0"}),
        "a name with a dash": lambda device, _: device["attributes"].update({"path-type": {"string": "PIX"}}),
        "an unknown field": lambda device, _: device.update(basic={}),
        "no pool": lambda _, whole: whole["spec"].pop("pool"),
    }
    for what, change in changes.items():
        expect(refused(change), True, f"the schema refuses {what}")


def main(railwise: str, folder: Path) -> None:
    counts = check_manifests(railwise)
    check_installer(str(Path(railwise).resolve()))
    found = machines(folder)
    known = set().union(*(check_labels(railwise, machine) for machine in found))
    check_rules_name_labels(known)
    slices = [check_slice(railwise, machine) for machine in found]
    check_long_names(railwise, found[0])
    check_expressions(slices)
    check_that_the_schema_refuses(slices[0])
    print(f"manifests {counts}; {len(known)} labels and {len(slices)} slices of {len(found)} machines are valid")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
