// A job read from text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/judging/judge.h"
#include "doctor/log/reading/reader.h"
#include "tests/doctor/found.h"

namespace railwise::doctor {

inline Job readJob(std::string_view text) {
  JobReader reader;
  reader.beginFile("log");
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.line(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return reader.take();
}

inline Findings judged(const Job& job, int expected = 0) { return judgeJob(job, Ranks(job, expected)); }
inline Findings judged(std::string_view text, int expected = 0) { return judged(readJob(text), expected); }

// The finding of this check in what a log says.
inline Finding found(std::string_view check, std::string_view text, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  return found(judged(text), check, file, line);
}

// Lines of a rank that is alone in its process on a host: "node0:100:100 [0] NCCL INFO ...".
inline std::string saidBy(int rank, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += "node" + std::to_string(rank) + ":100:100 [0] NCCL INFO " + line + "\n";
  return text;
}

inline std::string warnedBy(int rank, const std::string& warning, const std::string& time = "") {
  return (time.empty() ? "" : "[2026-01-02 " + time + "] ") + "node" + std::to_string(rank) +
         ":100:100 [0] x.cc:1 NCCL WARN " + warning + "\n";
}

inline std::string initLine(int rank, int ranks, const char* state) {
  return "ncclCommInitRank comm 0x7" + std::to_string(rank) + " rank " + std::to_string(rank) + " nranks " +
         std::to_string(ranks) + " cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init " + state;
}

}  // namespace railwise::doctor
