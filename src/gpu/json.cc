#include "gpu/json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/text/json.h"

namespace railwise::gpu {
namespace {

using topology::GpuNic;
using topology::PathType;

constexpr int kSchemaVersion = 1;
constexpr const char* kSchema = "railwise-gpus";

// Writes the fields of one object. describe() below calls it with each field.
class FieldWriter {
 public:
  explicit FieldWriter(JsonWriter& json) : json_(json) {}

  void text(const char* name, const std::string& value) { json_.key(name).known(value); }
  // Below zero: unknown.
  void index(const char* name, int value) { json_.key(name).known(value); }
  // Zero: unknown.
  template <typename Number>
  void positive(const char* name, Number value) {
    json_.key(name);
    value > 0 ? json_.value(value) : json_.null();
  }
  template <typename Value>
  void optional(const char* name, const std::optional<Value>& value) {
    json_.key(name).known(value);
  }
  void truth(const char* name, bool value) { json_.key(name).value(value); }
  void number(const char* name, double value) { json_.key(name).value(value); }
  template <typename Enum>
  void choice(const char* name, Enum value, Enum, const char* (*text_of)(Enum)) {
    json_.key(name).value(text_of(value));
  }
  template <typename Value, typename Describe>
  void object(const char* name, const Value& value, Describe describe) {
    json_.key(name).beginInlineObject();
    describe(*this, value);
    json_.endInlineObject();
  }

 private:
  JsonWriter& json_;
};

// Reads the fields of one object. A field that is missing or null stays as it is. Keeps the first error.
class FieldReader {
 public:
  FieldReader(const nlohmann::json& object, std::string place, std::string& error)
      : object_(object), place_(std::move(place)), error_(error) {
    if (!object_.is_object()) fail("", "is not an object");
  }

  void text(const char* name, std::string& value) {
    if (const auto* found = find(name))
      found->is_string() ? void(value = *found->get_ptr<const std::string*>()) : fail(name, "is not a text");
  }
  void index(const char* name, int& value) { integer(name, value); }
  void positive(const char* name, int& value) { integer(name, value); }
  void positive(const char* name, uint64_t& value) { integer(name, value); }
  void positive(const char* name, double& value) { number(name, value); }
  template <typename Value>
  void optional(const char* name, std::optional<Value>& value) {
    const auto* found = find(name);
    if (found == nullptr) return;
    Value read = {};
    if constexpr (std::is_same_v<Value, bool>) truth(name, read);
    else integer(name, read);
    value = read;
  }
  void truth(const char* name, bool& value) {
    if (const auto* found = find(name))
      found->is_boolean() ? void(value = found->get<bool>()) : fail(name, "is neither true nor false");
  }
  void number(const char* name, double& value) {
    if (const auto* found = find(name))
      found->is_number() ? void(value = found->get<double>()) : fail(name, "is not a number");
  }
  template <typename Enum>
  void choice(const char* name, Enum& value, Enum last, const char* (*text_of)(Enum)) {
    const auto* found = find(name);
    if (found == nullptr) return;
    const std::string* text = found->get_ptr<const std::string*>();
    for (int i = 0; text != nullptr && i <= static_cast<int>(last); ++i)
      if (*text == text_of(static_cast<Enum>(i))) {
        value = static_cast<Enum>(i);
        return;
      }
    fail(name, "is none of the words for it");
  }
  template <typename Value, typename Describe>
  void object(const char* name, Value& value, Describe describe) {
    const auto* found = find(name);
    if (found == nullptr) return;
    FieldReader inner(*found, place_ + "." + name, error_);
    if (error_.empty()) describe(inner, value);
  }

 private:
  const nlohmann::json* find(const char* name) const {
    if (!error_.empty()) return nullptr;
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  template <typename Integer>
  void integer(const char* name, Integer& value) {
    const auto* found = find(name);
    if (found == nullptr) return;
    const bool fits = found->is_number_unsigned()
                          ? std::in_range<Integer>(found->get<uint64_t>())
                          : found->is_number_integer() && std::in_range<Integer>(found->get<int64_t>());
    fits ? void(value = found->get<Integer>()) : fail(name, "is no whole number of its size");
  }
  void fail(const std::string& name, const std::string& what) {
    if (error_.empty()) error_ = place_ + (name.empty() ? "" : "." + name) + " " + what;
  }

  const nlohmann::json& object_;
  const std::string place_;
  std::string& error_;
};

// ---- the fields of each struct, for the writer and the reader

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

template <typename Element, typename Describe>
void writeList(JsonWriter& json, const char* name, const std::vector<Element>& list, bool a_line_each,
               Describe describe) {
  json.key(name).beginArray();
  FieldWriter fields(json);
  for (const Element& element : list) {
    a_line_each ? json.beginInlineObject() : json.beginObject();
    describe(fields, element);
    a_line_each ? json.endInlineObject() : json.endObject();
  }
  json.endArray();
}

// The array `name` of the document; null: it has none, or `error` says why not.
const nlohmann::json* findList(const nlohmann::json& document, const char* name, std::string& error) {
  const auto at = document.find(name);
  if (at == document.end() || at->is_null()) return nullptr;
  if (at->is_array()) return &*at;
  if (error.empty()) error = std::string(name) + " is not a list";
  return nullptr;
}

template <typename Element, typename Describe>
void readList(const nlohmann::json& document, const char* name, std::vector<Element>& list, Describe describe,
              std::string& error) {
  const nlohmann::json* array = findList(document, name, error);
  if (array == nullptr) return;
  for (std::size_t i = 0; i < array->size() && error.empty(); ++i) {
    FieldReader fields((*array)[i], std::string(name) + "[" + std::to_string(i) + "]", error);
    if (error.empty()) describe(fields, list.emplace_back());
  }
}

void readRemarks(const nlohmann::json& document, std::vector<std::string>& remarks, std::string& error) {
  const nlohmann::json* array = findList(document, "remarks", error);
  if (array == nullptr) return;
  for (const nlohmann::json& remark : *array) {
    if (remark.is_string()) remarks.push_back(remark.get<std::string>());
    else if (error.empty()) error = "remarks has something that is not a text";
  }
}

}  // namespace

std::string jsonOf(const GpuTopology& topology, const std::string& machine) {
  JsonWriter json;
  json.beginObject().key("schema").value(kSchema).key("schema_version").value(kSchemaVersion);
  json.key("machine").known(machine);
  writeList(json, "gpus", topology.gpus, false, describeGpu);
  writeList(json, "links", topology.links, true, describeLink);
  writeList(json, "peers", topology.peers, true, describePeer);
  writeList(json, "nics", topology.nics, true, describeNic);
  json.key("remarks").array(topology.remarks);
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
  readList(document, "gpus", topology.gpus, describeGpu, error);
  readList(document, "links", topology.links, describeLink, error);
  readList(document, "peers", topology.peers, describePeer, error);
  readList(document, "nics", topology.nics, describeNic, error);
  readRemarks(document, topology.remarks, error);
  if (!error.empty()) return Error{std::move(error)};
  return topology;
}

}  // namespace railwise::gpu
