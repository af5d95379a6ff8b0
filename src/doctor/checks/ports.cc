// RDMA ports: is the link up, as wide and fast as it could be, and does it lose packets?
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "base/pci.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "doctor/checks/check.h"
#include "sysfs/rdma_devices.h"

namespace railwise::doctor {
namespace {

using enum Severity;

const char* stateName(PortState state) {
  static constexpr const char* kNames[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
  return state == PortState::kUnknown ? "unknown" : kNames[static_cast<int>(state)];
}

// Is another port of the card up? Cards with two ports often have one cable. All functions of a card count.
bool cardHasActivePort(const Examination& exam, const RdmaPort& port) {
  const auto card = [&](const RdmaPort& each) {
    return sysfs::cardOf(exam.system.tree(), each.pci_path, true);
  };
  return std::ranges::any_of(exam.ports, [&](const RdmaPort& other) {
    return other.active() &&
           (other.device == port.device || (!port.pci_path.empty() && card(other) == card(port)));
  });
}

// NVIDIA's tool for its cards' links; the distribution's own has another name.
std::string linkTool(const Examination& exam, const RdmaPort& port) {
  if (exam.system.line(port.pci_path + "/vendor") != pci::kMellanox) return "";
  return "sudo mlxlink -d " + port.device + " -m -c -e    (or mstlink -d " +
         std::string(sysfs::baseName(port.pci_path)) + ": cable, lanes, bit errors)";
}

std::string ibPort(const RdmaPort& port, const char* action) {
  const std::string number = std::to_string(port.number);
  return "sudo ibportstate -C " + port.device + " -P " + number + " -D 0 " + number + " " + action;
}

std::string upFix(const Examination& exam, const RdmaPort& port) {
  const bool disabled = port.physical.starts_with("3:");
  // EFA has no interface, and no cable of the user's.
  if (exam.system.line(port.pci_path + "/vendor") == pci::kAmazon)
    return "rdma link show " + port.device + "/" + std::to_string(port.number) +
           "\nsudo dmesg | grep -i efa    (then reboot the instance; stop and start it: it gets another "
           "host)";
  std::string fix =
      port.infiniband()
          ? disabled ? ibPort(port, "enable") + "\n" : ""
          : "sudo ip link set " + (port.interface.empty() ? "<interface>" : port.interface) + " up\n";
  fix += "rdma link show " + port.device + "/" + std::to_string(port.number);
  const std::string tool = linkTool(exam, port);
  return fix + "\nThen the cable, the transceiver and the switch's port" + (tool.empty() ? "" : ": " + tool);
}

// Is a port of this kind of card in use? A NIC of another kind (onboard, storage) may have no cable on
// purpose.
bool kindInUse(const Examination& exam, const RdmaPort& port) {
  return port.type.empty() || std::ranges::any_of(exam.ports, [&](const RdmaPort& other) {
           return other.active() && sameKind(other, port);
         });
}

// A file that is there and says nothing that can be understood.
void addUnreadable(Examination& exam, const RdmaPort& port, const std::string& name) {
  const std::string file = port.folder + "/" + name, value = exam.system.line(file);
  if (!exam.system.exists(file)) return;
  exam.add(kAdvice, "the port's " + name + " cannot be read",
           {{port.label(), file, value.empty() ? "empty" : value}},
           "The port is not judged, and NCCL may leave it out: the driver or the card does not answer.",
           "cat " + file + "; sudo dmesg | grep -i -e " + port.device + " -e mlx5 | tail");
}

void checkState(Examination& exam) {
  bool any_active = false;
  for (const RdmaPort* port : exam.usedPorts()) any_active = any_active || port->active();
  for (const RdmaPort* port : exam.usedPorts()) {
    // INIT and ARMED on InfiniBand is the subnet manager's fault: ib-sm.
    const bool waits = port->state == PortState::kInit || port->state == PortState::kArmed;
    if (port->state == PortState::kUnknown) addUnreadable(exam, *port, "state");
    if (port->active() || port->state == PortState::kUnknown || (waits && !port->roce())) continue;
    const bool spare = cardHasActivePort(exam, *port) || (any_active && !kindInUse(exam, *port));
    exam.add(spare        ? kAdvice
             : any_active ? kWarning
                          : kError,
             std::string("the port is ") + (waits ? "not ready" : "down"),
             {{port->label(), port->folder + "/state",
               std::string(stateName(port->state)) +
                   (port->physical.empty() ? "" : ", phys_state " + port->physical)}},
             spare        ? "Other ports are up (of the card, or of other cards). NCCL leaves this port out."
             : any_active ? "NCCL leaves the port out: its rail's bandwidth is lost, and other hosts "
                            "that have the rail wait for it or go around."
                          : std::string("No port is up. ") + exam.withoutNics(),
             upFix(exam, *port));
  }
}

// A LID is of one port in a subnet; the virtual functions of a card share it. Where most ports have the same
// one, each rail is a subnet by itself.
void checkLids(Examination& exam) {
  std::map<std::string, std::vector<const RdmaPort*>> by_lid;
  std::size_t all = 0;
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->infiniband() || !port->active() || port->simulated || port->lid <= 0) continue;
    constexpr std::size_t kPrefix = 19;  // of a GID: the subnet's four groups
    const std::string subnet = port->gids.empty() ? "" : port->gids[0].value.substr(0, kPrefix);
    by_lid[subnet + " " + std::to_string(port->sm_lid) + " " + std::to_string(port->lid)].push_back(port);
    ++all;
  }
  for (const auto& [lid, ports] : by_lid) {
    std::set<std::string> cards;
    std::vector<Seen> seen;
    for (const RdmaPort* port : ports) {
      cards.insert(sysfs::cardOf(exam.system.tree(), port->pci_path, true));
      seen.push_back({port->label(), port->folder + "/lid", exam.system.line(port->folder + "/lid")});
    }
    if (cards.size() < 2 || 2 * ports.size() > all) continue;
    exam.add(kWarning, "ports of one subnet have the same LID", std::move(seen),
             "What is sent to one of them arrives at the other: connections fail or hang.",
             "sudo sminfo -C " + ports[0]->device + " -P " + std::to_string(ports[0]->number) +
                 "    (who it is; its log has duplicated LIDs or GUIDs; let it assign them anew)\n"
                 "rails with a subnet manager each: give each subnet a prefix of its own");
  }
}

void checkGuid(Examination& exam, const RdmaPort& port) {
  const std::string file = "/sys/class/infiniband/" + port.device + "/node_guid";
  if (exam.system.line(file) != "0000:0000:0000:0000") return;
  exam.add(kWarning, "the device's node GUID is zero", {{port.device, file, "0000:0000:0000:0000"}},
           "The subnet manager cannot tell it from other devices, and librdmacm does not connect.",
           "sudo mstflint -d " + std::string(sysfs::baseName(port.pci_path)) +
               " query    (the card's GUIDs)\na virtual function: ip link set <interface> vf <n> node_guid "
               "<GUID>, on the host");
}

// The state between: the subnet manager has set up the port, and not yet opened it.
void addArmed(Examination& exam, const RdmaPort& port) {
  exam.add(kError, "the subnet manager has not finished with the InfiniBand port",
           {{port.label(), port.folder + "/state", "ARMED, LID " + std::to_string(port.lid)}},
           "A port that stays ARMED carries no data.",
           "sudo sminfo -C " + port.device + " -P " + std::to_string(port.number) +
               "    (who it is; its log names the port)\nsudo pkill -HUP opensm    (there: it sweeps anew)");
}

void checkSubnetManager(Examination& exam) {
  checkLids(exam);
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->infiniband() || port->simulated) continue;  // a software machine has no LIDs in /sys
    checkGuid(exam, *port);
    const bool waits = port->state == PortState::kInit || port->state == PortState::kArmed;
    const bool no_lid = port->active() && (port->lid == 0 || port->sm_lid == 0);
    if (!waits && !no_lid) continue;
    if (port->state == PortState::kArmed && port->lid > 0) {
      addArmed(exam, *port);
      continue;
    }
    exam.add(kError, "no subnet manager has configured the InfiniBand port",
             {{port->label(),
               port->folder + (waits            ? "/state"
                               : port->lid == 0 ? "/lid"
                                                : "/sm_lid"),
               waits ? stateName(port->state) : "0x0"}},
             "Without a LID from a subnet manager no queue pair of this port connects.",
             "sudo sminfo -C " + port->device + " -P " + std::to_string(port->number) +
                 "\nIf nothing answers, start the fabric's subnet manager: on a switch or UFM; only where "
                 "there is none, `sudo systemctl start opensm` on one host");
  }
}

// The rate that most active ports of one kind have, and these ports.
struct Usual {
  int rate_mbps = 0;
  std::vector<std::string> ports;
};
// Of two rates with as many ports each it is the faster one.
Usual usualOf(const Examination& exam, const RdmaPort& port) {
  constexpr std::size_t kLeast = 2;
  std::map<int, std::vector<std::string>> by_rate;
  for (const RdmaPort* other : exam.usedPorts())
    if (other->active() && sameKind(*other, port)) by_rate[other->rate_mbps].push_back(other->label());
  Usual usual;
  for (auto& [rate, ports] : by_rate)
    if (ports.size() >= std::max(kLeast, usual.ports.size())) usual = {rate, std::move(ports)};
  return usual;
}

int fastestMode(const Examination& exam, const RdmaPort& port) {
  if (port.interface.empty()) return 0;
  return static_cast<int>(exam.system.number(kLinkModesFolder + port.interface).value_or(0));
}

void checkSpeed(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->active() || port->software) continue;
    if (port->rate_mbps == 0) {
      addUnreadable(exam, *port, "rate");
      continue;
    }
    const Usual usual = port->type.empty() ? Usual() : usualOf(exam, *port);
    const int able = fastestMode(exam, *port);
    // Links of two lanes are sold (HDR100, NDR200); of a single one they are not.
    const bool narrow = port->infiniband() && port->lanes == 1;
    const bool slower = usual.rate_mbps > port->rate_mbps;
    if (!narrow && !slower && able <= port->rate_mbps) continue;
    const std::string better = gbpsText(slower ? usual.rate_mbps : able);
    const std::string tool = linkTool(exam, *port);
    // What a card could do is not always what was bought: a cable, a split port, a cloud's share.
    exam.add(narrow || slower ? kWarning : kAdvice,
             slower   ? "the link is slower than those of other ports of its kind"
             : narrow ? "the link runs with one lane of its four"
                      : "the link is slower than the card's " + better,
             {{port->label(), port->folder + "/rate", exam.system.line(port->folder + "/rate")}},
             (slower ? counted(usual.ports.size(), "port") + " of this kind run at " + better + " (" +
                           firstItems(usual.ports, 4) + "). "
                     : std::string()) +
                 "A collective goes at the pace of its slowest NIC.",
             (tool.empty() ? "" : tool + "\n") +
                 (port->interface.empty() ? ibPort(*port, "query") : "sudo ethtool " + port->interface));
  }
}

// The bond that carries a port: its interface, or the bond below its VLAN. "": none.
std::string bondOf(const System& system, const RdmaPort& port) {
  if (port.interface.empty()) return {};
  std::vector<std::string> names = physicalInterfaces(system, port.interface);
  names.insert(names.begin(), port.interface);
  for (const std::string& name : names)
    if (system.exists("/sys/class/net/" + name + "/bonding")) return name;
  return {};
}

// Source of the files: Linux, Documentation/networking/bonding.rst.
void checkBonds(Examination& exam) {
  const System& system = exam.system;
  for (const RdmaPort* port : exam.usedPorts()) {
    const std::string bond = bondOf(system, *port);
    if (bond.empty()) continue;
    const std::string folder = "/sys/class/net/" + bond + "/bonding/";
    const std::vector<std::string> parts = wordsOf(system.line(folder + "slaves"));
    const std::string mode = system.line(folder + "mode");
    std::vector<Seen> seen;
    for (const std::string& part : parts) {
      const std::string file = "/sys/class/net/" + part + "/bonding_slave/mii_status";
      if (system.line(file) == "down") seen.push_back({port->label(), file, part + " is down"});
    }
    const auto joined = system.number(folder + "ad_num_ports");
    const auto number = static_cast<long long>(parts.size());
    if (seen.empty() && mode.starts_with("802.3ad") && joined && *joined > 0 && *joined < number)
      seen.push_back({port->label(), folder + "ad_num_ports",
                      std::to_string(*joined) + " of " + std::to_string(number) + " ports"});
    const char* const why = "The NIC is as slow as the ports that are left: half of two.";
    if (!seen.empty())
      exam.add(kWarning, "a port of the bond carries nothing", std::move(seen), why,
               "cat /proc/net/bonding/" + bond +
                   "    (link, LACP partner)\nThen the cable, and the switch's LACP");
    else if (mode.starts_with("active-backup") && number >= 2)
      exam.add(
          kAdvice, "the bond uses one of its ports at a time", {{port->label(), folder + "mode", mode}}, why,
          "bond mode 802.3ad on host and switch, or no bond: NCCL and Railwise use single ports together");
  }
}

enum class Cause { kCable, kFabric };
using enum Cause;
// A counter that should stand still, and what it means when it moves.
struct Counter {
  const char* path;  // below the port's folder
  Severity severity;
  const char* what;
  Cause cause;
};

constexpr std::array<Counter, 24> kCounters = {
    {{"counters/symbol_error", kWarning, "the link has symbol errors now", kCable},
     {"counters/link_error_recovery", kWarning, "the link recovers from errors now", kCable},
     {"counters/link_downed", kError, "the link is flapping", kCable},
     {"counters/local_link_integrity_errors", kWarning, "the link loses integrity now", kCable},
     {"counters/port_rcv_errors", kWarning, "the port receives damaged packets now", kCable},
     {"counters/port_xmit_discards", kWarning, "the port discards packets now", kFabric},
     {"hw_counters/rx_icrc_encapsulated", kWarning, "packets arrive damaged (ICRC)", kCable},
     {"hw_counters/out_of_sequence", kWarning, "packets are lost now (out of sequence)", kFabric},
     {"hw_counters/out_of_seq_request", kWarning, "packets are lost now (out of sequence)", kFabric},
     {"hw_counters/rcvd_seq_err", kWarning, "packets are lost now (NAK received)", kFabric},
     {"hw_counters/packet_seq_err", kWarning, "packets are lost now (NAK received)", kFabric},
     {"hw_counters/local_ack_timeout_err", kWarning, "acknowledgements time out now", kFabric},
     {"hw_counters/out_of_buffer", kWarning, "the NIC runs out of receive buffers now", kFabric},
     {"hw_counters/to_retransmits", kWarning, "packets are sent again after a timeout now", kFabric},
     {"hw_counters/seq_err_naks_rcvd", kWarning, "packets are lost now (NAK received)", kFabric},
     {"hw_counters/rnr_nak_retry_err", kWarning, "the receiver is not ready and retries run out", kFabric},
     {"counters/excessive_buffer_overrun_errors", kWarning, "the port's buffers overrun now", kFabric},
     {"hw_counters/implied_nak_seq_err", kWarning, "packets are lost now (implied NAK)", kFabric},
     {"hw_counters/roce_adp_retrans_to", kWarning, "packets are sent again after an adaptive timeout now",
      kFabric},
     {"hw_counters/req_transport_retries_exceeded", kWarning, "retries run out now", kFabric},
     {"hw_counters/rx_drops", kWarning, "the EFA device drops packets now", kFabric},
     {"hw_counters/retrans_timeout_events", kWarning, "packets are sent again after a timeout now", kFabric},
     {"hw_counters/np_cnp_sent", kAdvice, "the fabric is congested now (CNPs sent)", kFabric},
     {"hw_counters/rp_cnp_handled", kAdvice, "the fabric is congested now (CNPs received)", kFabric}}};

std::string counterFix(const Examination& exam, const RdmaPort& port, Cause cause) {
  const std::string tool = linkTool(exam, port);
  if (cause == kCable) return (tool.empty() ? "" : tool + "\n") + "Clean or replace the cable or transceiver";
  return "Look for drops on the path" +
         (port.interface.empty() ? std::string()
                                 : ": ethtool -S " + port.interface + " | grep -e discard -e pause") +
         "\nThe switch's counters; on RoCE PFC and ECN (checks pfc, traffic-class, ecn)";
}

// A counter that has grown between the two looks; 0: it has not.
struct Growth {
  long long before = 0, after = 0;
  bool any() const { return after > before; }
  std::string text(long long milliseconds) const {
    return std::to_string(before) + " -> " + std::to_string(after) + " in " + std::to_string(milliseconds) +
           " ms";
  }
};
Growth growthOf(const Examination& exam, const std::string& path) {
  const auto before = exam.system.number(path), after = exam.system.number(kLaterFolder + path);
  return before && after ? Growth{*before, *after} : Growth{};
}

// What mlx5, bnxt_en, ice and others count of flow control: their names differ, the words in them do not.
void checkFlowControl(Examination& exam, const RdmaPort& port, long long milliseconds) {
  struct Kind {
    const char* word;
    const char* begins;
    Severity severity;
    const char* what;
  };
  static constexpr Kind kKinds[] = {
      {"storm", "", kError, "a pause storm: the port pauses its peer without end"},
      {"discard", "", kWarning, "the port discards packets now"},
      {"drop", "", kWarning, "the port drops packets now"},
      {"pause", "tx_", kAdvice, "the host is slower than what arrives (pause frames sent)"},
      {"pause", "rx_", kAdvice, "the switch holds this port back now (pause frames received)"}};
  const std::string folder = kEthernetCounters + port.interface;
  for (const Kind& kind : kKinds) {
    std::vector<Seen> seen;
    for (const std::string& name : exam.system.tree().list(folder)) {
      if (name.find(kind.word) == std::string::npos || !name.starts_with(kind.begins)) continue;
      if (std::string_view(kind.word) == "pause" && name.find("storm") != std::string::npos) continue;
      if (const Growth growth = growthOf(exam, folder + "/" + name); growth.any())
        seen.push_back(
            {port.label(), "ethtool -S " + port.interface + ": " + name, growth.text(milliseconds)});
    }
    exam.add(kind.severity, kind.what, std::move(seen),
             kind.severity == kAdvice
                 ? "Flow control works; while it holds a port back, the port is slower than it could be."
                 : "RoCE needs a network that drops nothing.",
             counterFix(exam, port, kFabric));
  }
}

void checkCounters(Examination& exam) {
  const auto milliseconds = exam.system.number(kLaterFile);
  if (!milliseconds.has_value()) return exam.nothingHere("no second look at the counters");
  for (const RdmaPort* port : exam.usedPorts()) {
    for (const Counter& counter : kCounters) {
      const std::string path = port->folder + "/" + counter.path;
      const Growth growth = growthOf(exam, path);
      if (!growth.any()) continue;
      exam.add(counter.severity, counter.what, {{port->label(), path, growth.text(*milliseconds)}},
               "Each lost packet is sent again after a timeout or a NAK: some hundredths of "
               "a percent of loss can cost half of the bandwidth.",
               counterFix(exam, *port, counter.cause));
    }
    checkFlowControl(exam, *port, *milliseconds);
  }
}

// A partition key: the lower 15 bits are the partition, bit 15 says full member. Two limited members of a
// partition cannot talk to each other (InfiniBand specification, 10.9).
constexpr unsigned kFullMember = 0x8000;

std::string keyText(unsigned key) { return formatText("0x%04x", key & 0xffffU); }

struct Keys {
  std::map<int, unsigned> table;  // by index, without empty entries
  int index = -1;                 // that a job takes; -1: the key of NCCL_IB_PKEY_VALUE is not in the table
  unsigned inForce() const {
    const auto its = table.find(index);
    return its == table.end() ? 0 : its->second;
  }
  // An index with a full member; -1: none.
  int fullIndex() const {
    for (const auto& [at, key] : table)
      if ((key & kFullMember) != 0) return at;
    return -1;
  }
};

Keys keysOf(const Examination& exam, const RdmaPort& port) {
  Keys keys;
  for (const std::string& entry : exam.system.tree().list(port.folder + "/pkeys"))
    if (const unsigned long key =
            std::strtoul(exam.system.line(port.folder + "/pkeys/" + entry).c_str(), nullptr, 16);
        key > 0 && key <= 0xffff)
      keys.table[std::atoi(entry.c_str())] = static_cast<unsigned>(key);
  const Variable* const index = exam.system.variable("NCCL_IB_PKEY");
  keys.index = index == nullptr ? 0 : std::atoi(index->value.c_str());
  const Variable* const value = exam.system.variable("NCCL_IB_PKEY_VALUE");
  const long wanted = value == nullptr ? -1 : std::strtol(value->value.c_str(), nullptr, 0);
  if (wanted < 0) return keys;
  keys.index = -1;
  for (const auto& [at, key] : keys.table)
    if ((key & ~kFullMember) == (static_cast<unsigned>(wanted) & ~kFullMember)) keys.index = at;
  return keys;
}

void addKeyFinding(Examination& exam, const RdmaPort& port, const Keys& keys) {
  const unsigned key = keys.inForce();
  if ((key & kFullMember) != 0) return;
  const int full = keys.fullIndex();
  const bool limited = key != 0;
  exam.add(kError,
           limited ? "the port is a limited member of its partition"
                   : "the partition key that jobs take is not there",
           {{port.label(), port.folder + "/pkeys/" + std::to_string(std::max(keys.index, 0)),
             limited ? keyText(key)
                     : "no key; others: " + (full < 0 ? std::string("none")
                                                      : "index " + std::to_string(full) + " is " +
                                                            keyText(keys.table.at(full)))}},
           limited ? "Two limited members (bit 15 clear, as in 0x7fff) cannot talk to each other: no "
                     "connection is made."
                   : "NCCL takes index 0 of the table unless it is told another: no queue pair connects.",
           full >= 0 ? "export NCCL_IB_PKEY=" + std::to_string(full) + "    (the index of " +
                           keyText(keys.table.at(full)) +
                           ", on all hosts; by its number from NCCL 2.31 on: NCCL_IB_PKEY_VALUE)"
                     : "make the port a full member in the subnet manager's partitions "
                       "(partitions.conf: GUID=full; or UFM)");
}

void checkKeys(Examination& exam) {
  std::map<unsigned, std::vector<Seen>> by_key;
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->infiniband() || !port->active()) continue;
    const Keys keys = keysOf(exam, *port);
    if (keys.table.empty()) continue;  // the tree has none
    addKeyFinding(exam, *port, keys);
    const unsigned key = keys.inForce();
    if (key == 0) continue;
    by_key[key & ~kFullMember].push_back(
        {port->label(), port->folder + "/pkeys/" + std::to_string(keys.index), keyText(key)});
  }
  if (by_key.size() < 2) return;
  const auto most = std::ranges::max_element(
      by_key, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<Seen> seen;
  for (const auto& [key, its] : by_key)
    if (key != most->first) seen.insert(seen.end(), its.begin(), its.end());
  exam.add(kWarning, "the port is in another partition than the others", std::move(seen),
           counted(most->second.size(), "port has", "ports have") + " " + most->second.front().value +
               ". The port's rail is cut off from hosts whose ports are all in one partition.",
           "compare the partitions of all ports in the subnet manager (partitions.conf, UFM)\n"
           "grep . /sys/class/infiniband/*/ports/*/pkeys/0    (on all hosts)");
}

constexpr std::array<Check, 6> kPortChecks = {
    {{"port-state", "rdma", "ports that are not up", checkState, Needs::kPort},
     {"ib-sm", "rdma", "InfiniBand ports without a subnet manager", checkSubnetManager, Needs::kInfiniband},
     {"pkeys", "rdma", "partition keys of InfiniBand ports: full members, one partition, NCCL_IB_PKEY",
      checkKeys, Needs::kInfiniband},
     {"port-speed", "rdma", "speed and width of ports against the card's and against each other", checkSpeed,
      Needs::kPort},
     {"bond", "rdma", "bonds of which a port carries nothing", checkBonds, Needs::kPort},
     {"port-errors", "rdma", "error counters that move within a second", checkCounters, Needs::kPort}}};

}  // namespace

std::span<const Check> portChecks() { return kPortChecks; }

}  // namespace railwise::doctor
