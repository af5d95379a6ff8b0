// What a device refuses that has not failed: memory, or the first queue pairs. If another device of the
// process accepts it, that is no reason to end the job.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "net/connection/connection.h"

namespace railwise::net {

bool Connection::goesElsewhere(const char* refused) {
  if (!mayBeginLost()) return false;
  int native = 0;
  const std::vector<Rail> usable = usableRails(&native);
  const auto accepts = [&](const Rail& rail) { return openTrial(rail, config_).ok(); };
  if (std::none_of(usable.begin(), usable.end(), accepts)) return false;
  why_lost_ = std::string("its device refuses ") + refused;
  return true;
}

Status Connection::refusedReceives(std::size_t queue_pair, int error) const {
  const int reason = error == -1 ? errno : std::abs(error);
  RAILWISE_WARN("%s: ibv_post_recv failed: %s", nameOf(endpoint_.queue_pairs[queue_pair]).c_str(),
                std::strerror(reason));
  return {Code::kSystem, reason};
}

bool Connection::failThoseThatRefuse(const std::function<bool(const Rail&)>& accepts) const {
  std::vector<const Rail*> refusing;
  const Rail* accepting = nullptr;
  for (const Rail& rail : device_.rails()) {
    if (rail.hca->state().fatal()) continue;
    if (accepts(rail)) accepting = &rail;
    else refusing.push_back(&rail);
  }
  const auto isGood = [&](const Rail& rail) {
    return rail.hca->state().active(rail.port.number) && accepts(rail);
  };
  std::vector<Rail> standbys;
  for (const Rail& rail : options_.standbys) standbys.push_back(rail.now());
  const auto good = std::find_if(standbys.begin(), standbys.end(), isGood);
  if (good != standbys.end()) accepting = &*good;
  if (accepting == nullptr) return false;
  for (const Rail* rail : refusing) {
    RAILWISE_WARN("%s refuses memory that %s accepts: it is taken for a failed device; look in `dmesg`",
                  rail->hca->name(), accepting->hca->name());
    rail->hca->state().fail(IBV_EVENT_DEVICE_FATAL);
  }
  return true;
}

Result<Window> Connection::takeWindow(std::size_t bytes) const {
  Result<Window> window = device_.windows().take(bytes);
  if (window.ok() || window.status().code != Code::kSystem || !mayBeginLost()) return window;
  const auto accepts = [](const Rail& rail) { return RegisteredPages::create(rail.hca->pd(), 1).ok(); };
  return failThoseThatRefuse(accepts) ? device_.windows().take(bytes) : std::move(window);
}

Result<MemoryHandle*> Connection::registerMemory(const Acquire& acquire) const {
  const Result<MemoryHandle*> made = acquire(memory());
  if (made.ok() || made.status().code != Code::kSystem || !canFailOver()) return made;
  const auto accepts = [&](const Rail& rail) {
    MemoryCache cache({RailDomain(rail.hca->pd())});
    const Result<MemoryHandle*> tried = acquire(cache);
    if (tried.ok()) cache.release(*tried);
    return tried.ok();
  };
  return failThoseThatRefuse(accepts) ? acquire(memory()) : made;
}

}  // namespace railwise::net
