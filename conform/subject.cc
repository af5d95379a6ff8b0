#include "conform/subject.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "cli/plugin/watched_api.h"
#include "nccl/types.h"

namespace railwise::conform {
namespace {

constexpr std::size_t kPage = 4096;
constexpr uint64_t kCommunicator = 0x5261696c;

char patternAt(std::size_t i, unsigned seed) {
  return seed == 0 ? 0 : static_cast<char>(i * 7 + i / 251 + seed);
}

}  // namespace

void must(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw Refused(std::string(call) + " answers " + cli::resultText(result));
}

void until(const std::string& what, const std::function<bool()>& step, Clock::duration limit) {
  const Deadline deadline = Deadline::after(limit);
  while (!step()) {
    if (deadline.passed())
      throw Broken(what + " has not come in " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) + " s");
  }
}

static cli::LoadedPlugin& loaded(const cli::PluginOptions& options) {
  auto plugin = cli::loadPlugin(options);
  if (!plugin.ok()) throw Broken(plugin.error());
  plugin->api = cli::watched(std::move(plugin->api));
  return *new cli::LoadedPlugin(std::move(*plugin));  // never unloaded: the plugin's threads may run
}

Subject::Subject(const cli::PluginOptions& options) : loaded_(loaded(options)) {
  const auto devices = cli::startPlugin(api(), kCommunicator);
  if (!devices.ok()) throw NotStarted(devices.error());
  devices_ = *devices;
}

cli::NetProperties Subject::properties(int device) {
  cli::NetProperties properties;
  must(api().getProperties(device, &properties), "getProperties");
  return properties;
}

std::size_t Subject::mostTogether() {
  return std::min(cli::kMaxGroup, static_cast<std::size_t>(std::max(1, properties(0).max_recvs)));
}

std::size_t Subject::connections(std::size_t wanted) {
  return std::min(wanted, static_cast<std::size_t>(std::max(2, properties(0).max_comms) / 2));
}

Connection::Connection(Subject& subject, int send_device, int receive_device) : api(subject.api()) {
  alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
  must(api.listen(receive_device, handle, &listener), "listen");
  until("the connection", [&] {
    if (send == nullptr) must(api.connect(send_device, handle, &send), "connect");
    if (receive == nullptr) must(api.accept(listener, &receive), "accept");
    return send != nullptr && receive != nullptr;
  });
}

void Connection::close() {
  must(api.closeSend(send), "closeSend");
  must(api.closeRecv(receive), "closeRecv");
  must(api.closeListen(listener), "closeListen");
}

Memory::Memory(NetApi& api, void* comm, std::size_t bytes, unsigned seed)
    : api_(api), comm_(comm), bytes_(bytes + kPage) {
  shift_ = kPage - reinterpret_cast<uintptr_t>(bytes_.data()) % kPage;
  fill(0, bytes, seed);
  must(api.regMr(comm, data(), bytes, NCCL_PTR_HOST, &handle_), "regMr");
}

void Memory::deregister() { must(api_.deregMr(comm_, handle_), "deregMr"); }

void Memory::fill(std::size_t from, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i) data()[from + i] = patternAt(i, seed);
}

long Memory::firstWrong(std::size_t from, std::size_t bytes, unsigned seed) const {
  for (std::size_t i = 0; i < bytes; ++i)
    if (bytes_[shift_ + from + i] != patternAt(i, seed)) return static_cast<long>(i);
  return -1;
}

void test(NetApi& api, Request& request) {
  if (request.done) return;
  int done = 0;
  must(api.test(request.request, &done, request.sizes), "test");
  request.done = done != 0;
}

static void testAll(NetApi& api, std::span<Request> open) {
  for (Request& request : open) test(api, request);
}

Request startSend(NetApi& api, void* comm, char* data, std::size_t bytes, int tag, void* handle,
                  std::span<Request> open) {
  Request send;
  until("isend's request", [&] {
    must(api.isend(comm, data, bytes, tag, handle, &send.request), "isend");
    if (send.request == nullptr) testAll(api, open);
    return send.request != nullptr;
  });
  return send;
}

Request startReceive(NetApi& api, void* comm, std::span<const NetApi::Buffer> buffers,
                     std::span<Request> open) {
  Request receive;
  until("irecv's request", [&] {
    must(api.irecvGroup(comm, buffers, &receive.request), "irecv");
    if (receive.request == nullptr) testAll(api, open);
    return receive.request != nullptr;
  });
  return receive;
}

void finish(NetApi& api, Request& request, std::span<Request> open) {
  until("the completion", [&] {
    test(api, request);
    testAll(api, open);
    return request.done;
  });
}

int carry(Connection& connection, char* data, std::size_t bytes, int tag, void* handle,
          const NetApi::Buffer& buffer) {
  NetApi& api = connection.api;
  Request receive = startReceive(api, connection.receive, {&buffer, 1});
  Request send = startSend(api, connection.send, data, bytes, tag, handle, {&receive, 1});
  finish(api, send, {&receive, 1});
  finish(api, receive);
  return receive.sizes[0];
}

std::string wrongOf(const Memory& memory, std::size_t from, std::size_t bytes, int said, unsigned seed) {
  const std::string size = std::to_string(bytes) + " bytes";
  if (said != static_cast<int>(bytes)) return "is said to have " + std::to_string(said) + " of " + size;
  const long at = memory.firstWrong(from, bytes, seed);
  return at < 0 ? "" : "has WRONG DATA from byte " + std::to_string(at) + " of " + size + " on";
}

void tryOut(Connection& connection, std::size_t bytes) {
  Memory from(connection.api, connection.send, bytes, 5);
  Memory to(connection.api, connection.receive, bytes);
  const int size =
      carry(connection, from.data(), bytes, 0, from.handle(), {to.data(), bytes, 0, to.handle()});
  if (const std::string wrong = wrongOf(to, 0, bytes, size, 5); !wrong.empty())
    throw Broken("a message " + wrong);
  from.deregister();
  to.deregister();
}

Process forked(const std::function<int(std::string& answer)>& body) {
  ProcessPlan plan;
  plan.body = body;
  auto process = Process::start(plan);
  if (!process.ok()) throw Broken(process.error());
  return std::move(*process);
}

Peer::Peer(const Body& body) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw Broken("no socket pair");
  channel_ = Descriptor(ends[0]);
  Descriptor other(ends[1]);
  process_.emplace(forked([&](std::string& answer) {
    channel_.close();
    cli::g_call_now = nullptr;  // the trial watches its own calls
    try {
      body(other.get());
      return 0;
    } catch (const Broken& broken) {
      answer = broken.what();
      return 1;
    }
  }));
}

void Peer::kill() {
  process_->kill(SIGKILL);
  (void)process_->wait();
}

void Peer::pause() { process_->kill(SIGSTOP); }

void Peer::resume() { process_->kill(SIGCONT); }

void Peer::join() {
  const ProcessEnd end = process_->wait();
  if (end.good()) return;
  throw Broken("the other process " +
               (end.signalled ? "died by signal " + std::to_string(end.code)
                              : "failed: " + process_->receiveAll(Deadline::after(std::chrono::seconds(1)))));
}

void tell(int channel, std::span<const char> bytes) {
  if (send(channel, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    throw Broken("the other process is gone");
}

void hear(int channel, std::span<char> bytes) {
  if (recv(channel, bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(bytes.size()))
    throw Broken("the other process is gone");
}

}  // namespace railwise::conform
