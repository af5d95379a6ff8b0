// One rule of the fault injector: which operations it applies to, when it strikes, and what then happens. A
// plain value, because it lies in the shared segment. A zeroed rule applies to nothing. The text of a rule is
// a list of key=value, separated by spaces or commas:
//   which   host=NAME device=NAME port=N peer=HOST peer_device=NAME process=PID qp=NUMBER
//           names may end with *; for opcode=recv they name the receiver
//   what    opcode=OP[+OP]: write write_imm read send send_imm atomic, any (these six, the default), recv
//           verb=VERB[+VERB]: reg_mr, create_qp ... (fault_names.h), any
//   when    after=BYTES nth=N every=N probability=P seed=S count=N
//   action  one of: status=NAME drop[=N] rnr[=N] delay=TIME errno=NAME stuck qp_fatal device_fatal event=NAME
//           port=down port=up gid=INDEX=ADDRESS[/TYPE] speed=MBPS kill[=self|peer] place=adversarial
// docs/software-device.md describes each action.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/outcome.h"

namespace railwise::softdev {

// Bits of FaultRule::operations.
enum FaultOperation : uint32_t {
  kFaultWrite = 1,
  kFaultWriteImm = 2,
  kFaultRead = 4,
  kFaultSend = 8,
  kFaultSendImm = 16,
  kFaultAtomic = 32,
  kFaultAnySend = 63,
  kFaultReceive = 64,
};

enum class Verb : uint8_t {
  kOpenDevice,
  kAllocPd,
  kDeallocPd,
  kRegMr,
  kRegDmabufMr,
  kReregMr,
  kDeregMr,
  kCreateCq,
  kResizeCq,
  kDestroyCq,
  kReqNotifyCq,
  kCreateCompChannel,
  kCreateSrq,
  kModifySrq,
  kQuerySrq,
  kDestroySrq,
  kCreateQp,
  kModifyQp,
  kQueryQp,
  kDestroyQp,
  kCreateAh,
  kDestroyAh,
  kQueryDevice,
  kQueryPort,
  kQueryGid,
  kQueryPkey,
  kPostSend,
  kPostRecv,
  kPostSrqRecv,
  kPollCq,
  kRdmaListen,
  kRdmaConnect,
  kCount,
};
static_assert(static_cast<int>(Verb::kCount) <= 32);  // FaultRule::verbs has one bit for each

enum class FaultAction : uint8_t {
  kNone,
  kStatus,
  kDrop,
  kRnr,
  kDelay,
  kErrno,
  kStuck,
  kQpFatal,
  kDeviceFatal,
  kEvent,
  kPortDown,
  kPortUp,
  kGid,
  kSpeed,
  kKillSelf,
  kKillPeer,
  kPlace,
};

struct FaultRule {
  // What the rule applies to. An empty or zero field matches everything.
  char host[64];
  char device[64];
  char peer[64];
  char peer_device[64];
  uint32_t port;
  uint32_t qp;
  uint32_t process;
  uint32_t operations;  // bits of FaultOperation
  uint32_t verbs;       // bits 1 << Verb
  // When the rule strikes. 0: not given.
  uint64_t after_bytes;  // payload of the matching operations
  uint64_t nth;
  uint64_t every;
  uint64_t count;
  double probability;
  uint64_t seed;
  // What happens when the rule strikes.
  FaultAction action;
  uint8_t gid_index;
  uint8_t gid[16];
  uint32_t gid_type;  // GidType of description.h, or kKeepGidType: the type stays as it was
  uint32_t code;      // completion status, errno, event type or Mb/s
  uint64_t amount;    // how many times (0: always), or nanoseconds
};
constexpr uint32_t kKeepGidType = ~0U;

// The error text names the wrong word and the accepted words. Its code is kInvalidUsage if `text` has no
// action before the wrong word, otherwise kInvalidArgument.
Outcome<FaultRule> parseFaultRule(std::string_view text);
// Text that parses to an equal rule.
std::string faultRuleText(const FaultRule& rule);
// The text of the action only.
std::string faultActionText(const FaultRule& rule);

}  // namespace railwise::softdev
