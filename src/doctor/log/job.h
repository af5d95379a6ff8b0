// What the logs of a job say, rank by rank. The reader fills it, the judge reads it. Plain values. Its size
// depends on the number of processes and not on the length of the logs: what repeats is counted.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace railwise::doctor {

// A line of a log.
struct Place {
  int file = 0;  // index into Job::files
  uint64_t line = 0;
};

struct Fact {
  std::string value;
  Place place;
};

// A network interface that a process uses for sockets.
struct Interface {
  std::string name;     // "eth0"
  std::string address;  // "10.0.0.1", "fe80::1%eth0"
};

// A library that NCCL tried to load.
struct PluginAttempt {
  std::string name;    // "libnccl-net-railwise.so"; several, where NCCL names them together
  std::string reason;  // dlopen's; "": not found
  Place place;
};

struct Nic {
  std::string name;  // "mlx5_0:1"
  std::string link;  // "IB", "RoCE", "iWARP"; "": the log does not say
};

// May GPU memory go straight through a NIC?
struct NicGpuDirect {
  bool enabled = false;
  Fact line;
  std::set<int> numbers;  // the device's; two ports may have one name
};

// Pairs of GPU and NIC that are too far apart for GPUDirect.
struct FarPair {
  int distance = -1;
  int allowed = -1;
  uint64_t pairs = 0;
  Fact line;  // the first
};

// A table numbered a NIC otherwise than the one before it: "TOPO/NET : Changing Railwise dev index from 0 to
// 1".
struct DeviceChange {
  std::string table;
  int from = -1;
  int to = -1;
  std::string nic;  // "": the log does not name it
  Place place;
};

// Who serves one-sided communication: GIN (device-side) and RMA (host-side). Tables by name: "RMA_IB_PROXY".
struct OneSided {
  std::vector<Fact> gin;  // that a communicator got; empty: none, or the log does not say
  std::vector<Fact> rma;
  Fact no_gin;  // the line that says there is none
  Fact no_rma;
  Fact no_symmetric;     // "Symmetric memory is not supported. cuMemEnable 0, ...": what it wants, in numbers
  Fact no_effect;        // the program asks for the memory behind a window, and the communicator has none
  bool by_kind = false;  // NCCL writes of RMA and of GIN apart ("RMA/Plugin: ..."): 2.30.7 and newer
  std::vector<DeviceChange> changes;
  // The NICs over which NCCL's own IB network has made queue pairs: of one-sided communication, where the
  // network is a plugin's.
  std::set<std::string> connected;
};

// Connections that take one way, e.g. "NET/Railwise/0" or "P2P/IPC".
struct Connections {
  uint64_t number = 0;
  uint64_t gpu_direct = 0;
  Place place;  // the first
};

// A communicator's begin on one GPU of a process.
struct Init {
  std::string communicator;  // equal on all ranks of it: the commId, else what the release writes
  int rank = -1;
  int ranks = 0;
  int device = -1;
  bool split = false;  // made of another communicator
  bool complete = false;
  Fact started;
};

enum class EventKind {
  kCause,        // can be the reason for what follows
  kConsequence,  // as a rule another rank or an earlier error is the reason
  kRemark,       // the job goes on, and it costs something
  kHarmless,     // the job goes on
};

// What a warning or an error line means, in words, and what to do.
struct Explanation {
  std::string check;  // a heading of docs/doctor-log.md
  EventKind kind = EventKind::kCause;
  std::string what;
  std::string why;
  std::string fix;

  bool isError() const { return kind == EventKind::kCause || kind == EventKind::kConsequence; }
};

// A warning or an error, with its explanation (explain.h).
struct Event : Explanation {
  int process = -1;  // index into Job::processes; -1: not known
  int rank = -1;     // as the line's prefix or text says
  std::string host;  // as a line of the kernel or of Slurm names it; "": it does not
  std::string time;
  Fact line;  // the whole words, with the file and line of the source
  uint64_t repeated = 0;
  std::vector<Fact> also;  // lines of the same event: a wrapper, a caller, a consequence (chains.cc)
  std::string end;         // what became of the process: "The process went on: ..."; "": not known
  // It is why the process's network is Socket: the finding of that tells of it, and no other one.
  bool of_network = false;
  bool isError() const { return !of_network && Explanation::isError(); }
  bool railwise = false;  // a record of Railwise that the log shows as a warning
  bool link_up = false;   // of the kernel's "Link down": the link came up again
  std::string link_up_time;
};

// One process of the job: what NCCL says once for all GPUs of it.
struct Process {
  std::string host, pid;
  int file = 0;  // its first line
  int hinted_rank = -1;
  Fact version;  // "2.29.7+cuda13.0"
  Fact driver;   // "13000"
  Fact plugin;   // loaded: its name ("Railwise")
  int plugin_api = 0;
  Fact plugin_path;  // as NCCL names it
  Fact railwise;     // version of the plugin
  Fact provider;     // libfabric's, of aws-ofi-nccl: "efa", "tcp"
  std::vector<PluginAttempt> attempts;
  std::vector<Fact> missing_symbols;  // "ncclNetPlugin_v8"
  std::vector<Fact> failed_plugins;   // loaded, init failed
  Fact unsupported_plugin;            // no symbol that NCCL knows
  Fact missing_network;               // "Error: network X not found."
  std::map<std::string, Place> networks;
  std::string network;  // the first that it used
  Fact no_rdma;         // "NET/IB : No device found.", no libibverbs
  std::vector<Nic> nics;
  Fact nics_line;
  std::map<std::string, NicGpuDirect> gpu_direct;  // by the NIC's name
  std::vector<Fact> no_gpu_direct_reasons;         // what the plugin says
  std::vector<FarPair> far_pairs;
  Fact fabric;  // "MNNVL busId 0x.. fabric UUID ..": the GPU is in an NVLink domain of several hosts
  bool dma_buf = false;
  bool rocm = false;       // AMD's GPUs
  Fact dma_buf_not_asked;  // RCCL leaves dma-bufs alone unless NCCL_DMABUF_ENABLE=1
  OneSided one_sided;
  Fact shifted;  // Railwise's first INFO line, which RCCL has shown as a warning: its WARN lines are INFO
  std::map<std::string, Fact> settings;  // "NCCL_IB_HCA": as the environment has set it
  std::map<std::string, Connections> connections;
  std::map<std::string, uint64_t> algorithms;  // "AllReduce RING SIMPLE": times
  Fact channels;                               // "16 coll channels, 0 collnet channels, ..."
  int nodes = 0;                               // of the job, as NCCL counts them
  std::vector<Interface> interfaces;           // of its sockets
  Fact ece;                                    // RoCE's enhanced connections, negotiated with options
  std::deque<Init> inits;
  std::vector<Fact> error_trace;  // "transport/net.cc:1302 -> 6"
  Place progress;                 // the last sign that it goes on: an init completed, a connection made
  std::string progress_time;      // as in Event
  std::string first_time;         // of its first line, as in Event; "": that line has none
  std::string last_time;          // of its last line with a time
  Place closed;                   // the last communicator that was destroyed or finalized; a process may do
                                  // that because of an error, so it is no progress
  uint64_t lines = 0;
  uint64_t warnings = 0;
};

struct LogFile {
  std::string name;
  uint64_t lines = 0;
  uint64_t nccl_lines = 0;
  std::set<int> processes;
  uint64_t last_result = 0;  // line of the last row of nccl-tests, which all ranks have completed; 0: none
  bool shifted = false;      // it has a line of a process whose `shifted` is known
  std::string problem;       // why it could not be read to its end
};

struct Job {
  std::vector<LogFile> files;
  std::vector<Process> processes;
  std::vector<Event> events;
  Fact version;              // "NCCL version 2.21.5+cuda12.4" in a line without a host
  uint64_t lost_events = 0;  // beyond the limits
  bool has_pastes = false;   // the files have outputs of other programs (pastes/)
  bool has_results = false;  // the logs have tables of nccl-tests (doctor/results)
  Fact deduplicated;         // Ray's "[repeated 7x across cluster]": it has dropped lines of other workers
};

// What a warning or an error line means, in words, and what to do (explain.cc). Pure; thread-safe.

// A line of NCCL WARN. Every one has an answer; the check of what nobody knows is "unknown-warning".
Explanation explainWarning(std::string_view source, std::string_view text);

// A line that is not of NCCL's form: PyTorch's watchdog, an exception; or NCCL's words without what NCCL puts
// before them (PyTorch's "Last error:", the output of `railwise perf`). Null: no error.
std::optional<Explanation> explainOther(std::string_view text);

// The last line of a traceback, "ValueError: loss is nan", which explainOther() does not know.
Explanation explainException(std::string_view text);

// "A|B&C": does the text have A, or both B and C? "" fits every text.
bool hasWords(std::string_view text, std::string_view words);

// The status in the line of a failed completion, in the forms of all releases; -1: none.
int completionStatus(std::string_view text);

// The meaning of ncclResult_t: "ncclRemoteError". "": not an error.
std::string_view resultName(int result);

// Joins the events of the job that several lines tell of, and sets what became of each one's process
// (judging/chains.cc); the weight of an event changes with it.
void joinChains(Job& job);

}  // namespace railwise::doctor
