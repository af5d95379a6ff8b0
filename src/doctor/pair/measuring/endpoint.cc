#include "doctor/pair/measuring/endpoint.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "doctor/pair/measuring/wire.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace railwise::doctor::pair {
namespace {

// verbs reports the reason of a failure as a warning in the log. While an object of this class lives,
// warnings are kept instead of written, so that they stand in the report. One thread; one object at a time.

class KeptWarnings {
 public:
  KeptWarnings();
  ~KeptWarnings() { log::setSink(before_); }
  KeptWarnings(const KeptWarnings&) = delete;
  KeptWarnings& operator=(const KeptWarnings&) = delete;

  // The first warning since the last object was made, or `otherwise`.
  static std::string reasonOr(const char* otherwise);

 private:
  const log::Sink before_;
};

std::string& keptText() {
  static thread_local std::string kept;
  return kept;
}

[[gnu::format(printf, 5, 6)]] void keepWarning(int level, unsigned long, const char*, int, const char* format,
                                               ...) {
  if (level != log::kWarn || !keptText().empty()) return;
  char line[kMaxText];
  va_list values;
  va_start(values, format);
  (void)std::vsnprintf(line, sizeof line, format, values);
  va_end(values);
  keptText() = line;
}

KeptWarnings::KeptWarnings() : before_(log::sink()) {
  keptText().clear();
  log::setSink(keepWarning);
}

std::string KeptWarnings::reasonOr(const char* otherwise) {
  return keptText().empty() ? otherwise : keptText();
}

// Both ends go through their pairs in one order, so each waits for the other only while that one fails.
constexpr auto kCmLimit = std::chrono::seconds(3);
constexpr int kCmBacklog = 4;

constexpr std::size_t kLine = 64;
constexpr std::size_t kPageBytes = 4096;
constexpr uint32_t kSignalBytes = sizeof(uint64_t);
// Completions beside those of the window: signals.
constexpr uint32_t kSpare = 16;
constexpr int kPolledAtOnce = 16;

// While an object of this class lives, new pages of this thread come from a NUMA node if it has any. Where
// the kernel refuses (no such node, a container), they come from where they would.
class PreferredNode {
 public:
  explicit PreferredNode(int node) {
    if (node < 0 || node >= kMostNodes) return;
    unsigned long nodes[kMostNodes / kBitsOfLong] = {};
    nodes[node / kBitsOfLong] = 1UL << (node % kBitsOfLong);
    set_ = syscall(SYS_set_mempolicy, kPreferred, nodes, kMostNodes) == 0;
  }
  ~PreferredNode() {
    if (set_) (void)syscall(SYS_set_mempolicy, kDefault, nullptr, 0);
  }
  PreferredNode(const PreferredNode&) = delete;
  PreferredNode& operator=(const PreferredNode&) = delete;

 private:
  // MPOL_DEFAULT and MPOL_PREFERRED of linux/mempolicy.h.
  static constexpr int kDefault = 0;
  static constexpr int kPreferred = 1;
  static constexpr int kBitsOfLong = 64;
  static constexpr int kMostNodes = 1024;
  bool set_ = false;
};

uint64_t patternWord(uint32_t queue_pair, std::size_t index) {
  return (uint64_t{queue_pair} << 32 | index) * 0x9e3779b97f4a7c15U;
}

}  // namespace

std::unique_ptr<Endpoint> Endpoint::open(const OpenNic& nic, const Config& config, std::size_t gid,
                                         std::size_t bytes, uint32_t window, bool listens) {
  std::unique_ptr<Endpoint> made(new Endpoint(nic, config, (bytes + kLine - 1) / kLine * kLine));
  const KeptWarnings warnings;
  if (!made->make(gid, window, listens)) made->fail(KeptWarnings::reasonOr("no queue pair can be made"));
  return made;
}

bool Endpoint::make(std::size_t gid, uint32_t window, bool listens) {
  if (nic_.port.iwarp) {
    if (!findCmAddress(listens)) return false;
  } else {
    if (gid >= nic_.gids.size()) return false;
    gid_ = nic_.gids[gid];
  }
  return makeHostMemory() && (nic_.driver == nullptr || makeGpuMemory()) && makeQueuePair(window);
}

bool Endpoint::makeHostMemory() {
  const std::size_t all = (2 * bytes_ + 2 * kLine + kPageBytes - 1) / kPageBytes * kPageBytes;
  const PreferredNode near_the_nic(nic_.numa);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, all)));
  if (memory_ == nullptr) return false;
  std::memset(memory_.get(), 0, all);
  auto region = verbs::registerMemory(nic_.pd.get(), memory_.get(), all,
                                      verbs::kDataAccess | verbs::relaxedOrdering(config_));
  if (!region.ok()) return false;
  region_ = std::move(*region);
  return true;
}

// By dma-buf, else by address, which a peer-memory module of the kernel makes work.
bool Endpoint::makeGpuMemory() {
  auto block = nic_.driver->allocate(nic_.gpu, 2 * bytes_);
  if (!block.ok()) {
    fail(block.error());
    return false;
  }
  gpu_ = std::move(*block);
  const uint64_t address = gpu_->address();
  if (gpu_->dmaBuf() >= 0 && verbs::library().reg_dmabuf_mr != nullptr) {
    auto region = verbs::registerDmaBuf(nic_.pd.get(), 0, 2 * bytes_, address, gpu_->dmaBuf(),
                                        verbs::kDataAccess | verbs::relaxedOrdering(config_));
    if (region.ok()) gpu_region_ = std::move(*region);
  }
  if (gpu_region_ != nullptr) return true;
  void* const memory = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  auto region = verbs::registerMemory(nic_.pd.get(), memory, 2 * bytes_,
                                      verbs::kDataAccess | verbs::relaxedOrdering(config_));
  if (region.ok()) gpu_region_ = std::move(*region);
  else
    fail("memory of GPU " + nic_.gpu +
         " cannot be registered: " + KeptWarnings::reasonOr("the NIC's driver refuses"));
  return gpu_region_ != nullptr;
}

bool Endpoint::makeQueuePair(uint32_t window) {
  const auto entries = static_cast<int>(window + kSpare);
  completions_.reset(verbs::library().create_cq(nic_.context.get(), entries, nullptr, nullptr, 0));
  if (completions_ == nullptr) return false;
  auto queue = verbs::createQueuePair(nic_.pd.get(), completions_.get(), nic_.port, config_,
                                      {window + kSpare, 1, kSignalBytes});
  if (!queue.ok()) return false;
  queue_ = std::move(*queue);
  return true;
}

QueueAddress Endpoint::address() const {
  if (!error_.empty()) return {};
  QueueAddress address;
  address.usable = true;
  address.queue_pair = queuePair()->qp_num;
  address.data = dataAddress() + bytes_;
  address.data_key = dataRegion().rkey;
  address.signals = reinterpret_cast<uint64_t>(signals()) + kLine;
  address.signal_key = region_->rkey;
  if (nic_.port.iwarp) {
    const ibv_gid bytes = verbs::cmAddressBytes(cm_address_);
    std::memcpy(address.cm_address.data(), bytes.raw, sizeof bytes.raw);
    address.cm_port = cm_address_.port();
  }
  return address;
}

void Endpoint::connect(const NicFacts& nic, std::size_t gid, const QueueAddress& remote) {
  if (!error_.empty()) return;
  if (!remote.usable) return fail("the other end could not make its queue pair");
  remote_ = remote;
  if (nic_.port.iwarp) return connectByCm();
  if (gid >= nic.gids.size()) return fail("the other end has no such GID");
  verbs::PathAddress path;
  path.qp_number = remote.queue_pair;
  path.lid = static_cast<uint16_t>(nic.lid);
  path.ethernet = nic.link == LinkKind::kRoce;
  for (path.mtu = IBV_MTU_256; path.mtu < IBV_MTU_4096 && 128U << path.mtu < nic.mtu_bytes;)
    path.mtu = static_cast<ibv_mtu>(path.mtu + 1);
  path.gid = nic.gids[gid].value;
  const verbs::PathSettings settings = {
      .local_gid = gid_,
      .service_level = static_cast<uint8_t>(std::max(config_.ib_service_level, 0)),
      .traffic_class = static_cast<uint8_t>(std::max(config_.ib_traffic_class, 0))};
  const KeptWarnings warnings;
  if (!verbs::readyToReceive(queue_.qp.get(), nic_.port, path, settings).ok() ||
      !verbs::readyToSend(queue_.qp.get(), nic_.port, config_).ok())
    fail(KeptWarnings::reasonOr("the queue pair cannot be connected: its address is not resolved"));
}

void Endpoint::fail(std::string error) {
  if (error_.empty()) error_ = std::move(error);
}

bool Endpoint::post(uint64_t from, const ibv_mr& region, std::size_t bytes, uint64_t to, uint32_t key) {
  ibv_sge piece = {};
  piece.addr = from;
  piece.length = static_cast<uint32_t>(bytes);
  piece.lkey = region.lkey;
  ibv_send_wr request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  if (&region == region_.get() && bytes <= queue_.inline_bytes) request.send_flags |= IBV_SEND_INLINE;
  request.wr.rdma.remote_addr = to;
  request.wr.rdma.rkey = key;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queuePair(), &request, &bad);
  if (error == 0) ++outstanding_;
  else fail(std::string("a write cannot be posted: ") + std::strerror(error));
  return error == 0;
}

bool Endpoint::writeData(std::size_t bytes) {
  return post(dataAddress(), dataRegion(), bytes, remote_.data, remote_.data_key);
}

bool Endpoint::writeSignal(uint64_t number) {
  std::memcpy(signals(), &number, sizeof number);
  return post(reinterpret_cast<uint64_t>(signals()), *region_, sizeof number, remote_.signals,
              remote_.signal_key);
}

int Endpoint::poll() {
  std::array<ibv_wc, kPolledAtOnce> done;
  const int count = ibv_poll_cq(completions_.get(), kPolledAtOnce, done.data());
  if (count < 0) fail("the completion queue cannot be polled");
  outstanding_ -= static_cast<uint32_t>(std::max(count, 0));
  for (int i = 0; i < count; ++i) {
    const ibv_wc_status status = done[static_cast<std::size_t>(i)].status;
    if (status == IBV_WC_SUCCESS) continue;
    fail(std::string("a write failed: ") + verbs::library().wc_status_str(status));
    return i > 0 ? i : -1;  // the next call reports the failure: later writes are flushed
  }
  return count;
}

uint64_t Endpoint::signal() const {
  auto* const word = reinterpret_cast<uint64_t*>(signals() + kLine);
  return std::atomic_ref<uint64_t>(*word).load(std::memory_order_acquire);
}

void Endpoint::fillData() {
  if (!error_.empty()) return;
  auto* const words = reinterpret_cast<uint64_t*>(memory_.get());
  for (std::size_t i = 0; i < bytes_ / sizeof *words; ++i) words[i] = patternWord(queuePair()->qp_num, i);
  if (gpu_ != nullptr && !gpu_->write(0, memory_.get(), bytes_))
    fail("nothing can be copied to GPU " + nic_.gpu);
}

bool Endpoint::dataArrived(std::size_t bytes) const {
  std::byte* const received = memory_.get() + bytes_;
  if (gpu_ != nullptr && !gpu_->read(bytes_, received, bytes)) return false;
  const auto* const words = reinterpret_cast<const uint64_t*>(received);
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) {
    if (words[i] != patternWord(remote_.queue_pair, i)) return false;
  }
  return true;
}

// On iWARP the communication manager connects the queue pairs. The second end of a match listens, the first
// one connects.
bool Endpoint::findCmAddress(bool listens) {
  const auto addresses = verbs::cmAddresses(nic_.context.get(), nic_.port);
  if (!addresses.ok() || addresses->empty()) {
    fail(KeptWarnings::reasonOr("the network interface of the port has no IP address"));
    return false;
  }
  cm_address_ = (*addresses)[0];
  if (!listens) return true;
  auto listener = verbs::CmListener::create(nic_.context.get(), nic_.port, cm_address_, kCmBacklog);
  if (!listener.ok()) return false;
  cm_address_ = listener->address();
  cm_listener_.emplace(std::move(*listener));
  return true;
}

void Endpoint::connectByCm() {
  const KeptWarnings warnings;
  const Deadline deadline = Deadline::after(kCmLimit);
  if (!cm_listener_) callByCm();
  while (error_.empty()) {
    if (connection_ == nullptr && !answerByCm()) return;
    const auto up = connection_ != nullptr ? connection_->advance() : Result<bool>(false);
    if (!up.ok()) return fail(KeptWarnings::reasonOr("the connection manager of the other end refuses"));
    if (*up) return;
    if (deadline.passed()) return fail("the other end did not answer the connection manager within 3 s");
    sched_yield();
  }
}

void Endpoint::callByCm() {
  ibv_gid bytes;
  std::memcpy(bytes.raw, remote_.cm_address.data(), sizeof bytes.raw);
  const SocketAddress peer = verbs::cmAddressOf(bytes, remote_.cm_port, cm_address_.scopeId());
  auto made = verbs::CmConnection::connect(std::move(queue_), nic_.port, cm_address_, peer, config_, {}, {});
  if (made.ok()) connection_ = std::move(*made);
  else fail(KeptWarnings::reasonOr("the connection manager cannot connect"));
}

// False: it has failed.
bool Endpoint::answerByCm() {
  auto request = cm_listener_->poll();
  if (request.ok() && !request->has_value()) return true;
  if (request.ok()) {
    auto made =
        verbs::CmConnection::accept(std::move(**request), std::move(queue_), nic_.port, config_, {}, {});
    if (made.ok()) {
      connection_ = std::move(*made);
      return true;
    }
  }
  fail(KeptWarnings::reasonOr("the connection manager cannot accept"));
  return false;
}

}  // namespace railwise::doctor::pair
