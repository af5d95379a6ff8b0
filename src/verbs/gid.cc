#include "verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "base/interfaces.h"
#include "base/log.h"
#include "sysfs/file_tree.h"

namespace railwise::verbs {
namespace {

constexpr int kMaxIndex = 255;            // an address handle has eight bits for the index
constexpr std::size_t kTableRoom = 1024;  // entries of all ports of a device; mlx5 has 256 per port

bool isZero(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

// A link-local prefix without an interface id counts as not configured, as in NCCL.
bool isConfigured(const ibv_gid& gid) {
  return !isZero(gid) && (!isLinkLocal(gid) || gid.global.interface_id != 0);
}

int versionOf(uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return 2;
  return type == IBV_GID_TYPE_ROCE_V1 ? 1 : 0;
}

int versionFromSysfs(ibv_context* context, const Port& port, int index) {
  const std::string type = sysfs::firstLine(
      sysfs::liveTree(), std::string("/sys/class/infiniband/") + library().get_device_name(context->device) +
                             "/ports/" + std::to_string(port.number) + "/gid_attrs/types/" +
                             std::to_string(index));
  if (type == "RoCE v2") return 2;
  return type.empty() || !port.ethernet ? 0 : 1;  // "IB/RoCE v1"
}

// False: the entry is empty or cannot be read.
bool readGid(ibv_context* context, const Port& port, int index, Gid& gid) {
  gid = {.index = index};
  if (library().query_gid_ex != nullptr) {
    ibv_gid_entry entry = {};
    if (library().query_gid_ex(context, port.number, static_cast<uint32_t>(index), &entry, 0, sizeof entry) ==
        0) {
      gid.value = entry.gid;
      gid.roce_version = versionOf(entry.gid_type);
      return !isZero(gid.value);
    }
  }
  if (library().query_gid(context, port.number, index, &gid.value) != 0 || isZero(gid.value)) return false;
  gid.roce_version = versionFromSysfs(context, port, index);
  return true;
}

// False: this libibverbs or kernel has no such call.
bool readWholeTable(ibv_context* context, const Port& port, std::vector<Gid>& gids) {
  if (library().query_gid_table == nullptr) return false;
  std::vector<ibv_gid_entry> entries(
      std::max(kTableRoom, 2 * static_cast<std::size_t>(std::max(port.gid_entries, 0))));
  const ssize_t count =
      library().query_gid_table(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  if (count < 0) return false;
  for (const ibv_gid_entry& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
    if (entry.port_num != port.number || entry.gid_index > kMaxIndex || isZero(entry.gid)) continue;
    gids.push_back({static_cast<int>(entry.gid_index), entry.gid, versionOf(entry.gid_type)});
  }
  std::sort(gids.begin(), gids.end(), [](const Gid& a, const Gid& b) { return a.index < b.index; });
  return true;
}

const Gid* findIndex(std::span<const Gid> gids, int index) {
  const auto found = std::find_if(gids.begin(), gids.end(), [&](const Gid& g) { return g.index == index; });
  return found != gids.end() ? &*found : nullptr;
}

Result<GidList> only(std::span<const Gid> gids, int index, const char* device, const Port& port) {
  GidList list;
  if (const Gid* gid = findIndex(gids, index); gid != nullptr) {
    list.push(*gid);
    return list;
  }
  RAILWISE_WARN("%s port %u: GID index %d is empty or cannot be read; `ibv_devinfo -v` lists the table",
                device, port.number, index);
  return Status{Code::kSystem, 0};
}

Result<GidList> usableOnInfiniBand(std::span<const Gid> gids, const char* device, const Port& port,
                                   const Config& config) {
  const Gid* routable = findIndex(gids, config.ib_routable_flid_gid_index);
  const bool has_flid = routable != nullptr && routableLid(routable->value) != 0;
  return only(gids, has_flid ? routable->index : 0, device, port);
}

// The GIDs that NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE select.
class Wanted {
 public:
  explicit Wanted(const Config& config) : family_(config.ib_addr_family), text_(config.ib_addr_range) {
    range_ = parseAddressRange(text_);
  }
  bool acceptsAll() const { return family_.empty() && !range_; }
  bool operator()(const ibv_gid& gid) const {
    if (!family_.empty() && isIpv4(gid) != (family_ == "AF_INET")) return false;
    return !range_ || range_->contains(std::span<const uint8_t, 16>(gid.raw));
  }
  std::string words() const {
    std::string words = family_.empty() ? "" : "NCCL_IB_ADDR_FAMILY=" + family_;
    if (range_) words += (words.empty() ? "NCCL_IB_ADDR_RANGE=" : " and NCCL_IB_ADDR_RANGE=") + text_;
    return words;
  }

 private:
  const std::string& family_;
  const std::string& text_;
  std::optional<AddressRange> range_;
};

// A higher value is better. A GID of unknown version ranks lowest.
int preference(const Gid& gid, int wanted_version) {
  const int address = isIpv4(gid.value) ? 2 : isLinkLocal(gid.value) ? 0 : 1;
  const int version = gid.roce_version == wanted_version ? 2 : gid.roce_version != 0 ? 1 : 0;
  return version * 3 + address;
}

Reach infinibandReach(const ibv_gid& local, const ibv_gid& remote) {
  const uint16_t flid = routableLid(remote);
  // A routable LID is in the middle of the prefix. The last 16 bits are the number of the subnet (NCCL
  // 2.30.7, ncclIbExtractLocalSubnetPrefix).
  const bool same_number = std::memcmp(local.raw + 6, remote.raw + 6, 2) == 0;
  const bool same_start = std::memcmp(local.raw, remote.raw, 4) == 0;
  if (same_number && (same_start || flid != 0 || routableLid(local) != 0)) return Reach::kSameSubnet;
  return flid != 0 ? Reach::kRouted : Reach::kSameLink;
}

// Was nothing said of this place before? A connection that looks for a path asks again and again.
bool isNew(const std::string& place) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  return said.insert(place).second;
}

}  // namespace

bool Gid::operator==(const Gid& other) const {
  return index == other.index && roce_version == other.roce_version &&
         std::memcmp(value.raw, other.value.raw, sizeof value.raw) == 0;
}

bool GidList::push(const Gid& gid) {
  if (count_ == gids_.size()) return false;
  gids_[count_++] = gid;
  return true;
}

std::vector<Gid> readGids(ibv_context* context, const Port& port) {
  std::vector<Gid> gids;
  if (readWholeTable(context, port, gids)) return gids;
  const int entries = std::min(port.gid_entries, kMaxIndex + 1);
  for (int index = 0; index < entries; ++index) {
    Gid gid;
    if (readGid(context, port, index, gid)) gids.push_back(gid);
  }
  return gids;
}

Result<GidList> usableAddresses(std::span<const Gid> gids, const char* device, const Port& port,
                                const Config& config) {
  std::vector<Gid> configured;
  std::copy_if(gids.begin(), gids.end(), std::back_inserter(configured),
               [](const Gid& gid) { return isConfigured(gid.value); });
  if (const Wanted wanted(config); !wanted.acceptsAll()) {
    std::vector<Gid> matching;
    std::copy_if(configured.begin(), configured.end(), std::back_inserter(matching),
                 [&](const Gid& gid) { return wanted(gid.value); });
    if (matching.empty() && !configured.empty()) {
      const std::string place = std::string(device) + " port " + std::to_string(port.number);
      if (isNew(place))
        RAILWISE_WARN("%s: no GID is of %s; others are used. `ibv_devinfo -v` lists them", place.c_str(),
                      wanted.words().c_str());
    } else {
      configured = std::move(matching);
    }
  }
  std::stable_sort(configured.begin(), configured.end(), [&](const Gid& a, const Gid& b) {
    return preference(a, config.ib_roce_version) > preference(b, config.ib_roce_version);
  });
  GidList list;
  for (const Gid& gid : configured) list.push(gid);
  if (!list.empty()) return list;
  const std::string place = std::string(device) + " port " + std::to_string(port.number);
  constexpr const char* kNone = "%s: no usable GID: give its network interface an IP address";
  if (isNew(place + ": none")) RAILWISE_WARN(kNone, place.c_str());
  else RAILWISE_INFO(log::kNet, kNone, place.c_str());
  return Status{Code::kSystem, 0};
}

Result<GidList> usableGids(std::span<const Gid> gids, const char* device, const Port& port,
                           const Config& config) {
  if (!port.ethernet) return usableOnInfiniBand(gids, device, port, config);
  if (config.ib_gid_index < 0) return usableAddresses(gids, device, port, config);
  if (config.ib_gid_index < port.gid_entries) return only(gids, config.ib_gid_index, device, port);
  RAILWISE_WARN(
      "%s port %u: NCCL_IB_GID_INDEX=%d is beyond the GID table of %d entries; `ibv_devinfo -v` lists it",
      device, port.number, config.ib_gid_index, port.gid_entries);
  return Status{Code::kInvalidUsage, 0};
}

Result<GidList> usableGids(ibv_context* context, const Port& port, const Config& config) {
  return usableGids(readGids(context, port), library().get_device_name(context->device), port, config);
}

Reach reachability(const Gid& local, const Gid& remote, bool ethernet, int subnet_prefix_bits) {
  if (!ethernet) return infinibandReach(local.value, remote.value);
  if (isIpv4(local.value) != isIpv4(remote.value)) return Reach::kNever;
  if (isLinkLocal(local.value) != isLinkLocal(remote.value)) return Reach::kNever;
  const bool known = local.roce_version != 0 && remote.roce_version != 0;
  if (known && local.roce_version != remote.roce_version) return Reach::kNever;
  if (isLinkLocal(local.value)) return Reach::kSameLink;
  const int bits = isIpv4(local.value) ? 96 + std::clamp(subnet_prefix_bits, 0, 32) : 64;
  if (equalPrefix(std::span<const uint8_t, 16>(local.value.raw),
                  std::span<const uint8_t, 16>(remote.value.raw), bits))
    return Reach::kSameSubnet;
  // RoCE v1 has no IP header, so no router can forward it.
  return known && local.roce_version == 1 ? Reach::kNever : Reach::kRouted;
}

std::optional<GidPair> choosePair(std::span<const Gid> local, std::span<const Gid> remote, bool ethernet,
                                  int subnet_prefix_bits) {
  std::optional<GidPair> best;
  for (std::size_t l = 0; l < local.size(); ++l) {
    for (std::size_t r = 0; r < remote.size(); ++r) {
      const Reach reach = reachability(local[l], remote[r], ethernet, subnet_prefix_bits);
      if (reach == Reach::kNever) continue;
      const bool better =
          !best || reach > best->reach || (reach == best->reach && l + r < best->local + best->remote);
      if (better) best = {l, r, reach};
    }
  }
  return best;
}

Result<Gid> chooseGid(ibv_context* context, const Port& port, const Config& config) {
  const Result<GidList> gids = usableGids(context, port, config);
  if (!gids.ok()) return gids.status();
  return (*gids)[0];
}

uint16_t routableLid(const ibv_gid& gid) { return static_cast<uint16_t>(gid.raw[4] << 8 | gid.raw[5]); }

bool isIpv4(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

bool isLinkLocal(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

std::string gidText(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool ipv4 = isIpv4(gid);
  inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.raw + (ipv4 ? 12 : 0), text, sizeof text);
  return text;
}

GidTable::GidTable(ibv_context* context, const Port& port, const Config& config)
    : context_(context), port_(port), config_(config) {}

Result<GidList> GidTable::get() {
  const std::lock_guard lock(mutex_);
  if (valid_ && holds(usable_[0])) return usable_;
  valid_ = false;
  // invalidate() takes the lock too. If it is called while the table is read, it takes effect after that, so
  // the next call reads again.
  Result<GidList> read = usableGids(context_, port_, config_);
  if (!read.ok()) return read;
  usable_ = *read;
  valid_ = true;
  noteUsable();
  return read;
}

bool GidTable::holds(const Gid& gid) const {
  Gid now;
  return readGid(context_, port_, gid.index, now) && now == gid;
}

void GidTable::invalidate() {
  const std::lock_guard lock(mutex_);
  valid_ = false;
}

}  // namespace railwise::verbs
