// What a run of perf has measured, and what follows from it. Rank 0, main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "perf/measuring/measuring.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

// The bus bandwidth that the ports allow which the ranks of a run use. Pure; thread-safe.

// What a port's speed says of the data that go through the port.
enum class PortSpeed {
  kClaimed,       // nothing: software without pacing, or the kernel's software devices
  kBetweenHosts,  // hardware: data that stay on the host may take a shorter path than the port
  kAlways,        // the software device with pacing
};

// A port, or several fused ones, that a rank uses.
struct PortUse {
  std::string device;
  int speed_mbps = 0;
  PortSpeed holds = PortSpeed::kClaimed;
};

// The ports of a rank, with its host.
struct RankPorts {
  const std::string* host;
  const std::vector<PortUse>* ports;
};

struct PortLimit {
  double gbytes = 0;       // GB/s of the bus
  std::string port;        // the port that fills first: "mlx5_0 of node1"
  double port_gbytes = 0;  // its speed
};

// `ranks`: in the order of the ring. `root`: of a collective that has one. Null: the speeds say nothing, or
// no data pass a port.
std::optional<PortLimit> portLimit(Collective collective, int root, std::span<const RankPorts> ranks,
                                   int channels);

// What NCCL's model says of the hosts of a run. The command above asks the model; ranks only print it.

// all_reduce on equal hosts with GPUs.
struct ModelAnswer {
  std::string release;    // whose model: "2.30.7"
  int hosts = 0;          // that the answer is for
  int gpus = 0;           // of a host
  double gbytes = 0;      // GB/s of the bus that large messages approach
  std::string algorithm;  // "NVLSTree"
  std::string limit;      // what bounds it, in a sentence
  // Rings alone: GB/s that all channels together take of the NICs, and the names of these NICs.
  double ring_network = 0;
  std::vector<std::string> ring_nics;
};

// Of as many hosts as this one. Null: this machine has no GPUs, or NCCL could not use them together.
using ModelOfHosts = std::function<std::optional<ModelAnswer>(int hosts)>;

// Half of a row: the result out of place, or the result in place.
struct Measurement {
  double seconds = 0;  // time of one iteration
  uint64_t wrong = 0;
  double warmup_seconds = 0;         // time of one warm-up iteration
  std::vector<double> samples = {};  // seconds of single iterations; only rank 0 has them

  // Makes this the result of `passes` measurements and one more.
  void add(const Measurement& more, int passes);
};

struct Row {
  uint64_t bytes = 0;
  uint64_t count = 0;
  Measurement out_of_place;
  Measurement in_place;  // only of a collective that has it (placesOf())
  Variant variant = {};
  int passes = 1;  // how many measurements it combines

  const Measurement& at(bool in_its_place) const { return in_its_place ? in_place : out_of_place; }
  Measurement& at(bool in_its_place) { return in_its_place ? in_place : out_of_place; }
  void add(const Row& more);
};

struct RankLine {
  int rank = 0;
  int pid = 0;
  std::string host;
  std::string devices;         // names of the used devices, separated by commas
  std::vector<PortUse> ports;  // those of `devices`; channel c uses number c modulo the size
};

// Other load on the machine while the rows were measured.
struct Surroundings {
  // Number of cores that the ranks on rank 0's host may use.
  int cores = 0;
  int ranks_on_host = 0;            // number of ranks on rank 0's host
  uint64_t naps = 0;                // how often ranks on all hosts slept while they waited
  std::optional<OthersUse> others;  // load on rank 0's host; null: the run was too short to measure it
  double load = 0;                  // load average of rank 0's host when the measurements began

  // So much other load that differences between runs may come from it.
  bool busy() const;
};

// The best bus bandwidth of all rows, beside what ports and NCCL's model say.
struct Reached {
  double gbytes = 0;  // GB/s of the bus
  uint64_t bytes = 0;
  std::optional<PortLimit> ports;  // null: the ports tell no limit
  std::optional<ModelAnswer> model;
};

struct Report {
  PerfOptions options;
  int ranks = 1;
  std::string plugin_path;
  std::string plugin_name;
  int api = 0;
  bool software_fallback = false;
  bool software_device = false;
  std::string fabric;  // of software devices, where RAILWISE_FABRIC has it
  std::vector<RankLine> rank_lines;
  std::vector<Row> rows;
  uint64_t late_signals = 0;  // signals that were right after their row, and wrong a while after the last
  std::optional<Surroundings> surroundings;
  std::optional<Reached> reached;  // null: there is nothing to compare with
  std::string comparison;          // the lines of comparisonText(), if there is a saved run

  double algorithmBandwidth(const Row& row, const Measurement& measured) const;  // GB/s
  double busBandwidth(const Row& row, const Measurement& measured) const;        // GB/s
  double averageBusBandwidth() const;                                            // GB/s over all measurements
  uint64_t wrong() const;
  // Those measurements of `row` that its collective has: one out of place, and one in place where it has
  // that.
  std::vector<const Measurement*> measurementsOf(const Row& row) const;
  // Combines `row` with the row of equal size, type, operation and root. If there is none, adds it.
  void combine(const Row& row);
};

// Compares the best row with the ports, and asks for the model only where the ports tell a limit and the
// ranks are on several hosts. `model` may be empty.
std::optional<Reached> reachedBy(const Report& report, const ModelOfHosts& model);

// A ring of one rank on each host, over the NICs that NCCL's rings use: it puts on these NICs what NCCL's
// rings put on them.
bool isLikeTheRings(const Report& report, const ModelAnswer& model);

// The table, as nccl-tests prints it.
std::string headerText(const Report& report);
std::string rowText(const Report& report, const Row& row);
std::string footerText(const Report& report);
// Lines of the footer: what made the results worse than they could be. "": nothing is known to have.
std::string surroundingsText(const Report& report);
// `more` adds further members to the document.
std::string jsonText(const Report& report, const std::function<void(JsonWriter&)>& more = {});
// A line of names, then a line for each measurement, separated by commas.
std::string csvText(const Report& report);

// The column for the reduction.
const char* opColumn(Collective collective, const Variant& variant);

}  // namespace railwise::cli
