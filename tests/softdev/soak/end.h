// One end of a connection of the soak: it sends rounds of random requests (plan.h), checks those of its peer,
// and checks every completion against the model. When the connection breaks, both ends start a new
// generation.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "softdev/soak/control.h"
#include "softdev/soak/plan.h"
#include "softdev/softdev.h"

namespace railwise::softdev::soak {

constexpr uint32_t kReceives = 16;
constexpr uint32_t kSends = 16;

// Thrown when the device did something wrong.
struct Wrong {
  std::string what;
};

// What an end needs of its process.
struct Resources {
  Control* control;
  const Settings* settings;
  ProcessReport* report;
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_mr* mr;
};

class End {
 public:
  // `memory` has memoryBytes(slot_bytes) of the process's registered memory.
  End(const Resources& resources, uint32_t index, std::byte* memory, uint32_t slot_bytes);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  static uint64_t memoryBytes(uint32_t slot_bytes);

  uint32_t qpNum() const { return qp_->qp_num; }
  // Goes one step on; false when nothing could be done.
  bool step();
  void complete(const ibv_wc& wc);
  // Nothing of ours is in flight.
  bool idle() const { return state_ == State::kRunning && !in_round_; }

 private:
  enum class State { kDraining, kAddressing, kRunning };

  // A request that was posted and not yet completed.
  struct Posted {
    uint64_t wr_id;
    Op op;
    bool ack;
    uint32_t slot;
  };

  std::byte* inbox(uint32_t slot) const { return memory_ + uint64_t{slot} * slot_bytes_; }
  std::byte* outbox(uint32_t slot) const { return inbox(kMaxOps + slot); }
  std::byte* result(uint32_t slot) const { return inbox(2 * kMaxOps + slot); }
  std::byte* library() const { return inbox(3 * kMaxOps); }
  std::byte* receiveSlot(uint32_t slot) const { return inbox(3 * kMaxOps + 1 + slot); }
  uint64_t* atomicWord() const { return reinterpret_cast<uint64_t*>(inbox(3 * kMaxOps + 1 + kReceives)); }
  uint64_t peerAddress(const std::byte* mine) const;

  EndControl& mine() const { return r_.control->ends[index_]; }
  EndControl& peer() const { return r_.control->ends[index_ ^ 1]; }

  void modify(ibv_qp_attr& attr, int mask, const char* what);
  void startGeneration();
  void toInit();
  bool connectToPeer();
  void breakDown();
  bool drain();
  void postReceive(uint32_t slot);
  void startRound();
  void post(const Op& op, uint32_t slot, bool ack);
  void completeSend(const ibv_wc& wc);
  void completeReceive(const ibv_wc& wc);
  void checkResult(const Posted& posted);
  void checkRound();
  void check(bool right, const std::string& what) const;

  Resources r_;
  uint32_t index_;
  std::byte* memory_;
  uint32_t slot_bytes_;
  Shape shape_;
  ibv_qp* qp_ = nullptr;
  State state_ = State::kDraining;
  uint32_t generation_ = 0;
  bool broken_ = false;       // an error completion came
  bool send_failed_ = false;  // of a send
  Random random_;

  // As sender.
  uint32_t round_ = 0;
  bool in_round_ = false;
  bool acknowledged_ = false;
  uint64_t next_wr_id_ = 0;
  std::deque<Posted> posted_;
  uint64_t atomic_model_ = 0;

  // As receiver.
  uint32_t peer_round_ = 0;
  std::vector<Op> expected_;
  size_t next_expected_ = 0;
  std::deque<uint32_t> receives_;  // posted, oldest first
  std::deque<uint32_t> held_;      // receive slots that will be posted a little later
  bool ack_due_ = false;
};

}  // namespace railwise::softdev::soak
