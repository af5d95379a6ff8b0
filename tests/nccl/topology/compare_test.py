"""Tests of what judges NCCL's log and dump: nccl_log.py, compare.py, xml_dump.py, shared_machines.py."""
import pathlib
import sys
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import compare  # noqa: E402
import nccl_log  # noqa: E402
import shared_machines  # noqa: E402
import xml_dump  # noqa: E402
from answers import Answers  # noqa: E402

LOG = """vm:1:2 [0] NCCL INFO GPU/0-1b000 :GPU/0-1b000 (0/5000.0/LOC) NVS/0-0 (1/370.8/NVL) CPU/0-ffffffffffffff (2/48.0/PHB) NET/0-0 (3/48.0/PIX)$
vm:1:2 [0] NCCL INFO NET/0-0 :GPU/0-1b000 (3/48.0/PIX) CPU/0-ffffffffffffff (3/48.0/PHB) NET/0-0 (0/5000.0/LOC)$
vm:1:2 [0] NCCL INFO GIN/0-0 :GPU/0-1b000 (3/48.0/PIX)$
vm:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Railwise/0/GDRDMA
vm:1:2 [0] NCCL INFO Channel 02/1 : 0[0] -> 1[0] [send] via NET/Railwise/0/GDRDMA/Shared
vm:1:2 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 1, bw 24.000000/12.500000, type LOC/PIX, sameChannels 1
vm:1:2 [0] NCCL INFO  0 : NET/0-0 GPU/0-1b000 NET/0-0
""".replace(")$\n", ") \n")  # NCCL ends these lines with a space
PATHS = """{"gpu_gpu": [], "gpu_net": [["GPU/0", "NET/0", "PIX", 48, 3, []]], "net_gpu": [["NET/0", "GPU/0", "PIX", 48, 3, []]],
 "gpu_cpu": [["GPU/0", "CPU/-1", "PHB", 48, 2, []]], "net_cpu": [["NET/0", "CPU/-1", "PHB", 48, 3, []]], "cpu_cpu": [], "net_net": [],
 "gdr": [["GPU/0", "NET/0", 1, 1, 0, 0]], "domains": [{"ranks": [0]}]}"""
EXPLAINED = """{"gpus": [{"rank": 0, "busid": "0000:1b:00.0", "channel_nets": ["NET/0"], "channel_ends": [
 {"use": "ring-enters", "channels": [0], "net": "NET/0"}, {"use": "ring-leaves", "channels": [0], "net": "NET/1"}],
 "peers": [{"peer_dev": 0, "channel": 0, "net": "NET/0", "proxy_rank": 0}]}], "rings_and_trees": [{"ranks": [0], "channels": 1,
 "swapped_rings": []}]}"""
GRAPHS = """{"domains": [{"ranks": [0], "graphs": {"nodes2": {"inter": 1, "ring": {"pattern": 4, "cross_nic": 0, "bw_intra": 24, "bw_inter": 12.5,
 "type_intra": "LOC", "type_inter": "PIX", "same": 1, "order": [[0, [0], 0]]}}}}]}"""
DUMP = '<system version="1"><cpu numaid="0" host_hash="0x7"><pci busid="0000:1b:00.0"><gpu dev="0" rank="{}" sm="{}"/></pci></cpu></system>'


def answers(paths=PATHS, explained=EXPLAINED, graphs=GRAPHS):
    said = {"show": paths, "graphs": graphs}
    return Answers(lambda *words: said[words[1]] if words[0] == "topo" else explained, 0, "2.28")


class TheLog(unittest.TestCase):
    def test_equal_to_the_answers(self):
        score = compare.paths(LOG, answers())
        score.add(compare.graphs(LOG, answers()))
        score.add(compare.connections(LOG, answers(), 1))
        self.assertEqual([], score.complaints)
        self.assertEqual((4, 1, 1, 1), (score.paths, score.graphs, score.rings, score.sends))

    def test_another_graph_is_found(self):
        for changed in (GRAPHS.replace("24", "20"), GRAPHS.replace("[[0, [0], 0]]", "[]"), GRAPHS.replace("PIX", "PHB"), '{"domains": []}'):
            self.assertNotEqual([], compare.graphs(LOG, answers(graphs=changed)).complaints)
        self.assertNotEqual([], compare.graphs("", answers()).complaints)

    def test_a_graph_without_its_channels_is_found(self):
        with self.assertRaises(ValueError):
            nccl_log.graphs(LOG.replace("nChannels 1", "nChannels 2"))

    def test_another_path_is_found(self):
        for changed in (PATHS.replace('"PIX", 48', '"PHB", 48'), PATHS.replace('"PIX", 48', '"PIX", 24'), PATHS.replace("48, 3", "48, 4")):
            self.assertNotEqual([], compare.paths(LOG, answers(changed)).complaints)

    def test_a_missing_path_is_found(self):
        self.assertEqual(1, len(compare.paths(LOG.replace("NET/0-0 (3/48.0/PIX) \n", "\n"), answers()).complaints))
        self.assertEqual(["NCCL printed no path"], compare.paths("", answers()).complaints[:1])

    def test_a_line_that_was_cut_is_no_difference(self):
        score = compare.paths(LOG.replace("NET/0-0 (3/48.0/PIX) \n", "NET/0-0 (3/4\n"), answers())
        self.assertEqual(([], 1), (score.complaints, score.cut))

    def test_ranks_that_disagree_are_found(self):
        with self.assertRaises(ValueError):
            nccl_log.paths(LOG + LOG.replace("48.0", "24.0"))

    def test_another_nic_relay_or_gpudirect_is_found(self):
        for changed in (LOG.replace("Railwise/0/GDRDMA/Shared", "Railwise/1/GDRDMA/Shared"), LOG.replace("Railwise/0/GDR", "Railwise/1/GDR"),
                        LOG.replace("Railwise/0/GDRDMA/Shared", "Railwise/0(3)/GDRDMA/Shared"), LOG.replace("/GDRDMA\n", "\n"),
                        LOG.replace("NET/Railwise", "NET/Socket"), LOG.replace("via NET", "via P2P")):
            self.assertNotEqual([], compare.connections(changed, answers(), 1).complaints)


    def test_another_nic_than_that_of_the_channel_is_found(self):
        by_another = LOG.replace("[receive] via NET/Railwise/0", "[receive] via NET/Railwise/1")
        self.assertIn("Railwise ([0], 0)", compare.connections(by_another, answers(), 1).complaints[0])

    def test_each_end_of_a_channel_has_its_nic(self):
        self.assertEqual([{0}, {1}], [answers().channel_devices(0, 0, sends) for sends in (False, True)])
        tree = answers(explained=EXPLAINED.replace("ring-leaves", "tree"))
        self.assertEqual([{0, 1}, {1}], [tree.channel_devices(0, 0, sends) for sends in (False, True)])

    def test_rings_of_a_pair_change_places_on_the_second_host(self):
        swapped = EXPLAINED.replace('"swapped_rings": []', '"swapped_rings": [[0, 0, "NET/2", 0, "NET/3"]]')
        first, second = (Answers(lambda *words: {"show": PATHS, "graphs": GRAPHS}.get(words[1], swapped), number, "2.28") for number in (0, 1))
        self.assertEqual([{0}, {1}], [first.channel_devices(0, 0, sends) for sends in (False, True)])
        self.assertEqual([{2}, {3}], [second.channel_devices(1, 0, sends) for sends in (False, True)])


class TheDump(unittest.TestCase):
    def test_ranks_count_from_the_hosts_first(self):
        self.assertEqual((6, []), xml_dump.compare(DUMP.format(8, 90), DUMP.format(0, 90), 8))

    def test_attributes_and_elements_are_compared(self):
        self.assertEqual(1, len(xml_dump.compare(DUMP.format(0, 90), DUMP.format(0, 80), 0)[1]))
        self.assertEqual(1, len(xml_dump.compare(DUMP.format(0, 90), DUMP.format(0, 90).replace(' sm="90"', ""), 0)[1]))
        self.assertNotEqual([], xml_dump.compare(DUMP.format(0, 90), DUMP.format(0, 90).replace("1b", "1c"), 0)[1])

    def test_the_order_counts(self):
        two = '<system><cpu numaid="0"/><cpu numaid="1"/></system>'
        other = '<system><cpu numaid="1"/><cpu numaid="0"/></system>'
        self.assertEqual(1, len(xml_dump.compare(two, other, 0)[1]))


class AFile(unittest.TestCase):
    def test_becomes_a_machine(self):
        root = xml.etree.ElementTree.fromstring(
            '<system><cpu numaid="0"><pci busid="0001:00:00.0" class="0x030200"/></cpu><cpu numaid="1"><pci busid="0101:00:00.0" class="0x020700">'
            '<nic><net name="ib0" speed="100000"/></nic></pci></cpu></system>')
        text, gpus = shared_machines.software_machine(root, {"gpu-sm": "70", "nvswitch-links": "6"})
        self.assertEqual(1, gpus)
        self.assertEqual(["host A numa_nodes=2", "device name=ib0 speed=100000 pci=0101:00:00.0 numa=1 pcie=5x16",
                          "gpu pci=0001:00:00.0 numa=0 pcie=5x16 sm=70 nvlink=switch:6", "nvswitch pci=ffff:fe:00.0 numa=0 pcie=4x2"],
                         text.splitlines())


if __name__ == "__main__":
    unittest.main()
