// The watch of a node: looks at its RDMA ports again and again, remembers what it saw over restarts and
// reboots, and says when something begins to be wrong, still is, and is over. Pure but for lookAt(), which
// reads a tree; one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "doctor/finding.h"
#include "sysfs/file_tree.h"

namespace railwise::doctor {

// How a rule judges what it watches.
enum class WatchKind {
  kPortDown,    // the port is not active; `limit`: seconds that it may be so
  kDeviceGone,  // the port is no longer there; `limit`: looks
  kFlaps,       // `limit`: times that the port may go down within `window` seconds
  kCounter,     // `limit`: how much the counter may grow within `window` seconds
  kPciLink,     // the PCIe link of the port's card carries less than card and slot can
  kKernel,      // a line of the kernel's log has `words`
  kManifest,    // the node is not what the site's manifest says; `limit`: comparisons before that said so
};

// What the watch judges, and by which limit. A rule is a row in rules.cc and a heading in
// docs/doctor-watch.md.
struct WatchRule {
  const char* check;
  WatchKind kind;
  Severity severity;
  // Below the port's folder in /sys; or what a line of the kernel's log has, as for hasWords().
  const char* source;
  double limit = 0;
  int window = 0;  // seconds
  const char* what;
  const char* action;  // "look", "drain" or "replace"
  const char* fix;     // what to type
};
std::span<const WatchRule> watchRules();
const char* watchKindName(WatchKind kind);
const WatchRule* ruleOf(std::string_view check);  // null: there is none

// A port as one look sees it.
struct SeenPort {
  std::string name;  // "mlx5_3/1"
  std::string bdf;   // "0000:5e:00.0"; "": no place in the PCI tree
  bool active = false;
  std::string state;  // "4: ACTIVE"
  // Only in a look that reads counters.
  std::map<std::string, int64_t> counters;  // by the source of a rule
  // How often the port has gone down, as the kernel counts it: also what happens between two looks.
  std::optional<int64_t> went_down;
  std::string slow_link;  // "16 GT/s x8; card and slot can 32 GT/s x16"; "": the PCIe link is not slower
};

// Where the node is not as the manifest says, by the source of a rule.
using ManifestDifferences = std::map<std::string, std::vector<std::string>>;

struct Look {
  int64_t time = 0;  // seconds since 1970
  std::string boot;  // what the kernel calls this boot
  bool counters = false;
  std::vector<SeenPort> ports;
  std::vector<std::string> kernel;              // lines of the kernel's log since the look before
  std::optional<ManifestDifferences> manifest;  // only in a look that compares
};
// `counters`: they cost a question to the NIC's firmware each, so not every look reads them.
Look lookAt(const sysfs::FileTree& tree, int64_t time, bool counters);

// What a rule remembers of its counter.
struct WatchedCounter {
  std::string check;
  int64_t base = 0;       // when the window began
  int64_t base_time = 0;  // when that was
};

struct WatchedPort {
  std::string name;
  std::string bdf;
  std::string state;
  bool active = false;
  bool was_active = false;          // a port that never was has no cable, as a rule
  int64_t since = 0;                // when `active` became what it is
  int missed = 0;                   // looks in a row that did not find it
  int64_t went_down = -1;           // what the kernel counted last; -1: it counts nothing
  int64_t flaps = 0;                // times that it went down since the watch knows it
  std::vector<int64_t> flap_times;  // the last ones, at most kMostFlaps
  std::vector<WatchedCounter> counters;
};

// Something that is wrong now.
struct Latch {
  std::string check;
  std::string port;  // "mlx5_3/1"
  std::string seen;  // what was seen last, with its place
  int64_t since = 0;
  int64_t last = 0;      // when it was seen last
  int64_t reported = 0;  // when an event said so last
  int64_t count = 0;     // times that it was seen
  bool before_reboot = false;
};

struct WatchState {
  static constexpr int kVersion = 1;
  static constexpr std::size_t kMostPorts = 128, kMostLatches = 512, kMostFlaps = 32;

  std::string boot;
  int64_t last_look = 0;
  int64_t next_event = 1;
  std::vector<WatchedPort> ports;
  std::vector<Latch> latches;
  ManifestDifferences manifest;  // of the last comparison; a watch that starts compares anew
};
std::string utcText(int64_t time);  // "2026-11-28T12:04:07Z"
std::string watchStateJson(const WatchState& state);
// Reads what watchStateJson() has written; an error names what is wrong in it.
Outcome<WatchState> readWatchState(const std::string& text);

enum class EventPhase { kBegin, kRepeat, kEnd };
struct WatchEvent {
  int64_t id = 0;
  int64_t time = 0;
  EventPhase phase = EventPhase::kBegin;
  const WatchRule* rule = nullptr;
  Latch latch;
  std::string bdf;
};
// One line of JSON, for events.jsonl.
std::string watchEventJson(const WatchEvent& event, const std::string& host);
// One line for people and for the journal.
std::string watchEventText(const WatchEvent& event);

// Takes a look into the state. An event begins when a limit is passed, is repeated each hour while it lasts,
// and ends when all was right for five minutes.
std::vector<WatchEvent> takeLook(WatchState& state, const Look& look);

// What the state says to programs of a site (docs/doctor-watch.md). `now`: seconds since 1970. A state whose
// last look is older than kWatchSilence says that nobody watches.
inline constexpr int64_t kWatchSilence = 60;
struct Health {
  bool watched = false;
  // Does the watch look, and has it seen an active port? Else it knows nothing good of the node: a port that
  // never was active is no finding, for as a rule it has no cable.
  bool known = false;
  std::optional<Severity> worst;  // of what is wrong
  std::string text;               // one line without quotes, the worst first
};
// `most`: characters of the text.
Health healthOf(const WatchState& state, int64_t now, std::size_t most = 240);
// For node_exporter's textfile collector.
std::string watchPrometheus(const WatchState& state, int64_t now);
// What is wrong as NVSentinel's HealthEvents, in the JSON of protobuf: one event for each latch.
std::string watchNvsentinel(const WatchState& state, const std::string& host);
// The rules as a catalogue: id, source, threshold, cadence, severity, action, page.
std::string watchCatalogueJson();

}  // namespace railwise::doctor
