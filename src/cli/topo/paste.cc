// A FILE that is no topology file: the output of nvidia-smi topo -m, ibstat and others.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "doctor/log/pastes/pastes.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kMostBytes = 4UL << 20;

// The beginning of the file, as much as a paste can be. "": it cannot be read, or is standard input.
std::string beginOf(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return "";  // what a pipe gives is not there twice
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return "";
  std::string text(kMostBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

}  // namespace

std::optional<int> reportPaste(const char* command, const std::string& file) {
  const std::string text = beginOf(file);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] == '<') return std::nullopt;  // XML
  if (text.find(" NCCL INFO ") != std::string::npos || text.find(" NCCL WARN ") != std::string::npos)
    return say("%s: %s is a log of NCCL: railwise doctor --log %s", command, file.c_str(), file.c_str()),
           kExitUsage;
  const doctor::Pastes pastes = doctor::readPastes(file, text);
  if (pastes.empty()) return std::nullopt;
  doctor::Findings findings;
  for (const doctor::Finding& finding : pastes.findings) findings.add(finding);
  const doctor::ReportStyle style = {.subject = joined(pastes.kinds, "; "),
                                     .page = "doctor-log.md",
                                     .unjudged = "speed not judged",
                                     .looked = pastes.looked,
                                     .hidden = pastes.hidden};
  return writeOutput(command, "", reportText(findings, style));
}

}  // namespace railwise::cli
