// The types of NCCL's paths, nearest first, with all that is known of them. A new type is a row here and a
// value of the public enum (include/railwise/topology.h), and what it means for decisions is in topo/paths.
// Lists of some types, because NCCL has them so: topo/settings.cc, search/graph_file.cc, and in doctor/log.
#pragma once

// X(value, name, first minor version of NCCL 2 that has it, meaning as a part of a sentence)
#define RAILWISE_PATH_TYPES(X)                                               \
  X(kLoc, "LOC", 0, "the same device")                                       \
  X(kNvl, "NVL", 0, "NVLink (or xGMI) directly or through an NVSwitch")      \
  X(kNvb, "NVB", 0, "NVLink through another GPU")                            \
  X(kC2c, "C2C", 26, "chip-to-chip link between GPU and CPU")                \
  X(kPix, "PIX", 0, "one PCIe switch")                                       \
  X(kPxb, "PXB", 0, "several PCIe switches, without the CPU")                \
  X(kP2c, "P2C", 27, "chip-to-chip link to the CPU, then PCIe to the NIC")   \
  X(kPxn, "PXN", 0, "NVLink to another GPU that is near the NIC, then PCIe") \
  X(kPhb, "PHB", 0, "the PCIe host bridge of a CPU")                         \
  X(kSys, "SYS", 0, "the interconnect between CPUs (NUMA nodes)")            \
  X(kNet, "NET", 0, "the network")                                           \
  X(kDis, "DIS", 0, "not connected")
