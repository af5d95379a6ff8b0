#include "net/paths/join_by_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/log.h"
#include "net/device/fence.h"

namespace railwise::net {
namespace {

// Calls that are looked at in one step: strangers may call, too.
constexpr int kMostCalls = 16;
constexpr int kCmBacklog = 128;

// RDMA CM has begun to connect a queue pair, and owns it from now on. An error: the queue pair has gone with
// the attempt.
Status giveToManager(LaneQueuePair& queue_pair, Result<std::unique_ptr<verbs::CmConnection>> connecting) {
  if (connecting.ok()) queue_pair.rest->cm = std::move(*connecting);
  else queue_pair.qp = nullptr;
  return connecting.status();
}

// Finds the address of this rail that has these bytes. Errors: kSystem, logged (the address is gone).
Result<SocketAddress> managerAddress(const Rail& rail, const uint8_t* bytes) {
  Result<std::vector<SocketAddress>> addresses = verbs::cmAddresses(rail.hca->context(), rail.port);
  if (!addresses.ok()) return addresses.status();
  for (const SocketAddress& address : *addresses) {
    if (std::memcmp(verbs::cmAddressBytes(address).raw, bytes, sizeof(ibv_gid)) == 0) return address;
  }
  RAILWISE_WARN("%s: its address changed while a connection was made", rail.name);
  return Status{Code::kSystem, EADDRNOTAVAIL};
}

}  // namespace

Result<verbs::GidList> JoinByManager::addressesOf(const Rail& rail) const {
  Result<std::vector<SocketAddress>> addresses = verbs::cmAddresses(rail.hca->context(), rail.port);
  if (!addresses.ok()) return addresses.status();
  std::vector<verbs::Gid> found;
  for (const SocketAddress& address : *addresses) found.push_back({.value = verbs::cmAddressBytes(address)});
  if (found.empty()) return verbs::GidList{};
  return verbs::usableAddresses(found, rail.hca->name(), rail.port, config_);
}

bool JoinByManager::mayBegin() const { return !iwarp_ || !managerBusy(Patience(config_.failover_timeout_s)); }

Result<verbs::CmListener> JoinByManager::listenAt(const Rail& rail, const uint8_t* address, bool quiet) {
  const Result<SocketAddress> at = managerAddress(rail, address);
  if (!at.ok()) return at.status();
  return verbs::CmListener::create(rail.hca->context(), rail.port, *at, kCmBacklog, quiet);
}

Status JoinByManager::listen(uint64_t epoch, const Endpoint& endpoint, EndInfo& local, std::size_t* failed) {
  listeners_.clear();
  for (std::size_t i = 0; i < endpoint.queue_pairs.size(); ++i) {
    if (!endpoint.queue_pairs[i].rest->used) continue;
    *failed = i;
    const uint8_t rail = endpoint.queue_pairs[i].rail;
    const uint8_t gid = local.queue_pair[i].gid;
    RailInfo& info = local.rail[rail];
    if (info.cm_ports[gid] != 0) continue;
    Result<verbs::CmListener> listener = listenAt(endpoint.rails[rail], info.gids[gid], epoch > 1);
    if (!listener.ok()) return listener.status();
    info.cm_ports[gid] = listener->address().port();
    listeners_.push_back({rail, endpoint.rails[rail].hca, std::move(*listener)});
  }
  return Status::success();
}

Result<bool> JoinByManager::join(std::size_t index, const Ends& ends) {
  LaneQueuePair& queue_pair = ends.endpoint.queue_pairs[index];
  if (queue_pair.rest->cm == nullptr) {
    if (direction_ == Direction::kReceive) return false;  // not called yet
    const auto number = static_cast<uint32_t>(index);
    RAILWISE_TRY(
        giveToManager(queue_pair, call(std::move(queue_pair.rest->made), ends.endpoint.rails[queue_pair.rail],
                                       ends, pairingOf(index, ends), ends.epoch, number)));
  }
  const Result<bool> up = queue_pair.rest->cm->advance();
  if (!up.ok()) return up.status();
  queue_pair.rest->connected = *up;
  if (*up) noteConnected(index, ends, ", by RDMA CM");
  return *up;
}

Result<bool> JoinByManager::joinAll(const Ends& ends, std::size_t* failed) {
  RAILWISE_TRY(takeCalls(ends, failed));
  Result<bool> all = Joiner::joinAll(ends, failed);
  if (all.ok() && *all) listeners_.clear();
  return all;
}

bool JoinByManager::isJoining(const Endpoint& endpoint) const {
  return std::ranges::any_of(endpoint.queue_pairs, [](const LaneQueuePair& queue_pair) {
    return queue_pair.rest->cm != nullptr && !queue_pair.rest->connected;
  });
}

Joiner::Lost JoinByManager::lost(const LaneQueuePair& queue_pair) const {
  if (queue_pair.rest->cm == nullptr) return {};
  const Result<bool> up = queue_pair.rest->cm->advance();
  if (up.ok()) return {};
  return {up.status().sys_errno == ENODEV ? Loss::kDeviceRemoved : Loss::kDisconnected, up.status()};
}

// In a forked child the listeners are the parent's.
JoinByManager::~JoinByManager() {
  if (!listeners_.empty() && listeners_.front().hca->inForkedChild()) drop();
}

// Threads of the devices destroy the listeners: a driver takes part in that.
void JoinByManager::drop() noexcept {
  try {
    for (RailListener& each : listeners_) {
      const auto remains = std::make_shared<Remains>();
      remains->listeners.push_back(std::move(each.listener));
      destroyLater(*each.hca, remains);
    }
  } catch (const std::bad_alloc&) {  // this thread destroys the others
  }
  listeners_.clear();
}

Result<std::unique_ptr<verbs::CmConnection>> JoinByManager::call(verbs::QueuePair made, const Rail& rail,
                                                                 const Ends& ends, const Path& path,
                                                                 uint64_t epoch, uint32_t index) const {
  const Result<SocketAddress> from =
      managerAddress(rail, ends.local.rail[path.local_rail].gids[path.local_gid]);
  if (!from.ok()) return from.status();
  const RailInfo& peer = ends.remote.rail[path.remote_rail];
  ibv_gid to;
  std::memcpy(to.raw, peer.gids[path.remote_gid], sizeof to.raw);
  const CmPrivate data = {session_.callProof(epoch, index), epoch, index, 0};
  const bool quiet = index == kTrialCall || epoch > 1;
  return verbs::CmConnection::connect(std::move(made), rail.port, *from,
                                      verbs::cmAddressOf(to, peer.cm_ports[path.remote_gid], from->scopeId()),
                                      config_, {ends.local.traffic_class, quiet},
                                      std::as_bytes(std::span(&data, 1)));
}

// Is this request from the peer, and for which queue pair of the epoch?
bool JoinByManager::isCall(const verbs::CmRequest& request, uint64_t epoch, uint32_t* queue_pair) const {
  CmPrivate data = {};
  const auto bytes = request.privateData().span();
  if (bytes.size() < sizeof data) return false;
  std::memcpy(&data, bytes.data(), sizeof data);
  *queue_pair = data.queue_pair;
  return data.epoch == epoch && sameMac(data.proof, session_.callProof(epoch, data.queue_pair));
}

// A request that is not from the peer is refused by dropping it.
Status JoinByManager::answer(verbs::CmRequest request, uint8_t rail, const Ends& ends, std::size_t* failed) {
  uint32_t index = 0;
  if (!isCall(request, ends.epoch, &index) || index >= ends.endpoint.queue_pairs.size())
    return Status::success();
  LaneQueuePair& queue_pair = ends.endpoint.queue_pairs[index];
  if (!queue_pair.rest->used || queue_pair.rest->cm != nullptr || queue_pair.rail != rail)
    return Status::success();
  *failed = index;
  Result<std::unique_ptr<verbs::CmConnection>> made = verbs::CmConnection::accept(
      std::move(request), std::move(queue_pair.rest->made), ends.endpoint.rails[rail].port, config_,
      {ends.remote.traffic_class, ends.epoch > 1}, {});
  return giveToManager(queue_pair, std::move(made));
}

Status JoinByManager::takeCalls(const Ends& ends, std::size_t* failed) {
  for (RailListener& at : listeners_) {
    for (int calls = 0; calls < kMostCalls; ++calls) {
      Result<std::optional<verbs::CmRequest>> called = at.listener.poll();
      if (!called.ok()) {
        const LaneQueuePair* const first = ends.endpoint.onRail(at.rail);
        *failed = first != nullptr ? first->index : 0;
        return called.status();
      }
      if (!*called) break;
      RAILWISE_TRY(answer(std::move(**called), at.rail, ends, failed));
    }
  }
  return Status::success();
}

bool JoinByManager::callTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                              uint64_t number) const {
  Result<std::unique_ptr<verbs::CmConnection>> made =
      call(std::move(trial.made), trial.rail, ends, path, number, kTrialCall);
  if (made.ok()) trial.cm = std::move(*made);
  return made.ok();
}

Result<uint16_t> JoinByManager::answerTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                                            uint64_t number) const {
  Result<verbs::CmListener> listener =
      listenAt(trial.rail, ends.local.rail[path.local_rail].gids[path.local_gid], true);
  if (!listener.ok()) return listener.status();
  trial.number = number;
  trial.traffic_class = ends.remote.traffic_class;
  const uint16_t port = listener->address().port();
  trial.listener = std::move(*listener);
  return port;
}

Result<bool> JoinByManager::advanceTrial(TrialQueuePair& trial) const {
  for (int calls = 0; trial.listener && calls < kMostCalls; ++calls) {
    Result<std::optional<verbs::CmRequest>> called = trial.listener->poll();
    if (!called.ok() || !*called) break;
    uint32_t index = 0;
    if (trial.cm != nullptr || !isCall(**called, trial.number, &index) || index != kTrialCall) continue;
    Result<std::unique_ptr<verbs::CmConnection>> made =
        verbs::CmConnection::accept(std::move(**called), std::move(trial.made), trial.rail.port, config_,
                                    {trial.traffic_class, true}, {});
    if (!made.ok()) return made.status();
    trial.cm = std::move(*made);
  }
  if (trial.cm == nullptr) return false;
  return trial.cm->advance();
}

}  // namespace railwise::net
