// What a device refuses while a connection is made, although it has not failed. If another rail of this end
// accepts it, that is no reason to end the job.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/connection/connection.h"
#include "net/device/patience.h"

namespace railwise::net {

Status Connection::makeFirst(const std::function<Status()>& make) {
  bool again = false;
  const auto ask = [&](bool) {
    if (std::exchange(again, true)) takeRails(endpoint_.rails);  // without what was made
    return make();
  };
  return askPatiently(ask, [&] { return mayBeginLost() && !mustBeginLost(); });
}

Status Connection::refusedReceives(std::size_t queue_pair, int error) const {
  const int reason = verbs::reasonOfPost(error);
  RAILWISE_WARN("%s: ibv_post_recv failed: %s", nameOf(endpoint_.queue_pairs[queue_pair]).c_str(),
                std::strerror(reason));
  return {Code::kSystem, reason};
}

bool Connection::goesElsewhere(const char* refused) {
  if (!mayBeginLost()) return false;
  int native = 0;
  const std::vector<Rail> usable = usableRails(&native);
  const auto accepts = [&](const Rail& rail) { return openTrial(rail, config_).ok(); };
  const std::size_t same = device_.rails().size() == 1 ? static_cast<std::size_t>(native) : 0;
  if (usable.size() < 2 ||
      std::none_of(usable.begin() + static_cast<std::ptrdiff_t>(same), usable.end(), accepts))
    return false;
  why_lost_ = std::string("its device refuses ") + refused;
  return true;
}

}  // namespace railwise::net
