// The command line of the campaign's program: that of `railwise perf`, and what a run with faults needs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/outcome.h"
#include "cli/options/help_page.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

// How the devices of a run with faults are connected. kAny: drawn. kPlain: InfiniBand or RoCE, by the
// handshake. kRdmaCm: InfiniBand or RoCE, by RDMA CM.
enum class FaultTransport : uint8_t { kAny, kPlain, kIwarp, kRdmaCm };

struct FaultOptions : PerfOptions {
  FaultOptions() { judged = true; }

  std::optional<uint64_t> faults;  // the seed of the schedule (schedule.h); every run has one
  bool dry_run = false;
  FaultTransport transport = FaultTransport::kAny;
  int rails = 0;     // of each rank; 0: drawn
  std::string like;  // devices as narrow as those of this driver; empty: as wide as the software device is
  bool one_sided = false;  // --conduct: the other program puts, signals and gets
  std::string conduct;     // the fabric of the ranks of another program; empty: this program starts the ranks
};

struct FaultCommand {
  FaultOptions options;
  bool help = false;
};

// Reads the arguments after "perf". What they do not give is drawn from the seed. An error is a usage error.
Outcome<FaultCommand> parseFaults(std::span<const char* const> args);
HelpPage faultsHelp();

}  // namespace railwise::cli
