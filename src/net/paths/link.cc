#include "net/paths/link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/device/ask_patiently.h"
#include "net/paths/choose_joiner.h"
#include "net/paths/work_id.h"
#include "net/wireup/resumer.h"

namespace railwise::net {

Link::Link(Direction its_direction, LinkUser& user, LinkMemory& memory, const Device& its_device,
           const ConnectionOptions& its_options)
    : direction(its_direction),
      endpoint(memory.queuePairMemory(), its_device.rails(), its_device.rails()),
      device(its_device),
      options(its_options),
      config(options.config),
      rules(device.rails().front().port.iwarp ? kIwarpRules : kRdmaRules),
      user_(user),
      memory_(memory),
      proof_(!rules.completion_means_arrival),
      joiner_(makeJoiner(direction, device, config, session_, wantsConnectionManager(device, config))),
      side_channel_(bell, direction,
                    direction == Direction::kReceive ? memory.arrivedUpTo() : memory.nextPost()) {
  numbers().next = numbers().posted = 1;
  record::openConnection(shown(),
                         direction == Direction::kSend ? record::Side::kSender : record::Side::kReceiver,
                         record::ConnectionState::kConnecting);
}

void Link::close() {
  watch_.ignore();
  (void)search_.end(title(), "is closed: another path is not needed any more");
  endSideChannel("");
  record_.close();
  stopLostQueuePairs();
}

std::string Link::title() const {
  return device.name() + std::string(": connection ") + (direction == Direction::kSend ? "to " : "from ") +
         peer_;
}

void Link::attach(Socket socket, const Session& session, uint16_t resume_port) {
  session_ = session;
  const bool both = config.failover != 0 && epoch_there_.failover != 0;
  side_channel_.open(std::move(socket), options.watcher, session.frameKeys(),
                     {.resumer = both ? options.resumer : nullptr,
                      .id = session.id(),
                      .peer_port = resume_port,
                      .name = title()});
  watch_.skipSuspicions();
  watch_.listen();
  allowFastPath();
  record_.describeEpoch();
  if (!endpoint.anyUsed()) (void)lose(nullptr, {Code::kSystem, ENETDOWN}, whyLost());
}

std::string Link::whyLost() const {
  if (!why_lost_.empty()) return why_lost_;
  if (railsWork(endpoint.rails))
    return anyReachable(epoch_here_) ? "the peer's device has no port that works"
                                     : "no port of its device has an address";
  const bool renewed = std::any_of(endpoint.rails.begin(), endpoint.rails.end(),
                                   [](const Rail& rail) { return !rail.now().same(rail); });
  return renewed ? "its device was opened anew after a failure" : "its device has no port that works";
}

Status Link::openWindow(bool registers) {
  Result<Window> window = user_.makeWindow(registers);
  if (!window.ok()) return window.status();
  window_ = std::make_shared<Window>(std::move(*window));
  proof_.setReadTarget(*window_, window_->bytes() - ArrivalProof::kReadTargetBytes);
  return Status::success();
}

std::vector<Rail> Link::usableRails() const {
  int native = 0;
  return net::usableRails(own(), &native);
}

// A queue pair that fails flushes all its work requests, signalled or not.
Status Link::openQueuePairs(std::span<const uint8_t> rail_of) {
  QueuePairNeeds needs = user_.needs();
  std::vector<uint8_t> used;
  for (const uint8_t rail : rail_of) {
    if (rail == kNoRail) continue;
    const auto most = static_cast<uint32_t>(endpoint.rails[rail].hca->attributes().max_qp_wr);
    needs.send_requests = std::min(needs.send_requests, most);
    used.push_back(rail);
  }
  RAILWISE_TRY(
      endpoint.openCompletionQueues(used, needs.send_requests + needs.receive_requests, 1, window_, bell));
  for (std::size_t i = 0; i < rail_of.size(); ++i) {
    if (rail_of[i] == kNoRail) {
      endpoint.queue_pairs.add().rest->used = false;
      continue;
    }
    RAILWISE_TRY(addQueuePair(rail_of[i], needs));
    if (const int error = user_.postFirstReceives(i); error != 0) return endpoint.refusedReceives(i, error);
  }
  return Status::success();
}

Status Link::addQueuePair(uint8_t rail, const QueuePairNeeds& needs) {
  // The first queue pair shows whether the device can take messages out of order. All further queue pairs
  // must then be able to.
  const bool first = direction == Direction::kSend && endpoint.queue_pairs.empty();
  const verbs::OutOfOrder order = !out_of_order_ ? verbs::OutOfOrder::kNo
                                  : first        ? verbs::OutOfOrder::kIfPossible
                                                 : verbs::OutOfOrder::kRequired;
  const Result<LaneQueuePair*> made = endpoint.addQueuePair(
      rail, config, {needs.send_requests, needs.receive_requests, needs.inline_bytes}, order, bell);
  if (!made.ok()) return made.status();
  if (first) out_of_order_ = (*made)->rest->made.out_of_order;
  (*made)->window_key = windowKeysOn(device, *window_, endpoint.rails[rail]).local;
  record::QueuePairRecord& counts = (*made)->counts();
  counts.used = 1;
  counts.number = (*made)->qp->qp_num;
  counts.rail = endpoint.rails[rail].record_rail;
  counts.control_each = needs.control_each;
  shown().queue_rail[endpoint.cq_of_rail[rail]] = counts.rail;
  return Status::success();
}

// When a proof of arrival is complete, everything that was posted before it is complete.
Status Link::prove(bool anew) {
  for (LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    if (!queue_pair.rest->used || (queue_pair.allCovered() && !anew) || queue_pair.sendFree() == 0) continue;
    ibv_sge sge;
    ibv_send_wr work = proof_.workRequest(queue_pair, peer_window, sge);
    ++queue_pair.posted();
    queue_pair.counts().control_extra -= queue_pair.counts().control_each;
    work.wr_id = workRequestId(queue_pair.index) | endsWorkRequests(queue_pair.cover());
    RAILWISE_TRY(post(queue_pair, &work));
  }
  return Status::success();
}

void Link::adopt(const EndInfo& remote) {
  peer_ = fieldText(remote.host) + " (";
  for (int i = 0; i < remote.rails; ++i) peer_ += (i > 0 ? "+" : "") + fieldText(remote.rail[i].device);
  peer_ += ")";
  peer_window = remote.window_address;
  epoch_there_ = remote;
  endpoint.adopt(remote);
}

}  // namespace railwise::net
