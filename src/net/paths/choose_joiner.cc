#include "net/paths/choose_joiner.h"

#include "net/paths/join_by_exchange.h"
#include "net/paths/join_by_manager.h"

namespace railwise::net {

std::unique_ptr<Joiner> makeJoiner(Direction direction, const Device& device, const Config& config,
                                   const Session& session, bool by_manager) {
  if (!by_manager) return std::make_unique<JoinByExchange>(direction, config, session);
  return std::make_unique<JoinByManager>(direction, config, session, device.rails().front().port.iwarp);
}

bool wantsConnectionManager(const Device& device, const Config& config) {
  return device.rails().front().port.iwarp || config.connect == "cm";
}

}  // namespace railwise::net
