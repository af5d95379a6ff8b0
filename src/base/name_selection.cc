#include "base/name_selection.h"

#include <charconv>

namespace railwise {
namespace {

// "mlx5_0:1:rail:plane"
struct Item {
  std::string_view name;
  int port = -1;
};

Item parseItem(std::string_view text) {
  Item item{text.substr(0, text.find(':'))};
  if (item.name.size() == text.size()) return item;
  const std::string_view rest = text.substr(item.name.size() + 1);
  std::from_chars(rest.data(), rest.data() + rest.size(), item.port);  // no number: any port
  return item;
}

}  // namespace

bool nameSelected(std::string_view selection, std::string_view name, int port) {
  if (selection.empty()) return true;
  const bool exclude = selection.front() == '^';
  if (exclude) selection.remove_prefix(1);
  const bool exact = selection.starts_with('=');
  if (exact) selection.remove_prefix(1);
  bool found = false;
  while (!selection.empty()) {
    const auto comma = selection.find(',');
    const Item item = parseItem(selection.substr(0, comma));
    const bool same_name = exact ? name == item.name : name.starts_with(item.name);
    if (!item.name.empty() && same_name && (item.port < 0 || port < 0 || item.port == port)) found = true;
    selection = comma == std::string_view::npos ? std::string_view() : selection.substr(comma + 1);
  }
  return found != exclude;
}

}  // namespace railwise
