#include "tools/bench_task.h"

#include <cstdlib>

namespace railwise::tools {
namespace {

constexpr std::size_t kWords = 12;

std::string flag(bool value) { return value ? "1" : "0"; }

}  // namespace

std::vector<std::string> wordsOf(const BenchTask& task) {
  return {std::to_string(task.plugin.api),
          flag(task.plugin.raw),
          std::to_string(task.shape.size),
          std::to_string(task.shape.window),
          std::to_string(task.shape.grouped),
          std::to_string(static_cast<int>(task.ends)),
          flag(task.ping_pong),
          std::to_string(task.connections),
          std::to_string(task.device),
          std::to_string(task.rails),
          flag(task.verbose),
          task.plugin.plugin};
}

std::optional<BenchTask> readTask(Args words) {
  if (words.size() != kWords) return std::nullopt;
  const auto number = [&](std::size_t i) { return std::atoi(words[i]); };
  return BenchTask{.plugin = {words[11], number(0), number(1) != 0},
                   .shape = {std::strtoull(words[2], nullptr, 10), number(3), number(4)},
                   .ends = static_cast<BenchEnds>(number(5)),
                   .ping_pong = number(6) != 0,
                   .connections = number(7),
                   .device = number(8),
                   .rails = number(9),
                   .verbose = number(10) != 0};
}

}  // namespace railwise::tools
