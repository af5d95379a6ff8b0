// The tables that nccl-tests prints, read from the output of a job in which other lines may be mixed: which
// collective, which ranks on which hosts, and the bus bandwidth of each size. A row counts only if its size,
// its time and its bandwidth agree. Plain values; one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace railwise::doctor {

struct ResultRow {
  uint64_t bytes = 0;        // as nccl-tests counts: the larger one of both buffers of a rank
  double out_of_place = 0;   // GB/s of the bus
  double in_place = 0;       // GB/s of the bus
  uint64_t wrong = 0;        // elements, in both
  uint64_t line = 0;         // of the file
  double ratio = 0;          // bus bandwidth to algorithm bandwidth; 0: too small to tell
  bool whole_count = false;  // the count is that of the whole buffer, and not of one rank's block
  bool reduces = false;      // the row names an operation
  int root = -1;

  double best() const { return out_of_place > in_place ? out_of_place : in_place; }
};

// One run of one program of nccl-tests.
struct TestRun {
  std::string file;
  std::string collective;  // "all_reduce"; "": the output does not say
  std::map<std::string, int> ranks_on_host;
  int ranks = 0;     // 0: the output does not say
  std::string gpu;   // "NVIDIA H100 80GB HBM3"
  std::string nccl;  // "2.28.9"; "": the output does not say
  std::vector<ResultRow> rows;
  uint64_t out_of_bounds = 0;  // "Out of bounds values : N FAILED" below the rows

  // Elements that are wrong.
  uint64_t wrong() const;
  // The row with the highest bus bandwidth; null: there is no row.
  const ResultRow* best() const;
};

class NcclTestsReader {
 public:
  // Lines that follow are those of this file.
  void beginFile(std::string name);
  void line(std::string_view text);
  // Ends the reading: all runs that have rows.
  std::vector<TestRun> take();

 private:
  using Words = std::vector<std::string_view>;
  void beginRun();
  bool readHeader(const Words& words);
  bool readRank(const Words& words);
  bool readVerdict(const Words& words);
  void readRow(const Words& words);

  std::vector<TestRun> runs_;
  std::string file_;
  uint64_t line_ = 0;
  std::string named_;     // the collective that the output has named last, for the next run
  std::string nccl_;      // likewise the release
  bool open_ = false;     // the last run takes rows
  bool foreign_ = false;  // the rows are those of `railwise perf`, which moves the memory of the host
  std::string buffer_;
};

}  // namespace railwise::doctor
