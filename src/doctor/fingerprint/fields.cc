// The fields of a fingerprint as text and as JSON.
#include <algorithm>
#include <cstdint>

#include "base/text/json_fields.h"
#include "base/text/printable.h"
#include "base/text/words.h"
#include "doctor/fingerprint/fingerprint.h"

namespace railwise::doctor::fingerprint {
namespace {

constexpr const char* kSchema = "railwise-fingerprint";
constexpr int kVersion = 1;
constexpr const char* kWriteAgain = "write it with: railwise fingerprint --json > FILE";
constexpr std::size_t kMostGroups = 1024;  // of GPUs or NICs that differ in one node
constexpr int kMostCounted = 1 << 20;      // of GPUs or NICs of one kind

// The end of the JSON object or array that begins at `begin`: behind the bracket that closes the first one.
// npos: it has no end.
std::size_t documentEnd(std::string_view text, std::size_t begin) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

constexpr auto describeModel = [](auto& fields, auto& model) {
  fields.text("model", model.name);
  fields.within("count", model.count, 1, kMostCounted);
};
constexpr auto describeFirmware = [](auto& fields, auto& firmware) {
  fields.text("version", firmware.name);
  fields.within("count", firmware.count, 1, kMostCounted);
};
constexpr auto describeNics = [](auto& fields, auto& nic) {
  fields.text("type", nic.type);
  fields.text("board", nic.board);
  fields.text("firmware", nic.firmware);
  fields.within("count", nic.count, 1, kMostCounted);
};
constexpr auto describeGpus = [](auto& fields, auto& node) {
  fields.text("vendor", node.gpu_vendor);
  fields.list("models", node.gpus, kMostGroups, describeModel);
  fields.text("driver", node.gpu_driver);
  fields.list("firmware", node.gpu_firmware, kMostGroups, describeFirmware);
};
// All behind the host's name and the hash.
constexpr auto describeNode = [](auto& fields, auto& node) {
  fields.text("railwise", node.railwise);
  fields.text("kernel", node.kernel);
  fields.object("gpu", node, describeGpus);
  fields.text("cuda", node.cuda);
  fields.text("rocm", node.rocm);
  fields.map("modules", node.modules);
  fields.list("nics", node.nics, kMostGroups, describeNics);
  fields.text("rdma_core", node.rdma_core);
};

Outcome<Fingerprint> nodeOf(const nlohmann::json& object) {
  const std::string again = std::string("; ") + kWriteAgain;
  if (!object.is_object()) return Error{"not a JSON object" + again};
  std::string error;
  FieldReader fields(object, "", error, [](const std::string& text) { return printableAscii(text); });
  std::string schema;
  fields.text("schema", schema);
  if (schema != kSchema) return Error{"not a fingerprint of a node" + again};
  int version = 0;
  fields.within("schema_version", version, 1, kMostCounted);
  if (version > kVersion)
    return Error{"written by a newer Railwise (schema_version " + std::to_string(version) +
                 "); compare with that one, or write it with this one"};
  Fingerprint node;
  fields.text("host", node.host);
  describeNode(fields, node);
  if (!error.empty()) return Error{error + again};
  return node;
}

// What is in the file where a document should begin.
std::string beginOf(std::string_view text) {
  constexpr std::size_t kShown = 20;
  return "'" + printableAscii(text.substr(0, std::min(text.find('\n'), kShown))) + "'";
}

std::string known(const std::string& text) { return text.empty() ? "-" : text; }

std::string times(int count, const std::string& name) { return std::to_string(count) + " x " + name; }

// "8 x NVIDIA H100 80GB HBM3, 1 x ..."
std::string countsText(const std::vector<Counted>& list) {
  return joined(list, ", ", [](const Counted& each) { return times(each.count, known(each.name)); });
}

std::string orNone(const std::string& text) { return text.empty() ? "none" : text; }

// The numbers of GPUs stand in "GPUs"; here only where the GPUs of the node differ.
std::string gpuFirmwareText(const Fingerprint& node) {
  if (node.gpu_firmware.size() == 1) return known(node.gpu_firmware[0].name);
  return known(countsText(node.gpu_firmware));
}

std::string nicName(const NicGroup& nic) {
  return known(nic.type) + (nic.board.empty() ? "" : " (" + nic.board + ")");
}

std::string nicsText(const Fingerprint& node) {
  std::vector<Counted> types;
  for (const NicGroup& nic : node.nics) {
    const std::string name = nicName(nic);
    const auto found = std::ranges::find(types, name, &Counted::name);
    if (found != types.end()) found->count += nic.count;
    else types.push_back({name, nic.count});
  }
  return orNone(countsText(types));
}

// As gpuFirmwareText(): numbers only where NICs of one type differ.
std::string nicFirmwareText(const Fingerprint& node) {
  return known(joined(node.nics, ", ", [&](const NicGroup& nic) {
    const auto groups = std::ranges::count_if(
        node.nics, [&](const NicGroup& other) { return nicName(other) == nicName(nic); });
    const std::string firmware = known(nic.firmware);
    return nicName(nic) + " " + (groups > 1 ? times(nic.count, firmware) : firmware);
  }));
}

}  // namespace

std::vector<Field> fieldsOf(const Fingerprint& node) {
  std::vector<Field> fields = {{"Railwise", known(node.railwise)},
                               {"kernel", known(node.kernel)},
                               {"GPUs", orNone(countsText(node.gpus))},
                               {"GPU driver", known(node.gpu_driver)},
                               {"GPU firmware", gpuFirmwareText(node)},
                               {"CUDA", known(node.cuda)},
                               {"ROCm", known(node.rocm)}};
  for (const auto& [module, version] : node.modules) fields.push_back({"module " + module, known(version)});
  fields.push_back({"NICs", nicsText(node)});
  fields.push_back({"NIC firmware", nicFirmwareText(node)});
  fields.push_back({"rdma-core", known(node.rdma_core)});
  return fields;
}

std::string hashOf(const Fingerprint& node) {
  constexpr uint32_t kOffset = 2166136261U;  // of FNV-1a, 32 bits
  constexpr uint32_t kPrime = 16777619U;
  uint32_t hash = kOffset;
  const auto add = [&hash](const std::string& text) {
    for (const char byte : text + '\n') hash = (hash ^ static_cast<uint8_t>(byte)) * kPrime;
  };
  for (const Field& field : fieldsOf(node)) {
    add(field.name);
    add(field.value);
  }
  return formatText("%08x", hash);
}

std::string textOf(const Fingerprint& node, std::size_t columns) {
  const std::string fields =
      joined(fieldsOf(node), "; ", [](const Field& field) { return field.name + ": " + field.value; });
  return wrappedText(fields, known(node.host) + " " + hashOf(node) + "  ", "    ", columns);
}

std::string jsonOf(const Fingerprint& node) {
  JsonWriter json;
  json.beginInlineObject().key("schema").value(kSchema).key("schema_version").value(kVersion);
  json.key("host").known(node.host).key("hash").value(hashOf(node));
  writeFields(json, node);
  return json.endInlineObject().text();
}

void writeFields(JsonWriter& json, const Fingerprint& node) {
  FieldWriter fields(json);
  describeNode(fields, node);
}

Outcome<std::vector<ParsedFingerprint>> parseFingerprints(std::string_view text, const std::string& name) {
  std::vector<ParsedFingerprint> nodes;
  int line = 1;
  std::size_t counted = 0;
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) break;
    line += static_cast<int>(std::count(text.begin() + counted, text.begin() + at, '\n'));
    counted = at;
    const auto problem = [&](const std::string& what) {
      return Error{name + ":" + std::to_string(line) + ": " + what};
    };
    if (text[at] != '{' && text[at] != '[')
      return problem(beginOf(text.substr(at)) + " is not JSON; " + kWriteAgain);
    const std::size_t end = documentEnd(text, at);
    if (end == std::string_view::npos)
      return problem(std::string("the JSON that begins here has no end: was it cut off? ") + kWriteAgain);
    const auto document = nlohmann::json::parse(text.begin() + at, text.begin() + end, nullptr, false);
    if (document.is_discarded()) return problem(std::string("not JSON; ") + kWriteAgain);
    const auto add = [&](const nlohmann::json& object) {
      Outcome<Fingerprint> node = nodeOf(object);
      if (node.ok()) nodes.push_back({std::move(*node), line});
      return node.ok() ? std::string() : node.error();
    };
    if (document.is_array()) {
      for (const nlohmann::json& element : document)
        if (const std::string what = add(element); !what.empty()) return problem(what);
    } else if (const std::string what = add(document); !what.empty()) {
      return problem(what);
    }
    at = end;
  }
  if (nodes.empty()) return Error{name + ": no fingerprint in it; " + kWriteAgain};
  return nodes;
}

}  // namespace railwise::doctor::fingerprint
