// Pure rules of the path between two ports: the UDP source port of a RoCE flow, and whether two InfiniBand
// ports are on different subnets. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace railwise::verbs {

// The UDP source port of the RoCE v2 packets of a queue pair with this flow label. Switches use it to spread
// flows over equal-cost paths. Source: rdma_flow_label_to_udp_sport of the kernel (include/rdma/ib_verbs.h),
// 14 bits above 0xc000. With label 0 the device chooses the port from the numbers of the queue pairs.
uint16_t udpSourcePort(uint32_t flow_label);

// The flow label (20 bits, never 0) of lane `lane` of a connection. Lanes with equal `entropy` (any value
// that differs between connections) have different UDP source ports, up to 16384 lanes.
uint32_t laneFlowLabel(uint32_t entropy, uint32_t lane);

// Are two InfiniBand ports on different subnets? If one of the GIDs has a routable LID (gid.h), compares
// bytes 6 and 7, the number of the subnet (NCCL 2.30.7, net_ib/connect.cc); otherwise compares the whole
// prefixes.
bool onOtherSubnet(const ibv_gid& local, const ibv_gid& remote);

}  // namespace railwise::verbs
