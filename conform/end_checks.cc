// Closing in every state, as NCCL does when a communicator is aborted, and ends without closing.
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "conform/subject.h"
#include "nccl/types.h"

namespace railwise::conform {
namespace {

std::string outstanding(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  for (const bool sender_first : {true, false}) {
    Connection connection(subject);
    Memory from(api, connection.send, 1 << 20, 1);
    Memory to(api, connection.receive, 1 << 20);
    std::vector<Request> open;
    for (int i = 0; i < 8; ++i) {
      const NetApi::Buffer buffer = {to.data(), 1 << 20, i, to.handle()};
      open.push_back(startReceive(api, connection.receive, {&buffer, 1}, open));
    }
    for (int i = 0; i < 4; ++i)
      open.push_back(startSend(api, connection.send, from.data(), 1 << 20, i, from.handle(), open));
    if (sender_first) {
      from.deregister();
      must(api.closeSend(connection.send), "closeSend");
    }
    to.deregister();
    must(api.closeRecv(connection.receive), "closeRecv");
    if (!sender_first) {
      from.deregister();
      must(api.closeSend(connection.send), "closeSend");
    }
    must(api.closeListen(connection.listener), "closeListen");
  }
  Connection after(subject);
  tryOut(after);
  return "";
}

std::string halfMade(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  for (int steps = 0; steps < 6; ++steps) {
    alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
    void *listener = nullptr, *send = nullptr, *receive = nullptr;
    must(api.listen(0, handle, &listener), "listen");
    for (int i = 0; i < steps; ++i) {
      if (send == nullptr) must(api.connect(0, handle, &send), "connect");
      if (receive == nullptr) must(api.accept(listener, &receive), "accept");
    }
    must(api.closeListen(listener), "closeListen in the middle of a handshake");
    if (send != nullptr) must(api.closeSend(send), "closeSend");
    if (receive != nullptr) must(api.closeRecv(receive), "closeRecv");
  }
  Connection after(subject);
  tryOut(after);
  return "";
}

std::string exitOpen(const cli::PluginOptions& plugin) {
  constexpr int kStatus = 7;
  Process child = forked([&](std::string&) -> int {
    Subject subject(plugin);
    Connection connection(subject);
    Memory to(subject.api(), connection.receive, 100);
    const NetApi::Buffer buffer = {to.data(), 100, 0, to.handle()};
    (void)startReceive(subject.api(), connection.receive, {&buffer, 1});
    exit(kStatus);  // with all that the libraries do at exit
  });
  const auto& ended = child.wait(Deadline::after(std::chrono::seconds(20)));
  if (!ended) throw Broken("the process hangs in exit()");
  if (ended->signalled)
    throw Broken("the process crashes in exit() by signal " + std::to_string(ended->code));
  if (ended->code != kStatus) throw Broken("the process ends with " + std::to_string(ended->code));
  return "";
}

// This end of a connection of two processes. `sends`: it connects; else it listens.
struct FarConnection {
  FarConnection(NetApi& api, int channel, bool sends) {
    alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
    if (sends) {
      hear(channel, handle);
      until("the connection", [&] { return must(api.connect(0, handle, &end), "connect"), end != nullptr; });
    } else {
      must(api.listen(0, handle, &listener), "listen");
      tell(channel, handle);
      until("the connection", [&] { return must(api.accept(listener, &end), "accept"), end != nullptr; });
    }
  }
  void* listener = nullptr;
  void* end = nullptr;
};

constexpr std::size_t kBytes = 100'000;

// The peer's end: it carries messages until it is killed, or until `count` of them.
void carry(const cli::PluginOptions& plugin, int channel, bool sends, int count) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  FarConnection connection(api, channel, sends);
  Memory memory(api, connection.end, kBytes, 3);
  for (int i = 0; i < count; ++i) {
    if (sends) {
      Request send = startSend(api, connection.end, memory.data(), kBytes, 0, memory.handle());
      finish(api, send);
    } else {
      const NetApi::Buffer buffer = {memory.data(), kBytes, 0, memory.handle()};
      Request receive = startReceive(api, connection.end, {&buffer, 1});
      finish(api, receive);
    }
  }
  char over = 0;
  tell(channel, {&over, 1});
  hear(channel, {&over, 1});
}

// This end uses the connection until a call fails. Nothing: none does in `limit`. `request`: what is under
// way from one call to the next. A request that nobody tests keeps its place in the plugin, which may then
// take no other one.
std::optional<ncclResult_t> firstError(NetApi& api, void* end, Memory& memory, bool sends,
                                       Clock::duration limit, void*& request) {
  const Deadline deadline = Deadline::after(limit);
  while (!deadline.passed()) {
    ncclResult_t result = ncclSuccess;
    if (request == nullptr) {
      const NetApi::Buffer buffer = {memory.data(), kBytes, 0, memory.handle()};
      result = sends ? api.isend(end, memory.data(), kBytes, 0, memory.handle(), &request)
                     : api.irecvGroup(end, {&buffer, 1}, &request);
    } else {
      int done = 0;
      result = api.test(request, &done, nullptr);
      if (done != 0) request = nullptr;
    }
    if (result != ncclSuccess) return result;
  }
  return std::nullopt;
}

std::string killed(const cli::PluginOptions& plugin, bool sends) {
  Peer peer([&](int channel) { carry(plugin, channel, !sends, 1 << 30); });
  Subject subject(plugin);
  NetApi& api = subject.api();
  FarConnection connection(api, peer.channel(), sends);
  Memory memory(api, connection.end, kBytes, 3);
  void* request = nullptr;
  if (firstError(api, connection.end, memory, sends, std::chrono::milliseconds(300), request))
    throw Broken("a call fails while nothing is wrong");
  peer.kill();
  const Clock::time_point begin = Clock::now();
  const auto error = firstError(api, connection.end, memory, sends, std::chrono::seconds(60), request);
  if (!error) throw Broken("no error in 60 s after the peer was killed: the job hangs");
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  memory.deregister();
  must(sends ? api.closeSend(connection.end) : api.closeRecv(connection.end),
       "close after the peer was killed");
  return "error after " + (ms < 1000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s");
}
std::string killedReceiver(const cli::PluginOptions& plugin) { return killed(plugin, true); }
std::string killedSender(const cli::PluginOptions& plugin) { return killed(plugin, false); }

// A rank whose process was stopped (a debugger, a snapshot of a VM) for a while.
std::string stopped(const cli::PluginOptions& plugin) {
  constexpr int kMessages = 2000, kStoppedAt = 100;
  constexpr auto kStop = std::chrono::seconds(3);
  Peer peer([&](int channel) { carry(plugin, channel, false, kMessages); });
  Subject subject(plugin);
  NetApi& api = subject.api();
  FarConnection connection(api, peer.channel(), true);
  Memory memory(api, connection.end, kBytes, 3);
  std::optional<Deadline> resumes;
  // The sender goes on to post and test while its peer stands still.
  int sent = 0;
  Request send;
  until(
      "the last message",
      [&] {
        if (sent == kStoppedAt && !resumes) {
          peer.pause();
          resumes = Deadline::after(kStop);
        }
        if (resumes && resumes->passed()) peer.resume();
        if (send.request == nullptr)
          must(api.isend(connection.end, memory.data(), kBytes, 0, memory.handle(), &send.request), "isend");
        if (send.request != nullptr) test(api, send);
        if (send.done) send = {}, ++sent;
        return sent == kMessages;
      },
      kStop + std::chrono::seconds(20));
  char over = 0;
  hear(peer.channel(), {&over, 1});
  tell(peer.channel(), {&over, 1});
  peer.join();
  return "";
}

constexpr Check kChecks[] = {
    {"end.outstanding", Kind::kContract,
     "both ends close, in either order, with requests under way (ncclCommAbort)", outstanding},
    {"end.half-made", Kind::kContract, "a listener closes at each step of a handshake", halfMade},
    {"end.exit", Kind::kContract, "a process that exits with open connections does not hang or crash",
     exitOpen, "", 40},
    {"end.receiver-killed", Kind::kFaults, "a sender whose peer is killed gets an error in 60 s",
     killedReceiver, "", 100},
    {"end.sender-killed", Kind::kFaults, "a receiver whose peer is killed gets an error in 60 s",
     killedSender, "", 100},
    {"end.stopped", Kind::kContract, "a peer that stands still for 3 s costs 3 s", stopped, "", 60},
};

}  // namespace

std::span<const Check> endChecks() { return kChecks; }

}  // namespace railwise::conform
