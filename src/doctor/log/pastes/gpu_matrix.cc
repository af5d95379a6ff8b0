// nvidia-smi topo -m: classes of paths between GPUs and NICs. It has no bandwidths and no tree.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/text/words.h"
#include "doctor/log/pastes/pastes.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kMostDevices = 64;
// From near to far. Through NV and PIX, PXB no CPU is passed.
constexpr std::array<std::string_view, 5> kClasses = {"PIX", "PXB", "PHB", "NODE", "SYS"};
constexpr std::size_t kFar = 2;  // PHB and beyond go through a CPU's host bridge

std::optional<std::size_t> rankOfClass(std::string_view cell) {
  const auto found = std::ranges::find(kClasses, cell);
  if (found == kClasses.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kClasses.begin());
}

bool isNumbered(std::string_view word, std::string_view prefix) {
  return word.starts_with(prefix) && leadingNumber(word.substr(prefix.size())) >= 0;
}

class Matrix : public Paste {
 public:
  bool line(std::string_view text, const std::string& where) override {
    const std::vector<std::string_view> words = wordsIn(text);
    if (words.empty()) return false;
    return readHeader(words, where) || readRow(words) || readLegend(words);
  }

  void addTo(Pastes& pastes, const std::string& file) const override {
    if (rows_.empty()) return;
    const std::vector<std::string> gpus = named(true), nics = named(false);
    pastes.kinds.push_back(file + ": nvidia-smi topo -m, " + counted(gpus.size(), "GPU") + " and " +
                           counted(nics.size(), "NIC"));
    pastes.hidden.push_back(
        "bandwidths and the PCIe tree: the matrix has only classes of paths. `railwise topo record` on the "
        "machine, or a job's NCCL_TOPO_DUMP_FILE=topo.xml, has them: railwise explain topo.xml");
    std::vector<std::string> without;
    for (const std::string& gpu : gpus) {
      pastes.looked.push_back(gpu + ": " + nearest(gpu, nics));
      if (!isClose(gpu, nics)) without.push_back(gpu);
    }
    pastes.looked.push_back("between GPUs: " + linksText(gpus));
    if (nics.empty()) {
      add(pastes, Severity::kAdvice, "the matrix has no NIC", "no row of a NIC",
          "nvidia-smi lists RDMA devices of /sys/class/infiniband: the machine or container has none, or the "
          "driver does not know them.",
          "ls /sys/class/infiniband");
      return;
    }
    judgeGpus(pastes, gpus, nics, without);
    judgeNics(pastes, gpus, nics);
  }

 private:
  // "GPU0 GPU1 NIC0 CPU Affinity ...": the columns.
  bool readHeader(const std::vector<std::string_view>& words, const std::string& where) {
    if (!isNumbered(words[0], "GPU") || words.size() < 2 || rankOfClass(words[1]) || words[1] == "X" ||
        words[1].starts_with("NV"))
      return false;
    std::vector<std::string> columns;
    for (const std::string_view word : words) {
      if (word == "CPU" || word == "NUMA" || columns.size() >= kMostDevices) break;
      columns.emplace_back(word);
    }
    // A header names itself again in its first row.
    if (columns.size() < 2 && (words.size() < 2 || words[1] != "CPU")) return false;
    columns_ = columns;
    where_ = where;
    return true;
  }

  bool readRow(const std::vector<std::string_view>& words) {
    if (columns_.empty() || words.size() < columns_.size() + 1) return false;
    if (std::ranges::find(columns_, words[0]) == columns_.end()) return false;
    std::map<std::string, std::string> cells;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string_view cell = words[i + 1];
      if (!rankOfClass(cell) && cell != "X" && !cell.starts_with("NV") && cell != "C2C" && cell != "OK")
        return false;
      cells[columns_[i]] = std::string(cell);
    }
    rows_[std::string(words[0])] = std::move(cells);
    return true;
  }

  // "NIC0: mlx5_0"
  bool readLegend(const std::vector<std::string_view>& words) {
    if (rows_.empty() || words.size() != 2 || !isNumbered(words[0], "NIC") || !words[0].ends_with(':'))
      return false;
    names_[std::string(words[0].substr(0, words[0].size() - 1))] = std::string(words[1]);
    return true;
  }

  std::vector<std::string> named(bool gpus) const {
    std::vector<std::string> columns;
    for (const std::string& column : columns_)
      if (isNumbered(column, "GPU") == gpus) columns.push_back(column);
    return columns;
  }
  std::string nameOf(const std::string& nic) const {
    const auto name = names_.find(nic);
    return name == names_.end() ? nic : name->second;
  }
  std::optional<std::size_t> between(const std::string& a, const std::string& b) const {
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      const auto row = rows_.find(one);
      if (row == rows_.end()) continue;
      const auto cell = row->second.find(other);
      if (cell != row->second.end()) return rankOfClass(cell->second);
    }
    return std::nullopt;
  }

  std::size_t best(const std::string& gpu, const std::vector<std::string>& nics) const {
    std::size_t nearest = kClasses.size();
    for (const std::string& nic : nics)
      if (const auto rank = between(gpu, nic)) nearest = std::min(nearest, *rank);
    return nearest;
  }
  bool isClose(const std::string& gpu, const std::vector<std::string>& nics) const {
    return best(gpu, nics) < kFar;
  }

  // "mlx5_0 (PIX)", or "no NIC at PIX or PXB; nearest are mlx5_0, mlx5_1 (SYS)"
  std::string nearest(const std::string& gpu, const std::vector<std::string>& nics) const {
    const std::size_t rank = best(gpu, nics);
    if (rank >= kClasses.size()) return "no NIC";
    std::vector<std::string> names;
    for (const std::string& nic : nics)
      if (between(gpu, nic) == rank) names.push_back(nameOf(nic));
    const std::string text = firstItems(names, 8) + " (" + std::string(kClasses[rank]) + ")";
    return rank < kFar ? text : "no NIC at PIX or PXB; nearest: " + text;
  }

  // "SYS to every GPU", "NODE or SYS"
  std::string classesText(const std::string& nic, const std::vector<std::string>& gpus) const {
    std::set<std::size_t> ranks;
    for (const std::string& gpu : gpus)
      if (const auto rank = between(gpu, nic)) ranks.insert(*rank);
    const std::string text = joined(ranks, " or ", [](std::size_t rank) { return kClasses[rank]; });
    return text + (ranks.size() == 1 ? " to every GPU" : "");
  }

  std::string linksText(const std::vector<std::string>& gpus) const {
    std::map<std::string, std::size_t> links;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      for (std::size_t j = i + 1; j < gpus.size(); ++j)
        if (const auto row = rows_.find(gpus[i]); row != rows_.end())
          if (const auto cell = row->second.find(gpus[j]); cell != row->second.end()) ++links[cell->second];
    std::vector<std::string> texts;
    for (const auto& [link, pairs] : links) texts.push_back(link + " for " + counted(pairs, "pair"));
    return texts.empty() ? "one GPU" : firstItems(texts, 8);
  }

  void add(Pastes& pastes, Severity severity, const std::string& what, const std::string& seen,
           const std::string& why, const std::string& fix) const {
    pastes.add("nic-distance", severity, what, {{"", where_, seen}}, why, fix);
  }

  void judgeGpus(Pastes& pastes, const std::vector<std::string>& gpus, const std::vector<std::string>& nics,
                 const std::vector<std::string>& without) const {
    if (without.empty()) return;
    const bool none = without.size() == gpus.size();
    std::vector<std::string> seen;
    for (const std::string& gpu : without) seen.push_back(gpu + ": " + nearest(gpu, nics));
    add(pastes, none ? Severity::kAdvice : Severity::kWarning,
        none ? "no GPU has a NIC close by (PIX or PXB)"
             : firstItems(without, 16) + (without.size() == 1 ? " has" : " have") +
                   " no NIC close by (PIX or PXB)",
        firstItems(seen, 16),
        none ? "The data of every GPU cross a CPU's host bridge, where GPUDirect is slow or off: a virtual "
               "machine that hides the PCIe tree, or slots without common switches."
             : "Their data reach the network through a CPU, or over NVLink and the NIC of another GPU (PXN), "
               "which then carries both.",
        none ? "railwise explain  # on the machine\n"
               "sudo lspci -tv  # which slots share a switch; in a virtual machine ask for its topology file"
             : "ls /sys/class/infiniband; sudo lspci -tv  # is a NIC missing beside these GPUs, or in "
               "another slot?\n"
               "railwise explain  # on the machine: which NIC NCCL takes for each GPU");
  }

  // A NIC that is far from every GPU is one for another purpose as a rule.
  void judgeNics(Pastes& pastes, const std::vector<std::string>& gpus,
                 const std::vector<std::string>& nics) const {
    std::vector<std::string> far, others, seen;
    for (const std::string& nic : nics) {
      const bool close = std::ranges::any_of(
          gpus, [&](const std::string& gpu) { return between(gpu, nic).value_or(kFar) < kFar; });
      (close ? others : far).push_back(nameOf(nic));
      if (!close) seen.push_back(nameOf(nic) + ": " + classesText(nic, gpus));
    }
    if (far.empty() || others.empty()) return;
    add(pastes, Severity::kAdvice,
        firstItems(far, 8) + (far.size() == 1 ? " is" : " are") + " far from every GPU (PHB, NODE or SYS)",
        firstItems(seen, 8),
        "As a rule a NIC of the front network or of storage. NCCL uses every NIC that it is not told to "
        "leave out.",
        "export NCCL_IB_HCA==" + joined(others, ",") + "  # \"=\" before the list: exact names");
  }

  std::vector<std::string> columns_;
  std::map<std::string, std::map<std::string, std::string>> rows_;
  std::map<std::string, std::string> names_;  // "NIC0" -> "mlx5_0"
  std::string where_;
};

}  // namespace

std::unique_ptr<Paste> gpuMatrix() { return std::make_unique<Matrix>(); }

}  // namespace railwise::doctor
