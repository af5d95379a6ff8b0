#include "doctor/pair/measuring/wire.h"

#include <string_view>

#include "base/text/json_fields.h"

namespace railwise::doctor::pair {
namespace {

// What a message is, and the version of its form.
constexpr const char* kFactsForm = "railwise-pair-facts-4";
constexpr const char* kAddressesForm = "railwise-pair-addresses-2";
constexpr const char* kHalvesForm = "railwise-pair-halves-2";
constexpr const char* kNcclModelForm = "railwise-pair-nccl-model-1";

constexpr std::size_t kMaxRemarks = 16;
// Above every port and below everything that would overflow a sum: 100 Tb/s in Mb/s, and in GB/s.
constexpr uint32_t kMaxMbps = 100'000'000;
constexpr double kMaxNumber = 1e9;
constexpr uint32_t kAny32 = UINT32_MAX;
constexpr uint64_t kAny64 = UINT64_MAX;

// A text for a person's terminal: printable, and not too long.
std::string printable(const std::string& text) { return withoutControls(text.substr(0, kMaxText)); }

constexpr auto describeGid = [](auto& fields, auto& gid) {
  fields.within("index", gid.index, 0, int{UINT16_MAX});
  fields.within("roce_version", gid.roce_version, 0, 2);
  fields.bytes("value", gid.value.raw);
};

constexpr auto describeNic = [](auto& fields, auto& nic) {
  fields.text("device", nic.device);
  fields.within("port", nic.port, uint8_t{0}, uint8_t{UINT8_MAX});
  fields.text("error", nic.error);
  fields.truth("active", nic.active);
  fields.truth("software", nic.software);
  fields.code("link", nic.link, LinkKind::kIwarp);
  fields.within("speed_mbps", nic.speed_mbps, 0U, kMaxMbps);
  fields.within("mtu", nic.mtu_bytes, 0U, 1U << 20);
  fields.within("lid", nic.lid, 0U, uint32_t{UINT16_MAX});
  fields.within("pcie_mbps", nic.pcie_mbps, 0U, kMaxMbps);
  fields.text("pcie", nic.pcie);
  fields.within("numa", nic.numa, -1, 1 << 16);
  fields.list("gids", nic.gids, verbs::kMaxGids, describeGid);
  fields.within("ece_vendor", nic.ece_vendor, 0U, kAny32);
  fields.within("ece_options", nic.ece_options, 0U, kAny32);
};

constexpr auto describeModel = [](auto& fields, auto& model) {
  fields.measure("gbytes", model.gbytes, kMaxNumber);
  fields.text("rule", model.rule);
};

constexpr auto describeEnd = [](auto& fields, auto& end) {
  fields.text("host", end.host);
  fields.truth("takes_part", end.takes_part);
  fields.text("failure", end.failure);
  fields.text("memory", end.memory);
  fields.object("all_reduce", end.all_reduce, describeModel);
  fields.texts("hidden", end.hidden, kMaxRemarks);
  fields.list("nics", end.nics, kMaxNics, describeNic);
};

constexpr auto describeAddress = [](auto& fields, auto& address) {
  fields.truth("usable", address.usable);
  fields.within("queue_pair", address.queue_pair, 0U, kAny32);
  fields.within("data", address.data, uint64_t{0}, kAny64);
  fields.within("data_key", address.data_key, 0U, kAny32);
  fields.within("signals", address.signals, uint64_t{0}, kAny64);
  fields.within("signal_key", address.signal_key, 0U, kAny32);
  fields.bytes("cm_address", address.cm_address);
  fields.within("cm_port", address.cm_port, uint16_t{0}, uint16_t{UINT16_MAX});
};
constexpr auto describeAddresses = [](auto& fields, auto& addresses) {
  fields.list("addresses", addresses, kMaxNicPairs, describeAddress);
};

constexpr auto describeHalf = [](auto& fields, auto& half) {
  fields.code("reach", half.reach, Reach::kAll);
  fields.truth("wrong_data", half.wrong_data);
  fields.text("error", half.error);
  fields.measure("alone", half.alone_gbytes, kMaxNumber);
  fields.measure("together", half.together_gbytes, kMaxNumber);
  fields.measure("latency", half.latency_us, kMaxNumber);
};
constexpr auto describeHalves = [](auto& fields, auto& halves) {
  fields.list("halves", halves, kMaxNicPairs, describeHalf);
};

constexpr auto describeNcclModel = [](auto& fields, auto& model) {
  fields.measure("gbytes", model.gbytes, kMaxNumber);
  fields.measure("ring_gbytes", model.ring_gbytes, kMaxNumber);
  fields.texts("ring_nics", model.ring_nics, kMaxNics);
  fields.text("text", model.text);
  fields.text("algorithm", model.algorithm);
  fields.text("limit", model.limit);
};

template <typename Message, typename Describe>
Bytes encode(const char* form, const Message& message, Describe describe) {
  JsonWriter json;
  json.beginInlineObject().key("form").value(form);
  FieldWriter fields(json);
  describe(fields, message);
  std::string text = json.endInlineObject().text();
  text.pop_back();  // the newline: a message that is cut anywhere is no JSON
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

template <typename Message, typename Describe>
std::optional<Message> decode(const char* form, std::span<const std::byte> bytes, Describe describe) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || document.value("form", nlohmann::json()) != form) return std::nullopt;
  Message message;
  std::string error;
  FieldReader fields(document, "", error, printable);
  describe(fields, message);
  return error.empty() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace

Bytes encodeFacts(const EndFacts& facts) { return encode(kFactsForm, facts, describeEnd); }
std::optional<EndFacts> decodeFacts(std::span<const std::byte> bytes) {
  return decode<EndFacts>(kFactsForm, bytes, describeEnd);
}

Bytes encodeAddresses(const std::vector<QueueAddress>& addresses) {
  return encode(kAddressesForm, addresses, describeAddresses);
}
std::optional<std::vector<QueueAddress>> decodeAddresses(std::span<const std::byte> bytes) {
  return decode<std::vector<QueueAddress>>(kAddressesForm, bytes, describeAddresses);
}

Bytes encodeHalves(const std::vector<Half>& halves) { return encode(kHalvesForm, halves, describeHalves); }
std::optional<std::vector<Half>> decodeHalves(std::span<const std::byte> bytes) {
  return decode<std::vector<Half>>(kHalvesForm, bytes, describeHalves);
}

Bytes encodeNcclModel(const NcclModel& model) { return encode(kNcclModelForm, model, describeNcclModel); }
std::optional<NcclModel> decodeNcclModel(std::span<const std::byte> bytes) {
  return decode<NcclModel>(kNcclModelForm, bytes, describeNcclModel);
}

}  // namespace railwise::doctor::pair
