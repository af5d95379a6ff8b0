// RAILWISE_STRICT: what makes init or connect fail instead of running slower than the machine can.
// Thread-safe (plain values).
#pragma once

#include <optional>
#include <string_view>

namespace railwise {

struct StrictMode {
  bool device = false;    // no RDMA device that can be used
  bool gdr = false;       // a NIC that cannot register GPU memory, on a machine with GPUs
  bool speed = false;     // a port or a PCIe link below its speed; ends of different speed
  bool topology = false;  // NCCL does not see the PCIe tree
  bool version = false;   // peers that differ

  bool any() const { return device || gdr || speed || topology || version; }
  bool operator==(const StrictMode&) const = default;
};

// "" and "0": nothing; "1": everything; otherwise words with commas between them. Every list includes
// `device`, because a job without RDMA is the slowest of all. Null: another text.
std::optional<StrictMode> parseStrictMode(std::string_view text);

}  // namespace railwise
