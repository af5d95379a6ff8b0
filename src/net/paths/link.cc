#include "net/paths/link.h"

#include <cerrno>
#include <cstring>
#include <new>

#include "net/paths/work_id.h"

namespace railwise::net {

Link::Link(Direction its_direction, LinkUser& its_user, LinkMemory& its_memory, const Device& its_device,
           const ConnectionOptions& its_options)
    : LinkState(its_direction, its_user, its_memory, its_device, its_options) {}

void Link::close() {
  watch_.ignore();
  try {
    (void)search.end(title(), "is closed: another path is not needed any more");
  } catch (const std::bad_alloc&) {  // the line is not logged
  }
  endSideChannel("");
  record_.close();
  maker_.stopLost();
}

void Link::attach(Socket socket, const Session& its_session, uint16_t resume_port) {
  session = its_session;
  const bool both = config.failover != 0 && there.failover != 0;
  side_channel.open(std::move(socket), options.watcher, session.frameKeys(),
                    {.resumer = both ? options.resumer : nullptr,
                     .id = session.id(),
                     .peer_port = resume_port,
                     .name = title()});
  watch_.skipSuspicions();
  watch_.listen();
  allowFastPath();
  record_.describeEpoch();
  if (!endpoint.anyUsed()) (void)lose(nullptr, {Code::kSystem, ENETDOWN}, maker_.whyLost());
}

void Link::tell(std::span<const std::byte, kUserFrameBytes> bytes) {
  auto frame = makeMessage<UserFrame>(MessageType::kUser);
  std::memcpy(frame.bytes, bytes.data(), bytes.size());
  side_channel.send(frame);
}

// When a proof of arrival is complete, everything that was posted before it is complete.
Status Link::prove(bool anew) {
  for (LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    if (!queue_pair.rest->used || (queue_pair.allCovered() && !anew) || queue_pair.sendFree() == 0) continue;
    ibv_sge sge;
    ibv_send_wr work = proof.workRequest(queue_pair, peer_window, sge);
    ++queue_pair.posted();
    queue_pair.counts().control_extra -= queue_pair.counts().control_each;
    work.wr_id = workRequestId(queue_pair.index) | endsWorkRequests(queue_pair.cover());
    RAILWISE_TRY(post(queue_pair, &work));
  }
  return Status::success();
}

}  // namespace railwise::net
