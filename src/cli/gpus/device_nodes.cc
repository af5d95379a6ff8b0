#include "cli/gpus/device_nodes.h"

#include <algorithm>

#include "base/text/words.h"
#include "topo/explain/describe.h"
#include "topo/exports/device_files.h"

namespace railwise::cli {
namespace {

const topo::GpuRow& rowAt(const topo::GpuTable& table, int row) {
  return table.rows[static_cast<std::size_t>(row)];
}

// "" or why these GPUs cannot be given to one process.
std::string severalHosts(const topo::GpuTable& table, const std::vector<int>& rows) {
  for (const int row : rows)
    if (rowAt(table, row).host != rowAt(table, rows[0]).host)
      return "the chosen GPUs are in several hosts, and a process sees the GPUs of one; name the GPUs of a "
             "host with --of";
  return "";
}

}  // namespace

Outcome<std::string> environmentText(const topo::Machine& machine, const topo::GpuTable& table,
                                     const std::vector<int>& rows) {
  if (std::string wrong = severalHosts(table, rows); !wrong.empty()) return Error{std::move(wrong)};
  const std::string devices =
      joined(rows, ",", [&](int row) { return std::to_string(rowAt(table, row).dev); });
  if (topo::isAmd(*machine.graph)) return "ROCR_VISIBLE_DEVICES=" + devices + "\n";
  return "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=" + devices + "\n";
}

Outcome<std::string> deviceNodesText(const topo::Machine& machine, const topo::GpuTable& table,
                                     const std::vector<int>& rows, const sysfs::FileTree* tree,
                                     std::vector<std::string>* notes) {
  if (std::string wrong = severalHosts(table, rows); !wrong.empty()) return Error{std::move(wrong)};
  std::string text;
  if (!topo::isAmd(*machine.graph)) {
    for (const int row : rows) text += topo::gpuDeviceFile(false, rowAt(table, row).dev, "") + "\n";
    notes->push_back(
        "the numbers of /dev/nvidia* are NVML's indices, as drivers give them; nvidia-smi -q says 'Minor "
        "Number'");
    return text + "/dev/nvidiactl\n/dev/nvidia-uvm\n";
  }
  text = "/dev/kfd\n";
  bool assumed = false;
  for (const int row : rows) {
    const topo::GpuRow& gpu = rowAt(table, row);
    const auto names = tree == nullptr ? std::vector<std::string>()
                                       : tree->list("/sys/bus/pci/devices/" + gpu.busid + "/drm");
    const auto render = std::find_if(names.begin(), names.end(),
                                     [](const std::string& name) { return name.starts_with("renderD"); });
    assumed = assumed || render == names.end();
    text += topo::gpuDeviceFile(true, gpu.dev, render != names.end() ? *render : "") + "\n";
  }
  if (assumed)
    notes->push_back("the numbers of the render nodes are assumed; ls -l /dev/dri/by-path says them");
  return text;
}

}  // namespace railwise::cli
