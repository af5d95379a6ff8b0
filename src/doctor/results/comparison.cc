#include "doctor/results/comparison.h"

#include <algorithm>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "doctor/finding.h"
#include "topo/machine/known_machines.h"
#include "topo/tuning/expect.h"

namespace railwise::doctor {
namespace {

constexpr double kGoodShare = 0.8;  // of the model's bandwidth, which good hosts reach

std::string shareText(const Comparison& its) {
  return formatText("%.1f of %.1f GB/s (%.0f %%%s)", its.measured(), its.expected[*its.judged],
                    100 * its.share(), its.share() >= kGoodShare ? ", good" : "");
}

std::string collectiveText(const Comparison& its) {
  return its.run.collective.empty() ? "nccl-tests" : its.run.collective;
}

namespace tuning = topo::tuning;

// A size tells a bandwidth if the model's own figure for it is above this share of the peak: below, latency
// decides, of which NCCL's constants know little.
constexpr double kLargeEnough = 0.8;

// PCIe and the host's memory carry less than this share of what NVLink does.
constexpr double kWithoutNvlink = 0.25;

constexpr std::string_view kAllToAll = "alltoall";

// Nothing: the model does not have the collective.
std::optional<tuning::Question> questionOf(const std::string& collective) {
  tuning::Question question;
  question.collective.reset();
  if (collective == kAllToAll) return question;
  for (std::size_t i = 0; i < tuning::kCollectives; ++i) {
    question.collective = static_cast<tuning::Collective>(i);
    if (collective == tuning::nameOf(*question.collective)) return question;
  }
  return std::nullopt;
}

// "": the ranks are equally many on each host, and their number is known.
std::string countRanks(Comparison& its, const ModelMachine& model) {
  its.ranks = its.run.ranks > 0 ? its.run.ranks : model.ranks;
  its.hosts = its.run.ranks > 0 ? static_cast<int>(its.run.ranks_on_host.size()) : model.hosts;
  if (its.ranks <= 0 || its.hosts <= 0) return "the output does not name the ranks and their hosts";
  if (its.ranks == 1) return "one rank alone moves no data; nccl-tests knows other hosts if built with MPI=1";
  const bool equal = std::ranges::all_of(
      its.run.ranks_on_host, [&](const auto& host) { return host.second * its.hosts == its.ranks; });
  return equal && its.ranks % its.hosts == 0 ? "" : "the hosts have different numbers of ranks";
}

// The machine that Railwise brings with such GPUs: "; hosts like an HGX H100: -m dgx"; "": none.
std::string alikeText(const Comparison& its) {
  constexpr int kGpus = 8;
  const bool alike = its.run.gpu.find("H100") != std::string::npos && its.ranks == kGpus * its.hosts;
  return alike ? "; hosts like an HGX H100: -m dgx" : "";
}

// Does the model see the limit of this job in NVLink?
bool overNvlink(const Comparison& its) {
  return its.hosts == 1 && its.limit.starts_with("The limit is NVLink");
}

// What to type before `railwise doctor`, which looks at PCIe.
std::string firstFix(const Comparison& its, bool without_nvlink) {
  if (its.hosts > 1) return "railwise doctor --pair HOST  # measures each NIC beside what it should carry\n";
  if (!overNvlink(its)) return "";
  if (without_nvlink)
    return "nvidia-smi topo -m  # NV and a number between all GPUs? PIX, NODE or SYS: NVLink is down or "
           "hidden\n"
           "env | grep NCCL_P2P  # NCCL_P2P_DISABLE=1 or a low NCCL_P2P_LEVEL: no NVLink\n";
  return "nvidia-smi nvlink --status  # a link that is down\n";
}

// "": the model of the machine answers for this job.
std::string unfit(const Comparison& its, const topo::Machine& machine) {
  if (machine.graph->rccl()) return machine.name + " has AMD GPUs, and RCCL's model is not known";
  if (machine.domains.size() != 1)
    return machine.name + ": NCCL keeps the GPUs in several groups, and its model answers for each alone: " +
           "railwise topo expect";
  const int sm = topo::computeCapabilityOf(its.run.gpu);
  if (const int other = machine.graph->of(topo::NodeType::kGpu, 0).sm; sm != 0 && other > 0 && sm != other)
    return "the output names " + its.run.gpu + ", and " + machine.name + " has GPUs of compute capability " +
           formatText("%d.%d", other / 10, other % 10);
  const int gpus = static_cast<int>(machine.domains.front().ranks.size());
  const int each = its.ranks / its.hosts;
  return gpus == each ? ""
                      : machine.name + " has " + counted(gpus, "GPU") + ", and the job has " +
                            counted(each, "rank") + " on each host";
}

void judgeRows(Comparison& its, double peak) {
  for (std::size_t i = 0; i < its.expected.size(); ++i) {
    if (its.expected[i] < kLargeEnough * peak || its.run.rows[i].best() <= 0) continue;
    if (!its.judged || its.run.rows[i].best() >= its.measured()) its.judged = i;
  }
}

std::string doubtOf(std::span<const std::string> unread) {
  return unread.empty() ? "" : "The job sets " + joined(unread) + ", which the model does not read.";
}

Seen seenAt(const Comparison& its, const ResultRow& row, std::string value) {
  return {.device = jobText(its),
          .where = its.run.file + ":" + std::to_string(row.line),
          .value = std::move(value)};
}

}  // namespace

Comparison compare(const TestRun& run, const ModelMachine& model) {
  Comparison its;
  its.run = run;
  its.obstacle = countRanks(its, model);
  if (!its.obstacle.empty()) return its;
  if (run.collective.empty()) {
    its.obstacle =
        "the output does not name its program: put the command, such as all_reduce_perf, above the table";
    return its;
  }
  std::optional<tuning::Question> question = questionOf(run.collective);
  if (!question) its.obstacle = "NCCL's model does not have " + run.collective;
  else if (model.machine == nullptr) its.obstacle = model.why_none + (its.alike = alikeText(its));
  else its.obstacle = unfit(its, *model.machine);
  if (!its.obstacle.empty()) return its;
  question->nodes = its.hosts;
  question->nvls = model.nvls;
  std::vector<std::size_t> sizes;
  for (const ResultRow& row : run.rows) sizes.push_back(row.bytes);
  const auto answers = tuning::expectOn(*model.machine, *question, sizes);
  if (!answers.ok() || answers->front().sizes.size() != sizes.size()) {
    its.obstacle = answers.ok() ? "the model has no answer" : answers.error();
    return its;
  }
  const tuning::Expectation& answer = answers->front();
  its.model = (answer.collective ? "NCCL's model (" + ncclVersionName(model.machine->settings->nccl) + ")"
                                 : std::string("An estimate of Railwise (NCCL has no model of alltoall)")) +
              " of " + model.machine->name;
  its.estimated = !answer.collective;
  its.limit = answer.limit;
  its.doubt = doubtOf(model.unread);
  for (const tuning::ExpectedSize& size : answer.sizes) its.expected.push_back(size.bus_bandwidth);
  judgeRows(its, answer.peak);
  return its;
}

void judgeResults(std::span<const Comparison> comparisons, Findings& findings) {
  for (const Comparison& its : comparisons) {
    const auto& rows = its.run.rows;
    const auto first = std::ranges::find_if(rows, [](const ResultRow& row) { return row.wrong > 0; });
    if (its.run.wrong() > 0) {
      const ResultRow& row = first == rows.end() ? rows.back() : *first;
      findings.add("wrong-results", Severity::kError, "nccl-tests found wrong data",
                   {seenAt(its, row,
                           std::to_string(its.run.wrong()) + " wrong elements" +
                               (first == rows.end() ? "" : ", first at " + sizeText(row.bytes)))},
                   "The result of the collective is not what it should be: a training would go wrong "
                   "silently.",
                   "railwise doctor --pair HOST  # compares what arrives with what was sent\n"
                   "dmesg | grep -i -e xid -e mlx5 -e AER  # GPU, NIC and PCIe errors");
    }
    if (!its.judged || !its.doubt.empty()) continue;
    for (std::size_t i = *its.judged + 1; i < rows.size() && its.share() >= kFarBelowModel; ++i) {
      if (rows[i].best() <= 0 || rows[i].best() >= kFarBelowModel * its.expected[i]) continue;
      findings.add(
          "below-model", Severity::kWarning, "a larger size is far slower than the best one",
          {seenAt(its, rows[i],
                  formatText("%.1f of %.1f GB/s at ", rows[i].best(), its.expected[i]) +
                      sizeText(rows[i].bytes))},
          "The best size is " + youGetText(its) + ". Bandwidth does not fall with size by itself.",
          "run this size alone and for longer (-b SIZE -e SIZE -n 100): is it so each time?\n"
          "dmesg -T | tail  # on each host; nvidia-smi -q -d PERFORMANCE: a clock that was throttled");
    }
    if (its.share() >= kFarBelowModel) continue;
    // One host: a small part of what NVLink carries comes by another way.
    const bool without_nvlink = overNvlink(its) && its.share() < kWithoutNvlink;
    findings.add(
        "below-model", Severity::kWarning,
        its.estimated ? "the bus bandwidth is far below what Railwise estimates for these hosts"
                      : "the bus bandwidth is far below what NCCL's model expects of these hosts",
        {seenAt(its, its.run.rows[*its.judged], youGetText(its))},
        its.model + ". " + its.limit +
            (without_nvlink ? " So little comes without NVLink." : " Good hosts reach 80 % and more."),
        firstFix(its, without_nvlink) +
            "railwise doctor  # on each host\n"
            "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING  # and --log again: "
            "network, GPUDirect, settings");
  }
}

std::string ranksText(const Comparison& its) {
  return its.ranks <= 0 ? "" : counted(its.ranks, "rank") + " on " + counted(its.hosts, "host");
}

std::string jobText(const Comparison& its) {
  return collectiveText(its) + (its.ranks > 0 ? ", " : "") + ranksText(its);
}

std::string youGetText(const Comparison& its) {
  return shareText(its) + " at " + sizeText(its.run.rows[*its.judged].bytes);
}

std::string headlineText(const Comparison& its) {
  const ResultRow* const best = its.run.best();
  if (its.judged) return collectiveText(its) + " " + shareText(its);
  const std::string text = collectiveText(its) + formatText(" %.1f GB/s", best == nullptr ? 0 : best->best());
  return its.obstacle.empty() ? text : text + " (not judged" + its.alike + ")";
}

std::string readText(const Comparison& its) {
  const ResultRow* const best = its.run.best();
  std::string text = "nccl-tests: " + jobText(its);
  if (!its.run.gpu.empty()) text += " (" + its.run.gpu + ")";
  text += ", " + counted(its.run.rows.size(), "size");
  if (best != nullptr) text += formatText(", at most %.2f GB/s at ", best->best()) + sizeText(best->bytes);
  return text;
}

std::string tableText(const Comparison& its) {
  if (!its.obstacle.empty()) return "";
  std::string text = jobText(its) + ": ";
  text += its.judged ? "you get " + youGetText(its)
                     : std::string("all sizes are too small to tell a bandwidth; try -b 8M -e 8G -f 2");
  text += ".\n" + its.model + ". " + its.limit + (its.doubt.empty() ? "" : " ") + its.doubt + "\n\n";
  text += "      size  measured GB/s  expected GB/s   share\n";
  for (std::size_t i = 0; i < its.expected.size(); ++i) {
    const ResultRow& row = its.run.rows[i];
    text += formatText("%10s  %13.2f  %13.2f  %4.0f %%\n", sizeText(row.bytes).c_str(), row.best(),
                       its.expected[i], its.expected[i] > 0 ? 100 * row.best() / its.expected[i] : 0);
  }
  return text;
}

void writeResultsJson(JsonWriter& json, std::span<const Comparison> comparisons) {
  json.key("results").objects(comparisons, [&](const Comparison& its) {
    json.key("file").value(its.run.file);
    json.key("collective").value(its.run.collective);
    json.key("ranks").value(its.ranks);
    json.key("hosts").value(its.hosts);
    json.key("gpu").value(its.run.gpu);
    json.key("nccl").value(its.run.nccl);
    json.key("not_compared").value(its.obstacle);
    json.key("model").value(its.model);
    json.key("limit").value(its.limit);
    json.key("doubt").value(its.doubt);
    json.key("judged_bytes");
    its.judged ? json.value(its.run.rows[*its.judged].bytes) : json.null();
    json.key("share");
    its.judged ? json.value(its.share()) : json.null();
    json.key("sizes").inlineObjects(its.run.rows, [&](const ResultRow& row) {
      const auto i = static_cast<std::size_t>(&row - its.run.rows.data());
      json.key("bytes").value(row.bytes);
      json.key("out_of_place_gb_per_s").value(row.out_of_place).key("in_place_gb_per_s").value(row.in_place);
      json.key("expected_gb_per_s");
      i < its.expected.size() ? json.value(its.expected[i]) : json.null();
      json.key("wrong").value(row.wrong);
    });
  });
}

}  // namespace railwise::doctor
