// Lines of src/transport/net_ib*, of src/graph/paths.cc and of plugins: NICs, and whether GPU memory goes
// straight through them.
#include <algorithm>

#include "doctor/log/reading/reader.h"

namespace railwise::doctor {
namespace {

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

// "OOB eth0:10.0.0.1<0>", "Bootstrap: Using eth0:10.0.0.1<0>", "NET/Socket : Using [0]eth0:fe80::1%eth0<0>"
void readAddress(Process& process, std::string_view text) {
  constexpr std::size_t kMost = 16;
  const std::string_view before = text.substr(0, text.find('<'));
  const std::size_t name = before.rfind(' ');
  if (before.size() == text.size() || name == std::string_view::npos) return;
  const std::string_view address = after(before.substr(name + 1), ":");
  if (!address.empty() && process.addresses.size() < kMost) process.addresses.emplace(address);
}

// "Railwise 0.1.0, libibverbs: mlx5_0/RoCE mlx5_1/RoCE"
bool readRailwiseNics(Process& process, std::string_view text, Place place) {
  const std::string_view rest = after(text, "NET/Railwise : Railwise ");
  if (rest.data() == nullptr) return false;
  setFact(process.railwise, firstWord(rest, ","), place);
  setFact(process.nics_line, text, place);
  std::string_view list = after(rest, ": ");
  if (!process.nics.empty()) return true;
  while (!list.empty()) {
    const std::string_view nic = firstWord(list, " ");
    const std::string_view name = firstWord(nic, "/");
    addNic(process, name, nic.size() > name.size() ? nic.substr(name.size() + 1) : std::string_view());
    list = list.substr(std::min(list.size(), nic.size() + 1));
  }
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
  // NCCL's own IB network may be opened beside a plugin (docs/nccl.md): each speaks for itself.
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
  const auto known = std::find_if(
      process.far_pairs.begin(), process.far_pairs.end(),
      [&](const FarPair& other) { return other.distance == pair.distance && other.allowed == pair.allowed; });
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

}  // namespace

bool readNicLine(Process& process, std::string_view text, Place place) {
  if (readHca(process, text, place) || readPair(process, text, place) || readReason(process, text, place))
    return true;
  if (const auto list = after(text, "NET/IB : Using"); list.data() != nullptr)
    return readAddress(process, list), readNetIbNics(process, list, place), true;
  if (text.starts_with("Bootstrap") || text.starts_with("NET/Socket : Using")) {
    readAddress(process, text);
    return true;
  }
  if (readRailwiseNics(process, text, place) || readOfi(process, text, place)) return true;
  if (text.find("NET/IB : No device found") != std::string_view::npos ||
      text.find("Failed to open libibverbs") != std::string_view::npos) {
    setFact(process.no_rdma, text, place);
    return true;
  }
  if (text.starts_with("DMA-BUF is available")) return process.dma_buf = true;
  return false;
}

}  // namespace railwise::doctor
