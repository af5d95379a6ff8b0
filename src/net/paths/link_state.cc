#include "net/paths/link_state.h"

#include "net/paths/joiner.h"
#include "record/writer.h"

namespace railwise::net {

LinkState::LinkState(Direction its_direction, LinkUser& its_user, LinkMemory& its_memory,
                     const Device& its_device, const ConnectionOptions& its_options)
    : direction(its_direction),
      endpoint(its_memory.queuePairMemory(), its_device.rails(), its_device.rails()),
      device(its_device),
      options(its_options),
      config(options.config),
      rules(device.rails().front().port.iwarp ? kIwarpRules : kRdmaRules),
      user(its_user),
      memory(its_memory),
      joiner(makeJoiner(direction, device, config, session, wantsConnectionManager(device, config))),
      proof(!rules.completion_means_arrival),
      side_channel(bell, direction,
                   direction == Direction::kReceive ? memory.arrivedUpTo() : memory.nextPost()) {
  numbers().next = numbers().posted = 1;
  record::openConnection(shown(),
                         direction == Direction::kSend ? record::Side::kSender : record::Side::kReceiver,
                         record::ConnectionState::kConnecting);
}

std::string LinkState::title() const {
  return device.name() + std::string(": connection ") + (direction == Direction::kSend ? "to " : "from ") +
         peer;
}

std::string LinkState::pathsText() const {
  std::string paths;
  for (const LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    if (queue_pair.rest->used) paths += (paths.empty() ? "" : ", ") + pathText(queue_pair);
  }
  return paths;
}

std::vector<Rail> LinkState::usableRails() const {
  int native = 0;
  return net::usableRails(own(), &native);
}

}  // namespace railwise::net
