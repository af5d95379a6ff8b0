#include "net/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/windows.h"

namespace railwise::net {
namespace {

// Enough for every group at once, with its size records.
constexpr uint32_t kSendDepth = 512;

constexpr Clock::duration kPeerCheckInterval = std::chrono::milliseconds(20);
// After the peer has left: what it sent before is in this machine's memory, but perhaps not yet polled.
constexpr Clock::duration kDataGrace = std::chrono::milliseconds(100);
// A receiver may close as soon as it has the data, while their acknowledgement is still on the wire or being
// repeated.
constexpr Clock::duration kAcknowledgementGrace = std::chrono::seconds(2);

const char* adviceFor(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer died or cannot be reached: check its log, the link, and on RoCE NCCL_IB_GID_INDEX, "
             "MTU and PFC";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer posts no receives: it is stopped or out of memory";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
      return "the peer's memory was released or never registered for this access";
    case IBV_WC_LOC_PROT_ERR:
      return "the local memory was released while in use";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair had failed before";
    default:
      return "see the device's own log (dmesg)";
  }
}

}  // namespace

Status Connection::openQueuePair(const ConnectionOptions& options, int completions,
                                 verbs::QueuePairSize size) {
  const Hca& hca = *device_.hca;
  cq_.reset(verbs::library().create_cq(hca.context(), completions, nullptr, nullptr, 0));
  if (cq_ == nullptr) {
    const int error = errno;
    RAILWISE_WARN("%s: a completion queue of %d entries cannot be made: %s", hca.name(), completions,
                  std::strerror(error));
    return {Code::kSystem, error};
  }
  Result<verbs::QueuePair> made =
      verbs::createQueuePair(hca.pd(), cq_.get(), device_.port, options.config, size);
  if (!made.ok()) return made.status();
  qp_ = std::move(made->qp);
  inline_bytes_ = made->inline_bytes;
  Result<verbs::Gid> gid = verbs::chooseGid(hca.context(), device_.port, options.config);
  if (!gid.ok()) return gid.status();
  gid_ = *gid;
  return Status::success();
}

EndInfo Connection::describe(const ConnectionOptions& options, uint64_t window_address) {
  EndInfo& end = local_;
  end.qp_number = qp_->qp_num;
  end.lid = device_.port.lid;
  end.link_layer = device_.port.ethernet ? 2 : 1;
  end.mtu = static_cast<uint8_t>(device_.port.mtu);
  std::memcpy(end.gid, gid_.value.raw, sizeof end.gid);
  end.window_address = window_address;
  end.window_key = pages_.remoteKey();
  end.piece_bytes = device_.port.max_message_bytes;
  // Settings first, then the communicator's traffic class (net_ib's rule); a service level has four bits.
  const int communicator = std::max(options.traffic_class, 0);
  const Config& config = options.config;
  end.service_level =
      static_cast<uint8_t>(config.ib_service_level >= 0 ? config.ib_service_level : communicator & 0xf);
  end.traffic_class =
      static_cast<uint8_t>(config.ib_traffic_class >= 0 ? config.ib_traffic_class : communicator);
  copyText(end.host, options.local_host);
  copyText(end.device, device_.properties.name);
  const auto fabric_identity = verbs::library().fabric_identity;
  end.fabric = fabric_identity != nullptr ? fabric_identity(device_.hca->context()) : 0;
  return end;
}

Status Connection::establish(const ConnectionOptions& options, const EndInfo& remote) {
  peer_ = fieldText(remote.host) + " (" + fieldText(remote.device) + " qp " +
          std::to_string(remote.qp_number) + ")";
  const bool remote_ethernet = remote.link_layer == 2;
  if (remote_ethernet != device_.port.ethernet) {
    return fail({Code::kRemote, 0}, std::string("this port is ") +
                                        (remote_ethernet ? "InfiniBand" : "Ethernet") +
                                        " and the peer's is not: choose matching NICs with NCCL_IB_HCA");
  }
  piece_bytes_ = std::min(device_.port.max_message_bytes, remote.piece_bytes) & ~(kPieceAlignment - 1);
  peer_window_ = remote.window_address;
  peer_window_key_ = remote.window_key;
  // Both directions travel as the sender asked.
  const EndInfo& sender = direction_ == Direction::kSend ? local_ : remote;
  const verbs::PathSettings settings{gid_, sender.service_level, sender.traffic_class};
  RAILWISE_TRY(verbs::readyToReceive(qp_.get(), device_.port, pathAddress(remote), settings));
  return verbs::readyToSend(qp_.get(), device_.port, options.config);
}

Status Connection::fail(Status status, const std::string& what) {
  if (failure_.ok()) {
    RAILWISE_WARN("%s qp %u: connection %s %s: %s", device_.properties.name, qp_->qp_num,
                  direction_ == Direction::kSend ? "to" : "from", peer_.c_str(), what.c_str());
    failure_ = status;
    side_channel_.shutdown();
  }
  return failure_;
}

Status Connection::failPost(const char* call, int error) {
  return fail({Code::kSystem, error}, std::string(call) + " failed: " + std::strerror(error));
}

Status Connection::failCompletion(const ibv_wc& completion, const char* operation) {
  return fail({Code::kRemote, 0},
              std::string(operation) + " failed: " + verbs::library().wc_status_str(completion.status) +
                  " (status " + std::to_string(completion.status) + ", vendor " +
                  std::to_string(completion.vendor_err) + "): " + adviceFor(completion.status));
}

Status Connection::checkPeer(Waiting waiting) {
  const Clock::time_point now = Clock::now();
  if (now - last_check_ < kPeerCheckInterval) return Status::success();
  last_check_ = now;
  if (side_channel_.peek() != Io::kClosed) return Status::success();
  if (peer_left_ == Clock::time_point()) peer_left_ = now;
  const Clock::duration grace = waiting == Waiting::kPeer ? kDataGrace : kAcknowledgementGrace;
  if (now - peer_left_ < grace) return Status::success();
  return fail({Code::kRemote, ECONNRESET}, "the peer closed the connection or died with work outstanding");
}

Result<std::unique_ptr<SendConnection>> SendConnection::create(const Device& device,
                                                               const ConnectionOptions& options) {
  std::unique_ptr<SendConnection> made(new SendConnection(Direction::kSend, device));
  Result<RegisteredPages> pages = RegisteredPages::create(device.hca->pd(), sizeof(Window));
  if (!pages.ok()) return pages.status();
  made->pages_ = std::move(*pages);
  made->window_ = made->pages_.at<Window>(0);
  const auto depth = static_cast<uint32_t>(std::min<int>(kSendDepth, device.hca->attributes().max_qp_wr));
  made->send_queue_free_ = depth;
  // A failed queue pair flushes all its work requests, signalled or not.
  RAILWISE_TRY(made->openQueuePair(options, static_cast<int>(depth) + 1, {depth, 1, sizeof(SlotSizes)}));
  for (int i = 0; i < kChain; ++i) {
    made->chain_[i].next = i + 1 < kChain ? &made->chain_[i + 1] : nullptr;
    made->chain_[i].sg_list = &made->segments_[i];
  }
  return made;
}

EndInfo SendConnection::describe(const ConnectionOptions& options) {
  return Connection::describe(options, reinterpret_cast<uint64_t>(window_->ring));
}

Result<std::unique_ptr<ReceiveConnection>> ReceiveConnection::create(const Device& device,
                                                                     const ConnectionOptions& options) {
  std::unique_ptr<ReceiveConnection> made(new ReceiveConnection(Direction::kReceive, device));
  Result<RegisteredPages> pages = RegisteredPages::create(device.hca->pd(), sizeof(Window));
  if (!pages.ok()) return pages.status();
  made->pages_ = std::move(*pages);
  made->window_ = made->pages_.at<Window>(0);
  constexpr int kCompletions = kPostedReceives + static_cast<int>(kClearToSendDepth) + kOutstandingFlushes;
  RAILWISE_TRY(
      made->openQueuePair(options, kCompletions, {kClearToSendDepth, kPostedReceives, sizeof(SlotEntries)}));
  for (int i = 0; i < kReplenish; ++i) {
    made->receive_chain_[i].next = i + 1 < kReplenish ? &made->receive_chain_[i + 1] : nullptr;
    made->receive_chain_[i].wr_id = kDataWork;
  }
  for (int posted = 0; posted < kPostedReceives; posted += kReplenish) RAILWISE_TRY(made->postReceives());
  made->config_ = &options.config;
  const bool device_memory = (device.properties.pointer_support & (kDevicePointers | kDmaBufPointers)) != 0;
  if (device_memory) RAILWISE_TRY(made->openFlushQueuePair());
  return made;
}

// A queue pair connected to itself: its reads go through the NIC and back to this machine's memory. Made with
// the connection where the NIC reaches GPU memory, else at the first flush: host memory needs none, and some
// networks do not let a port reach itself.
Status ReceiveConnection::openFlushQueuePair() {
  Result<verbs::QueuePair> made = verbs::createQueuePair(device_.hca->pd(), cq_.get(), device_.port, *config_,
                                                         {kOutstandingFlushes, 1, 0});
  if (!made.ok()) return made.status();
  flush_qp_ = std::move(made->qp);
  const verbs::PathAddress self{flush_qp_->qp_num, device_.port.lid, device_.port.ethernet, device_.port.mtu,
                                gid_.value};
  RAILWISE_TRY(verbs::readyToReceive(flush_qp_.get(), device_.port, self, {gid_, 0, 0}));
  return verbs::readyToSend(flush_qp_.get(), device_.port, *config_);
}

EndInfo ReceiveConnection::describe(const ConnectionOptions& options) {
  return Connection::describe(options, reinterpret_cast<uint64_t>(window_->records));
}

}  // namespace railwise::net
