#include "softdev/verbs/send_builder.h"

#include <algorithm>
#include <cerrno>

namespace railwise::softdev {

void SendBuilder::clear() {
  requests_.clear();
  sges_.clear();
  payload_.clear();
  error_ = 0;
}

ibv_send_wr& SendBuilder::add(const ibv_qp_ex& qp, ibv_wr_opcode opcode) {
  ibv_send_wr& request = requests_.emplace_back();
  request.wr_id = qp.wr_id;
  request.opcode = opcode;
  request.send_flags = qp.wr_flags & ~unsigned{IBV_SEND_INLINE};
  return request;
}

ibv_send_wr* SendBuilder::last() {
  if (!requests_.empty()) return &requests_.back();
  fail(EINVAL);
  return nullptr;
}

void SendBuilder::addSges(const ibv_sge* list, size_t count) {
  ibv_send_wr* request = last();
  if (request == nullptr) return;
  if (count > kMaxSge || request->num_sge != 0) return fail(EINVAL);
  request->num_sge = static_cast<int>(count);
  sges_.insert(sges_.end(), list, list + count);
}

void SendBuilder::addInline(const ibv_data_buf* list, size_t count, uint32_t most) {
  ibv_send_wr* request = last();
  if (request == nullptr) return;
  const size_t begin = payload_.size();
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (list[i].length > most - bytes) return fail(EINVAL);
    bytes += list[i].length;
    const auto* from = static_cast<const std::byte*>(list[i].addr);
    payload_.insert(payload_.end(), from, from + list[i].length);
  }
  const ibv_sge all{begin, static_cast<uint32_t>(bytes), 0};
  addSges(&all, 1);
  request->send_flags |= IBV_SEND_INLINE;
}

ibv_send_wr* SendBuilder::chain() {
  ibv_sge* sges = sges_.data();
  for (size_t i = 0; i < requests_.size(); ++i) {
    ibv_send_wr& request = requests_[i];
    request.sg_list = sges;
    request.next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
    if ((request.send_flags & IBV_SEND_INLINE) != 0)
      sges->addr = reinterpret_cast<uint64_t>(payload_.data() + sges->addr);
    sges += request.num_sge;
  }
  return requests_.empty() ? nullptr : requests_.data();
}

}  // namespace railwise::softdev
