#include "net/reception.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/interfaces.h"
#include "base/log.h"
#include "net/paths/offer.h"
#include "net/patience.h"

namespace railwise::net {
namespace {

// Most kernels take up to 4096 (net.core.somaxconn). Once the backlog is full, the kernel drops the peer's
// first packet, and the peer's kernel repeats it only after a second.
constexpr int kBacklog = 4096;
// Strangers, and callers whose request is not whole yet. Those that wait longest go first.
constexpr std::size_t kMaxCallers = 32;

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

Result<std::unique_ptr<Reception>> Reception::create(const Device& device, const ConnectionOptions& options,
                                                     ListenerKind kind, std::size_t most_calls) {
  std::unique_ptr<Reception> made(new Reception(device, options, most_calls));
  RAILWISE_TRY(made->openSocket());
  ListenHandle& handle = made->handle_;
  handle.magic = kMagic;
  handle.oldest_version = kProtocol.oldest;
  handle.newest_version = kProtocol.newest;
  handle.rails = static_cast<uint8_t>(device.rails().size());
  handle.out_of_order = offersOutOfOrder(device, options.config) ? 1 : 0;
  handle.kind = kind;
  setHandleAddresses(handle, made->addresses_, made->socket_.localAddress().port());
  handle.secret = makeSecret();
  copyText(handle.host, shortHostName(options.local_host, sizeof handle.host));
  return made;
}

Reception::~Reception() {
  if (!device_.inForkedChild()) socket_.shutdown();
}

void Reception::hear(const Take& take, std::size_t most) {
  taken_ = 0;
  hearCallers(take);
  admitCallers(take, most);
}

// Opens one socket: on the address if there is one address, else on all addresses. Callers to addresses that
// were not chosen are sent away.
Status Reception::openSocket() {
  const std::vector<Interface> interfaces = currentInterfaces(config_.socket_ifname, familyOf(config_));
  if (interfaces.empty()) {
    RAILWISE_WARN(
        "no network interface for the handshakes: none is up that matches NCCL_SOCKET_IFNAME=%s "
        "NCCL_SOCKET_FAMILY=%s; `ip address` lists them",
        config_.socket_ifname.c_str(), config_.socket_family.c_str());
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

bool Reception::atOurAddress(const Socket& socket) const {
  if (addresses_.size() == 1) return true;
  const SocketAddress called = socket.localAddress();
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [&](const SocketAddress& address) { return address.sameHost(called); });
}

// The peer's request mostly comes with its first packet, so that each caller is heard before the next one is
// admitted.
void Reception::admitCallers(const Take& take, std::size_t most) {
  std::unique_ptr<Caller> caller;  // one object for all strangers that are dropped at once
  for (const Deadline deadline = Deadline::after(Patience::kAdmit); taken_ < most && !deadline.passed();) {
    Result<Socket> socket = socket_.accept();
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
    caller->deadline = Deadline::after(Patience::kHello);
    caller->proven = false;
    caller->transfer = transferOf(caller->request);
    if (!keeps(caller, take)) continue;
    if (callers_.size() == kMaxCallers) makeRoom();
    callers_.push_back(std::move(caller));
  }
}

// Drops the caller that has waited longest among those of the address from which most have called: a crowd
// from one host keeps no other host out. Callers that have proven to know the secret go last.
void Reception::makeRoom() {
  const auto rank = [&](const std::unique_ptr<Caller>& caller) {
    const auto alike = [&](const std::unique_ptr<Caller>& other) {
      return other->socket.peerAddress().sameHost(caller->socket.peerAddress());
    };
    return caller->proven ? 0 : std::count_if(callers_.begin(), callers_.end(), alike);
  };
  const auto longest = std::max_element(callers_.begin(), callers_.end(),
                                        [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  noteStranger(**longest, "says nothing while others wait");
  callers_.erase(longest);
}

void Reception::hearCallers(const Take& take) {
  for (std::size_t i = 0; i < callers_.size();) {
    if (keeps(callers_[i], take)) ++i;
    else callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool Reception::keeps(std::unique_ptr<Caller>& caller, const Take& take) {
  std::string reason;
  switch (hear(*caller, reason)) {
    case Hearing::kWait:
      return true;
    case Hearing::kPeer:
      ++taken_;
      take(std::move(caller));
      return false;
    case Hearing::kDrop:
      noteStranger(*caller, reason);
      caller->socket.close();
      return false;
  }
  return false;
}

Reception::Hearing Reception::hear(Caller& caller, std::string& reason) {
  const Result<Io> heard = caller.socket.receive(caller.transfer);
  if (!heard.ok()) {
    reason = std::strerror(heard.status().sys_errno);
    return Hearing::kDrop;
  }
  // The header and the hello are checked as soon as they are there, so that a stranger does not hold a place.
  const ConnectRequest& request = caller.request;
  if (caller.transfer.moved >= sizeof(MessageHeader)) {
    reason = checkHeader(request.header, MessageType::kRequest, sizeof(ConnectRequest));
    if (reason.empty() && !kProtocol.has(request.header.version))
      reason = "speaks protocol version " + std::to_string(request.header.version) + " of Railwise";
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
std::string Reception::checkHello(Caller& caller) {
  const ConnectRequest& request = caller.request;
  if (!helloIsTrue(request, handle_.secret))
    return "does not know the secret of this handle (it wants to reach another connection, or guesses)";
  std::array<uint8_t, sizeof(Random)> random;
  std::copy(std::begin(request.random.bytes), std::end(request.random.bytes), random.begin());
  if (heard_.contains(random)) return "repeats an earlier call of the peer";
  if (heard_.size() == most_calls_) return "has called too often";
  heard_.insert(random);
  caller.proven = true;
  return "";
}

void Reception::noteStranger(const Caller& caller, const std::string& reason) {
  if (stranger_logged_) return;
  stranger_logged_ = true;
  RAILWISE_WARN(
      "%s: listening on %s for a peer, a stranger called from %s: %s. Still waiting for the peer; "
      "further strangers are not reported",
      device_.name(), socket_.localAddress().text().c_str(), caller.socket.peerAddress().text().c_str(),
      reason.c_str());
}

}  // namespace railwise::net
