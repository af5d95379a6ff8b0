#include "cli/options/command_line.h"

#include <cstdio>

#include "cli/options/message.h"

namespace railwise::cli {

std::optional<Arguments> parseOrLeave(const char* command, const std::vector<Option>& table, Args args,
                                      const std::string& help, std::size_t max_positional, int* status,
                                      const std::string& after_options) {
  auto arguments = parseArguments(table, args);
  if (arguments.ok() && !arguments->help && arguments->positional.size() > max_positional)
    arguments = Error{"unexpected argument '" + arguments->positional[max_positional] + "'"};
  if (!arguments.ok()) {
    say("%s: %s (railwise %s --help lists what there is)", command, arguments.error().c_str(), command);
    *status = kExitUsage;
    return std::nullopt;
  }
  if (arguments->help) {
    std::fputs((help + optionHelp(table) + after_options).c_str(), stdout);
    *status = kExitOk;
    return std::nullopt;
  }
  return std::move(*arguments);
}

int writeOutput(const char* command, const std::string& path, const std::string& text) {
  FILE* out = path.empty() ? stdout : std::fopen(path.c_str(), "wb");
  if (out == nullptr) {
    say("%s: cannot write %s: %m", command, path.c_str());
    return kExitFailed;
  }
  bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  written = (path.empty() ? std::fflush(out) : std::fclose(out)) == 0 && written;
  if (!written) say("%s: cannot write %s: %m", command, path.empty() ? "to stdout" : path.c_str());
  return written ? kExitOk : kExitFailed;
}

void sayNotes(const char* command, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say("%s: note: %s", command, note.c_str());
}

}  // namespace railwise::cli
