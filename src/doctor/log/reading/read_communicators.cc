// Lines of src/init.cc and src/transport*: communicators, channels, connections, algorithms.
#include <algorithm>
#include <string>

#include "doctor/log/reading/reader.h"

namespace railwise::doctor {
namespace {

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
  auto known = std::find_if(process.inits.begin(), process.inits.end(), alike);
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
  if (readChannel(process, text, place) || readTuning(process, text) || readInit(process, text, place))
    return true;
  if (text.find(" coll channels, ") != std::string_view::npos) {
    setFact(process.channels, text, place);
    return true;
  }
  if (text.ends_with("Destroy COMPLETE") || text.ends_with("Finalize COMPLETE")) {
    process.progress = place;
    return true;
  }
  if (const int nodes = numberAfter(text, " nNodes "); nodes > 0) {
    process.nodes = std::max(process.nodes, nodes);
    return true;
  }
  return false;
}

}  // namespace railwise::doctor
