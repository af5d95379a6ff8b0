// Which NIC does each GPU use, how far is it, and is GPUDirect on?
//   nics FILE          an NCCL topology file
//   nics --root DIR    the /sys below DIR, or recorded in DIR.tar.gz; "/" is this machine
#include <railwise/topology.h>

#include <cstdio>
#include <string>

namespace topology = railwise::topology;

namespace {

void printGpu(const topology::Machine& machine, const topology::Gpu& gpu) {
  const auto chosen = machine.chosenNets(gpu.index);
  if (!chosen) {
    std::printf("GPU %d: %s\n", gpu.rank, chosen.error().c_str());
    return;
  }
  for (const int net : *chosen) {
    const auto path = machine.path(gpu.index, net);
    const auto direct = machine.gpuDirect(gpu.index, net);
    if (!path || !direct) continue;
    std::printf("GPU %d: %s, %s, %g GB/s, GPUDirect %s: %s\n", gpu.rank,
                machine.nets()[static_cast<std::size_t>(net)].name.c_str(),
                topology::pathTypeName(path->type), path->bandwidth,
                direct->receive.mode == topology::GpuDirectMode::kOff ? "off" : "on",
                direct->receive.reason.c_str());
  }
}

}  // namespace

int main(int count, char** arguments) {
  const bool tree = count == 3 && std::string(arguments[1]) == "--root";
  if (count != 2 && !tree) {
    std::fprintf(stderr, "usage: nics FILE | nics --root DIR\n");
    return 2;
  }
  const auto machine =
      tree ? topology::Machine::loadTree(arguments[2]) : topology::Machine::loadFile(arguments[1]);
  if (!machine) {
    std::fprintf(stderr, "%s\n", machine.error().c_str());
    return 1;
  }
  for (const topology::Gpu& gpu : machine->gpus()) printGpu(*machine, gpu);
  for (const std::string& remark : machine->remarks()) std::printf("note: %s\n", remark.c_str());
  return 0;
}
