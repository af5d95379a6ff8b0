// Prometheus' text format.
#include <charconv>
#include <cmath>

#include "observe/metrics/family.h"

namespace railwise::observe {
namespace {

const char* unitSuffix(Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return "_bytes";
    case Unit::kSeconds:
      return "_seconds";
    case Unit::kBytesPerSecond:
      return "_bytes_per_second";
    case Unit::kNone:
      break;
  }
  return "";
}

const char* kindText(FamilyKind kind) {
  if (kind == FamilyKind::kHistogram) return "histogram";
  return kind == FamilyKind::kCounter ? "counter" : "gauge";
}

std::string nameOf(const Family& family) {
  std::string name = family.name;
  for (char& c : name)
    if (c == '.') c = '_';
  return name + unitSuffix(family.unit) + (family.kind == FamilyKind::kCounter ? "_total" : "");
}

std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || (c == '"' && quotes)) result += '\\';
    if (c == '\n') result += "\\n";
    else result += c;
  }
  return result;
}

std::string numberText(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

// {a="b",c="d"}, or nothing. `last`: one more pair, if it is not empty.
std::string labelText(const Labels& labels, const std::string& last = "") {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += text.empty() ? "{" : ",";
    text += name + "=\"" + escaped(value, true) + "\"";
  }
  if (!last.empty()) text += (text.empty() ? "{" : ",") + last;
  return text.empty() ? "" : text + "}";
}

void writeHistogram(std::string& text, const std::string& name, const Labels& labels,
                    const Histogram& histogram) {
  uint64_t cumulative = 0;
  for (const Bucket& bucket : histogram.buckets) {
    cumulative += bucket.count;
    text += name + "_bucket" + labelText(labels, "le=\"" + numberText(bucket.at_most) + "\"") + " " +
            std::to_string(cumulative) + "\n";
  }
  text += name + "_bucket" + labelText(labels, "le=\"+Inf\"") + " " + std::to_string(histogram.count) + "\n";
  text += name + "_sum" + labelText(labels) + " " + numberText(histogram.sum) + "\n";
  text += name + "_count" + labelText(labels) + " " + std::to_string(histogram.count) + "\n";
}

}  // namespace

std::string prometheusText(const Metrics& metrics) {
  std::string text;
  for (const Family& family : metrics.families) {
    const std::string name = nameOf(family);
    text += "# HELP " + name + " " + escaped(family.help, false) + "\n";
    text += "# TYPE " + name + " " + kindText(family.kind) + "\n";
    for (const Sample& sample : family.samples) {
      if (const auto* histogram = std::get_if<Histogram>(&sample.value)) {
        writeHistogram(text, name, sample.labels, *histogram);
        continue;
      }
      const auto* whole = std::get_if<uint64_t>(&sample.value);
      text += name + labelText(sample.labels) + " " +
              (whole != nullptr ? std::to_string(*whole) : numberText(std::get<double>(sample.value))) + "\n";
    }
  }
  return text;
}

}  // namespace railwise::observe
