// Turns snapshots of processes into families of samples.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <type_traits>

#include "base/clock.h"
#include "observe/metrics/family.h"
#include "record/page_counts.h"

namespace railwise::observe {
namespace {

using record::ClosedConnections;
using record::Connection;
using record::ConnectionCounters;
using record::ConnectionState;
using record::OneSidedTotals;
using record::Process;
using record::Rail;
using record::Snapshot;
using record::Totals;
using record::WaitsFor;

constexpr double kNanosecond = 1e-9;
constexpr double kBytesPerMegabit = 1e6 / 8;

std::string numberText(int64_t number) { return number < 0 ? "" : std::to_string(number); }

Labels with(Labels labels, std::string name, std::string value) {
  labels.emplace_back(std::move(name), std::move(value));
  return labels;
}

// A process and what its samples are labelled with.
struct Source {
  const Snapshot* snapshot = nullptr;
  std::size_t process = 0;
  Labels labels;
  // False: only the calls that a spy has seen, as the process has a record of its own, too.
  bool whole = true;
  ClosedConnections all =
      {};  // what connections have counted, those that are open with those that are closed
};

// Buckets `first` to `last` of a record's histogram, each `step` as one; the smaller values are in the first
// one. `scale`: of a value's unit. The sum of values is not in the record: each counts as the middle of its
// bucket.
struct Buckets {
  int first;
  int last;
  int step;
  double scale;
};
// 1 us to 2 s.
constexpr Buckets kLatency = {.first = 9, .last = 30, .step = 1, .scale = kNanosecond};
// 64 bytes to 1 GiB.
constexpr Buckets kSize = {.first = 5, .last = 29, .step = 2, .scale = 1};

Histogram histogramOf(std::span<const uint64_t> counts, const Buckets& form) {
  Histogram histogram;
  uint64_t in_bucket = 0;
  for (int b = 0; b < record::kBuckets; ++b) {
    const uint64_t count = counts[static_cast<std::size_t>(b)];
    in_bucket += count;
    histogram.count += count;
    histogram.sum += static_cast<double>(count) * std::ldexp(1.5 * form.scale, b);
    if (b < form.first || b > form.last || (b - form.first) % form.step != 0) continue;
    histogram.buckets.push_back({.at_most = std::ldexp(form.scale, b + 1), .count = in_bucket});
    in_bucket = 0;
  }
  return histogram;
}

ClosedConnections allConnections(const Snapshot& snapshot) {
  ClosedConnections all = snapshot.closed;
  for (const Connection& each : snapshot.connections)
    record::addConnection(all, each, each, each.one_sided.totals);
  return all;
}

// What it waits for. A look notes that, and NCCL looks at a connection while it has something open: what the
// last look saw open may be complete by now, and then it waits for nothing.
WaitsFor waitOf(const Snapshot& snapshot, const Connection& connection) {
  // Where NCCL asks no more for a send that has no receive yet, that wait is over.
  const bool over = connection.oldest != 0
                        ? connection.oldest <= connection.completed
                        : connection.state == record::ConnectionState::kRunning &&
                              record::growth(connection.looked_ns, snapshot.read_ns) > record::kNotCalledNs;
  return over ? WaitsFor::kNothing : connection.waits_for;
}

// The longest nanoseconds since sinceOf(connection); 0 there: none.
template <typename SinceOf>
uint64_t longest(const Snapshot& snapshot, SinceOf sinceOf) {
  uint64_t longest = 0;
  for (const Connection& connection : snapshot.connections)
    if (const uint64_t since = sinceOf(connection); since != 0)
      longest = std::max(longest, record::growth(since, snapshot.read_ns));
  return longest;
}

template <typename Holds>
uint64_t countIf(const Snapshot& snapshot, Holds holds) {
  return static_cast<uint64_t>(std::ranges::count_if(snapshot.connections, holds));
}

class Collector {
 public:
  Collector(std::span<const Snapshot> snapshots, Metrics& metrics) : metrics_(metrics) {
    for (const Snapshot& snapshot : snapshots) {
      sources_.push_back({.snapshot = &snapshot,
                          .process = metrics.processes.size(),
                          .labels = labelsOf(snapshot.process),
                          .whole = !hasOwnRecord(snapshots, snapshot),
                          .all = allConnections(snapshot)});
      metrics.processes.push_back(snapshot.process);
      metrics.processes.back().host = hostOf(snapshot.process);
    }
  }

  void collect(std::size_t unreadable) {
    begin("railwise.build_info", FamilyKind::kGauge, Unit::kNone,
          "Version of the railwise that wrote this; always 1.");
    family().samples.push_back({.labels = {{"version", RAILWISE_VERSION}}, .value = uint64_t{1}});
    begin("railwise.records_unreadable", FamilyKind::kGauge, Unit::kNone,
          "Records of processes that were found and could not be read: damaged, or of another version.");
    family().samples.push_back({.labels = {}, .value = static_cast<uint64_t>(unreadable)});
    processes();
    rails();
    connections();
    messages();
    oneSided();
    calls();
    std::erase_if(metrics_.families, [](const Family& each) { return each.samples.empty(); });
  }

 private:
  // Process numbers are unique in one container only, and a folder may be shared.
  Labels labelsOf(const Process& process) {
    Labels labels = {{"pid", std::to_string(process.pid)},
                     {"rank", numberText(process.rank)},
                     {"program", process.program}};
    const std::string start = "-" + std::to_string(process.process_start);
    auto key = [&] { return std::make_pair(labels, process.spy); };
    if (!labels_.insert(key()).second) {
      labels[0].second += start;
      for (int i = 2; !labels_.insert(key()).second; ++i)
        labels[0].second = std::to_string(process.pid) + start + "-" + std::to_string(i);
    }
    return labels;
  }

  // A spy's record stands beside the plugin's own: what both have would count twice.
  static bool hasOwnRecord(std::span<const Snapshot> snapshots, const Snapshot& spy) {
    return spy.process.spy && std::ranges::any_of(snapshots, [&](const Snapshot& other) {
             return !other.process.spy && isOneProcess(other.process, spy.process);
           });
  }

  void begin(std::string name, FamilyKind kind, Unit unit, std::string help) {
    metrics_.families.push_back(
        {.name = std::move(name), .help = std::move(help), .kind = kind, .unit = unit, .samples = {}});
  }
  Family& family() { return metrics_.families.back(); }

  // A whole number of a family of seconds is in nanoseconds, and one of bytes per second in Mb/s.
  template <typename Value>
  void add(const Source& source, Labels labels, Value value) {
    Sample sample = {.labels = std::move(labels), .value = {}, .process = source.process};
    if constexpr (!std::is_integral_v<Value>) sample.value = std::move(value);
    else if (family().unit == Unit::kSeconds) sample.value = static_cast<double>(value) / 1e9;
    else if (family().unit == Unit::kBytesPerSecond)
      sample.value = static_cast<double>(value) * kBytesPerMegabit;
    else sample.value = uint64_t{value};
    family().samples.push_back(std::move(sample));
  }

  // A family with one sample for each process: valueOf(snapshot).
  template <typename ValueOf>
  void perProcess(const char* name, FamilyKind kind, Unit unit, const char* help, ValueOf valueOf) {
    begin(name, kind, unit, help);
    for (const Source& source : sources_)
      if (source.whole) add(source, source.labels, std::invoke(valueOf, *source.snapshot));
  }

  // The same for a counter of all connections.
  template <typename Counters>
  void perCounter(const char* name, Unit unit, Counters ClosedConnections::*counters,
                  uint64_t Counters::*counter, const char* help) {
    begin(name, FamilyKind::kCounter, unit, help);
    for (const Source& source : sources_)
      if (source.whole) add(source, source.labels, source.all.*counters.*counter);
  }

  void perHistogram(const char* name, Unit unit, uint64_t (ClosedConnections::*counts)[record::kBuckets],
                    const Buckets& form, const char* help) {
    begin(name, FamilyKind::kHistogram, unit, help);
    for (const Source& source : sources_)
      if (source.whole) add(source, source.labels, histogramOf(source.all.*counts, form));
  }

  // A family with one sample of each process for each of `rows` that has a place in metrics:
  // valueOf(snapshot, row).
  template <typename Enum, std::size_t n, typename ValueOf>
  void perName(const char* name, FamilyKind kind, Unit unit, const char* help, const char* label,
               const Named<Enum> (&rows)[n], ValueOf valueOf) {
    begin(name, kind, unit, help);
    for (const Source& source : sources_)
      for (const Named<Enum>& row : rows)
        if (source.whole && !isLeftOut(row.value))
          add(source, with(source.labels, label, row.key), valueOf(*source.snapshot, row.value));
  }
  static bool isLeftOut(ConnectionState state) {
    return state == ConnectionState::kFree || state == ConnectionState::kClosed;
  }
  static bool isLeftOut(WaitsFor what) { return what == WaitsFor::kNothing; }

  // Calls visit(source, rail, labels of the rail).
  template <typename Visit>
  void eachRail(Visit visit) const {
    for (const Source& source : sources_) {
      std::set<std::pair<std::string, int>> seen;  // a hostile record may name a port twice
      for (const Rail& rail : source.snapshot->rails)
        if (source.whole && seen.emplace(rail.device, rail.port).second)
          visit(source, rail,
                with(with(source.labels, "device", rail.device), "port", std::to_string(rail.port)));
    }
  }

  template <typename ValueOf>
  void perRail(const char* name, FamilyKind kind, Unit unit, const char* help, ValueOf valueOf) {
    begin(name, kind, unit, help);
    eachRail([&](const Source& source, const Rail& rail, Labels labels) {
      add(source, std::move(labels), std::invoke(valueOf, rail));
    });
  }

  void perTotal(const char* name, Unit unit, uint64_t Totals::*total, const char* help) {
    perRail(name, FamilyKind::kCounter, unit, help, [total](const Rail& rail) { return rail.totals.*total; });
  }
  void processes() {
    begin("railwise.process_info", FamilyKind::kGauge, Unit::kNone,
          "A process with a record: its host, plugin, and what writes the record; always 1.");
    for (const Source& source : sources_) {
      const Process& process = source.snapshot->process;
      Labels labels = with(with(source.labels, "host", hostOf(process)), "plugin", process.plugin);
      labels.emplace_back("ranks", numberText(process.ranks));
      labels.emplace_back("recorder", process.spy ? "spy" : "plugin");
      add(source, std::move(labels), uint64_t{1});
    }
    perProcess("railwise.process_up", FamilyKind::kGauge, Unit::kNone,
               "1: the process lives. 0: it is gone, and its record is what it has left.",
               [](const Snapshot& snapshot) { return snapshot.process.alive; });
    perProcess("railwise.process_ended", FamilyKind::kGauge, Unit::kNone,
               "1: the plugin of the process has ended in order.",
               [](const Snapshot& snapshot) { return snapshot.process.ended_ns != 0; });
    perProcess("railwise.process_start_time", FamilyKind::kGauge, Unit::kSeconds,
               "When the plugin of the process began, in seconds after 1970.",
               [](const Snapshot& snapshot) { return snapshot.process.started_unix_ns; });
    perProcess("railwise.process_record_torn", FamilyKind::kGauge, Unit::kNone,
               "1: the record changed while it was read, or is cut: numbers may not fit together.",
               &Snapshot::torn);
    perProcess(
        "railwise.unrecorded_connections", FamilyKind::kCounter, Unit::kNone,
        "Connections that are not in the record, which holds RAILWISE_METRICS_CONNECTIONS connections.",
        &Snapshot::unrecorded);
  }

  void rails() {
    begin("railwise.rail_info", FamilyKind::kGauge, Unit::kNone,
          "A port that a process uses: its link, and its rail and plane of the network; always 1.");
    eachRail([&](const Source& source, const Rail& rail, Labels labels) {
      labels.emplace_back("link", rowOf(record::kLinkNames, rail.link).key);
      labels.emplace_back("rail", numberText(rail.rail));
      labels.emplace_back("plane", numberText(rail.plane));
      add(source, std::move(labels), uint64_t{1});
    });
    begin("railwise.rail_state", FamilyKind::kGauge, Unit::kNone,
          "State of a port: 1 for the state that it has, 0 for the others.");
    eachRail([&](const Source& source, const Rail& rail, const Labels& labels) {
      for (const auto& state : record::kRailStateNames)
        add(source, with(labels, "state", state.key), rail.state == state.value);
    });
    perRail("railwise.rail_state_changes", FamilyKind::kCounter, Unit::kNone,
            "Times that a port went up, down or failed.", &Rail::state_changes);
    perRail("railwise.rail_speed", FamilyKind::kGauge, Unit::kBytesPerSecond,
            "Speed of a port, as its driver reports it.", &Rail::claimed_mbps);
    begin("railwise.rail_measured_speed", FamilyKind::kGauge, Unit::kBytesPerSecond,
          "What the fastest lane of a connection delivers over a port, where lanes share messages.");
    eachRail([&](const Source& source, const Rail& rail, Labels labels) {
      if (rail.measured_mbps != 0) add(source, std::move(labels), rail.measured_mbps);
    });
    perTotal("railwise.rail_sent", Unit::kBytes, &Totals::bytes_sent,
             "Payload of messages that was given to a port; a repeated message counts again.");
    perTotal("railwise.rail_received", Unit::kBytes, &Totals::bytes_received,
             "Payload of messages that has arrived over a port.");
    perTotal("railwise.rail_control", Unit::kBytes, &Totals::control_bytes,
             "Payload that is not a message's: clear-to-sends, completion records, reads of flushes.");
    perTotal("railwise.rail_messages_sent", Unit::kNone, &Totals::messages_sent,
             "Messages that were given to a port, or segments where messages are cut.");
    perTotal("railwise.rail_messages_received", Unit::kNone, &Totals::messages_received,
             "Messages that have arrived over a port, or segments where messages are cut.");
    perTotal("railwise.rail_work_requests", Unit::kNone, &Totals::work_requests,
             "Work requests that a port has accepted.");
    perTotal("railwise.rail_completions", Unit::kNone, &Totals::completions,
             "Completions that were polled from a port's device.");
    begin(
        "railwise.rail_errors", FamilyKind::kCounter, Unit::kNone,
        "What has gone wrong on a port, by kind: local: protection or length at this end; post: a work "
        "request was not taken; poll: a completion queue was not polled; stalled: nothing came back for too "
        "long; flushed: requests of a queue pair that had failed; others as the verbs call them.");
    eachRail([&](const Source& source, const Rail& rail, const Labels& labels) {
      for (const auto& kind : record::kErrorKindNames)
        add(source, with(labels, "kind", kind.key), rail.errors[static_cast<std::size_t>(kind.value)]);
    });
    perRail("railwise.rail_failovers", FamilyKind::kCounter, Unit::kNone,
            "Connections that have left a port because of a failure.", &Rail::failovers);
    perRail("railwise.rail_returns", FamilyKind::kCounter, Unit::kNone,
            "Connections that have come back to a port.", &Rail::returns);
    perRail("railwise.rail_device_reopens", FamilyKind::kCounter, Unit::kNone,
            "Times that a port's device was opened again after it had failed.", &Rail::device_lives);
    perRail("railwise.rail_connections", FamilyKind::kGauge, Unit::kNone,
            "Connections that have a queue pair on a port now.", &Rail::connections);
  }

  void connections() {
    perName("railwise.connections", FamilyKind::kGauge, Unit::kNone,
            "Connections by state; lost: without a path, and looking for one.", "state",
            record::kConnectionStateNames, [](const Snapshot& snapshot, ConnectionState state) {
              return countIf(snapshot, [&](const Connection& each) { return each.state == state; });
            });
    perName("railwise.connections_waiting", FamilyKind::kGauge, Unit::kNone,
            "Connections by what they waited for at their last look: the peer's clear-to-send (sender: the "
            "peer has posted no receive), a completion of the NIC, data (receiver: the peer has sent "
            "nothing), a path, the peer's answer; one-sided: a window of the peer, credit of the peer (it "
            "takes no signals), the rest of a signal, or its own NIC.",
            "waits_for", record::kWaitsForNames, [](const Snapshot& snapshot, WaitsFor what) {
              return countIf(snapshot,
                             [&](const Connection& each) { return waitOf(snapshot, each) == what; });
            });
    perName("railwise.connection_longest_wait", FamilyKind::kGauge, Unit::kSeconds,
            "For how long the connection has waited that waits longest, by what it waits for; 0: none waits.",
            "waits_for", record::kWaitsForNames, [](const Snapshot& snapshot, WaitsFor what) {
              return longest(snapshot, [&](const Connection& each) {
                return waitOf(snapshot, each) == what ? each.waits_since_ns : 0;
              });
            });
    perProcess("railwise.oldest_message_age", FamilyKind::kGauge, Unit::kSeconds,
               "Age of the oldest open message of all connections; 0: none is open.",
               [](const Snapshot& snapshot) {
                 return longest(snapshot, [](const Connection& each) {
                   return each.oldest > each.completed ? each.oldest_since_ns : 0;
                 });
               });
    perProcess("railwise.connections_degraded", FamilyKind::kGauge, Unit::kNone,
               "Connections that use fewer or other ports than at first.",
               [](const Snapshot& snapshot) { return countIf(snapshot, &Connection::degraded); });
    perProcess("railwise.connection_longest_degraded", FamilyKind::kGauge, Unit::kSeconds,
               "For how long the connection has been degraded that is degraded longest; 0: none is.",
               [](const Snapshot& snapshot) {
                 return longest(snapshot, [](const Connection& each) {
                   return each.degraded ? each.degraded_since_ns : 0;
                 });
               });
  }

  void messages() {
    perProcess("railwise.closed_connections", FamilyKind::kCounter, Unit::kNone,
               "Connections that the process has closed.",
               [](const Snapshot& snapshot) { return snapshot.closed.connections; });
    constexpr auto kCounters = &ClosedConnections::counters;
    perCounter("railwise.connection_failovers", Unit::kNone, kCounters, &ConnectionCounters::failovers,
               "Times that connections went on over other queue pairs after a failure.");
    perCounter("railwise.slow_messages", Unit::kNone, kCounters, &ConnectionCounters::slow_messages,
               "Messages that were not complete after RAILWISE_SLOW_MESSAGE milliseconds.");
    perCounter("railwise.connection_lost", Unit::kSeconds, kCounters, &ConnectionCounters::lost_ns,
               "Time that connections were without a path.");
    perCounter("railwise.connection_degraded", Unit::kSeconds, kCounters, &ConnectionCounters::degraded_ns,
               "Time that connections used fewer or other ports than at first; a time that lasts counts when "
               "it ends.");
    perHistogram(
        "railwise.message_latency", Unit::kSeconds, &ClosedConnections::latency, kLatency,
        "Time from isend to the completion, of one message in 256. The sum is estimated from the buckets.");
    perHistogram("railwise.message_size", Unit::kBytes, &ClosedConnections::size, kSize,
                 "Size of messages, of one message in 256. The sum is estimated from the buckets.");
  }

  void oneSided() {
    constexpr auto kTotals = &ClosedConnections::one_sided;
    perCounter("railwise.puts", Unit::kNone, kTotals, &OneSidedTotals::puts,
               "One-sided communication: puts that NCCL has given, also those without data, which are "
               "signals alone. Puts to the own rank do not count.");
    perCounter("railwise.put", Unit::kBytes, kTotals, &OneSidedTotals::put_bytes,
               "Payload of puts that was given to NICs; a repeated put counts again.");
    perCounter("railwise.gets", Unit::kNone, kTotals, &OneSidedTotals::gets,
               "One-sided communication: gets that NCCL has given.");
    perCounter("railwise.get", Unit::kBytes, kTotals, &OneSidedTotals::get_bytes,
               "Payload of gets that NICs were asked for.");
    perCounter("railwise.signals_sent", Unit::kNone, kTotals, &OneSidedTotals::signals_sent,
               "Signals that puts to other ranks have; counted at looks, about every 20 ms.");
    perCounter("railwise.signals_applied", Unit::kNone, kTotals, &OneSidedTotals::signals_applied,
               "Signals of other ranks that were applied, in their order and each once.");
    perProcess("railwise.signal_age_newest", FamilyKind::kGauge, Unit::kSeconds,
               "Age of the latest signal of the rank that has signalled last; 0: none has.",
               [](const Snapshot& snapshot) {
                 uint64_t latest = 0;
                 for (const Connection& each : snapshot.connections)
                   latest = std::max(latest, each.one_sided.last_signal_ns);
                 return latest == 0 ? 0 : record::growth(latest, snapshot.read_ns);
               });
    perProcess("railwise.signal_age_oldest", FamilyKind::kGauge, Unit::kSeconds,
               "Age of the latest signal of the rank that has not signalled for longest; 0: none has.",
               [](const Snapshot& snapshot) {
                 return longest(snapshot,
                                [](const Connection& each) { return each.one_sided.last_signal_ns; });
               });
  }

  void calls() {
    const auto perFunction = [&](const char* name, Unit unit, uint64_t record::CallCounts::*counter,
                                 const char* help) {
      begin(name, FamilyKind::kCounter, unit, help);
      for (const Source& source : sources_)
        for (std::size_t i = 0; source.snapshot->process.spy && i < record::kCalls; ++i)
          add(source, with(source.labels, "function", record::kCallNames[i]), source.all.calls[i].*counter);
    };
    perFunction("railwise.spy_calls", Unit::kNone, &record::CallCounts::calls,
                "Calls of NCCL's that a spy has seen, by function.");
    perFunction("railwise.spy_idle_calls", Unit::kNone, &record::CallCounts::idle,
                "Calls that a spy has seen and that gave no request, or found it not done.");
    perFunction("railwise.spy_call", Unit::kSeconds, &record::CallCounts::ns,
                "Time that NCCL has spent in the plugin's functions, as a spy has seen it.");
    begin("railwise.spy_grouped_receives", FamilyKind::kCounter, Unit::kNone,
          "Calls of irecv that a spy has seen, by their number of buffers.");
    for (const Source& source : sources_) {
      if (!source.snapshot->process.spy) continue;
      int buffers = 0;
      for (const uint64_t calls : source.all.group_sizes)
        add(source, with(source.labels, "buffers", std::to_string(++buffers)), calls);
    }
  }

  Metrics& metrics_;
  std::vector<Source> sources_;
  std::set<std::pair<Labels, bool>> labels_;  // those that a process has already; true: a spy's
};

}  // namespace

Metrics collectMetrics(std::span<const Snapshot> snapshots, std::size_t unreadable) {
  Metrics metrics;
  metrics.at_unix_ns = unixNs();
  Collector(snapshots, metrics).collect(unreadable);
  return metrics;
}

}  // namespace railwise::observe
