#include "topo/document/xml.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "base/pci.h"
#include "base/text/printable.h"

namespace railwise::topo {
namespace {

// NCCL always writes double quotes. A value that contains a double quote was read from single quotes, so it
// contains no single quote.
void writeAttribute(std::string& out, const XmlAttribute& attribute) {
  const char quote = attribute.value.find('"') == std::string::npos ? '"' : '\'';
  out += ' ';
  out += attribute.name;
  out += '=';
  out += quote;
  out += attribute.value;
  out += quote;
}

void writeNode(std::string& out, const XmlNode& node, std::size_t indent) {
  out.append(indent, ' ');
  out += '<';
  out += node.name;
  for (const XmlAttribute& attribute : node.attributes) writeAttribute(out, attribute);
  if (node.children.empty()) {
    out += "/>\n";
    return;
  }
  out += ">\n";
  for (const XmlNode* child : node.children) writeNode(out, *child, indent + 2);
  out.append(indent, ' ');
  out += "</";
  out += node.name;
  out += ">\n";
}

bool matches(const XmlNode& node, std::string_view name, std::string_view attribute, std::string_view value) {
  if (node.name != name) return false;
  const std::string* found = node.find(attribute);
  return found != nullptr && *found == value;
}

// Null: there is none.
template <typename Wanted>
XmlNode* firstOf(const std::vector<XmlNode*>& nodes, const Wanted& wanted) {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const XmlNode* n) { return wanted(*n); });
  return found == nodes.end() ? nullptr : *found;
}

}  // namespace

const std::string* XmlNode::find(std::string_view attribute) const {
  for (const XmlAttribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate.value;
  }
  return nullptr;
}

std::string XmlNode::get(std::string_view attribute, std::string_view otherwise) const {
  const std::string* value = find(attribute);
  return value != nullptr ? *value : std::string(otherwise);
}

void XmlNode::set(std::string_view attribute, std::string_view value) {
  for (XmlAttribute& candidate : attributes) {
    if (candidate.name != attribute) continue;
    candidate.value = value;
    return;
  }
  attributes.push_back({std::string(attribute), std::string(value), {}});
}

void XmlNode::setIfUnset(std::string_view attribute, std::string_view value) {
  if (!has(attribute)) attributes.push_back({std::string(attribute), std::string(value), {}});
}

void XmlNode::unset(std::string_view attribute) {
  const auto same = [&](const XmlAttribute& candidate) { return candidate.name == attribute; };
  const auto found = std::find_if(attributes.begin(), attributes.end(), same);
  if (found != attributes.end()) attributes.erase(found);
}

XmlNode* XmlNode::child(std::string_view child_name) const {
  return firstOf(children, [&](const XmlNode& node) { return node.name == child_name; });
}

XmlNode* XmlNode::child(std::string_view child_name, std::string_view attribute,
                        std::string_view value) const {
  return firstOf(children, [&](const XmlNode& node) { return matches(node, child_name, attribute, value); });
}

int intOf(const XmlNode& node, std::string_view attribute, int otherwise) {
  const std::string* text = node.find(attribute);
  return text == nullptr ? otherwise : static_cast<int>(std::strtol(text->c_str(), nullptr, 0));
}

std::string hostOf(const XmlNode& node) {
  const XmlNode* cpu = &node;
  while (cpu != nullptr && cpu->name != "cpu") cpu = cpu->parent;
  return cpu != nullptr ? cpu->get("host_hash") : "";
}

XmlDocument::XmlDocument(const XmlDocument& other) : file(other.file), version(other.version) {
  std::unordered_map<const XmlNode*, XmlNode*> twin;
  twin.reserve(other.order_.size());
  order_.reserve(other.order_.size());
  for (const XmlNode* node : other.order_) {
    XmlNode& copied = nodes_.emplace_back(*node);
    order_.push_back(&copied);
    twin.emplace(node, &copied);
  }
  const auto translate = [&](XmlNode*& pointer) {
    const auto found = twin.find(pointer);
    pointer = found != twin.end() ? found->second : nullptr;
  };
  for (XmlNode* node : order_) {
    translate(node->parent);
    for (XmlNode*& child : node->children) translate(child);
  }
}

XmlNode* XmlDocument::find(std::string_view name) const {
  return firstOf(order_, [&](const XmlNode& node) { return node.name == name; });
}

XmlNode* XmlDocument::find(std::string_view name, std::string_view attribute, std::string_view value) const {
  return firstOf(order_, [&](const XmlNode& node) { return matches(node, name, attribute, value); });
}

XmlNode* XmlDocument::add(XmlNode* parent, std::string_view name) {
  XmlNode& node = nodes_.emplace_back();
  order_.push_back(&node);
  node.name = name;
  node.parent = parent;
  if (parent != nullptr) parent->children.push_back(&node);
  return &node;
}

XmlNode* XmlDocument::copy(XmlNode* parent, const XmlNode& tree) {
  XmlNode* node = add(parent, tree.name);
  node->kind = tree.kind;
  node->attributes = tree.attributes;
  node->position = tree.position;
  for (const XmlNode* child : tree.children) copy(node, *child);
  return node;
}

bool hasNvidiaGpu(const XmlDocument& document) {
  return std::any_of(document.order().begin(), document.order().end(), [](const XmlNode* node) {
    if (node->name == "pci" && node->has("vendor"))
      return node->get("vendor") == pci::kNvidia && node->get("class").starts_with("0x03");
    return node->name == "gpu" && node->has("sm") && !node->has("gcn") && !node->parent->has("vendor");
  });
}

void XmlDocument::detach(XmlNode* node) {
  node->kind = XmlNodeKind::kNone;  // NCCL marks it so, and leaves the parent set
  if (node->parent != nullptr) std::erase(node->parent->children, node);
}

std::string writeXml(const XmlDocument& document) {
  std::string out;
  const XmlNode* const root = document.system() != nullptr ? document.system() : document.graphs();
  if (root == nullptr) return out;
  out.reserve(document.order().size() * 192);  // bytes; a typical line is shorter
  writeNode(out, *root, 0);
  return withoutControls(out, "\n\t");  // the reader lets control characters pass, which XML does not know
}

std::string where(const XmlDocument& document, const XmlPosition& position) {
  std::string text = document.file.empty() ? "topology" : withoutControls(document.file);
  if (position.line > 0) text += ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
  return text;
}

}  // namespace railwise::topo
