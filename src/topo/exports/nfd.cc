// A feature file of Kubernetes' Node Feature Discovery: one NAME=VALUE a line. NFD makes each line a label of
// the node, below feature.node.kubernetes.io/.
#include <algorithm>
#include <limits>
#include <set>

#include "topo/explain/describe.h"
#include "topo/exports/exports.h"
#include "topo/exports/host_view.h"
#include "topo/exports/names.h"

namespace railwise::topo {
namespace {

class Labels {
 public:
  void add(const std::string& name, const std::string& value) {
    const std::string allowed = labelValue(value);
    if (allowed.empty()) return;
    text_ += "railwise." + name + "=" + allowed + "\n";
  }
  void add(const std::string& name, int64_t value) { add(name, std::to_string(value)); }
  void add(const std::string& name, bool value) { add(name, std::string(value ? "true" : "false")); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct GivenSummary {
  PathType best = PathType::kDis;   // of the nearest NIC that a GPU is given
  PathType worst = PathType::kLoc;  // of the farthest
  int without = 0;                  // GPUs
  int pairs = 0;                    // of a GPU and a NIC that it is given
  int gpudirect = 0;                // such pairs
};

GivenSummary summaryOf(const HostView& host) {
  GivenSummary summary;
  for (const HostGpu& gpu : host.gpus) {
    summary.without += gpu.nics.empty() ? 1 : 0;
    for (const GivenNic& given : gpu.nics) {
      summary.best = std::min(summary.best, given.type);
      summary.worst = std::max(summary.worst, given.type);
      ++summary.pairs;
      summary.gpudirect += given.gpudirect ? 1 : 0;
    }
  }
  return summary;
}

// The rails as the machine tells them; else each NIC of a GPU is a rail.
void addRails(const HostView& host, Labels& labels, std::vector<std::string>& notes) {
  std::set<int> told;
  int64_t slowest = std::numeric_limits<int64_t>::max();
  int used = 0;
  for (const HostNic& nic : host.nics) {
    if (nic.use_order < 0) continue;
    ++used;
    slowest = std::min(slowest, nic.mbps);
    if (nic.rail >= 0) told.insert(nic.rail);
  }
  labels.add("rails", told.empty() ? used : static_cast<int64_t>(told.size()));
  if (used == 0) return;
  labels.add("rail-gbps", slowest / 1000);
  if (told.empty()) notes.emplace_back("railwise.rails counts the NICs that GPUs use: no NIC says its rail");
}

const char* nvlinkText(const HostView& host) {
  if (host.switched) return "switch";
  const auto joined = [](const std::vector<int>& row) {
    return std::any_of(row.begin(), row.end(), [](int count) { return count > 0; });
  };
  return std::any_of(host.links.begin(), host.links.end(), joined) ? "direct" : "none";
}

void addGpuNames(const HostView& host, Labels& labels, std::vector<std::string>& notes) {
  std::set<std::string> kinds;
  std::set<std::string> models;
  for (const HostGpu& gpu : host.gpus) kinds.insert(gpu.kind), models.insert(gpu.model);
  const auto only = [](const std::set<std::string>& names) {
    return names.size() == 1 ? *names.begin() : std::string("mixed");
  };
  labels.add("gpu-kind", only(kinds));
  labels.add("gpu-model", only(models));
  if (models.count("") != 0)
    notes.emplace_back(
        "railwise.gpu-model is left out: only a machine with the vendor's library tells models");
}

}  // namespace

Exported exportNfd(const Machine& machine, const ExportOptions& options) {
  auto host = hostView(machine);
  if (!host.ok()) return host.failure();
  ExportedText exported{.notes = host->notes};
  const GivenSummary summary = summaryOf(*host);
  Labels labels;
  labels.add("gpus", static_cast<int64_t>(host->gpus.size()));
  addGpuNames(*host, labels, exported.notes);
  labels.add("nvlink", std::string(nvlinkText(*host)));
  labels.add("nics", static_cast<int64_t>(host->nics.size()));
  addRails(*host, labels, exported.notes);
  labels.add("gpus-without-nic", int64_t{summary.without});
  if (summary.pairs > 0) {
    labels.add("nic-path-best", std::string(pathTypeName(summary.best)));
    labels.add("nic-path-worst", std::string(pathTypeName(summary.worst)));
  }
  labels.add("gpudirect", std::string(summary.gpudirect == 0               ? "none"
                                      : summary.gpudirect == summary.pairs ? "all"
                                                                           : "some"));
  if (options.facts.tree_hidden) {
    labels.add("hidden-tree", *options.facts.tree_hidden);
  } else {
    exported.notes.emplace_back(
        "railwise.hidden-tree is left out: a live /sys tells whether a VM hides the PCIe tree");
  }
  exported.text = "# " + originText(machine, *host, "nfd") + "\n" + labels.text();
  return exported;
}

}  // namespace railwise::topo
