#include "net/connection/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/device/ask_patiently.h"
#include "net/paths/choose_joiner.h"
#include "net/wireup/resumer.h"

namespace railwise::net {

Connection::Connection(Direction direction, const Device& device, const ConnectionOptions& options)
    : device_(device),
      options_(options),
      config_(options_.config),
      rules_(device.rails().front().port.iwarp ? kIwarpRules : kRdmaRules),
      proof_(!rules_.completion_means_arrival),
      direction_(direction),
      endpoint_(queuePairMemory(), device.rails(), device.rails()),
      joiner_(makeJoiner(direction, device, config_, session_, wantsConnectionManager(device, config_))) {
  numbers().next = numbers().posted = 1;
  record::openConnection(shown(),
                         direction == Direction::kSend ? record::Side::kSender : record::Side::kReceiver,
                         record::ConnectionState::kConnecting);
}

void* Connection::operator new(std::size_t bytes) {
  void* const memory = record::PageMemory::allocate(QueuePairs::kBytes + bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory) + QueuePairs::kBytes;
}

void Connection::operator delete(void* connection, std::size_t bytes) {
  record::PageMemory::free(static_cast<std::byte*>(connection) - QueuePairs::kBytes,
                           QueuePairs::kBytes + bytes);
}

Connection::~Connection() {
  listenToRails(false);
  (void)search_.end(title(), "is closed: another path is not needed any more");
  endSideChannel("");
  closeRecord();
  stopLostQueuePairs();
}

void Connection::attach(Socket socket, const Session& session, uint16_t resume_port) {
  session_ = session;
  const bool both = config_.failover != 0 && epoch_there_.failover != 0;
  const char* const direction = direction_ == Direction::kSend ? ": connection to " : ": connection from ";
  side_channel_.open(std::move(socket), options_.watcher, session.frameKeys(),
                     {.resumer = both ? options_.resumer : nullptr,
                      .id = session.id(),
                      .peer_port = resume_port,
                      .name = device_.name() + (direction + peer_)});
  listenToRails(true);
  skipSuspicions();
  bell_.ring();  // what happened before anybody listened
  allowTestByOnePoll();
  describeInRecord();
  if (!endpoint_.anyUsed()) (void)lose(nullptr, {Code::kSystem, ENETDOWN}, whyLost());
}

std::string Connection::whyLost() const {
  if (!why_lost_.empty()) return why_lost_;
  if (railsWork(endpoint_.rails))
    return anyReachable(epoch_here_) ? "the peer's device has no port that works"
                                     : "no port of its device has an address";
  const bool renewed = std::any_of(endpoint_.rails.begin(), endpoint_.rails.end(),
                                   [](const Rail& rail) { return !rail.now().same(rail); });
  return renewed ? "its device was opened anew after a failure" : "its device has no port that works";
}

Status Connection::addQueuePair(uint8_t rail, verbs::QueuePairSize size) {
  // The first queue pair shows whether the device can take messages out of order. All further queue pairs
  // must then be able to.
  const bool first = direction_ == Direction::kSend && endpoint_.queue_pairs.empty();
  const verbs::OutOfOrder order = !out_of_order_ ? verbs::OutOfOrder::kNo
                                  : first        ? verbs::OutOfOrder::kIfPossible
                                                 : verbs::OutOfOrder::kRequired;
  const Result<LaneQueuePair*> made = endpoint_.addQueuePair(rail, config_, size, order, bell_);
  if (!made.ok()) return made.status();
  if (first) out_of_order_ = (*made)->rest->made.out_of_order;
  (*made)->window_key = windowKeysOn(device_, *window_, endpoint_.rails[rail]).local;
  record::QueuePairRecord& counts = (*made)->counts();
  counts.used = 1;
  counts.number = (*made)->qp->qp_num;
  counts.rail = endpoint_.rails[rail].record_rail;
  counts.control_each = direction_ == Direction::kReceive ? sizeof(ClearToSend) - kUnwrittenBytes : 0;
  shown().queue_rail[endpoint_.cq_of_rail[rail]] = counts.rail;
  return Status::success();
}

void Connection::adopt(const EndInfo& remote) {
  peer_ = fieldText(remote.host) + " (";
  for (int i = 0; i < remote.rails; ++i) peer_ += (i > 0 ? "+" : "") + fieldText(remote.rail[i].device);
  peer_ += ")";
  peer_window_ = remote.window_address;
  epoch_there_ = remote;
  endpoint_.adopt(remote);
}

}  // namespace railwise::net
