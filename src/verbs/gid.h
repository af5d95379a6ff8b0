// GIDs: the addresses of a port. Which of its own a port may use, best first, and which pair of a local and a
// remote one can talk. What a peer may be told: up to kMaxGids of them; the connector picks the pair.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "verbs/port.h"

namespace railwise::verbs {

struct Gid {
  int index = 0;  // in the port's table; of a remote GID it means nothing here
  ibv_gid value = {};
  int roce_version = 0;  // 2 or 1; 0 on InfiniBand, and where nobody can tell

  bool operator==(const Gid& other) const;
};

// Bounded, since they travel in the handshake: an IPv4, an IPv6 and a link-local address, usually.
inline constexpr int kMaxGids = 3;

// Up to kMaxGids GIDs, best first. Plain value.
class GidList {
 public:
  bool push(const Gid& gid);  // false: full
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

// The whole table of the port in the order of the indices, without empty entries and those that cannot be
// read (containers: entries of other network namespaces). One call where libibverbs can, else one for each
// entry.
std::vector<Gid> readGids(ibv_context* context, const Port& port);

// Those that may be used, best first, cut to kMaxGids. `gids`: readGids' answer.
// InfiniBand: the entry NCCL_IB_ROUTABLE_FLID_GID_INDEX if it has a FLID, else entry 0. RoCE:
// NCCL_IB_GID_INDEX when set, and no other; else those of NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE (all,
// with one WARN, when none is), the preferred NCCL_IB_ROCE_VERSION_NUM before the other, IPv4 before routable
// IPv6 before link-local, then by index. Errors, logged with device and port: kInvalidUsage (index beyond the
// table), kSystem (none can be used). Source of the rules: NCCL 2.30.7, net_ib/connect.cc
// (ncclIbGetGidIndex), applied to the whole table.
Result<GidList> usableGids(ibv_context* context, const Port& port, const Config& config);
Result<GidList> usableGids(std::span<const Gid> gids, const char* device, const Port& port,
                           const Config& config);
// The rule of RoCE without an index, for addresses that have none: RDMA CM's. Errors as usableGids.
Result<GidList> usableAddresses(std::span<const Gid> addresses, const char* device, const Port& port,
                                const Config& config);

// How far two GIDs are from each other; more is better.
enum class Reach : uint8_t {
  kNever,       // IPv4 and IPv6, link-local and global, RoCE v1 and v2, RoCE v1 across subnets
  kSameLink,    // both link-local, or InfiniBand subnets without a routable LID: they talk if they are on one
                // link, which nobody can tell from here
  kRouted,      // different subnets: through a router
  kSameSubnet,  // IPv4: the first `subnet_prefix_bits`; IPv6: the first 64; InfiniBand: the subnet prefix
};
// `subnet_prefix_bits`: NCCL_IB_SUBNET_PREFIX_LEN. A RoCE version of 0 goes with either.
Reach reachability(const Gid& local, const Gid& remote, bool ethernet, int subnet_prefix_bits);

struct GidPair {
  std::size_t local;  // positions in the lists
  std::size_t remote;
  Reach reach;
};
// The pair with the best reach; between equals the one that both ends prefer most. Nothing: no pair can talk.
std::optional<GidPair> choosePair(std::span<const Gid> local, std::span<const Gid> remote, bool ethernet,
                                  int subnet_prefix_bits);

// The first of usableGids.
Result<Gid> chooseGid(ibv_context* context, const Port& port, const Config& config);

// Routable LID of an InfiniBand GID, 0 when it has none: bytes 4 and 5 (NCCL 2.30.7, ncclIbExtractFlid).
uint16_t routableLid(const ibv_gid& gid);

bool isIpv4(const ibv_gid& gid);
bool isLinkLocal(const ibv_gid& gid);

// "10.0.0.1" for an IPv4 address, else "fe80::1" as inet_ntop writes it.
std::string gidText(const ibv_gid& gid);

// The usable GIDs of one port, read once and again when the table may have changed. Thread-safe. The context
// must outlive it.
class GidTable {
 public:
  GidTable(ibv_context* context, const Port& port, const Config& config);

  // usableGids of now: costs one query of the best entry while the table stays as it is. Errors as
  // usableGids, not remembered: the next call tries again.
  Result<GidList> get();
  // Is this entry (of get()) still what it was? One query.
  bool holds(const Gid& gid) const;
  // The table may have changed: the next get() reads it. Any thread, at any time.
  void invalidate();

 private:
  ibv_context* const context_;
  const Port port_;
  const Config& config_;
  std::mutex mutex_;  // guards what follows
  bool valid_ = false;
  GidList usable_;
};

}  // namespace railwise::verbs
