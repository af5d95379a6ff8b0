// railwise topo show: writes a machine in all forms.
#include <array>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/paste/paste.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"

namespace railwise::cli {
namespace {

enum class Format { kMatrix, kJson, kXml, kSvg, kHtml };
constexpr std::array<Choice<Format>, 5> kFormats = {{{"matrix", Format::kMatrix},
                                                     {"json", Format::kJson},
                                                     {"xml", Format::kXml},
                                                     {"svg", Format::kSvg},
                                                     {"html", Format::kHtml}}};

std::string text(const topo::Machine& machine, Format format) {
  switch (format) {
    case Format::kMatrix:
      return topo::matrixText(machine);
    case Format::kJson:
      return topo::topologyJson(machine);
    case Format::kXml:
      return topo::writeXml(*machine.xml);
    case Format::kSvg:
      return topo::svgText(machine);
    case Format::kHtml:
      return topo::htmlText(machine);
  }
  return "";
}

constexpr const char* kShowHelp =
    "usage: railwise topo show [FILE] [--root DIR|TAR] [options]\n\n"
    "Shows the machine as NCCL sees it: FILE is an NCCL (or RCCL) topology file, - standard input; --root "
    "the /sys of a machine; both together the machine with NCCL_TOPO_FILE=FILE; neither this machine. NCCL's "
    "variables (NCCL_P2P_LEVEL, NCCL_NET_MERGE_LEVEL, ...) change the answers as they change NCCL's.\n"
    "Exit status: 0 all right, 1 the machine cannot be read, 2 a mistake on the command line.\n\n";

}  // namespace

int topoShowCommand(Args args) {
  MachineOptions machine;
  Format format = Format::kMatrix;
  std::string output;
  std::vector<Option> table = {
      choiceOption<Format>('f', "format", kFormats, &format, "matrix (default), json, xml, svg or html"),
      textOption('o', "output", "FILE", &output, "write to FILE instead of stdout")};
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo show", table, args, kShowHelp, 1, &status);
  if (!arguments) return status;
  machine.known_gpus = format != Format::kXml && format != Format::kJson;  // these two: the file as it is
  bool without_gpus = false;
  const std::string file = arguments->first();
  if (file.empty() && format == Format::kMatrix && output.empty()) machine.without_gpus = &without_gpus;
  if (const auto paste = reportPaste("topo show", file)) return *paste;
  const auto opened = openMachine("topo show", file, machine);
  if (without_gpus) return showWithoutGpus("topo show", machine);
  if (!opened) return kExitFailed;
  return writeOutput("topo show", output, text(*opened, format));
}

}  // namespace railwise::cli
