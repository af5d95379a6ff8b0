"""railwise.topology beside the command's JSON, on every machine of tests/topo/machines; errors; threads; memory."""
import dataclasses
import gc
import shutil
import subprocess
import threading

import pytest
from conftest import MACHINES, machines

import railwise
from railwise import topology


def load(name, **options):
    path = MACHINES / name
    return topology.load(root=path, **options) if name.endswith(".tar.gz") else topology.load(path, **options)


def words_of(name):
    path = MACHINES / name
    return ["--root", path, "--quiet"] if name.endswith(".tar.gz") else [path, "--quiet"]


@pytest.fixture
def dgx1v():
    return load("synthetic/dgx1v.xml")


def load_or_refuse(name, cli):
    """None: the command refuses the machine in these words."""
    try:
        return load(name)
    except railwise.Error as error:
        assert str(error) in cli.refusal("topo", "show", *words_of(name), "--format", "json")
        return None


@pytest.mark.parametrize("name", machines())
def test_every_machine_answers_as_the_command(name, cli):
    machine = load_or_refuse(name, cli)
    if machine is None:
        return
    facts = cli("topo", "show", *words_of(name), "--format", "json")
    # The command says first whose rules it has chosen.
    facts["remarks"] = [remark for remark in facts["remarks"] if not remark.startswith(("the rules of NCCL", "RCCL's rules"))]
    assert machine.json() == facts
    assert [gpu.busid for gpu in machine.gpus] == [gpu["busid"] for gpu in facts["gpus"]]
    assert [nic.name for nic in machine.nics] == [net["name"] for net in facts["nets"]]
    rows = [[path.source, path.target, path.type, path.gb_per_s, path.hops] for path in machine.paths]
    assert rows == [row[:5] for row in facts["gpu_net"] + facts["gpu_gpu"]]


@pytest.mark.parametrize("name", machines())
def test_every_gpu_has_the_nics_of_explain(name, cli):
    machine = load_or_refuse(name, cli)
    if machine is None:
        return
    explained = machine.explain_json()
    if not machine.json()["completed"]:  # else the command knows more of some clouds' GPUs than their files tell
        assert explained == cli("explain", *words_of(name), "--format", "json")
    for gpu in explained["gpus"]:
        if gpu.get("error"):
            with pytest.raises(railwise.Error):
                machine.nic_of(gpu["rank"])
            continue
        assert [nic.id for nic in machine.nics_of(gpu["rank"])] == gpu["channel_nets"]
        assert machine.nic_of(gpu["rank"]).id == gpu["channel_nets"][0]
        if len(machine.json()["domains"]) > 1:
            continue  # explain shows a path as it is in its domain, path() as it is in the host
        for chosen in gpu["chosen"]:
            nic = machine.nic(chosen["net"])
            assert machine.path(gpu["rank"], nic).type == chosen["type"]
            direct = machine.gpu_direct(gpu["rank"], nic)
            assert direct.receive == (chosen["gpudirect_receive"]["mode"] > 0)
            assert direct.send_reason == chosen["gpudirect_send"]["reason"]
            assert direct.relay_rank == chosen["proxy_rank"]


@pytest.mark.parametrize("name", machines())
def test_every_machine_picks_as_the_command(name, cli):
    machine = load_or_refuse(name, cli)
    if machine is None:
        return
    for count in {1, max(1, len({gpu.busid for gpu in machine.gpus}) // 2)}:
        answer = cli("gpus", "pick", count, *words_of(name), "--json")
        pick = machine.pick(count)
        assert [gpu.rank for gpu in pick.gpus] == answer["gpus"]
        assert [gpu.rank for gpu in pick.ring] == answer["ring"]
        assert pick.nics == {row["gpu"]: row["nic"] for row in answer["nics"]}
        assert (pick.slowest_pair_gb_per_s, pick.all_pairs_gb_per_s, pick.fitness, pick.why) == (
            answer["slowest_pair_gb_per_s"], answer["all_pairs_gb_per_s"], answer["fitness_intra"], answer["why"])


def test_a_gpu_is_called_by_rank_address_or_object(dgx1v):
    gpu = dgx1v.gpu(3)
    assert dgx1v.gpu("00000000:" + gpu.busid[5:].upper()) is gpu
    assert dgx1v.gpu(gpu) is gpu
    assert dgx1v.nic_of(gpu) == dgx1v.nic_of(3) == dgx1v.nic_of(gpu.busid)
    assert dgx1v.nic_of(3).ports == ("mlx5_1:1",)
    assert dgx1v.path(3, "mlx5_1").type == "PIX"
    assert dgx1v.path(0, 3).type == "NVL"


def test_ports_of_merged_and_named_ports():
    nic = load("synthetic/dgx1v.xml").nics[0]
    assert dataclasses.replace(nic, name="mlx5_0+mlx5_1", port=0).ports == ("mlx5_0:1", "mlx5_1:1")
    assert dataclasses.replace(nic, name="mlx4_0:2").ports == ("mlx4_0:2",)


def test_wishes_of_pick(dgx1v):
    assert [gpu.rank for gpu in dgx1v.pick(2, of=[5, 6, 7]).gpus] == [5, 6]
    assert 0 not in [gpu.rank for gpu in dgx1v.pick(4, exclude=[0]).gpus]
    assert set(dgx1v.pick(2, nics=["mlx5_3"]).nics.values()) <= {"mlx5_3"}
    assert dgx1v.pick(4).environment() == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}


@pytest.mark.parametrize("call, said", [
    (lambda: topology.load("/nowhere/topology.xml"), "/nowhere/topology.xml"),
    (lambda: topology.load(root="/nowhere"), "/nowhere"),
    (lambda: topology.load(xml="<system>"), "topology"),
    (lambda: topology.load(xml="<system/>", root="/"), "xml stands alone"),
    (lambda: topology.load("a\0b"), "NUL"),
    (lambda: load("synthetic/dgx1v.xml", nccl="3.0"), "'3.0' is not a release of NCCL"),
    (lambda: load("synthetic/dgx1v.xml", gpu_sm=-1), "gpu_sm"),
    (lambda: load("synthetic/dgx1v.xml").gpu(8), "there is no GPU 8; the ranks are 0 to 7"),
    (lambda: load("synthetic/dgx1v.xml").nic_of(-1), "there is no GPU -1"),
    (lambda: load("synthetic/dgx1v.xml").nic("mlx5_9"), "there is no NIC 'mlx5_9'; there are mlx5_0"),
    (lambda: load("synthetic/dgx1v.xml").path(0, 0), "both ends"),
    (lambda: load("synthetic/dgx1v.xml").pick(9), "9 GPUs are wanted"),
    (lambda: load("synthetic/dgx1v.xml").pick(1, of=[9]), "of: there is no GPU 9; the machine has 0-7"),
    (lambda: load("synthetic/dgx1v.xml").pick(1, of=[]), "empty list"),
    (lambda: load("synthetic/dgx1v.xml").pick(0), "at least one GPU"),
    (lambda: topology.generate(MACHINES / "recorded/cloud-vm.tar.gz", pairing="colour"), "colour"),
])
def test_errors_have_the_message_of_the_library(call, said):
    with pytest.raises(railwise.Error) as error:
        call()
    assert said in str(error.value)


def test_the_release_counts():
    assert load("synthetic/dgx1v.xml", nccl="2.30").nccl == "2.30.7"
    assert load("synthetic/dgx1v.xml").nccl == "2.31.2"
    assert any("2.32" in remark for remark in load("synthetic/dgx1v.xml", nccl="2.32.3").remarks)


def test_the_installed_nccl_tells_its_release(python, tmp_path):
    script = "from railwise._nccl import release_here; print(release_here())"
    assert python("-c", script).stdout == "None\n"
    information = tmp_path / "nvidia_nccl_cu12-2.28.9.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-nccl-cu12\nVersion: 2.28.9\n")
    assert python("-c", f"import sys; sys.path.append({str(tmp_path)!r}); {script}").stdout == "2.28.9\n"


def test_the_loaded_nccl_tells_its_release(python, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    source = tmp_path / "nccl.c"
    source.write_text("int ncclGetVersion(int* version) { *version = 23004; return 0; }\n")
    library = tmp_path / "libnccl.so.2"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o", library, source], check=True)
    script = f"import ctypes; ctypes.CDLL({str(library)!r}); from railwise._nccl import release_here; print(release_here())"
    assert python("-c", script).stdout == "2.30.4\n"


def test_this_machine_is_read_with_the_file_of_nccl():
    """NCCL_TOPO_FILE is laid over this machine; an empty one is none."""
    with pytest.raises(railwise.Error, match="/nowhere.xml"):
        topology.load(variables={"NCCL_TOPO_FILE": "/nowhere.xml"})
    try:
        topology.load(variables={"NCCL_TOPO_FILE": ""})
    except railwise.Error as error:
        assert "no GPU in /" in str(error)


def test_variables_count():
    on = load("synthetic/dgx1v.xml", variables={})
    off = load("synthetic/dgx1v.xml", variables={"NCCL_NET_GDR_LEVEL": "LOC", "HOME": "/root"})
    assert on.gpu_direct(0).receive and not off.gpu_direct(0).receive
    assert "NCCL_NET_GDR_LEVEL" in off.gpu_direct(0).receive_reason
    assert topology.diff(on, on) == ()
    assert "gpudirect" in {difference.kind for difference in topology.diff(on, off)}


def test_texts_lint_and_generate():
    machine = load("synthetic/dgx1v.xml")
    assert "mlx5_0" in machine.matrix() and "<system" in machine.xml() and "</svg>" in machine.svg()
    assert "</html>" in machine.html()
    assert "GPU 1" in machine.explain(1) and "GPU 2 (0000" not in machine.explain(1)
    assert topology.load(xml=machine.xml()).nic_of(1).name == machine.nic_of(1).name
    assert topology.lint(MACHINES / "synthetic/dgx1v.xml").accepted
    report = topology.lint("/nowhere.xml")
    assert not report.accepted and report.findings[0].severity == "error"
    generated = topology.generate(MACHINES / "recorded/cloud-vm.tar.gz", force=True)
    assert "<system" in generated.xml and generated.remarks


def test_visible_gpus(dgx1v):
    def ranks(**variables):
        return [gpu.rank for gpu in dgx1v.visible_gpus(variables)]

    assert ranks() == list(range(8))
    assert ranks(CUDA_VISIBLE_DEVICES="5,2") == [5, 2]
    assert ranks(CUDA_VISIBLE_DEVICES="") == ranks(CUDA_VISIBLE_DEVICES="-1") == []
    assert ranks(CUDA_VISIBLE_DEVICES="3,-1,4") == [3]
    for wrong in ("8", "GPU-1234"):
        with pytest.raises(railwise.Error, match=f"CUDA_VISIBLE_DEVICES names '{wrong}'"):
            ranks(CUDA_VISIBLE_DEVICES=wrong)
    shared = load("synthetic/two-ranks-per-gpu.xml")
    assert len(shared.visible_gpus({})) == len({gpu.busid for gpu in shared.gpus}) < len(shared.gpus)


def test_uuids_name_visible_gpus(dgx1v):
    """UUIDs come from the vendor's library alone, which has one more device for each MIG instance."""
    def device(index, rank, uuid, parent=None):
        return {"index": index, "rank": rank, "uuid": uuid, "parent": parent}

    dgx1v.__dict__["_devices"] = [device(rank, rank, f"GPU-{rank}abc") for rank in range(8)] + [device(8, None, "MIG-77", 5)]
    assert dgx1v.gpu(2).uuid == "GPU-2abc"
    assert [gpu.rank for gpu in dgx1v.visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-6abc,GPU-2"})] == [6, 2]
    assert [gpu.rank for gpu in dgx1v.visible_gpus({"CUDA_VISIBLE_DEVICES": "MIG-77"})] == [5]


def test_amd_counts_in_two_steps():
    machines = MACHINES / "recorded/flat-amd.tar.gz"
    amd = topology.load(root=machines)
    amd.__dict__["gpus"] = tuple(dataclasses.replace(gpu, gcn="gfx942") for gpu in amd.gpus)
    count = len(amd.gpus)
    assert count > 1
    both = {"ROCR_VISIBLE_DEVICES": f"{count - 1},0", "HIP_VISIBLE_DEVICES": "1"}
    assert [gpu.device for gpu in amd.visible_gpus(both)] == [0]
    assert [gpu.device for gpu in amd.visible_gpus({"ROCR_VISIBLE_DEVICES": str(count - 1)})] == [count - 1]


def test_threads_share_a_topology(dgx1v):
    expected = dgx1v.json()
    wrong = []

    def work():
        for _ in range(20):
            if dgx1v.json() != expected or dgx1v.nic_of(3).name != "mlx5_1" or dgx1v.pick(2).fitness <= 0:
                wrong.append(threading.current_thread().name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_close_while_other_threads_ask():
    """A call ends well or says that the topology is closed; it never sees freed memory."""
    machine = load("synthetic/dgx1v.xml")
    started = threading.Barrier(3)
    said = []

    def work():
        started.wait(60)
        try:
            while True:
                machine.explain()
        except railwise.Error as error:
            said.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait(60)
    machine.close()
    for thread in threads:
        thread.join(60)
    assert said == ["this topology is closed"] * 2
    machine.close()  # again is allowed


def test_every_machine_is_freed_once(monkeypatch):
    from railwise import _library
    gc.collect()  # what earlier tests have left
    made, freed = [], []
    pointer_from, free_machine = _library.pointer_from, _library.free_machine

    def noted(name, *arguments):
        pointer = pointer_from(name, *arguments)
        if name.startswith("load_"):
            made.append(pointer)
        return pointer

    monkeypatch.setattr(_library, "pointer_from", noted)
    monkeypatch.setattr(_library, "free_machine", lambda machine: (freed.append(machine), free_machine(machine)))
    with load("synthetic/dgx1v.xml") as machine:
        machine.matrix()
    with pytest.raises(railwise.Error, match="closed"):
        machine.matrix()
    del machine
    load("synthetic/dgx1v.xml").pick(2)
    gc.collect()
    assert len(made) == 2 and [machine for machine in freed if machine in made] == made


def test_results_can_be_pickled(dgx1v):
    import pickle
    gpu, nic, pick = dgx1v.gpu(3), dgx1v.nic_of(3), dgx1v.pick(2)
    assert pickle.loads(pickle.dumps((gpu, nic, pick))) == (gpu, nic, pick)
