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

#include "cli/options/message.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

// A device or a pipe cannot be replaced by a file, and a link stays one.
bool isSpecial(const std::string& file) {
  struct stat its = {};
  return lstat(file.c_str(), &its) == 0 && !S_ISREG(its.st_mode) && !S_ISDIR(its.st_mode);
}

std::string temporaryOf(const std::string& file) { return file + ".part" + std::to_string(getpid()); }

// 0: the file can be written. Otherwise an errno.
int tryToWrite(const std::string& file) {
  struct stat its = {};
  const bool exists = stat(file.c_str(), &its) == 0;
  if (exists && S_ISDIR(its.st_mode)) return EISDIR;
  if (exists && isSpecial(file)) return access(file.c_str(), W_OK) == 0 ? 0 : errno;
  const std::string temporary = temporaryOf(file);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  close(fd);
  unlink(temporary.c_str());
  return 0;
}

bool writeTo(const std::string& name, const char* mode, const std::string& text) {
  FILE* const stream = std::fopen(name.c_str(), mode);
  if (stream == nullptr) return false;
  const bool written = std::fputs(text.c_str(), stream) >= 0;
  return std::fclose(stream) == 0 && written;
}

// Room for one report, about ten thousand rows. A longer report is not kept.
constexpr std::size_t kReportRoom = std::size_t{1} << 20;

void putMeasurement(ByteWriter& writer, const Measurement& measured) {
  writer.u64(std::bit_cast<uint64_t>(measured.seconds)).u64(measured.wrong);
}

Measurement takeMeasurement(ByteReader& reader) {
  Measurement measured;
  measured.seconds = std::bit_cast<double>(reader.u64());
  measured.wrong = reader.u64();
  return measured;
}

void putSurroundings(ByteWriter& writer, const std::optional<Surroundings>& its) {
  writer.u32(its ? 1 : 0);
  if (!its) return;
  writer.u32(static_cast<uint32_t>(its->cores)).u32(static_cast<uint32_t>(its->ranks_on_host));
  writer.u64(its->naps).u64(std::bit_cast<uint64_t>(its->load)).u32(its->others ? 1 : 0);
  if (!its->others) return;
  writer.u64(std::bit_cast<uint64_t>(its->others->processes));
  writer.u64(std::bit_cast<uint64_t>(its->others->hypervisor));
}

std::optional<Surroundings> takeSurroundings(ByteReader& reader) {
  if (reader.u32() == 0) return std::nullopt;
  Surroundings its;
  its.cores = static_cast<int>(reader.u32());
  its.ranks_on_host = static_cast<int>(reader.u32());
  its.naps = reader.u64();
  its.load = std::bit_cast<double>(reader.u64());
  if (reader.u32() == 0) return its;
  OthersUse& others = its.others.emplace();
  others.processes = std::bit_cast<double>(reader.u64());
  others.hypervisor = std::bit_cast<double>(reader.u64());
  return its;
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
  auto record = map(fd);
  for (int i = 0; record.ok() && i < ranks; ++i) new (&(*record)->rank(i)) RankRecord();
  return record;
}

Result<std::unique_ptr<RunRecord>> RunRecord::attach(int fd) { return map(fd); }

Result<std::unique_ptr<RunRecord>> RunRecord::map(int fd) {
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
  ByteWriter writer;
  writer.text(report.plugin_path).text(report.plugin_name);
  writer.u32(static_cast<uint32_t>(report.ranks)).u32(static_cast<uint32_t>(report.api));
  writer.u32(report.software_fallback ? 1 : 0).u32(static_cast<uint32_t>(report.rank_lines.size()));
  for (const RankLine& line : report.rank_lines)
    writer.u32(static_cast<uint32_t>(line.rank))
        .u32(static_cast<uint32_t>(line.pid))
        .text(line.host)
        .text(line.devices);
  writer.u64(report.late_signals).u64(report.rows.size());
  for (const Row& row : report.rows) {
    writer.u64(row.bytes).u64(row.count);
    writer.u32(static_cast<uint32_t>(row.variant.type)).u32(static_cast<uint32_t>(row.variant.op));
    writer.u32(static_cast<uint32_t>(row.variant.root));
    putMeasurement(writer, row.out_of_place);
    putMeasurement(writer, row.in_place);
  }
  putSurroundings(writer, report.surroundings);
  return writer.take();
}

bool unpackReport(const Bytes& bytes, Report* report) {
  ByteReader reader(bytes);
  report->plugin_path = reader.text();
  report->plugin_name = reader.text();
  report->ranks = static_cast<int>(reader.u32());
  report->api = static_cast<int>(reader.u32());
  report->software_fallback = reader.u32() != 0;
  const uint32_t lines = reader.u32();
  for (uint32_t i = 0; i < lines && reader.ok(); ++i) {
    RankLine line;
    line.rank = static_cast<int>(reader.u32());
    line.pid = static_cast<int>(reader.u32());
    line.host = reader.text();
    line.devices = reader.text();
    report->rank_lines.push_back(line);
  }
  report->late_signals = reader.u64();
  const uint64_t rows = reader.u64();
  for (uint64_t i = 0; i < rows && reader.ok(); ++i) {
    Row row;
    row.bytes = reader.u64();
    row.count = reader.u64();
    row.variant.type = static_cast<DataType>(reader.u32());
    row.variant.op = static_cast<ReduceOp>(reader.u32());
    row.variant.root = static_cast<int>(reader.u32());
    row.out_of_place = takeMeasurement(reader);
    row.in_place = takeMeasurement(reader);
    report->rows.push_back(row);
  }
  report->surroundings = takeSurroundings(reader);
  return reader.ok() && reader.atEnd();
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
  if (isSpecial(file)) {
    if (writeTo(file, "we", text)) return true;
  } else {
    const std::string temporary = temporaryOf(file);
    if (writeTo(temporary, "we", text) && std::rename(temporary.c_str(), file.c_str()) == 0) return true;
    const int error = errno;
    std::remove(temporary.c_str());
    errno = error;
  }
  say("cannot write %s: %s", file.c_str(), std::strerror(errno));
  return false;
}

}  // namespace railwise::cli
