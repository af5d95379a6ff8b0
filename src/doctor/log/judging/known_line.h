// The tables of explain.cc: a warning that holds the words of a row, and is of its file, means what the row
// says. The first row that fits counts, so the narrower stand first. {interface}, {nic} and the like are
// names that evidence.h finds in the logs.
#pragma once

#include <span>
#include <string_view>

#include "doctor/log/job.h"

namespace railwise::doctor {

using enum EventKind;

// The fix of what other errors cause.
inline constexpr char kLookAtFirst[] = "look at the first error of the job";

struct KnownLine {
  std::string_view words;  // "A|B&C": the line has A, or both B and C
  const char* check;
  EventKind kind;
  const char* what;
  const char* why;
  const char* fix = "";
  // Parts of the source file's path, one of which the line must have: "nvls|mnnvl". "": any file.
  const char* files = "";
  // Where NCCL's own sentence says what to do, may that be shown as the fix? Some of its remedies hide a
  // fault or make a hang of an error.
  bool own_remedy = true;
  // The check of the watch (watch/) for the line, which drains the node. "": the watch is silent.
  const char* watch = "";
};

std::span<const KnownLine> knownNcclWarnings();
// Of the plugin: without "NET/Railwise : ". Their fix is in the line itself.
std::span<const KnownLine> knownRailwiseWarnings();
std::span<const KnownLine> knownOtherLines();

// An error status of a completion, as verbs number them.
struct KnownStatus {
  int status;
  EventKind kind;
  const char* name;  // "transport retry counter exceeded"
  const char* why;
  const char* fix;
};
const KnownStatus* knownStatus(int status);

}  // namespace railwise::doctor
