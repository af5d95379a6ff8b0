// railwise topo: the subcommands that read, make, check, compare and draw topologies.
#include <array>
#include <cstdio>
#include <string_view>

#include "tools/commands.h"
#include "tools/message.h"
#include "tools/options.h"

namespace railwise::tools {
namespace {

struct Subcommand {
  const char* name;
  int (*run)(Args);
  const char* text;
};

constexpr std::array<Subcommand, 6> kSubcommands = {{
    {"show", topoShowCommand, "the machine as matrix, json, xml, dot, svg or html"},
    {"lint", topoLintCommand, "check a topology file for NCCL's traps"},
    {"diff", topoDiffCommand, "what differs between two machines, or between two versions of NCCL"},
    {"generate", topoGenerateCommand, "make the topology file that a VM's flat /sys hides"},
    {"record", topoRecordCommand, "pack what of this machine's /sys is needed elsewhere"},
    {"paths", topoPathsCommand, "every path and choice as JSON rows, to hold against NCCL's own"},
}};

std::string helpText() {
  std::string text = "usage: railwise topo SUBCOMMAND [options]\n\n";
  for (const Subcommand& sub : kSubcommands) text += textOf("  %-9s %s\n", sub.name, sub.text);
  return text + "\nrailwise topo SUBCOMMAND --help lists its options. See also: railwise explain\n";
}

std::string names() {
  std::string text;
  for (const Subcommand& sub : kSubcommands) text += (text.empty() ? "" : ", ") + std::string(sub.name);
  return text;
}

}  // namespace

int topoCommand(Args args) {
  if (args.empty()) {
    say("topo: which subcommand? %s", names().c_str());
    return kExitUsage;
  }
  const std::string_view name = args[0];
  if (name == "--help" || name == "-h") {
    std::fputs(helpText().c_str(), stdout);
    return kExitOk;
  }
  std::vector<std::string> known;
  for (const Subcommand& sub : kSubcommands) {
    if (name == sub.name) return sub.run(args.subspan(1));
    known.emplace_back(sub.name);
  }
  const std::string near = suggestion(name, known);
  say("topo: unknown subcommand '%s'%s", args[0], near.empty() ? (": " + names()).c_str() : near.c_str());
  return kExitUsage;
}

}  // namespace railwise::tools
