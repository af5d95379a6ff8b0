#include "net/sender/clear_to_sends.h"

#include <cstring>
#include <string>

#include "net/paths/lane.h"

namespace railwise::net {

Status ClearToSends::look() {
  const ClearToSendRing::Seen seen = ring_.look();
  if (seen == ClearToSendRing::Seen::kInvalid) [[unlikely]]
    return refuse(ring_.stamp(ring_.next()));
  if (seen == ClearToSendRing::Seen::kMore) link_.completed_since_look = true;
  return Status::success();
}

[[gnu::cold, gnu::noinline]] Status ClearToSends::refuse(uint64_t stamp) {
  return link_.fail({Code::kRemote, 0}, "the clear-to-send for receive " +
                                            std::to_string(stampNumber(stamp)) +
                                            " makes no sense: its flags and count are " +
                                            std::to_string(stamp & ((1U << kStampNumberShift) - 1)));
}

int ClearToSends::post(LaneQueuePair& queue_pair, std::size_t index, uint32_t buffer) {
  ibv_sge sge = buffers_.sge(index, buffer, queue_pair.window_key);
  ibv_recv_wr work = {};
  work.wr_id = receiveWorkId(buffer, index);
  work.sg_list = &sge;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(queue_pair.qp, &work, &bad);
}

int ClearToSends::postFirst(std::size_t index) {
  int error = 0;
  for (uint32_t buffer = 0; areMessages() && buffer < kPostedReceives && error == 0; ++buffer)
    error = post(link_.endpoint.queue_pairs[index], index, buffer);
  return error;
}

Status ClearToSends::onCompletion(uint64_t id, uint32_t bytes) {
  const std::size_t index = workQueuePair(id);
  const uint32_t buffer = workBuffer(id);
  const std::byte* const from = buffers_.at(index, buffer);
  const uint32_t entry_bytes = ring_.entryBytes();
  const uint32_t count = bytes / entry_bytes;
  uint64_t stamp = 0;
  std::memcpy(&stamp, from + entry_bytes - sizeof stamp, sizeof stamp);
  const uint64_t receive = stampNumber(stamp);
  // After a failure the clear-to-sends of what is to be sent again come once more.
  const uint64_t oldest = link_.numbers().posted;
  if (count < 1 || count > uint32_t{kMaxReceives} || bytes % entry_bytes != 0 || receive < oldest ||
      receive >= oldest + kSlots) {
    return link_.fail({Code::kRemote, 0}, "a clear-to-send of " + std::to_string(bytes) +
                                              " bytes for receive " + std::to_string(receive) +
                                              ", which is not expected");
  }
  ring_.put(receive, from, count);
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[index];
  const int error = post(queue_pair, index, buffer);
  return error == 0 ? Status::success() : link_.failPost(queue_pair, "ibv_post_recv", error);
}

}  // namespace railwise::net
