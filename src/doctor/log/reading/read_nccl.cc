// Lines that NCCL and its plugins write: communicators, NICs, and who serves one-sided communication.
#include <algorithm>
#include <string>

#include "doctor/log/reading/reader.h"

namespace railwise::doctor {
namespace {

// ---- lines of src/plugin/gin.cc, src/plugin/rma.cc (up to 2.29.3 src/plugin/net.cc), src/graph/topo.cc,
// src/init.cc and src/dev_runtime.cc: who serves one-sided communication, and over which devices

constexpr std::size_t kMostTables = 8;
constexpr std::size_t kMostChanges = 16;

void addTable(std::vector<Fact>& tables, std::string_view name, Place place) {
  const bool known = std::ranges::any_of(tables, [&](const Fact& table) { return table.value == name; });
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
  const bool known = std::ranges::any_of(it.changes, [&](const DeviceChange& other) {
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

// ---- lines of src/transport/net_ib*, of src/graph/paths.cc and of plugins: NICs, and whether GPU memory
// goes straight through them

constexpr std::size_t kMostNics = 256;
constexpr std::size_t kMostReasons = 64;
constexpr std::size_t kMostPairs = 16;
constexpr std::size_t kMostNumbers = 16;  // of devices with one name

void addNic(Process& process, std::string_view name, std::string_view link) {
  if (!name.empty() && process.nics.size() < kMostNics)
    process.nics.push_back({std::string(name), std::string(link)});
}

// " [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"; a merged NIC: "[0]={[0] mlx5_0:1/IB,
// ...}".
void readNetIbNics(Process& process, std::string_view list, Place place) {
  if (!process.nics.empty()) return;
  setFact(process.nics_line, list, place);
  list = list.substr(0, list.find(';'));
  for (std::size_t at = list.find(']'); at != std::string_view::npos; at = list.find(']', at + 1)) {
    std::string_view nic = list.substr(at + 1);
    while (!nic.empty() && (nic[0] == ' ' || nic[0] == '=' || nic[0] == '{')) nic.remove_prefix(1);
    if (nic.starts_with('[')) continue;
    nic = firstWord(nic, " ,};[");
    const std::string_view name = firstWord(nic, "/");
    if (nic.size() > name.size()) addNic(process, name, nic.substr(name.size() + 1));
  }
}

// "OOB eth0:10.0.0.1<0>", "Bootstrap: Using eth0:10.0.0.1<0>", "NET/Socket : Using [0]eth0:10.0.0.1<0>
// [1]veth1:fe80::1%veth1<0>"
void readInterfaces(Process& process, std::string_view text) {
  constexpr std::size_t kMost = 16;
  for (std::size_t end = text.find('<'); end != std::string_view::npos; end = text.find('<', end + 1)) {
    const std::string_view before = text.substr(0, end);
    std::string_view item = before.substr(before.find_last_of(" ]") + 1);
    const std::string_view name = firstWord(item, ":");
    const std::string_view address = after(item, ":");
    const bool known = std::ranges::any_of(process.interfaces,
                                           [&](const Interface& other) { return other.address == address; });
    if (!known && !name.empty() && !address.empty() && process.interfaces.size() < kMost)
      process.interfaces.push_back({std::string(name), std::string(address)});
  }
}

// "Railwise 0.1.0, libibverbs: mlx5_0/RoCE mlx5_1/RoCE"
bool readRailwiseNics(Process& process, std::string_view text, Place place) {
  const std::string_view rest = after(text, "NET/Railwise : Railwise ");
  if (rest.data() == nullptr) return false;
  setFact(process.railwise, firstWord(rest, ","), place);
  setFact(process.nics_line, text, place);
  if (!process.nics.empty()) return true;
  for (const std::string_view nic : wordsIn(after(rest, ": ")))
    addNic(process, firstWord(nic, "/"), after(nic, "/"));
  return true;
}

// "NET/OFI Selected Provider is efa (found 4 nics)", "NET/OFI Selected provider is efa, fabric is efa (found
// 3 nics)"
bool readOfi(Process& process, std::string_view text, Place place) {
  const std::string_view provider = after(text, "rovider is ");
  if (!text.starts_with("NET/OFI ") || provider.data() == nullptr) return false;
  setFact(process.provider, firstWord(provider, " ,;"), place);
  setFact(process.nics_line, text, place);
  const int found = std::min(numberAfter(provider, "(found "), static_cast<int>(kMostNics));
  for (int i = static_cast<int>(process.nics.size()); i < found; ++i)
    addNic(process, process.provider.value + std::to_string(i), "OFI");
  return true;
}

// "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"
bool readHca(Process& process, std::string_view text, Place place) {
  const std::string_view state = after(text, " : GPU Direct RDMA ");
  if (!text.starts_with("NET/") || state.data() == nullptr) return false;
  const std::string_view network = text.substr(4, text.find(" : ") - 4);  // "AWS Libfabric" has a blank
  const std::string_view name = firstWord(after(state, "'"), "'");
  // NCCL's own IB network may be opened beside a plugin (docs/one-sided.md): each speaks for itself.
  if (network == "Socket") return true;
  const std::string key = std::string(network) + " " + std::string(name);
  if (process.gpu_direct.size() >= kMostNics && process.gpu_direct.count(key) == 0) return true;
  NicGpuDirect& nic =
      process.gpu_direct
          .emplace(key, NicGpuDirect{state.starts_with("Enabled"), {std::string(text), place}, {}})
          .first->second;
  if (nic.numbers.size() < kMostNumbers) nic.numbers.insert(numberAfter(state, "for HCA "));
  return true;
}

// "GPU Direct RDMA Disabled for GPU 0 / HCA 3 (distance 7 > 4)"
bool readPair(Process& process, std::string_view text, Place place) {
  if (!text.starts_with("GPU Direct RDMA ")) return false;
  const std::string_view distance = after(text, "(distance ");
  const std::string_view allowed = after(distance, " > ");
  if (!text.substr(16).starts_with("Disabled") || allowed.data() == nullptr) return true;
  const FarPair pair = {leadingNumber(distance), leadingNumber(allowed), 1, {std::string(text), place}};
  const auto known = std::ranges::find_if(process.far_pairs, [&](const FarPair& other) {
    return other.distance == pair.distance && other.allowed == pair.allowed;
  });
  if (known != process.far_pairs.end()) ++known->pairs;
  else if (process.far_pairs.size() < kMostPairs) process.far_pairs.push_back(pair);
  return true;
}

// What a plugin says of why GPU memory cannot be reached.
bool readReason(Process& process, std::string_view text, Place place) {
  const bool railwise = text.find(": GPUDirect: none") != std::string_view::npos;
  const bool gin = text.find("Peermem is not supported") != std::string_view::npos;
  if (!railwise && !gin) return false;
  if (process.no_gpu_direct_reasons.size() < kMostReasons)
    process.no_gpu_direct_reasons.push_back({std::string(text), place});
  return true;
}

// ---- lines of src/init.cc and src/transport*: communicators, channels, connections, algorithms

constexpr std::size_t kMostKinds = 512;
// PyTorch makes a communicator for each group of ranks. The first are the job's; of the later ones those that
// never came to their end count.
constexpr std::size_t kMostInits = 256;
// Of a communicator; more is a broken line.
constexpr int kMostRanks = 1 << 20;

// What is equal on all ranks of a communicator: the commId (2.19 and newer), else what a split says of
// itself.
std::string communicatorName(std::string_view text, int ranks) {
  const std::string_view id = after(text, "commId ");
  if (id.data() != nullptr) return std::string(firstWord(id));
  if (const auto color = after(text, " color "); color.data() != nullptr)
    return "split " + std::string(firstWord(after(text, "splitCount "))) + "/" +
           std::string(firstWord(color)) + "/" + std::to_string(ranks);
  return "of " + std::to_string(ranks);
}

// "ncclCommInitRank comm 0x.. rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId .. commId 0x.. - Init START"
bool readInit(Process& process, std::string_view text, Place place) {
  const bool complete = text.ends_with("Init COMPLETE");
  if (!complete && !text.ends_with("Init START")) return false;
  const std::string_view pointer = after(text, "comm 0x");
  Init init;
  init.rank = numberAfter(text, " rank ");
  init.ranks = numberAfter(text, " nranks ");
  if (init.rank < 0 || init.ranks <= 0 || init.ranks > kMostRanks || init.rank >= init.ranks) return true;
  init.device = numberAfter(text, " cudaDev ");
  init.communicator = communicatorName(text, init.ranks);
  init.split = text.find(" parent 0x") != std::string_view::npos;
  init.complete = complete;
  init.started = {std::string(text), place};
  const auto alike = [&](const Init& other) {
    return other.communicator == init.communicator && other.rank == init.rank && !other.complete &&
           firstWord(after(other.started.value, "comm 0x")) == firstWord(pointer);
  };
  auto known = std::ranges::find_if(process.inits, alike);
  if (complete) process.progress = place;
  if (known != process.inits.end()) {
    known->complete = known->complete || complete;
    return true;
  }
  if (process.inits.size() >= kMostInits) {
    known = std::find_if(process.inits.begin() + 1, process.inits.end(),
                         [](const Init& other) { return other.complete; });
    if (known == process.inits.end()) return true;
    process.inits.erase(known);
  }
  process.inits.push_back(std::move(init));
  return true;
}

// "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA/Shared", "Channel 00 : 0[0] -> 1[1] via P2P/IPC",
// of 2.13 with bus addresses in the brackets.
bool readChannel(Process& process, std::string_view text, Place place) {
  const std::string_view via = after(text, " via ");
  if (!text.starts_with("Channel ") || via.data() == nullptr) return false;
  const std::string_view way = firstWord(via);
  // The network's name may have blanks ("AWS Libfabric"): its part ends at the device's number.
  std::string name(way);
  bool gpu_direct = via.find("/GDRDMA") != std::string_view::npos;
  if (via.starts_with("NET/")) {
    const std::size_t slash = via.find('/', 4);
    const std::string_view rest =
        slash == std::string_view::npos ? std::string_view() : via.substr(slash + 1);
    name = std::string(via.substr(0, slash));
    if (const int device = leadingNumber(rest); device >= 0) name += "/" + std::to_string(device);
  } else {
    name = std::string(firstWord(way, "/")) + (way.find('/') == std::string_view::npos ? "" : "/") +
           std::string(firstWord(after(way, "/"), "/"));
    gpu_direct = false;
  }
  if (process.connections.size() >= kMostKinds && process.connections.count(name) == 0) return true;
  Connections& connections = process.connections[name];
  process.progress = place;
  if (connections.number++ == 0) connections.place = place;
  connections.gpu_direct += gpu_direct ? 1 : 0;
  return true;
}

// "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}" (2.23), "... Algo 1 proto 0 time 12.0"
bool readTuning(Process& process, std::string_view text) {
  const std::string_view algorithm = after(text, " Bytes -> Algo ");
  if (algorithm.data() == nullptr) return false;
  const std::string name = std::string(firstWord(text, ":")) + " " + std::string(firstWord(algorithm)) + " " +
                           std::string(firstWord(after(algorithm, " proto ")));
  if (process.algorithms.size() < kMostKinds || process.algorithms.count(name) > 0)
    ++process.algorithms[name];
  return true;
}

}  // namespace

bool readCommunicatorLine(Process& process, const LogLine& line, Place place) {
  const std::string_view text = line.text;
  const uint64_t before = process.progress.line;
  const auto noteTime = [&](bool taken) {
    if (process.progress.line != before) process.progress_time = line.time;
    return taken;
  };
  if (readChannel(process, text, place) || readTuning(process, text) || readInit(process, text, place))
    return noteTime(true);
  if (text.find(" coll channels, ") != std::string_view::npos) {
    setFact(process.channels, text, place);
    return true;
  }
  if (text.ends_with("Destroy COMPLETE") || text.ends_with("Finalize COMPLETE")) {
    process.closed = place;
    return true;
  }
  if (const int nodes = numberAfter(text, " nNodes "); nodes > 0) {
    process.nodes = std::max(process.nodes, nodes);
    return true;
  }
  return false;
}

bool readNicLine(Process& process, std::string_view text, Place place) {
  if (readHca(process, text, place) || readPair(process, text, place) || readReason(process, text, place))
    return true;
  if (const auto list = after(text, "NET/IB : Using"); list.data() != nullptr)
    return readInterfaces(process, list), readNetIbNics(process, list, place), true;
  if (text.starts_with("Bootstrap") || text.starts_with("NET/Socket : Using")) {
    readInterfaces(process, text);
    return true;
  }
  if (text.find("set_ece={supported=1") != std::string_view::npos) {
    if (text.find("options=0x0,") == std::string_view::npos) setFact(process.ece, text, place);
    return true;
  }
  if (readRailwiseNics(process, text, place) || readOfi(process, text, place)) return true;
  if (text.find("NET/IB : No device found") != std::string_view::npos ||
      text.starts_with("NET/OFI No eligible providers") ||
      text.find("Failed to open libibverbs") != std::string_view::npos) {
    setFact(process.no_rdma, text, place);
    return true;
  }
  // A host that is alone has no UUID.
  if (const auto fabric = after(text, "MNNVL busId "); fabric.data() != nullptr) {
    if (after(fabric, " UUID 0.0 ").data() == nullptr) setFact(process.fabric, text, place);
    return true;
  }
  if (text.starts_with("DMA-BUF is available")) return process.dma_buf = true;
  if (text.starts_with("ROCr version ")) return process.rocm = true;
  if (text.starts_with("Dmabuf feature disabled without NCCL_DMABUF_ENABLE")) {
    setFact(process.dma_buf_not_asked, text, place);
    return process.rocm = true;
  }
  return false;
}

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
