#include "net/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/interfaces.h"
#include "base/log.h"

namespace railwise::net {
namespace {

// A caller that says nothing loses its place after this long; the real peer speaks as soon as it is
// connected.
constexpr Clock::duration kHelloTime = std::chrono::seconds(30);
constexpr int kBacklog = 128;
constexpr int kAdmitsPerCall = 16;

int familyOf(const Config& config) {
  if (config.socket_family == "AF_INET") return AF_INET;
  return config.socket_family == "AF_INET6" ? AF_INET6 : AF_UNSPEC;
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(const Device& device, const ConnectionOptions& options) {
  std::unique_ptr<Listener> listener(new Listener(device, options));
  RAILWISE_TRY(listener->openSocket());
  ListenHandle& handle = listener->handle_;
  handle.magic = kMagic;
  handle.version = kProtocolVersion;
  const SocketAddress address = listener->socket_.localAddress();
  handle.family = address.family() == AF_INET ? 4 : 6;
  handle.port = address.port();
  handle.scope_id = address.scopeId();
  std::copy(address.bytes().begin(), address.bytes().end(), handle.address);
  handle.nonce = randomNonce();
  copyText(handle.host, options.local_host);
  return listener;
}

Status Listener::openSocket() {
  const std::vector<Interface> interfaces = listInterfaces(config_.socket_ifname, familyOf(config_));
  if (interfaces.empty()) {
    RAILWISE_WARN(
        "no network interface for the handshakes: none is up that matches NCCL_SOCKET_IFNAME=%s "
        "NCCL_SOCKET_FAMILY=%s; `ip address` lists them",
        config_.socket_ifname.c_str(), config_.socket_family.c_str());
    return {Code::kInvalidUsage, 0};
  }
  Result<Socket> socket = Socket::listen(interfaces.front().address, kBacklog);
  if (!socket.ok()) {
    RAILWISE_WARN("listening on %s (%s) failed: %s", interfaces.front().name.c_str(),
                  interfaces.front().address.text().c_str(), std::strerror(socket.status().sys_errno));
    return socket.status();
  }
  socket_ = std::move(*socket);
  return Status::success();
}

Result<std::unique_ptr<ReceiveConnection>> Listener::accept() {
  if (stage_ == Stage::kListening) {
    if (peer_ == nullptr) {
      admitCallers();
      hearCallers();
    }
    if (peer_ != nullptr) RAILWISE_TRY(answerPeer());
  }
  if (stage_ == Stage::kSendingReply) {
    const Result<Io> sent = peer_->socket.send(transfer_);
    if (!sent.ok() || *sent == Io::kClosed)
      return peerFailed("hung up during the handshake", sent.status().sys_errno);
    if (*sent == Io::kDone) {
      stage_ = Stage::kAwaitingReady;
      transfer_ = transferOf(ready_);
    }
  }
  if (stage_ == Stage::kAwaitingReady) RAILWISE_TRY(awaitReady());
  return std::move(connection_ready_);
}

void Listener::admitCallers() {
  for (int i = 0; i < kAdmitsPerCall; ++i) {
    SocketAddress address;
    Result<Socket> socket = socket_.accept(&address);
    if (!socket.ok()) {
      // No descriptor or memory just now, say; the peer waits in the backlog.
      const int error = socket.status().sys_errno;
      if (std::exchange(accept_failure_logged_, true)) return;
      RAILWISE_WARN("accepting on %s failed: %s%s", socket_.localAddress().text().c_str(),
                    std::strerror(error),
                    error == EMFILE ? ": raise the limit of open files (ulimit -n)" : "");
      return;
    }
    if (!socket->valid()) return;
    if (callers_.size() == kMaxCallers) {
      noteStranger(*callers_.front(), "says nothing while others wait");
      callers_.erase(callers_.begin());
    }
    callers_.emplace_back(new Caller{std::move(*socket), address, Deadline::after(kHelloTime)});
    callers_.back()->transfer = transferOf(callers_.back()->request);
  }
}

// Looks at every caller; the first that proves to be the peer becomes peer_, and everyone else is sent away.
void Listener::hearCallers() {
  std::string reason;
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    switch (hear(**caller, reason)) {
      case Hearing::kWait:
        ++caller;
        break;
      case Hearing::kDrop:
        noteStranger(**caller, reason);
        caller = callers_.erase(caller);
        break;
      case Hearing::kPeer:
        peer_ = std::move(*caller);
        callers_.clear();
        return;
    }
  }
}

Listener::Hearing Listener::hear(Caller& caller, std::string& reason) {
  const Result<Io> heard = caller.socket.receive(caller.transfer);
  if (!heard.ok()) {
    reason = std::strerror(heard.status().sys_errno);
    return Hearing::kDrop;
  }
  // The header is checked as soon as it is there, so that short garbage does not hold a place.
  const ConnectRequest& request = caller.request;
  if (caller.transfer.moved >= sizeof(MessageHeader)) {
    reason = checkHeader(request.header, MessageType::kRequest, sizeof(ConnectRequest));
    if (!reason.empty()) return Hearing::kDrop;
  }
  if (*heard == Io::kDone) {
    if (request.nonce == handle_.nonce) return Hearing::kPeer;
    reason = "wants to reach another connection (its nonce is not of this handle)";
    return Hearing::kDrop;
  }
  if (*heard == Io::kAgain && !caller.deadline.passed()) return Hearing::kWait;
  reason = *heard == Io::kClosed ? "hung up" : "says nothing";
  return Hearing::kDrop;
}

void Listener::noteStranger(const Caller& caller, const std::string& reason) {
  if (stranger_logged_) return;
  stranger_logged_ = true;
  RAILWISE_WARN(
      "%s: listening on %s for a peer, a stranger called from %s: %s. Still waiting for the peer; "
      "further strangers are not reported",
      device_.properties.name, socket_.localAddress().text().c_str(), caller.address.text().c_str(),
      reason.c_str());
}

Status Listener::answerPeer() {
  reply_ = makeMessage<ConnectReply>(MessageType::kReply);
  std::string refusal;
  const Status built = buildConnection(peer_->request, refusal);
  reply_.accepted = built.ok() ? 1 : 0;
  copyText(reply_.reason, refusal);
  transfer_ = transferOf(reply_);
  // The path to the peer may not be resolved yet (ARP): the same again at the next call.
  if (built.sys_errno == ETIMEDOUT && !peer_->deadline.passed()) return Status::success();
  if (!built.ok()) {
    (void)peer_->socket.send(transfer_);  // fits the empty socket buffer; if not, the peer sees us hang up
    (void)peerFailed("is refused: " + refusal, 0);
    return built;
  }
  reply_.end = connection_->describe(options());
  peer_->deadline = Deadline::after(std::chrono::seconds(config_.connect_timeout_s));
  stage_ = Stage::kSendingReply;
  return Status::success();
}

// On failure `refusal` tells the peer why.
Status Listener::buildConnection(const ConnectRequest& request, std::string& refusal) {
  refusal = checkEnd(request.end);
  if (!refusal.empty()) {
    refusal = "the request has " + refusal;
    return {Code::kRemote, 0};
  }
  if (connection_ == nullptr) {
    Result<std::unique_ptr<ReceiveConnection>> made = ReceiveConnection::create(device_, options());
    if (!made.ok()) {
      refusal = std::string(device_.properties.name) + ": the queue pair could not be made, see the log of " +
                host_;
      return made.status();
    }
    connection_ = std::move(*made);
  }
  refusal = checkFabric(connection_->describe(options()), request.end);
  if (!refusal.empty()) return {Code::kRemote, 0};
  const Status established = connection_->establish(options(), request.end);
  if (!established.ok())
    refusal =
        std::string(device_.properties.name) + ": no path between the queue pairs, see the log of " + host_;
  return established;
}

Status Listener::awaitReady() {
  const Result<Io> heard = peer_->socket.receive(transfer_);
  if (!heard.ok() || *heard == Io::kClosed)
    return peerFailed("hung up during the handshake", heard.status().sys_errno);
  if (*heard == Io::kDone) {
    const std::string problem = checkHeader(ready_.header, MessageType::kReady, sizeof ready_);
    if (!problem.empty()) return peerFailed(problem, 0);
    connection_->attach(std::move(peer_->socket));
    connection_ready_ = std::move(connection_);
    peer_.reset();
    stage_ = Stage::kListening;
  } else if (peer_->deadline.passed()) {
    return peerFailed("did not finish the handshake in RAILWISE_CONNECT_TIMEOUT=" +
                          std::to_string(config_.connect_timeout_s) + " s",
                      ETIMEDOUT);
  }
  return Status::success();
}

Status Listener::peerFailed(const std::string& what, int error) {
  RAILWISE_WARN("%s at %s: peer %s calling from %s %s%s%s", device_.properties.name, host_.c_str(),
                fieldText(peer_->request.end.host).c_str(), peer_->address.text().c_str(), what.c_str(),
                error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
  stage_ = Stage::kListening;
  connection_.reset();
  peer_.reset();
  return {Code::kRemote, error};
}

}  // namespace railwise::net
