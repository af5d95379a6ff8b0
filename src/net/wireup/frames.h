// The frames that the two ends of a connection send each other over the side channel after the handshake.
// Each frame begins with the header of the handshake's messages. docs/develop/wireup.md says what each does
// in each phase.
//
// Everything is little-endian with fixed offsets. A frame comes from outside: checkFrame() checks every field
// before any other code uses one. Plain values, any thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "net/wireup/handshake.h"

namespace railwise::net {

inline constexpr std::size_t kReasonBytes = 320;
// The reason in a Break that no failure has caused: the connection goes back to better paths.
inline constexpr char kGoesBack[] = "a better path works again";
inline constexpr uint8_t kNoQueuePair = 0xff;
// Numbers that a Reconcile may have. Messages say two; a user with several streams says one for each of them,
// and NCCL makes far fewer streams.
inline constexpr std::size_t kMostWords = 64;
// What the user of a link puts into a frame of its own: one cache line, which holds an address, a length, a
// key for each of eight rails and a few numbers.
inline constexpr std::size_t kUserFrameBytes = 64;

// Sender, Break: the sender has lost the epoch before `epoch`, and stops its queue pairs.
struct BreakFrame {
  MessageHeader header;
  uint64_t epoch;
  char reason[kReasonBytes];
};

// What the failure of a path has cost: nothing, when the device has reported it; time, when nothing came
// back, or when the path could not be joined in time.
enum class FailureCost : uint8_t { kNone = 0, kTime = 1 };

// Receiver, Reconcile: the receiver has destroyed its queue pairs of the epoch before `epoch`. The frame has
// what has arrived, and by which rails the receiver can be reached.
struct ReconcileFrame {
  MessageHeader header;
  uint64_t epoch;
  // What the receiver's user is certain of (Words). Of messages there are two numbers: all receives up to the
  // first one are complete, and receive first + 1 + i is complete if bit i of the second one is set.
  uint32_t count;
  uint8_t failed;    // the queue pair that failed at the receiver; kNoQueuePair: no particular one
  uint8_t native;    // number of the receiver's native rails; they are the first in `end`
  uint8_t open;      // 1: some receives are not complete
  FailureCost cost;  // of the failure of `failed`; any value but kNone counts as kTime
  uint64_t words[kMostWords];
  char reason[kReasonBytes];
  EndInfo end;  // the receiver's rails, without queue pairs
};

// Sender, Propose: the sender's queue pairs of the new epoch, and the receiver's rails that they are paired
// with.
struct ProposeFrame {
  MessageHeader header;
  uint64_t epoch;
  uint8_t rails;            // number of the receiver's rails that are used
  uint8_t rail[kMaxRails];  // their places in the rails of the Reconcile
  uint8_t reserved[7];
  EndInfo end;
  // As in a handshake's reply; `rail` counts only the rails that are used.
  QueuePairInfo pair[kMaxQueuePairs];
};

// Receiver, Accept: the receiver's queue pairs of the new epoch.
struct AcceptFrame {
  MessageHeader header;
  uint64_t epoch;
  EndInfo end;
};

// Sender: the epoch has begun (kBegin), or there is no path that the sender could propose now (kSearching).
struct EpochFrame {
  MessageHeader header;
  uint64_t epoch;
};

// Receiver (kArrived), at any time: all receives up to `number` are complete. Sender (kUnposted): `number` is
// the first receive for which the sender has not posted everything.
struct ArrivedFrame {
  MessageHeader header;
  uint64_t number;
};

// Sender, while it uses less than it could: asks for the rails by which the receiver can be reached now. The
// receiver answers with a RailsFrame.
struct AskRailsFrame {
  MessageHeader header;
  uint64_t epoch;
};
struct RailsFrame {
  MessageHeader header;
  uint64_t epoch;
  uint8_t native;
  uint8_t reserved[7];
  EndInfo end;  // the receiver's rails, without queue pairs
};

// Sender: asks the receiver to make one queue pair for a trial of a path. The receiver answers with a
// TrialReplyFrame.
struct TrialFrame {
  MessageHeader header;
  uint64_t trial;
  uint8_t rail;  // the receiver's rail: its place in the last RailsFrame
  uint8_t gid;
  uint8_t peer_gid;
  uint8_t reserved[5];
  EndInfo end;  // the sender's rail and queue pair of the trial
};
struct TrialReplyFrame {
  MessageHeader header;
  uint64_t trial;
  uint64_t accepted;  // 1, or 0: the queue pair cannot be made
  EndInfo end;
};

// Either end, the close message: this end does nothing more.
struct CloseFrame {
  MessageHeader header;
  uint64_t arrived;           // from a receiver: all receives up to this number are complete
  char reason[kReasonBytes];  // the reason of a failure; "": the connection was closed normally
};

// Either end, at any time: what the user of the link tells the other end's user. The floor does not read it.
struct UserFrame {
  MessageHeader header;
  uint8_t bytes[kUserFrameBytes];
};

inline constexpr std::size_t kMaxFrameBytes = std::max(sizeof(ReconcileFrame), sizeof(ProposeFrame));
static_assert(sizeof(BreakFrame) == 24 + kReasonBytes);
static_assert(sizeof(ReconcileFrame) == 32 + 8 * kMostWords + kReasonBytes + sizeof(EndInfo));
static_assert(sizeof(UserFrame) == 16 + kUserFrameBytes);
static_assert(sizeof(ProposeFrame) == 40 + sizeof(EndInfo) + kMaxQueuePairs * sizeof(QueuePairInfo));
static_assert(sizeof(AcceptFrame) == 24 + sizeof(EndInfo) && sizeof(TrialReplyFrame) == 32 + sizeof(EndInfo));
static_assert(sizeof(RailsFrame) == 32 + sizeof(EndInfo) && sizeof(TrialFrame) == 32 + sizeof(EndInfo));
static_assert(sizeof(CloseFrame) == 24 + kReasonBytes && sizeof(EpochFrame) == 24 &&
              sizeof(ArrivedFrame) == 24);

// Copies a frame out of `bytes`, which has the length of a Frame.
template <typename Frame>
Frame frameOf(std::span<const std::byte> bytes) {
  Frame frame;
  std::memcpy(&frame, bytes.data(), sizeof frame);
  return frame;
}

// The length of a frame of this type; 0: there is no such frame.
std::size_t frameBytes(MessageType type);
// What is wrong with a complete frame, in words; "": nothing.
std::string checkFrame(std::span<const std::byte> frame);

}  // namespace railwise::net
