#include "cli/observe/collect.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/socket.h"
#include "cli/hosts/run_on_hosts.h"
#include "cli/observe/records.h"
#include "observe/stuck/facts.h"
#include "perf/job/wire.h"

namespace railwise::cli {
namespace {

bool isAskedFor(const std::vector<std::string>& pids, const record::Snapshot& snapshot) {
  const std::string pid = std::to_string(snapshot.process.pid);
  return pids.empty() || std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// The state of a process in the kernel (field 3 of /proc/PID/stat); 0 if the number belongs to another
// process: the record may be a container's, or older than this process.
char kernelState(uint32_t pid, uint64_t process_start) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  std::size_t at = stat.rfind(')');  // the program's name may have spaces
  if (at == std::string::npos || at + 2 >= stat.size()) return 0;
  const char state = stat[at + 2];
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  return std::strtoull(stat.c_str() + at, nullptr, 10) == process_start ? state : '\0';
}

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of one rank's answer
constexpr std::size_t kMostCallers = 256;                  // that have not said yet who they are
constexpr int kPollMs = 50;
constexpr auto kRetryPeriod = std::chrono::milliseconds(100);
constexpr const char* kPurpose = "railwise stuck";

class Collector {
 public:
  Collector(const RankIdentity& identity, Socket listener)
      : identity_(identity), listener_(std::move(listener)) {}

  std::vector<RankAnswer> run(Deadline deadline) {
    while (static_cast<int>(answers_.size()) + 1 < identity_.size && !deadline.passed()) {
      waitForEvent();
      while (callers_.size() < kMostCallers) {
        auto socket = listener_.accept(nullptr);
        if (!socket.ok() || !socket->valid()) break;
        callers_.push_back(std::make_unique<FrameChannel>(std::move(*socket)));
      }
      std::erase_if(callers_, [this](const auto& caller) { return isDone(*caller); });
    }
    return std::move(answers_);
  }

 private:
  void waitForEvent() {
    std::vector<pollfd> fds = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const auto& caller : callers_) fds.push_back({.fd = caller->fd(), .events = POLLIN, .revents = 0});
    poll(fds.data(), fds.size(), kPollMs);
  }
  // Takes the answer of a caller if all of it is there. True: nothing more is expected from the caller.
  bool isDone(FrameChannel& caller) {
    Frame frame;
    const Received received = caller.receive(frame, kMostBytes);
    if (received == Received::kNothing) return false;
    if (received != Received::kFrame || frame.type != FrameType::kData) return true;
    ByteReader reader(frame.payload);
    const bool ours = reader.text() == identity_.secret && reader.text() == kPurpose;
    RankAnswer answer;
    answer.rank = static_cast<int>(reader.u32());
    answer.text = reader.text();
    const bool known = std::any_of(answers_.begin(), answers_.end(),
                                   [&](const RankAnswer& other) { return other.rank == answer.rank; });
    const bool fits = answer.rank > 0 && answer.rank < identity_.size && !known;
    if (ours && reader.ok() && fits) answers_.push_back(std::move(answer));
    return true;
  }

  const RankIdentity& identity_;
  Socket listener_;
  std::vector<std::unique_ptr<FrameChannel>> callers_;
  std::vector<RankAnswer> answers_;
};

Outcome<Socket> connectOnce(const SocketAddress& address, Deadline deadline) {
  auto socket = Socket::connect(address);
  if (!socket.ok()) return Error{"no connection"};
  while (!deadline.passed()) {
    const auto connected = socket->connected();
    if (!connected.ok()) break;
    if (*connected == Io::kDone) return std::move(*socket);
    pollfd writable = {.fd = socket->fd(), .events = POLLOUT, .revents = 0};
    poll(&writable, 1, kPollMs);
  }
  return Error{"no connection"};
}

}  // namespace

Outcome<std::vector<RankAnswer>> collectFromRanks(const RankIdentity& identity,
                                                  std::chrono::milliseconds limit) {
  const auto address = resolveAddress(identity.address);
  if (!address.ok()) return address.failure();
  auto listener = Socket::listen(SocketAddress(AF_INET6, SocketAddress::any().bytes(), address->port(), 0),
                                 identity.size);
  if (!listener.ok()) listener = Socket::listen(*address, identity.size);
  if (!listener.ok())
    return Error{"rank 0 cannot listen on " + address->text() +
                 ": is another job there? --address HOST:PORT"};
  return Collector(identity, std::move(*listener)).run(Deadline::after(limit));
}

Outcome<void> sendToRankZero(const RankIdentity& identity, const std::string& text,
                             std::chrono::milliseconds limit) {
  const auto address = resolveAddress(identity.address);
  if (!address.ok()) return address.failure();
  ByteWriter writer;
  writer.text(identity.secret).text(kPurpose).u32(static_cast<uint32_t>(identity.rank)).text(text);
  const Bytes payload = writer.take();
  const Deadline deadline = Deadline::after(limit);
  while (!deadline.passed()) {
    auto socket = connectOnce(*address, deadline);
    if (!socket.ok()) {
      std::this_thread::sleep_for(kRetryPeriod);
      continue;
    }
    FrameChannel channel(std::move(*socket));
    if (!channel.send(FrameType::kData, payload, deadline).ok()) continue;
    channel.finishSending();
    Frame frame;  // rank 0 closes once it has everything
    while (!deadline.passed() && channel.receive(frame, 0) == Received::kNothing) {
      pollfd readable = {.fd = channel.fd(), .events = POLLIN, .revents = 0};
      poll(&readable, 1, kPollMs);
    }
    return {};
  }
  return Error{"rank 0 does not answer at " + identity.address + ": --address HOST:PORT"};
}

Outcome<observe::HostFacts> gatherHere(const GatherOptions& options) {
  observe::HostFacts facts;
  facts.name = observe::plainText(nameOfThisHost());
  auto first = readRecords(options.folder, options.pids, true, &facts.notes);
  if (!first.ok()) return first.failure();
  if (options.seconds <= 0 || first->empty()) {
    facts.processes = observe::factsOfAll({}, *first);
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    facts.notes.clear();  // what cannot be read is said once
    auto second = readRecords(options.folder, {}, true, &facts.notes);
    if (!second.ok()) return second.failure();
    std::erase_if(*second,
                  [&](const record::Snapshot& snapshot) { return !isAskedFor(options.pids, snapshot); });
    facts.processes = observe::factsOfAll(*first, *second);
  }
  for (std::string& note : facts.notes) note = observe::plainText(note);
  for (observe::ProcessFacts& process : facts.processes)
    if (process.alive) process.kernel_state = kernelState(process.pid, process.process_start);
  return facts;
}

}  // namespace railwise::cli
