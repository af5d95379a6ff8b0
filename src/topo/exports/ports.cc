#include "topo/exports/ports.h"

#include <algorithm>

namespace railwise::topo {
namespace {

void addPorts(const HostView& host, const HostGpu& gpu, std::vector<NicPort>& ports) {
  for (const GivenNic& given : gpu.nics)
    for (const NicPort& port : host.nics[static_cast<std::size_t>(given.nic)].ports)
      if (std::none_of(ports.begin(), ports.end(), [&](const NicPort& known) {
            return known.device == port.device && known.port == port.port;
          }))
        ports.push_back(port);
}

}  // namespace

std::vector<NicPort> portsOfGpu(const HostView& host, const HostGpu& gpu) {
  std::vector<NicPort> ports;
  addPorts(host, gpu, ports);
  return ports;
}

std::vector<NicPort> portsOfAllGpus(const HostView& host) {
  std::vector<NicPort> ports;
  for (const HostGpu& gpu : host.gpus) addPorts(host, gpu, ports);
  return ports;
}

std::string ucxDevices(const std::vector<NicPort>& ports) {
  std::string text;
  for (const NicPort& port : ports)
    text += (text.empty() ? "" : ",") + port.device +
            (port.port == 0 ? std::string() : ":" + std::to_string(port.port));
  return text;
}

std::string nothingToChoose(const Machine& machine, const HostView& host) {
  if (!portsOfAllGpus(host).empty()) return "";
  return machine.name + ": no GPU has a NIC, so there is nothing to choose; railwise explain says why";
}

}  // namespace railwise::topo
