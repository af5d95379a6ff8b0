// Extended completion queues (softdev.h): the program polls one completion at a time and reads its fields by
// functions (ibv_create_cq_ex(3)).
#include <time.h>

#include <cerrno>

#include "softdev/engine/datapath.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/queues/completion_ring.h"
#include "softdev/verbs/completion_queue.h"

namespace railwise::softdev {
namespace {

constexpr uint64_t kFlags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                            IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr uint64_t kStamps =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr uint32_t kAttributes = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

Cq& cqOf(ibv_cq_ex* cq) { return *static_cast<Cq*>(cq); }
const Polled& polledOf(ibv_cq_ex* cq) { return cqOf(cq).polled; }

// The result of these functions if there is no completion. `result` is 0 or a negative errno.
int none(int result) { return result < 0 ? -result : ENOENT; }

int next(ibv_cq_ex* base) {
  Cq& cq = cqOf(base);
  const int taken = pollLocked(cq, 1, &cq.polled);
  if (taken <= 0) return none(taken);
  cq.wr_id = cq.polled.wc.wr_id;
  cq.status = cq.polled.wc.status;
  return 0;
}

// After a success this thread holds poll_lock until end_poll.
int start(ibv_cq_ex* base, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) return EINVAL;
  Cq& cq = cqOf(base);
  retryParkedFor(cq);
  if (isEmpty(*cq.record)) return none(pollEmpty(cq));
  cq.poll_lock.lock();
  const int error = next(base);
  if (error != 0) cq.poll_lock.unlock();
  return error;
}

void end(ibv_cq_ex* cq) { cqOf(cq).poll_lock.unlock(); }

ibv_wc_opcode readOpcode(ibv_cq_ex* cq) { return polledOf(cq).wc.opcode; }
uint32_t readVendorError(ibv_cq_ex* cq) { return polledOf(cq).wc.vendor_err; }
uint32_t readByteLength(ibv_cq_ex* cq) { return polledOf(cq).wc.byte_len; }
__be32 readImmData(ibv_cq_ex* cq) { return polledOf(cq).wc.imm_data; }
uint32_t readQpNumber(ibv_cq_ex* cq) { return polledOf(cq).wc.qp_num; }
uint32_t readSourceQp(ibv_cq_ex* cq) { return polledOf(cq).wc.src_qp; }
unsigned readFlags(ibv_cq_ex* cq) { return polledOf(cq).wc.wc_flags; }
uint32_t readSlid(ibv_cq_ex* cq) { return polledOf(cq).wc.slid; }
uint8_t readSl(ibv_cq_ex* cq) { return polledOf(cq).wc.sl; }
uint8_t readPathBits(ibv_cq_ex* cq) { return polledOf(cq).wc.dlid_path_bits; }
uint64_t readStamp(ibv_cq_ex* cq) { return polledOf(cq).stamp_ns; }

uint64_t readWallClock(ibv_cq_ex* cq) {
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  const uint64_t now =
      static_cast<uint64_t>(wall.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(wall.tv_nsec);
  return now - (monotonicNs() - polledOf(cq).stamp_ns);
}

void setFunctions(Cq& cq, uint64_t flags) {
  const auto has = [flags](uint64_t flag) { return (flags & flag) != 0; };
  cq.start_poll = start;
  cq.next_poll = next;
  cq.end_poll = end;
  cq.read_opcode = readOpcode;
  cq.read_vendor_err = readVendorError;
  cq.read_wc_flags = readFlags;
  if (has(IBV_WC_EX_WITH_BYTE_LEN)) cq.read_byte_len = readByteLength;
  if (has(IBV_WC_EX_WITH_IMM)) cq.read_imm_data = readImmData;
  if (has(IBV_WC_EX_WITH_QP_NUM)) cq.read_qp_num = readQpNumber;
  if (has(IBV_WC_EX_WITH_SRC_QP)) cq.read_src_qp = readSourceQp;
  if (has(IBV_WC_EX_WITH_SLID)) cq.read_slid = readSlid;
  if (has(IBV_WC_EX_WITH_SL)) cq.read_sl = readSl;
  if (has(IBV_WC_EX_WITH_DLID_PATH_BITS)) cq.read_dlid_path_bits = readPathBits;
  if (has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) cq.read_completion_ts = readStamp;
  if (has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) cq.read_completion_wallclock_ns = readWallClock;
}

}  // namespace

ibv_cq_ex* createCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  const uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
  if ((attr->comp_mask & ~uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) != 0 || (flags & ~kAttributes) != 0 ||
      (attr->wc_flags & ~kFlags) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_cq* made = makeCq(context, {.capacity = attr->cqe,
                                  .cq_context = attr->cq_context,
                                  .channel = attr->channel,
                                  .comp_vector = attr->comp_vector,
                                  .stamped = (attr->wc_flags & kStamps) != 0,
                                  .ignore_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0});
  if (made == nullptr) return nullptr;
  Cq& cq = as<Cq>(made);
  setFunctions(cq, attr->wc_flags);
  return &cq;
}

}  // namespace railwise::softdev
