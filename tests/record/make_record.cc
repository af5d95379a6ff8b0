// Writes the record of a job's process into a folder, prints its path, and keeps it alive until stdin ends.
// usage: make_record FOLDER quiet|trouble|spy
//   quiet: all is well; trouble: a rail is down, a connection waits; spy: the record of a spy
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "record/held_record.h"
#include "record/record_builder.h"

namespace {

using namespace railwise;
using namespace railwise::record;
using test::RecordBuilder;

void fillTrouble(RecordBuilder& record) {
  RailRecord& second = record.rail("mlx5_1", 400000);
  second.state = RailState::kDown;
  second.state_changes = 1;
  second.counters.errors[static_cast<int>(ErrorKind::kPortDown)] = 1;
  second.counters.errors[static_cast<int>(ErrorKind::kRetryExceeded)] = 2;
  second.counters.failovers = 3;
  ConnectionPage& running = record.connection(Side::kSender);
  running.connection.lanes = 2;
  running.queue_pairs[0].measured_mbps = 390000;
  RecordBuilder::queuePair(running, 1).measured_mbps = 150000;
  ConnectionPage& lost = record.connection(Side::kSender, ConnectionState::kLost);
  lost.connection.waits_for = WaitsFor::kPath;
  lost.connection.waits_since_ns = record.ago(5);
  lost.connection.degraded = 1;
  lost.connection.degraded_since_ns = record.ago(5);
  lost.connection.counters.failovers = 3;
  ConnectionPage& waiting = record.connection(Side::kReceiver);
  waiting.connection.waits_for = WaitsFor::kData;
  waiting.connection.waits_since_ns = record.ago(7);
  waiting.connection.oldest = 1;
  waiting.connection.oldest_since_ns = record.ago(7);
}

void fillSpy(RecordBuilder& record) {
  record.header().spy = 1;
  record.header().pid = 4343;
  RecordBuilder::setText(record.header().plugin, "NCCL IB");
  ConnectionRecord& connection = record.connection(Side::kReceiver).connection;
  connection.calls[0] = {.calls = 12, .idle = 4, .ns = 3000000};
  connection.group_sizes[7] = 5;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: make_record FOLDER quiet|trouble|spy\n"), 2;
  const std::string_view kind = arguments[2];
  RecordBuilder record;
  RailRecord& first = record.rail("mlx5_0", 400000);
  first.counters.totals = {.bytes_sent = 1000000, .bytes_received = 2000000};
  ConnectionPage& page = record.connection(Side::kSender);
  page.queue_pairs[0].bytes = 234567;
  page.connection.latency[14] = 90;  // 16 us to 33 us
  page.connection.latency[17] = 10;
  page.connection.size[20] = 100;
  if (kind == "trouble") fillTrouble(record);
  if (kind == "spy") fillSpy(record);
  const std::string path = record.write(arguments[1]);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 || !test::lockRecord(fd)) return std::perror(path.c_str()), 1;
  std::puts(path.c_str());
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  unlink(path.c_str());
  return 0;
}
