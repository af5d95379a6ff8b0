#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"
#include "topo/transports/table.h"

namespace railwise::topo {
namespace {

class ClassWriter {
 public:
  explicit ClassWriter(JsonWriter& json) : json_(json) {}

  // Writes the rows of a table, and keeps its classes for writeClasses().
  void writeRows(const char* key, const TransportTable& table, const Graph& graph) {
    const auto netId = [&](int net) { return graph.label(NodeType::kNet, net); };
    json_.key(key).rows(table.rows, [&](const TransportRow& row) {
      json_.value(row.pair.from).value(row.pair.to).value(static_cast<int>(classes_.size() + row.index));
      if (row.intermediate_rank >= 0) json_.value(row.intermediate_rank);
      if (table.classes[row.index].first.kind == TransportKind::kNet) {
        json_.value(netId(row.sender.net))
            .value(row.sender.proxy_rank)
            .value(static_cast<int>(row.sender.gdr));
        json_.value(netId(row.receiver.net)).value(static_cast<int>(row.receiver.gdr));
      }
    });
    classes_.insert(classes_.end(), table.classes.begin(), table.classes.end());
  }

  void writeClasses() {
    json_.key("classes").objects(classes_, [&](const TransportClass& each) {
      json_.key("transport").value(transportKindName(each.first.kind)).key("name").value(each.name);
      json_.key("read").value(each.first.read);
      json_.key("pairs").value(each.pairs).key("reason").value(each.reason);
    });
  }

 private:
  JsonWriter& json_;
  std::vector<TransportClass> classes_;
};

void writeNvls(JsonWriter& json, const Transports& transports) {
  json.key("nvls").beginArray();
  for (const Domain& domain : transports.machine().domains) {
    const NvlsAnswer answer = transports.nvls(domain.ranks.front());
    json.beginObject().key("ranks").row(domain.ranks);
    json.key("used").value(answer.used).key("reason").value(answer.reason).endObject();
  }
  json.endArray();
}

}  // namespace

void writeTransports(JsonWriter& json, const Transports& transports, const TransportsShown& shown) {
  const Graph& graph = *transports.machine().graph;
  PairFilter filter{.from = shown.from, .to = shown.to, .other_host = false, .channel = shown.channel};
  json.key("one_process").value(transports.job().one_process).key("channel").value(shown.channel);
  ClassWriter writer(json);
  writer.writeRows("pairs", tabulate(transports, filter), graph);
  filter.other_host = true;
  if (shown.nodes > 1) writer.writeRows("other_host", tabulate(transports, filter), graph);
  writer.writeClasses();
  writeNvls(json, transports);
}

std::string transportsJson(const Transports& transports, const TransportsShown& shown) {
  const Machine& machine = transports.machine();
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-transports").key("schema_version").value(1);
  json.key("machine").value(machine.name).key("nccl").value(ncclVersionName(machine.settings->nccl));
  json.key("nodes").value(shown.nodes);
  writeTransports(json, transports, shown);
  json.endObject();
  return json.text();
}

}  // namespace railwise::topo
