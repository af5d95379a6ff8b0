// railwise explain: says which NIC serves which GPU, and why.
#include "topo/explain/explain.h"

#include <array>
#include <cstdio>

#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "cli/topo/commands.h"
#include "cli/topo/machine_options.h"
#include "topo/machine/known_machines.h"

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

// A file that lists GPUs by their PCI ids alone leaves out compute capability and NVLinks. Known GPUs have
// them; options count before that. Returns a note, or "".
std::string fillInGpus(const std::string& file, MachineOptions& machine) {
  topo::Detection& detection = machine.detection;
  if (file.empty() || machine.elsewhere() || detection.gpu_sm != 0 || detection.nvswitch_links != 0)
    return "";
  const auto document = topo::readXmlFile(file, {.max_nodes = 0});
  if (!document.ok()) return "";
  const topo::KnownDetection known = topo::knownDetection(*document);
  if (known.gpu_sm == 0) return "";
  detection.gpu_sm = known.gpu_sm;
  detection.nvswitch_links = known.nvswitch_links;
  return textOf(
      "the file does not describe its GPUs; they are known to be %s: compute capability %d.%d, %d "
      "NVLinks to NVSwitches (--gpu-sm, --nvswitch-links say otherwise)",
      known.gpu.c_str(), known.gpu_sm / 10, known.gpu_sm % 10, known.nvswitch_links);
}

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
  const std::string file = arguments->positional.empty() ? "" : arguments->positional[0];
  const std::string note = fillInGpus(file, machine);
  auto opened = openMachine("explain", file, machine);
  if (!opened) return kExitFailed;
  if (!note.empty()) opened->remarks.insert(opened->remarks.begin(), note);
  const auto text = format == ExplainFormat::kJson ? topo::explainJson(*opened, gpu, channel)
                                                   : topo::explainText(*opened, gpu, channel);
  if (!text.ok()) {
    say("explain: %s", text.error().c_str());
    return kExitUsage;
  }
  return writeOutput("explain", "", *text);
}

}  // namespace railwise::cli
