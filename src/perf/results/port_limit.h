// The bus bandwidth that the ports allow which the ranks of a run use. Pure; thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perf/results/run_options.h"

namespace railwise::cli {

// What a port's speed says of the data that go through the port.
enum class PortSpeed {
  kClaimed,       // nothing: software without pacing, or the kernel's software devices
  kBetweenHosts,  // hardware: data that stay on the host may take a shorter path than the port
  kAlways,        // the software device with pacing
};

// A port, or several fused ones, that a rank uses.
struct PortUse {
  std::string device;
  int speed_mbps = 0;
  PortSpeed holds = PortSpeed::kClaimed;
};

// The ports of a rank, with its host.
struct RankPorts {
  const std::string* host;
  const std::vector<PortUse>* ports;
};

struct PortLimit {
  double gbytes = 0;       // GB/s of the bus
  std::string port;        // the port that fills first: "mlx5_0 of node1"
  double port_gbytes = 0;  // its speed
};

// `ranks`: in the order of the ring. `root`: of a collective that has one. Null: the speeds say nothing, or
// no data pass a port.
std::optional<PortLimit> portLimit(Collective collective, int root, std::span<const RankPorts> ranks,
                                   int channels);

}  // namespace railwise::cli
