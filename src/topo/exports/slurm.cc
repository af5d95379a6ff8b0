// Slurm's gres.conf of a node, with the lines for slurm.conf and topology.conf in comments.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/pci.h"
#include "base/text/printable.h"
#include "base/text/words.h"
#include "topo/exports/exports.h"
#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

// Slurm numbers GPUs by their PCI addresses, and Links has this order.
std::vector<std::size_t> byAddress(const HostView& host) {
  std::vector<std::size_t> order(host.gpus.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return busIdToNumber(host.gpus[a].busid) < busIdToNumber(host.gpus[b].busid);
  });
  return order;
}

class SlurmWriter {
 public:
  SlurmWriter(const HostView& host, const HostCores& cores, const ExportOptions& options)
      : host_(host), cores_(cores), options_(options), notes_(host.notes) {}

  ExportedText write(const std::string& origin) {
    std::string lines;
    for (const std::size_t gpu : byAddress(host_)) lines += gpuLine(gpu);
    lines += nicLines();
    noteAssumptions();
    return {"# " + origin + "\n" + lines + otherFiles(), std::move(notes_)};
  }

 private:
  std::string gpuLine(std::size_t index) {
    const HostGpu& gpu = host_.gpus[index];
    const auto render = options_.facts.render_nodes.find(gpu.busid);
    const bool told = render != options_.facts.render_nodes.end();
    render_assumed_ = render_assumed_ || (host_.amd && !told);
    const std::string type = slurmWord(gpu.model.empty() ? gpu.kind : gpu.model);
    count(type.empty() ? "gpu" : "gpu:" + type);
    return "Name=gpu" + (type.empty() ? "" : " Type=" + type) +
           " File=" + gpuDeviceFile(host_.amd, gpu.dev, told ? render->second : "") + cores(gpu.numa) +
           links(index) + (host_.amd ? " Flags=amd_gpu_env" : "") + "\n";
  }

  std::string nicLines() {
    std::string lines;
    for (const NicFile& file : nicFiles(host_, options_.facts, &uverbs_assumed_)) {
      const HostNic& nic = host_.nics[static_cast<std::size_t>(file.nic)];
      // A type that begins with a digit and ends with a unit is a count to Slurm.
      const std::string type = "gbps" + std::to_string(nic.mbps / 1000);
      count("nic:" + type);
      lines += "Name=nic Type=" + type + " File=" + file.path + cores(nic.numa) + "  # " + file.device + "\n";
      ++nics_;
    }
    return lines;
  }

  // A machine with one NUMA node needs no Cores: Slurm is faster without.
  std::string cores(int numa) const {
    const std::string text = cores_.nodes.size() < 2 ? "" : coresText(cores_, std::max(0, numa));
    return text.empty() || numa < 0 ? "" : " Cores=" + text;
  }

  std::string links(std::size_t gpu) const {
    const auto linked = [](const std::vector<int>& row) {
      return std::any_of(row.begin(), row.end(), [](int links) { return links > 0; });
    };
    if (std::none_of(host_.links.begin(), host_.links.end(), linked)) return "";
    return " Links=" + joined(byAddress(host_), ",", [&](std::size_t to) {
             return std::to_string(to == gpu ? -1 : host_.links[gpu][to]);
           });
  }

  void count(const std::string& kind) { ++counts_[kind]; }

  std::string otherFiles() const {
    const std::string gres =
        joined(counts_, ",", [](const auto& kind) { return kind.first + ":" + std::to_string(kind.second); });
    return "#\n# slurm.conf (slurmd -C says the rest of the line):\n"
           "#slurm.conf: GresTypes=" +
           std::string(nics_ > 0 ? "gpu,nic" : "gpu") + "\n#slurm.conf: NodeName=" + options_.node +
           " Gres=" + gres +
           "\n#\n# topology.conf: one host does not know its switch; name it, and list the nodes below it:\n"
           "#topology.conf: SwitchName=leaf1 Nodes=" +
           options_.node + "\n";
  }

  void noteAssumptions() {
    if (!host_.amd)
      notes_.emplace_back(
          "the numbers of /dev/nvidia* are NVML's indices, as drivers give them; nvidia-smi -q says 'Minor "
          "Number'");
    if (render_assumed_)
      notes_.emplace_back("the numbers of the render nodes are assumed; ls -l /dev/dri/by-path says them");
    if (uverbs_assumed_)
      notes_.emplace_back(
          "the numbers of /dev/infiniband/uverbs* are assumed; ls "
          "/sys/class/infiniband/*/device/infiniband_verbs says them");
    if (cores_.nodes.size() < 2) {
      notes_.emplace_back("Cores is left out: the machine has one NUMA node");
    } else {
      if (!cores_.note.empty()) notes_.push_back("Cores: " + cores_.note);
    }
    if (host_.switched)
      notes_.emplace_back("Links counts the NVLinks to the NVSwitches for each pair of GPUs");
    const auto interface = [](const HostNic& nic) { return nic.ports.front().port == 0; };
    if (std::any_of(host_.nics.begin(), host_.nics.end(), interface))
      notes_.emplace_back("network interfaces have no device file and are left out");
    notes_.emplace_back(
        "topology.conf: one host does not know the switch that it is connected to; leaf1 stands for it");
  }

  const HostView& host_;
  const HostCores& cores_;
  const ExportOptions& options_;
  std::vector<std::string> notes_;
  std::map<std::string, int> counts_;
  int nics_ = 0;
  bool render_assumed_ = false;
  bool uverbs_assumed_ = false;
};

}  // namespace

Exported exportSlurm(const Machine& machine, const ExportOptions& options) {
  if (options.node.empty())
    return Error{machine.name + " does not tell the node's name, which gres.conf needs: --node=NAME says it",
                 Code::kInvalidArgument};
  if (dnsLabel(options.node).empty() || !isDeviceName(options.node))
    return Error{"'" + withoutControls(options.node) + "' is no name of a node; --node=NAME says it",
                 Code::kInvalidArgument};
  const auto host = hostView(machine);
  if (!host.ok()) return host.failure();
  const HostCores cores = hostCores(*machine.graph, options.facts);
  return SlurmWriter(*host, cores, options).write(originText(machine, *host, "slurm"));
}

}  // namespace railwise::topo
