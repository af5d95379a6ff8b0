#include "net/wireup/frames.h"

#include <algorithm>

namespace railwise::net {
namespace {

std::string checkReason(std::span<const char> reason) {
  return std::find(reason.begin(), reason.end(), '\0') != reason.end() ? "" : "a reason without end";
}

std::string checkReconcile(const ReconcileFrame& reconcile) {
  if (std::string problem = checkRails(reconcile.end); !problem.empty()) return problem;
  if (reconcile.native > reconcile.end.rails) return "an impossible number of rails";
  if (reconcile.count > kMostWords) return "an impossible number of words";
  return checkReason(reconcile.reason);
}

std::string checkPropose(const ProposeFrame& propose) {
  if (std::string problem = checkEnd(propose.end); !problem.empty()) return problem;
  if (propose.rails < 1 || propose.rails > kMaxRails) return "an impossible number of rails";
  for (int i = 0; i < propose.end.queue_pairs; ++i) {
    const QueuePairInfo& pair = propose.pair[i];
    if (pair.rail >= propose.rails || pair.gid >= kRailGids || pair.peer_gid >= kRailGids)
      return "an impossible pairing";
  }
  return {};
}

}  // namespace

std::size_t frameBytes(MessageType type) {
  switch (type) {
    case MessageType::kBreak:
      return sizeof(BreakFrame);
    case MessageType::kReconcile:
      return sizeof(ReconcileFrame);
    case MessageType::kPropose:
      return sizeof(ProposeFrame);
    case MessageType::kAccept:
      return sizeof(AcceptFrame);
    case MessageType::kBegin:
    case MessageType::kSearching:
      return sizeof(EpochFrame);
    case MessageType::kArrived:
    case MessageType::kUnposted:
      return sizeof(ArrivedFrame);
    case MessageType::kAskRails:
      return sizeof(AskRailsFrame);
    case MessageType::kRails:
      return sizeof(RailsFrame);
    case MessageType::kTrial:
      return sizeof(TrialFrame);
    case MessageType::kTrialReply:
      return sizeof(TrialReplyFrame);
    case MessageType::kClose:
      return sizeof(CloseFrame);
    case MessageType::kUser:
      return sizeof(UserFrame);
    default:
      return 0;
  }
}

std::string checkFrame(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(MessageHeader)) return "a frame without header";
  const auto header = frameOf<MessageHeader>(bytes);
  const std::size_t expected = frameBytes(header.type);
  if (expected == 0 || bytes.size() != expected) return "a frame of an unknown kind";
  if (std::string problem = checkHeader(header, header.type, expected); !problem.empty()) return problem;
  switch (header.type) {
    case MessageType::kBreak:
      return checkReason(frameOf<BreakFrame>(bytes).reason);
    case MessageType::kReconcile:
      return checkReconcile(frameOf<ReconcileFrame>(bytes));
    case MessageType::kPropose:
      return checkPropose(frameOf<ProposeFrame>(bytes));
    case MessageType::kAccept:
      return checkEnd(frameOf<AcceptFrame>(bytes).end);
    case MessageType::kRails: {
      const auto rails = frameOf<RailsFrame>(bytes);
      return rails.native > rails.end.rails ? "an impossible number of rails" : checkRails(rails.end);
    }
    case MessageType::kTrial: {
      const auto trial = frameOf<TrialFrame>(bytes);
      if (trial.rail >= kMaxRails || trial.gid >= kRailGids || trial.peer_gid >= kRailGids)
        return "an impossible pairing";
      return checkEnd(trial.end);
    }
    case MessageType::kTrialReply: {
      const auto reply = frameOf<TrialReplyFrame>(bytes);
      return reply.accepted == 0 ? "" : checkEnd(reply.end);
    }
    case MessageType::kClose:
      return checkReason(frameOf<CloseFrame>(bytes).reason);
    default:
      return {};
  }
}

}  // namespace railwise::net
