// railwise explain: says which NIC serves which GPU, and why.
#include "topo/explain/explain.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/explain/channels/channel_ends.h"

namespace railwise::cli {
namespace {

constexpr const char* kExplainHelp =
    "usage: railwise explain [FILE] [GPU] [--root DIR|TAR] [options]\n\n"
    "For each GPU: the NICs that NCCL gives it, the path to them, whether GPUDirect is on and by which rule, "
    "and why each other NIC was not taken; of GPUs that are alike, the first. Also the NICs by which the "
    "rings and trees of each channel enter and leave the host, for a communicator of this machine and an "
    "equal one. FILE is an NCCL (or RCCL) topology file, - standard input; without one, this machine. GPU: "
    "only that one, such as GPU3. What is without a NIC: --hca=^=mlx5_3.\n"
    "Exit status: 0 all right, 1 the machine cannot be read or has no GPU, 2 a mistake on the command line "
    "(also a GPU that is not there).\n\n";

// Problems in yellow; lines behind a blank one, which begin a part, in bold.
std::string colored(std::string_view text) {
  constexpr std::string_view kProblem = "  ! Problem";
  constexpr std::string_view kContinued = "             ";
  bool is_title = true;
  bool is_problem = false;
  return paintedLines(text, [&](std::string_view line) {
    is_problem = line.starts_with(kProblem) || (is_problem && line.starts_with(kContinued));
    const bool title = std::exchange(is_title, line.empty());
    return line.empty() ? "" : is_problem ? kYellow : title ? kBold : "";
  });
}

// The rank in "GPU3", "gpu3" or "3". Nothing: it is something else, or a file.
std::optional<int> rankNamed(std::string_view word) {
  std::error_code error;
  if (std::filesystem::exists(word, error)) return std::nullopt;
  for (const char* prefix : {"GPU", "gpu"})
    if (word.starts_with(prefix)) word.remove_prefix(3);
  return parseInt(word, 0, 1 << 20);
}

}  // namespace

int explainCommand(Args args) {
  MachineOptions machine;
  int gpu = -1;
  int channel = -1;
  Output output;
  topo::ExplainStyle style;
  ColorChoice color = ColorChoice::kAuto;
  std::vector<Option> table = {
      intOption('g', "gpu", &gpu, 0, 1 << 20, "only the GPU of this rank"),
      flagOption('b', "brief", &style.brief, "only the NIC of each GPU, the problems and what to do"),
      flagOption(0, "each", &style.each, "every GPU, also those that are like another but for names"),
      intOption('c', "channel", &channel, 0, 63, "only this channel")};
  addOutputOptions(table, output);
  addColorOption(table, color);
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("explain", table, args, kExplainHelp, 2, &status);
  if (!arguments) return status;
  std::vector<std::string> words = arguments->positional;
  if (!words.empty())
    if (const auto rank = rankNamed(words.back())) gpu = *rank, words.pop_back();
  if (words.size() > 1) return leave(kExitUsage, "explain: %s is no GPU; GPU3 or 3 is", words[1].c_str());
  const bool json = output.json();
  machine.say_remarks = json;  // the text itself contains the notes
  bool without_gpus = false;
  const std::string file = words.empty() ? "" : words[0];
  if (file.empty() && !json) machine.without_gpus = &without_gpus;
  if (const auto paste = reportPaste("explain", file)) return *paste;
  auto opened = openMachine("explain", file, machine, &status);
  if (without_gpus) {
    const int shown = showWithoutGpus("explain", machine);
    if (shown != kExitOk) return shown;
    return gpu < 0 ? kExitFailed : kExitUsage;  // no GPU is explained
  }
  if (!opened) return status;
  if (!takeGraphFile("explain", "", machine.quiet, *opened)) return kExitFailed;
  topo::MachineExplanation all = topo::explain(*opened);
  topo::addChannels(*opened, all);
  topo::addOneSided(*opened, all);
  style.rank = gpu;
  style.channel = channel;
  style.columns = outputColumns(output.file);
  const auto text =
      json ? topo::explainJson(*opened, all, gpu, channel) : topo::explainText(*opened, all, style);
  if (!text.ok()) return leave(kExitUsage, "explain: %s", text.error().c_str());
  const bool color_wanted = !json && output.file.empty() && outputHasColor(color);
  return writeOutput("explain", output, color_wanted ? colored(*text) : *text);
}

}  // namespace railwise::cli
