#include "base/text/name_selection.h"

#include <algorithm>

#include "base/text/words.h"

namespace railwise {
namespace {

constexpr int kLargestField = 32767;  // NCCL's properties store rail and plane in 16 bits

// Removes everything up to the next `separator` from the front of `text`, with the separator, and returns it
// without the separator.
std::string_view take(std::string_view& text, char separator) {
  const std::string_view word = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

// An empty `text` leaves `value` as it is, which is -1: not given.
bool parseField(std::string_view text, int& value) {
  if (text.empty()) return true;
  const auto number = numberIn<int>(text);
  if (number) value = *number;
  return number && value >= -1 && value <= kLargestField;
}

bool parseItem(std::string_view text, PortItem& item) {
  item.name = take(text, ':');
  bool good = true;
  for (int* field : {&item.port, &item.rail, &item.plane}) good = parseField(take(text, ':'), *field) && good;
  return good;  // NCCL ignores further fields
}

// A field that is not a number is treated as not given, and `good` becomes false.
PortSelection parse(std::string_view text, bool& good) {
  PortSelection selection;
  selection.exclude = text.starts_with('^');
  if (selection.exclude) text.remove_prefix(1);
  selection.exact = text.starts_with('=');
  if (selection.exact) text.remove_prefix(1);
  good = true;
  while (!text.empty()) {
    PortItem item;
    good = parseItem(take(text, ','), item) && good;
    if (!item.name.empty()) selection.items.push_back(std::move(item));
  }
  return selection;
}

bool hasName(const PortSelection& selection, const PortItem& item, std::string_view name) {
  return selection.exact ? name == item.name : name.starts_with(item.name);
}

}  // namespace

bool nameSelected(std::string_view selection, std::string_view name, int port) {
  bool good = true;
  return choosePort(parse(selection, good), name, port).selected;
}

std::optional<PortSelection> parsePortSelection(std::string_view text) {
  bool good = true;
  PortSelection selection = parse(text, good);
  if (!good) return std::nullopt;
  return selection;
}

std::vector<std::string> namesOfNoDevice(const PortSelection& selection,
                                         const std::vector<std::string>& devices) {
  std::vector<std::string> names;
  for (const PortItem& item : selection.items)
    if (std::none_of(devices.begin(), devices.end(),
                     [&](const std::string& device) { return hasName(selection, item, device); }))
      names.push_back(item.name);
  return names;
}

PortChoice choosePort(const PortSelection& selection, std::string_view name, int port) {
  if (selection.items.empty()) return {.selected = !selection.exclude};
  for (const PortItem& item : selection.items) {
    if (!hasName(selection, item, name) || (port >= 0 && item.port >= 0 && port != item.port)) continue;
    if (selection.exclude) return {};
    return {true, item.rail, item.plane};
  }
  return {.selected = selection.exclude};
}

}  // namespace railwise
