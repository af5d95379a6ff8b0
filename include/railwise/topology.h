// librailwise-topology: NCCL's view of a machine (graph, paths, the NICs of each GPU) and the reason for
// every choice, from C++17 on. C programs, and programs that must run with later versions without being
// compiled again, include <railwise/topology_c.h>.
//
//   auto machine = railwise::topology::Machine::loadFile("topology.xml");
//   if (!machine) return fail(machine.error());
//   for (const auto& gpu : machine->gpus())
//     std::cout << gpu.rank << ": " << machine->nets()[machine->chosenNets(gpu.index)->front()].name << "\n";
//
// Rules of all of it:
//
// Source: the answers are those of the release of NCCL that Options::nccl names: graph/xml.cc, topo.cc,
// paths.cc and search.cc there. docs/topology.md tells the rules.
//
// Units: bandwidths in GB/s (10^9 bytes per second) in one direction, as NCCL counts them; speeds of NICs in
// Mb/s. Indices count from 0 in gpus() and nets().
//
// Errors: a Result holds a value or a text: what is wrong, where (file, line, column, device), what to do. No
// exception leaves a function that returns a Result; the others can only run out of memory.
//
// Threads: a Machine never changes: any number of threads may use one. Functions have no global state, do not
// read the environment, and print nothing.
//
// Versions: the shared object's name carries the C++ ABI (librailwise-topology.so.0).
#ifndef RAILWISE_TOPOLOGY_H
#define RAILWISE_TOPOLOGY_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#if defined(__GNUC__)
#define RAILWISE_TOPOLOGY_API __attribute__((visibility("default")))
#else
#define RAILWISE_TOPOLOGY_API
#endif

namespace railwise::topology {

// "0.1.0": the version of the library that runs, static storage.
RAILWISE_TOPOLOGY_API const char* version();

struct Failure {
  std::string text;
};

// A value, or why there is none. Taking the value of a failed Result is an error of the caller (undefined).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                 // NOLINT: implicit
  Result(Failure failure) : error_(std::move(failure.text)) {}  // NOLINT: implicit

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return error_; }  // empty when ok()
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  std::string error_;
};

// Whose rules are applied: one of these, or any release from 2.13 on by the number that NCCL gives it
// (NCCL_VERSION_CODE), such as static_cast<Nccl>(23004) for 2.30.4. remarks() say so where a release's own
// rules are not known.
enum class Nccl : int {
  kNewest = 0,  // the newest with rules that are known: 2.31.2
  k2_28 = 22809,
  k2_30 = 23007,
  k2_31 = 23102,
};

// Path types of NCCL (graph/topo.h: PATH_*), nearest first.
enum class PathType {
  kLoc = 0,   // the same device
  kNvl = 1,   // NVLink or xGMI
  kNvb = 2,   // NVLink through another GPU
  kC2c = 3,   // chip to chip, GPU to CPU
  kPix = 4,   // one PCIe switch
  kPxb = 5,   // several PCIe switches, without the CPU
  kP2c = 6,   // chip to chip to the CPU, then PCIe
  kPxn = 7,   // NVLink to another GPU that is near the NIC, then PCIe
  kPhb = 8,   // the PCIe host bridge of a CPU
  kSys = 9,   // between CPUs (NUMA nodes)
  kNet = 10,  // the network
  kDis = 11,  // not connected
};
// "PIX", and its meaning as a part of a sentence. Static storage; "?" for a number that is none.
RAILWISE_TOPOLOGY_API const char* pathTypeName(PathType type);
RAILWISE_TOPOLOGY_API const char* pathTypeMeaning(PathType type);

// A release as people write it, "2.30.7", or "2.30" for the newest of 2.30; "": the newest with rules that
// are known. An error: it is no release from 2.13 on.
RAILWISE_TOPOLOGY_API Result<Nccl> ncclRelease(const std::string& text);

// What NCCL would know besides the file or tree. The defaults are NCCL's without any variable set.
struct Options {
  Nccl nccl = Nccl::kNewest;
  // NCCL's environment variables as "NAME=VALUE"; the first of a name counts, others than NCCL's are ignored.
  // A value that NCCL ignores is told in remarks().
  std::vector<std::string> variables;
  // For GPUs and NICs that the file or tree does not describe, where a running NCCL asks NVML and its plugin:
  // Compute capability times ten, 90 = 9.0. 0 (with nvswitch_links 0): that of GPUs that are known by their
  // PCI ids, with their NVLinks; else 80 is assumed. A remark says so.
  int gpu_sm = 0;
  int nvswitch_links = 0;       // NVLinks from each GPU to an NVSwitch
  int nic_speed_mbps = 400000;  // Mb/s
  bool fuse_nics = false;  // merges NICs as NCCL does at init, also in a file that describes GPUs and NICs
  bool xgmi_as_nvlink = false;  // AMD links with NCCL's NVLink constants instead of RCCL's bandwidths
  std::string cpu;  // for trees: "x86_64,GenuineIntel,6,143"; "": the recorded one, else the running CPU
};

struct Gpu {
  int index = -1;     // in gpus()
  int rank = -1;      // of a communicator with one rank for each GPU
  int device = -1;    // NVML's index within the host
  int host = 0;       // counts from 0; more than one where hosts share NVLink
  std::string busid;  // PCI address as the file writes it
  int sm = -1;        // compute capability times ten; in RCCL's files the number of compute units
  std::string gcn;    // AMD's architecture, "gfx942"; else empty
  bool gpu_direct = false;
  int numa = -1;     // of the nearest CPU (ncclGetLocalCpu)
  std::string cpus;  // of that NUMA node, "0-47,96-143"; empty: not told
};

struct Net {
  int index = -1;   // in nets()
  int device = -1;  // of NCCL's net plugin
  int host = 0;
  std::string name;      // "mlx5_0"; merged devices joined by '+'
  std::string busid;     // PCI address of the NIC as the file writes it; empty: none
  double bandwidth = 0;  // GB/s of the port
  int port = 0;
  uint64_t guid = 0;
  bool gpu_direct = false;
  int local_gpu = -1;  // index of the GPU by which NCCL reaches it (ncclTopoGetLocalGpu); -1: none
};

struct Path {
  PathType type = PathType::kDis;
  double bandwidth = 0;          // GB/s: the least of its links
  int hops = 0;                  // links, as NCCL counts; a GPU and its device are two nodes since 2.30
  std::vector<std::string> via;  // ids of the nodes between the ends, as in json(): "PCI/0000:45:00.0"
};

enum class GpuDirectMode { kOff = 0, kOn = 1, kPcie = 2 };  // kPcie: the mapping is forced through PCIe
enum class Flush { kNone = 0, kAlways = 1, kC2c = 2 };      // after a receive; kC2c: through C2C

struct GpuDirectWay {
  GpuDirectMode mode = GpuDirectMode::kOff;
  PathType distance = PathType::kDis;  // what was compared ...
  PathType limit = PathType::kP2c;     // ... with what
  std::string rule;                    // what decided: "distance", "net-gdr", "gpu-gdr", "mlopart", "read"
  std::string reason;                  // a sentence; when it is off, what to set
};
struct GpuDirect {
  GpuDirectWay receive;  // the NIC writes GPU memory
  GpuDirectWay send;     // the NIC reads it
  Flush flush = Flush::kAlways;
  std::string flush_reason;
  int proxy_rank = -1;  // the rank that relays (PXN); the GPU's own: none
};

struct P2p {
  bool allowed = false;
  bool read = false;           // the receiver reads (sm 80 over NVLink only)
  int intermediate_rank = -1;  // NVLink through that rank's GPU; -1: none
  PathType limit = PathType::kPxb;
  std::string reason;
};

// --- the GPUs themselves, as their vendors describe them ---

enum class GpuVendor : uint8_t { kNvidia = 0, kAmd = 1 };
RAILWISE_TOPOLOGY_API const char* gpuVendorName(GpuVendor vendor);  // "NVIDIA", "AMD"

enum class GpuLinkKind : uint8_t {
  kNvlink = 0,          // NVIDIA: GPU to GPU
  kNvswitch = 1,        // NVIDIA: GPU to a switch, through which it reaches every GPU of the switch
  kInfinityFabric = 2,  // AMD: between the dies of one package
  kXgmi = 3,            // AMD: GPU to GPU
  kPcie = 4,
  kC2c = 5,  // NVIDIA: GPU to the CPU of its package (NVLink-C2C)
};
RAILWISE_TOPOLOGY_API const char* gpuLinkKindName(GpuLinkKind kind);  // "NVLink", "xGMI" ...

// How far apart the ends of a link are.
enum class GpuLatency : uint8_t { kPackage = 0, kDirect = 1, kSwitched = 2, kHost = 3 };
RAILWISE_TOPOLOGY_API const char* gpuLatencyName(GpuLatency latency);  // "package", "direct" ...

struct GpuLink {
  int from = -1;         // index in GpuTopology::gpus
  int to = -1;           // index; -1: an NVSwitch, a CPU, or a GPU that this process does not see
  std::string to_busid;  // PCI address of the other end; empty: unknown
  GpuLinkKind kind = GpuLinkKind::kPcie;
  GpuLatency latency = GpuLatency::kHost;
  int width = 0;        // active links between the two
  int version = 0;      // of NVLink; 0: unknown
  double gb_per_s = 0;  // GB/s in this direction, all active links together; 0: unknown
};

// What the vendor's library reports as wrong. An empty optional: the library does not tell.
struct GpuHealth {
  std::optional<uint64_t> ecc_uncorrected;  // errors since the driver was loaded
  std::optional<uint64_t> link_errors;      // replays, recoveries and CRC errors over all links
  std::optional<bool> throttled;            // clocks are below what the load asks for
  std::string throttle_reason;              // "thermal", "power" ...; empty: none
};

struct GpuDevice {
  int index = -1;  // in GpuTopology::gpus
  int rank = -1;   // of Gpu::rank; -1: no rank (not in the model, or a MIG instance)
  GpuVendor vendor = GpuVendor::kNvidia;
  int vendor_index = -1;      // in the vendor's library; -1: unknown
  std::string model;          // "NVIDIA H100 80GB HBM3"; empty: unknown, as are the texts below
  uint64_t memory_bytes = 0;  // 0: unknown
  std::optional<uint64_t> memory_used_bytes;
  std::string architecture;  // "9.0" (CUDA compute capability) or "gfx942"
  int sm = 0;                // compute capability times ten; 0: not NVIDIA's
  std::string busid;         // "0000:0f:00.0"
  std::string uuid;
  int numa = -1;         // -1: unknown
  std::string driver;    // version of the driver
  std::string firmware;  // VBIOS, or AMD's firmware version

  // A MIG instance, or a partition of an AMD GPU, is a device of its own.
  bool partitioned = false;
  std::string partition;  // "MIG 3g.40gb", "CPX"; empty: the whole GPU
  double share = 1;       // of the GPU's compute units
  int parent = -1;        // index of the whole GPU; -1: none

  // The NVLink domain over hosts (GB200 NVL72).
  std::string fabric_cluster;  // UUID; empty: none
  int fabric_clique = -1;
  std::string fabric_state;  // "completed", "failed", "in progress", "not started"; empty: no fabric

  std::optional<int> utilisation_percent;
  std::optional<int> processes;  // that have memory on the GPU
  GpuHealth health;
};

// Whether two GPUs reach each other's memory, in the vendor's own words.
struct GpuPeer {
  int from = -1;
  int to = -1;
  bool allowed = false;
  std::string reason;  // "chipset not supported" ...; empty when allowed
};

// How near a NIC is to a GPU.
struct GpuNic {
  int gpu = -1;      // index in GpuTopology::gpus
  std::string name;  // Net::name
  PathType type = PathType::kDis;
  double gb_per_s = 0;  // GB/s of the path
};

struct GpuTopology {
  std::vector<GpuDevice> gpus;  // whole GPUs and AMD's partitions first, then MIG instances
  std::vector<GpuLink> links;   // each link once for each direction
  std::vector<GpuPeer> peers;
  std::vector<GpuNic> nics;          // of each GPU, the nearest first
  std::vector<std::string> remarks;  // what could not be asked, for people
};

// Which GPUs pickJson() may take. Lists name ranks, "0-3,7"; empty: no wish.
struct PickOptions {
  std::string of;         // only among these
  std::string exclude;    // not these
  std::string nic;        // only these NICs count, "mlx5_0,mlx5_1"
  bool occupied = false;  // also GPUs on which a process has memory
};

struct MachineState;  // ours

// A machine with all its answers, immutable. Copies are cheap and share it.
class RAILWISE_TOPOLOGY_API Machine {
 public:
  // An NCCL topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; RCCL's version 2). GPUs and NICs that it does
  // not describe are numbered as a running NCCL would. An error where NCCL would refuse the file or fail its
  // init.
  static Result<Machine> loadFile(const std::string& path, const Options& options = {});
  // The same from memory; `name` stands for the file in messages.
  static Result<Machine> parse(const std::string& xml, const std::string& name, const Options& options = {});
  // A /sys: "/" is this machine; else a folder that holds a sys/ tree or an archive (.tar.gz, .tar) of one.
  // Of this machine NVIDIA's and AMD's libraries are asked about the GPUs, each in a child process, for at
  // most 2 s.
  static Result<Machine> loadTree(const std::string& root, const Options& options = {});
  // A file laid over a /sys, as NCCL lays NCCL_TOPO_FILE over the machine.
  static Result<Machine> loadMerged(const std::string& file, const std::string& root,
                                    const Options& options = {});

  const std::string& name() const;
  // What was assumed, and the values of variables that NCCL ignores; sentences for people.
  std::vector<std::string> remarks() const;
  const std::vector<Gpu>& gpus() const;  // in NCCL's order
  const std::vector<Net>& nets() const;  // in NCCL's order

  // The GPUs as their vendors describe them, with links and NICs. Of this machine and of a recorded one the
  // vendors' libraries answered; what they did not say, and all of a topology file's GPUs, comes from the
  // model.
  const GpuTopology& gpuTopology() const;
  Result<std::string> gpuTopologyJson() const;  // docs/gpus.md has the schema

  // Paths after NCCL's rerouting for P2P, GPUDirect and PXN (ncclTopoComputePaths), of the whole host as
  // json() has them. Errors: an index that is none.
  Result<Path> path(int gpu, int net) const;
  Result<Path> pathBetweenGpus(int from, int to) const;
  // The NETs (by index) of channel 0, 1, ... until they repeat, for a communicator with one rank on each GPU
  // (ncclTopoGetLocalNet). Errors: an index that is none; a GPU that reaches no NET.
  Result<std::vector<int>> chosenNets(int gpu) const;
  // GPUDirect RDMA between the two (ncclTopoCheckGdr, ncclTopoNeedFlush). Errors: an index that is none; a
  // path through a GPU that no rank uses, where NCCL fails its init.
  Result<GpuDirect> gpuDirect(int gpu, int net) const;
  // Whether NCCL copies directly between two GPUs (ncclTopoCheckP2p). Errors as above.
  Result<P2p> p2p(int from, int to) const;

  // Why each GPU uses the NICs that it uses, and by which NICs rings and trees enter and leave the host, for
  // a communicator of this machine and an equal one. gpu: an index, -1: all. Errors: an index that is none.
  Result<std::string> explain(int gpu = -1) const;
  Result<std::string> explainJson(int gpu = -1) const;

  // Which `count` GPUs a job should take, and why, as `railwise gpus pick --json` tells it. Errors: a wish
  // that names what is not there; fewer GPUs than `count`.
  Result<std::string> pickJson(int count, const PickOptions& options = {}) const;

  // The whole machine as text, ending with a newline. docs/topology-json.md has the schema of the JSON.
  Result<std::string> json() const;
  Result<std::string> matrix() const;  // the look of `nvidia-smi topo -m`
  Result<std::string> xml() const;     // as NCCL would dump it: completed, merged, trimmed
  Result<std::string> svg() const;     // a drawing, light and dark as the viewer prefers
  Result<std::string> html() const;    // one page that needs nothing else

 private:
  friend struct MachineState;
  explicit Machine(std::shared_ptr<const MachineState> state);
  std::shared_ptr<const MachineState> state_;
};

// --- what differs ---

// One thing that differs; a side that lacks it has an empty text.
struct Difference {
  std::string kind;  // "device", "numa", "link", "path", "nic", "gpudirect", "p2p", "pxn", "domain", "init",
                     // "graph", "algorithm"
  std::string what;  // ids: "GPU/0", "GPU/0 -> NET/1"; the left machine's where both have the thing
  std::string left;
  std::string right;
};
// GPUs and NICs are matched by PCI address and name, then by their number. No difference: empty.
RAILWISE_TOPOLOGY_API Result<std::vector<Difference>> diff(const Machine& left, const Machine& right);
RAILWISE_TOPOLOGY_API Result<std::string> diffText(const Machine& left, const Machine& right);
RAILWISE_TOPOLOGY_API Result<std::string> diffJson(const Machine& left, const Machine& right);

// --- what is wrong with a file although NCCL may say nothing ---

enum class Severity {
  kError = 0,    // NCCL fails its init, or drops or mis-reads something for certain
  kWarning = 1,  // probably not what was meant
  kNote = 2,     // worth knowing
};
struct Finding {
  Severity severity = Severity::kNote;
  int line = 0;      // from 1; 0: the file as a whole
  int column = 0;    // from 1, in bytes
  std::string rule;  // stable, docs/lint.md lists them: "link-speed"
  std::string text;  // what is so and what NCCL makes of it
  std::string fix;   // what to write or do
};
struct LintReport {
  bool accepted = false;  // false: NCCL refuses the file, and the only finding says why
  std::vector<Finding> findings;
};
// A file that cannot be read is a report with accepted == false, too. Errors: out of memory.
RAILWISE_TOPOLOGY_API Result<LintReport> lint(const std::string& path);
RAILWISE_TOPOLOGY_API Result<std::string> lintJson(const std::string& path);

// --- the topology file of a VM whose PCIe tree is hidden ---

struct GenerateOptions {
  // "order": on each NUMA node the GPUs in the order of their addresses share out the NICs in theirs; "bus":
  // what lies on one PCI bus; "table": as `table` says, one bridge for each line, "#" begins a comment.
  std::string pairing = "order";
  std::string table;
  int gpus_per_bridge = 0;           // pairing by order; 0: by the generation of the GPUs' links
  std::string nic_class;             // a prefix, "0x0207"; "": InfiniBand where there is any, else Ethernet
  std::string nic_device;            // "0x101e" or "0x15b3:0x101e"; "": any
  std::vector<std::string> exclude;  // PCI addresses, "0x101a" or "0x15b3:0x101a"
  std::string cpu;     // "x86_64,GenuineIntel,6,143"; "": the recorded one, else the running CPU
  bool force = false;  // also where a PCIe tree is really there
};
struct Generated {
  std::string xml;                   // the file
  std::vector<std::string> remarks;  // what was decided, why, and what could not be
};
// root: as for Machine::loadTree. Errors: no GPU, a tree that is not flat, devices that cannot be placed, a
// table with mistakes.
RAILWISE_TOPOLOGY_API Result<Generated> generate(const std::string& root,
                                                 const GenerateOptions& options = {});

}  // namespace railwise::topology

#endif
