// What a device refuses while a connection is made, although it has not failed. If another rail of this end
// accepts it, that is no reason to end the job.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/device/ask_patiently.h"
#include "net/paths/link.h"

namespace railwise::net {

Status Link::makeFirst(const std::function<Status()>& make) {
  bool again = false;
  const auto ask = [&](bool) {
    if (std::exchange(again, true)) takeRails(endpoint.rails);  // without what was made
    return make();
  };
  return askPatiently(ask, [&] { return mayBeginLost() && !mustBeginLost(); });
}

bool Link::goesElsewhere(const char* refused) {
  if (!mayBeginLost()) return false;
  int native = 0;
  const std::vector<Rail> usable = net::usableRails(own(), &native);
  const auto accepts = [&](const Rail& rail) { return openTrial(rail).ok(); };
  const std::size_t same = device.rails().size() == 1 ? static_cast<std::size_t>(native) : 0;
  if (usable.size() < 2 ||
      std::none_of(usable.begin() + static_cast<std::ptrdiff_t>(same), usable.end(), accepts))
    return false;
  why_lost_ = std::string("its device refuses ") + refused;
  return true;
}

void Link::takeRails(std::vector<Rail> rails) {
  record_.foldQueuePairs();
  endpoint = Endpoint(memory_.queuePairMemory(), std::move(rails), device.rails());
}

void Link::beginWithoutQueuePairs(const EndInfo& here, const EndInfo& there) {
  stopLostQueuePairs();
  dropEndpoint();
  epoch_here_ = here;
  adopt(there);
}

}  // namespace railwise::net
