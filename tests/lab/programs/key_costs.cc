// lab_key_costs: what it would cost to keep a bad peer from the memory of others (docs/develop/decisions.md).
// With tests/lab/run --count-instructions a nanosecond is one instruction of the guest: programs and kernel,
// both ends.
//
// Prints the cost of one registration for 1 to 16 peers, and of a message of 4 KiB with its clear-to-send,
// plain and through a memory window that is bound and invalidated for each receive.
#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "lab/programs/rdma_ends.h"

namespace railwise::lab {
namespace {

constexpr std::size_t kBuffer = 4 << 20;
constexpr std::size_t kMessage = 4096;
constexpr uint64_t kMessages = 500;
constexpr uint32_t kPsn = 1;

// Memory that counts against the locked-memory limit (RLIMIT_MEMLOCK).
long lockedKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPin:")) return std::stol(line.substr(6));
  }
  return -1;
}

void registrations(const Nic& nic, std::size_t peers) {
  const Pages memory(kBuffer);
  std::vector<verbs::Pd> domains(peers);
  std::vector<verbs::Mr> regions(peers);
  for (verbs::Pd& pd : domains) pd = nic.newDomain();
  const long before = lockedKib();
  const uint64_t begin = nowNs();
  for (std::size_t peer = 0; peer < peers; ++peer) regions[peer] = memory.registerWith(domains[peer].get());
  const uint64_t took = nowNs() - begin;
  std::printf("%zu domains: %zu registrations of %zu MiB, %zu instructions each, %ld MiB locked\n", peers,
              peers, kBuffer >> 20, took / peers, (lockedKib() - before) >> 10);
}

// What a receiver writes to its sender.
struct ClearToSend {
  uint64_t number;
  uint64_t key;
};

class Messages {
 public:
  Messages(const Nic& here, const Nic& there, bool windows)
      : windows_(windows),
        here_(here.newDomain()),
        there_(there.newDomain()),
        receiver_(here, here_.get()),
        sender_(there, there_.get()),
        here_mr_(buffer_.registerWith(here_.get(), verbs::kDataAccess | IBV_ACCESS_MW_BIND)),
        there_mr_(data_.registerWith(there_.get())) {
    joinBoth(receiver_, sender_, kPsn);
    if (windows) need((mw_ = ibv_alloc_mw(here_.get(), IBV_MW_TYPE_2)) != nullptr, "ibv_alloc_mw");
  }
  ~Messages() {
    if (mw_ != nullptr) ibv_dealloc_mw(mw_);
  }

  void run() {
    for (uint64_t number = 1; number <= 20; ++number) message(number);
    requests_ = completions_ = 0;
    const uint64_t begin = nowNs();
    for (uint64_t number = 21; number <= 20 + kMessages; ++number) message(number);
    const uint64_t took = nowNs() - begin;
    std::printf("%s: %zu work requests and %zu completions a message, %zu instructions\n",
                windows_ ? "windows" : "plain", requests_ / kMessages, completions_ / kMessages,
                took / kMessages);
  }

 private:
  void message(uint64_t number) {
    receiver_.postReceive();
    ++requests_;
    const uint32_t key = windows_ ? ibv_inc_rkey(mw_->rkey) : here_mr_->rkey;
    clearToSend(number, key);
    const auto* const told = reinterpret_cast<const volatile ClearToSend*>(&data_.word());
    while (told->number != number) sched_yield();
    sendThrough(static_cast<uint32_t>(told->key));
    complete(receiver_);
    if (windows_) invalidate(key);
    complete(sender_);
  }

  // The bind and the clear-to-send go in this order over one queue pair, so the sender never hears of a key
  // that is not bound yet.
  void clearToSend(uint64_t number, uint32_t key) {
    ClearToSend tells = {number, key};
    ibv_sge sge = {reinterpret_cast<uint64_t>(&tells), sizeof tells, 0};
    ibv_send_wr tell = {};
    tell.opcode = IBV_WR_RDMA_WRITE;
    tell.send_flags = IBV_SEND_INLINE;
    tell.sg_list = &sge;
    tell.num_sge = 1;
    tell.wr.rdma = {data_.at(0), there_mr_->rkey};
    ibv_send_wr bind = {};
    bind.opcode = IBV_WR_BIND_MW;
    bind.next = &tell;
    bind.bind_mw = {mw_, key, {here_mr_.get(), buffer_.at(0), kMessage, IBV_ACCESS_REMOTE_WRITE}};
    receiver_.post(windows_ ? bind : tell);
    requests_ += windows_ ? 2 : 1;
    if (windows_) mw_->rkey = key;
  }

  void sendThrough(uint32_t key) {
    ibv_sge sge = {data_.at(kMessage), kMessage, there_mr_->lkey};
    ibv_send_wr work = {};
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.send_flags = IBV_SEND_SIGNALED;
    work.sg_list = &sge;
    work.num_sge = 1;
    work.wr.rdma = {buffer_.at(0), key};
    sender_.post(work);
    ++requests_;
  }

  // Only then does the buffer belong to the receiver alone.
  void invalidate(uint32_t key) {
    ibv_send_wr work = {};
    work.opcode = IBV_WR_LOCAL_INV;
    work.send_flags = IBV_SEND_SIGNALED;
    work.invalidate_rkey = key;
    receiver_.post(work);
    ++requests_;
    complete(receiver_);
  }

  void complete(const End& end) {
    need(end.complete() == IBV_WC_SUCCESS, "a message");
    ++completions_;
  }

  const bool windows_;
  const verbs::Pd here_;
  const verbs::Pd there_;
  End receiver_;
  End sender_;
  const Pages buffer_{kMessage};
  const Pages data_{2 * kMessage};
  const verbs::Mr here_mr_;
  const verbs::Mr there_mr_;
  ibv_mw* mw_ = nullptr;
  uint64_t requests_ = 0;
  uint64_t completions_ = 0;
};

int run() {
  const Config config = Config::load();
  need(verbs::load(config).ok(), "libibverbs");
  const Nic here("rxe0", config);
  const Nic there("rxe1", config);
  for (const std::size_t peers : {1, 4, 16}) registrations(here, peers);
  for (const bool windows : {false, true, false, true}) Messages(here, there, windows).run();
  return 0;
}

}  // namespace
}  // namespace railwise::lab

int main() { return railwise::lab::run(); }
