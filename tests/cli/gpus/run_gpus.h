// Runs `railwise gpus`, and reads what it says.
#pragma once

#include <algorithm>
#include <sstream>

#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::cli {

using Args = std::vector<std::string>;

inline ProcessResult gpus(Args args) {
  args.insert(args.begin(), "gpus");
  return runProcess(RAILWISE_CLI, args);
}

// Whether `text` has `part`, where a line of the text may have been broken at a blank.
inline bool hasWords(const std::string& text, const std::string& part) {
  std::string line;
  for (const char c : text)
    if (!(c == ' ' || c == '\n') || line.empty() || line.back() != ' ') line += c == '\n' ? ' ' : c;
  return line.find(part) != std::string::npos;
}

// The characters of the longest line.
inline std::size_t widestLine(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

// What Python prints of `expression`, in which `a` is the JSON that the command printed.
inline std::string ofJson(const Args& args, const std::string& expression) {
  const auto result = succeeded(gpus(args));
  const test::ScratchFile json("gpus.json", result.out);
  const auto python = runProcess(
      RAILWISE_PYTHON,
      {"-I", "-S", "-c", "import json, sys\na = json.load(open(sys.argv[1]))\nprint(" + expression + ")",
       json.path()});
  EXPECT_EQ(python.status, 0) << python.err << result.out;
  return python.out.substr(0, python.out.find('\n'));
}

}  // namespace railwise::cli
