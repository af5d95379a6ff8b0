#include "plugin/random_transfers/cell.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "plugin/test_device.h"
#include "softdev/queues/random.h"

namespace railwise::test {
namespace {

using softdev::Random;

constexpr const char* kLinks[] = {"ib", "roce", "iwarp"};

int mostRails(int version) { return version >= 12 ? 8 : version >= 9 ? 4 : 1; }

// Can the devices at hand be this?
bool possible(const Cell& cell) {
  if (!onRealDevices()) return true;
  return cell.link == (onIwarp() ? "iwarp" : "roce") && cell.rails <= deviceCount() && !cell.unequal &&
         !cell.engine && !cell.adversarial;
}

std::array<std::string, 8> values(const Cell& cell) {
  return {"v" + std::to_string(cell.version),
          cell.link,
          std::to_string(cell.rails),
          cell.unequal ? "unequal" : "equal",
          cell.engine ? "engine" : "inline",
          cell.adversarial ? "adversarial" : "plain",
          "qps" + std::to_string(cell.queue_pairs),
          cell.split ? "split" : "whole"};
}

// The configuration of a cell's software device.
std::string softwareDevice(const Cell& cell, uint64_t seed, Random& random) {
  const auto chance = [&](uint64_t of) { return random.below(of) == 0; };
  std::string limits;
  if (chance(4)) limits += chance(2) ? ",max_msg=1048576" : ",max_msg=5000000";
  if (chance(8)) limits += ",max_inline=0";
  if (chance(4)) limits += ",mtu=1024";
  std::string device = "software:";
  for (int rail = 0; rail < cell.rails; ++rail) {
    constexpr int kSpeeds[] = {400000, 100000, 200000, 50000};
    const int speed = cell.unequal ? kSpeeds[rail % 4] : 400000;
    device += "name=soft" + std::to_string(rail) + ",link=" + cell.link + ",speed=" + std::to_string(speed) +
              limits + ";";
  }
  device += "fabric=transfers" + std::to_string(getpid()) + ",seed=" + std::to_string(1 + seed % 1000);
  if (cell.engine) device += ",engine=on";
  if (cell.adversarial) device += ",adversarial=on";
  if (chance(3)) device += ",pacing=on,latency_ns=" + std::to_string(random.below(20000));
  return device;
}

}  // namespace

std::vector<Cell> matrix() {
  std::vector<Cell> cells;
  for (int version = 6; version <= 12; ++version)
    for (const char* link : kLinks)
      for (int rails = 1; rails <= mostRails(version); ++rails)
        for (int modes = 0; modes < 16; ++modes)
          for (int queue_pairs = 1; queue_pairs <= 3; ++queue_pairs) {
            const bool unequal = (modes & 1) != 0;
            if (unequal && rails == 1) continue;
            const Cell cell = {version,          link,        rails,           unequal, (modes & 2) != 0,
                               (modes & 4) != 0, queue_pairs, (modes & 8) != 0};
            if (possible(cell)) cells.push_back(cell);
          }
  return cells;
}

std::vector<Cell> balanced(uint64_t seed) {
  Random random(seed);
  std::vector<Cell> left = matrix();
  std::vector<Cell> ordered;
  std::map<std::string, int> seen;
  const auto weight = [&](const Cell& cell) {
    int sum = 0;
    for (const std::string& value : values(cell)) sum += seen[value];
    return sum;
  };
  while (!left.empty()) {
    std::size_t best = random.below(left.size());
    for (int other = 0; other < 20; ++other) {
      const std::size_t candidate = random.below(left.size());
      if (weight(left[candidate]) < weight(left[best])) best = candidate;
    }
    for (const std::string& value : values(left[best])) ++seen[value];
    ordered.push_back(left[best]);
    std::swap(left[best], left.back());
    left.pop_back();
  }
  return ordered;
}

std::string cellName(const Cell& cell) {
  std::string text;
  for (const std::string& value : values(cell)) text += (text.empty() ? "" : "/") + value;
  return text;
}

std::optional<Cell> parseCell(const std::string& text) {
  for (const Cell& cell : matrix())
    if (cellName(cell) == text) return cell;
  return std::nullopt;
}

std::string setEnvironment(const Cell& cell, uint64_t seed) {
  Random random(seed);
  const auto chance = [&](uint64_t of) { return random.below(of) == 0; };
  std::string all;
  const auto set = [&](const char* variable, const std::string& value) {
    setenv(variable, value.c_str(), 1);
    all += (all.empty() ? "" : " ") + std::string(variable) + "='" + value + "'";
  };

  const std::string device = softwareDevice(cell, seed, random);
  if (onRealDevices()) {
    useDevice();
  } else {
    set("RAILWISE_DEVICE", device);
    set("NCCL_SOCKET_IFNAME", "lo");
    set("RAILWISE_FUSE_PLACELESS", "1");  // these devices are in no PCI tree
  }
  set("NCCL_IB_QPS_PER_CONNECTION", std::to_string(cell.queue_pairs));
  set("NCCL_IB_SPLIT_DATA_ON_QPS", cell.split ? "1" : "0");
  if (chance(8)) set("RAILWISE_SPLIT", "even");
  if (chance(4)) {
    set("NCCL_IB_ADAPTIVE_ROUTING", "1");
    set("NCCL_IB_AR_THRESHOLD", std::to_string(random.below(100000)));
  }
  if (chance(4)) set("NCCL_IB_OOO_RQ", "1");
  if (chance(8)) set("NCCL_NET_OPTIONAL_RECV_COMPLETION", "0");
  if (chance(8) && cell.link != "iwarp") set("RAILWISE_CONNECT", "cm");
  return all;
}

}  // namespace railwise::test
