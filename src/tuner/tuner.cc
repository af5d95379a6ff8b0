#include "tuner/tuner.h"

#include <cstdio>
#include <string>

#include "base/log.h"

namespace railwise::tuner {
namespace {

constexpr unsigned long kSubsystems = log::kInit | log::kTuning;

bool fits(int wanted, std::size_t value) {
  return wanted == kAny || static_cast<std::size_t>(wanted) == value;
}

bool fits(const Override& its, const Question& question) {
  const bool registered =
      its.registered == kAny || (question.registered && *question.registered == (its.registered == 1));
  return its.collective == question.collective && question.bytes >= its.min_bytes &&
         question.bytes <= its.max_bytes && (its.pipe_ops == kAny || its.pipe_ops == question.pipe_ops) &&
         registered;
}

}  // namespace

Tuner::Tuner(const OverrideFile& file, std::size_t ranks, std::size_t nodes) : file_(file), nodes_(nodes) {
  std::string lines;
  for (const Override& row : file.overrides) {
    // A communicator of one rank has no algorithm.
    if (ranks < 2 || !fits(row.nodes, nodes) || !fits(row.ranks, ranks)) continue;
    rows_.push_back({&row});
    constexpr std::size_t kMostText = 200;
    if (lines.size() < kMostText) lines += (lines.empty() ? "line " : ", ") + std::to_string(row.line);
    else if (!lines.ends_with("...")) lines += ", ...";
  }
  RAILWISE_INFO(kSubsystems,
                "tuner: %zu of the %zu overrides in %s fit this communicator (%zu ranks, %zu nodes)%s%s",
                rows_.size(), file.overrides.size(), file.path.c_str(), ranks, nodes,
                lines.empty() ? "" : ": ", lines.c_str());
}

const Override* Tuner::choose(const Question& question, const Offers& offers) {
  for (Row& row : rows_) {
    if (!fits(*row.override, question)) continue;
    if (offers.has(row.override->algorithm, row.override->protocol)) {
      if (!row.said_applied) sayApplied(row, question, offers);
      return row.override;
    }
    if (!row.said_missing) sayMissing(row, question);
  }
  return nullptr;
}

void Tuner::sayApplied(Row& row, const Question& question, const Offers& offers) const {
  row.said_applied = true;
  const Override& its = *row.override;
  char channels[40] = "";
  if (its.channels != kAny)
    std::snprintf(channels, sizeof channels, " on %d channel%s", its.channels, its.channels == 1 ? "" : "s");
  char instead[120] = "";
  if (const auto own = offers.own())
    std::snprintf(instead, sizeof instead, "; NCCL would take %s/%s, %.1f us by its estimate",
                  nameOf(own->algorithm), nameOf(own->protocol), static_cast<double>(own->time_us));
  RAILWISE_INFO(kSubsystems, "tuner: %s of %zu bytes takes %s/%s%s (%s:%d)%s", nameOf(question.collective),
                question.bytes, nameOf(its.algorithm), nameOf(its.protocol), channels, file_.path.c_str(),
                its.line, instead);
}

void Tuner::sayMissing(Row& row, const Question& question) const {
  row.said_missing = true;
  const Override& its = *row.override;
  RAILWISE_INFO(
      kSubsystems, "tuner: %s:%d does not apply to %s of %zu bytes: NCCL %s %s/%s %s", file_.path.c_str(),
      its.line, nameOf(question.collective), question.bytes,
      ncclHas(its.collective, its.algorithm, its.protocol) ? "does not offer" : "has no",
      nameOf(its.algorithm), nameOf(its.protocol),
      ncclHas(its.collective, its.algorithm, its.protocol) ? "on this machine" : "for this collective");
}

}  // namespace railwise::tuner
