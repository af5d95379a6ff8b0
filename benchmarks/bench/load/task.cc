#include "benchmarks/bench/load/task.h"

#include <cstdlib>

namespace railwise::cli {
namespace {

constexpr std::size_t kWords = 17;

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
          std::to_string(task.set_ups),
          std::to_string(task.device),
          std::to_string(task.rails),
          flag(task.verbose),
          std::to_string(static_cast<int>(task.shape.pattern)),
          std::to_string(task.shape.connections),
          std::to_string(task.shape.steps),
          std::to_string(task.shape.gpu_delay),
          flag(task.shape.optional_completion),
          task.plugin.plugin};
}

std::optional<BenchTask> readTask(Args words) {
  if (words.size() != kWords) return std::nullopt;
  const auto number = [&](std::size_t i) { return std::atoi(words[i]); };
  return BenchTask{.plugin = {words[16], number(0), number(1) != 0},
                   .shape = {.size = std::strtoull(words[2], nullptr, 10),
                             .window = number(3),
                             .grouped = number(4),
                             .pattern = static_cast<BenchPattern>(number(11)),
                             .connections = number(12),
                             .steps = number(13),
                             .gpu_delay = number(14),
                             .optional_completion = number(15) != 0},
                   .ends = static_cast<BenchEnds>(number(5)),
                   .ping_pong = number(6) != 0,
                   .set_ups = number(7),
                   .device = number(8),
                   .rails = number(9),
                   .verbose = number(10) != 0};
}

}  // namespace railwise::cli
