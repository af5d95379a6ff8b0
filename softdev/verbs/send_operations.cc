// The functions of ibv_qp_ex. They collect requests, and wr_complete posts all of them or none
// (ibv_wr_post(3)).
#include <cerrno>
#include <utility>

#include "softdev/engine/datapath.h"
#include "softdev/faults/faults.h"
#include "softdev/verbs/send_builder.h"

namespace railwise::softdev {
namespace {

SendBuilder& builderOf(ibv_qp_ex* qp) { return *static_cast<Qp*>(qp)->builder; }

void start(ibv_qp_ex* base) {
  Qp& qp = *static_cast<Qp*>(base);
  SendLock::take(qp);
  qp.builder->clear();
}

// Posts all requests or none.
int postChain(const Qp& qp, SendLock& lock, ibv_send_wr* chain) {
  if (const int error = checkSends(qp, chain); error != 0) return error;
  ibv_send_wr* bad = nullptr;
  return lock.post(chain, &bad);
}

// Called while a rule is armed. The rules are applied without the lock, and other threads may use the builder
// then. So this thread takes the requests out of it.
int completeFaulty(Qp& qp) {
  SendBuilder built = std::move(*qp.builder);
  SendLock::give(qp);
  if (const int error = postFault(qp); error != 0) return error;
  SendLock lock(qp);
  return postChain(qp, lock, built.chain());
}

int complete(ibv_qp_ex* base) {
  Qp& qp = *static_cast<Qp*>(base);
  const bool sends = qp.builder->error() == 0 && !qp.builder->empty();
  if (sends && faultsArmed(*qp.fabric) != 0) [[unlikely]]
    return completeFaulty(qp);
  SendLock lock(qp, SendLock::Held::kAdopt);
  return sends ? postChain(qp, lock, qp.builder->chain()) : qp.builder->error();
}

void abort(ibv_qp_ex* base) { SendLock::give(*static_cast<Qp*>(base)); }

ibv_send_wr& addRdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr) {
  ibv_send_wr& request = builderOf(qp).add(*qp, opcode);
  request.wr.rdma.remote_addr = remote_addr;
  request.wr.rdma.rkey = rkey;
  return request;
}

void write(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  addRdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

void writeImm(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data) {
  addRdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr).imm_data = imm_data;
}

void read(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  addRdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr);
}

void atomicWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, const void* value) {
  addRdma(qp, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);
  const ibv_data_buf word{const_cast<void*>(value), sizeof(uint64_t)};
  builderOf(qp).addInline(&word, 1, sizeof(uint64_t));
}

void send(ibv_qp_ex* qp) { builderOf(qp).add(*qp, IBV_WR_SEND); }

void sendImm(ibv_qp_ex* qp, __be32 imm_data) {
  builderOf(qp).add(*qp, IBV_WR_SEND_WITH_IMM).imm_data = imm_data;
}

void addAtomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr, uint64_t compare_add,
               uint64_t swap) {
  ibv_send_wr& request = builderOf(qp).add(*qp, opcode);
  request.wr.atomic.remote_addr = remote_addr;
  request.wr.atomic.rkey = rkey;
  request.wr.atomic.compare_add = compare_add;
  request.wr.atomic.swap = swap;
}

void compareSwap(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap) {
  addAtomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

void fetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t add) {
  addAtomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

void setUdAddress(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  ibv_send_wr* request = builderOf(qp).last();
  if (request == nullptr) return;
  request->wr.ud.ah = ah;
  request->wr.ud.remote_qpn = remote_qpn;
  request->wr.ud.remote_qkey = remote_qkey;
}

void setInlineList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  builderOf(qp).addInline(list, count, static_cast<Qp*>(qp)->cap.max_inline_data);
}

void setInline(ibv_qp_ex* qp, void* addr, size_t length) {
  const ibv_data_buf buffer{addr, length};
  setInlineList(qp, 1, &buffer);
}

void setSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* list) { builderOf(qp).addSges(list, count); }

void setSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) {
  const ibv_sge sge{addr, length, lkey};
  setSgeList(qp, 1, &sge);
}

// Replaces functions that the QP was not made for, or that this device does not support.
template <typename... Arguments>
void unavailable(ibv_qp_ex* qp, Arguments...) {
  builderOf(qp).fail(EOPNOTSUPP);
}

template <typename... Arguments>
void set(void (*&function)(ibv_qp_ex*, Arguments...), void (*ours)(ibv_qp_ex*, Arguments...), bool wanted) {
  function = wanted ? ours : unavailable<Arguments...>;
}

}  // namespace

uint64_t sendOperations(ibv_qp_type type, bool iwarp) {
  if (iwarp) return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (type == IBV_QPT_UD) return kSends;
  return kSends | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
         IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
         IBV_QP_EX_WITH_ATOMIC_WRITE;
}

void setSendOperations(Qp& qp, uint64_t operations) {
  const auto has = [operations](uint64_t flag) { return (operations & flag) != 0; };
  qp.builder = std::make_unique<SendBuilder>();
  qp.wr_start = start;
  qp.wr_complete = complete;
  qp.wr_abort = abort;
  set(qp.wr_atomic_cmp_swp, compareSwap, has(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP));
  set(qp.wr_atomic_fetch_add, fetchAdd, has(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD));
  set(qp.wr_atomic_write, atomicWrite, has(IBV_QP_EX_WITH_ATOMIC_WRITE));
  set(qp.wr_rdma_read, read, has(IBV_QP_EX_WITH_RDMA_READ));
  set(qp.wr_rdma_write, write, has(IBV_QP_EX_WITH_RDMA_WRITE));
  set(qp.wr_rdma_write_imm, writeImm, has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM));
  set(qp.wr_send, send, has(IBV_QP_EX_WITH_SEND));
  set(qp.wr_send_imm, sendImm, has(IBV_QP_EX_WITH_SEND_WITH_IMM));
  set(qp.wr_set_ud_addr, setUdAddress, qp.qp_base.qp_type == IBV_QPT_UD);
  set(qp.wr_set_inline_data, setInline, true);
  set(qp.wr_set_inline_data_list, setInlineList, true);
  set(qp.wr_set_sge, setSge, true);
  set(qp.wr_set_sge_list, setSgeList, true);
  qp.wr_bind_mw = unavailable;
  qp.wr_local_inv = unavailable;
  qp.wr_send_inv = unavailable;
  qp.wr_send_tso = unavailable;
  qp.wr_set_xrc_srqn = unavailable;
  for (void*& function : qp.newer_functions) function = reinterpret_cast<void*>(&unavailable<>);
}

}  // namespace railwise::softdev
