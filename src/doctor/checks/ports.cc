// RDMA ports: is the link up, as wide and fast as it could be, and does it lose packets?
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "doctor/checks/check.h"

namespace railwise::doctor {
namespace {

const char* stateName(PortState state) {
  static constexpr const char* kNames[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
  return state == PortState::kUnknown ? "unknown" : kNames[static_cast<int>(state)];
}

// Is another port of the card up? Cards with two ports often have one cable.
bool cardHasActivePort(const Examination& exam, const RdmaPort& port) {
  const auto card = [](const std::string& path) { return path.substr(0, path.rfind('.')); };
  return std::any_of(exam.ports.begin(), exam.ports.end(), [&](const RdmaPort& other) {
    return other.active() && (other.device == port.device ||
                              (!port.pci_path.empty() && card(other.pci_path) == card(port.pci_path)));
  });
}

std::string upFix(const RdmaPort& port) {
  const std::string link = port.interface.empty() ? "" : "sudo ip link set " + port.interface + " up\n";
  if (port.physical.starts_with("3:"))  // Disabled
    return link.empty()
               ? "sudo ibportstate -D 0 " + std::to_string(port.number) + " enable    (as the port's CA)"
               : link + "rdma link show " + port.device + "/" + std::to_string(port.number);
  return link + "rdma link show " + port.device + "/" + std::to_string(port.number) +
         "\nThen the cable, the transceiver and the switch's port: sudo mlxlink -d " + port.device + " -m";
}

void checkState(Examination& exam) {
  bool any_active = false;
  for (const RdmaPort* port : exam.usedPorts()) any_active = any_active || port->active();
  for (const RdmaPort* port : exam.usedPorts()) {
    // INIT and ARMED on InfiniBand is the subnet manager's fault: ib-sm.
    const bool waits = port->state == PortState::kInit || port->state == PortState::kArmed;
    if (port->active() || port->state == PortState::kUnknown || (waits && !port->roce())) continue;
    const bool spare = cardHasActivePort(exam, *port);
    Finding finding{.check = "port-state"};
    finding.severity = spare ? Severity::kAdvice : any_active ? Severity::kWarning : Severity::kError;
    finding.what = std::string("the port is ") + (waits ? "not ready" : "down");
    finding.seen.push_back({port->label(), port->folder + "/state",
                            std::string(stateName(port->state)) +
                                (port->physical.empty() ? "" : ", phys_state " + port->physical)});
    finding.why =
        spare ? "The card's other port is up. NCCL leaves this port out."
        : any_active
            ? "NCCL leaves the port out: its rail's bandwidth is lost, and other hosts that have the "
              "rail wait for it or go around."
            : "No port is up: NCCL falls back to TCP sockets without a word.";
    finding.fix = upFix(*port);
    exam.findings.add(std::move(finding));
  }
}

void checkSubnetManager(Examination& exam) {
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->infiniband() || port->simulated) continue;  // a software machine has no LIDs in /sys
    const bool waits = port->state == PortState::kInit || port->state == PortState::kArmed;
    const bool no_lid = port->active() && (port->lid == 0 || port->sm_lid == 0);
    if (!waits && !no_lid) continue;
    Finding finding{.check = "ib-sm", .severity = Severity::kError};
    finding.what = "no subnet manager has configured the InfiniBand port";
    finding.seen.push_back({port->label(),
                            port->folder + (waits            ? "/state"
                                            : port->lid == 0 ? "/lid"
                                                             : "/sm_lid"),
                            waits ? stateName(port->state) : "0x0"});
    finding.why = "Without a LID from a subnet manager no queue pair of this port connects.";
    finding.fix = "sudo sminfo -C " + port->device + " -P " + std::to_string(port->number) +
                  "\nIf nothing answers, start the subnet manager of the fabric (on a switch, UFM, or "
                  "`sudo systemctl start opensm` on one host)";
    exam.findings.add(std::move(finding));
  }
}

// The rate that most ports of one kind of card have, if one rate is more frequent than any other, or the
// highest.
int usualRate(const Examination& exam, const RdmaPort& port) {
  int most = 0;
  for (const RdmaPort& other : exam.ports)
    if (other.active() && other.type == port.type && other.layer == port.layer && other.board == port.board)
      most = std::max(most, other.rate_mbps);
  return most;
}

int fastestMode(const Examination& exam, const RdmaPort& port) {
  if (port.interface.empty()) return 0;
  return static_cast<int>(exam.system.number(kLinkModesFolder + port.interface).value_or(0));
}

void checkSpeed(Examination& exam) {
  constexpr int kFullLanes = 4;
  constexpr int kLaneTenthGeneration = 25000;  // a lane of 25 Gb/s and more belongs to a card of four lanes
  for (const RdmaPort* port : exam.usedPorts()) {
    if (!port->active() || port->software || port->rate_mbps == 0) continue;
    Finding finding{.check = "port-speed", .severity = Severity::kWarning};
    const std::string now = gbpsText(port->rate_mbps);
    const int fellow = port->type.empty() ? 0 : usualRate(exam, *port);
    const int able = fastestMode(exam, *port);
    const bool narrow = port->infiniband() && port->lanes > 0 && port->lanes < kFullLanes &&
                        port->rate_mbps / port->lanes >= kLaneTenthGeneration;
    std::string better;
    if (narrow) better = "4X";
    if (able > port->rate_mbps) better = gbpsText(able);
    if (fellow > port->rate_mbps) better = gbpsText(fellow);
    if (better.empty()) continue;
    finding.what = narrow && better == "4X" ? "the link runs with fewer lanes than its four"
                                            : "the link is slower than the card's " + better;
    finding.seen.push_back({port->label(), port->folder + "/rate", exam.system.line(port->folder + "/rate")});
    finding.why = fellow > port->rate_mbps ? "Every other port of this kind runs at " + better +
                                                 "; a ring goes at the pace of its slowest "
                                                 "NIC, so all of them lose."
                                           : "A collective goes at the pace of its slowest NIC.";
    finding.fix = "sudo mlxlink -d " + port->device + " -m -c    (cable, lanes, errors)\n" +
                  (port->interface.empty() ? "sudo iblinkinfo | grep -i " + port->device
                                           : "sudo ethtool " + port->interface);
    exam.findings.add(std::move(finding));
  }
}

// A counter that should stand still, and what it means when it moves.
struct Counter {
  const char* path;  // below the port's folder
  Severity severity;
  const char* what;
  const char* fix;
};
constexpr const char* kCableFix =
    "sudo mlxlink -d <device> -m -c -e    (bit errors, cable)\nClean or replace the cable or transceiver";
constexpr const char* kFabricFix =
    "Look for drops on the path: `ethtool -S <interface> | grep -e discard -e pause`, the switch's counters, "
    "PFC and "
    "ECN (checks pfc and traffic-class)";
constexpr std::array<Counter, 16> kCounters = {
    {{"counters/symbol_error", Severity::kWarning, "the link has symbol errors now", kCableFix},
     {"counters/link_error_recovery", Severity::kWarning, "the link recovers from errors now", kCableFix},
     {"counters/link_downed", Severity::kError, "the link is flapping", kCableFix},
     {"counters/local_link_integrity_errors", Severity::kWarning, "the link loses integrity now", kCableFix},
     {"counters/port_rcv_errors", Severity::kWarning, "the port receives damaged packets now", kCableFix},
     {"counters/port_xmit_discards", Severity::kWarning, "the port discards packets now", kFabricFix},
     {"hw_counters/rx_icrc_encapsulated", Severity::kWarning, "packets arrive damaged (ICRC)", kCableFix},
     {"hw_counters/out_of_sequence", Severity::kWarning, "packets are lost now (out of sequence)",
      kFabricFix},
     {"hw_counters/out_of_seq_request", Severity::kWarning, "packets are lost now (out of sequence)",
      kFabricFix},
     {"hw_counters/rcvd_seq_err", Severity::kWarning, "packets are lost now (NAK received)", kFabricFix},
     {"hw_counters/packet_seq_err", Severity::kWarning, "packets are lost now (NAK received)", kFabricFix},
     {"hw_counters/local_ack_timeout_err", Severity::kWarning, "acknowledgements time out now", kFabricFix},
     {"hw_counters/rx_out_of_buffer", Severity::kWarning, "the NIC runs out of receive buffers now",
      kFabricFix},
     {"hw_counters/rnr_nak_retry_err", Severity::kWarning, "the receiver is not ready and retries run out",
      kFabricFix},
     {"hw_counters/np_cnp_sent", Severity::kAdvice, "the fabric is congested now (CNPs sent)", kFabricFix},
     {"hw_counters/rp_cnp_handled", Severity::kAdvice, "the fabric is congested now (CNPs received)",
      kFabricFix}}};

void checkCounters(Examination& exam) {
  const auto milliseconds = exam.system.number(kLaterFile);
  if (!milliseconds.has_value()) return;
  for (const RdmaPort* port : exam.usedPorts()) {
    for (const Counter& counter : kCounters) {
      const std::string path = port->folder + "/" + counter.path;
      const auto before = exam.system.number(path);
      const auto after = exam.system.number(kLaterFolder + path);
      if (!before || !after || *after <= *before) continue;
      exam.findings.add({.check = "port-errors",
                         .severity = counter.severity,
                         .what = counter.what,
                         .seen = {{port->label(), path,
                                   std::to_string(*before) + " -> " + std::to_string(*after) + " in " +
                                       std::to_string(*milliseconds) + " ms"}},
                         .why =
                             "Each lost packet is sent again after a timeout or a NAK: some hundredths of a "
                             "percent of loss can cost half of the bandwidth.",
                         .fix = counter.fix});
    }
  }
}

constexpr std::array<Check, 4> kPortChecks = {
    {{"port-state", "rdma", "ports that are not up", checkState},
     {"ib-sm", "rdma", "InfiniBand ports without a subnet manager", checkSubnetManager},
     {"port-speed", "rdma", "speed and width of ports against the card's and against each other", checkSpeed},
     {"port-errors", "rdma", "error counters that move within a second", checkCounters}}};

}  // namespace

std::span<const Check> portChecks() { return kPortChecks; }

}  // namespace railwise::doctor
