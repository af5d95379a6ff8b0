// railwise metrics: the counters of running jobs, for Prometheus and OpenTelemetry.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/files.h"
#include "base/outcome.h"
#include "cli/http/server.h"
#include "cli/observe/records.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "observe/metrics/family.h"

namespace railwise::cli {
namespace {

constexpr const char* kHelp =
    "usage: railwise metrics [PID...] [options]\n\n"
    "Prints counters of this machine's jobs as Prometheus reads them: traffic, errors and state of\n"
    "each port, connections by state and by what they wait for, latency and size of messages.\n"
    "PID: only these processes. Without --all-users: processes of the user who runs it.\n"
    "docs/observability.md lists the metrics; packaging/ has a board for Grafana and alert rules.\n\n"
    "  railwise metrics --listen :9464                     Prometheus scrapes http://HOST:9464/metrics\n"
    "  railwise metrics --textfile FILE.prom --interval 15  for the node exporter's textfile collector\n"
    "  railwise metrics --otlp FILE.jsonl --interval 15    for the collector of OpenTelemetry\n\n"
    "Queries: bits a second that each NIC sends, and NICs that traffic has left:\n\n"
    "  sum by (device) (rate(railwise_rail_sent_bytes_total[1m])) * 8\n"
    "  increase(railwise_rail_failovers_total[10m]) > 0\n\n"
    "Whoever reaches the address of --listen can read /metrics: it has no password.\n"
    "Exit status: 0 done, or ended by SIGTERM or SIGINT; 1 a file, address or process that is not\n"
    "there; 2 a mistake on the command line.\n\n";

constexpr const char* kPage =
    "<!DOCTYPE html><html><head><title>railwise metrics</title></head><body><h1>railwise metrics</h1><p><a "
    "href=\"/metrics\">/metrics</a>: counters of this machine's jobs, for Prometheus</p></body></html>\n";

constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// A page is at least this old before the records are read again: many clients cost no more than a few.
constexpr auto kPageAge = std::chrono::milliseconds(250);

constexpr std::size_t kMostPids = 4096;

struct MetricsOptions {
  std::string folder;
  std::string listen;
  std::string textfile;
  std::string otlp;
  int interval_s = 0;
  bool all_users = false;
  std::vector<std::string> pids;
};

std::vector<Option> optionTable(MetricsOptions& options) {
  return {textOption('l', "listen", "ADDR:PORT", &options.listen,
                     "serve /metrics over HTTP; [IPV6]:PORT, or :PORT for all addresses; port 0: any"),
          textOption('t', "textfile", "FILE", &options.textfile,
                     "write to a file, which is replaced at once, instead of stdout"),
          textOption('o', "otlp", "FILE", &options.otlp,
                     "append OTLP as JSON, one line each time, instead of printing"),
          intOption('i', "interval", &options.interval_s, 1, 86400,
                    "seconds after which the files are written again, until SIGTERM"),
          flagOption(0, "all-users", &options.all_users,
                     "processes of all users: only root may read the files of others"),
          recordFolderOption(&options.folder)};
}

// What is wrong with the command line; "": nothing.
std::string mistake(const MetricsOptions& options) {
  for (const std::string& pid : options.pids)
    if (!parseInt(pid, 1, INT32_MAX) || std::to_string(*parseInt(pid, 1, INT32_MAX)) != pid)
      return "'" + pid + "' is not the number of a process";
  if (options.all_users && !options.pids.empty()) return "--all-users reads all processes: no PID beside it";
  const bool files = !options.textfile.empty() || !options.otlp.empty();
  if (options.interval_s != 0 && !files) return "--interval needs a file: --textfile FILE or --otlp FILE";
  if (!options.listen.empty() && files && options.interval_s == 0)
    return "--listen with a file needs --interval S: how often the file is written";
  if (!options.listen.empty())
    if (const auto address = parseListenAddress(options.listen); !address.ok()) return address.error();
  return "";
}

// Reads records, and reports once what is wrong with them.
class Reading {
 public:
  explicit Reading(const MetricsOptions& options) : options_(options) {}

  // The error: a process has no record.
  Outcome<observe::Metrics> collect() {
    std::vector<std::string> notes;
    const auto snapshots = options_.all_users ? readRecordsOfAll(options_.folder, &notes)
                                              : readRecords(options_.folder, options_.pids, false, &notes);
    if (!snapshots.ok()) return snapshots.failure();
    if (notes != said_) sayNotes("metrics", notes);
    said_ = notes;
    return observe::collectMetrics(*snapshots, said_.size());
  }

 private:
  const MetricsOptions& options_;
  std::vector<std::string> said_;
};

Outcome<void> writeFiles(const MetricsOptions& options, const observe::Metrics& metrics) {
  if (!options.textfile.empty())
    if (auto written = replaceFile(options.textfile, prometheusText(metrics), 0644); !written.ok())
      return written;
  if (!options.otlp.empty())
    if (auto written = appendToFile(options.otlp, otlpLine(metrics)); !written.ok()) return written;
  return {};
}

// The pages of the server.
class Pages {
 public:
  explicit Pages(Reading& reading) : reading_(reading) {}

  HttpAnswer operator()(const std::string& path) {
    if (path == "/") return {.type = "text/html; charset=utf-8", .body = kPage};
    if (path != "/metrics") return {.status = 404, .body = "Not here: /metrics is.\n"};
    if (Clock::now() < made_ + kPageAge) return answer_;
    const auto metrics = reading_.collect();
    if (metrics.ok()) answer_ = {.type = kPrometheusType, .body = prometheusText(*metrics)};
    else answer_ = {.status = 503, .body = metrics.error() + "\n"};
    made_ = Clock::now();
    return answer_;
  }

 private:
  Reading& reading_;
  HttpAnswer answer_;
  Clock::time_point made_;
};

// Waits until `until`, or until `stop_fd` is readable. True: `stop_fd` is.
bool waitForStop(int stop_fd, Clock::time_point until) {
  pollfd stop = {.fd = stop_fd, .events = POLLIN, .revents = 0};
  for (auto now = Clock::now(); now < until; now = Clock::now()) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    if (poll(&stop, 1, static_cast<int>(std::min<int64_t>(ms, 60000))) > 0) return true;
  }
  return false;
}

int fail(const std::string& error) { return say("metrics: %s", error.c_str()), kExitFailed; }

// Serves and writes until a signal ends it.
int runUntilSignal(const MetricsOptions& options, Reading& reading) {
  if (const auto first = reading.collect(); !first.ok()) return fail(first.error());
  const int stop_fd = endSignals();
  if (stop_fd < 0) return fail("no signalfd");
  auto pages = Pages(reading);
  std::optional<HttpServer> server;
  if (!options.listen.empty()) {
    auto created = HttpServer::create(options.listen, pages);
    if (!created.ok()) return fail(created.error());
    server.emplace(std::move(*created));
    std::printf("listening at http://%s/metrics\n", server->address().text().c_str());
    std::fflush(stdout);
  }
  std::string said;
  const auto interval = std::chrono::seconds(options.interval_s);
  for (auto next = Clock::now();;) {
    if (options.interval_s != 0) {
      const auto metrics = reading.collect();
      const auto written = metrics.ok() ? writeFiles(options, *metrics) : Outcome<void>(metrics.failure());
      const std::string error = written.ok() ? "" : written.error();
      if (!error.empty() && error != said) say("metrics: %s", error.c_str());
      said = error;
      next = std::max(next + interval, Clock::now());
    } else {
      next = Clock::now() + std::chrono::hours(24);
    }
    if (server ? server->serve(stop_fd, next) : waitForStop(stop_fd, next)) return kExitOk;
  }
}

}  // namespace

int metricsCommand(Args args) {
  MetricsOptions options;
  int status = kExitOk;
  auto arguments = parseOrLeave("metrics", optionTable(options), args, kHelp, kMostPids, &status);
  if (!arguments) return status;
  options.pids = arguments->positional;
  if (const std::string wrong = mistake(options); !wrong.empty())
    return say("metrics: %s", wrong.c_str()), kExitUsage;
  Reading reading(options);
  if (!options.listen.empty() || options.interval_s != 0) return runUntilSignal(options, reading);
  const auto metrics = reading.collect();
  if (!metrics.ok()) return fail(metrics.error());
  if (options.textfile.empty() && options.otlp.empty())
    return writeOutput("metrics", "", prometheusText(*metrics));
  const auto written = writeFiles(options, *metrics);
  return written.ok() ? kExitOk : fail(written.error());
}

}  // namespace railwise::cli
