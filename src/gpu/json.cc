#include "gpu/json.h"

#include <cstdint>
#include <utility>

#include "base/text/json_fields.h"

namespace railwise::gpu {
namespace {

using topology::GpuNic;
using topology::PathType;

constexpr int kSchemaVersion = 1;
constexpr const char* kSchema = "railwise-gpus";

constexpr std::size_t kAll = SIZE_MAX;  // sanitize() limits what is kept

constexpr auto describeHealth = [](auto& fields, auto& health) {
  fields.optional("ecc_uncorrected", health.ecc_uncorrected);
  fields.optional("link_errors", health.link_errors);
  fields.optional("throttled", health.throttled);
  fields.text("throttle_reason", health.throttle_reason);
};

constexpr auto describeGpu = [](auto& fields, auto& gpu) {
  fields.index("index", gpu.index);
  fields.index("rank", gpu.rank);
  fields.choice("vendor", gpu.vendor, Vendor::kAmd, topology::gpuVendorName);
  fields.index("vendor_index", gpu.vendor_index);
  fields.text("model", gpu.model);
  fields.positive("memory_bytes", gpu.memory_bytes);
  fields.optional("memory_used_bytes", gpu.memory_used_bytes);
  fields.text("architecture", gpu.architecture);
  fields.positive("sm", gpu.sm);
  fields.text("busid", gpu.busid);
  fields.text("uuid", gpu.uuid);
  fields.index("numa", gpu.numa);
  fields.text("driver", gpu.driver);
  fields.text("firmware", gpu.firmware);
  fields.truth("partitioned", gpu.partitioned);
  fields.text("partition", gpu.partition);
  fields.number("share", gpu.share);
  fields.index("parent", gpu.parent);
  fields.text("fabric_cluster", gpu.fabric_cluster);
  fields.index("fabric_clique", gpu.fabric_clique);
  fields.text("fabric_state", gpu.fabric_state);
  fields.optional("utilisation_percent", gpu.utilisation_percent);
  fields.optional("processes", gpu.processes);
  fields.object("health", gpu.health, describeHealth);
};

constexpr auto describeLink = [](auto& fields, auto& link) {
  fields.index("from", link.from);
  fields.index("to", link.to);
  fields.text("to_busid", link.to_busid);
  fields.choice("kind", link.kind, LinkKind::kC2c, topology::gpuLinkKindName);
  fields.choice("latency", link.latency, LatencyClass::kHost, topology::gpuLatencyName);
  fields.positive("width", link.width);
  fields.positive("version", link.version);
  fields.positive("gb_per_s", link.gb_per_s);
};

constexpr auto describePeer = [](auto& fields, auto& peer) {
  fields.index("from", peer.from);
  fields.index("to", peer.to);
  fields.truth("allowed", peer.allowed);
  fields.text("reason", peer.reason);
};

constexpr auto describeNic = [](auto& fields, auto& nic) {
  fields.index("gpu", nic.gpu);
  fields.text("name", nic.name);
  fields.choice("type", nic.type, PathType::kDis, topology::pathTypeName);
  fields.positive("gb_per_s", nic.gb_per_s);
};

// All but the GPUs themselves, which are written over several lines.
constexpr auto describeRest = [](auto& fields, auto& topology) {
  fields.list("links", topology.links, kAll, describeLink);
  fields.list("peers", topology.peers, kAll, describePeer);
  fields.list("nics", topology.nics, kAll, describeNic);
  fields.texts("remarks", topology.remarks, kAll);
};

}  // namespace

std::string jsonOf(const GpuTopology& topology, const std::string& machine) {
  JsonWriter json;
  json.beginObject().key("schema").value(kSchema).key("schema_version").value(kSchemaVersion);
  json.key("machine").known(machine);
  FieldWriter fields(json);
  json.key("gpus").beginArray();
  for (const Device& device : topology.gpus) {
    json.beginObject();
    describeGpu(fields, device);
    json.endObject();
  }
  json.endArray();
  describeRest(fields, topology);
  json.endObject();
  return json.text();
}

Outcome<GpuTopology> parseJson(std::string_view text) {
  constexpr bool kThrow = false;
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, kThrow);
  if (document.is_discarded()) return Error{"is not JSON"};
  if (!document.is_object()) return Error{"is not a JSON object"};
  const auto schema = document.find("schema");
  if (schema == document.end() || *schema != kSchema)
    return Error{std::string("has no \"schema\": \"") + kSchema + "\""};
  const auto version = document.find("schema_version");
  if (version == document.end() || *version != kSchemaVersion)
    return Error{"has a schema_version that this Railwise does not read; it reads " +
                 std::to_string(kSchemaVersion)};
  GpuTopology topology;
  std::string error;
  FieldReader fields(document, "", error);
  fields.list("gpus", topology.gpus, kAll, describeGpu);
  describeRest(fields, topology);
  if (!error.empty()) return Error{std::move(error)};
  return topology;
}

}  // namespace railwise::gpu
