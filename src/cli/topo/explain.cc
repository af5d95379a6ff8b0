// railwise explain: says which NIC serves which GPU, and why.
#include "topo/explain/explain.h"

#include <array>
#include <cstdio>

#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "cli/topo/commands.h"
#include "cli/topo/machine_options.h"

namespace railwise::cli {
namespace {

enum class ExplainFormat { kText, kJson };
constexpr std::array<Choice<ExplainFormat>, 2> kExplainFormats = {
    {{"text", ExplainFormat::kText}, {"json", ExplainFormat::kJson}}};

constexpr const char* kExplainHelp =
    "usage: railwise explain [FILE] [--root DIR|TAR] [options]\n\n"
    "For each GPU: the NICs that NCCL gives it, the path to them, whether GPUDirect is on and by which rule, "
    "and why\n"
    "each other NIC was not taken. FILE is an NCCL (or RCCL) topology file; without one, this machine.\n"
    "Exit status: 0 all right, 1 the machine cannot be read, 2 a mistake on the command line (also a GPU "
    "that is not there).\n\n";

}  // namespace

int explainCommand(Args args) {
  MachineOptions machine;
  int gpu = -1;
  int channel = -1;
  ExplainFormat format = ExplainFormat::kText;
  std::vector<Option> table = {intOption('g', "gpu", &gpu, 0, 1 << 20, "only the GPU of this rank"),
                               intOption('c', "channel", &channel, 0, 63, "only this channel"),
                               choiceOption<ExplainFormat>('f', "format", kExplainFormats, &format,
                                                           "text (default) or json, which is complete")};
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("explain", table, args, kExplainHelp, 1, &status);
  if (!arguments) return status;
  machine.say_remarks = format != ExplainFormat::kText;  // the text itself contains the notes
  const auto opened =
      openMachine("explain", arguments->positional.empty() ? "" : arguments->positional[0], machine);
  if (!opened) return kExitFailed;
  const auto text = format == ExplainFormat::kJson ? topo::explainJson(*opened, gpu, channel)
                                                   : topo::explainText(*opened, gpu, channel);
  if (!text.ok()) {
    say("explain: %s", text.error().c_str());
    return kExitUsage;
  }
  return writeOutput("explain", "", *text);
}

}  // namespace railwise::cli
