// Builds the record of a process (record/layout.h) for tests. What it makes is a good record; a test changes
// what it is about.
//
//   RecordBuilder record;
//   record.rail("mlx5_0", 400000).state = RailState::kDown;
//   ConnectionPage& page = record.connection(Side::kSender);
//   page.connection.numbers.next = 8;
//   const std::string path = record.write(scratch.path());
#pragma once

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <string>
#include <vector>

#include "record/layout.h"

namespace railwise::test {

class RecordBuilder {
 public:
  // Times that connections and events have are before this moment: CLOCK_MONOTONIC when the builder began.
  const uint64_t now_ns = clockNs(CLOCK_MONOTONIC);
  // The time some seconds before now_ns; not before the machine's boot.
  uint64_t ago(double seconds) const {
    const auto ns = static_cast<uint64_t>(seconds * 1e9);
    return now_ns > ns ? now_ns - ns : 1;
  }

  // Process 4242 of this boot and of this user, rank 3 of 8, which began 60 s ago.
  RecordBuilder() {
    namespace r = record;
    header_.magic = r::kMagic;
    header_.version = r::kVersion;
    header_.header_bytes = sizeof(r::Header);
    header_.rails_at = r::kRailsAt;
    header_.rail_bytes = sizeof(r::RailRecord);
    header_.events_at = r::kEventsAt;
    header_.event_bytes = sizeof(r::EventRecord);
    header_.event_places = r::kEvents;
    header_.slots_at = r::kSlotsAt;
    header_.slot_bytes = r::kPageBytes;
    header_.most_slots = 4096;
    header_.pid = 4242;
    header_.process_start = 777;
    header_.started_ns = ago(60);
    header_.started_unix_ns = clockNs(CLOCK_REALTIME) - (now_ns - header_.started_ns);
    header_.rank = 3;
    header_.ranks = 8;
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    setText(header_.boot_id, boot);
    setText(header_.host, "node1");
    setText(header_.program, "all_reduce_perf");
    setText(header_.plugin, "Railwise " RAILWISE_VERSION);
  }

  record::Header& header() { return header_; }

  // Adds a port that is up. The references that these functions return stay valid.
  record::RailRecord& rail(const std::string& device, uint32_t claimed_mbps = 400000, uint8_t port = 1) {
    record::RailRecord& rail = rails_.emplace_back();
    setText(rail.device, device);
    rail.port = port;
    rail.link = 2;
    rail.state = record::RailState::kUp;
    rail.state_since_ns = header_.started_ns;
    rail.rail = static_cast<int32_t>(rails_.size()) - 1;
    rail.plane = -1;
    rail.claimed_mbps = claimed_mbps;
    header_.rails = static_cast<uint32_t>(rails_.size());
    return rail;
  }

  // Adds a connection to "node2:5151" that has transferred nothing: one lane with one queue pair on rail 0.
  record::ConnectionPage& connection(record::Side side,
                                     record::ConnectionState state = record::ConnectionState::kRunning) {
    record::ConnectionPage& page = pages_.emplace_back();
    record::ConnectionRecord& connection = page.connection;
    connection.side = side;
    connection.state = state;
    connection.id = 100 + pages_.size();
    connection.life = 1;
    connection.epoch = 1;
    connection.opened_ns = ago(50);
    connection.state_since_ns = ago(49);
    connection.looked_ns = now_ns;
    connection.numbers = {.next = 1, .posted = 1};
    connection.first_message = 1;
    connection.lanes = 1;
    setText(connection.device, rails_.empty() ? "" : rails_.front().device);
    setText(connection.peer, "node2:5151");
    setText(connection.peer_device, "mlx5_0");
    connection.pair_count = 1;
    connection.pairs[0].rail = 0;
    connection.pairs[0].peer_port = 1;
    setText(connection.pairs[0].peer_device, "mlx5_0");
    std::fill(std::begin(connection.queue_rail), std::end(connection.queue_rail), record::kNoRail);
    connection.queue_rail[0] = 0;
    for (record::FlushCounts& flush : connection.flushes) flush.rail = record::kNoRail;
    queuePair(page, 0);
    header_.slots = static_cast<uint32_t>(pages_.size());
    return page;
  }

  // Adds a queue pair to a connection.
  static record::QueuePairRecord& queuePair(record::ConnectionPage& page, uint16_t rail) {
    const uint8_t place = page.connection.queue_pairs++;
    record::QueuePairRecord& queue_pair = page.queue_pairs[place];
    queue_pair.used = 1;
    queue_pair.rail = rail;
    queue_pair.lane = place;
    queue_pair.number = 0x100U + place;
    queue_pair.peer_number = 0x200U + place;
    return queue_pair;
  }

  // Adds the next event; the ring keeps the last kEvents of them.
  record::EventRecord& event(record::EventKind kind, const std::string& text, double seconds_ago = 0) {
    record::EventRecord& event = events_.emplace_back();
    event.number = ++header_.events;
    event.at_ns = ago(seconds_ago);
    event.kind = kind;
    event.rail = record::kNoRail;
    setText(event.text, text);
    return event;
  }

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> bytes(header_.slots_at + pages_.size() * header_.slot_bytes);
    put(bytes, 0, header_);
    for (std::size_t i = 0; i < rails_.size(); ++i)
      put(bytes, header_.rails_at + i * sizeof rails_[0], rails_[i]);
    for (const record::EventRecord& event : events_)
      put(bytes, header_.events_at + event.number % header_.event_places * sizeof event, event);
    for (std::size_t i = 0; i < pages_.size(); ++i)
      put(bytes, header_.slots_at + (i + 1) * header_.slot_bytes - sizeof pages_[0], pages_[i]);
    return bytes;
  }

  // The name that the writer gives to the file.
  std::string fileName() const {
    return "railwise-" + std::to_string(geteuid()) + "-" + std::to_string(header_.pid) + "-" +
           std::to_string(header_.process_start) + (header_.spy != 0 ? "-spy" : "");
  }

  // Writes the record into `folder` and returns its path. The record's process is gone, as no process holds
  // the file: HeldRecord changes that.
  std::string write(const std::string& folder) const {
    const std::string path = folder + "/" + fileName();
    const std::vector<std::byte> content = bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    chmod(path.c_str(), 0600);
    return path;
  }

  template <std::size_t size>
  static void setText(char (&field)[size], const std::string& text) {
    std::memset(field, 0, size);
    std::memcpy(field, text.data(), std::min(size, text.size()));
  }

 private:
  static uint64_t clockNs(clockid_t clock) {
    timespec now = {};
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  }
  template <typename T>
  static void put(std::vector<std::byte>& bytes, std::size_t at, const T& value) {
    if (at + sizeof value <= bytes.size()) std::memcpy(bytes.data() + at, &value, sizeof value);
  }

  record::Header header_ = {};
  std::deque<record::RailRecord> rails_;
  std::deque<record::EventRecord> events_;
  std::deque<record::ConnectionPage> pages_;
};

}  // namespace railwise::test
