// What a tool sees of a fabric and does to it: processes, ports and queues with their counts, and faults by
// command. The shared segment is the control channel: a tool attaches as any process does (joinFabric of
// engine/attachment.h) and reads or edits the segment. No process needs to answer, so it works on processes
// that are busy, stopped or dead. Thread-safe. faults.h has the rules and their log.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "softdev/fabric/fabric.h"
#include "softdev/softdev.h"

namespace railwise::softdev {

// A port that some process has open.
struct PortInfo {
  uint32_t index = 0;  // index of its PortRecord
  std::string host;
  std::string device;
  uint32_t number = 0;
  bool infiniband = false;
  bool active = false;
  uint32_t speed_mbps = 0;
  uint32_t lid = 0;  // 0 on RoCE
  uint32_t contexts = 0;
  uint32_t failed_contexts = 0;   // contexts whose device has failed
  std::vector<std::string> gids;  // by index; "" if empty; for example "fe80::1/v2"
};
std::vector<PortInfo> listPorts(Fabric& fabric);

// The ports that "[HOST/]DEVICE[:PORT]" names. Both names may end with '*', as in fault rules. An error if
// there is no such port, or if several hosts have the device and no host is given.
Outcome<std::vector<PortInfo>> findPorts(Fabric& fabric, const std::string& name);

// `change` is down, up, speed=MBPS, gid=INDEX=ADDRESS[/TYPE], event=NAME or fatal.
Outcome<void> changePort(Fabric& fabric, const PortInfo& port, const std::string& change);

// Number of attached processes besides this one.
uint32_t otherProcesses(const Fabric& fabric);

enum class CountsBy { kQp, kPort, kProcess, kDevice };

// Counts of one living object and of the objects that it has destroyed. Polls and completions belong to
// completion queues, which have no port or queue pair: in rows by port or queue pair they are 0.
struct CountsRow {
  std::string host;
  std::string device;      // "" in rows by process
  uint32_t port = 0;       // number
  uint32_t process = 0;    // pid
  uint32_t qp = 0;         // number
  uint32_t peer_qp = 0;    // number; 0: not connected
  const char* state = "";  // state of the queue pair
  uint64_t queue_pairs = 0;
  Counters counts;
};
std::vector<CountsRow> listCounts(Fabric& fabric, CountsBy by);

// Every count with its name, in the order of softdev::Counters.
struct NamedCount {
  const char* name;
  uint64_t Counters::*field;
};
inline constexpr NamedCount kNamedCounts[] = {
    {"post_send_calls", &Counters::post_send_calls},
    {"writes", &Counters::writes},
    {"writes_with_imm", &Counters::writes_with_imm},
    {"reads", &Counters::reads},
    {"sends", &Counters::sends},
    {"atomics", &Counters::atomics},
    {"send_sges", &Counters::send_sges},
    {"inline_sends", &Counters::inline_sends},
    {"signalled_sends", &Counters::signalled_sends},
    {"receives", &Counters::receives},
    {"post_recv_calls", &Counters::post_recv_calls},
    {"poll_calls", &Counters::poll_calls},
    {"empty_polls", &Counters::empty_polls},
    {"completions", &Counters::completions},
    {"bytes", &Counters::bytes},
    {"system_calls", &Counters::system_calls},
};
static_assert(sizeof(Counters) == std::size(kNamedCounts) * sizeof(uint64_t));

}  // namespace railwise::softdev
