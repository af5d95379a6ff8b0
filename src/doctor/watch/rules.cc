// The rules of the watch. Limits are those that others run with: NVSentinel's nic-health-monitor (counters,
// devices that vanish, kernel lines), NVIDIA's Health Validation (30 s without a link).
#include <array>
#include <vector>

#include "doctor/log/judging/known_line.h"
#include "doctor/watch/watch.h"

namespace railwise::doctor {
namespace {

constexpr const char* kCable =
    "rdma link show; sudo mlxlink -d <device> -m -c -e    (mstlink -d <PCI address>): cable, lanes, bit "
    "errors";
constexpr const char* kFabric = "The switch's counters; on RoCE PFC and ECN: railwise doctor --only rdma";
constexpr const char* kKernelLog = "sudo dmesg -T | grep -i -e mlx5 -e bnxt -e irdma -e AER";

constexpr const char* kManifestFix =
    "railwise doctor --only manifest --manifest FILE    (names each difference)";

using enum WatchKind;
using enum Severity;
constexpr int kHour = 3600;
constexpr std::array kRules = {
    WatchRule{"port-down", kPortDown, kError, "state", 30, 0, "the port is down", "drain", kCable},
    WatchRule{"device-gone", kDeviceGone, kError, "", 3, 0, "the device is gone", "drain",
              "lspci -D; sudo dmesg -T | tail; as a rule the node must be powered off and on"},
    WatchRule{"port-flap", kFlaps, kWarning, "", 0, kHour, "the port has gone down, once or twice", "look",
              kCable},
    WatchRule{"port-flapping", kFlaps, kError, "", 2, kHour, "the port goes down again and again", "drain",
              kCable},
    WatchRule{"manifest-devices", kManifest, kError, "devices", 1, 0,
              "NICs, ports or GPUs are not as the manifest says", "drain", kManifestFix},
    WatchRule{"manifest-versions", kManifest, kWarning, "versions", 0, 0,
              "versions or settings are not as the manifest says", "look", kManifestFix},
    WatchRule{"symbol-errors", kCounter, kWarning, "counters/symbol_error", 120, kHour,
              "the link has symbol errors", "look", kCable},
    WatchRule{"symbol-error-storm", kCounter, kError, "counters/symbol_error", 100, 10,
              "the link has many symbol errors", "drain", kCable},
    WatchRule{"link-recovery", kCounter, kWarning, "counters/link_error_recovery", 5, 60,
              "the link recovers from errors", "look", kCable},
    WatchRule{"link-integrity", kCounter, kError, "counters/local_link_integrity_errors", 0, 10,
              "the link loses integrity", "drain", kCable},
    WatchRule{"buffer-overrun", kCounter, kError, "counters/excessive_buffer_overrun_errors", 0, 10,
              "the port's buffers overrun", "drain", kFabric},
    WatchRule{"receive-errors", kCounter, kWarning, "counters/port_rcv_errors", 100, 10,
              "the port receives damaged packets", "look", kCable},
    WatchRule{"send-discards", kCounter, kWarning, "counters/port_xmit_discards", 1000, 10,
              "the port discards packets", "look", kFabric},
    WatchRule{"ack-timeouts", kCounter, kWarning, "hw_counters/local_ack_timeout_err", 10, 10,
              "acknowledgements time out", "look", kFabric},
    WatchRule{"receiver-not-ready", kCounter, kError, "hw_counters/rnr_nak_retry_err", 0, 10,
              "a receiver is not ready and retries run out", "look",
              "The peer's process: is it stopped, or out of memory?"},
    WatchRule{"retries-exceeded", kCounter, kWarning, "hw_counters/req_transport_retries_exceeded", 0, 10,
              "retries run out: a path or a peer is gone", "look", kFabric},
    WatchRule{"efa-no-completion", kCounter, kError, "hw_counters/no_completion_cmds", 0, 10,
              "the EFA device does not complete commands", "drain", kKernelLog},
    WatchRule{"efa-drops", kCounter, kWarning, "hw_counters/rx_drops", 1000, 10,
              "the EFA device drops packets", "look", kKernelLog},
    WatchRule{"pcie-link", kPciLink, kWarning, "current_link_speed, current_link_width", 0, 0,
              "the NIC's PCIe link is slower than card and slot", "look",
              "sudo lspci -vv -s <PCI address> | grep LnkSta    (downgraded: seat the card again)"},
    WatchRule{"nic-firmware", kKernel, kError, "mlx5_core&health compromised", 0, kHour,
              "the kernel says that the NIC's firmware is not well", "drain", kKernelLog},
    WatchRule{"nic-firmware", kKernel, kError, "mlx5_core&unrecoverable", 0, kHour,
              "the kernel says that the NIC's firmware is not well", "drain", kKernelLog},
    WatchRule{"nic-command-timeout", kKernel, kError, "mlx5_core&timeout. Will cause a leak", 0, kHour,
              "the NIC does not answer the driver's commands", "drain", kKernelLog},
    WatchRule{"nic-transmit-timeout", kKernel, kWarning, "TX timeout", 0, kHour,
              "a send queue of the NIC stands still", "look", kKernelLog},
    WatchRule{"nic-power", kKernel, kWarning, "insufficient power", 0, kHour,
              "the slot gives the NIC too little power", "look", kKernelLog},
    WatchRule{"nic-temperature", kKernel, kWarning, "High temperature", 0, kHour, "the NIC is hot", "look",
              kKernelLog},
    WatchRule{"out-of-memory", kKernel, kWarning, "Out of memory: Killed process", 0, kHour,
              "the kernel has killed a process: no memory was left", "look", "sudo dmesg -T | grep -i oom"},
};

}  // namespace

std::span<const WatchRule> watchRules() {
  static const std::vector<WatchRule> kAll = [] {
    std::vector<WatchRule> all(kRules.begin(), kRules.end());
    for (const KnownLine& line : knownOtherLines())  // Xids
      if (*line.watch != '\0')
        all.push_back(
            {line.watch, kKernel, kError, line.words.data(), 0, kHour, line.what, "drain", line.fix});
    return all;
  }();
  return kAll;
}

const char* watchKindName(WatchKind kind) {
  constexpr const char* kNames[] = {"state",     "presence",   "flaps",   "counter",
                                    "PCIe link", "kernel log", "manifest"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace railwise::doctor
