// Writes the outcome of a run with faults as JSON and as a line of text (tests/campaign/outcome.h).
#include "base/text/json.h"
#include "cli/options/message.h"
#include "tests/campaign/outcome.h"

namespace railwise::cli {
namespace {

void addEnds(JsonWriter& json, const RunEnd& end) {
  json.key("rank_ends").beginArray();
  for (std::size_t rank = 0; rank < end.ranks.size(); ++rank) {
    const RankEnd& its = end.ranks[rank];
    json.beginObject();
    json.key("rank").value(static_cast<int>(rank));
    json.key("ended").value(endingName(its));
    json.key("exit_status").value(its.exit_status);
    if (!its.text.empty()) json.key("error").value(its.text);
    json.endObject();
  }
  json.endArray();
}

void addCounted(JsonWriter& json, const char* name, const Counted& counted) {
  json.key(name).beginInlineObject();
  json.key("bytes").value(counted.bytes);
  json.key("work_requests").value(counted.work_requests);
  json.key("completions").value(counted.completions);
  json.endInlineObject();
}

void addRecordReport(JsonWriter& json, const RecordReport& report) {
  if (report.comparisons > 0) json.key("record_agrees").value(report.disagreements.empty());
  json.key("records_compared").value(report.ranks);
  if (!report.problem.empty()) json.key("record_not_compared").value(report.problem);
  if (report.disagreements.empty()) return;
  json.key("record_disagreements").objects(report.disagreements, [&](const RecordDisagreement& each) {
    json.key("rank").value(each.rank);
    json.key("time").value(each.time);
    json.key("devices").objects(each.devices, [&](const CountsDiffer& its) {
      json.key("device").value(its.device);
      addCounted(json, "record_counts", its.record);
      addCounted(json, "device_counts", its.device_says);
    });
  });
}

void addTexts(JsonWriter& json, const char* name, const std::vector<std::string>& texts) {
  json.key(name).beginRow();
  for (const std::string& text : texts) json.value(text);
  json.endRow();
}

void addStalls(JsonWriter& json, const std::vector<Stall>& stalls) {
  json.key("stalls").objects(stalls, [&](const Stall& stall) {
    json.key("at_ms").value(stall.at_ms);
    json.key("lasted_ms").value(stall.lasted_ms);
    json.key("verdict").value(stall.verdict);
    addTexts(json, "named", stall.named);
    addTexts(json, "broken", stall.broken);
    json.key("right").value(stall.right);
  });
}

}  // namespace

void addFaultFigures(JsonWriter& json, const FaultsReport& faults) {
  json.key("faults_fired").value(faults.fired);
  json.key("steps").value(faults.steps);
  json.key("steps_done").value(faults.steps_done);
  json.key("pairs_left").value(faults.end.pairs.last);
  json.key("pairs_left_min").value(faults.end.pairs.least);
  json.key("ms_since_nothing_left");
  if (faults.end.pairs.zero_age_ms) {
    json.value(*faults.end.pairs.zero_age_ms);
  } else {
    json.null();
  }
}

void addFaults(JsonWriter& json, const FaultsReport& faults) {
  json.key("outcome").value(outcomeName(faults.outcome));
  json.key("seed").value(faults.seed);
  addFaultFigures(json, faults);
  json.key("wrong").value(faults.end.wrong);
  json.key("left_behind").value(faults.end.left_behind);
  addRecordReport(json, faults.records);
  addStalls(json, faults.stalls);
  addEnds(json, faults.end);
  json.key("schedule").beginArray();
  for (const std::string& sentence : faults.schedule) json.value(sentence);
  json.endArray();
}

std::string faultsFooter(const FaultsReport& faults) {
  std::string text;
  for (const std::string& sentence : faults.schedule) text += "# " + sentence + "\n";
  return text + textOf("# outcome %s: %llu faults fired, pairs of devices left %d (least %d)\n",
                       outcomeName(faults.outcome), static_cast<unsigned long long>(faults.fired),
                       faults.end.pairs.last, faults.end.pairs.least);
}

}  // namespace railwise::cli
