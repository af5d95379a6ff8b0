#include "doctor/pair/measuring/wire.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/text/printable.h"
#include "verbs/gid.h"

namespace railwise::doctor::pair {
namespace {

// The first number of each message: what it is, and the version of its form.
constexpr uint32_t kFactsForm = 0x52575001;
constexpr uint32_t kAddressesForm = 0x52575101;
constexpr uint32_t kHalvesForm = 0x52575201;

constexpr std::size_t kMaxRemarks = 16;
// Above every port and below everything that would overflow a sum: 100 Tb/s in Mb/s, and in GB/s.
constexpr uint32_t kMaxMbps = 100'000'000;
constexpr double kMaxNumber = 1e9;

// A text for a person's terminal: printable, and not too long.
std::string printable(const std::string& text) { return withoutControls(text.substr(0, kMaxText)); }

class Writer {
 public:
  explicit Writer(uint32_t form) { u32(form); }
  Writer& u8(uint8_t value) {
    bytes_.push_back(static_cast<std::byte>(value));
    return *this;
  }
  Writer& u32(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) u8(static_cast<uint8_t>(value >> shift & 0xff));
    return *this;
  }
  Writer& u64(uint64_t value) {
    return u32(static_cast<uint32_t>(value)).u32(static_cast<uint32_t>(value >> 32));
  }
  Writer& number(double value) { return u64(std::bit_cast<uint64_t>(value)); }
  Writer& flag(bool value) { return u8(value ? 1 : 0); }
  Writer& text(const std::string& value) {
    const std::string clean = printable(value);
    u32(static_cast<uint32_t>(clean.size()));
    for (const char c : clean) u8(static_cast<uint8_t>(c));
    return *this;
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// After the first value that is not as it should be, everything is zero and good() is false.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, uint32_t form) : rest_(bytes) { require(u32() == form); }

  uint8_t u8() {
    if (!require(!rest_.empty())) return 0;
    const auto value = std::to_integer<uint8_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    return value;
  }
  uint32_t u32(uint32_t most = UINT32_MAX) {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= static_cast<uint32_t>(u8()) << shift;
    return require(value <= most) ? value : 0;
  }
  uint64_t u64() {
    const uint64_t low = u32();
    return low | static_cast<uint64_t>(u32()) << 32;
  }
  double number() {
    const auto value = std::bit_cast<double>(u64());
    return require(std::isfinite(value) && value >= 0 && value <= kMaxNumber) ? value : 0;
  }
  bool flag() {
    const uint8_t value = u8();
    return require(value <= 1) && value == 1;
  }
  std::string text() {
    const std::size_t size = u32(kMaxText);
    if (!require(size <= rest_.size())) return {};
    const std::string value(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    require(printable(value) == value);
    return good_ ? value : std::string();
  }
  // The length of a list.
  std::size_t count(std::size_t most) { return u32(static_cast<uint32_t>(most)); }
  bool good() const { return good_; }
  bool complete() const { return good_ && rest_.empty(); }

 private:
  bool require(bool condition) {
    if (!condition) {
      good_ = false;
      rest_ = {};
    }
    return good_;
  }

  std::span<const std::byte> rest_;
  bool good_ = true;
};

void writeNic(Writer& out, const NicFacts& nic) {
  out.text(nic.device).u8(nic.port).text(nic.error).flag(nic.active).flag(nic.software);
  out.u8(static_cast<uint8_t>(nic.link)).u32(nic.speed_mbps).u32(nic.mtu_bytes).u32(nic.lid);
  out.u32(nic.pcie_mbps).text(nic.pcie).u32(static_cast<uint32_t>(nic.numa + 1));
  out.u8(static_cast<uint8_t>(nic.gids.size()));
  for (const GidFacts& gid : nic.gids) {
    out.u8(gid.index).u8(gid.roce_version);
    for (const uint8_t byte : gid.value) out.u8(byte);
  }
}

NicFacts readNic(Reader& in, bool& good) {
  NicFacts nic;
  nic.device = in.text();
  nic.port = in.u8();
  nic.error = in.text();
  nic.active = in.flag();
  nic.software = in.flag();
  const uint8_t link = in.u8();
  good = good && link <= static_cast<uint8_t>(LinkKind::kIwarp);
  nic.link = good ? static_cast<LinkKind>(link) : LinkKind::kOther;
  nic.speed_mbps = in.u32(kMaxMbps);
  nic.mtu_bytes = in.u32(1 << 20);
  nic.lid = in.u32(UINT16_MAX);
  nic.pcie_mbps = in.u32(kMaxMbps);
  nic.pcie = in.text();
  nic.numa = static_cast<int>(in.u32(1 << 16)) - 1;
  const uint8_t gids = in.u8();
  good = good && gids <= verbs::kMaxGids;
  for (uint8_t i = 0; good && i < gids && in.good(); ++i) {
    GidFacts gid;
    gid.index = in.u8();
    gid.roce_version = in.u8();
    for (uint8_t& byte : gid.value) byte = in.u8();
    good = good && gid.roce_version <= 2;
    nic.gids.push_back(gid);
  }
  return nic;
}

}  // namespace

Bytes encodeFacts(const EndFacts& facts) {
  Writer out(kFactsForm);
  out.text(facts.host).flag(facts.takes_part).text(facts.failure).text(facts.memory);
  out.number(facts.all_reduce.gbytes).text(facts.all_reduce.rule);
  const std::size_t remarks = std::min(facts.hidden.size(), kMaxRemarks);
  out.u32(static_cast<uint32_t>(remarks));
  for (std::size_t i = 0; i < remarks; ++i) out.text(facts.hidden[i]);
  const std::size_t nics = std::min(facts.nics.size(), kMaxNics);
  out.u32(static_cast<uint32_t>(nics));
  for (std::size_t i = 0; i < nics; ++i) writeNic(out, facts.nics[i]);
  return out.take();
}

std::optional<EndFacts> decodeFacts(std::span<const std::byte> bytes) {
  Reader in(bytes, kFactsForm);
  EndFacts facts;
  facts.host = in.text();
  facts.takes_part = in.flag();
  facts.failure = in.text();
  facts.memory = in.text();
  facts.all_reduce.gbytes = in.number();
  facts.all_reduce.rule = in.text();
  const std::size_t remarks = in.count(kMaxRemarks);
  for (std::size_t i = 0; i < remarks && in.good(); ++i) facts.hidden.push_back(in.text());
  const std::size_t nics = in.count(kMaxNics);
  bool good = true;
  for (std::size_t i = 0; i < nics && good && in.good(); ++i) facts.nics.push_back(readNic(in, good));
  if (!good || !in.complete()) return std::nullopt;
  return facts;
}

Bytes encodeAddresses(std::span<const QueueAddress> addresses) {
  Writer out(kAddressesForm);
  out.u32(static_cast<uint32_t>(addresses.size()));
  for (const QueueAddress& each : addresses) {
    out.flag(each.usable).u32(each.queue_pair).u64(each.data).u32(each.data_key);
    out.u64(each.signals).u32(each.signal_key);
    for (const uint8_t byte : each.cm_address) out.u8(byte);
    out.u32(each.cm_port);
  }
  return out.take();
}

std::optional<std::vector<QueueAddress>> decodeAddresses(std::span<const std::byte> bytes) {
  Reader in(bytes, kAddressesForm);
  const std::size_t count = in.count(kMaxNicPairs);
  std::vector<QueueAddress> addresses;
  for (std::size_t i = 0; i < count && in.good(); ++i) {
    QueueAddress each;
    each.usable = in.flag();
    each.queue_pair = in.u32();
    each.data = in.u64();
    each.data_key = in.u32();
    each.signals = in.u64();
    each.signal_key = in.u32();
    for (uint8_t& byte : each.cm_address) byte = in.u8();
    each.cm_port = static_cast<uint16_t>(in.u32(UINT16_MAX));
    addresses.push_back(each);
  }
  if (!in.complete()) return std::nullopt;
  return addresses;
}

Bytes encodeHalves(std::span<const Half> halves) {
  Writer out(kHalvesForm);
  out.u32(static_cast<uint32_t>(halves.size()));
  for (const Half& half : halves) {
    out.u8(static_cast<uint8_t>(half.reach)).flag(half.wrong_data).text(half.error);
    out.number(half.alone_gbytes).number(half.together_gbytes).number(half.latency_us);
  }
  return out.take();
}

std::optional<std::vector<Half>> decodeHalves(std::span<const std::byte> bytes) {
  Reader in(bytes, kHalvesForm);
  const std::size_t count = in.count(kMaxNicPairs);
  std::vector<Half> halves;
  for (std::size_t i = 0; i < count && in.good(); ++i) {
    Half half;
    const uint8_t reach = in.u8();
    if (reach > static_cast<uint8_t>(Reach::kAll)) return std::nullopt;
    half.reach = static_cast<Reach>(reach);
    half.wrong_data = in.flag();
    half.error = in.text();
    half.alone_gbytes = in.number();
    half.together_gbytes = in.number();
    half.latency_us = in.number();
    halves.push_back(std::move(half));
  }
  if (!in.complete()) return std::nullopt;
  return halves;
}

}  // namespace railwise::doctor::pair
