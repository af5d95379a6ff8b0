// GIDs: the addresses of a port. Decides which GIDs a port may use, best first, and which local GID can reach
// which remote GID. A port sends its peer up to kMaxGids of its GIDs. The listener chooses the pair
// (net/wireup/pairing.h).
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings/config.h"
#include "verbs/port.h"

namespace railwise::verbs {

struct Gid {
  int index = 0;  // index in the port's table; of no meaning for a remote GID
  ibv_gid value = {};
  int roce_version = 0;  // 2 or 1; 0 on InfiniBand, and if the version is unknown

  bool operator==(const Gid& other) const;
};

// Limited, because the GIDs travel in the handshake: usually an IPv4, an IPv6 and a link-local address.
inline constexpr int kMaxGids = 3;

// Up to kMaxGids GIDs, best first. Plain value.
class GidList {
 public:
  bool push(const Gid& gid);  // false: the list is full
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const Gid& operator[](std::size_t at) const { return gids_[at]; }
  const Gid* begin() const { return gids_.data(); }
  const Gid* end() const { return gids_.data() + count_; }
  operator std::span<const Gid>() const { return {begin(), end()}; }

 private:
  std::array<Gid, kMaxGids> gids_ = {};
  std::size_t count_ = 0;
};

// Reads the whole table of the port, in the order of the indices. Leaves out empty entries and entries that
// cannot be read (in containers: those of other network namespaces). Makes one call if this libibverbs can do
// that, otherwise one call for each entry.
std::vector<Gid> readGids(ibv_context* context, const Port& port);

// Returns the GIDs that may be used, best first, at most kMaxGids. `gids`: the result of readGids().
// InfiniBand: the entry NCCL_IB_ROUTABLE_FLID_GID_INDEX if it has a FLID, otherwise entry 0.
// RoCE: if NCCL_IB_GID_INDEX is set, only that entry. Otherwise the entries that match NCCL_IB_ADDR_FAMILY
// and NCCL_IB_ADDR_RANGE (if none matches: all, with one WARN). The order is: the preferred
// NCCL_IB_ROCE_VERSION_NUM before the other, then IPv4 before routable IPv6 before link-local, then by index.
// Errors, logged with device and port: kInvalidUsage (index beyond the table), kSystem (no GID can be used).
// Source of the rules: NCCL 2.30.7, net_ib/connect.cc (ncclIbGetGidIndex), here applied to the whole table.
Result<GidList> usableGids(ibv_context* context, const Port& port, const Config& config);
Result<GidList> usableGids(std::span<const Gid> gids, const char* device, const Port& port,
                           const Config& config);
// Applies the RoCE rule without NCCL_IB_GID_INDEX, for addresses that have no index: those of RDMA CM. Errors
// as for usableGids().
Result<GidList> usableAddresses(std::span<const Gid> addresses, const char* device, const Port& port,
                                const Config& config);

// How well two GIDs reach each other. A higher value is better.
enum class Reach : uint8_t {
  kNever,  // IPv4 and IPv6, link-local and global, RoCE v1 and v2, or RoCE v1 across subnets
  // Both link-local, or InfiniBand subnets without a routable LID: they communicate only if both are on one
  // link, which cannot be known here.
  kSameLink,
  kRouted,  // different subnets, through a router
  // One subnet. IPv4: the first `subnet_prefix_bits` are equal; IPv6: the first 64; InfiniBand: the subnet
  // prefix.
  kSameSubnet,
};
// `subnet_prefix_bits`: NCCL_IB_SUBNET_PREFIX_LEN. RoCE version 0 matches both versions.
Reach reachability(const Gid& local, const Gid& remote, bool ethernet, int subnet_prefix_bits);

struct GidPair {
  std::size_t local;  // `local` and `remote` are positions in the lists
  std::size_t remote;
  Reach reach;
};
// Returns the pair with the best reach. Between equal pairs, the pair that both ends prefer most. Nothing: no
// pair can communicate.
std::optional<GidPair> choosePair(std::span<const Gid> local, std::span<const Gid> remote, bool ethernet,
                                  int subnet_prefix_bits);

// The first GID of usableGids().
Result<Gid> chooseGid(ibv_context* context, const Port& port, const Config& config);

// Routable LID (FLID) of an InfiniBand GID: bytes 4 and 5 (NCCL 2.30.7, ncclIbExtractFlid). 0: the GID has
// none.
uint16_t routableLid(const ibv_gid& gid);

bool isIpv4(const ibv_gid& gid);
bool isLinkLocal(const ibv_gid& gid);

// "10.0.0.1" for an IPv4 address, else "fe80::1" as inet_ntop writes it.
std::string gidText(const ibv_gid& gid);

// The usable GIDs of one port. Reads them once, and again after the table may have changed. Thread-safe. The
// context must outlive this object.
class GidTable {
 public:
  GidTable(ibv_context* context, const Port& port, const Config& config);

  // The result of usableGids() for the table as it is now. While the table does not change, this costs one
  // query of the best entry. Errors are those of usableGids(). An error is not cached: the next call tries
  // again.
  Result<GidList> get();
  // Is this entry (from get()) unchanged? Costs one query.
  bool holds(const Gid& gid) const;
  // Call it when the table may have changed: the next get() reads the table. Any thread may call it at any
  // time.
  void invalidate();
  // Has a connection ever found a usable address of this port? A port that lost it is like one that is down;
  // else it may be configured wrongly. noteUsable(): it has one, perhaps of RDMA CM. Any thread.
  bool wasUsable() const { return was_usable_.load(std::memory_order_relaxed); }
  void noteUsable() { was_usable_.store(true, std::memory_order_relaxed); }

 private:
  ibv_context* const context_;
  std::atomic<bool> was_usable_{false};
  const Port port_;
  const Config config_;  // a copy: the table may outlive the caller's
  std::mutex mutex_;     // guards the fields below
  bool valid_ = false;
  GidList usable_;
};

}  // namespace railwise::verbs
