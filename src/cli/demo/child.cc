#include "cli/demo/child.h"

#include <unistd.h>

#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

Outcome<Process> startSelf(const std::vector<std::string>& words, const DemoChild::Variables& variables,
                           std::FILE* kept) {
  ProcessPlan plan;
  plan.words = {executablePath()};
  plan.words.insert(plan.words.end(), words.begin(), words.end());
  plan.variables = variables;
  if (kept != nullptr) plan.output = plan.error = fileno(kept);
  std::fflush(stdout);
  return Process::start(plan);
}

}  // namespace

DemoChild::DemoChild(const std::vector<std::string>& words, const Variables& variables, Output output)
    : kept_(output == Output::kKept ? std::tmpfile() : nullptr),
      process_(startSelf(words, variables, kept_.get())) {}

void DemoChild::end() {
  if (process_.ok()) process_->end(kPatience);
}

std::string DemoChild::output() const {
  if (kept_ == nullptr) return "";
  std::string text;
  char buffer[4096];
  off_t at = 0;
  for (ssize_t length = 0; (length = pread(fileno(kept_.get()), buffer, sizeof buffer, at)) > 0; at += length)
    text.append(buffer, static_cast<std::size_t>(length));
  return text;
}

}  // namespace railwise::cli
