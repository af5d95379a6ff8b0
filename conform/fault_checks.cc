// A device fails under traffic: right data, or an error at both ends in time.
#include <algorithm>
#include <deque>
#include <optional>

#include "conform/subject.h"

namespace railwise::conform {
namespace {

constexpr std::size_t kBytes = 65'536;
constexpr std::size_t kWindow = 8;
constexpr auto kPatience = std::chrono::seconds(60);

// One end of the traffic. As NCCL does, it closes after the first error.
struct End {
  std::deque<std::pair<void*, std::size_t>> requests;  // with the number of the message
  std::size_t posted = 0, done = 0;
  ncclResult_t error = ncclSuccess;
  bool closed = false;
  bool over(std::size_t count) const { return closed || done == count; }
};

class Traffic {
 public:
  Traffic(Subject& subject, Connection& connection)
      : api_(subject.api()),
        connection_(connection),
        from_(api_, connection.send, kWindow * kBytes),
        to_(api_, connection.receive, kWindow * kBytes) {}

  // How it ended.
  std::string run(std::size_t count) {
    const Clock::time_point begin = Clock::now();
    std::optional<Deadline> deadline;
    while (!sender_.over(count) || !receiver_.over(count)) {
      if (!sender_.over(count)) step(sender_, count, true);
      if (!receiver_.over(count)) step(receiver_, count, false);
      if (!deadline && (sender_.closed || receiver_.closed)) deadline = Deadline::after(kPatience);
      if (deadline && deadline->passed())
        throw Broken(std::string("the ") + (sender_.closed ? "receiver" : "sender") +
                     " still waits 60 s after the error of the other end");
      if (Clock::now() - begin > kPatience + kPatience) throw Broken("neither data nor an error in 120 s");
    }
    if (sender_.error == ncclSuccess && receiver_.error == ncclSuccess) return "goes on";
    return "an error at " + std::string(sender_.error == ncclSuccess     ? "the receiver"
                                        : receiver_.error == ncclSuccess ? "the sender"
                                                                         : "both ends");
  }

 private:
  void step(End& end, std::size_t count, bool sends) {
    ncclResult_t result = ncclSuccess;
    if (end.posted < count && end.requests.size() < kWindow) result = post(end, sends);
    if (result == ncclSuccess && !end.requests.empty()) result = look(end, sends);
    if (result == ncclSuccess) return;
    end.error = result;
    end.closed = true;
    (sends ? from_ : to_).deregister();
    must(sends ? api_.closeSend(connection_.send) : api_.closeRecv(connection_.receive),
         "close after an error");
  }

  ncclResult_t post(End& end, bool sends) {
    const std::size_t at = end.posted % kWindow * kBytes;
    void* request = nullptr;
    ncclResult_t result;
    if (sends) {
      from_.fill(at, kBytes, seedOf(end.posted));
      result = api_.isend(connection_.send, from_.data() + at, kBytes, 0, from_.handle(), &request);
    } else {
      const NetApi::Buffer buffer = {to_.data() + at, kBytes, 0, to_.handle()};
      result = api_.irecvGroup(connection_.receive, {&buffer, 1}, &request);
    }
    if (result == ncclSuccess && request != nullptr) end.requests.emplace_back(request, end.posted++);
    return result;
  }

  ncclResult_t look(End& end, bool sends) {
    int done = 0, size = -1;
    const auto [request, number] = end.requests.front();
    const ncclResult_t result = api_.test(request, &done, &size);
    if (result != ncclSuccess || done == 0) return result;
    if (!sends && (size != static_cast<int>(kBytes) ||
                   to_.firstWrong(number % kWindow * kBytes, kBytes, seedOf(number)) >= 0))
      throw Broken("WRONG DATA: receive " + std::to_string(number) +
                   " is done and does not hold its message");
    end.requests.pop_front();
    ++end.done;
    return ncclSuccess;
  }

  NetApi& api_;
  Connection& connection_;
  Memory from_, to_;
  End sender_, receiver_;
};

std::string traffic(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  Connection connection(subject);
  return Traffic(subject, connection).run(400);
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
