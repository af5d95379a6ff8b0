#include "cli/fingerprint/fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "base/text/json.h"
#include "base/text/text_layout.h"

namespace railwise::cli {
namespace {

std::string known(const std::string& text) { return text.empty() ? "-" : text; }

std::string times(int count, const std::string& name) { return std::to_string(count) + " x " + name; }

void append(std::string& list, const std::string& text) { list += (list.empty() ? "" : ", ") + text; }

std::string gpusText(const Fingerprint& node) {
  std::string text;
  for (const Counted& model : node.gpus) append(text, times(model.count, known(model.name)));
  return text.empty() ? "none" : text;
}

// The numbers of GPUs stand in "GPUs"; here only where the GPUs of the node differ.
std::string gpuFirmwareText(const Fingerprint& node) {
  if (node.gpu_firmware.size() == 1) return known(node.gpu_firmware[0].name);
  std::string text;
  for (const Counted& firmware : node.gpu_firmware) append(text, times(firmware.count, known(firmware.name)));
  return known(text);
}

std::string nicName(const NicGroup& nic) {
  return known(nic.type) + (nic.board.empty() ? "" : " (" + nic.board + ")");
}

std::string nicsText(const Fingerprint& node) {
  std::vector<Counted> types;
  for (const NicGroup& nic : node.nics) {
    const std::string name = nicName(nic);
    const auto found =
        std::find_if(types.begin(), types.end(), [&](const Counted& type) { return type.name == name; });
    if (found != types.end()) found->count += nic.count;
    else types.push_back({name, nic.count});
  }
  std::string text;
  for (const Counted& type : types) append(text, times(type.count, type.name));
  return text.empty() ? "none" : text;
}

// As gpuFirmwareText(): numbers only where NICs of one type differ.
std::string nicFirmwareText(const Fingerprint& node) {
  std::string text;
  for (const NicGroup& nic : node.nics) {
    const auto groups = std::count_if(node.nics.begin(), node.nics.end(),
                                      [&](const NicGroup& other) { return nicName(other) == nicName(nic); });
    append(text,
           nicName(nic) + " " + (groups > 1 ? times(nic.count, known(nic.firmware)) : known(nic.firmware)));
  }
  return known(text);
}

void addText(JsonWriter& json, const char* key, const std::string& text) {
  json.key(key);
  text.empty() ? json.null() : json.value(text);
}

void addCounted(JsonWriter& json, const char* key, const char* name, const std::vector<Counted>& list) {
  json.key(key).beginRow();
  for (const Counted& each : list) {
    json.beginInlineObject();
    addText(json, name, each.name);
    json.key("count").value(each.count).endInlineObject();
  }
  json.endRow();
}

}  // namespace

std::vector<Field> fieldsOf(const Fingerprint& node) {
  std::vector<Field> fields = {{"Railwise", known(node.railwise)},
                               {"kernel", known(node.kernel)},
                               {"GPUs", gpusText(node)},
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
  char text[16];
  std::snprintf(text, sizeof text, "%08x", hash);
  return text;
}

std::string textOf(const Fingerprint& node, std::size_t columns) {
  std::string fields;
  for (const Field& field : fieldsOf(node))
    fields += (fields.empty() ? "" : "; ") + field.name + ": " + field.value;
  return wrappedText(fields, known(node.host) + " " + hashOf(node) + "  ", "    ", columns);
}

std::string jsonOf(const Fingerprint& node) {
  JsonWriter json;
  json.beginInlineObject().key("schema").value("railwise-fingerprint").key("schema_version").value(1);
  addText(json, "host", node.host);
  json.key("hash").value(hashOf(node));
  addText(json, "railwise", node.railwise);
  addText(json, "kernel", node.kernel);
  json.key("gpu").beginInlineObject();
  addText(json, "vendor", node.gpu_vendor);
  addCounted(json, "models", "model", node.gpus);
  addText(json, "driver", node.gpu_driver);
  addCounted(json, "firmware", "version", node.gpu_firmware);
  json.endInlineObject();
  addText(json, "cuda", node.cuda);
  addText(json, "rocm", node.rocm);
  json.key("modules").beginInlineObject();
  for (const auto& [module, version] : node.modules) addText(json, module.c_str(), version);
  json.endInlineObject().key("nics").beginRow();
  for (const NicGroup& nic : node.nics) {
    json.beginInlineObject();
    addText(json, "type", nic.type);
    addText(json, "board", nic.board);
    addText(json, "firmware", nic.firmware);
    json.key("count").value(nic.count).endInlineObject();
  }
  json.endRow();
  addText(json, "rdma_core", node.rdma_core);
  return json.endInlineObject().text();
}

}  // namespace railwise::cli
