// One rule of the fault injector: what it applies to, when, and what then happens. A plain value, for it lies
// in the shared segment; zeroed it applies to nothing. Text is words of key=value, separated by spaces or
// commas:
//   which   host=NAME device=NAME port=N peer=HOST process=PID qp=NUMBER
//           names may end with *; for opcode=recv they mean the receiving end
//   what    opcode=OP[+OP]: write write_imm read send send_imm atomic, any (these six, the default), recv
//           verb=VERB[+VERB]: reg_mr, create_qp ... (fault_names.h), any
//   when    after=BYTES nth=N every=N probability=P seed=S count=N
//   action  one of: status=NAME drop[=N] rnr[=N] delay=TIME errno=NAME stuck qp_fatal device_fatal event=NAME
//           port=down port=up gid=INDEX=ADDRESS[/TYPE] speed=MBPS kill[=self|peer] place=adversarial
// docs/software-device.md says what each does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railwise::softdev {

// Of a rule's `operations`.
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
static_assert(static_cast<int>(Verb::kCount) <= 32);  // a bit each

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
  // What it applies to; empty or 0: any.
  char host[64];
  char device[64];
  char peer[64];
  uint32_t port;
  uint32_t qp;
  uint32_t process;
  uint32_t operations;  // FaultOperation
  uint32_t verbs;       // 1 << Verb
  // When. 0: not given.
  uint64_t after_bytes;  // payload of what it applies to
  uint64_t nth;
  uint64_t every;
  uint64_t count;
  double probability;
  uint64_t seed;
  // What happens.
  FaultAction action;
  uint8_t gid_index;
  uint8_t gid[16];
  uint32_t gid_type;  // of description.h, or kAnyFaultGidType: as the entry had
  uint32_t code;      // wc status, errno, event type or Mb/s
  uint64_t amount;    // how many times (0: always) or nanoseconds
};
constexpr uint32_t kKeepGidType = ~0U;

// False with a sentence in *error: the wrong word, and what is accepted.
bool parseFaultRule(std::string_view text, FaultRule* rule, std::string* error);
// The text that parses to the same rule.
std::string faultRuleText(const FaultRule& rule);
// The action alone.
std::string faultActionText(const FaultRule& rule);

}  // namespace railwise::softdev
