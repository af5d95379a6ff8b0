// Lines of src/plugin/gin.cc, src/plugin/rma.cc (up to 2.29.3 src/plugin/net.cc), src/graph/topo.cc,
// src/init.cc and src/dev_runtime.cc: who serves one-sided communication, and over which devices.
#include <algorithm>

#include "doctor/log/reading/reader.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kMostTables = 8;
constexpr std::size_t kMostChanges = 16;

void addTable(std::vector<Fact>& tables, std::string_view name, Place place) {
  const bool known =
      std::any_of(tables.begin(), tables.end(), [&](const Fact& table) { return table.value == name; });
  if (!known && !name.empty() && tables.size() < kMostTables) tables.push_back({std::string(name), place});
}

// "RMA/Plugin: Assigned plugin RMA_IB_PROXY to comm", of GIN with " type 2" (2.30.7 and newer); "Assigned GIN
// plugin GIN_IB_PROXY to comm" (2.28.3 to 2.30.4).
bool readAssigned(OneSided& it, std::string_view text, Place place) {
  struct Form {
    std::string_view begin;
    std::vector<Fact>& tables;
  };
  for (const Form& form :
       {Form{"RMA/Plugin: Assigned plugin ", it.rma}, Form{"GIN/Plugin: Assigned plugin ", it.gin},
        Form{"Assigned RMA plugin ", it.rma}, Form{"Assigned GIN plugin ", it.gin}}) {
    if (!text.starts_with(form.begin)) continue;
    std::string_view name = text.substr(form.begin.size());
    name = name.substr(0, name.rfind(" to comm"));
    addTable(form.tables, name.substr(0, name.rfind(" type ")), place);
    return true;
  }
  return false;
}

// Up to 2.30.4 one line is of both.
bool readNone(OneSided& it, std::string_view text, Place place) {
  if (text.starts_with("RMA/Plugin: Failed to initialize any")) return setFact(it.no_rma, text, place), true;
  if (text.starts_with("GIN/Plugin: Failed to initialize any") ||
      text.find("not sufficient to enable GIN") != text.npos)
    return setFact(it.no_gin, text, place), true;
  if (!text.starts_with("Failed to initialize any GIN plugin")) return false;
  setFact(it.no_gin, text, place);
  setFact(it.no_rma, text, place);
  return true;
}

// "TOPO/NET : Changing Railwise dev index from 0 to 1", from 2.31 on with an explanation behind it.
bool readChange(OneSided& it, std::string_view text, Place place) {
  const std::string_view change = after(text, "TOPO/NET : Changing ");
  const std::size_t name = change.find(" dev index from ");
  if (change.data() == nullptr || name == std::string_view::npos) return false;
  const std::string_view numbers = change.substr(name);
  const DeviceChange now = {.table = std::string(change.substr(0, name)),
                            .from = numberAfter(numbers, " from "),
                            .to = numberAfter(numbers, " to "),
                            .nic = "",
                            .place = place};
  // Every communicator repeats them.
  const bool known = std::any_of(it.changes.begin(), it.changes.end(), [&](const DeviceChange& other) {
    return other.table == now.table && other.from == now.from && other.to == now.to;
  });
  if (!known && it.changes.size() < kMostChanges) it.changes.push_back(now);
  return true;
}

// The line of the NIC itself, "NET/Railwise : GPU Direct RDMA Enabled for HCA 1 'mlx5_0'", follows that of
// the change.
void nameChanged(OneSided& it, std::string_view text) {
  const int number = numberAfter(text, " for HCA ");
  for (DeviceChange& change : it.changes) {
    if (!change.nic.empty() || change.to != number || !text.starts_with("NET/" + change.table + " : "))
      continue;
    change.nic = std::string(firstWord(after(text, "'"), "'"));
  }
}

// "NET/IB: ncclIbSenderQpsCreate: QP created: port=1 dev=0 devName=mlx5_0 ndevs=8 ..."
bool readQueuePair(OneSided& it, std::string_view text) {
  constexpr std::size_t kMost = 64;
  const std::string_view made = after(text, "QP created: ");
  if (!text.starts_with("NET/IB") || made.data() == nullptr) return false;
  std::string name(firstWord(after(made, "devName=")));
  if (const int port = numberAfter(made, "port="); port > 1) name += ":" + std::to_string(port);
  if (!name.empty() && it.connected.size() < kMost) it.connected.insert(name);
  return true;
}

}  // namespace

bool readOneSidedLine(Process& process, std::string_view text, Place place) {
  OneSided& it = process.one_sided;
  it.by_kind = it.by_kind || text.starts_with("RMA/Plugin: ");
  if (readAssigned(it, text, place) || readNone(it, text, place) || readChange(it, text, place) ||
      readQueuePair(it, text))
    return true;
  if (text.starts_with("Symmetric memory is not supported") || text.starts_with("symmetricSupport 0"))
    return setFact(it.no_symmetric, text, place), true;
  if (text.starts_with("Symmetric registration is not supported"))
    return setFact(it.no_effect, text, place), true;
  if (text.starts_with("NET/") && text.find(" : GPU Direct RDMA ") != text.npos) nameChanged(it, text);
  // The libraries of these plugins, found or not: who got the communicator says all.
  return text.starts_with("GIN/Plugin: ") || text.starts_with("RMA/Plugin: ") ||
         text.starts_with("Successfully loaded external gin plugin");
}

}  // namespace railwise::doctor
