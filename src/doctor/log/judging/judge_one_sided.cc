// One-sided communication (GIN, RMA): who serves it, and what of it does not fit. NCCL opens its own IB
// network for it beside a plugin that has no table of its own.
#include <algorithm>
#include <set>

#include "doctor/log/judging/judge.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

bool isOwnOfNccl(const std::string& table) {
  return table.starts_with("GIN_IB") || table.starts_with("RMA_IB");
}

std::string ownerOf(const Process& process, const std::string& table) {
  if (table.starts_with("GIN_IB_GDAKI")) return "NCCL's own IB network from the GPU (GDAKI)";
  if (isOwnOfNccl(table)) return "NCCL's own IB network";
  return table == process.network ? table : "plugin " + table;
}

// Who is behind tables; `otherwise`: there is no table with a name.
std::string ownersText(const Process& process, const std::vector<Fact>& tables,
                       const std::string& otherwise) {
  std::vector<std::string> owners;
  for (const Fact& table : tables) {
    const std::string owner = ownerOf(process, table.value);
    if (std::ranges::find(owners, owner) == owners.end()) owners.push_back(owner);
  }
  return owners.empty() ? otherwise : firstItems(owners, kShownItems);
}

Fact namesOf(const std::vector<Fact>& tables, const Fact& none) {
  if (tables.empty()) return {none.value.empty() ? "" : "none", none.place};
  std::vector<std::string> names;
  names.reserve(tables.size());
  for (const Fact& table : tables) names.push_back(table.value);
  return {firstItems(names, kShownItems), tables.front().place};
}

constexpr char kUnnamed[] = "unnamed";

// NCCL 2.31 has no line for the table that GIN gets, only for none. A complete communicator has passed it.
bool isUnnamed(const Process& process) {
  const OneSided& it = process.one_sided;
  return it.by_kind && it.gin.empty() && it.no_gin.value.empty() &&
         std::ranges::any_of(process.inits, [](const Init& init) { return init.complete; });
}

// The tables of both kinds, by name.
std::set<std::string> tablesOf(const Process& process) {
  std::set<std::string> names;
  for (const std::vector<Fact>* tables : {&process.one_sided.gin, &process.one_sided.rma})
    for (const Fact& table : *tables) names.insert(table.value);
  return names;
}

// The NICs that a table has told NCCL of.
std::set<std::string> nicsOf(const Process& process, const std::string& table) {
  std::set<std::string> nics;
  for (const auto& [name, gpu_direct] : process.gpu_direct)
    if (name.starts_with(table + " ")) nics.insert(name.substr(table.size() + 1));
  return nics;
}

std::string overText(const Process& process) {
  std::set<std::string> nics;
  for (const std::string& table : tablesOf(process)) nics.merge(nicsOf(process, table));
  if (nics.empty()) return "";
  const std::vector<std::string> names(nics.begin(), nics.end());
  return " over " + counted(names.size(), "NIC", "NICs") + " (" + firstItems(names, 4) + ")";
}

// --- A NIC that two tables number differently ---

const std::set<int>& numbersOf(const Process& process, const std::string& table, const std::string& nic) {
  static const std::set<int> kNone;
  const auto found = process.gpu_direct.find(table + " " + nic);
  return found == process.gpu_direct.end() ? kNone : found->second.numbers;
}

// Does each table of one-sided communication find the NIC under the number that NCCL keeps, the network's?
bool isFound(const Process& process, const DeviceChange& change) {
  const std::set<int>& kept = numbersOf(process, process.network, change.nic);
  if (kept.empty()) return false;
  for (const std::string& table : tablesOf(process)) {
    const std::set<int>& numbers = numbersOf(process, table, change.nic);
    if (!numbers.empty() && numbers.count(*kept.rbegin()) == 0) return false;
  }
  return true;
}

// A topology file has numbers too; that the first table overwrites them is no harm.
bool isHarmless(const Process& process, const DeviceChange& change) {
  const std::set<std::string> tables = tablesOf(process);
  if (tables.empty() || isFound(process, change)) return true;
  return tables.count(change.table) > 0 && setting(process, "NCCL_TOPO_FILE") != nullptr;
}

// NCCL_IB_HCA with the first ports that all tables have. "": not known.
std::string sameListFix(const Process& process) {
  std::string list;
  for (const std::string& nic : nicsOf(process, process.network)) {
    const std::set<std::string> tables = tablesOf(process);
    const bool plain = nic.find_first_of(":+") == std::string::npos && !nic.ends_with("_dma");
    const bool everywhere = std::ranges::all_of(
        tables, [&](const std::string& table) { return nicsOf(process, table).count(nic) > 0; });
    if (plain && everywhere) list += (list.empty() ? "" : ",") + nic + ":1";
  }
  if (list.empty()) return "";
  return "export NCCL_IB_HCA='=" + list + "'  # on all ranks: the ports that both find, each once\n";
}

std::string changeFix(const Process& process) {
  const std::string same = sameListFix(process);
  if (process.network == "Railwise")
    return same +
           "unset NCCL_IB_DEVICE_PCI_ORDER  # both then count by PCI address\n"
           "export NCCL_IB_DISABLE=1 RAILWISE_DEVICE=verbs  # if it stays: no one-sided communication over "
           "IB, Railwise goes on";
  return same +
         "export NCCL_IB_DEVICE_PCI_ORDER=0  # NCCL's own network then counts as libibverbs does\n"
         "install a newer plugin " +
         process.network;
}

// "mlx5_0 is device 1 with Railwise, device 0 with RMA_IB_PROXY"
std::string changeText(const Process& process, const DeviceChange& change) {
  std::set<std::string> tables = tablesOf(process);
  tables.erase(process.network);
  std::string text = change.nic + " is";
  std::size_t known = 0;
  std::vector<std::string> order = {process.network};
  order.insert(order.end(), tables.begin(), tables.end());
  for (const std::string& table : order) {
    const std::set<int>& numbers = numbersOf(process, table, change.nic);
    if (numbers.empty()) continue;
    text += (known++ == 0 ? " device " : ", device ") + rangesText(numbers) + " with " + table;
  }
  if (known > 1) return text;
  return (change.nic.empty() ? "a NIC" : change.nic) + " is device " + std::to_string(change.to) + " with " +
         change.table + ", and was device " + std::to_string(change.from) + " before";
}

void judgeChanges(const Ranks& ranks, int index, const Process& process, Findings& findings) {
  std::vector<Seen> seen;
  std::set<std::string> told;
  for (const DeviceChange& change : process.one_sided.changes) {
    const std::string text = changeText(process, change);
    if (!isHarmless(process, change) && told.insert(text).second)
      seen.push_back(ranks.seenAt(index, {text, change.place}));
  }
  if (!seen.empty())
    findings.add(
        "one-sided-device", Severity::kWarning,
        "a NIC has two numbers: one-sided communication may open another NIC than the one near the GPU",
        std::move(seen),
        "NCCL keeps one number for each NIC, and the last table that writes it wins. GIN and RMA then open "
        "the device that has this number with them. Collectives, send and receive are not touched.",
        changeFix(process));
}

// --- Why there is none ---

struct Switch {
  const char* setting;
  bool by_zero;  // 0 turns it off; else anything but 0
  const char* why;
};
constexpr Switch kSwitches[] = {
    {"NCCL_CUMEM_ENABLE", true, "turns off CUDA's virtual memory, of which windows are made"},
    {"NCCL_WIN_ENABLE", true, "turns windows off"},
    {"NCCL_NUM_RMA_CTX", true, "leaves host RMA no context"},
    {"NCCL_CROSS_NIC", true, "keeps traffic on its rail, and host RMA wants to reach every NIC"},
    {"NCCL_RMA_DISABLE", false, "turns off the proxy of host RMA"},
    {"NCCL_GIN_TYPE", true, "leaves no kind of GIN, which windows across hosts want"},
    {"NCCL_IB_DISABLE", false, "turns off NCCL's own IB network"},
};

// Sentences and commands, each once. All ranks count: what one lacks, none has.
class Reasons {
 public:
  Reasons(const Ranks& ranks, int asking) : ranks_(ranks), asking_(asking) {}

  void look(int index, const Process& process) {
    const std::string who = index == asking_ ? "" : " on " + ranks_.label(index);
    for (const Switch& each : kSwitches) {
      const Fact* const fact = setting(process, each.setting);
      if (fact == nullptr || (fact->value == "0") != each.by_zero) continue;
      add(each.setting, std::string(each.setting) + "=" + fact->value + " " + each.why + who + ".",
          "unset " + std::string(each.setting));
    }
    const OneSided& it = process.one_sided;
    for (const auto& [tables, none, kind] :
         {std::tuple(&it.gin, &it.no_gin, "GIN"), std::tuple(&it.rma, &it.no_rma, "RMA")})
      if (tables->empty() && !none->value.empty())
        add("table", std::string("There is no table for ") + kind + who + ": \"" + none->value + "\".", "");
    for (const char* const library : {"NCCL_GIN_PLUGIN", "NCCL_RMA_PLUGIN"})
      if (const Fact* const asked = setting(process, library); asked != nullptr && known_.count("table") > 0)
        add(library, std::string(library) + "=" + asked->value + " brings none.",
            "unset " + std::string(library));
    for (const Fact& reason : process.no_gpu_direct_reasons)
      if (reason.value.find("use GIN") != std::string::npos)
        add("memory", "No NIC reaches GPU memory" + who + ".",
            "modprobe nvidia_peermem  # or a driver and kernel with dma-buf");
    readNumbers(it.no_symmetric.value, who);
  }

  bool empty() const { return answer_.why.empty(); }
  void add(const std::string& key, const std::string& why, const std::string& fix) {
    if (!known_.insert(key).second) return;
    answer_.why += " " + why;
    if (!fix.empty()) answer_.fix += (answer_.fix.empty() ? "" : "\n") + fix;
  }
  OneSidedReason take() { return std::move(answer_); }

 private:
  // "Symmetric memory is not supported. cuMemEnable 0, globalGinSupport 0, globalNicFused 1 cuMemGdrSupport
  // 1"
  void readNumbers(const std::string& line, const std::string& who) {
    if (line.empty()) return;
    if (numberAfter(line, "cuMemEnable ") == 0)
      add("NCCL_CUMEM_ENABLE",
          "CUDA's virtual memory (cuMem) is off" + who + ": the driver or the container lacks it.",
          "export NCCL_CUMEM_ENABLE=1");
    if (numberAfter(line, "cuMemGdrSupport ") == 0)
      add("attribute",
          "A GPU does not say that a NIC reaches its virtual memory "
          "(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED).",
          "install NVIDIA's open kernel modules");
    if (numberAfter(line, "globalNicFused ") == 1)
      add("fused", "A NIC is fused of several, and this release has no one-sided communication over it.",
          "export NCCL_NET_MERGE_LEVEL=LOC");
    if (empty())
      add("peers",
          "The GPUs of a host do not all reach each other's memory (P2P), or the ranks have different GIN.",
          "nvidia-smi topo -p2p r\nrailwise topo transports");
  }

  const Ranks& ranks_;
  const int asking_;
  std::set<std::string> known_;
  OneSidedReason answer_;
};

}  // namespace

OneSidedReason whyNotOneSided(const Job& job, const Ranks& ranks, int process) {
  Reasons reasons(ranks, process);
  bool split = false;
  const auto look = [&](int index, const Process& its) {
    reasons.look(index, its);
    split = split || std::ranges::any_of(its.inits, [](const Init& init) { return init.split; });
  };
  if (process >= 0) look(process, job.processes[static_cast<std::size_t>(process)]);
  for (const auto& [index, its] : ranks.members())
    if (index != process) look(index, its);
  if (reasons.empty() && split)
    reasons.add("split", "A communicator that shares its parent's resources (splitShare=1) has no host RMA.",
                "");
  return reasons.take();
}

Fact rmaTables(const Process& process) { return namesOf(process.one_sided.rma, process.one_sided.no_rma); }

Fact ginTables(const Process& process) {
  if (isUnnamed(process)) return {kUnnamed, rmaTables(process).place};
  return namesOf(process.one_sided.gin, process.one_sided.no_gin);
}

std::string oneSidedTables(const Process& process) {
  const std::string gin = ginTables(process).value;
  const std::string rma = rmaTables(process).value;
  if (gin == rma) return gin.empty() ? "" : gin + " for GIN and RMA";
  return (gin.empty() ? "" : gin + " for GIN") + (gin.empty() || rma.empty() ? "" : ", ") +
         (rma.empty() ? "" : rma + " for RMA");
}

std::string oneSidedText(const Process& process) {
  const OneSided& it = process.one_sided;
  const std::string gin =
      ownersText(process, it.gin,
                 isUnnamed(process) ? "a table that this NCCL does not name" : ginTables(process).value);
  const std::string rma = ownersText(process, it.rma, rmaTables(process).value);
  if (gin.empty() && rma.empty()) return "";
  std::string text = gin == rma    ? "GIN and RMA: " + gin
                     : rma.empty() ? "GIN: " + gin
                     : gin.empty() ? "RMA: " + rma
                                   : "GIN: " + gin + "; RMA: " + rma;
  text += overText(process);
  const std::set<std::string> tables = tablesOf(process);
  const bool beside = std::ranges::any_of(tables, isOwnOfNccl) && !process.plugin.value.empty() &&
                      process.plugin.value == process.network;
  if (beside) text += ", not " + process.plugin.value + ", which serves collectives, send and receive";
  return text;
}

void judgeOneSided(const Job& job, const Ranks& ranks, Findings& findings) {
  std::vector<Seen> seen;
  int asking = -1;
  for (const auto& [index, process] : ranks.members()) {
    judgeChanges(ranks, index, process, findings);
    if (process.one_sided.no_effect.value.empty()) continue;
    if (asking < 0) asking = index;
    seen.push_back(ranks.seenAt(index, process.one_sided.no_effect));
  }
  if (asking < 0) return;
  const OneSidedReason reason = whyNotOneSided(job, ranks, asking);
  findings.add(
      "window-ignored", Severity::kWarning,
      "the program asks for the memory behind a window, and the communicator has no symmetric memory",
      std::move(seen),
      "The window has no effect: what the program wanted to gain by it is lost." + reason.why,
      reason.fix.empty() ? "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV" : reason.fix);
}

}  // namespace railwise::doctor
