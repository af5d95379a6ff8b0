// Endpoints on iWARP: the communication manager connects their queue pairs. The second end of a match
// listens, the first one connects.
#include <sched.h>

#include <cstring>
#include <utility>

#include "base/clock.h"
#include "doctor/pair/measuring/endpoint.h"
#include "doctor/pair/measuring/kept_warnings.h"

namespace railwise::doctor::pair {
namespace {

// Both ends go through their pairs in one order, so each waits for the other only while that one fails.
constexpr auto kCmLimit = std::chrono::seconds(3);
constexpr int kCmBacklog = 4;

}  // namespace

bool Endpoint::findCmAddress(bool listens) {
  const auto addresses = verbs::cmAddresses(nic_.context.get(), nic_.port);
  if (!addresses.ok() || addresses->empty()) {
    fail(KeptWarnings::reasonOr("the network interface of the port has no IP address"));
    return false;
  }
  cm_address_ = (*addresses)[0];
  if (!listens) return true;
  auto listener = verbs::CmListener::create(nic_.context.get(), nic_.port, cm_address_, kCmBacklog);
  if (!listener.ok()) return false;
  cm_address_ = listener->address();
  cm_listener_.emplace(std::move(*listener));
  return true;
}

void Endpoint::connectByCm() {
  const KeptWarnings warnings;
  const Deadline deadline = Deadline::after(kCmLimit);
  if (!cm_listener_) callByCm();
  while (error_.empty()) {
    if (connection_ == nullptr && !answerByCm()) return;
    const auto up = connection_ != nullptr ? connection_->advance() : Result<bool>(false);
    if (!up.ok()) return fail(KeptWarnings::reasonOr("the connection manager of the other end refuses"));
    if (*up) return;
    if (deadline.passed()) return fail("the other end did not answer the connection manager within 3 s");
    sched_yield();
  }
}

void Endpoint::callByCm() {
  ibv_gid bytes;
  std::memcpy(bytes.raw, remote_.cm_address.data(), sizeof bytes.raw);
  const SocketAddress peer = verbs::cmAddressOf(bytes, remote_.cm_port, cm_address_.scopeId());
  auto made = verbs::CmConnection::connect(std::move(queue_), nic_.port, cm_address_, peer, config_, {}, {});
  if (made.ok()) connection_ = std::move(*made);
  else fail(KeptWarnings::reasonOr("the connection manager cannot connect"));
}

// False: it has failed.
bool Endpoint::answerByCm() {
  auto request = cm_listener_->poll();
  if (request.ok() && !request->has_value()) return true;
  if (request.ok()) {
    auto made =
        verbs::CmConnection::accept(std::move(**request), std::move(queue_), nic_.port, config_, {}, {});
    if (made.ok()) {
      connection_ = std::move(*made);
      return true;
    }
  }
  fail(KeptWarnings::reasonOr("the connection manager cannot accept"));
  return false;
}

}  // namespace railwise::doctor::pair
