// railwise topo generate: makes the topology file of a VM whose /sys is flat.
#include "topo/sources/generate/generate.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"

namespace railwise::cli {
namespace {

constexpr const char* kTopoGenerateHelp =
    "usage: railwise topo generate [--root DIR|TAR] [-o topology.xml] [options]\n\n"
    "On a VM every GPU and NIC seems to hang on the CPU, so that NCCL takes all NICs for equally far and "
    "GPUDirect for too far. This prints the file that says what the host has, for NCCL_TOPO_FILE: one bridge "
    "for each group of GPUs and NICs under each NUMA node. What was decided, and why, is said on stderr.\n"
    "Exit status: 0 all right, 1 no file can be made, 2 a mistake on the command line.\n\n";

struct GenerateFields {
  MachineOptions machine;
  std::string output;
  std::string pair = "order";
  std::string cpu;
  std::vector<std::string> exclude;
  topo::GenerateOptions options;
};

std::vector<Option> optionTable(GenerateFields& fields) {
  Option exclude = textOption(
      'x', "exclude", "DEVICE", nullptr,
      "leave out a PCI address, a device id (0x101a) or vendor:device (0x15b3:0x101a); may be given again");
  exclude.accept = [&fields](std::string_view value) {
    fields.exclude.emplace_back(value);
    return !value.empty();
  };
  exclude.accepted = "a PCI address or a device id";
  std::vector<Option> table = {
      outputOption(&fields.output),
      textOption(0, "pair", "order|bus|table=FILE", &fields.pair,
                 "how GPUs and NICs are grouped: by the order of their addresses on each NUMA node "
                 "(default), by PCI bus, or as FILE says (one bridge per line)"),
      intOption(0, "gpus-per-bridge", &fields.options.gpus_per_bridge, 0, 64,
                "GPUs on one bridge when pairing by order (default 0: by the generation of their links)"),
      textOption(0, "nic-class", "CLASS", &fields.options.nic_class,
                 "NICs are the devices of this class, e.g. 0x0207 (default: InfiniBand; else Ethernet)"),
      textOption(0, "nic-device", "ID", &fields.options.nic_device,
                 "NICs are the devices with this id, e.g. 0x101e or 0x15b3:0x101e"),
      exclude,
      textOption(0, "cpu", "ARCH,VENDOR,FAMILY,MODEL", &fields.cpu,
                 "the CPU, e.g. x86_64,GenuineIntel,6,143 (default: the recorded one, else this machine's)"),
      flagOption(0, "force", &fields.options.force, "also where a PCIe tree is really there"),
      flagOption('q', "quiet", &fields.machine.quiet, "do not say what was decided")};
  addWhichMachine(table, fields.machine);
  return table;
}

// False: the reason was reported to the user.
bool readPairing(GenerateFields& fields) {
  if (fields.pair == "order") return true;
  if (fields.pair == "bus") {
    fields.options.pairing = topo::Pairing::kBus;
    return true;
  }
  if (!fields.pair.starts_with("table=")) {
    say("topo generate: --pair: '%s' is not order, bus or table=FILE", fields.pair.c_str());
    return false;
  }
  const std::string path = fields.pair.substr(6);
  auto text = wholeFile(path);
  if (!text.ok()) {
    say("topo generate: cannot read the table %s", path.c_str());
    return false;
  }
  fields.options.pairing = topo::Pairing::kTable;
  fields.options.table = std::move(*text);
  fields.options.table_name = path;
  return true;
}

void sayNextStep(const std::string& written) {
  const std::string file = written.empty() ? "topo.xml" : written;
  std::error_code error;
  const std::string path = std::filesystem::absolute(file, error).string();
  sayNotes(
      "topo generate",
      {"next: " + std::string(written.empty() ? "save this as " + file + " (-o " + file + "), and " : "") +
       "export NCCL_TOPO_FILE=" + path + " for every rank, on every VM of this kind; `railwise explain " +
       file + "` shows what NCCL then does"});
}

}  // namespace

int topoGenerateCommand(Args args) {
  GenerateFields fields;
  int status = kExitOk;
  const auto arguments =
      parseOrLeave("topo generate", optionTable(fields), args, kTopoGenerateHelp, 0, &status);
  if (!arguments) return status;
  if (!readPairing(fields)) return kExitUsage;
  fields.options.exclude = fields.exclude;
  if (!fields.cpu.empty()) {
    auto cpu = topo::parseCpuIdentity(fields.cpu);
    if (!cpu.ok()) return leave(kExitUsage, "topo generate: --cpu: %s", cpu.error().c_str());
    fields.options.cpu = *cpu;
  }
  const auto tree = openMachineTree("topo generate", fields.machine, &status);
  if (!tree) return status;
  std::vector<std::string> remarks;
  const auto text = topo::generateTopology(*tree, fields.options, &remarks);
  if (!fields.machine.quiet) sayNotes("topo generate", remarks);
  if (!text.ok())
    return leave(text.failure().code == Code::kInvalidArgument ? kExitUsage : kExitFailed,
                 "topo generate: %s", text.error().c_str());
  status = writeOutput("topo generate", fields.output, *text);
  if (!fields.machine.quiet && status == kExitOk) sayNextStep(fields.output);
  return status;
}

}  // namespace railwise::cli
