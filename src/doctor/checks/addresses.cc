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
    const auto any = [&](auto matches) { return std::any_of(port->gids.begin(), port->gids.end(), matches); };
    const bool types = !any([](const GidEntry& gid) { return gid.type.empty(); });
    const std::string up = port->interface.empty() ? "<interface>" : port->interface;
    Finding finding{.check = "gid"};
    finding.seen.push_back({port->label(), port->folder + "/gids", ""});
    if (port->gids.empty()) {
      finding.severity = Severity::kError;
      finding.what = "the port has no GID";
      finding.seen[0].value = "every entry is empty";
      finding.why = "RoCE packets have no source address: no queue pair connects.";
      finding.fix =
          exam.system.container().empty()
              ? "sudo ip link set " + up + " up && sudo ip addr add <address>/<bits> dev " + up
              : "start the container with --network host (in Kubernetes: hostNetwork: true, or an SR-IOV "
                "network): the addresses belong to the host's network namespace";
    } else if (types && !any([](const GidEntry& gid) { return gid.type == kRoceV2; })) {
      finding.severity = Severity::kWarning;
      finding.what = "the port has GIDs of RoCE v1 alone";
      finding.seen[0].value = port->gids[0].type;
      finding.why = "RoCE v1 does not leave its subnet, and switches give it no ECN.";
      finding.fix = "sudo cma_roce_mode -d " + port->device + " -p " + std::to_string(port->number) +
                    " -m 2\nA port gets RoCE v2 GIDs when its interface has an address: sudo ip addr add "
                    "<address>/<bits> dev " +
                    up;
    } else if (!any([](const GidEntry& gid) { return !gid.linkLocal(); })) {
      finding.severity = Severity::kWarning;
      finding.what = "the port has a link-local GID alone";
      finding.seen[0].value = port->gids[0].value;
      finding.why =
          "Link-local addresses reach no further than the switch, and on several subnets they reach nobody.";
      finding.fix = "sudo ip addr add <address>/<bits> dev " + up;
    } else {
      continue;
    }
    exam.findings.add(std::move(finding));
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
    const bool v2 = std::any_of(port->gids.begin(), port->gids.end(),
                                [](const GidEntry& each) { return each.type == kRoceV2; });
    if (gid != nullptr && (gid->type.empty() || gid->type == kRoceV2 || !v2)) continue;
    Finding finding{.check = "gid-index", .severity = gid == nullptr ? Severity::kError : Severity::kWarning};
    finding.what = gid == nullptr ? "NCCL_IB_GID_INDEX names an entry that does not exist"
                                  : "NCCL_IB_GID_INDEX names a GID of RoCE v1, and there are GIDs of RoCE v2";
    finding.seen.push_back({port->label(), set->where, "NCCL_IB_GID_INDEX=" + set->value});
    finding.seen.push_back({port->label(), port->folder + "/gids/" + std::to_string(index),
                            gid == nullptr ? "empty" : gid->type});
    finding.why = gid == nullptr ? "No queue pair of this port connects."
                                 : "RoCE v1 does not leave its subnet, and switches give it no ECN.";
    finding.fix =
        "unset NCCL_IB_GID_INDEX    (NCCL since 2.21 and Railwise choose the GID by NCCL_IB_ADDR_FAMILY and "
        "NCCL_IB_ROCE_VERSION_NUM)";
    exam.findings.add(std::move(finding));
  }
  if (kinds.size() < 2) return;
  Finding finding{.check = "gid-index", .severity = Severity::kWarning};
  finding.what = "NCCL_IB_GID_INDEX=" + set->value + " means GIDs of different kinds on different ports";
  for (const std::string& kind : kinds) finding.seen.push_back({"", set->where, kind});
  finding.why = "Queue pairs between GIDs of different types or families do not connect.";
  finding.fix = "unset NCCL_IB_GID_INDEX\nexport NCCL_IB_ADDR_FAMILY=AF_INET NCCL_IB_ROCE_VERSION_NUM=2";
  exam.findings.add(std::move(finding));
}

// The packet size of RoCE on an interface: the largest of 256 to 4096 bytes that fits with the headers.
// Source: Linux, include/rdma/ib_addr.h (iboe_get_mtu).
int mtuOn(int interface_mtu) {
  constexpr int kHeaders = 40 + 12 + 16 + 4 + 8;  // GRH or IPv6, BTH, RETH or atomics, ICRC, UDP
  for (const int mtu : {4096, 2048, 1024, 512, 256})
    if (interface_mtu - kHeaders >= mtu) return mtu;
  return 0;
}

void addMtu(Examination& exam, const RdmaPort& port, Severity severity, const std::string& what,
            const std::string& where, int value, const std::string& why, const std::string& fix) {
  exam.findings.add({.check = "mtu",
                     .severity = severity,
                     .what = what,
                     .seen = {{port.label(), where, std::to_string(value)}},
                     .why = why,
                     .fix = fix});
}

void checkMtu(Examination& exam) {
  constexpr int kLargest = 4096;
  std::map<std::string, int> most;  // by link layer: the largest packet of any port
  const auto bytes = [](const RdmaPort& port) {
    return port.active_mtu > 0 ? port.active_mtu : port.roce() ? mtuOn(port.interface_mtu) : 0;
  };
  for (const RdmaPort* port : exam.usedPorts())
    if (port->active() && !port->iwarp) most[port->layer] = std::max(most[port->layer], bytes(*port));
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->active() || port->iwarp || bytes(*port) == 0) continue;
    const bool by_verbs = port->active_mtu > 0;
    const std::string where = by_verbs ? "ibv_devinfo -d " + port->device + ", active_mtu"
                                       : "/sys/class/net/" + port->interface + "/mtu";
    const int value = by_verbs ? port->active_mtu : port->interface_mtu;
    const std::string fix =
        port->roce() ? "sudo ip link set " + (port->interface.empty() ? "<interface>" : port->interface) +
                           " mtu 9000    (and the switch's ports; keep it in netplan or NetworkManager)"
                     : "Set mtu=5 (4096 bytes) for the partition in the subnet manager's partitions.conf";
    if (bytes(*port) < most[port->layer]) {
      addMtu(exam, *port, Severity::kWarning, "its packets are smaller than those of other ports", where,
             value,
             "Two ends with different MTU connect with the smaller one at best; between hosts the connection "
             "may fail.",
             fix);
    } else if (by_verbs && port->roce() &&
               port->active_mtu < std::min(mtuOn(port->interface_mtu), port->max_mtu)) {
      addMtu(exam, *port, Severity::kWarning, "verbs uses smaller packets than the interface carries", where,
             value, "The interface's MTU was raised after the device came up.",
             "sudo ip link set " + port->interface + " down && sudo ip link set " + port->interface + " up");
    } else if (!port->software && bytes(*port) < kLargest &&
               (!by_verbs || port->max_mtu > port->active_mtu)) {
      addMtu(exam, *port, Severity::kAdvice, "its packets are smaller than 4096 bytes", where, value,
             "At 1024 bytes headers cost some 6 % of the bandwidth and four times the packets; at 4096 bytes "
             "1.5 %.",
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

Lossless losslessOf(const System& system, const std::string& interface) {
  Lossless answer;
  for (const std::string& line : linesOf(system.text(kDcbFolder + interface))) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() == 2 && words[0] == "pfc") {
      answer.known = true;
      answer.pfc = static_cast<unsigned>(std::strtoul(words[1].c_str(), nullptr, 0));
    }
    if (words.size() == 3 && words[0] == "dscp")
      answer.priority_of_dscp[std::atoi(words[1].c_str())] = std::atoi(words[2].c_str());
    if (words.size() == 2 && words[0] == "trust") answer.trust_dscp = words[1] == "dscp";
  }
  return answer;
}

// The traffic class of a job: what is set, else that of the device (mlx5's own file), else 0.
int trafficClass(const Examination& exam, const RdmaPort& port, std::string& where) {
  if (const Variable* set = exam.system.variable("NCCL_IB_TC");
      set != nullptr && std::atoi(set->value.c_str()) >= 0) {
    where = "NCCL_IB_TC (" + set->where + ")";
    return std::atoi(set->value.c_str());
  }
  const std::string file =
      "/sys/class/infiniband/" + port.device + "/tc/" + std::to_string(port.number) + "/traffic_class";
  for (const std::string& word : wordsOf(exam.system.line(file))) {
    const auto equals = word.find('=');
    if (!word.starts_with("Global")) continue;
    where = file;
    return std::atoi(word.c_str() + (equals == std::string::npos ? 0 : equals + 1));
  }
  where = "NCCL_IB_TC, not set";
  return 0;
}

void checkPfc(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || port->interface.empty()) continue;
    const Lossless lossless = losslessOf(exam.system, port->interface);
    if (!lossless.known || lossless.pfc != 0) continue;
    exam.findings.add({.check = "pfc",
                       .severity = Severity::kAdvice,
                       .what = "priority flow control (PFC) is off in every priority",
                       .seen = {{port->label(), "dcb pfc show dev " + port->interface, "prio-pfc all:off"}},
                       .why = "RoCE then loses packets when a switch's buffer overflows, unless the fabric "
                              "is built for lossy RoCE "
                              "(selective repeat, ECN tuned).",
                       .fix = "sudo dcb pfc set dev " + port->interface +
                              " prio-pfc all:off 3:on\nsudo mlnx_qos -i " + port->interface +
                              " --trust=dscp --pfc 0,0,0,1,0,0,0,0    (mlx5); the same on the switch"});
  }
}

void checkTrafficClass(Examination& exam) {
  constexpr int kDscpShift = 2;  // the low two bits of the traffic class are ECN's
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || port->interface.empty()) continue;
    const Lossless lossless = losslessOf(exam.system, port->interface);
    if (!lossless.known || lossless.pfc == 0) continue;
    std::string where;
    const int dscp = trafficClass(exam, *port, where) >> kDscpShift;
    const auto mapped = lossless.priority_of_dscp.find(dscp);
    const int priority = mapped != lossless.priority_of_dscp.end() ? mapped->second : dscp >> 3;
    if ((lossless.pfc >> priority & 1) != 0) continue;
    int lossless_priority = 0;
    while ((lossless.pfc >> lossless_priority & 1) == 0) ++lossless_priority;
    int wanted = lossless_priority << 3;
    for (const auto& [each, maps_to] : lossless.priority_of_dscp)
      if (maps_to == lossless_priority) wanted = each;
    // The usual code points of RoCE's priority 3.
    if (lossless_priority == 3 && lossless.priority_of_dscp.empty()) wanted = 26;
    exam.findings.add(
        {.check = "traffic-class",
         .severity = Severity::kWarning,
         .what = "the traffic class of the job has no lossless priority",
         .seen = {{port->label(), where,
                   "DSCP " + std::to_string(dscp) + ", priority " + std::to_string(priority)},
                  {port->label(), "dcb pfc show dev " + port->interface,
                   "PFC on in priority " + std::to_string(lossless_priority)}},
         .why = "The switches drop these packets under load although the fabric has a lossless priority.",
         .fix = "export NCCL_IB_TC=" + std::to_string(wanted << kDscpShift) + "    (DSCP " +
                std::to_string(wanted) + ", priority " + std::to_string(lossless_priority) + ")"});
  }
}

// The switches of congestion control in NVIDIA's driver: notification point (the receiver sends CNPs) and
// reaction point (the sender slows down), for each priority.
void checkEcn(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->roce() || !port->active() || port->interface.empty()) continue;
    std::string where;
    const Lossless lossless = losslessOf(exam.system, port->interface);
    const int dscp = trafficClass(exam, *port, where) >> 2;
    const auto mapped = lossless.priority_of_dscp.find(dscp);
    const std::string priority =
        std::to_string(mapped != lossless.priority_of_dscp.end() ? mapped->second : dscp >> 3);
    for (const char* point : {"roce_np", "roce_rp"}) {
      const std::string file = "/sys/class/net/" + port->interface + "/ecn/" + point + "/enable/" + priority;
      if (exam.system.number(file).value_or(1) != 0) continue;
      exam.findings.add({.check = "ecn",
                         .severity = Severity::kAdvice,
                         .what = "congestion control (ECN) is off in the priority of the job",
                         .seen = {{port->label(), file, "0"}},
                         .why = "Under congestion packets are then dropped, or PFC stops whole switches.",
                         .fix = "echo 1 | sudo tee " + file});
    }
  }
}

constexpr std::array<Check, 6> kAddressChecks = {
    {{"gid", "rdma", "GIDs of RoCE ports: none, RoCE v1 alone, link-local alone", checkGids},
     {"gid-index", "rdma", "NCCL_IB_GID_INDEX against the GID tables", checkGidIndex},
     {"mtu", "rdma", "packet size of ports against the interface's and each other's", checkMtu},
     {"pfc", "rdma", "priority flow control of RoCE ports", checkPfc},
     {"ecn", "rdma", "ECN of RoCE ports, where the driver tells", checkEcn},
     {"traffic-class", "rdma", "the job's traffic class against the lossless priorities",
      checkTrafficClass}}};

}  // namespace

std::span<const Check> addressChecks() { return kAddressChecks; }

}  // namespace railwise::doctor
