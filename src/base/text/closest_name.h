// The name that somebody probably meant: for "did you mean ...?". Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace railwise {

// How many letters must be replaced, inserted, removed, or exchanged with their neighbour to make `b` of `a`.
std::size_t editDistance(std::string_view a, std::string_view b);

// The candidate closest to `name`, if it is close enough that `name` may be a misspelling. Otherwise null.
std::optional<std::string> closest(std::string_view name, std::span<const std::string> candidates);

}  // namespace railwise
