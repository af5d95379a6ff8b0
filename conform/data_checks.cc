// What is sent arrives: sizes, order, groups, memory.
#include <algorithm>
#include <cstring>
#include <memory>

#include "conform/traffic.h"

namespace railwise::conform {
namespace {

std::string sizes(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  Connection connection(subject);
  NetApi& api = subject.api();
  constexpr std::size_t kMost = 4 << 20, kBeyond = 64;
  Memory from(api, connection.send, kMost, 3);
  Memory to(api, connection.receive, kMost + kBeyond);
  for (const std::size_t bytes : {0UL, 1UL, 3UL, 8UL, 127UL, 4095UL, 4097UL, 65537UL, 1UL << 20, kMost}) {
    to.fill(0, kMost + kBeyond, 0);
    // With more room than the message needs.
    const int size =
        carry(connection, from.data(), bytes, 7, from.handle(), {to.data(), kMost, 7, to.handle()});
    if (const std::string wrong = wrongOf(to, 0, bytes, size, 3); !wrong.empty())
      throw Broken("a message " + wrong);
    if (to.firstWrong(bytes, kMost + kBeyond - bytes, 0) >= 0)
      throw Broken("a message of " + std::to_string(bytes) + " bytes is written beyond its end");
  }
  from.deregister();
  to.deregister();
  connection.close();
  return "";
}

std::string large(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  Connection connection(subject);
  tryOut(connection, 96 << 20);
  return "";
}

std::string order(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  Connection connection(subject);
  Traffic(connection, 2000, 64, subject.window()).run();
  Traffic(connection, 300, 20'000, subject.window()).run();
  connection.close();
  return "";
}

std::string bothWays(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  const int last = subject.devices() - 1;
  Connection there(subject, 0, last);
  Connection back(subject, last, 0);
  Traffic one(there, 500, 5000, subject.window()), other(back, 500, 5000, subject.window());
  until("the end of both streams", [&] {
    const bool done = one.advance();
    return other.advance() && done;
  });
  return subject.devices() > 1 ? "between two devices" : "";
}

std::string manyConnections(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  std::vector<std::unique_ptr<Connection>> connections;
  const std::size_t count = subject.connections(64);
  for (std::size_t i = 0; i < count; ++i) connections.push_back(std::make_unique<Connection>(subject));
  for (int round = 0; round < 3; ++round)
    for (auto& connection : connections) tryOut(*connection);
  for (auto& connection : connections) connection->close();
  return count < 64 ? std::to_string(count) + " (maxComms)" : "";
}

// A receive of several buffers, which sends fill by their tags, in any order.
std::string groups(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  const std::size_t most = subject.mostTogether();
  if (most < 2) throw DoesNotApply("maxRecvs is 1");
  Connection connection(subject);
  NetApi& api = subject.api();
  constexpr std::size_t kRoom = 3000;
  Memory from(api, connection.send, most * kRoom);
  Memory to(api, connection.receive, most * kRoom);
  for (std::size_t round = 0; round < 60; ++round) {
    const std::size_t count = 2 + round % (most - 1);
    std::vector<NetApi::Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i)
      buffers.push_back({to.data() + i * kRoom, kRoom, static_cast<int>(100 + i), to.handle()});
    std::vector<Request> open = {startReceive(api, connection.receive, buffers)};       // then the sends
    const auto sizeOf = [&](std::size_t i) { return (i * 977 + round * 13) % kRoom; };  // 0, too
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = (k * (round % 2 == 0 ? 1 : count - 1) + round) % count;
      from.fill(i * kRoom, kRoom, static_cast<unsigned>(round + i + 1));
      open.push_back(startSend(api, connection.send, from.data() + i * kRoom, sizeOf(i),
                               static_cast<int>(100 + i), from.handle(), open));
    }
    for (Request& request : open) finish(api, request, open);
    const Request& receive = open.front();
    for (std::size_t i = 0; i < count; ++i) {
      if (receive.sizes[i] != static_cast<int>(sizeOf(i)))
        throw Broken("buffer " + std::to_string(i) + " is said to have " + std::to_string(receive.sizes[i]) +
                     " bytes of " + std::to_string(sizeOf(i)));
      if (to.firstWrong(i * kRoom, sizeOf(i), static_cast<unsigned>(round + i + 1)) >= 0)
        throw Broken("buffer " + std::to_string(i) + " of " + std::to_string(count) +
                     " has the data of another tag");
    }
  }
  from.deregister();
  to.deregister();
  connection.close();
  return "up to " + std::to_string(most) + " together";
}

std::string unaligned(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  Connection connection(subject);
  NetApi& api = subject.api();
  constexpr std::size_t kBytes = 10'000, kRoom = 64;
  Memory from(api, connection.send, kBytes + kRoom);
  Memory to(api, connection.receive, kBytes + kRoom);
  for (std::size_t shift = 1; shift < 9; ++shift) {
    const std::size_t at = 2 * shift + 1;
    from.fill(shift, kBytes, seedOf(shift));
    (void)carry(connection, from.data() + shift, kBytes, 0, from.handle(),
                {to.data() + at, kBytes, 0, to.handle()});
    if (to.firstWrong(at, kBytes, seedOf(shift)) >= 0) throw Broken("the message is wrong");
  }
  return "";
}

// User buffers: NCCL registers the same memory for several connections, and parts of it again.
std::string registeredTwice(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  NetApi& api = subject.api();
  Connection connection(subject), other(subject);
  Memory from(api, connection.send, 1 << 20, 9);
  Memory to(api, connection.receive, 1 << 20);
  void *again = nullptr, *part = nullptr, *elsewhere = nullptr;
  must(api.regMr(connection.send, from.data(), 1 << 20, NCCL_PTR_HOST, &again), "regMr of the same memory");
  must(api.regMr(connection.send, from.data() + 5000, 100, NCCL_PTR_HOST, &part), "regMr of a part");
  must(api.regMr(other.send, from.data(), 1 << 20, NCCL_PTR_HOST, &elsewhere),
       "regMr for another connection");
  from.deregister();
  must(api.deregMr(other.send, elsewhere), "deregMr");
  other.close();
  for (const auto& [handle, at] : {std::pair{again, 0}, std::pair{part, 5000}}) {
    to.fill(0, 200, 0);
    (void)carry(connection, from.data() + at, 100, 0, handle, {to.data(), 100, 0, to.handle()});
    if (std::memcmp(to.data(), from.data() + at, 100) != 0) throw Broken("the message is wrong");
  }
  must(api.deregMr(connection.send, part), "deregMr");
  must(api.deregMr(connection.send, again), "deregMr");
  return "";
}

std::string fused(const cli::PluginOptions& plugin) {
  Subject subject(plugin);
  if (subject.devices() < 2) throw DoesNotApply("there is one device");
  const int parts[] = {0, 1};
  int device = -1;
  // NCCL goes on with single devices after any error.
  if (subject.api().makeVDevice(parts, &device) != ncclSuccess)
    throw DoesNotApply("the table has no makeVDevice, or it refuses these two");
  if (subject.properties(device).speed_mbps < subject.properties(0).speed_mbps)
    throw Broken("two devices together are slower than one");
  Connection connection(subject, device, device);
  Traffic(connection, 200, 40'000, subject.window()).run();
  connection.close();
  return "";
}

constexpr Check kChecks[] = {
    {"data.sizes", Kind::kContract, "0 bytes to 4 MiB arrive whole, with their size, and nothing beyond",
     sizes},
    {"data.large", Kind::kContract, "a message of 96 MiB arrives", large, "", 60},
    {"data.order", Kind::kContract,
     "a full window at each end (32 requests; v6: 8): each receive gets its message; a send that is done "
     "gives its memory back",
     order, "", 60},
    {"data.both-ways", Kind::kContract, "two connections in opposite directions", bothWays, "", 60},
    {"data.many", Kind::kContract, "64 connections at once", manyConnections, "", 90},
    {"data.groups", Kind::kContract,
     "receives of several buffers are filled by tag, in any order, with all sizes", groups},
    {"data.unaligned", Kind::kContract, "messages begin at odd addresses of registered memory", unaligned},
    {"data.registered-twice", Kind::kContract,
     "memory is registered again, in part, and for another connection; each lives until its own deregMr",
     registeredTwice},
    {"data.fused", Kind::kContract, "two devices as one (makeVDevice) carry a stream", fused, "", 60, 9},
};

}  // namespace

std::span<const Check> dataChecks() { return kChecks; }

}  // namespace railwise::conform
