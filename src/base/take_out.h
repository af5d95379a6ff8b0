// Takes an object out of a list of owners, so that it can be destroyed elsewhere. Pure; one thread at a time
// for a list.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace railwise {

// Null: it is not there. The order of the others changes.
template <typename T>
std::unique_ptr<T> takeOut(std::vector<std::unique_ptr<T>>& owners, const void* object) {
  const auto found =
      std::find_if(owners.begin(), owners.end(), [&](const auto& owner) { return owner.get() == object; });
  if (found == owners.end()) return nullptr;
  std::unique_ptr<T> taken = std::move(*found);
  *found = std::move(owners.back());
  owners.pop_back();
  return taken;
}

}  // namespace railwise
