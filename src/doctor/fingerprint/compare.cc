#include <algorithm>
#include <map>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "doctor/fingerprint/fingerprint.h"

namespace railwise::doctor::fingerprint {
namespace {

constexpr std::size_t kMostNames = 20;  // in one line for people; JSON has all

std::string nodesText(std::size_t count) { return counted(count, "node"); }

// "a, b, c and 97 more"
std::string shown(const std::vector<std::string>& names) {
  return firstItems(names, kMostNames, "more (--json names all)");
}

std::string namesText(const std::vector<NamedNode>& nodes, const ValueGroup& group) {
  std::vector<std::string> names;
  for (const std::size_t node : group.nodes) names.push_back(nodes[node].name);
  return shown(names);
}

// The nodes by the value of each field, in the order in which fields were first seen. A node that was written
// by another version of Railwise may lack a field: its value is not known.
std::vector<FieldDifference> groupByValue(const std::vector<NamedNode>& nodes) {
  std::vector<std::string> names;
  std::map<std::string, std::map<std::size_t, std::string>> values;  // of each field, by node
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (Field& field : fieldsOf(nodes[i].node)) {
      if (values.count(field.name) == 0) names.push_back(field.name);
      values[field.name][i] = std::move(field.value);
    }
  }
  std::vector<FieldDifference> fields;
  for (const std::string& name : names) {
    std::map<std::string, ValueGroup> groups;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto found = values[name].find(i);
      const std::string value = found == values[name].end() ? "-" : found->second;
      groups[value].value = value;
      groups[value].nodes.push_back(i);
    }
    FieldDifference field = {name, {}, false};
    for (auto& [value, group] : groups) field.groups.push_back(std::move(group));
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<OddNode> oddNodes(const std::vector<FieldDifference>& differences) {
  std::map<std::size_t, OddNode> odd;
  for (const FieldDifference& difference : differences) {
    if (!difference.majority) continue;
    for (std::size_t i = 1; i < difference.groups.size(); ++i)
      for (const std::size_t node : difference.groups[i].nodes) {
        odd[node].node = node;
        odd[node].fields.push_back(difference.field);
      }
  }
  std::vector<OddNode> list;
  for (auto& [node, each] : odd) list.push_back(std::move(each));
  std::ranges::stable_sort(
      list, [](const OddNode& a, const OddNode& b) { return a.fields.size() > b.fields.size(); });
  return list;
}

std::string oddText(const std::vector<NamedNode>& nodes, const std::vector<OddNode>& odd) {
  if (odd.empty()) return "differ, and none of them is odd: no value has a majority";
  std::vector<std::string> names;
  for (const OddNode& each : odd) names.push_back(nodes[each.node].name + " (" + joined(each.fields) + ")");
  return std::to_string(odd.size()) + (odd.size() == 1 ? " is odd: " : " are odd: ") + shown(names);
}

}  // namespace

Comparison compareNodes(const std::vector<NamedNode>& nodes) {
  Comparison comparison;
  for (FieldDifference& field : groupByValue(nodes)) {
    if (field.groups.size() < 2) continue;
    std::ranges::stable_sort(field.groups, [](const ValueGroup& a, const ValueGroup& b) {
      return a.nodes.size() > b.nodes.size();
    });
    field.majority = field.groups[0].nodes.size() > field.groups[1].nodes.size();
    comparison.differences.push_back(std::move(field));
  }
  comparison.odd = oddNodes(comparison.differences);
  return comparison;
}

std::string comparisonText(const std::vector<NamedNode>& nodes, const Comparison& comparison,
                           std::size_t columns) {
  if (nodes.size() == 1)
    return wrappedText("1 node, and nothing to compare it with: " + nodes[0].name, "", "  ", columns);
  if (comparison.differences.empty())
    return nodesText(nodes.size()) + " are alike: " + hashOf(nodes[0].node) + "\n";
  std::string text = wrappedText(nodesText(nodes.size()) + (comparison.odd.empty() ? " " : ", of which ") +
                                     oddText(nodes, comparison.odd),
                                 "", "    ", columns);
  for (const FieldDifference& difference : comparison.differences) {
    const ValueGroup& first = difference.groups[0];
    text += wrappedText(
        difference.field + ": " +
            (difference.majority ? first.value + " on " + nodesText(first.nodes.size()) : "no majority"),
        "", "    ", columns);
    for (std::size_t i = difference.majority ? 1 : 0; i < difference.groups.size(); ++i) {
      const ValueGroup& group = difference.groups[i];
      text +=
          wrappedText(group.value + " on " + nodesText(group.nodes.size()) + ": " + namesText(nodes, group),
                      "  ", "      ", columns);
    }
  }
  return text;
}

std::string comparisonJson(const std::vector<NamedNode>& nodes, const Comparison& comparison) {
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-fingerprint-comparison").key("schema_version").value(1);
  json.key("nodes").value(uint64_t{nodes.size()});
  json.key("odd").inlineObjects(comparison.odd, [&](const OddNode& odd) {
    json.key("node").value(nodes[odd.node].name).key("fields").row(odd.fields);
  });
  json.key("differences").objects(comparison.differences, [&](const FieldDifference& difference) {
    json.key("field").value(difference.field).key("majority");
    difference.majority ? json.value(difference.groups[0].value) : json.null();
    json.key("groups").inlineObjects(difference.groups, [&](const ValueGroup& group) {
      json.key("value").value(group.value);
      json.key("nodes").row(group.nodes, [&](std::size_t node) { return nodes[node].name; });
    });
  });
  return json.endObject().text();
}

}  // namespace railwise::doctor::fingerprint
