// Processes by hand for the tests of `railwise stuck`. Everything stands still, and every process calls.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "observe/stuck/diagnosis.h"
#include "observe/stuck/job.h"

namespace railwise::observe {

struct TestJob {
  // Rank `rank` of 8 on host "gpu<host>": process 100 + rank, with one rail.
  ProcessFacts& process(int rank, int host) {
    ProcessFacts& made = processes.emplace_back();
    made.host = "gpu" + std::to_string(host);
    made.boot_id = "boot" + std::to_string(host);
    made.pid = static_cast<uint32_t>(100 + rank);
    made.process_start = 7;
    made.alive = true;
    made.kernel_state = 'S';
    made.between_ms = 2000;
    made.rank = rank;
    made.program = "python3";
    made.rails.push_back({.device = "mlx5_0", .port = 1, .state = record::RailState::kUp});
    return made;
  }

  // The two ends of a connection, which have nothing open.
  std::pair<ConnectionFacts*, ConnectionFacts*> connect(ProcessFacts& from, ProcessFacts& to) {
    ++pairs;
    return {&end(from, to, record::Side::kSender), &end(to, from, record::Side::kReceiver)};
  }

  // The same for puts: the first end is the writer, the second one the target.
  std::pair<ConnectionFacts*, ConnectionFacts*> connectPuts(ProcessFacts& from, ProcessFacts& to) {
    const auto ends = connect(from, to);
    for (ConnectionFacts* const each : {ends.first, ends.second}) {
      each->kind = record::ConnectionKind::kOneSided;
      each->looked_ms = 10;
      each->one_sided.signals = each->one_sided.signals_done = 7;
    }
    ends.second->last_signal_ms = 100;
    return ends;
  }

  static void waits(ConnectionFacts& connection, record::WaitsFor waits_for, uint64_t ms = 5000) {
    connection.still = true;
    connection.waits_for = waits_for;
    connection.waits_ms = connection.oldest_ms = ms;
    connection.looked_ms = 10;
    connection.oldest = connection.numbers.next;
    connection.oldest_bytes = 1 << 20;
    connection.posted = connection.numbers.next;
  }
  // The receiver has posted a receive; the sender's NCCL has sent nothing into it.
  static void waitsForData(ConnectionFacts& receiver, uint64_t ms = 5000) {
    waits(receiver, record::WaitsFor::kData, ms);
    receiver.numbers.next = receiver.numbers.posted = receiver.oldest + 1;
  }
  // The sender waits, and the receiver has posted nothing.
  static void waitsForReceive(ConnectionFacts& sender, uint64_t ms = 5000) {
    waits(sender, record::WaitsFor::kClearToSend, ms);
  }

  Job job() const {
    std::vector<HostFacts> all = hosts;
    for (const ProcessFacts& process : processes) {
      HostFacts* host = nullptr;
      for (HostFacts& each : all)
        if (each.name == process.host) host = &each;
      if (host == nullptr) host = &all.emplace_back(HostFacts{.asked = process.host, .name = process.host});
      host->processes.push_back(process);
    }
    return Job(std::move(all));
  }

  std::deque<ProcessFacts> processes;
  std::vector<HostFacts> hosts;  // that have no process, or do not answer
  uint64_t pairs = 0;

 private:
  ConnectionFacts& end(ProcessFacts& own, const ProcessFacts& peer, record::Side side) {
    own.connections.reserve(64);  // what is returned stays where it is
    ConnectionFacts& made = own.connections.emplace_back();
    made.slot = static_cast<uint32_t>(own.connections.size()) - 1;
    made.id = 1000 * own.pid + made.slot;
    made.pair_id = 0x1000 + pairs;
    made.side = side;
    made.state = record::ConnectionState::kRunning;
    made.device = made.peer_device = "mlx5_0";
    made.peer = peer.host + ":" + std::to_string(peer.pid);
    made.numbers.next = made.numbers.posted = 8;
    made.posted = made.completed = 7;
    made.looked_ms = 4000;  // nothing is open: NCCL does not look
    made.state_ms = 60000;
    made.pairs.push_back(
        {.rail = 0, .gid = "fe80::1", .peer_gid = "fe80::2", .peer_device = "mlx5_0", .peer_port = 1});
    return made;
  }
};

}  // namespace railwise::observe
