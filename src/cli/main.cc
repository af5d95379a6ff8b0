// The command line's first word: `railwise COMMAND`.
#include <cstdio>
#include <string_view>

#include "benchmarks/bench/command.h"
#include "cli/device/commands.h"
#include "cli/doctor/commands.h"
#include "cli/fingerprint/commands.h"
#include "cli/gpus/commands.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "cli/plugin/commands.h"
#include "cli/topo/commands.h"
#include "perf/command.h"

namespace railwise::cli {
namespace {

constexpr const char* kCommandHelp =
    "usage: railwise COMMAND [options]\n\n"
    "  perf         run a collective through a net plugin: bandwidth, latency, every element verified\n"
    "  bench        what a message costs with one plugin or several, counted and timed side by side\n"
    "  devices      list the devices of a net plugin as NCCL sees them\n"
    "  topo         read, make, check, compare and draw topologies\n"
    "  gpus         the GPUs of a machine, and which of them a job should take\n"
    "  fingerprint  drivers, firmware and libraries of a node in one line, and which of many nodes is odd\n"
    "  doctor       what is wrong with a job, by the logs of its ranks\n"
    "  device       run programs on software devices; machines made of them\n"
    "  explain      which NIC serves which GPU, and why\n"
    "  config       list the plugin's environment variables and the values in force\n"
    "  version      print the version\n"
    "  help         print this text\n\n"
    "railwise COMMAND --help lists a command's options.\n";

constexpr const char* kCommandNames =
    "perf, bench, devices, topo, gpus, fingerprint, doctor, device, explain, config, version or help";

int printVersion() {
  std::printf("railwise %s (NCCL net plugin API v6 to v12)\n", RAILWISE_VERSION);
  return kExitOk;
}

int printHelp() {
  std::fputs(kCommandHelp, stdout);
  return kExitOk;
}

// Runs the whole command line, without the executable's name. Returns the exit status.
int runCommand(Args args) {
  if (args.empty()) {
    say("which command? %s", kCommandNames);
    return kExitUsage;
  }
  const std::string_view name = args[0];
  const Args rest = args.subspan(1);
  if (name == "perf") return perfCommand(rest);
  if (name == "bench") return benchCommand(rest);
  if (name == "devices") return devicesCommand(rest);
  if (name == "topo") return topoCommand(rest);
  if (name == "gpus") return gpusCommand(rest);
  if (name == "fingerprint") return fingerprintCommand(rest);
  if (name == "doctor") return doctorCommand(rest);
  if (name == "device") return deviceCommand(rest);
  if (name == "explain") return explainCommand(rest);
  if (name == "config") return configCommand(rest);
  const bool version = name == "version" || name == "--version";
  const bool help = name == "help" || name == "--help" || name == "-h";
  const bool asks_help =
      rest.size() == 1 && (std::string_view(rest[0]) == "--help" || std::string_view(rest[0]) == "-h");
  if ((version || help) && !rest.empty() && !asks_help) {
    say("%s takes no arguments", args[0]);
    return kExitUsage;
  }
  if (help || (version && asks_help)) return printHelp();
  if (version) return printVersion();
  const std::vector<std::string> names = {"perf",   "bench",  "devices", "topo",   "gpus",    "fingerprint",
                                          "doctor", "device", "explain", "config", "version", "help"};
  const std::string near = suggestion(name, names);
  say("unknown command '%s'%s", args[0],
      near.empty() ? (std::string(": ") + kCommandNames).c_str() : near.c_str());
  return kExitUsage;
}

}  // namespace
}  // namespace railwise::cli

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(argc > 0 ? argc - 1 : 0);
  return railwise::cli::runCommand({argv + 1, count});
}
