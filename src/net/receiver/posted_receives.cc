#include "net/receiver/posted_receives.h"

namespace railwise::net {

PostedReceives::PostedReceives(const TransportRules& rules) : rules_(rules) {
  for (std::size_t i = 0; i < kList; ++i) {
    works_[i].next = i + 1 < kList ? &works_[i + 1] : nullptr;
    works_[i].sg_list = rules.has_immediates ? nullptr : &sges_[i];
    works_[i].num_sge = rules.has_immediates ? 0 : 1;
  }
}

int PostedReceives::postFirst(LaneQueuePair& queue_pair) {
  int error = 0;
  for (uint32_t posted = 0; posted < kPostedReceives && error == 0; posted += kList)
    error = post(queue_pair, posted);
  return error;
}

int PostedReceives::post(LaneQueuePair& queue_pair, uint32_t first) {
  const std::size_t index = queue_pair.index;
  const bool filled = rules_.has_immediates && works_[0].wr_id == receiveWorkId(0, index);
  for (uint32_t i = 0; i < kList && !filled; ++i) {
    works_[i].wr_id = receiveWorkId(rules_.has_immediates ? 0 : first + i, index);
    if (!rules_.has_immediates) sges_[i] = notices_.sge(index, first + i, queue_pair.window_key);
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair.qp, works_.data(), &bad);
  queue_pair.rest->receives_posted += error == 0 ? kList : 0;
  return error;
}

}  // namespace railwise::net
