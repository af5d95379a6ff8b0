// A peer that lies: a whole connection on the software device, both ends of which tell each other what the
// fuzzer wants, in the handshake, over the side channel and by RDMA, while ports go down and up and devices
// err. The lies have right MACs, mostly: who tells them knows the secret of the handle. Neither may crash, or
// write outside the memory that is registered. PEER_FUZZ_DEVICE: keys of the software device;
// PEER_FUZZ_RAILS: of the connection; PEER_FUZZ_LOG: any value shows what Railwise says.
// PEER_FUZZ_ONE_SIDED: puts, signals and gets between two ranks of a group take the place of messages; "gpu":
// into what counts as memory of a GPU. A group that fails must say so.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/net.h"
#include "net/rma/rma.h"
#include "net/wireup/authentication.h"
#include "net/wireup/frames.h"
#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"

extern "C" ssize_t __real_send(int socket, const void* bytes, size_t size, int flags);  // NOLINT

namespace {

using namespace railwise;
using namespace railwise::net;

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr int64_t kFarthest = 0x8000;               // that a lie moves an address
constexpr std::size_t kGuardBytes = 2 * kFarthest;  // watched; behind it a stretch that ends who touches it
constexpr int kConnectRounds = 3000;
constexpr int kFinishRounds = 500;
constexpr int kTestRounds = 20;
constexpr useconds_t kPause = 20;
constexpr std::size_t kMostFrames = 16;
constexpr char kGuard = 0x5a;

void require(bool condition) {
  if (!condition) std::abort();
}

// What the fuzzer wants, byte by byte; then zeros, which are the truth.
struct Script {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;
  uint8_t byte() { return at < end ? *at++ : uint8_t{0}; }
  uint32_t word(int bytes) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | byte();
    return value;
  }
  bool over() const { return at == end; }
};

Script script;
bool one_sided = false;
thread_local bool lies = false;  // the thread of the connections does, the plugin's own do not

// One time in eight, where the bytes are random: else no connection gets far.
bool sometimes() { return !script.over() && script.byte() < 32; }

// ---- lies over TCP

// Mostly behind the header, which would end everything.
void flip(std::vector<uint8_t>& bytes) {
  const std::size_t header = bytes.size() > sizeof(MessageHeader) && !sometimes() ? sizeof(MessageHeader) : 0;
  for (int count = script.byte() % 4; count >= 0 && bytes.size() > header; --count)
    bytes[header + script.word(2) % (bytes.size() - header)] = script.byte();
}

template <typename Message>
Message as(const std::vector<uint8_t>& bytes) {
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}
template <typename Message>
void put(const Message& message, std::vector<uint8_t>& bytes) {
  std::memcpy(bytes.data(), &message, sizeof message);
}

// Stands between the two ends, and knows the secret: makes the MACs anew for the end that they go to.
class Knower {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    knows_ = false;
    frames_.clear();
    for (End& end : ends_) end = {};
  }
  void learn(const Secret& secret) {
    const std::lock_guard lock(mutex_);
    secret_ = secret;
    knows_ = true;
  }

  // `bytes` are on their way through `socket`. `liar`: they may be changed.
  void pass(int socket, std::vector<uint8_t>& bytes, bool liar) {
    const std::lock_guard lock(mutex_);
    if (!knows_ || bytes.size() < sizeof(MessageHeader)) return;
    const auto header = as<MessageHeader>(bytes);
    const bool changed = liar && sometimes();
    const bool honest_macs = !changed || !sometimes();
    if (header.type == MessageType::kRequest && bytes.size() == sizeof(ConnectRequest)) {
      ends_[kToListener].socket = socket;
      request_said_ = as<ConnectRequest>(bytes);
      if (changed) flip(bytes);
      request_heard_ = as<ConnectRequest>(bytes);
      if (honest_macs) seal(request_heard_, secret_);
      put(request_heard_, bytes);
    } else if (header.type == MessageType::kReply && bytes.size() == sizeof(ConnectReply)) {
      ends_[kToConnector].socket = socket;
      reply_said_ = as<ConnectReply>(bytes);
      if (changed) flip(bytes);
      auto heard = as<ConnectReply>(bytes);
      if (honest_macs) seal(heard, request_said_, secret_);
      put(heard, bytes);
      const Session to_connector = {secret_, request_said_.random, heard.random};
      const Session to_listener = {secret_, request_heard_.random, reply_said_.random};
      ends_[kToConnector].key = to_connector.frameKeys().from_receiver;
      ends_[kToListener].key = to_listener.frameKeys().from_sender;
    } else if (header.type == MessageType::kReady && bytes.size() == sizeof(ConnectReady)) {
      if (changed) flip(bytes);
      auto ready = as<ConnectReady>(bytes);
      if (honest_macs) seal(ready, reply_said_, secret_);
      put(ready, bytes);
    } else if (End* const end = endOf(socket); end != nullptr) {
      passFrames(*end, bytes, changed, honest_macs);
    }
  }

  // A frame that was sent before, at another time, and perhaps by the other end.
  void forge() {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return;
    std::vector<uint8_t> frame = frames_[script.byte() % frames_.size()];
    End& end = ends_[script.byte() % 2];
    if (end.socket < 0 || !end.key) return;
    flip(frame);
    addSeal(end, frame);
    (void)__real_send(end.socket, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

 private:
  static constexpr int kToListener = 0;
  static constexpr int kToConnector = 1;
  struct End {
    int socket = -1;  // through which its peer speaks to it
    std::optional<Hmac> key;
    uint64_t number = 0;
  };

  End* endOf(int socket) {
    for (End& end : ends_) {
      if (end.socket == socket && end.key) return &end;
    }
    return nullptr;
  }
  static void addSeal(End& end, std::vector<uint8_t>& frame) {
    const FrameSeal seal = sealOf(std::as_bytes(std::span(frame)), ++end.number, 0, *end.key);
    const auto* const from = reinterpret_cast<const uint8_t*>(&seal);
    frame.insert(frame.end(), from, from + sizeof seal);
  }
  // Whole frames, each with its seal. Their number may have changed, because of forged ones before.
  void passFrames(End& end, std::vector<uint8_t>& bytes, bool changed, bool honest_macs) {
    std::vector<uint8_t> passed;
    for (std::size_t at = 0; at < bytes.size();) {
      if (bytes.size() - at < sizeof(MessageHeader)) return;
      MessageHeader header;
      std::memcpy(&header, bytes.data() + at, sizeof header);
      const std::size_t length = frameBytes(header.type);
      if (length == 0 || bytes.size() - at < length + sizeof(FrameSeal)) return;
      const auto* const begin = bytes.data() + at;
      std::vector<uint8_t> frame(begin, begin + length);
      if (frames_.size() < kMostFrames) frames_.push_back(frame);
      if (changed) flip(frame);
      addSeal(end, frame);
      if (!honest_macs) frame.back() ^= 1;
      passed.insert(passed.end(), frame.begin(), frame.end());
      at += length + sizeof(FrameSeal);
    }
    bytes.swap(passed);
  }

  std::mutex mutex_;  // the plugin's own threads send, too
  bool knows_ = false;
  Secret secret_ = {};
  ConnectRequest request_said_ = {};   // as the connector has said it
  ConnectRequest request_heard_ = {};  // as the listener has heard it
  ConnectReply reply_said_ = {};
  End ends_[2];
  std::vector<std::vector<uint8_t>> frames_;
};

Knower knower;

// ---- lies by RDMA

char* buffer = nullptr;  // registered; what is before and behind it is not

using Post = int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
Post honest_post = nullptr;

bool isWindow(const ibv_sge& piece) {
  const auto from = reinterpret_cast<uint64_t>(buffer);
  return piece.addr < from || piece.addr >= from + kBufferBytes;
}

void lieAbout(ibv_send_wr& work) {
  if (!sometimes()) return;
  const uint8_t lie = script.byte();
  const bool report = one_sided && work.opcode == IBV_WR_SEND;
  switch (report ? 1 : lie % 16) {
    case 1:  // what stands in the other's window, or a report: clear-to-sends, records, packed messages
    case 2:
    case 3:
      for (int i = 0; i < work.num_sge; ++i) {
        if (!isWindow(work.sg_list[i]) || work.sg_list[i].length == 0 || work.opcode == IBV_WR_RDMA_READ)
          continue;
        auto* const bytes = reinterpret_cast<uint8_t*>(work.sg_list[i].addr);
        for (int flips = lie / 64; flips >= 0; --flips)
          bytes[script.byte() % work.sg_list[i].length] = script.byte();
      }
      break;
    case 4:
      work.imm_data = htonl(script.word(4));
      break;
    case 5:  // the same form and slot, another size or part
      work.imm_data = htonl((ntohl(work.imm_data) & ~0xffffU) | script.word(2));
      break;
    case 6:
      work.wr.rdma.remote_addr += static_cast<uint64_t>(static_cast<int64_t>(script.word(2)) - kFarthest);
      break;
    case 7:
      if (work.num_sge == 1 && work.opcode != IBV_WR_RDMA_READ)
        work.sg_list->length = script.byte() % (work.sg_list->length + 1);
      break;
    case 8:
      work.wr.rdma.rkey ^= 1U << script.byte() % 32;
      break;
    default:
      break;
  }
}

// What was last written into the other's window, which has seen it by now: clear-to-sends, mostly.
struct Written {
  ibv_qp* qp = nullptr;
  ibv_send_wr work = {};
  ibv_sge piece = {};

  void note(ibv_qp* on, const ibv_send_wr& first) {
    const bool plain = first.opcode == IBV_WR_RDMA_WRITE || first.opcode == IBV_WR_SEND;
    if (!plain || first.num_sge != 1 || !isWindow(*first.sg_list) || first.sg_list->length == 0) return;
    qp = on;
    work = first;
    piece = *first.sg_list;
  }
  // Once more, with other bytes.
  void rewrite() {
    auto* const bytes = reinterpret_cast<uint8_t*>(piece.addr);
    for (int flips = script.byte() % 4; flips >= 0; --flips)
      bytes[script.byte() % piece.length] = script.byte();
    ibv_send_wr again = work;
    again.next = nullptr;
    again.sg_list = &piece;
    again.send_flags = 0;
    ibv_send_wr* bad = nullptr;
    (void)honest_post(qp, &again, &bad);
  }
};

Written written;

int lyingPost(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  if (!lies || script.over()) return honest_post(qp, work, bad);
  for (ibv_send_wr* at = work; at != nullptr; at = at->next) lieAbout(*at);
  const int how = sometimes() ? script.byte() % 8 : 0;
  // The device's own mistakes: it refuses, does a thing twice, or forgets it.
  if (how == 1) return EIO;
  if (how == 2) (void)honest_post(qp, work, bad);
  if (how == 3) return 0;
  if (how == 4 && written.qp == qp) written.rewrite();
  written.note(qp, *work);
  return honest_post(qp, work, bad);
}

// ---- the machine

Net* network = nullptr;
int device_index = -1;
const Device* device = nullptr;
MemoryHandle* memory = nullptr;
softdev::Fabric* fabric = nullptr;
std::vector<softdev::PortInfo> ports;

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

MemoryKind one_sided_kind = MemoryKind::kHost;
std::atomic<int> warnings = 0;  // since begin(); the plugin's own threads log, too

bool shows_log = false;

[[gnu::format(printf, 5, 6)]] void hear(int level, unsigned long, const char*, int, const char* format, ...) {
  warnings += level == log::kWarn;
  if (!shows_log) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}

bool setUp() {
  shows_log = std::getenv("PEER_FUZZ_LOG") != nullptr;
  log::setSink(hear);
  const std::string name = "peerfuzz" + std::to_string(getpid());
  setenv("RAILWISE_DEVICE",
         ("software:fabric=" + name + "," + variable("PEER_FUZZ_DEVICE", "count=2")).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("RAILWISE_FUSE_PLACELESS", "1", 1);
  network = *Net::acquire();
  std::vector<int> members(std::stoul(variable("PEER_FUZZ_RAILS", "1")));
  std::iota(members.begin(), members.end(), 0);
  device_index = *network->makeVirtualDevice(members);
  device = network->device(device_index);
  constexpr std::size_t kAll = kBufferBytes + 4 * kGuardBytes;
  void* const mapped = mmap(nullptr, kAll, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(mapped != MAP_FAILED);
  char* const watched = static_cast<char*>(mapped) + kGuardBytes;
  require(mprotect(watched, kBufferBytes + 2 * kGuardBytes, PROT_READ | PROT_WRITE) == 0);
  buffer = watched + kGuardBytes;
  const std::string kind = variable("PEER_FUZZ_ONE_SIDED", "");
  one_sided = !kind.empty();
  if (kind == "gpu") one_sided_kind = MemoryKind::kDevice;
  if (!one_sided)
    memory = *device->memory().acquire(reinterpret_cast<uint64_t>(buffer), kBufferBytes, MemoryKind::kHost);
  for (int i = 0; i < network->physicalDevices(); ++i) {
    Post& post = network->device(i)->rails()[0].hca->context()->ops.post_send;
    honest_post = post;
    post = lyingPost;
  }
  fabric = *softdev::joinFabric(name);
  ports = softdev::listPorts(*fabric);
  return true;
}

void changePort(std::size_t which, const char* change) {
  require(softdev::changePort(*fabric, ports[which % ports.size()], change).ok());
}

// ---- traffic

constexpr std::array<std::size_t, 8> kSizes = {0, 1, 8, 64, 1000, 8192, 70000, 300000};

class Conversation {
 public:
  Conversation() : context_(*network, -1) {}

  bool connect() {
    char handle[kHandleBytes];
    const Result<Listener*> listener = context_.listen(*device, handle);
    require(listener.ok());
    knower.learn((*listener)->handle().secret);
    for (int round = 0; round < kConnectRounds; ++round) {
      if (send_ == nullptr) {
        const Result<SendConnection*> made = context_.connect(*device, handle, -1);
        if (!made.ok()) return false;
        send_ = *made;
      }
      if (receive_ == nullptr) {
        const Result<ReceiveConnection*> made = Context::accept(**listener);
        if (!made.ok()) return false;
        receive_ = *made;
      }
      if (send_ != nullptr && receive_ != nullptr) return true;
      sched_yield();
    }
    return false;
  }

  void talk() {
    while (!script.over() && !failed_) step();
    finish();
  }

  // One message, which arrives.
  bool exchange() {
    std::memset(buffer, 1, 64);
    std::memset(buffer + 64, 0, 64);
    const auto from = reinterpret_cast<uint64_t>(buffer);
    Request* request = nullptr;
    const ReceiveBuffer to = {from + 64, 64, 0, memory, nullptr};
    keep(receive_->irecv({&to, 1}, false, &request), request);
    for (request = nullptr; request == nullptr && !failed_;)
      failed_ = !send_->isend(from, 64, 0, memory, nullptr, &request).ok();
    keep({}, request);
    finish();
    return !failed_ && requests_.empty() && std::memcmp(buffer, buffer + 64, 64) == 0;
  }

 private:
  void finish() {
    for (int round = 0; round < kFinishRounds && !requests_.empty() && !failed_; ++round) test();
  }

  void step() {
    const uint8_t what = script.byte();
    switch (what % 8) {
      case 0:
      case 1:
        return receive(what / 8 % 8 + 1U);
      case 2:
      case 3:
      case 4:
        return send();
      case 5:
        return what < 128 ? knower.forge() : changePort(what / 8 % 4U, what / 32 % 2 == 0 ? "down" : "up");
      default:
        for (int round = 0; round < kTestRounds && !failed_; ++round) test();
    }
  }

  void receive(std::size_t count) {
    std::vector<ReceiveBuffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = sometimes() ? kSizes[script.byte() % kSizes.size()] : kSizes.back();
      const std::size_t offset = script.byte() % 2 == 0 ? 0 : kBufferBytes - bytes;
      buffers.push_back(
          {reinterpret_cast<uint64_t>(buffer) + offset, bytes, static_cast<int>(i), memory, nullptr});
    }
    Request* request = nullptr;
    keep(receive_->irecv(buffers, false, &request), request);
  }

  void send() {
    const uint8_t how = script.byte();
    Request* request = nullptr;
    keep(send_->isend(reinterpret_cast<uint64_t>(buffer), kSizes[how % kSizes.size()], how / 8 % 8, memory,
                      nullptr, &request),
         request);
  }

  void keep(Status status, Request* request) {
    failed_ = failed_ || !status.ok();
    if (status.ok() && request != nullptr) requests_.push_back(request);
  }

  void test() {
    for (std::size_t i = 0; i < requests_.size();) {
      bool done = false;
      int sizes[kMaxReceives];
      if (!requests_[i]->connection->test(*requests_[i], &done, sizes).ok()) failed_ = true;
      if (done) requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
      else ++i;
    }
    usleep(kPause);  // the plugin's own threads bring events and frames
  }

  Context context_;
  SendConnection* send_ = nullptr;
  ReceiveConnection* receive_ = nullptr;
  std::vector<Request*> requests_;
  bool failed_ = false;
};

// ---- one-sided traffic

struct Stretch {
  std::size_t from;
  std::size_t bytes;
};
constexpr std::size_t kRanks = 2;
constexpr std::size_t kSeedHeader = 64;  // begins all pictures alike, so all of them would tell one lie first
// Parts of two windows, data and signals, of each rank. What lies between them is watched.
constexpr Stretch kParts[2][kRanks] = {{{0x0, 0x50000}, {0x60000, 0x50000}},
                                       {{0xc0000, 0x1000}, {0xd0000, 0x1000}}};

bool inWindow(std::size_t at) {
  for (const auto& window : kParts) {
    for (const Stretch& part : window) {
      if (at - part.from < part.bytes) return true;
    }
  }
  return false;
}

// Rank 0 puts to rank 1, and reads from it.
class OneSided {
 public:
  OneSided() {
    char handles[kRanks][kHandleBytes];
    RmaListener* listeners[kRanks];
    for (std::size_t i = 0; i < kRanks; ++i) listeners[i] = *ranks_[i].net.listen(device_index, handles[i]);
    ListenHandle called;
    std::memcpy(&called, handles[1], sizeof called);
    knower.learn(called.secret);
    const void* const all[kRanks] = {handles[0], handles[1]};
    for (std::size_t i = 0; i < kRanks; ++i) {
      Rank& rank = ranks_[i];
      rank.group = *RmaNet::connect(*listeners[i], all, static_cast<int>(i));
      RmaNet::close(listeners[i]);
      rank.context = *rank.group->createContext(kContexts, -1);
      for (const auto& parts : kParts)
        rank.windows.push_back(*rank.group->registerMemory(reinterpret_cast<uint64_t>(buffer) + parts[i].from,
                                                           parts[i].bytes, one_sided_kind, kRmaStrongOrder));
    }
  }
  ~OneSided() {
    for (const Rank& rank : ranks_) RmaContext::destroy(rank.context);
    for (const Rank& rank : ranks_) {
      for (RmaWindow* const window : rank.windows) rank.group->deregister(window);
      RmaGroup::close(rank.group);
    }
  }
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;

  // The connection comes up with the first put.
  bool connect() { return exchange(); }
  void talk() {
    while (!script.over() && !failed()) step();
    finish();
  }
  // A put, a signal and a get, which all come.
  bool exchange() {
    char* const source = buffer + kParts[0][0].from;
    const char* const target = buffer + kParts[0][1].from;
    auto* const signal = reinterpret_cast<uint64_t*>(buffer + kParts[1][1].from);
    std::memset(source, 1, 64);
    *signal = 0;
    keep(context().put(0, data(0), 64, data(0), 1, &request_));
    keep(context().putSignal(0, {}, 0, {}, 1, {signals(0), 3}, &request_));
    keep(context().get(0, data(0), 64, data(64), 1, &request_));
    for (int round = 0; round < kConnectRounds && !failed() && __atomic_load_n(signal, __ATOMIC_ACQUIRE) != 3;
         ++round)
      test();
    finish();
    return !failed() && requests_.empty() && std::memcmp(source, target, 64) == 0 &&
           std::memcmp(source, source + 64, 64) == 0;
  }
  bool failed() const { return ranks_[0].context->failed() || ranks_[1].context->failed(); }

 private:
  static constexpr int kContexts = 2;
  struct Rank {
    RmaNet net{*network, 0};
    RmaGroup* group = nullptr;
    RmaContext* context = nullptr;
    std::vector<RmaWindow*> windows;
  };

  RmaContext& context() { return *ranks_[0].context; }
  RmaPlace data(uint64_t offset) const { return {ranks_[0].windows[0], offset}; }
  RmaPlace signals(uint64_t number) const { return {ranks_[0].windows[1], number * sizeof(uint64_t)}; }

  void step() {
    const uint8_t what = script.byte();
    const int stream = what / 8 % kContexts;
    const std::size_t bytes = kSizes[what / 16 % kSizes.size()];
    const uint64_t at = what % 2 == 0 ? 0 : kParts[0][1].bytes - bytes;
    const RmaSignal signal = {signals(what % 5 == 0 ? kParts[1][1].bytes / sizeof(uint64_t) - 1 : what % 5),
                              what};
    switch (what % 8) {
      case 0:
        return keep(context().put(stream, data(0), bytes, data(at), 1, &request_));
      case 1:
      case 2:
      case 3:
        return keep(context().putSignal(stream, data(0), bytes, data(at), 1, signal, &request_));
      case 4:
        return keep(context().get(stream, data(at), bytes, data(0), 1, &request_));
      case 5:  // seldom: what is forged ends nearly every connection
        if (what < 16) return knower.forge();
        if (what < 64) return changePort(what / 8 % 4U, what / 32 % 2 == 0 ? "down" : "up");
        [[fallthrough]];
      default:
        for (int round = 0; round < kTestRounds && !failed(); ++round) test();
    }
  }
  void keep(Status status) {
    if (status.ok() && request_ != nullptr) requests_.push_back(std::exchange(request_, nullptr));
  }
  void finish() {
    for (int round = 0; round < kFinishRounds && !requests_.empty() && !failed(); ++round) test();
  }
  void test() {
    for (const Rank& rank : ranks_) (void)rank.context->progress();
    std::erase_if(requests_, [&](RmaRequest* request) {
      int done = 0;
      (void)ranks_[0].group->test(*request, &done);
      return done != 0;
    });
    usleep(kPause);
  }

  Rank ranks_[kRanks];
  RmaRequest* request_ = nullptr;
  std::vector<RmaRequest*> requests_;
};

}  // namespace

// All that goes over TCP (the linker's --wrap).
extern "C" ssize_t __wrap_send(int socket, const void* bytes, size_t size, int flags) {  // NOLINT
  std::vector<uint8_t> said(static_cast<const uint8_t*>(bytes), static_cast<const uint8_t*>(bytes) + size);
  knower.pass(socket, said, lies && !script.over());
  return __real_send(socket, said.data(), said.size(), flags);
}

namespace {

void begin(const uint8_t* data, size_t size) {
  written = {};
  warnings = 0;
  std::memset(buffer - kGuardBytes, kGuard, kBufferBytes + 2 * kGuardBytes);
  knower.begin();
  script = {data, data + size};
}

// Also that this program tests anything: without lies all goes well.
bool begun() {
  if (!setUp()) return false;
  begin(nullptr, 0);
  if (one_sided) {
    OneSided honest;
    require(honest.connect());
    require(honest.exchange());
  } else {
    Conversation honest;
    require(honest.connect());
    require(honest.exchange());
  }
  return true;
}

template <typename Traffic>
void converse(bool lies_at_once) {
  Traffic traffic;
  lies = lies_at_once;
  if (traffic.connect()) {
    lies = true;
    traffic.talk();
  }
  if constexpr (std::is_same_v<Traffic, OneSided>) require(!traffic.failed() || warnings > 0);
  lies = false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  [[maybe_unused]] static const bool set_up = begun();
  const size_t header = one_sided && size > 2 * kSeedHeader ? kSeedHeader : 1;
  begin(data + header, size - header);
  if (one_sided) converse<OneSided>(data[0] % 4 == 0);
  else converse<Conversation>(data[0] % 4 == 0);
  for (std::size_t i = 0; i < ports.size(); ++i) changePort(i, "up");
  const auto untouched = [](char byte) { return byte == kGuard; };
  require(std::all_of(buffer - kGuardBytes, buffer, untouched));
  require(std::all_of(buffer + kBufferBytes, buffer + kBufferBytes + kGuardBytes, untouched));
  for (std::size_t i = 0; one_sided && i < kBufferBytes; ++i) require(inWindow(i) || untouched(buffer[i]));
  return 0;
}
