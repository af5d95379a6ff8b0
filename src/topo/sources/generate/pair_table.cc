#include "topo/sources/generate/pair_table.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/text/bus_id.h"

namespace railwise::topo {
namespace {

constexpr std::string_view kBlanks = " \t\r,";

std::string_view nextWord(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(kBlanks), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

const FlatDevice* findDevice(const std::vector<FlatDevice>& devices, std::string_view busid) {
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const FlatDevice& device) {
    return busIdToNumber(device.pci.busid) == busIdToNumber(busid);
  });
  return found == devices.end() ? nullptr : &*found;
}

class TableReader {
 public:
  TableReader(const FlatMachine& machine, const std::string& name, std::vector<std::string>& remarks)
      : machine_(machine), name_(name), remarks_(remarks) {}

  Outcome<std::vector<TableRow>> read(std::string_view text) {
    const std::size_t bytes = text.size();
    for (int number = 1; !text.empty(); ++number) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      place_ = name_ + ":" + std::to_string(number) + ": ";
      const std::string problem = readLine(line.substr(0, line.find('#')));
      if (!problem.empty()) return Error{place_ + problem};
    }
    if (rows_.empty()) {
      std::error_code ignored;  // reading a folder gives an empty text
      const bool folder = bytes == 0 && std::filesystem::is_directory(name_, ignored);
      return Error{name_ + (folder ? " is a directory, not a table" : ": the table is empty")};
    }
    return std::move(rows_);
  }

 private:
  // Returns "", or the mistake in the line.
  std::string readLine(std::string_view line) {
    TableRow row;
    row.node = -1;
    bool empty = true;
    for (std::string_view word = nextWord(line); !word.empty(); word = nextWord(line)) {
      empty = false;
      if (std::string problem = readWord(word, row); !problem.empty()) return problem;
    }
    if (empty) return {};
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
      const char* end = word.data() + word.size();
      const auto [stop, error] = std::from_chars(word.data() + kNode.size(), end, row.node);
      if (error == std::errc() && stop == end && row.node >= 0 && row.node < kMostNodes) return {};
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

}  // namespace

Outcome<std::vector<TableRow>> readPairTable(const FlatMachine& machine, std::string_view text,
                                             const std::string& name, std::vector<std::string>& remarks) {
  return TableReader(machine, name, remarks).read(text);
}

}  // namespace railwise::topo
