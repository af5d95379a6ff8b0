// What NVIDIA's NICs offer beyond verbs: the data-direct function, the port of a bond that a queue pair uses,
// and queue pairs that take messages in any order. If libmlx5 is missing, every answer is "no". mlx5.cc declares its structures itself, after rdma-core
// 65 (providers/mlx5/mlx5dv.h), so that building needs no newer header. Any thread, between verbs::load() and
// unload().
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace railwise::verbs {

bool isMlx5(ibv_device* device);

// The sysfs folder of the data-direct PCI function beside the device; "" if there is none. Through this
// function the NIC reaches GPU memory behind the PCIe switch that both share, while the NIC's own function is
// attached to the CPU (ConnectX-8). registerDmaBuf() registers through it.
std::string dataDirectPath(ibv_context* context, ibv_pd* pd);

// How many network ports a queue pair of this device can leave by; 0: the driver does not tell. A NIC says two
// also without a bond. lagPorts() (port.h) knows whether there is one.
uint8_t mlx5LagPorts(ibv_context* context);
// Lets a queue pair that is ready to send leave by this network port, from 1. The error number; EOPNOTSUPP:
// the NIC has no bond, or firmware decides.
int setMlx5LagPort(ibv_qp* qp, uint8_t port);

// The number of receives that an out-of-order RC queue pair can have. 0: the device has no such queue pairs.
uint32_t mlx5OutOfOrderReceives(ibv_context* context);
// Like ibv_create_qp, for an out-of-order queue pair. Null with errno on failure.
ibv_qp* createOutOfOrderQp(ibv_pd* pd, ibv_qp_init_attr& attributes);

}  // namespace railwise::verbs
