// Arbitrary bytes as what other hosts answer to railwise stuck. What is accepted is written and read again,
// and can be judged and printed.
#include <cstdlib>
#include <string>

#include "observe/stuck/diagnosis.h"

namespace {

using namespace railwise;

std::string goodLines() {
  observe::ConnectionFacts end;
  end.state = record::ConnectionState::kRunning;
  end.still = true;
  end.waits_for = record::WaitsFor::kClearToSend;
  end.pair_id = 5;
  end.numbers.next = end.oldest = 8;
  end.peer = "b:2";
  end.pairs.push_back({.rail = 0, .gid = "fe80::1", .peer_device = "m", .peer_port = 1});
  end.queue_pairs.push_back({.number = 1, .peer_number = 2, .pair = 0, .bytes = 3});
  observe::ProcessFacts process;
  process.host = "a";
  process.pid = 1;
  process.alive = true;
  process.rails.push_back({.device = "m", .port = 1});
  process.connections = {end, end, end, end};
  process.connections[1].side = process.connections[3].side = record::Side::kReceiver;
  for (std::size_t i : {2, 3}) {
    process.connections[i].kind = record::ConnectionKind::kOneSided;
    process.connections[i].waits_for = record::WaitsFor::kCredit;
    process.connections[i].pair_id = 6;
    process.connections[i].last_signal_ms = 5000;
  }
  observe::ProcessFacts other = process;
  other.host = "b";
  other.pid = 2;
  for (observe::ConnectionFacts& each : other.connections) each.peer = "a:1";
  return observe::jsonLines({.asked = "a", .name = "a", .processes = {process, other}});
}

void use(std::string_view text) {
  auto hosts = observe::parseJsonLines(text, "fuzz");
  if (!hosts.ok()) return;
  std::string written;
  for (const observe::HostFacts& host : *hosts) written += observe::jsonLines(host);
  const auto again = observe::parseJsonLines(written, "fuzz");
  if (!again.ok()) std::abort();
  std::string twice;
  for (const observe::HostFacts& host : *again) twice += observe::jsonLines(host);
  if (twice != written) std::abort();
  const observe::Job job(std::move(*hosts));
  const observe::Diagnosis diagnosis = observe::diagnose(job, {});
  if (diagnosis.verdict.empty()) std::abort();
  const std::vector<observe::JudgedJob> jobs = observe::judgeJobs(job, {});
  for (const char c : observe::stuckText(job, diagnosis, jobs))
    if (c != '\n' && (c < ' ' || c > '~')) std::abort();
  if (observe::stuckJson(job, diagnosis, jobs).empty() || observe::stuckDot(job, diagnosis).empty())
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  use(bytes);
  // The same bytes over lines that are right, at a place that they choose.
  if (size < 2) return 0;
  std::string changed = goodLines();
  const std::size_t at = (data[0] * 256u + data[1]) % changed.size();
  changed.replace(at, std::min(size - 2, changed.size() - at), bytes.substr(2));
  use(changed);
  return 0;
}
