#include "perf/results/comparison.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text/words.h"
#include "cli/options/message.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {
namespace {

using Json = nlohmann::json;

// With fewer iterations, quartiles mean nothing.
constexpr int kFewestSamples = 8;
constexpr double kLeastChange = 0.05;

constexpr Named<Verdict> kVerdicts[] = {{Verdict::kEqual, "equal", "equal"},
                                        {Verdict::kFaster, "faster", "faster"},
                                        {Verdict::kSlower, "slower", "slower"},
                                        {Verdict::kNoise, "no verdict", "no_verdict"},
                                        {Verdict::kTooFew, "too few iterations", "too_few_iterations"}};

Quartiles quartilesOf(const Measurement& measured) {
  const Spread its = spreadOf(measured.samples);
  return {its.samples, its.quarter * 1e6, its.median * 1e6, its.three_quarters * 1e6};
}

// at() throws if the key is missing or has another type; parseSavedRun() catches.
Quartiles quartilesOf(const Json& measurement) {
  if (!measurement.contains("iterations")) return {};
  const Json& its = measurement.at("iterations");
  return {its.at("samples").get<int>(), its.at("p25_us").get<double>(), its.at("median_us").get<double>(),
          its.at("p75_us").get<double>()};
}

std::string setupOf(int channels, bool fused, int warmup, int aggregated, bool software) {
  return textOf("%d channels%s, %d warm-up iterations, %d operations an iteration, %s device", channels,
                fused ? " fused" : "", warmup, aggregated, software ? "software" : "another");
}

SavedRow rowOf(const Json& row) {
  return {row.at("size").get<uint64_t>(),
          row.at("type").get<std::string>(),
          row.at("redop").get<std::string>(),
          row.at("root").get<int>(),
          quartilesOf(row.at("out_of_place")),
          row.contains("in_place") ? quartilesOf(row.at("in_place")) : Quartiles()};
}

SavedRun runOf(const Json& document, const std::string& file) {
  SavedRun run;
  run.file = file;
  run.command = document.at("command").get<std::string>();
  if (document.contains("plugin_name")) run.plugin = document.at("plugin_name").get<std::string>();
  run.ranks = static_cast<int>(document.at("ranks").size());
  const Json& config = document.at("config");
  run.setup = setupOf(config.at("channels").get<int>(), config.at("fused").get<bool>(),
                      config.at("warmup_iters").get<int>(), config.value("aggregated_iterations", 1),
                      document.value("software_device", false));
  Surroundings its{.cores = document.value("cores", 0), .load = document.value("load", 0.0)};
  if (document.contains("others_cpu"))
    its.others = OthersUse{document.at("others_cpu").get<double>(), document.value("hypervisor_cpu", 0.0)};
  run.busy = its.busy();
  for (const Json& row : document.at("results")) run.rows.push_back(rowOf(row));
  return run;
}

// With -N/--run_cycles a size has several rows: the k-th is compared with the k-th.
const SavedRow* findRow(const SavedRun& saved, const Report& report, const Row& row) {
  std::ptrdiff_t cycle = std::count_if(report.rows.data(), &row, [&row](const Row& earlier) {
    return earlier.bytes == row.bytes && earlier.variant.type == row.variant.type &&
           earlier.variant.op == row.variant.op && earlier.variant.root == row.variant.root;
  });
  const std::string redop = opColumn(report.options.collective, row.variant);
  for (const SavedRow& its : saved.rows) {
    if (its.bytes == row.bytes && its.type == dataTypeName(row.variant.type) && its.redop == redop &&
        its.root == row.variant.root && cycle-- == 0)
      return &its;
  }
  return nullptr;
}

double changeOf(const Change& change) {
  return change.before.median > 0 ? 100 * (change.now.median / change.before.median - 1) : 0;
}

std::string changeText(const Change& change) {
  return textOf("#  %12llu  %-12s %10.2f us %10.2f us  %+6.1f %%  %s\n",
                static_cast<unsigned long long>(change.row->bytes),
                change.in_place ? "in-place" : "out-of-place", change.before.median, change.now.median,
                changeOf(change), rowOf(kVerdicts, change.verdict).words);
}

}  // namespace

Outcome<SavedRun> readSavedRun(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) return Error{file + " is a folder"};
  std::ifstream stream(file);
  if (!stream) return Error{"cannot read " + file};
  return parseSavedRun(std::string(std::istreambuf_iterator<char>(stream), {}), file);
}

Outcome<SavedRun> parseSavedRun(const std::string& text, const std::string& file) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return Error{file + " is no JSON document"};
  try {
    return runOf(document, file);
  } catch (const Json::exception&) {
    return Error{file + " is no result of railwise perf --json=FILE"};
  }
}

std::string notComparable(const SavedRun& saved, const PerfOptions& options, int ranks) {
  const std::string command = std::string("perf ") + collectiveName(options.collective);
  if (saved.command != command) return saved.file + " is a run of " + saved.command + ", this is " + command;
  if (saved.ranks != ranks)
    return textOf("%s is a run of %d ranks, this has %d", saved.file.c_str(), saved.ranks, ranks);
  return "";
}

std::string setupText(const Report& report) {
  const PerfOptions& options = report.options;
  return setupOf(options.channels, options.fuse, options.warmup_iters, options.aggregated,
                 report.software_device);
}

Verdict compareQuartiles(const Quartiles& before, const Quartiles& now) {
  if (std::min(before.samples, now.samples) < kFewestSamples || before.median <= 0) return Verdict::kTooFew;
  if (std::abs(now.median / before.median - 1) < kLeastChange) return Verdict::kEqual;
  if (now.low > before.high) return Verdict::kSlower;
  if (now.high < before.low) return Verdict::kFaster;
  return Verdict::kNoise;
}

int Comparison::count(Verdict verdict) const {
  return static_cast<int>(std::count_if(changes.begin(), changes.end(),
                                        [&](const Change& change) { return change.verdict == verdict; }));
}

Comparison compareRuns(const SavedRun& saved, const Report& report) {
  Comparison comparison;
  comparison.file = saved.file;
  comparison.plugin = saved.plugin;
  const std::string setup = setupText(report);
  if (setup != saved.setup) {
    std::vector<std::string> had = splitAt(saved.setup, ','), has = splitAt(setup, ',');
    const auto in = [](const std::vector<std::string>& all) {
      return [&all](const std::string& part) { return std::ranges::count(all, part) > 0; };
    };
    const std::vector<std::string> before = had;
    std::erase_if(had, in(has));
    std::erase_if(has, in(before));
    comparison.differs = "it had" + joined(had, ",") + "; this run has" + joined(has, ",");
  }
  const bool busy = report.surroundings && report.surroundings->busy();
  if (busy || saved.busy) comparison.busy = !saved.busy ? "this run" : busy ? "both runs" : "the saved run";
  for (const Row& row : report.rows) {
    const SavedRow* const before = findRow(saved, report, row);
    const std::span<const bool> places = placesOf(report.options.collective);
    if (before == nullptr) {
      comparison.only_now += static_cast<int>(places.size());
      continue;
    }
    for (const bool in_place : places) {
      Change change{.row = &row,
                    .in_place = in_place,
                    .before = in_place ? before->in_place : before->out_of_place,
                    .now = quartilesOf(row.at(in_place))};
      change.verdict = compareQuartiles(change.before, change.now);
      const bool differs = change.verdict == Verdict::kSlower || change.verdict == Verdict::kFaster;
      if (differs && !comparison.busy.empty()) change.verdict = Verdict::kNoise;
      comparison.changes.push_back(change);
    }
  }
  return comparison;
}

std::string comparisonText(const Comparison& comparison) {
  std::string text = "# against " + comparison.file;
  if (!comparison.plugin.empty()) text += " (plugin " + comparison.plugin + ")";
  text += ": medians of the iterations, before and now\n";
  if (!comparison.differs.empty()) text += "#  not a fair comparison: " + comparison.differs + "\n";
  if (!comparison.busy.empty())
    text += "#  the machine was busy in " + comparison.busy + ": nothing is called slower or faster\n";
  for (const Change& change : comparison.changes) text += changeText(change);
  text += textOf("#  %d slower, %d faster, %d equal, %d without a verdict\n",
                 comparison.count(Verdict::kSlower), comparison.count(Verdict::kFaster),
                 comparison.count(Verdict::kEqual), comparison.count(Verdict::kNoise));
  if (const int few = comparison.count(Verdict::kTooFew); few > 0)
    text += textOf("#  %d with fewer than %d iterations on one side: -n N makes more\n", few, kFewestSamples);
  if (comparison.only_now > 0) text += textOf("#  %d are not in the saved run\n", comparison.only_now);
  return text;
}

void addComparison(JsonWriter& json, const Comparison& comparison) {
  json.key("against").beginObject();
  json.key("file").value(comparison.file);
  json.key("plugin_name").value(comparison.plugin);
  if (!comparison.differs.empty()) json.key("differs").value(comparison.differs);
  if (!comparison.busy.empty()) json.key("busy").value(comparison.busy);
  for (const Named<Verdict>& its : kVerdicts) json.key(its.key).value(comparison.count(its.value));
  json.key("changes").inlineObjects(comparison.changes, [&](const Change& change) {
    json.key("size").value(change.row->bytes);
    json.key("in_place").value(change.in_place);
    json.key("before_us").value(change.before.median);
    json.key("now_us").value(change.now.median);
    json.key("percent").value(changeOf(change));
    json.key("verdict").value(rowOf(kVerdicts, change.verdict).words);
  });
  json.endObject();
}

}  // namespace railwise::cli
