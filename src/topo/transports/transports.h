// How NCCL connects two ranks: peer to peer, through shared memory, or through the network (p2pCanConnect,
// shmCanConnect, netCanConnect, which NCCL asks in this order), and why. Source: transport.cc,
// transport/p2p.cc, shm.cc, net.cc and nvls.cc of NCCL 2.28.9 to 2.30.7. Pure functions of the machine;
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/machine/machine.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

enum class TransportKind : unsigned char { kNone, kP2p, kShm, kNet };

// How one GPU gets at the memory of another one.
enum class P2pMeans : unsigned char {
  kDirectPointer,  // both ranks belong to one process
  kIpc,            // CUDA IPC
  kCumem,          // CUDA's virtual memory management (cuMem)
  kMnnvl,          // the same, between hosts of an NVLink domain
  kIndirect,       // through the GPU of a third rank
};

// What a job adds to the machine.
struct Job {
  bool one_process = false;  // the ranks of a host are threads of one process
  bool cumem = true;         // driver and GPUs offer cuMem, as they do since CUDA 12
};

// A process for each GPU, and cuMem unless the GPUs' driver is known to be older.
Job jobOn(const Machine& machine);

struct RankPair {
  int from = 0;             // the sending rank
  int to = 0;               // the receiving rank
  bool other_host = false;  // `to` is a rank of a second machine, which is equal to this one
  int channel = 0;
};

// One end of a connection through the network.
struct NetEnd {
  int net = -1;         // NET index
  int proxy_rank = -1;  // the rank that sends for this rank (PXN); otherwise the rank itself
  GdrMode gdr = GdrMode::kOff;
  std::string gdr_reason;
};

// The answer of one transport that NCCL asks.
struct TransportStep {
  TransportKind kind = TransportKind::kNone;
  bool taken = false;
  std::string reason;
};

struct Transport {
  TransportKind kind = TransportKind::kNone;  // kNone: NCCL finds no transport, and its init fails
  P2pMeans means = P2pMeans::kCumem;          // kP2p only, like the next three fields
  bool read = false;                          // the receiver reads; otherwise the sender writes
  bool copy_engine = false;                   // a copy engine moves the data, and not a kernel
  int intermediate_rank = -1;                 // kIndirect: the rank on the GPU between the two
  NetEnd sender;                              // kNet only, like `receiver`
  NetEnd receiver;
  std::string pxn_reason;            // kNet only: why another rank sends; empty: the rank sends by itself
  std::vector<TransportStep> steps;  // in NCCL's order, up to the one that is taken
  std::string warning;               // empty, or why this connection cannot work
};

const char* transportKindName(TransportKind kind);  // "P2P", "SHM", "NET", "none"
// As NCCL's log names it, without ranks and NICs: "P2P/CUMEM/read", "P2P/indirect", "SHM", "NET/GDRDMA".
std::string transportName(const Transport& transport);
// The reasons of all steps in one line.
std::string transportReason(const Transport& transport);

struct NvlsAnswer {
  bool used = false;
  std::string reason;
};

// A rank as the communicator sees it.
struct RankPlace {
  const Domain* domain = nullptr;
  int gpu = -1;  // in the graph of the domain
  const Node* node = nullptr;
};

class Transports {
 public:
  // The machine must outlive this object.
  Transports(const Machine& machine, const Job& job);

  const Machine& machine() const { return machine_; }
  const Job& job() const { return job_; }
  // All ranks of the machine, sorted.
  const std::vector<int>& ranks() const { return ranks_; }

  // Both ranks are ranks of the machine, and differ unless they are on two hosts.
  Transport between(const RankPair& pair) const;
  // Does NCCL build a multicast group (NVLink SHARP) over the GPUs of this rank's domain?
  NvlsAnswer nvls(int rank) const;
  // The lines of NCCL's log (NCCL_DEBUG=INFO) that show this connection, from the channel on. The ranks of
  // the second host follow those of the first.
  std::vector<std::string> logLines(const RankPair& pair, const Transport& transport) const;

 private:
  Transport fromEnd(const RankPair& pair) const;
  // The position of a rank in ranks_ and places_.
  std::size_t positionOf(int rank) const;

  const Machine& machine_;
  const Job job_;
  std::vector<int> ranks_;
  std::vector<RankPlace> places_;
};

// What the vendor's library said of the GPUs' driver, as far as it decides about transports. A topology file
// says nothing of it.

// The UUID of the NVLink domain that this host belongs to; empty: none.
std::string nvlinkDomain(const Machine& machine);

// The transports of many pairs, with equal ones put together. The outputs show it. Plain values.

struct TransportClass {
  Transport first;  // of the first pair of the class
  std::string name;
  std::string reason;
  int pairs = 0;
};

struct TransportRow {
  RankPair pair;
  std::size_t index = 0;       // in TransportTable::classes
  int intermediate_rank = -1;  // P2P through a third GPU
  NetEnd sender;               // without reasons, like `receiver`
  NetEnd receiver;
};

struct TransportTable {
  std::vector<TransportClass> classes;  // in the order in which the rows need them
  std::vector<TransportRow> rows;       // by `from`, then by `to`
};

// Which pairs to tabulate. -1: all ranks.
struct PairFilter {
  int from = -1;
  int to = -1;
  bool other_host = false;
  int channel = 0;
};
TransportTable tabulate(const Transports& transports, const PairFilter& filter);

}  // namespace railwise::topo
