// A device fails under traffic: right data, or an error at both ends in time.
#include <optional>
#include <utility>

#include "conform/traffic.h"

namespace railwise::conform {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

// 400 messages. How they ended.
std::string traffic(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  Connection connection(subject);
  Traffic traffic(connection, 400, 65'536, 8);
  const Traffic::End &sender = traffic.sender, &receiver = traffic.receiver;
  bool closed[2] = {false, false};
  const Clock::time_point begin = Clock::now();
  std::optional<Deadline> deadline;
  while (!traffic.over(sender) || !traffic.over(receiver)) {
    traffic.step();
    for (const bool sends : {true, false}) {
      if ((sends ? sender : receiver).error == ncclSuccess || std::exchange(closed[sends], true)) continue;
      traffic.close(sends);
      if (!deadline) deadline = Deadline::after(kPatience);
    }
    if (deadline && deadline->passed())
      throw Broken(std::string("the ") + (closed[true] ? "receiver" : "sender") +
                   " still waits 60 s after the error of the other end");
    if (Clock::now() - begin > kPatience + kPatience) throw Broken("neither data nor an error in 120 s");
  }
  if (!closed[true] && !closed[false]) return "goes on";
  return std::string("an error at ") + (!closed[true]    ? "the receiver"
                                        : !closed[false] ? "the sender"
                                                         : "both ends");
}

// The transport itself mends these.
std::string mended(const cli::PluginOptions& plugin) {
  const std::string end = traffic(plugin);
  if (end != "goes on") throw Broken(end);
  return "";
}

// A call of verbs fails while connections are made: an error, and the next attempt is as good as any.
std::string shortOf(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  std::string how = "goes on";
  try {
    Connection connection(subject);
    tryOut(connection);
  } catch (const Refused&) {
    how = "an error";
  }
  Connection again(subject);
  tryOut(again);
  return how;
}

#define UNDER_TRAFFIC(name, rule, fault) \
  { name, Kind::kFaults, rule, traffic, fault, 150 }

constexpr Check kChecks[] = {
    {"fault.slow", Kind::kContract, "sends that take 20 ms each for a while cost time only", mended,
     "device=* opcode=any delay=20ms count=60", 60},
    {"fault.packets-lost", Kind::kContract, "packets that the transport repeats are not noticed", mended,
     "device=* opcode=any nth=50 every=40 drop=2 count=5", 60},
    {"fault.not-ready", Kind::kContract, "a receiver that is not ready for a moment is not noticed", mended,
     "device=* opcode=any nth=50 every=40 rnr=2 count=5", 60},
    UNDER_TRAFFIC("fault.port", "a port goes down", "device=* opcode=any nth=150 port=down"),
    UNDER_TRAFFIC("fault.all-ports", "all ports go down",
                  "device=* opcode=any nth=150 every=1 count=200 port=down"),
    UNDER_TRAFFIC("fault.lost", "a packet is lost each time it is repeated",
                  "device=* opcode=any nth=150 drop"),
    UNDER_TRAFFIC("fault.completion", "a send completes with an error of the remote end",
                  "device=* opcode=any nth=150 status=rem_access_err"),
    UNDER_TRAFFIC("fault.queue-pair", "a queue pair fails (IBV_EVENT_QP_FATAL)",
                  "device=* opcode=any nth=150 qp_fatal"),
    UNDER_TRAFFIC("fault.device", "a device fails (IBV_EVENT_DEVICE_FATAL)",
                  "device=* opcode=any nth=150 device_fatal"),
    UNDER_TRAFFIC("fault.post", "ibv_post_send fails", "device=* verb=post_send nth=150 errno=ENOMEM"),
    {"fault.no-queue-pair", Kind::kFaults, "ibv_create_qp fails: an error or not, the next connection works",
     shortOf, "device=* verb=create_qp nth=2 errno=ENOMEM", 60},
    {"fault.no-memory", Kind::kFaults, "ibv_reg_mr fails: an error or not, the next connection works",
     shortOf, "device=* verb=reg_mr nth=2 errno=ENOMEM", 60},
    {"fault.no-rtr", Kind::kFaults, "ibv_modify_qp fails: an error or not, the next connection works",
     shortOf, "device=* verb=modify_qp nth=2 errno=ETIMEDOUT", 60},
};

}  // namespace

std::span<const Check> faultChecks() { return kChecks; }

}  // namespace railwise::conform
