// The transport of each pair of GPUs as data of the page.
#include "topo/outputs/page/html_parts.h"
#include "topo/transports/table.h"

namespace railwise::topo {
namespace {

// Writes "key": rows of [receiver, class, more...] by the sender's GPU index. `more` is the rank between the
// two GPUs, or sending NET, sending rank and receiving NET.
void writeRows(JsonWriter& json, const char* key, const Graph& graph, const TransportTable& table,
               std::size_t first_class) {
  std::vector<std::vector<const TransportRow*>> of_gpu(static_cast<std::size_t>(graph.count(NodeType::kGpu)));
  for (const TransportRow& row : table.rows)
    of_gpu[static_cast<std::size_t>(graph.gpuOfRank(row.pair.from))].push_back(&row);
  json.key(key).beginArray();
  for (const auto& rows : of_gpu) {
    json.beginArray();
    for (const TransportRow* row : rows) {
      json.beginArray()
          .value(graph.gpuOfRank(row->pair.to))
          .value(static_cast<int>(first_class + row->index));
      if (row->intermediate_rank >= 0) json.value(row->intermediate_rank);
      if (row->sender.net >= 0)
        json.value(row->sender.net).value(row->sender.proxy_rank).value(row->receiver.net);
      json.endArray();
    }
    json.endArray();
  }
  json.endArray();
}

}  // namespace

void writeTransportData(JsonWriter& json, const Machine& machine) {
  const Transports transports(machine, jobOn(machine));
  const TransportTable here = tabulate(transports, {});
  const TransportTable other_host = tabulate(transports, {.other_host = true});
  json.key("transports").beginObject().key("classes").beginArray();
  for (const TransportTable* table : {&here, &other_host})
    for (const TransportClass& each : table->classes)
      json.beginArray().value(each.name).value(each.reason).endArray();
  json.endArray();
  writeRows(json, "here", *machine.graph, here, 0);
  writeRows(json, "other_host", *machine.graph, other_host, here.classes.size());
  json.endObject();
}

}  // namespace railwise::topo
