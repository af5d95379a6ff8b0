// What the soak's processes share besides the device: how the ends of a connection find each other, and what
// each process reports. Lies in memory that all inherit.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

namespace railwise::softdev::soak {

constexpr uint32_t kMaxProcesses = 256;
constexpr uint32_t kMaxEnds = 16384;

// One end of a connection. Connection c has the ends 2c and 2c + 1.
struct EndControl {
  std::atomic<uint32_t> wanted;  // the generation its owner wants, at least: it grows when a connection broke
  std::atomic<uint32_t> ready;   // the generation for which the fields below hold, and its memory is clean
  std::atomic<uint32_t> connected;  // the generation that may be sent to
  uint32_t qp_num;
  uint32_t rkey;
  uint64_t address;
  uint16_t lid;
  ibv_gid gid;
};

struct ProcessReport {
  std::atomic<uint64_t> rounds, operations, bytes, reconnects;
  std::atomic<uint64_t> statuses[32];  // completions by status
  std::atomic<uint32_t> failed;
  char message[512];
};

struct Control {
  std::atomic<uint32_t> idle;  // processes whose ends have nothing in flight, after the time was over
  std::atomic<uint32_t> over;  // 1: start nothing new
  std::atomic<uint32_t> leave;
  std::atomic<uint32_t> broken;  // some process has failed: all leave
  ProcessReport processes[kMaxProcesses];
  EndControl ends[kMaxEnds];
};

struct Settings {
  uint32_t processes = 64;
  uint32_t queue_pairs = 4096;
  uint32_t seconds = 30;
  uint64_t seed = 1;
  bool engine = true;
  bool adversarial = true;
  bool faults = true;
  bool atomics = true;
};

}  // namespace railwise::softdev::soak
