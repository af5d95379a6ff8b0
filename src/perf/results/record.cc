#include "perf/results/record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>
#include <type_traits>

#include "base/files.h"
#include "cli/options/message.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

// 0: the file can be written. Otherwise an errno.
int tryToWrite(const std::string& file) {
  struct stat its = {};
  const bool exists = stat(file.c_str(), &its) == 0;
  if (exists && S_ISDIR(its.st_mode)) return EISDIR;
  if (exists && access(file.c_str(), W_OK) == 0) return 0;
  if (exists && !S_ISREG(its.st_mode)) return errno;  // a device or a pipe cannot be replaced by a file
  const std::string temporary = file + ".part" + std::to_string(getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  close(fd);
  unlink(temporary.c_str());
  return 0;
}

// Room for one report, about ten thousand rows. A longer report is not kept.
constexpr std::size_t kReportRoom = std::size_t{1} << 20;

// Write and read the fields of a report, which visit() names once for both.
struct FieldWriter {
  static constexpr bool kReads = false;
  ByteWriter bytes;

  void field(const std::string& text) { bytes.text(text); }
  void field(double number) { bytes.u64(std::bit_cast<uint64_t>(number)); }
  void field(auto number) { bytes.u64(static_cast<uint64_t>(number)); }
};
struct FieldReader {
  static constexpr bool kReads = true;
  ByteReader bytes;

  void field(std::string& text) { text = bytes.text(); }
  void field(double& number) { number = std::bit_cast<double>(bytes.u64()); }
  void field(auto& number) { number = static_cast<std::remove_reference_t<decltype(number)>>(bytes.u64()); }
};

template <typename Way>
void fields(Way& way, auto&... all) {
  (way.field(all), ...);
}

// Calls `visit_one` for each item. A reader has as many as the bytes say.
template <typename Way>
void visitAll(Way& way, auto& items, const auto& visit_one) {
  uint64_t count = items.size();
  way.field(count);
  if constexpr (Way::kReads) {
    for (uint64_t i = 0; i < count && way.bytes.ok(); ++i) visit_one(items.emplace_back());
  } else {
    for (auto& item : items) visit_one(item);
  }
}

// Null: there is nothing to visit.
template <typename Way, typename Maybe>
auto visitIf(Way& way, Maybe& maybe) -> decltype(&*maybe) {
  bool there = maybe.has_value();
  way.field(there);
  if constexpr (Way::kReads)
    if (there) maybe.emplace();
  return there ? &*maybe : nullptr;
}

// Everything but the options and the samples.
template <typename Way>
void visit(Way& way, auto& report) {
  fields(way, report.plugin_path, report.plugin_name, report.ranks, report.api, report.software_fallback);
  visitAll(way, report.rank_lines,
           [&](auto& line) { fields(way, line.rank, line.pid, line.host, line.devices); });
  fields(way, report.late_signals);
  visitAll(way, report.rows, [&](auto& row) {
    fields(way, row.bytes, row.count, row.variant.type, row.variant.op, row.variant.root);
    for (auto* const half : {&row.out_of_place, &row.in_place}) fields(way, half->seconds, half->wrong);
  });
  auto* const around = visitIf(way, report.surroundings);
  if (around == nullptr) return;
  fields(way, around->cores, around->ranks_on_host, around->naps, around->load);
  if (auto* const others = visitIf(way, around->others)) fields(way, others->processes, others->hypervisor);
}

}  // namespace

// Reports are written alternately to two places, so that one of them is always complete.
struct RunRecord::Shared {
  RankRecord ranks[kMaxRanks];
  std::atomic<bool> over{false};
  std::atomic<bool> quiet{false};
  std::atomic<uint64_t> reports{0};  // reports kept so far; the latest one is at reports % 2
  struct Place {
    uint64_t bytes;
    std::byte data[kReportRoom];
  } places[2];
};

void RankRecord::end(RankEnding how, const std::string& why) {
  std::snprintf(text, sizeof text, "%s", why.c_str());
  ending.store(how, std::memory_order_release);
}

void RankRecord::standStill(Clock::duration limit) {
  const uint32_t place = still + 1;
  still.store(place, std::memory_order_release);
  const Deadline deadline = Deadline::after(limit);
  while (compared.load(std::memory_order_acquire) != place && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  still.store(place + 1);
}

Result<std::unique_ptr<RunRecord>> RunRecord::create(int ranks) {
  const int fd = memfd_create("railwise-perf", MFD_CLOEXEC);
  if (fd < 0) return Status{Code::kSystem, errno};
  if (ftruncate(fd, sizeof(Shared)) != 0) {
    const int error = errno;
    close(fd);
    return Status{Code::kSystem, error};
  }
  auto record = attach(fd);
  for (int i = 0; record.ok() && i < ranks; ++i) new (&(*record)->rank(i)) RankRecord();
  return record;
}

Result<std::unique_ptr<RunRecord>> RunRecord::attach(int fd) {
  void* const data = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Status{Code::kSystem, errno};
  return std::unique_ptr<RunRecord>(new RunRecord(fd, static_cast<Shared*>(data)));
}

RunRecord::~RunRecord() {
  munmap(shared_, sizeof(Shared));
  close(fd_);
}

RankRecord& RunRecord::rank(int index) { return shared_->ranks[index]; }

uint64_t RunRecord::received(int ranks) {
  uint64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += shared_->ranks[rank].received;
  return sum;
}

void RunRecord::setOver() { shared_->over = true; }
bool RunRecord::over() const { return shared_->over; }

void RunRecord::setQuiet() { shared_->quiet = true; }
bool RunRecord::quiet() const { return shared_->quiet; }

void RunRecord::keep(const Report& report) {
  const Bytes bytes = packReport(report);
  if (bytes.size() > kReportRoom) return;
  const uint64_t next = shared_->reports.load(std::memory_order_relaxed) + 1;
  Shared::Place& place = shared_->places[next % 2];
  place.bytes = bytes.size();
  std::memcpy(place.data, bytes.data(), bytes.size());
  shared_->reports.store(next, std::memory_order_release);
}

bool RunRecord::latest(Report* report) {
  const uint64_t kept = shared_->reports.load(std::memory_order_acquire);
  if (kept == 0) return false;
  const Shared::Place& place = shared_->places[kept % 2];
  return unpackReport(Bytes(place.data, place.data + place.bytes), report);
}

Bytes packReport(const Report& report) {
  FieldWriter writer;
  visit(writer, report);
  return writer.bytes.take();
}

bool unpackReport(const Bytes& bytes, Report* report) {
  FieldReader reader{ByteReader(bytes)};
  visit(reader, *report);
  return reader.bytes.ok() && reader.bytes.atEnd();
}

Outcome<void> checkOutputs(const PerfOptions& options) {
  const struct {
    const char* option;
    const std::string& file;
  } outputs[] = {
      {"--json", options.json_file}, {"--csv", options.csv_file}, {"--timeline", options.timeline}};
  for (const auto& output : outputs) {
    if (output.file.empty()) continue;
    if (const int error = tryToWrite(output.file); error != 0)
      return Error{
          textOf("option %s: cannot write %s: %s", output.option, output.file.c_str(), std::strerror(error))};
  }
  return {};
}

bool writeDocument(const std::string& file, const std::string& text) {
  if (file.empty()) return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  const auto written = replaceFile(file, text);
  if (!written.ok()) say("%s", written.error().c_str());
  return written.ok();
}

}  // namespace railwise::cli
