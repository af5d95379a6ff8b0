// What the two ends of a connection say to each other over the side channel after the handshake: frames, each
// with the header of the handshake's messages. docs/transport.md tells who sends which when.
//
// Everything is little-endian with fixed offsets, and comes from outside: checkFrame() looks at every field
// before anyone uses one. Plain values, any thread.
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "net/protocol/wire.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

inline constexpr std::size_t kReasonBytes = 320;
// Of a break that nothing has failed for.
inline constexpr char kGoesBack[] = "a better way works again";
inline constexpr uint8_t kNoQueuePair = 0xff;

// Sender: my queue pairs of the epoch before this one are gone.
struct BreakFrame {
  MessageHeader header;
  uint64_t epoch;
  char reason[kReasonBytes];
};

// Receiver: mine are gone too; this is what has arrived, and what I can be reached by.
struct SettleFrame {
  MessageHeader header;
  uint64_t epoch;
  uint64_t arrived;  // all receives up to this one are complete
  uint32_t done;     // bit i: receive arrived + 1 + i is
  uint8_t failed;    // the queue pair of the last epoch that failed here; kNoQueuePair: none of them
  uint8_t native;    // so many rails, the first, are those of the connection's own device
  uint8_t open;      // 1: there are receives that wait
  uint8_t reserved;
  char reason[kReasonBytes];
  EndInfo end;  // without queue pairs
};

// Sender: these are the queue pairs of the new epoch.
struct ProposeFrame {
  MessageHeader header;
  uint64_t epoch;
  uint8_t rails;            // of the receiver that are used,
  uint8_t rail[kMaxRails];  // their places in the settle's list
  uint8_t reserved[7];
  EndInfo end;
  QueuePairInfo pair[kMaxQueuePairs];  // as in a handshake's reply: `rail` counts the rails used
};

// Receiver: and these are mine.
struct AcceptFrame {
  MessageHeader header;
  uint64_t epoch;
  EndInfo end;
};

// Sender: the epoch has begun (kBegin); there is no way that it could propose now (kSearching).
struct EpochFrame {
  MessageHeader header;
  uint64_t epoch;
};

// Receiver (kArrived), at any time: all receives up to `number` are complete. Sender (kUnposted): `number` is
// the first receive that it has not posted everything for.
struct ArrivedFrame {
  MessageHeader header;
  uint64_t number;
};

// Sender, while it goes over less than it could: what can you be reached by now? Answered by RailsFrame.
struct AskRailsFrame {
  MessageHeader header;
  uint64_t epoch;
};
struct RailsFrame {
  MessageHeader header;
  uint64_t epoch;
  uint8_t native;
  uint8_t reserved[7];
  EndInfo end;  // without queue pairs
};

// Sender: make one queue pair for a trial of this way. Answered by TrialReplyFrame.
struct TrialFrame {
  MessageHeader header;
  uint64_t trial;
  uint8_t rail;  // of the receiver, its place in the list of the last RailsFrame
  uint8_t gid;
  uint8_t peer_gid;
  uint8_t reserved[5];
  EndInfo end;  // one rail, one queue pair
};
struct TrialReplyFrame {
  MessageHeader header;
  uint64_t trial;
  uint64_t accepted;  // 1, or 0: it cannot be made
  EndInfo end;
};

// Either: this end does nothing more.
struct FarewellFrame {
  MessageHeader header;
  uint64_t arrived;           // of a receiver: all receives up to this number are complete
  char reason[kReasonBytes];  // "": an ordinary end
};

inline constexpr std::size_t kMaxFrameBytes = sizeof(ProposeFrame);
static_assert(sizeof(BreakFrame) == 24 + kReasonBytes);
static_assert(sizeof(SettleFrame) == 40 + kReasonBytes + sizeof(EndInfo) &&
              sizeof(SettleFrame) <= kMaxFrameBytes);
static_assert(sizeof(ProposeFrame) == 40 + sizeof(EndInfo) + kMaxQueuePairs * sizeof(QueuePairInfo));
static_assert(sizeof(AcceptFrame) == 24 + sizeof(EndInfo) && sizeof(TrialReplyFrame) == 32 + sizeof(EndInfo));
static_assert(sizeof(RailsFrame) == 32 + sizeof(EndInfo) && sizeof(TrialFrame) == 32 + sizeof(EndInfo));
static_assert(sizeof(FarewellFrame) == 24 + kReasonBytes && sizeof(EpochFrame) == 24 &&
              sizeof(ArrivedFrame) == 24);

// `bytes` has the length of a Frame.
template <typename Frame>
Frame frameOf(std::span<const std::byte> bytes) {
  Frame frame;
  std::memcpy(&frame, bytes.data(), sizeof frame);
  return frame;
}

// How long a frame of this type is; 0: there is no such.
std::size_t frameBytes(MessageType type);
// What is wrong with a whole frame, in words; "": nothing.
std::string checkFrame(std::span<const std::byte> frame);

}  // namespace railwise::net
