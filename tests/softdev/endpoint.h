// One end of a connection over the software device, for tests: a device with a PD, a CQ, a buffer and a QP.
// The functions that cannot fail in a correct test throw std::runtime_error.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "softdev/softdev.h"

namespace railwise::softdev::test {

// A fabric no other test process or test uses.
std::string uniqueFabric();

// configure("fabric=<unique>;" + devices), and the first device opened. Closed at the end.
class OpenDevice {
 public:
  explicit OpenDevice(const std::string& devices = "", const std::string& fabric = uniqueFabric());
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  operator ibv_context*() const { return context_; }  // NOLINT: stands for the context
  const std::string& fabric() const { return fabric_; }

 private:
  std::string fabric_;
  ibv_context* context_;
};

ibv_context* openNamed(const std::string& name);

// Everything a peer must know.
struct Address {
  uint32_t qp_num;
  uint16_t lid;
  ibv_gid gid;
  uint64_t memory;
  uint32_t rkey;
};

// The memory of an Endpoint: on the heap, or a mapping of its own; secret: which no other process reaches,
// nor the kernel for it, like host memory of a GPU's driver (memfd_secret).
enum class Memory { kHeap, kAnonymous, kMemoryFile, kSharedAnonymous, kSecret };
bool haveSecretMemory();

class Buffer {
 public:
  Buffer(size_t bytes, Memory memory);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return begin_; }
  const std::byte* data() const { return begin_; }
  size_t size() const { return bytes_; }
  std::byte* begin() { return begin_; }
  std::byte* end() { return begin_ + bytes_; }
  std::byte& operator[](size_t offset) { return begin_[offset]; }

 private:
  std::byte* begin_;
  size_t bytes_;
  Memory memory_;
  int fd_ = -1;
};

struct Options {
  Memory memory = Memory::kHeap;
  bool hidden = false;    // a peer process whose memory no other may reach
  bool filtered = false;  // a peer process under a seccomp filter without process_vm_readv and _writev
  int cqe = 64;
  size_t buffer_bytes = 1 << 16;
  uint32_t max_send_wr = 32;
  uint32_t max_recv_wr = 32;
  uint32_t max_sge = 4;
  uint32_t max_inline = 64;
  int signal_all = 0;
  int mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  unsigned qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  uint8_t port = 1;
  ibv_cq* shared_cq = nullptr;  // of another endpoint, which outlives this one; null: its own
  uint8_t gid_index = 0;
  uint8_t timeout = 0;  // forever, so that no test depends on time
  uint8_t retry_cnt = 0;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;
  uint8_t max_rd_atomic = 1;
  uint8_t max_dest_rd_atomic = 1;
  uint32_t sq_psn = 0;
  uint32_t rq_psn = 0;
  bool with_channel = false;  // the CQ reports to a completion channel
};

// A send from `offset` of our buffer to `remote_offset` of the peer's.
struct Send {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  uint64_t offset = 0;
  uint32_t length = 0;
  uint64_t remote_offset = 0;
  unsigned flags = IBV_SEND_SIGNALED;
  uint64_t wr_id = 1;
  uint32_t imm = 0;  // what is added, for fetch and add
};

class Endpoint {
 public:
  explicit Endpoint(ibv_context* context, const Options& options = {});
  // On a device of its own, with these keys.
  explicit Endpoint(const std::string& devices = "")
      : Endpoint(std::make_unique<const OpenDevice>(devices)) {}
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Address address() const;
  ibv_qp_attr initAttr() const;
  ibv_qp_attr rtrAttr(const Address& peer) const;
  ibv_qp_attr rtsAttr() const;
  int toInit();
  int toRtr(const Address& peer);
  int toRts();
  int toState(ibv_qp_state state);
  void connect(const Address& peer);
  ibv_qp_state state() const;

  // Positive errno of ibv_post_send / ibv_post_recv.
  int send(const Send& send);
  int receive(uint64_t wr_id, uint64_t offset = 0, uint32_t length = 0);
  // Sends so often, each time with the round's number, from 1 on, in all words: the first error, 0 when none.
  int sendRounds(const Send& send, uint64_t rounds);
  // Fills *wr and *sge for a chain of the caller's own.
  void fill(const Send& send, ibv_send_wr* wr, ibv_sge* sge) const;

  int poll(ibv_wc* wc) { return ibv_poll_cq(cq, 1, wc); }
  // Polls until a completion comes; throws after a minute.
  ibv_wc wait();

  uint64_t* word(size_t offset) { return reinterpret_cast<uint64_t*>(buffer.data() + offset); }

  std::unique_ptr<const OpenDevice> own;
  Options options;
  Buffer buffer;
  ibv_context* context;
  ibv_pd* pd;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq;
  ibv_mr* mr;
  ibv_qp* qp;
  Address peer{};

 private:
  explicit Endpoint(std::unique_ptr<const OpenDevice> made) : Endpoint(*made) { own = std::move(made); }
};

// Each may be an end in this process or a peer process.
template <typename One, typename Other>
void connectEnds(One& one, Other& other) {
  one.connect(other.address());
  other.connect(one.address());
}

// Sends, and waits for the completion: its status. Throws if the device does not take it.
template <typename End>
ibv_wc_status sendAndWait(End& end, const Send& send) {
  if (end.send(send) != 0) throw std::runtime_error("ibv_post_send");
  return end.wait().status;
}

// Two connected ends in this process.
struct Pair {
  // On a device of their own, with these keys.
  explicit Pair(const std::string& devices = "") : Pair(std::make_unique<const OpenDevice>(devices)) {}
  explicit Pair(ibv_context* context, const Options& options = {})
      : Pair(context, context, options, options) {}
  Pair(ibv_context* context_a, ibv_context* context_b, const Options& options_a, const Options& options_b)
      : a(context_a, options_a), b(context_b, options_b) {
    connectEnds(a, b);
  }
  std::unique_ptr<const OpenDevice> own;
  Endpoint a;
  Endpoint b;

 private:
  explicit Pair(std::unique_ptr<const OpenDevice> made) : Pair(*made) { own = std::move(made); }
};

}  // namespace railwise::softdev::test
