// RoCE: addresses, packet size, and whether the fabric may drop packets.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "doctor/checks/check.h"

namespace railwise::doctor {
namespace {

constexpr std::string_view kRoceV2 = "RoCE v2";

void checkGids(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || !port->gids_known || port->iwarp) continue;
    const auto any = [&](auto matches) { return std::ranges::any_of(port->gids, matches); };
    const bool types = !any([](const GidEntry& gid) { return gid.type.empty(); });
    const std::string up = port->interface.empty() ? "<interface>" : port->interface;
    const auto add = [&](Severity severity, const char* what, const std::string& value, const char* why,
                         const std::string& fix) {
      exam.add(severity, what, {{port->label(), port->folder + "/gids", value}}, why, fix);
    };
    if (port->gids.empty())
      add(Severity::kError, "the port has no GID", "every entry is empty",
          "RoCE packets have no source address: no queue pair connects.",
          exam.system.container().empty()
              ? "sudo ip link set " + up + " up && sudo ip addr add <address>/<bits> dev " + up
              : "start the container with --network host (in Kubernetes: hostNetwork: true, or an SR-IOV "
                "network): the addresses belong to the host's network namespace");
    else if (types && !any([](const GidEntry& gid) { return gid.type == kRoceV2; }))
      add(Severity::kWarning, "the port has GIDs of RoCE v1 alone", port->gids[0].type,
          "RoCE v1 does not leave its subnet, and switches give it no ECN.",
          "Only the driver or the card makes a port do RoCE v1 alone. ConnectX-3: echo 'options mlx4_core "
          "roce_mode=2' | sudo tee /etc/modprobe.d/mlx4-roce.conf, then load the driver again");
    else if (!any([](const GidEntry& gid) { return !gid.linkLocal(); }))
      add(Severity::kWarning, "the port has a link-local GID alone", port->gids[0].value,
          "Link-local addresses reach no further than the switch, and on several subnets they reach nobody.",
          "sudo ip addr add <address>/<bits> dev " + up);
  }
}

const GidEntry* gidAt(const RdmaPort& port, int index) {
  for (const GidEntry& gid : port.gids)
    if (gid.index == index) return &gid;
  return nullptr;
}

void checkGidIndex(Examination& exam) {
  const Variable* set = exam.system.variable("NCCL_IB_GID_INDEX");
  if (set == nullptr) return;
  const int index = std::atoi(set->value.c_str());
  if (index < 0) return;
  std::set<std::string> kinds;  // over the ports: with one type and family all can talk
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || !port->gids_known) continue;
    const GidEntry* gid = gidAt(*port, index);
    if (gid != nullptr)
      kinds.insert(gid->type + (gid->ipv4() ? ", IPv4" : gid->linkLocal() ? ", link-local" : ", IPv6"));
    const bool v2 =
        std::ranges::any_of(port->gids, [](const GidEntry& each) { return each.type == kRoceV2; });
    if (gid != nullptr && (gid->type.empty() || gid->type == kRoceV2 || !v2)) continue;
    exam.add(gid == nullptr ? Severity::kError : Severity::kWarning,
             gid == nullptr ? "NCCL_IB_GID_INDEX names an entry that does not exist"
                            : "NCCL_IB_GID_INDEX names a GID of RoCE v1, and there are GIDs of RoCE v2",
             {{port->label(), set->where, "NCCL_IB_GID_INDEX=" + set->value},
              {port->label(), port->folder + "/gids/" + std::to_string(index),
               gid == nullptr ? "empty" : gid->type}},
             gid == nullptr ? "No queue pair of this port connects."
                            : "RoCE v1 does not leave its subnet, and switches give it no ECN.",
             "unset NCCL_IB_GID_INDEX    (NCCL since 2.21 and Railwise choose the GID by NCCL_IB_ADDR_FAMILY "
             "and NCCL_IB_ROCE_VERSION_NUM)");
  }
  if (kinds.size() < 2) return;
  std::vector<Seen> seen;
  for (const std::string& kind : kinds) seen.push_back({"", set->where, kind});
  exam.add(Severity::kWarning,
           "NCCL_IB_GID_INDEX=" + set->value + " means GIDs of different kinds on different ports",
           std::move(seen), "Queue pairs between GIDs of different types or families do not connect.",
           "unset NCCL_IB_GID_INDEX\nexport NCCL_IB_ADDR_FAMILY=AF_INET NCCL_IB_ROCE_VERSION_NUM=2");
}

// The packet size of RoCE on an interface: the largest of 256 to 4096 bytes that fits with the headers.
// Source: Linux, include/rdma/ib_addr.h (iboe_get_mtu).
int mtuOn(int interface_mtu) {
  constexpr int kHeaders = 40 + 8 + 12 + 4 + 28 + 4;  // GRH, UDP, BTH, immediate, atomics, ICRC
  for (const int mtu : {4096, 2048, 1024, 512, 256})
    if (interface_mtu - kHeaders >= mtu) return mtu;
  return 0;
}

void checkMtu(Examination& exam) {
  constexpr int kLargest = 4096;
  // By kind of port: the largest packet of any. A front or storage network has an MTU of its own.
  std::map<std::string, int> most;
  const auto kind = [](const RdmaPort& port) {
    return port.layer + " " + port.type + " " + port.board + " " + std::to_string(port.rate_mbps);
  };
  const auto bytes = [](const RdmaPort& port) {
    return port.active_mtu > 0 ? port.active_mtu : port.roce() ? mtuOn(port.interface_mtu) : 0;
  };
  for (const RdmaPort* port : exam.usedPorts())
    if (port->active() && !port->iwarp) most[kind(*port)] = std::max(most[kind(*port)], bytes(*port));
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->active() || port->iwarp || bytes(*port) == 0) continue;
    const bool by_verbs = port->active_mtu > 0;
    const std::string where = by_verbs ? "ibv_devinfo -d " + port->device + ", active_mtu"
                                       : "/sys/class/net/" + port->interface + "/mtu";
    const std::vector<Seen> seen = {
        {port->label(), where, std::to_string(by_verbs ? port->active_mtu : port->interface_mtu)}};
    const std::string fix =
        port->roce()
            ? "sudo ip link set " + (port->interface.empty() ? "<interface>" : port->interface) +
                  " mtu 9000    (and the switch's ports; keep it in netplan or NetworkManager)"
            : "sudo smpquery -C " + port->device + " -P " + std::to_string(port->number) + " -D portinfo 0 " +
                  std::to_string(port->number) + "    (MtuCap of both ends: the switch's port decides too)";
    if (bytes(*port) < most[kind(*port)]) {
      exam.add(Severity::kWarning, "its packets are smaller than those of other ports", seen,
               "Two ends with different MTU connect with the smaller one at best; between hosts the "
               "connection may fail.",
               fix);
    } else if (by_verbs && port->roce() &&
               port->active_mtu < std::min(mtuOn(port->interface_mtu), port->max_mtu)) {
      exam.add(Severity::kWarning, "verbs uses smaller packets than the interface carries", seen,
               "The interface's MTU was raised after the device came up.",
               "sudo ip link set " + port->interface +
                   " mtu 9000    (set it once more: the device then takes it over)");
    } else if (!port->software && bytes(*port) < kLargest &&
               (!by_verbs || port->max_mtu > port->active_mtu)) {
      exam.add(Severity::kAdvice, "its packets are smaller than 4096 bytes", seen,
               "At 1024 bytes headers cost some 6 % of the bandwidth and four times the packets; at 4096 "
               "bytes 1.5 %.",
               fix);
    }
  }
}

// What netlink has told of an interface: "pfc 0x08", "dscp 26 3", "trust dscp".
struct Lossless {
  bool known = false;
  unsigned pfc = 0;  // mask of priorities
  std::map<int, int> priority_of_dscp;
  bool trust_dscp = false;
};

// Of a bond, what its first interface has.
Lossless losslessOf(const System& system, const std::string& interface) {
  Lossless answer;
  const std::string physical = physicalInterfaces(system, interface).front();
  for (const std::string& line : linesOf(system.text(kDcbFolder + physical))) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() == 2 && words[0] == "pfc") {
      answer.known = true;
      answer.pfc = static_cast<unsigned>(std::strtoul(words[1].c_str(), nullptr, 0)) & 0xff;
    }
    if (words.size() == 3 && words[0] == "dscp")
      answer.priority_of_dscp[std::atoi(words[1].c_str())] = std::atoi(words[2].c_str());
    if (words.size() == 2 && words[0] == "trust") answer.trust_dscp = words[1] == "dscp";
  }
  return answer;
}

// The traffic class of a job's packets. The device's own (mlx5: "Global tclass=106") goes over what a job
// asks for; without both it is 0. Source: MLNX_OFED, drivers/infiniband/hw/mlx5 (tc files).
struct TrafficClass {
  int value = 0;
  std::string where;
  std::string global_file;  // "": the device has no class of its own
};
TrafficClass trafficClassOf(const Examination& exam, const RdmaPort& port) {
  constexpr std::string_view kGlobal = "Global tclass=";
  const std::string file =
      "/sys/class/infiniband/" + port.device + "/tc/" + std::to_string(port.number) + "/traffic_class";
  const std::string line = exam.system.line(file);
  if (line.starts_with(kGlobal)) return {std::atoi(line.c_str() + kGlobal.size()) & 0xff, file, file};
  const Variable* set = exam.system.variable("NCCL_IB_TC");
  const int value = set == nullptr ? -1 : std::atoi(set->value.c_str());
  if (value < 0 || value > 0xff) return {0, "NCCL_IB_TC, not set", ""};
  return {value, "NCCL_IB_TC (" + set->where + ")", ""};
}

constexpr int kDscpShift = 2;  // the low two bits of the traffic class are ECN's

int priorityOf(const Lossless& lossless, int dscp) {
  const auto mapped = lossless.priority_of_dscp.find(dscp);
  return (mapped != lossless.priority_of_dscp.end() ? mapped->second : dscp >> 3) & 7;
}

void checkPfc(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || port->interface.empty()) continue;
    const Lossless lossless = losslessOf(exam.system, port->interface);
    if (!lossless.known || lossless.pfc != 0) continue;
    exam.add(Severity::kAdvice, "priority flow control (PFC) is off in every priority",
             {{port->label(), "dcb pfc show dev " + port->interface, "prio-pfc all:off"}},
             "RoCE then loses packets when a switch's buffer overflows, unless the fabric is built for lossy "
             "RoCE (selective repeat, ECN tuned).",
             "sudo dcb pfc set dev " + port->interface + " prio-pfc all:off 3:on\nsudo mlnx_qos -i " +
                 port->interface + " --trust=dscp --pfc 0,0,0,1,0,0,0,0    (mlx5); the same on the switch");
  }
}

// A DSCP of the lossless priority. 26 is the usual one of priority 3.
int dscpFor(const Lossless& lossless, int priority) {
  for (const auto& [dscp, maps_to] : lossless.priority_of_dscp)
    if (maps_to == priority) return dscp;
  constexpr int kUsualPriority = 3, kUsualDscp = 26;
  return priority == kUsualPriority ? kUsualDscp : priority << 3;
}

void checkTrafficClass(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || port->interface.empty()) continue;
    const Lossless lossless = losslessOf(exam.system, port->interface);
    // Where the port trusts the VLAN's priority, the DSCP says nothing.
    if (!lossless.known || lossless.pfc == 0 || !lossless.trust_dscp) continue;
    const TrafficClass job = trafficClassOf(exam, *port);
    const int dscp = job.value >> kDscpShift;
    const int priority = priorityOf(lossless, dscp);
    if ((lossless.pfc >> priority & 1) != 0) continue;
    int without_loss = 0;
    while ((lossless.pfc >> without_loss & 1) == 0) ++without_loss;
    const std::string wanted = std::to_string(dscpFor(lossless, without_loss) << kDscpShift);
    exam.add(Severity::kWarning, "the traffic class of the job has no lossless priority",
             {{port->label(), job.where,
               "DSCP " + std::to_string(dscp) + ", priority " + std::to_string(priority)},
              {port->label(), "dcb pfc show dev " + port->interface,
               "PFC on in priority " + std::to_string(without_loss)}},
             "The switches drop these packets under load although the fabric has a lossless priority.",
             job.global_file.empty()
                 ? "export NCCL_IB_TC=" + wanted
                 : "echo " + wanted + " | sudo tee " + job.global_file + "    (it goes over NCCL_IB_TC)");
  }
}

// The switches of congestion control in NVIDIA's driver: notification point (the receiver sends CNPs) and
// reaction point (the sender slows down), for each priority.
void checkEcn(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || port->interface.empty()) continue;
    const Lossless lossless = losslessOf(exam.system, port->interface);
    const int priority = priorityOf(lossless, trafficClassOf(exam, *port).value >> kDscpShift);
    for (const char* point : {"roce_np", "roce_rp"}) {
      const std::string file =
          "/sys/class/net/" + port->interface + "/ecn/" + point + "/enable/" + std::to_string(priority);
      if (exam.system.number(file).value_or(1) != 0) continue;
      exam.add(Severity::kAdvice, "congestion control (ECN) is off in the priority of the job",
               {{port->label(), file, "0"}},
               "Under congestion packets are then dropped, or PFC stops whole switches.",
               "echo 1 | sudo tee " + file);
    }
  }
}

constexpr std::array<Check, 6> kAddressChecks = {
    {{"gid", "rdma", "GIDs of RoCE ports: none, RoCE v1 alone, link-local alone", checkGids, Needs::kRoce},
     {"gid-index", "rdma", "NCCL_IB_GID_INDEX against the GID tables", checkGidIndex, Needs::kRoce},
     {"mtu", "rdma", "packet size of ports against the interface's and each other's", checkMtu, Needs::kPort},
     {"pfc", "rdma", "priority flow control of RoCE ports", checkPfc, Needs::kRoce},
     {"ecn", "rdma", "ECN of RoCE ports, where the driver tells", checkEcn, Needs::kRoce},
     {"traffic-class", "rdma", "the job's traffic class against the lossless priorities", checkTrafficClass,
      Needs::kRoce}}};

}  // namespace

std::span<const Check> addressChecks() { return kAddressChecks; }

}  // namespace railwise::doctor
