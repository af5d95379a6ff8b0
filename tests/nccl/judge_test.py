"""The judge of NCCL's logs, on lines as NCCL writes them."""
import unittest

import judge

GOOD = """\
node:11:11 [0] NCCL INFO NET/Plugin: Loaded net plugin Railwise (v11)
node:11:11 [0] NCCL INFO Successfully loaded external network plugin /x/libnccl-net-railwise.so
node:11:11 [0] NCCL INFO Initialized NET plugin Railwise
node:11:11 [0] NCCL INFO Assigned NET plugin Railwise to comm
node:11:11 [0] NCCL INFO Using network Railwise
node:11:11 [0] NCCL INFO NET/Railwise : GPU Direct RDMA Disabled for HCA 0 'soft0'
node:11:11 [0] NCCL INFO NET/Railwise : GPU Direct RDMA Disabled for HCA 1 'soft1'
node:11:20 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Railwise/0
node:11:20 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Railwise/1
node:11:21 [0] NCCL INFO Channel 00/1 : 0[0] -> 1[0] [send] via NET/Railwise/0/Shared
node:11:21 [0] NCCL INFO Channel 01/1 : 0[0] -> 1[0] [send] via NET/Railwise/1(0)/GDRDMA/Shared
"""
DEVICES = [{"index": 0, "name": "soft0", "cuda_memory": False, "dmabuf_memory": False},
           {"index": 1, "name": "soft1", "cuda_memory": False, "dmabuf_memory": False}]


class Judge(unittest.TestCase):
    def test_the_newest_table_of_each_release(self):
        for version, table in ((23007, 12), (23003, 12), (22902, 11), (22809, 11), (22707, 10), (22403, 9), (22304, 8), (21901, 7),
                               (21304, 6), (21200, None)):
            self.assertEqual(judge.newest_table(version), table, version)

    def test_a_good_log(self):
        self.assertEqual(judge.loaded(GOOD, 22809), [])
        self.assertEqual(judge.devices(GOOD, DEVICES), [])
        self.assertEqual(judge.transport(GOOD), [])
        self.assertEqual(judge.sends(GOOD), [(0, 0, 0, 0), (1, 0, 0, 1)])

    def test_a_send_that_another_rank_relays(self):
        log = "vm:1:1 [0] NCCL INFO Channel 04/1 : 0[0] -> 3[1] [send] via NET/Railwise/1(1)/GDRDMA/Shared"
        self.assertEqual(judge.sends(log), [(4, 0, 1, 1)])
        self.assertEqual(judge.warnings(GOOD), [])

    def test_who_serves_one_sided_communication(self):
        self.assertEqual(judge.one_sided(GOOD), {})
        older = "vm:1:1 [0] NCCL INFO Assigned GIN plugin GIN_IB_PROXY to comm\nvm:1:1 [0] NCCL INFO Assigned RMA plugin GIN_IB_PROXY to comm"
        self.assertEqual(judge.one_sided(older), {"GIN": "GIN_IB_PROXY", "RMA": "GIN_IB_PROXY"})
        newer = "vm:1:1 [0] NCCL INFO RMA/Plugin: Assigned plugin RMA_IB_PROXY to comm\nvm:1:1 [0] NCCL INFO GIN/Plugin: Assigned plugin RMA_IB_PROXY type 2 to comm"
        self.assertEqual(judge.one_sided(newer), {"GIN": "RMA_IB_PROXY", "RMA": "RMA_IB_PROXY"})

    def test_the_nics_of_one_sided_communication(self):
        log = ("vm:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_2:1/RoCE ; OOB lo:127.0.0.1<0>\n"
               "vm:1:1 [0] NCCL INFO NET/IB: ncclIbConnectImpl: NCCL Dev 1 IbDev 1 Port 1 qp_num 3 mtu 5\n"
               "vm:1:1 [0] NCCL INFO NET/IB: NCCL Dev 1 IbDev 1 Port 1 qpn 9 mtu 5\n")
        self.assertEqual(judge.one_sided_nics(log), ["mlx5_2"])
        self.assertEqual(judge.one_sided_nics(GOOD), [])

    def test_whether_a_release_says_who_serves_gin(self):
        self.assertTrue(judge.gin_is_silent("", 23102))
        self.assertFalse(judge.gin_is_silent("", 23007))
        self.assertFalse(judge.gin_is_silent("vm:1:1 [0] NCCL INFO GIN/Plugin: Failed to initialize any GIN plugin", 23102))

    def test_that_rma_is_served(self):
        self.assertEqual(judge.rma_is_served(GOOD), ["nobody serves RMA"])
        log = "vm:1:1 [0] NCCL INFO RMA/Plugin: Assigned plugin RMA_IB_PROXY to comm\n"
        self.assertEqual(judge.rma_is_served(log), ["the log names no device of RMA_IB_PROXY, which serves RMA"])
        log += "vm:1:1 [0] NCCL INFO NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'\n"
        self.assertEqual(judge.rma_is_served(log), [])

    def test_devices_that_two_tables_number_otherwise(self):
        log = GOOD + "node:11:11 [0] NCCL INFO NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 0 'soft0'\n"
        self.assertEqual(judge.one_sided_devices(log), [])
        log += "node:11:11 [0] NCCL INFO NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 0 'soft1'\n"
        self.assertEqual(judge.one_sided_devices(log), ["soft1 is device 0 to RMA_IB_PROXY and 1 to Railwise"])
        log = GOOD + "node:11:11 [0] NCCL INFO TOPO/NET : Changing soft1 dev index from 0 to 1\n"
        self.assertEqual(judge.one_sided_devices(log), ["TOPO/NET : Changing soft1 dev index from 0 to 1"])

    def test_an_older_table_than_could_be(self):
        self.assertIn("v11, not Railwise v12", judge.loaded(GOOD, 23007)[0])

    def test_a_fallback(self):
        log = GOOD.replace("Assigned NET plugin Railwise", "Assigned NET plugin Socket").replace("network Railwise", "network Socket")
        self.assertEqual(judge.loaded(log, 22809), ["networks in use: Socket, not Railwise alone"])
        self.assertEqual(len(judge.loaded("", 22809)), 2)

    def test_a_library_that_was_not_loaded(self):
        log = "\n".join(line for line in GOOD.splitlines() if "Loaded" not in line)
        self.assertEqual(judge.loaded(log, 22809), ["the log has no line of a net plugin that was loaded"])
        self.assertEqual(judge.loaded(log, 22105), [])

    def test_other_transports(self):
        self.assertIn("did not use the network", judge.transport(GOOD + "Channel 00/0 : 0[0] -> 1[0] via P2P/CUMEM\n")[0])
        self.assertIn("via SHM", judge.transport(GOOD + "Channel 00 : 0[0] -> 1[0] via SHM/direct/direct\n")[0])
        self.assertIn("NET/Socket", judge.transport(GOOD.replace("via NET/Railwise/1\n", "via NET/Socket/1\n"))[0])
        self.assertIn("no connection", judge.transport("")[0])

    def test_devices_that_differ(self):
        self.assertIn("does not know device 2", judge.devices(GOOD, DEVICES + [dict(DEVICES[0], index=2, name="soft2")])[0])
        self.assertIn("railwise devices does not", judge.devices(GOOD, DEVICES[:1])[0])
        self.assertIn("is soft1 to NCCL", judge.devices(GOOD, [DEVICES[0], dict(DEVICES[1], name="other")])[0])
        self.assertIn("offers none", judge.devices(GOOD.replace("Disabled for HCA 0", "Enabled for HCA 0"), DEVICES)[0])

    def test_the_topology_file(self):
        log = "NCCL INFO NCCL_TOPO_FILE set by environment to /tmp/a.xml\n"
        self.assertEqual(judge.topology_file(log, "/tmp/a.xml"), [])
        self.assertIn("/tmp/a.xml, not /tmp/b.xml", judge.topology_file(log, "/tmp/b.xml")[0])
        self.assertIn("none", judge.topology_file("", "/tmp/b.xml")[0])

    def test_warnings(self):
        self.assertEqual(judge.warnings("node:1:1 [0] net.cc:9 NCCL WARN it broke\n"), ["it broke"])


if __name__ == "__main__":
    unittest.main()
