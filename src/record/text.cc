// Names of what a record holds, for people.
#include "record/snapshot.h"

namespace railwise::record {

const char* eventText(EventKind kind) {
  switch (kind) {
    case EventKind::kNone:
      return "none";
    case EventKind::kProcessStarted:
      return "started";
    case EventKind::kProcessEnded:
      return "ended";
    case EventKind::kConnecting:
      return "connecting";
    case EventKind::kConnected:
      return "connected";
    case EventKind::kConnectFailed:
      return "connect failed";
    case EventKind::kSlowConnect:
      return "slow connect";
    case EventKind::kPathLost:
      return "path lost";
    case EventKind::kPathFound:
      return "path found";
    case EventKind::kWentBack:
      return "went back";
    case EventKind::kFailed:
      return "failed";
    case EventKind::kClosed:
      return "closed";
    case EventKind::kPortDown:
      return "port down";
    case EventKind::kPortUp:
      return "port up";
    case EventKind::kAddressChanged:
      return "address changed";
    case EventKind::kDeviceFailed:
      return "device failed";
    case EventKind::kDeviceBack:
      return "device back";
    case EventKind::kSlowMessage:
      return "slow message";
    case EventKind::kSlowMessageEnded:
      return "slow message ended";
    case EventKind::kOtherEvent:
      return "other";
    case EventKind::kContract:
      return "contract";
  }
  return "unknown";
}

const char* endText(ConnectionKind kind, Side side) {
  const bool one_sided = kind == ConnectionKind::kOneSided;
  switch (side) {
    case Side::kSender:
      return one_sided ? "put" : "send";
    case Side::kReceiver:
      return one_sided ? "target" : "receive";
    case Side::kListener:
      break;
  }
  return "listener";
}

const char* unitText(ConnectionKind kind, Side side) {
  if (kind == ConnectionKind::kOneSided) return side == Side::kSender ? "operation" : "signal";
  return side == Side::kReceiver ? "receive" : "message";
}

std::string hostOf(const Process& process) {
  const std::string pid = ":" + std::to_string(process.pid);
  return process.host.ends_with(pid) ? process.host.substr(0, process.host.size() - pid.size())
                                     : process.host;
}

std::string railText(const Rail& rail) { return rail.device + " port " + std::to_string(rail.port); }

std::string durationText(uint64_t since_ns, uint64_t until_ns) {
  const uint64_t ms = until_ns > since_ns ? (until_ns - since_ns) / 1000000 : 0;
  if (ms < 1000) return std::to_string(ms) + " ms";
  if (ms < 120000) return std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + " s";
  const uint64_t seconds = ms / 1000;
  if (seconds < 7200) return std::to_string(seconds / 60) + " min";
  return std::to_string(seconds / 3600) + " h " + std::to_string(seconds % 3600 / 60) + " min";
}

}  // namespace railwise::record
