#include <iterator>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using tuning::Expectation;

constexpr const char* kAllToAll = "alltoall";

const char* collectiveName(const Expectation& its) {
  return its.collective ? nameOf(*its.collective) : kAllToAll;
}

void writeTable(std::string& text, const Expectation& its) {
  const bool modelled = its.collective.has_value();
  text += formatText("%10s", "size");
  if (modelled) text += formatText("  %-9s %-8s", "algorithm", "protocol");
  text += formatText("  %12s  %10s\n", "time us", "bus GB/s");
  for (const tuning::ExpectedSize& size : its.sizes) {
    text += formatText("%10s", sizeText(size.bytes).c_str());
    if (size.choice)
      text += formatText("  %-9s %-8s", nameOf(size.choice->algorithm), nameOf(size.choice->protocol));
    text += formatText("  %12.1f  %10.2f\n", size.time_us, size.bus_bandwidth);
  }
}

// Of older releases the constants are not known: those of a later one answer.
std::string rulesText(NcclVersion release) {
  const std::string name = ncclVersionName(release);
  const NcclVersion model = tuning::modelRelease(release);
  if (model <= release) return "The rules and the cost model are those of NCCL " + name + ".";
  return "The rules are those of NCCL " + name + ", the cost model is that of NCCL " +
         ncclVersionName(model) + ".";
}

}  // namespace

std::string expectationText(const Machine& machine, const std::vector<Expectation>& expectations) {
  std::string text;
  for (const Expectation& its : expectations) {
    if (!text.empty()) text += "\n";
    const std::size_t here = its.ranks.size();
    std::string first;
    first += formatText("%s: %s, %d node%s of %zu GPU%s. ", machine.name.c_str(), collectiveName(its),
                        its.nodes, its.nodes == 1 ? "" : "s", here, here == 1 ? "" : "s");
    if (its.collective) first += rulesText(machine.settings->nccl);
    else first += "NCCL has no model of it: this is an estimate of Railwise.";
    if (expectations.size() > 1) {
      first += " NCCL keeps the ranks";
      for (const int rank : its.ranks) first += formatText(" %d", rank);
      first += " together, and counts them as a node.";
    }
    text += wrappedText(first);
    writeTable(text, its);
    if (its.peak > 0) {
      text += formatText("Peak: %.1f GB/s", its.peak);
      if (its.peak_choice)
        text += formatText(" (%s, %s, %d channels)", nameOf(its.peak_choice->algorithm),
                           nameOf(its.peak_choice->protocol), its.channels);
      text += "\n";
    }
    text += wrappedText(its.limit);
  }
  return text;
}

std::string expectationJson(const Machine& machine, const std::vector<Expectation>& expectations) {
  JsonWriter json;
  json.beginObject();
  json.key("machine").value(machine.name);
  json.key("nccl").value(ncclVersionName(machine.settings->nccl).c_str());
  json.key("model").value(ncclVersionName(tuning::modelRelease(machine.settings->nccl)).c_str());
  json.key("expectations").objects(expectations, [&](const Expectation& its) {
    json.key("collective").value(collectiveName(its));
    json.key("source").value(its.collective ? "nccl" : "railwise");
    json.key("nodes").value(its.nodes);
    json.key("ranks").row(its.ranks);
    json.key("sizes").inlineObjects(its.sizes, [&](const tuning::ExpectedSize& size) {
      json.key("bytes").value(static_cast<uint64_t>(size.bytes));
      if (size.choice) {
        json.key("algorithm").value(nameOf(size.choice->algorithm));
        json.key("protocol").value(nameOf(size.choice->protocol));
      }
      json.key("time_us").value(size.time_us);
      json.key("bus_gb_per_s").value(size.bus_bandwidth);
    });
    json.key("costs").inlineObjects(its.costs, [&](const tuning::CostRow& row) {
      json.key("algorithm").value(nameOf(row.algorithm)).key("protocol").value(nameOf(row.protocol));
      json.key("latency_us").value(row.cost.latency_us).key("gb_per_s").value(row.cost.bandwidth);
    });
    json.key("peak_bus_gb_per_s").value(its.peak);
    if (its.peak_choice) {
      json.key("peak_algorithm").value(nameOf(its.peak_choice->algorithm));
      json.key("peak_protocol").value(nameOf(its.peak_choice->protocol));
      json.key("channels").value(its.channels);
    }
    json.key("limit").value(its.limit);
  });
  json.endObject();
  return json.text();
}

}  // namespace railwise::topo
