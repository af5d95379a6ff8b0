#include "perf/collective/rank.h"

#include <signal.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/collective/measure.h"
#include "perf/collective/traffic.h"
#include "perf/job/bootstrap.h"
#include "perf/job/worker.h"
#include "perf/measuring/measuring.h"
#include "perf/results/comparison.h"
#include "perf/results/record.h"
#include "perf/results/report.h"

namespace railwise::cli {
namespace {

// How long rank 0 waits for the launcher's "quiet". The launcher checks every millisecond.
constexpr auto kQuietLimit = std::chrono::seconds(5);
// In a judged run: how long a rank that has failed waits for its calls of the plugin to return, and any rank
// for the launcher's comparison. Together less than what the launcher grants ranks after the first has ended.
constexpr auto kReturnLimit = std::chrono::milliseconds(1500);
constexpr auto kCompareLimit = std::chrono::seconds(2);

// ---- The launcher ends a rank by SIGTERM. When the launcher dies, the kernel sends SIGTERM too. ----

volatile sig_atomic_t g_launcher = 0;
char g_launcher_gone[160];

void onTerminate(int) {
  if (getppid() != g_launcher) (void)!write(STDERR_FILENO, g_launcher_gone, std::strlen(g_launcher_gone));
  _exit(kExitFailed);
}

// Nobody reads the output any more. The launcher ends all ranks, this one too.
void onBrokenPipe(int) {
  kill(g_launcher, SIGPIPE);
  while (true) pause();
}

void watchLauncher(const RankIdentity& identity) {
  if (identity.launcher == 0) return;
  g_launcher = identity.launcher;
  std::snprintf(g_launcher_gone, sizeof g_launcher_gone,
                "railwise: rank %d: the launcher (pid %d on this host) is gone: ending\n", identity.rank,
                static_cast<int>(identity.launcher));
  struct sigaction action = {};
  action.sa_handler = onTerminate;
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = onBrokenPipe;
  sigaction(SIGPIPE, &action, nullptr);
  // The launcher died before this rank could ask the kernel for the signal.
  if (getppid() != identity.launcher) onTerminate(SIGTERM);
}

class Rank {
 public:
  Rank(const PerfOptions& options, const RankIdentity& identity, const MachineKnowledge& machine,
       const SavedRun* against)
      : options_(options), identity_(identity), machine_(machine), against_(against) {}

  int run() {
    const auto fallback = identity_.launcher != 0 ? Outcome<bool>(identity_.software_fallback)
                                                  : needsSoftwareDevice(deviceOptions(options_));
    if (!fallback.ok()) return leave(kExitFailed, "%s", fallback.error().c_str());
    fallback_ = *fallback;
    if (!possible() || !openRecord() || !join()) return kExitFailed;
    const Status status = runJob();
    if (!status.ok()) giveUp();
    record_->end(RankEnding::kCompleted, "");
    return exit_status_;
  }

 private:
  // What only the number of ranks decides. Rank 0 says what is wrong.
  bool possible() const {
    const auto checked = checkRanks(options_, identity_.size);
    std::string reason = checked.ok() ? "" : checked.error();
    if (against_ != nullptr && reason.empty()) reason = notComparable(*against_, options_, identity_.size);
    if (!reason.empty() && identity_.rank == 0) say("%s", reason.c_str());
    return reason.empty();
  }

  bool openRecord() {
    const char* const fd = std::getenv(kRecordVariable);
    if (fd == nullptr && !options_.judged) return true;
    auto run = RunRecord::attach(parseInt(fd != nullptr ? fd : "", 0, INT_MAX).value_or(-1));
    if (!run.ok()) {
      say("cannot map the launcher's record: %s", std::strerror(run.status().sys_errno));
      return false;
    }
    run_record_ = std::move(*run);
    record_ = &run_record_->rank(identity_.rank);
    record_->pid = getpid();
    return true;
  }

  void recordFailure(const std::string& text) {
    const int result = failure_.result();
    record_->result = result;
    if (result != 0) return record_->end(RankEnding::kPluginError, failure_.text());
    if (text.find(kNoProgress) != std::string::npos) return record_->end(RankEnding::kTimeLimit, text);
    record_->end(failure_.text().empty() ? RankEnding::kTold : RankEnding::kOther, text);
  }

  bool join() {
    if (identity_.anonymous && identity_.rank == 0)
      say("nothing that has started the ranks tells this job from others: whoever reaches rank 0's port can "
          "join or end it. Give all ranks a secret (%s=TEXT)",
          kSecretVariable);
    BootstrapOptions bootstrap;
    bootstrap.rank = identity_.rank;
    bootstrap.size = identity_.size;
    bootstrap.secret = identity_.secret;
    bootstrap.agreement = agreementText(options_);
    bootstrap.timeout = std::chrono::seconds(options_.timeout_s);
    bootstrap.listener = Socket(identity_.listen_fd);
    bootstrap.progress = [this] { return activity_.ticks(); };
    bootstrap.doing = [this] { return activity_.text(); };
    bootstrap.on_failure = [this](const std::string& text) {
      say("%s", text.c_str());
      recordFailure(text);
      if (options_.judged && gate_.close(kReturnLimit)) record_->standStill(kCompareLimit);
      _exit(kExitFailed);  // a plugin call of another thread may never return
    };
    if (identity_.size > 1) {
      auto address = resolveAddress(identity_.address);
      if (!address.ok()) return joinFailed(address.error());
      bootstrap.address = *address;
    }
    auto joined = Bootstrap::join(std::move(bootstrap));
    if (!joined.ok()) return joinFailed(joined.error());
    bootstrap_ = std::move(*joined);
    return true;
  }

  bool joinFailed(const std::string& error) {
    const char* hint = identity_.launcher == 0 ? " (rank and size are those of " : "";
    say("cannot join the job: %s%s%s%s", error.c_str(), hint, *hint != '\0' ? identity_.source.c_str() : "",
        *hint != '\0' ? "; --ranks N would start the ranks here)" : "");
    return false;
  }

  // Reports the failure to the bootstrap. Its monitor thread ends the process when it knows which rank caused
  // the failure.
  [[noreturn]] void giveUp() {
    // At once, because the launcher judges by the paths that are left at this moment.
    record_->result = failure_.result();
    bootstrap_->fail(failure_.text().empty() ? "a message of the bootstrap network makes no sense"
                                             : failure_.text());
    std::this_thread::sleep_for(std::chrono::seconds(10));
    say("%s", failure_.text().c_str());
    recordFailure(failure_.text());
    _exit(kExitFailed);
  }

  Status fail(std::string text, int result = 0) {
    failure_.set(std::move(text), result);
    return {Code::kRemote};
  }

  Status runJob() {
    RAILWISE_TRY(agreeOnDevice());
    RAILWISE_TRY(startNet());
    RAILWISE_TRY(introduce());
    service_ = std::make_unique<Worker>("rw-service", gate_);
    LinkPlan plan = linkPlan(options_, bootstrap_->rank(), bootstrap_->size());
    plan.devices = devices_;
    plan.first_device = rank_on_host_;
    traffic_ = table_->makeTraffic({failure_, gate_, bootstrap_->rank(), record_->received}, activity_, plan,
                                   bootstrap_->size());
    RAILWISE_TRY(connect());
    RAILWISE_TRY(measureAll());
    RAILWISE_TRY(closeAll());
    activity_.setPhase("waiting for the other ranks to finish");
    RAILWISE_TRY(bootstrap_->leave());
    return finish();
  }

  Status closeAll() {
    record_->phase = RankPhase::kMeasured;
    if (options_.judged && bootstrap_->rank() == 0) waitForQuiet();
    activity_.setPhase("closing the connections");
    RAILWISE_TRY(bootstrap_->barrier());
    activity_.setDetail(nullptr);
    progress_.reset();
    // All counts are compared twice: with the connections, and when they have left the rest to their rails.
    if (options_.judged) record_->standStill(kCompareLimit);
    RAILWISE_TRY(service_->run([this] { return traffic_->close(); }));
    if (options_.judged) record_->standStill(kCompareLimit);
    service_.reset();
    activity_.setPhase("in finalize");
    const CallGate::Pass pass(gate_);
    if (!pass.ok()) return {Code::kRemote};
    if (const ncclResult_t result = table_->api().finalize(); result != ncclSuccess)
      return fail("finalize failed: " + resultText(result), result);
    table_.reset();
    return Status::success();
  }

  // Rank 0 waits here because faults must happen while data flows. The other ranks wait for rank 0.
  void waitForQuiet() {
    const Deadline deadline = Deadline::after(kQuietLimit);
    while (!run_record_->quiet() && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }

  // If one rank has no RDMA device, all ranks use the software device, because software and real devices
  // cannot communicate.
  Status agreeOnDevice() {
    auto all = bootstrap_->allGather(ByteWriter().u32(fallback_ ? 1 : 0).take());
    if (!all.ok()) return all.status();
    for (const Bytes& answer : *all) fallback_ = fallback_ || ByteReader(answer).u32() != 0;
    applyDevice(options_.plugin, fallback_);
    return Status::success();
  }

  Status startNet() {
    activity_.setPhase("in the plugin's init");
    auto table = openTable(options_);
    if (!table.ok()) return fail(table.error());
    table_ = std::move(*table);
    auto devices = table_->start(stableHash(identity_.secret));
    if (!devices.ok()) return fail(devices.error());
    devices_.resize(static_cast<std::size_t>(*devices));
    std::iota(devices_.begin(), devices_.end(), 0);
    return options_.fuse && devices_.size() > 1 ? fuseDevices() : Status::success();
  }

  Status fuseDevices() {
    int fused = 0;
    const ncclResult_t result = table_->api().makeVDevice(devices_, &fused);
    if (result != ncclSuccess)
      return fail(textOf("makeVDevice of %zu devices (--fuse) failed: ", devices_.size()) +
                  resultText(result) +
                  "; devices without a place in the PCI tree: RAILWISE_FUSE_PLACELESS=1");
    devices_ = {fused};
    return Status::success();
  }

  static bool onSoftwareDevice() {
    const char* const device = std::getenv("RAILWISE_DEVICE");
    return device != nullptr && std::string_view(device).starts_with("software");
  }

  PortSpeed meaningOf(const NetProperties& properties) const {
    if (onSoftwareDevice())
      return machine_.software_paced && machine_.software_paced() ? PortSpeed::kAlways : PortSpeed::kClaimed;
    // Devices that the kernel makes in software (rxe, siw) have no place in the PCI tree.
    const bool in_tree =
        !properties.pci_path.empty() && properties.pci_path.find("/virtual/") == std::string::npos;
    return in_tree ? PortSpeed::kBetweenHosts : PortSpeed::kClaimed;
  }

  Result<std::vector<PortUse>> ownPorts() {
    std::vector<PortUse> ports;
    const int count = static_cast<int>(devices_.size());
    for (int channel = 0; channel < std::min(options_.channels, count); ++channel) {
      const int device = devices_[static_cast<std::size_t>((rank_on_host_ + channel) % count)];
      NetProperties properties;
      const ncclResult_t result = table_->api().getProperties(device, &properties);
      if (result != ncclSuccess)
        return fail(textOf("getProperties(%d) failed: ", device) + resultText(result));
      if ((properties.ptr_support & NCCL_PTR_HOST) == 0)
        return fail("device " + properties.name + " does not take host memory");
      ports.push_back({properties.name, properties.speed_mbps, meaningOf(properties)});
    }
    return ports;
  }

  static void putPorts(ByteWriter& writer, const std::vector<PortUse>& ports) {
    writer.u32(static_cast<uint32_t>(ports.size()));
    for (const PortUse& port : ports)
      writer.text(port.device)
          .u32(static_cast<uint32_t>(std::max(port.speed_mbps, 0)))
          .u32(static_cast<uint32_t>(port.holds));
  }

  static RankLine takeLine(int rank, const Peer& peer, ByteReader& reader) {
    RankLine line = {rank, static_cast<int>(peer.pid), peer.host, "", {}};
    const uint32_t count = reader.u32();
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
      PortUse port;
      port.device = reader.text();
      port.speed_mbps = static_cast<int>(reader.u32());
      port.holds = static_cast<PortSpeed>(reader.u32());
      line.devices += (line.devices.empty() ? "" : ",") + port.device;
      line.ports.push_back(std::move(port));
    }
    return line;
  }

  // Exchanges which ranks there are, with which plugin and devices.
  Status introduce() {
    const int rank = bootstrap_->rank();
    for (int i = 0; i < rank; ++i)
      rank_on_host_ += bootstrap_->peer(i).host == bootstrap_->peer(rank).host ? 1 : 0;
    auto ports = ownPorts();
    if (!ports.ok()) return ports.status();
    const std::string plugin = textOf("%s v%d", table_->api().name(), table_->api().version());
    ByteWriter mine;
    mine.text(plugin);
    putPorts(mine, *ports);
    auto all = bootstrap_->allGather(mine.take());
    if (!all.ok()) return all.status();
    for (int i = 0; i < bootstrap_->size(); ++i) {
      ByteReader reader((*all)[static_cast<std::size_t>(i)]);
      const Peer& peer = bootstrap_->peer(i);
      const std::string other = reader.text();
      if (other != plugin) return fail(peer.text() + " uses plugin " + other + ", this rank uses " + plugin);
      report_.rank_lines.push_back(takeLine(i, peer, reader));
    }
    report_.options = options_;
    report_.ranks = bootstrap_->size();
    report_.plugin_path = table_->path();
    report_.plugin_name = table_->api().name();
    report_.api = table_->api().version();
    report_.software_fallback = fallback_;
    report_.software_device = onSoftwareDevice();
    if (report_.software_device) report_.fabric = machine_.software_fabric();
    print(headerText(report_));
    keepReport();
    return Status::success();
  }

  Status connect() {
    activity_.setPhase("listening");
    RAILWISE_TRY(service_->run([this] { return traffic_->listen(); }));
    activity_.setPhase("exchanging the handles");
    auto handles = bootstrap_->exchange(traffic_->handles());
    if (!handles.ok()) return handles.status();
    activity_.setPhase("connecting");
    activity_.setDetail([this] { return traffic_->describe(); });
    RAILWISE_TRY(service_->run([&] { return traffic_->connect(*handles); }));
    progress_ = std::make_unique<Worker>("rw-progress", gate_, betweenRuns());
    return Status::success();
  }

  // NCCL's progress thread calls rmaProgress all the time, at ranks that only receive too.
  std::function<Status()> betweenRuns() {
    if (!isOneSided(options_.collective)) return nullptr;
    return [this, wait = IdleWait(true)]() mutable {
      wait.idle();
      return traffic_->progress();
    };
  }

  // Measures all sizes as often as -N/--cycles, -D/--duration or the launcher ask for.
  Status measureAll() {
    record_->phase = RankPhase::kTraffic;
    // A judged run has other programs beside it.
    const bool cores_are_few = options_.judged || ranksOnHost() > usableCpus();
    auto measure =
        Measure::create(options_, *bootstrap_, *traffic_, *progress_, activity_, *record_, cores_are_few);
    if (!measure.ok()) return fail(measure.error());
    measure_ = std::move(*measure);
    RAILWISE_TRY(service_->run(
        [this] { return traffic_->addBuffers(measure_->sendBuffer(), measure_->receiveBuffer()); }));
    const Deadline end = Deadline::after(std::chrono::seconds(options_.duration_s));
    const MachineUse machine;
    const double cpu_seconds = ownCpuSeconds();
    const double load = loadAverage();
    for (int cycle = 1;; ++cycle) {
      RAILWISE_TRY(measureSizes(*measure_, cycle));
      auto over = isOver(cycle, end);
      if (!over.ok()) return over.status();
      if (!*over) continue;
      auto late = measure_->lateSignals();
      if (!late.ok()) return late.status();
      report_.late_signals = *late;
      keepReport();
      if (options_.judged) return Status::success();
      if (!printsEveryRow()) printRows();
      return lookAround(machine, load, ownCpuSeconds() - cpu_seconds, measure_->naps());
    }
  }

  // Rank 0 decides for all ranks: with --duration by the time, in a judged run when the launcher says so too.
  Result<bool> isOver(int cycle, const Deadline& end) {
    if (!options_.judged && options_.duration_s == 0) return options_.cycles != 0 && cycle >= options_.cycles;
    const bool scheduled = options_.judged && !run_record_->over();
    auto over = bootstrap_->allGather(ByteWriter().u32(end.passed() && !scheduled ? 1 : 0).take());
    if (!over.ok()) return over.status();
    return ByteReader(over->front()).u32() != 0;
  }

  bool neverEnds() const { return options_.cycles == 0 && options_.duration_s == 0 && !options_.judged; }
  // With --duration, one row for each size says what all its measurements say together.
  bool printsEveryRow() const { return options_.duration_s == 0 || options_.every_row || options_.judged; }
  void printRows() {
    for (const Row& row : report_.rows) print(rowText(report_, row));
  }

  int ranksOnHost() const {
    int ranks = 0;
    for (int i = 0; i < bootstrap_->size(); ++i)
      ranks += bootstrap_->peer(i).host == bootstrap_->peer(bootstrap_->rank()).host ? 1 : 0;
    return ranks;
  }

  // Collects, in rank 0's report, what other load the measurements shared the machine with.
  Status lookAround(const MachineUse& machine, double load, double cpu_seconds, uint64_t naps) {
    auto all =
        bootstrap_->allGather(ByteWriter().u64(static_cast<uint64_t>(cpu_seconds * 1e9)).u64(naps).take());
    if (!all.ok()) return all.status();
    Surroundings its;
    double on_host = 0;
    for (int i = 0; i < bootstrap_->size(); ++i) {
      ByteReader reader((*all)[static_cast<std::size_t>(i)]);
      const double seconds = static_cast<double>(reader.u64()) / 1e9;
      if (bootstrap_->peer(i).host == bootstrap_->peer(0).host) on_host += seconds;
      its.naps += reader.u64();
    }
    its.cores = usableCpus();
    its.ranks_on_host = ranksOnHost();
    its.others = machine.since(on_host);
    its.load = load;
    report_.surroundings = its;
    keepReport();
    return Status::success();
  }

  Status measureSizes(Measure& measure, int cycle) {
    const auto sizes = perfSizes(options_);
    for (const Variant& variant : variantsOf(options_, bootstrap_->size())) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::string begin = progressOf(variant, sizes[i], i + 1, sizes.size(), cycle);
        if (bootstrap_->rank() == 0) showProgress(begin);
        auto row = measure.row(sizes[i], variant, begin);
        if (bootstrap_->rank() == 0) clearProgress();
        if (!row.ok()) return row.status();
        takeRow(*row);
      }
    }
    return Status::success();
  }

  void takeRow(const Row& row) {
    if (!printsEveryRow()) {
      report_.combine(row);
    } else {
      // Rows without an end would fill the memory, and nothing reads them: -N 0 goes without --json and
      // --csv.
      if (neverEnds()) report_.rows.clear();
      report_.rows.push_back(row);
      print(rowText(report_, row));
    }
    keepReport();
  }

  std::string progressOf(const Variant& variant, uint64_t bytes, std::size_t number, std::size_t of,
                         int cycle) const {
    std::string text = std::string(collectiveName(options_.collective)) + " of " + dataTypeName(variant.type);
    if (variant.root >= 0 && options_.all_roots) text += textOf(", root %d", variant.root);
    if (cycle > 1) text += textOf(", time %d", cycle);
    return text + textOf(": %llu bytes (%zu of %zu)", static_cast<unsigned long long>(bytes), number, of);
  }

  void keepReport() {
    if (run_record_ != nullptr && bootstrap_->rank() == 0) run_record_->keep(report_);
  }

  void print(const std::string& text) const {
    if (bootstrap_->rank() != 0 || !tableOnStdout(options_)) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  Status finish() {
    exit_status_ = report_.wrong() == 0 ? kExitOk : kExitFailed;
    // A judged run measures other things than bandwidth.
    if (!options_.judged) judge();
    print(footerText(report_));
    if (bootstrap_->rank() == 0) writeDocuments();
    return Status::success();
  }

  void judge() {
    const double average = report_.averageBusBandwidth();
    const bool too_slow = options_.min_busbw && average < *options_.min_busbw;
    if (too_slow) exit_status_ = kExitFailed;
    if (bootstrap_->rank() != 0) return;
    if (too_slow)
      say("the average bus bandwidth, %.4g GB/s, is below --min-busbw %g", average, *options_.min_busbw);
    report_.reached = reachedBy(report_, machine_.model);
    if (against_ == nullptr) return;
    comparison_ = compareRuns(*against_, report_);
    report_.comparison = comparisonText(*comparison_);
  }

  void writeDocuments() {
    // Of a judged run the launcher writes the document.
    const auto compared = [this](JsonWriter& json) {
      if (comparison_) addComparison(json, *comparison_);
    };
    if (options_.json && !options_.judged && !writeDocument(options_.json_file, jsonText(report_, compared)))
      exit_status_ = kExitFailed;
    if (options_.csv && !writeDocument(options_.csv_file, csvText(report_))) exit_status_ = kExitFailed;
  }

  const PerfOptions& options_;
  const RankIdentity& identity_;
  const MachineKnowledge& machine_;
  const SavedRun* const against_;  // null: no comparison
  std::optional<Comparison> comparison_;
  Activity activity_;
  CallGate gate_;
  FailureNote failure_;
  RankRecord own_record_;
  RankRecord* record_ = &own_record_;  // or a record in the launcher's memory
  std::unique_ptr<RunRecord> run_record_;
  bool fallback_ = false;
  std::vector<int> devices_;  // the devices in use
  int rank_on_host_ = 0;
  Report report_;
  int exit_status_ = kExitFailed;
  std::unique_ptr<PluginTable> table_;
  std::unique_ptr<Traffic> traffic_;
  std::unique_ptr<Worker> service_;
  std::unique_ptr<Worker> progress_;
  std::unique_ptr<Measure> measure_;
  std::unique_ptr<Bootstrap> bootstrap_;  // last, because its monitor thread uses activity_
};

}  // namespace

int runRank(const PerfOptions& options, const RankIdentity& identity, const MachineKnowledge& machine,
            const SavedRun* against) {
  setMessagePrefix(textOf("rank %d: ", identity.rank));
  watchLauncher(identity);
  return Rank(options, identity, machine, against).run();
}

}  // namespace railwise::cli
