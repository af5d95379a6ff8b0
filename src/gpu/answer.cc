#include "gpu/answer.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/json.h"
#include "gpu/vendor.h"

namespace railwise::gpu {
namespace {

constexpr uint32_t kAnswerMagic = 0x52574750;  // "RWGP"
constexpr std::size_t kAnswerHead = sizeof(uint32_t) + sizeof(uint64_t);
// The longest text of a library is a buffer of 256 bytes; remarks are longer.
constexpr uint64_t kMaxText = 4096;
// Links and peers of kMaxDevices devices, each with each.
constexpr uint64_t kMaxElements = uint64_t{kMaxDevices} * kMaxDevices;
// Beyond it a figure is a mistake: NVLink 5 has 900 GB/s over all links of a GPU.
constexpr double kMaxGbPerSecond = 100'000;
constexpr int kMaxLinkWidth = 1024;
constexpr std::size_t kMaxRemarks = 64;

class AnswerWriter {
 public:
  static constexpr bool kReads = false;
  template <typename Number>
  void number(const Number& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    const std::string cut = value.substr(0, kMaxText);
    number(uint64_t{cut.size()});
    bytes_ += cut;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// After the first mistake it gives zeros and empty texts.
class AnswerReader {
 public:
  static constexpr bool kReads = true;
  explicit AnswerReader(std::string_view bytes) : bytes_(bytes) {}
  template <typename Number>
  void number(Number& value) {
    value = {};
    if (bytes_.size() < sizeof value) {
      fail();
      return;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
  }
  void text(std::string& value) {
    uint64_t size = 0;
    number(size);
    if (size > kMaxText || size > bytes_.size()) {
      fail();
      size = 0;
    }
    value = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
  }
  void fail() {
    failed_ = true;
    bytes_ = {};
  }
  bool good() const { return !failed_ && bytes_.empty(); }
  bool failed() const { return failed_; }

 private:
  std::string_view bytes_;
  bool failed_ = false;
};

// field(archive, value) reads or writes one value, whatever the archive does.

template <typename Archive, typename Number>
requires(std::is_arithmetic_v<std::remove_const_t<Number>> &&
         !std::is_same_v<std::remove_const_t<Number>, bool>) void field(Archive& archive, Number& value) {
  archive.number(value);
}

template <typename Archive, typename Text>
requires std::is_same_v<std::remove_const_t<Text>, std::string>
void field(Archive& archive, Text& value) { archive.text(value); }

// A bool that is neither 0 nor 1 must never exist.
template <typename Archive, typename Truth>
requires std::is_same_v < std::remove_const_t<Truth>,
bool > void field(Archive& archive, Truth& value) {
  uint8_t byte = 0;
  if constexpr (!Archive::kReads) byte = value ? 1 : 0;
  archive.number(byte);
  if constexpr (Archive::kReads) value = byte == 1;
}

template <typename Enum, typename Archive, typename Value>
void enumField(Archive& archive, Value& value, Enum last) {
  uint8_t byte = 0;
  if constexpr (!Archive::kReads) byte = static_cast<uint8_t>(value);
  archive.number(byte);
  if constexpr (Archive::kReads) {
    if (byte > static_cast<uint8_t>(last)) archive.fail();
    else value = static_cast<Enum>(byte);
  }
}

template <typename Archive, typename Optional>
requires requires(Optional& optional) { optional.has_value(); }
void field(Archive& archive, Optional& value) {
  bool there = value.has_value();
  field(archive, there);
  if (!there) return;
  if constexpr (Archive::kReads) value.emplace();
  field(archive, *value);
}

template <typename Archive, typename HealthOrConst>
requires std::is_same_v<std::remove_const_t<HealthOrConst>, Health>
void field(Archive& archive, HealthOrConst& health) {
  field(archive, health.ecc_uncorrected);
  field(archive, health.link_errors);
  field(archive, health.throttled);
  field(archive, health.throttle_reason);
}

template <typename Archive, typename DeviceOrConst>
requires std::is_same_v<std::remove_const_t<DeviceOrConst>, Device>
void field(Archive& archive, DeviceOrConst& device) {
  enumField(archive, device.vendor, Vendor::kAmd);
  for (auto* number :
       {&device.index, &device.vendor_index, &device.sm, &device.numa, &device.parent, &device.fabric_clique})
    field(archive, *number);
  for (auto* text : {&device.model, &device.architecture, &device.busid, &device.uuid, &device.driver,
                     &device.firmware, &device.partition, &device.fabric_cluster, &device.fabric_state})
    field(archive, *text);
  field(archive, device.memory_bytes);
  field(archive, device.memory_used_bytes);
  field(archive, device.partitioned);
  field(archive, device.share);
  field(archive, device.utilisation_percent);
  field(archive, device.processes);
  field(archive, device.health);
}

template <typename Archive, typename LinkOrConst>
requires std::is_same_v<std::remove_const_t<LinkOrConst>, Link>
void field(Archive& archive, LinkOrConst& link) {
  enumField(archive, link.kind, LinkKind::kPcie);
  enumField(archive, link.latency, LatencyClass::kHost);
  for (auto* number : {&link.from, &link.to, &link.width, &link.version}) field(archive, *number);
  field(archive, link.to_busid);
  field(archive, link.gb_per_s);
}

template <typename Archive, typename PeerOrConst>
requires std::is_same_v<std::remove_const_t<PeerOrConst>, PeerStatus>
void field(Archive& archive, PeerOrConst& peer) {
  field(archive, peer.from);
  field(archive, peer.to);
  field(archive, peer.allowed);
  field(archive, peer.reason);
}

template <typename Elements>
void list(AnswerWriter& writer, Elements& elements) {
  writer.number(uint64_t{elements.size()});
  for (const auto& element : elements) field(writer, element);
}

template <typename Elements>
void list(AnswerReader& reader, Elements& elements) {
  uint64_t count = 0;
  reader.number(count);
  if (count > kMaxElements) reader.fail();
  for (uint64_t i = 0; i < count && !reader.failed(); ++i) field(reader, elements.emplace_back());
}

template <typename Archive, typename Topology>
void topologyFields(Archive& archive, Topology& topology) {
  list(archive, topology.devices);
  list(archive, topology.links);
  list(archive, topology.peers);
  list(archive, topology.remarks);
}

// Texts go to terminals and into files: no control characters, nothing that is not UTF-8.
void cleanText(std::string& text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  text = cleanUtf8(text);
  while (!text.empty() && text.back() == ' ') text.pop_back();
}

void cleanDevice(Device& device, int position, int devices, std::vector<std::string>& wrong) {
  for (std::string* text :
       {&device.model, &device.architecture, &device.busid, &device.uuid, &device.driver, &device.firmware,
        &device.partition, &device.fabric_cluster, &device.fabric_state, &device.health.throttle_reason})
    cleanText(*text);
  device.index = position;
  if (device.parent < -1 || device.parent >= devices || device.parent == position) device.parent = -1;
  if (!std::isfinite(device.share) || device.share <= 0 || device.share > 1) device.share = 1;
  if (device.numa < -1 || device.numa > 65535) device.numa = -1;
  const std::string gpu = "GPU " + std::to_string(position);
  // No GPU has a PiB.
  if (device.memory_bytes > uint64_t{1} << 50) {
    wrong.push_back(gpu + " is said to have " + std::to_string(device.memory_bytes) + " bytes of memory");
    device.memory_bytes = 0;
  }
  if (device.memory_used_bytes.value_or(0) > device.memory_bytes) device.memory_used_bytes.reset();
  if (const int percent = device.utilisation_percent.value_or(0); percent < 0 || percent > 100)
    device.utilisation_percent.reset();
  if (device.processes.value_or(0) < 0) device.processes.reset();
}

}  // namespace

std::string encodeAnswer(const GpuTopology& topology) {
  AnswerWriter body;
  topologyFields(body, topology);
  AnswerWriter head;
  head.number(kAnswerMagic);
  head.number(uint64_t{body.bytes().size()});
  return head.bytes() + body.bytes();
}

bool answerIsWhole(std::string_view bytes) {
  AnswerReader head(bytes);
  uint32_t magic = 0;
  uint64_t size = 0;
  head.number(magic);
  head.number(size);
  return !head.failed() && bytes.size() - kAnswerHead >= size;
}

Outcome<GpuTopology> decodeAnswer(std::string_view bytes) {
  AnswerReader reader(bytes);
  uint32_t magic = 0;
  uint64_t size = 0;
  reader.number(magic);
  reader.number(size);
  GpuTopology topology;
  if (magic == kAnswerMagic && size == bytes.size() - kAnswerHead) {
    topologyFields(reader, topology);
    if (reader.good()) return topology;
  }
  return Error{"the answer of the process that asked it cannot be read"};
}

void sanitize(GpuTopology& topology, const std::string& name) {
  std::vector<std::string> wrong;
  if (topology.devices.size() > kMaxDevices) {
    wrong.push_back("there are said to be " + std::to_string(topology.devices.size()) + " GPUs");
    topology.devices.resize(kMaxDevices);
  }
  const int devices = static_cast<int>(topology.devices.size());
  for (int i = 0; i < devices; ++i) cleanDevice(topology.devices[i], i, devices, wrong);

  std::erase_if(topology.links, [&](Link& link) {
    cleanText(link.to_busid);
    const bool there = link.from >= 0 && link.from < devices && link.to >= -1 && link.to < devices;
    if (!there || link.from == link.to) {
      wrong.push_back("a link goes from GPU " + std::to_string(link.from) + " to GPU " +
                      std::to_string(link.to) + (there ? " itself" : ", and there is no such GPU"));
      return true;
    }
    if (link.width < 0 || link.width > kMaxLinkWidth || !std::isfinite(link.gb_per_s) || link.gb_per_s < 0 ||
        link.gb_per_s > kMaxGbPerSecond) {
      wrong.push_back("a link of GPU " + std::to_string(link.from) + " is said to be " +
                      std::to_string(link.width) + " wide with " + std::to_string(link.gb_per_s) + " GB/s");
      return true;
    }
    return false;
  });
  std::erase_if(topology.peers, [&](PeerStatus& peer) {
    cleanText(peer.reason);
    return peer.from < 0 || peer.from >= devices || peer.to < 0 || peer.to >= devices || peer.from == peer.to;
  });
  for (std::string& remark : topology.remarks) cleanText(remark);
  for (const std::string& text : wrong)
    topology.remarks.push_back(name + " gave a wrong answer, which is left out here: " + text);
  if (topology.remarks.size() > kMaxRemarks) {
    const std::size_t more = topology.remarks.size() - kMaxRemarks;
    topology.remarks.resize(kMaxRemarks);
    topology.remarks.push_back(name + ": and " + std::to_string(more) + " remarks more");
  }
}

}  // namespace railwise::gpu
