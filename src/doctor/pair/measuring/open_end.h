// This process's end of the pair test: its RDMA devices, opened, and what there is to know of them. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/settings/config.h"
#include "doctor/pair/measuring/plan.h"
#include "sysfs/file_tree.h"
#include "verbs/gid.h"
#include "verbs/handles.h"
#include "verbs/port.h"

namespace railwise::doctor::pair {

// Memory of a GPU for the pair test, through CUDA's driver library (dlopen of libcuda.so.1): building needs
// no CUDA. One thread.

// A block of memory; released with the object.
class GpuBlock {
 public:
  virtual ~GpuBlock() = default;
  virtual uint64_t address() const = 0;
  // The block as a dma-buf; -1: the driver gives none.
  virtual int dmaBuf() const = 0;
  // Copies between the block and memory of the host. False: the driver refuses.
  virtual bool write(std::size_t offset, const void* from, std::size_t bytes) = 0;
  virtual bool read(std::size_t offset, void* to, std::size_t bytes) const = 0;
};

class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  // An error: there is no library, or no GPU that it can use.
  static Outcome<std::unique_ptr<GpuDriver>> open();
  // `bus_id`: "0000:1b:00.0". The driver must outlive the block.
  virtual Outcome<std::unique_ptr<GpuBlock>> allocate(const std::string& bus_id, std::size_t bytes) = 0;
};

// One port, ready for queue pairs. Context and protection domain are null if the device cannot be opened.
struct OpenNic {
  verbs::Context context;
  verbs::Pd pd;
  verbs::Port port;
  std::vector<verbs::Gid> gids;  // those of NicFacts::gids
  int numa = -1;                 // node of the NIC; -1: not known
  std::string gpu;               // with --gpu: the nearest one, "0000:1b:00.0"; "": memory of the host
  GpuDriver* driver = nullptr;   // of `gpu`
};

struct OpenEnd {
  EndFacts facts;
  std::unique_ptr<GpuDriver> driver;  // null: the data lie in memory of the host
  std::vector<OpenNic> nics;          // in the order of facts.nics
  Config config;
};

// The settings for measuring: as in a job, but a write that nobody acknowledges fails within a second or two
// instead of half a minute.
Config measuringConfig(Config config);

// Opens the ports that `config.ib_hca` chooses. `tree`: the /sys that describes the devices. verbs::load()
// has been called with `config`. A device that cannot be opened is a fact, not an error; so is a machine
// without devices (EndFacts::failure).
// `gpu`: the data shall lie in the memory of GPUs; if they cannot, EndFacts::hidden says why.
OpenEnd openEnd(Config config, const sysfs::FileTree& tree, std::string host, bool gpu = false);

}  // namespace railwise::doctor::pair
