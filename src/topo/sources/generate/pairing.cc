// Decides which GPUs and NICs share a synthetic bridge.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/outcome.h"
#include "base/pci.h"
#include "base/text/words.h"
#include "topo/sources/generate/flat_machine.h"

namespace railwise::topo {
namespace {

struct TableRow {
  Bridge bridge;
  int node = 0;
};

const FlatDevice* findDevice(const std::vector<FlatDevice>& devices, std::string_view busid) {
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const FlatDevice& device) {
    return busIdToNumber(device.pci.busid) == busIdToNumber(busid);
  });
  return found == devices.end() ? nullptr : &*found;
}

// Reads the table of Pairing::kTable (flat_machine.h). An error names the table, the line and the mistake. A
// remark reports something that is unusual but may be intended.
class TableReader {
 public:
  TableReader(const FlatMachine& machine, const std::string& name, std::vector<std::string>& remarks)
      : machine_(machine), name_(name), remarks_(remarks) {}

  Outcome<std::vector<TableRow>> read(std::string text) {
    std::replace(text.begin(), text.end(), ',', ' ');
    int number = 0;
    for (const std::string& line : linesOf(text)) {
      place_ = name_ + ":" + std::to_string(++number) + ": ";
      const std::string problem = readLine(wordsOf(line.substr(0, line.find('#'))));
      if (!problem.empty()) return Error{place_ + problem};
    }
    if (rows_.empty()) {
      std::error_code ignored;  // reading a folder gives an empty text
      const bool folder = text.empty() && std::filesystem::is_directory(name_, ignored);
      return Error{name_ + (folder ? " is a directory, not a table" : ": the table is empty")};
    }
    return std::move(rows_);
  }

 private:
  // Returns "", or the mistake in the line.
  std::string readLine(const std::vector<std::string>& words) {
    if (words.empty()) return {};
    TableRow row;
    row.node = -1;
    for (const std::string& word : words)
      if (std::string problem = readWord(word, row); !problem.empty()) return problem;
    if (row.bridge.gpus.empty() && row.bridge.nics.empty()) return "node= without a device";
    if (row.node < 0) row.node = nodeOf(row.bridge);
    if (row.node < 0) return "/sys does not give the NUMA node of these devices: add node=N";
    remarkOnNodes(row.bridge);
    rows_.push_back(std::move(row));
    return {};
  }

  std::string readWord(std::string_view word, TableRow& row) {
    constexpr std::string_view kNode = "node=";
    if (word.starts_with(kNode)) {
      constexpr int kMostNodes = 1024;
      row.node = numberIn<int>(word.substr(kNode.size())).value_or(-1);
      if (row.node >= 0 && row.node < kMostNodes) return {};
      return "\"" + std::string(word) + "\": write node=N";
    }
    if (!isBusId(word)) return "\"" + std::string(word.substr(0, 64)) + "\" is no PCI address (0001:00:00.0)";
    const FlatDevice* gpu = findDevice(machine_.gpus, word);
    const FlatDevice* nic = findDevice(machine_.nics, word);
    const FlatDevice* device = gpu != nullptr ? gpu : nic;
    if (device == nullptr)
      return std::string(word) + " is none of the machine's GPUs and NICs that were chosen";
    if (!seen_.insert(device).second) return std::string(word) + " is there twice";
    (gpu != nullptr ? row.bridge.gpus : row.bridge.nics).push_back(device);
    return {};
  }

  void remarkOnNodes(const Bridge& bridge) {
    for (const FlatDevice* nic : bridge.nics) {
      for (const FlatDevice* gpu : bridge.gpus) {
        if (nic->node < 0 || gpu->node < 0 || nic->node == gpu->node) continue;
        remarks_.push_back(place_ + "the NIC " + nic->pci.busid + " is on NUMA node " +
                           std::to_string(nic->node) + " and the GPU " + gpu->pci.busid + " on NUMA node " +
                           std::to_string(gpu->node) + ", as /sys says: they can hardly share a switch");
        return;
      }
    }
  }

  static int nodeOf(const Bridge& bridge) {
    for (const auto* devices : {&bridge.gpus, &bridge.nics}) {
      for (const FlatDevice* device : *devices) {
        if (device->node >= 0) return device->node;
      }
    }
    return -1;
  }

  const FlatMachine& machine_;
  const std::string& name_;
  std::vector<std::string>& remarks_;
  std::string place_;  // for messages: "pairs.txt:2: "
  std::set<const FlatDevice*> seen_;
  std::vector<TableRow> rows_;
};

using Devices = std::vector<const FlatDevice*>;

std::string names(const Devices& devices) {
  return joined(devices, ", ", [](const FlatDevice* device) { return device->pci.busid; });
}

void append(Devices& to, const Devices& from, std::size_t first, std::size_t count) {
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first);
  to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
}

// busOf() returns "0001:00" for the address "0001:00:00.0".
std::string busOf(const FlatDevice& device) { return device.pci.busid.substr(0, 7); }
std::string domainOf(const FlatDevice& device) { return device.pci.busid.substr(0, 4); }
long busNumber(const FlatDevice& device) {
  return std::strtol(device.pci.busid.substr(5, 2).c_str(), nullptr, 16);
}

// Groups NICs by card: the functions of one card are one NIC, because NCCL puts the ports of all functions at
// function 0.
std::vector<Devices> cardsOf(const Devices& nics) {
  const auto cardOf = [](const FlatDevice& nic) { return nic.pci.busid.substr(0, nic.pci.busid.rfind('.')); };
  std::vector<Devices> cards;
  for (const FlatDevice* nic : nics) {
    if (cards.empty() || cardOf(*cards.back().front()) != cardOf(*nic)) cards.emplace_back();
    cards.back().push_back(nic);
  }
  return cards;
}

struct NodeDevices {
  Devices gpus;
  Devices nics;
};

class Pairer {
 public:
  Pairer(const FlatMachine& machine, const GenerateOptions& options, std::vector<std::string>& remarks)
      : machine_(machine), options_(options), remarks_(remarks) {}

  Outcome<Plan> run() {
    if (options_.pairing == Pairing::kTable) return byTable();
    if (const std::string problem = findNodes(); !problem.empty()) return Error{problem};
    if (options_.pairing == Pairing::kOrder) {
      per_bridge_ = options_.gpus_per_bridge;
      if (per_bridge_ <= 0) per_bridge_ = gpusPerBridge(machine_, remarks_);
    }
    for (auto& [node, devices] : nodes_) {
      where_ = "NUMA node " + std::to_string(node) + ": ";
      if (options_.pairing == Pairing::kBus) byBus(plan_[node], devices);
      else byOrder(plan_[node], devices);
    }
    if (guessed_)
      remarks_.push_back(
          "this order is a guess, because /sys does not show which devices share a PCIe switch: compare with "
          "lspci -tv on the host, and where it differs give --pair=table=FILE");
    return std::move(plan_);
  }

 private:
  // Groups the devices by NUMA node. Returns "", or why that is not possible.
  std::string findNodes() {
    const Devices lost_gpus = group(machine_.gpus, &NodeDevices::gpus);
    if (!lost_gpus.empty()) {
      return "/sys does not give the NUMA node of " + names(lost_gpus) +
             " and there are several: say where each is with --pair=table=FILE (lines of PCI addresses and "
             "node=N)";
    }
    const Devices lost_nics = group(machine_.nics, &NodeDevices::nics);
    if (!lost_nics.empty()) placeLostNics(lost_nics);
    return {};
  }

  // Returns the devices whose NUMA node is not known.
  Devices group(const std::vector<FlatDevice>& devices, Devices NodeDevices::*kind) {
    Devices lost;
    for (const FlatDevice& device : devices)
      (device.node < 0 ? lost : nodes_[device.node].*kind).push_back(&device);
    return lost;
  }

  // Places NICs whose NUMA node is not known. That is possible if they can be shared equally, in order, among
  // all GPUs of the machine.
  void placeLostNics(const Devices& lost) {
    const std::size_t gpus = machine_.gpus.size();
    const std::vector<Devices> cards = cardsOf(lost);
    if (lost.size() != machine_.nics.size() || cards.size() % gpus != 0) {
      remarks_.push_back(names(lost) + " left out: /sys does not give the NUMA node; --pair=table=FILE can");
      return;
    }
    for (std::size_t i = 0; i < cards.size(); ++i) {
      Devices& nics = nodes_[machine_.gpus[i / (cards.size() / gpus)].node].nics;
      append(nics, cards[i], 0, cards[i].size());
    }
    remarks_.push_back(
        "/sys does not give the NUMA node of any NIC: they are shared out over all GPUs in order");
  }

  void byOrder(NodePlan& plan, const NodeDevices& devices) {
    const std::size_t gpus = devices.gpus.size();
    const std::vector<Devices> cards = cardsOf(devices.nics);
    const std::size_t nics = cards.size();
    const auto appendCards = [&cards](Devices& to, std::size_t from, std::size_t number) {
      for (std::size_t i = from; i < from + number; ++i) append(to, cards[i], 0, cards[i].size());
    };
    const auto per_bridge = static_cast<std::size_t>(per_bridge_);
    const std::size_t bridges = per_bridge == 0 ? 0 : (gpus + per_bridge - 1) / per_bridge;
    if (bridges == 0 || nics < bridges) {
      leaveLoose(plan, devices, bridges);
      return;
    }
    const bool per_gpu = nics >= gpus;  // otherwise the GPUs of a bridge share its NICs
    const std::size_t share = nics / (per_gpu ? gpus : bridges);
    std::size_t used = 0;
    for (std::size_t first = 0; first < gpus; first += per_bridge) {
      const std::size_t count = std::min(per_bridge, gpus - first);
      Bridge& bridge = plan.bridges.emplace_back();
      append(bridge.gpus, devices.gpus, first, count);
      const std::size_t nics_here = per_gpu ? share * count : share;
      appendCards(bridge.nics, used, nics_here);
      used += nics_here;
    }
    appendCards(plan.loose, used, nics - used);
    remarks_.push_back(where_ + counted(gpus, "GPU") + " and " + counted(nics, "NIC") + " on " +
                       counted(bridges, "bridge") + ", paired in the order of their PCI addresses");
    guessed_ = true;
    if (used < nics) {
      remarks_.push_back(
          where_ + "the GPUs cannot share the NICs evenly: " + names(plan.loose) +
          " directly at the CPU; --exclude leaves it out, --pair=table=FILE says where it belongs");
    }
  }

  void leaveLoose(NodePlan& plan, const NodeDevices& devices, std::size_t bridges) {
    plan.loose = devices.gpus;
    append(plan.loose, devices.nics, 0, devices.nics.size());
    if (devices.nics.empty()) {
      remarks_.push_back(where_ + "no NIC, so no bridge: " + counted(devices.gpus.size(), "GPU") +
                         " directly at the CPU");
    } else if (devices.gpus.empty()) {
      remarks_.push_back(where_ + "no GPU, so no bridge: " + names(devices.nics) + " directly at the CPU");
    } else if (bridges != 0) {
      remarks_.push_back(where_ + counted(devices.nics.size(), "NIC") + " for " + counted(bridges, "group") +
                         " of GPUs: nothing shows which group has a NIC, so all are "
                         "directly at the CPU; --gpus-per-bridge=N or --pair=table=FILE says it");
    }
  }

  void byBus(NodePlan& plan, const NodeDevices& devices) {
    std::map<std::string, Bridge> buses;
    for (const FlatDevice* gpu : devices.gpus) buses[busOf(*gpu)].gpus.push_back(gpu);
    Devices lost;
    for (const FlatDevice* nic : devices.nics) {
      const FlatDevice* gpu = nearestGpu(*nic, devices.gpus);
      if (gpu != nullptr) buses[busOf(*gpu)].nics.push_back(nic);
      else lost.push_back(nic);
    }
    for (auto& [bus, bridge] : buses) {
      if (bridge.nics.empty()) append(plan.loose, bridge.gpus, 0, bridge.gpus.size());
      else plan.bridges.push_back(std::move(bridge));
    }
    remarks_.push_back(where_ + counted(plan.bridges.size(), "bridge") + ", by PCI bus");
    if (lost.empty()) return;
    append(plan.loose, lost, 0, lost.size());
    remarks_.push_back(where_ + "no bus shows which GPU is near " + names(lost) +
                       ": directly at the CPU; --pair=order shares them out");
  }

  // The GPU with the nearest bus in the same domain. Null: there is none, or two different buses are equally
  // near.
  static const FlatDevice* nearestGpu(const FlatDevice& nic, const Devices& gpus) {
    const FlatDevice* nearest = nullptr;
    long least = 0;
    bool tie = false;
    for (const FlatDevice* gpu : gpus) {
      if (domainOf(*gpu) != domainOf(nic)) continue;
      const long distance = std::labs(busNumber(*gpu) - busNumber(nic));
      if (nearest != nullptr && distance == least) tie = tie || busOf(*gpu) != busOf(*nearest);
      if (nearest != nullptr && distance >= least) continue;
      nearest = gpu;
      least = distance;
      tie = false;
    }
    return tie ? nullptr : nearest;
  }

  Outcome<Plan> byTable() {
    Outcome<std::vector<TableRow>> rows =
        TableReader(machine_, options_.table_name, remarks_).read(options_.table);
    if (!rows.ok()) return Error{rows.error()};
    std::set<const FlatDevice*> placed;
    for (TableRow& row : *rows) {
      placed.insert(row.bridge.gpus.begin(), row.bridge.gpus.end());
      placed.insert(row.bridge.nics.begin(), row.bridge.nics.end());
      plan_[row.node].bridges.push_back(std::move(row.bridge));
    }
    for (const auto* devices : {&machine_.gpus, &machine_.nics}) {
      for (const FlatDevice& device : *devices) {
        if (placed.count(&device) != 0) continue;
        const bool known = device.node >= 0;
        if (known) plan_[device.node].loose.push_back(&device);
        remarks_.push_back(device.pci.busid + " is not in " + options_.table_name +
                           (known ? ": directly at the CPU" : ": left out, as its NUMA node is not known"));
      }
    }
    return std::move(plan_);
  }

  const FlatMachine& machine_;
  const GenerateOptions& options_;
  std::vector<std::string>& remarks_;
  std::map<int, NodeDevices> nodes_;
  Plan plan_;
  std::string where_;
  int per_bridge_ = 0;
  bool guessed_ = false;  // some devices were paired by their order
};

}  // namespace

int gpusPerBridge(const FlatMachine& machine, std::vector<std::string>& remarks) {
  constexpr double kGen5 = 32;  // GT/s
  // A GPU of a VM may report as little about its link as a virtual function does.
  const bool by_nics = fastestLink(machine.gpus) == nullptr;
  double fastest = 0;
  int widest = 0;
  for (const FlatDevice& device : by_nics ? machine.nics : machine.gpus) {
    fastest = std::max(fastest, device.link.gigatransfers);
    widest = std::max(widest, device.link.lanes);
  }
  const auto decided = [&](int gpus, const char* why) {
    remarks.push_back(why + std::string("; --gpus-per-bridge=N says otherwise"));
    return gpus;
  };
  if (widest == 0) return decided(1, "no GPU and no NIC gives its link: one GPU per bridge");
  if (by_nics) remarks.push_back("no GPU gives its link: the NICs' link gives the PCIe generation");
  if (widest == 1 && !by_nics)
    return decided(0, "the GPUs have one PCIe lane: their data goes over C2C, no bridges");
  if (fastest >= kGen5)
    return decided(1, "one GPU per bridge: since PCIe Gen5 each GPU has a switch of its own");
  return decided(2, "two GPUs per bridge: up to PCIe Gen4 two GPUs share a switch");
}

Outcome<Plan> pairDevices(const FlatMachine& machine, const GenerateOptions& options,
                          std::vector<std::string>& remarks) {
  return Pairer(machine, options, remarks).run();
}

}  // namespace railwise::topo
