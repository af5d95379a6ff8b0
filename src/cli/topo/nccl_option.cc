#include "cli/topo/nccl_option.h"

#include <cstdlib>
#include <utility>

#include "doctor/facts/libraries.h"
#include "doctor/facts/system.h"
#include "doctor/facts/trees.h"

namespace railwise::cli {
namespace {

// The library that a program would load here. Nothing is loaded or run.
std::optional<doctor::NcclLibrary> libraryHere() {
  std::string environment;
  for (const char* name : {"LD_PRELOAD", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* value = std::getenv(name)) environment += std::string(name) + "=" + value + "\n";
  sysfs::MemoryTree facts("this process");
  facts.file(doctor::kEnvironmentFile, environment);
  const auto files = sysfs::makeLiveTree();
  const doctor::OverlayTree tree(*files, facts);
  auto library = doctor::ncclOfPrograms(doctor::System(tree));
  if (library && library->version.empty()) library->version = doctor::ncclVersionInside(library->path);
  return library;
}

RulesInUse newest(const std::string& why) {
  const topo::NcclVersion release = topo::NcclVersion::kNewest;
  return {release, "the rules of NCCL " + ncclVersionName(release) + ", the newest that are known" + why, "",
          false};
}

}  // namespace

Option ncclOption(std::string name, std::optional<topo::NcclChoice>* field, std::string text) {
  return {.long_name = std::move(name),
          .value = Option::kRequired,
          .value_name = "RELEASE",
          .text = std::move(text),
          .accepted = "a release of NCCL from 2.13 to 2.32, such as 2.30 or 2.30.7",
          .accept = [field](std::string_view value) {
            const auto choice = topo::rulesFor(value);
            if (choice) *field = choice;
            return choice.has_value();
          }};
}

RulesInUse rulesInUse(const std::optional<topo::NcclChoice>& asked, bool live) {
  const auto chosen = [](const topo::NcclChoice& choice, const std::string& where, bool named) {
    const std::string note = "the rules of NCCL " + ncclVersionName(choice.rules) + where;
    if (choice.newer) return RulesInUse{choice.rules, note, choice.doubt, named};
    return RulesInUse{choice.rules, note + (choice.doubt.empty() ? "" : ": " + choice.doubt), "", named};
  };
  if (asked) return chosen(*asked, "", true);
  if (!live) return newest(" (--nccl=2.30 takes those of another release)");
  const auto library = libraryHere();
  if (!library) return newest(": no libnccl.so.2 is found here (--nccl names a release)");
  const auto release = topo::parseNcclVersion(library->version);
  if (!release) return newest(": " + library->path + " does not tell its release (--nccl names one)");
  return chosen(topo::rulesFor(*release), ", for " + library->path, false);
}

}  // namespace railwise::cli
