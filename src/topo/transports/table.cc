#include "topo/transports/table.h"

#include <map>

namespace railwise::topo {

TransportTable tabulate(const Transports& transports, const PairFilter& filter) {
  TransportTable table;
  std::map<std::string, std::size_t> known;  // name and reason -> index of the class
  for (const int from : transports.ranks()) {
    if (filter.from >= 0 && filter.from != from) continue;
    for (const int to : transports.ranks()) {
      if (filter.to >= 0 && filter.to != to) continue;
      if (from == to && !filter.other_host) continue;
      TransportRow row{
          .pair = {.from = from, .to = to, .other_host = filter.other_host, .channel = filter.channel}};
      const Transport transport = transports.between(row.pair);
      const std::string name = transportName(transport);
      const std::string reason = transportReason(transport);
      const auto [at, is_new] = known.emplace(name + '\n' + reason, table.classes.size());
      if (is_new) table.classes.push_back({.first = transport, .name = name, .reason = reason});
      row.index = at->second;
      ++table.classes[row.index].pairs;
      row.intermediate_rank = transport.intermediate_rank;
      row.sender = transport.sender;
      row.receiver = transport.receiver;
      row.sender.gdr_reason.clear();
      row.receiver.gdr_reason.clear();
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace railwise::topo
