#include "net/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/interfaces.h"
#include "base/log.h"
#include "net/wireup/asymmetry.h"

namespace railwise::net {
namespace {

// A caller that says nothing loses its place after this time. The real peer speaks as soon as it is
// connected.
constexpr Clock::duration kHelloTime = std::chrono::seconds(30);
constexpr int kBacklog = 128;
constexpr int kAdmitsPerCall = 16;

// The addresses for the handle: those that NCCL_SOCKET_IFNAME chooses. Without that setting, loopback and
// docker bridges (whose addresses other machines have too) are used only if there is nothing else.
std::vector<SocketAddress> chooseAddresses(const std::vector<Interface>& interfaces) {
  std::vector<SocketAddress> chosen;
  const auto everywhere = [](const Interface& interface) {
    return interface.loopback || interface.name.starts_with("docker");
  };
  for (const Interface& interface : interfaces) {
    if (chosen.size() == std::size_t{kCandidates}) break;
    if (chosen.empty() || everywhere(interface) == everywhere(interfaces.front()))
      chosen.push_back(interface.address);
  }
  return chosen;
}

// The interfaces that the settings choose. They are read again when the answer is a second old, because a
// rank makes hundreds of listeners in a row. Any thread.
std::vector<Interface> currentInterfaces(const std::string& selection, int family) {
  struct Known {
    std::mutex mutex;
    std::string selection;
    int family = -1;
    Clock::time_point asked;
    std::vector<Interface> interfaces;
  };
  static auto& known = *new Known;  // never destroyed: NCCL's threads may still run at exit
  const std::lock_guard lock(known.mutex);
  const Clock::time_point now = Clock::now();
  const bool same = known.family == family && known.selection == selection;
  if (!same || known.interfaces.empty() || now - known.asked > std::chrono::seconds(1)) {
    known.selection = selection;
    known.family = family;
    known.asked = now;
    known.interfaces = listInterfaces(selection, family);
  }
  return known.interfaces;
}

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
  handle.rails = static_cast<uint8_t>(device.rails().size());
  handle.out_of_order = Connection::offersOutOfOrder(device, options.config) ? 1 : 0;
  setHandleAddresses(handle, listener->addresses_, listener->socket_.localAddress().port());
  handle.nonce = randomNonce();
  copyText(handle.host, options.local_host);
  return listener;
}

// Opens one socket: on the address if there is one address, else on all addresses. Callers to addresses that
// were not chosen are sent away.
Status Listener::openSocket() {
  const std::vector<Interface> interfaces =
      currentInterfaces(options_.config.socket_ifname, familyOf(options_.config));
  if (interfaces.empty()) {
    RAILWISE_WARN(
        "no network interface for the handshakes: none is up that matches NCCL_SOCKET_IFNAME=%s "
        "NCCL_SOCKET_FAMILY=%s; `ip address` lists them",
        options_.config.socket_ifname.c_str(), options_.config.socket_family.c_str());
    return {Code::kInvalidUsage, 0};
  }
  addresses_ = chooseAddresses(interfaces);
  const SocketAddress everywhere = SocketAddress::any();
  const bool several = addresses_.size() > 1;
  Result<Socket> socket = Socket::listen(several ? everywhere : addresses_.front(), kBacklog);
  if (several && !socket.ok()) {  // no IPv6 here
    addresses_.resize(1);
    socket = Socket::listen(addresses_.front(), kBacklog);
  }
  if (!socket.ok()) {
    RAILWISE_WARN("listening on %s (%s) failed: %s", interfaces.front().name.c_str(),
                  addresses_.front().text().c_str(), std::strerror(socket.status().sys_errno));
    return socket.status();
  }
  socket_ = std::move(*socket);
  return Status::success();
}

bool Listener::atOurAddress(const Socket& socket) const {
  if (addresses_.size() == 1) return true;
  const SocketAddress called = socket.localAddress();
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [&](const SocketAddress& address) { return address.sameHost(called); });
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
    if (*sent == Io::kDone) stage_ = Stage::kEstablishing;
  }
  if (stage_ == Stage::kEstablishing) RAILWISE_TRY(establish());
  if (stage_ == Stage::kAwaitingReady) RAILWISE_TRY(awaitReady());
  return std::move(connection_ready_);
}

void Listener::admitCallers() {
  for (int i = 0; i < kAdmitsPerCall; ++i) {
    SocketAddress address;
    Result<Socket> socket = socket_.accept(&address);
    if (!socket.ok()) {
      // There may be no descriptor or memory just now. The peer waits in the backlog.
      const int error = socket.status().sys_errno;
      if (std::exchange(accept_failure_logged_, true)) return;
      RAILWISE_WARN("accepting on %s failed: %s%s", socket_.localAddress().text().c_str(),
                    std::strerror(error),
                    error == EMFILE ? ": raise the limit of open files (ulimit -n)" : "");
      return;
    }
    if (!socket->valid()) return;
    if (!atOurAddress(*socket)) continue;
    if (callers_.size() == kMaxCallers) {
      noteStranger(*callers_.front(), "says nothing while others wait");
      callers_.erase(callers_.begin());
    }
    callers_.emplace_back(new Caller{std::move(*socket), address, Deadline::after(kHelloTime)});
    callers_.back()->transfer = transferOf(callers_.back()->request);
  }
}

// Looks at every caller. The first caller that proves to be the peer becomes peer_; all others are sent away.
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
      device_.name(), socket_.localAddress().text().c_str(), caller.address.text().c_str(), reason.c_str());
}

Status Listener::answerPeer() {
  reply_ = makeMessage<ConnectReply>(MessageType::kReply);
  std::string refusal;
  const Status built = buildConnection(peer_->request, refusal);
  reply_.accepted = built.ok() ? 1 : 0;
  copyText(reply_.reason, refusal);
  transfer_ = transferOf(reply_);
  // The path to the peer may not be resolved yet (ARP). The next call tries again.
  if (built.sys_errno == ETIMEDOUT && !peer_->deadline.passed()) {
    if (peer_->socket.peek() == Io::kClosed) return peerFailed("hung up during the handshake", 0);
    return Status::success();
  }
  if (!built.ok()) {
    (void)peer_->socket.send(transfer_);  // fits the empty socket buffer; if not, the peer sees us hang up
    (void)peerFailed("is refused: " + refusal, 0);
    return built;
  }
  reply_.end = connection_->local();
  warnOfDifferences(reply_.end, peer_->request.end);
  peer_->deadline = Deadline::after(std::chrono::seconds(options_.config.connect_timeout_s));
  stage_ = Stage::kSendingReply;
  return Status::success();
}

// On failure `refusal` has the reason for the peer.
Status Listener::buildConnection(const ConnectRequest& request, std::string& refusal) {
  refusal = checkFirstEnd(request.end);
  if (!refusal.empty()) {
    refusal = "the request has " + refusal;
    return {Code::kRemote, 0};
  }
  if (connection_ == nullptr) {
    Result<std::unique_ptr<ReceiveConnection>> made =
        ReceiveConnection::create(device_, options_, request.end, refusal);
    if (!made.ok()) {
      if (refusal.empty())
        refusal = std::string(device_.name()) + ": the queue pairs could not be made, see the log of " +
                  options_.local_host;
      return made.status();
    }
    connection_ = std::move(*made);
  }
  const StrictMode strict = parseStrictMode(options_.config.strict).value_or(StrictMode());
  if (const std::string problem = refusedDifference(strict, connection_->local(), request.end);
      !problem.empty()) {
    refusal = "RAILWISE_STRICT: " + problem;
    return {Code::kRemote, 0};
  }
  const Status prepared = connection_->prepare(request.end);
  if (!prepared.ok())
    refusal = std::string(device_.name()) + ": no path between the queue pairs, see the log of " +
              options_.local_host;
  return prepared;
}

Status Listener::establish() {
  const Result<bool> established = connection_->establish(peer_->request.end, handle_.nonce);
  if (!established.ok()) return peerFailed("cannot be connected to", established.status().sys_errno);
  if (*established) {
    stage_ = Stage::kAwaitingReady;
    transfer_ = transferOf(ready_);
    return Status::success();
  }
  return peerStillThere();
}

// While RDMA CM connects, nothing comes over the side channel. Its end, or the timeout, ends the attempt.
Status Listener::peerStillThere() {
  if (peer_->socket.peek() == Io::kClosed) return peerFailed("hung up during the handshake", 0);
  if (!peer_->deadline.passed()) return Status::success();
  return peerFailed("did not finish the handshake in RAILWISE_CONNECT_TIMEOUT=" +
                        std::to_string(options_.config.connect_timeout_s) + " s",
                    ETIMEDOUT);
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
    return peerStillThere();
  }
  return Status::success();
}

Status Listener::peerFailed(const std::string& what, int error) {
  RAILWISE_WARN("%s at %s: peer %s calling from %s %s%s%s", device_.name(), options_.local_host.c_str(),
                fieldText(peer_->request.end.host).c_str(), peer_->address.text().c_str(), what.c_str(),
                error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
  stage_ = Stage::kListening;
  connection_.reset();
  peer_.reset();
  return {Code::kRemote, error};
}

}  // namespace railwise::net
