// The command line's first word: `railwise COMMAND`.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/installed_places.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/options/nccl_environment.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

int helpAlone(Args args);
int completions(Args args);

constexpr std::array<Subcommand, 19> kCommands = {{
    {"demo", demoCommand, "what Railwise does, in less than a minute: devices, a GPU's NIC, a failing port"},
    {"perf", perfCommand,
     "run a collective through a net plugin: bandwidth, latency, every element verified"},
    {"bench", benchCommand,
     "what a message costs with one plugin or several, counted and timed side by side"},
    {"conform", conformCommand,
     "whether a net plugin keeps what NCCL relies on, and what it does when something fails"},
    {"devices", devicesCommand, "list the devices of a net plugin as NCCL sees them"},
    {"topo", topoCommand, "read, make, check, compare and draw topologies"},
    {"gpus", gpusCommand, "the GPUs of a machine, and which of them a job should take"},
    {"fingerprint", fingerprintCommand,
     "drivers, firmware and libraries of a node in one line, and which of many nodes is odd"},
    {"doctor", doctorCommand,
     "what is wrong with this machine, a pair of hosts or a job's logs, and what to type"},
    {"top", topCommand, "the running jobs of this machine: rails, throughput, errors, connections that wait"},
    {"stuck", stuckCommand,
     "which connection waits for what since when, on one host or many, and who holds up the job"},
    {"postmortem", postmortemCommand, "what a job did last, after it has died"},
    {"metrics", metricsCommand, "counters of the running jobs, for Prometheus and OpenTelemetry"},
    {"device", deviceCommand, "run programs on software devices; machines made of them"},
    {"explain", explainCommand, "which NIC serves which GPU, and why"},
    {"config", configCommand, "list the plugin's environment variables and the values in force"},
    {"completion", completions, "print the completion script of a shell"},
    {"version", versionCommand, "the version, and what it works with"},
    {"help", helpAlone, "print this text, or the help or man page of a command: railwise help topo show"},
}};

constexpr std::array<Subcommand, 1> kTopics = {
    {{kMachinesTopic, machinesHelp, "which machine a command answers about, and what it assumes of it"}}};

int printHelp() {
  constexpr int kWidth = 12;
  std::string text = "usage: railwise COMMAND [options]\n\n";
  for (const Subcommand& command : kCommands)
    text += textOf("  %-*s %s\n", kWidth, command.name, command.text);
  text +=
      "\nrailwise COMMAND --help lists a command's options; railwise help machines tells how a command is "
      "told which machine. Where a command prints JSON, -j, --json and --format json are the same.\n";
  if (docsFolder() != "docs/") text += "docs/ is " + docsFolder() + ".\n";
  return writeOutput("help", "", fitHelp(text));
}

int helpAlone(Args args) { return helpCommand(args, kCommands, kTopics, printHelp); }
int completions(Args args) { return completionCommand(args, kCommands); }

// Runs the whole command line, without the executable's name. Returns the exit status.
int runCommand(Args args) {
  if (args.empty()) return printHelp() == kExitOk ? kExitUsage : kExitFailed;
  const std::string_view name = args[0];
  if (name == "--help" || name == "-h") return printHelp();
  std::vector<std::string> names;
  for (const Subcommand& command : kCommands) {
    if (name == command.name || ((name == "--version" || name == "-V") && command.run == versionCommand))
      return command.run(args.subspan(1));
    names.emplace_back(command.name);
  }
  const std::string near = suggestion(name, names);
  say("unknown command '%s'%s", args[0],
      near.empty() ? (": " + listText(names, " or ")).c_str() : near.c_str());
  return kExitUsage;
}

// Where a standard stream is closed, no file and no pipe of ours must get its number. To write there still
// fails.
void occupyStandardStreams() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file >= 0) close(file);
}

}  // namespace
}  // namespace railwise::cli

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(argc > 0 ? argc - 1 : 0);
  railwise::cli::occupyStandardStreams();
  railwise::cli::readNcclConf();
  return railwise::cli::finishOutput(railwise::cli::runCommand({argv + 1, count}));
}
