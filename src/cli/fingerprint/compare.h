// Which of many nodes is odd: for each field of the fingerprints the value that most nodes have, and the
// nodes that have another one. Pure, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/fingerprint/fingerprint.h"

namespace railwise::cli {

// A node and its name in the output.
struct NamedNode {
  std::string name;
  Fingerprint node;
};

struct ValueGroup {
  std::string value;
  std::vector<std::size_t> nodes;  // indexes, ascending
};

// A field in which the nodes differ.
struct FieldDifference {
  std::string field;
  std::vector<ValueGroup> groups;  // the largest first
  // The first group has more nodes than any other. Without a majority nobody can tell which node is odd.
  bool majority = false;
};

struct OddNode {
  std::size_t node = 0;
  std::vector<std::string> fields;  // in which it has not the majority's value
};

struct Comparison {
  std::vector<FieldDifference> differences;
  std::vector<OddNode> odd;  // the node with most such fields first
};

Comparison compareNodes(const std::vector<NamedNode>& nodes);

// For people in lines that are no wider than `columns`, and as JSON (docs/fingerprint.md); each ends with a
// newline.
std::string comparisonText(const std::vector<NamedNode>& nodes, const Comparison& comparison,
                           std::size_t columns = kOneLine);
std::string comparisonJson(const std::vector<NamedNode>& nodes, const Comparison& comparison);

}  // namespace railwise::cli
