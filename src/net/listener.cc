#include "net/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/interfaces.h"
#include "base/log.h"
#include "net/patience.h"
#include "net/wireup/asymmetry.h"
#include "net/wireup/resumer.h"

namespace railwise::net {
namespace {

// Most kernels take up to 4096 (net.core.somaxconn). Once the backlog is full, the kernel drops the peer's
// first packet, and the peer's kernel repeats it only after a second.
constexpr int kBacklog = 4096;
// Calls that one handle is good for. The peer gives up sooner.
constexpr std::size_t kMostHeard = 256;

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

// The interfaces that the settings choose. Any thread.
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
  if (!same || known.interfaces.empty() || now - known.asked > Patience::kInterfacesKnown) {
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

Listener::Listener(const Device& device, const ConnectionOptions& options)
    : device_(device), options_(options) {
  page_.emplace(device.name(), device.rails().front().record_rail);
}

Result<std::unique_ptr<Listener>> Listener::create(const Device& device, const ConnectionOptions& options) {
  std::unique_ptr<Listener> listener(new Listener(device, options));
  RAILWISE_TRY(listener->openSocket());
  ListenHandle& handle = listener->handle_;
  handle.magic = kMagic;
  handle.version = kProtocolVersion;
  handle.rails = static_cast<uint8_t>(device.rails().size());
  handle.out_of_order = offersOutOfOrder(device, options.config) ? 1 : 0;
  setHandleAddresses(handle, listener->addresses_, listener->socket_.localAddress().port());
  handle.secret = makeSecret();
  copyText(handle.host, shortHostName(options.local_host, sizeof handle.host));
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
  socket_.deferAccept();
  return Status::success();
}

bool Listener::atOurAddress(const Socket& socket) const {
  if (addresses_.size() == 1) return true;
  const SocketAddress called = socket.localAddress();
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [&](const SocketAddress& address) { return address.sameHost(called); });
}

Result<std::unique_ptr<ReceiveConnection>> Listener::accept() {
  if (!over_.ok()) return over_;
  if (page_ && !census_) census_.emplace(Census::ofProcess(), "", "nothing heard");
  hearCallers();
  admitCallers();
  if (again_ && again_->passed()) {
    again_.reset();
    dropConnection();
    RAILWISE_WARN("%s at %s: the peer has not called again", device_.name(), options_.local_host.c_str());
    return over({Code::kRemote, ECONNRESET});
  }
  if (stage_ == Stage::kListening && peer_ != nullptr) RAILWISE_TRY(answerPeer());
  if (stage_ == Stage::kSendingReply) {
    const Result<Io> sent = peer_->socket.send(transfer_);
    if (!sent.ok() || *sent == Io::kClosed) RAILWISE_TRY(callEnded("hung up during the handshake"));
    if (sent.ok() && *sent == Io::kDone) {
      stage_ = Stage::kEstablishing;
      transfer_ = transferOf(ready_);
      ready_at_.reset();
    }
  }
  if (stage_ == Stage::kEstablishing) RAILWISE_TRY(establish());
  if (stage_ == Stage::kAwaitingReady) RAILWISE_TRY(awaitReady());
  if (connection_ready_ == nullptr && census_) warnOfSlowConnect(options_.config.slow_connect_s);
  return std::move(connection_ready_);
}

// The peer's request mostly comes with its first packet, so that each caller is heard before the next one is
// admitted.
void Listener::admitCallers() {
  std::unique_ptr<Caller> caller;  // one object for all strangers that are dropped at once
  for (const Deadline deadline = Deadline::after(Patience::kAdmit); !deadline.passed();) {
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
    if (caller == nullptr) caller = std::make_unique<Caller>();
    caller->socket = std::move(*socket);
    caller->address = address;
    caller->deadline = Deadline::after(Patience::kHello);
    caller->proven = false;
    caller->transfer = transferOf(caller->request);
    if (!keeps(caller)) continue;
    if (callers_.size() == kMaxCallers) makeRoom();
    callers_.push_back(std::move(caller));
  }
}

// Drops the caller that has waited longest among those of the address from which most have called: a crowd
// from one host keeps no other host out. Callers that have proven to know the secret go last.
void Listener::makeRoom() {
  const auto rank = [&](const std::unique_ptr<Caller>& caller) {
    const auto alike = [&](const std::unique_ptr<Caller>& other) {
      return other->address.sameHost(caller->address);
    };
    return caller->proven ? 0 : std::count_if(callers_.begin(), callers_.end(), alike);
  };
  const auto longest = std::max_element(callers_.begin(), callers_.end(),
                                        [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  noteStranger(**longest, "says nothing while others wait");
  callers_.erase(longest);
}

void Listener::hearCallers() {
  for (std::size_t i = 0; i < callers_.size();) {
    if (keeps(callers_[i])) ++i;
    else callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool Listener::keeps(std::unique_ptr<Caller>& caller) {
  std::string reason;
  switch (hear(*caller, reason)) {
    case Hearing::kWait:
      return true;
    case Hearing::kPeer:
      takePeer(std::move(caller));
      return false;
    case Hearing::kDrop:
      noteStranger(*caller, reason);
      caller->socket.close();
      return false;
  }
  return false;
}

// The newest call of the peer counts: the peer calls again only when its earlier call has ended for it.
void Listener::takePeer(std::unique_ptr<Caller> caller) {
  if (peer_ != nullptr) warnOfPeer("calls again: its earlier call was cut on the way");
  again_.reset();
  peer_ = std::move(caller);
}

Listener::Hearing Listener::hear(Caller& caller, std::string& reason) {
  const Result<Io> heard = caller.socket.receive(caller.transfer);
  if (!heard.ok()) {
    reason = std::strerror(heard.status().sys_errno);
    return Hearing::kDrop;
  }
  // The header and the hello are checked as soon as they are there, so that a stranger does not hold a place.
  const ConnectRequest& request = caller.request;
  if (caller.transfer.moved >= sizeof(MessageHeader)) {
    reason = checkHeader(request.header, MessageType::kRequest, sizeof(ConnectRequest));
    if (!reason.empty()) return Hearing::kDrop;
  }
  if (caller.transfer.moved >= kHelloBytes && !caller.proven) {
    reason = checkHello(caller);
    if (!reason.empty()) return Hearing::kDrop;
  }
  if (*heard == Io::kDone) {
    if (isTrue(request, handle_.secret)) return Hearing::kPeer;
    reason = "begins as the peer would, but its MAC is wrong (somebody changes bytes on the way)";
    return Hearing::kDrop;
  }
  if (*heard == Io::kAgain && !caller.deadline.passed()) return Hearing::kWait;
  reason = *heard == Io::kClosed ? "hung up" : "says nothing";
  return Hearing::kDrop;
}

// What is wrong with the hello of a caller, in words; "": nothing.
std::string Listener::checkHello(Caller& caller) {
  const ConnectRequest& request = caller.request;
  if (!helloIsTrue(request, handle_.secret))
    return "does not know the secret of this handle (it wants to reach another connection, or guesses)";
  const auto same = [&](const Random& random) {
    return std::memcmp(random.bytes, request.random.bytes, sizeof random.bytes) == 0;
  };
  if (std::any_of(heard_.begin(), heard_.end(), same)) return "repeats an earlier call of the peer";
  if (heard_.size() == kMostHeard) return "has called too often";
  heard_.push_back(request.random);
  caller.proven = true;
  return "";
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
  // One session for a call, also when the path to the peer is resolved only later: some of the queue pairs
  // have the session's packet numbers already.
  if (connection_ == nullptr) session_ = {handle_.secret, peer_->request.random, randomBytes()};
  reply_ = makeMessage<ConnectReply>(MessageType::kReply);
  reply_.random = session_.listener;
  std::string refusal;
  const Status built = buildConnection(peer_->request, refusal);
  reply_.accepted = built.ok() ? 1 : 0;
  copyText(reply_.reason, refusal);
  transfer_ = transferOf(reply_);
  // The path to the peer may not be resolved yet (ARP). The next call tries again.
  if (built.sys_errno == ETIMEDOUT && !peer_->deadline.passed()) {
    if (peer_->socket.peek() == Io::kClosed) return callEnded("hung up during the handshake");
    return Status::success();
  }
  if (!built.ok()) {
    seal(reply_, peer_->request, handle_.secret);
    (void)peer_->socket.send(transfer_);  // fits the empty socket buffer; if not, the peer sees us hang up
    (void)peerFailed("is refused: " + refusal, 0);
    return built;
  }
  reply_.end = connection_->answerer().local();
  seal(reply_, peer_->request, handle_.secret);
  warnOfDifferences(reply_.end, peer_->request.end);
  peer_->deadline = Deadline::after(std::chrono::seconds(options_.config.connect_timeout_s));
  stage_ = Stage::kSendingReply;
  awaited_ = options_.resumer != nullptr && peer_->request.end.resume_port != 0 &&
             peer_->request.end.failover != 0 && options_.config.failover != 0;
  if (awaited_) options_.resumer->await(session_.id(), session_.frameKeys());
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
    connection_->link().record().openPeer(fieldText(request.end.host), pairId(handle_.secret));
  }
  const StrictMode strict = parseStrictMode(options_.config.strict).value_or(StrictMode());
  if (const std::string problem = refusedDifference(strict, connection_->answerer().local(), request.end);
      !problem.empty()) {
    refusal = "RAILWISE_STRICT: " + problem;
    return {Code::kRemote, 0};
  }
  const Status prepared = connection_->answerer().prepare(request.end, session_);
  if (!prepared.ok())
    refusal = std::string(device_.name()) + ": no path between the queue pairs, see the log of " +
              options_.local_host;
  return prepared;
}

Status Listener::establish() {
  const Result<bool> established = connection_->answerer().establish(peer_->request.end);
  // A peer whose call was cut has taken its queue pairs away, and calls again.
  if (!established.ok() && peer_->socket.peek() == Io::kClosed)
    return callEnded("hung up during the handshake");
  if (!established.ok()) return over(peerFailed("cannot be connected to", established.status().sys_errno));
  const bool gives_up = !*established && readyIsThere() && ready_.accepted != 1;
  if (*established || gives_up || peerBeginsLost()) {
    stage_ = Stage::kAwaitingReady;
    return Status::success();
  }
  return peerStillThere();
}

// A sender whose queue pairs RDMA CM cannot connect is ready all the same if it can fail over: the connection
// begins without queue pairs. But RDMA CM may also tell this end later than the sender.
bool Listener::peerBeginsLost() {
  return readyIsThere() && Clock::now() - *ready_at_ > Patience::kManagerFollows &&
         connection_->answerer().giveUpFirst(peer_->request.end);
}

bool Listener::readyIsThere() {
  if (ready_at_) return true;
  const Result<Io> heard = peer_->socket.receive(transfer_);
  if (heard.ok() && *heard == Io::kDone) ready_at_ = Clock::now();
  return ready_at_.has_value();
}

// While RDMA CM connects, only the ready message comes over the side channel. The end of the side channel, or
// the timeout, ends the attempt.
Status Listener::peerStillThere() {
  if (peer_->socket.peek() == Io::kClosed) return callEnded("hung up during the handshake");
  if (!peer_->deadline.passed()) return Status::success();
  return peerFailed("did not finish the handshake in RAILWISE_CONNECT_TIMEOUT=" +
                        std::to_string(options_.config.connect_timeout_s) + " s",
                    ETIMEDOUT);
}

Status Listener::awaitReady() {
  if (awaited_) {
    Socket proven = options_.resumer->takeProven(session_.id());
    if (proven.valid()) return finish(std::move(proven));
  }
  if (again_) return Status::success();
  const Result<Io> heard = peer_->socket.receive(transfer_);
  if (!heard.ok() || *heard == Io::kClosed) return readyLost("hung up during the handshake");
  if (*heard == Io::kAgain) return peer_->deadline.passed() ? peerStillThere() : Status::success();
  std::string problem = checkHeader(ready_.header, MessageType::kReady, sizeof ready_);
  if (problem.empty() && !isTrue(ready_, reply_, handle_.secret))
    problem = "sent a wrong MAC: somebody changes bytes on the way";
  if (!problem.empty()) return readyLost(problem);
  if (ready_.accepted != 1) return peerFailed("gives up: " + fieldText(ready_.reason), 0);
  return finish(std::move(peer_->socket));
}

Status Listener::readyLost(const std::string& what) {
  if (!awaited_) return callEnded(what);
  RAILWISE_WARN("%s at %s: peer %s calling from %s %s; waiting for it to call again", device_.name(),
                options_.local_host.c_str(), fieldText(peer_->request.end.host).c_str(),
                peer_->address.text().c_str(), what.c_str());
  peer_->socket.close();  // the sender sees that, if it has not ended the call itself
  again_ = Deadline::after(Patience::kCallsAgain);
  return Status::success();
}

Status Listener::finish(Socket socket) {
  again_.reset();
  connection_->link().attach(std::move(socket), session_, peer_->request.end.resume_port);
  if (std::exchange(awaited_, false)) options_.resumer->forget(session_.id());
  record::noteEvent(record::EventKind::kConnected, connection_->peer(),
                    {.connection = &connection_->recorded()});
  if (census_) census_->up();
  census_.reset();
  page_.reset();
  connection_ready_ = std::move(connection_);
  peer_.reset();
  callers_.clear();
  stage_ = Stage::kListening;
  return Status::success();
}

Status Listener::callEnded(const std::string& what) {
  warnOfPeer(what + "; waiting for it to call again");
  again_ = Deadline::after(Patience::kCallsAgain);
  return Status::success();
}

Status Listener::peerFailed(const std::string& what, int error) {
  warnOfPeer(what + (error != 0 ? std::string(": ") + std::strerror(error) : ""));
  return {Code::kRemote, error};
}

Status Listener::over(Status status) {
  socket_.shutdown();
  return over_ = status;
}

void Listener::warnOfPeer(const std::string& what) {
  RAILWISE_WARN("%s at %s: peer %s calling from %s %s", device_.name(), options_.local_host.c_str(),
                fieldText(peer_->request.end.host).c_str(), peer_->address.text().c_str(), what.c_str());
  stage_ = Stage::kListening;
  dropConnection();
  peer_.reset();
}

void Listener::dropConnection() {
  if (std::exchange(awaited_, false)) options_.resumer->forget(session_.id());
  connection_.reset();
}

Listener::~Listener() {
  dropConnection();
  socket_.shutdown();
}

}  // namespace railwise::net
