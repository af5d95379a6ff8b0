// Numbered cells in a window, each word of which follows from the cell's number, its epoch and the place of
// the word (fake_user.h). Plain values; a device writes the words meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace railwise::net {

// How the cells of a link look, and how they travel.
struct CellShape {
  std::size_t bytes = 64;  // of a cell: a multiple of 8, at least 24
  // Each cell is reported: by its immediate, on iWARP by a send behind it. Else the counting end looks into
  // its window.
  bool reported = true;
  bool proves = false;        // proofs of arrival cover the cells, not signalled cells. On iWARP always
  uint32_t cover_every = 4;   // one proof, or one signalled cell, among so many
  uint64_t credit_every = 4;  // at most kRing / 2
  uint64_t largest = 0;       // size that the links are told of, if it is not that of a cell
  bool deaf = false;          // both ends expect no frames of each other's user
};

// The places of the cells in a window. Single words are loaded and stored as a whole, because a device writes
// them meanwhile.
class CellRing {
 public:
  static constexpr uint64_t kPlaces = 32;  // less than kMostWords
  static std::size_t bytesFor(const CellShape& shape) { return kPlaces * shape.bytes; }

  void use(std::byte* memory, const CellShape& shape) {
    memory_ = memory;
    words_ = shape.bytes / sizeof(uint64_t);
  }
  static uint64_t word(uint64_t number, uint64_t epoch, std::size_t i) {
    if (i == 0) return number;
    if (i == 1) return epoch;
    uint64_t x = number * 0x9e3779b97f4a7c15 + epoch * 0xbf58476d1ce4e5b9 + i * 0x94d049bb133111eb;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    return (x ^ (x >> 27)) | 1;  // never that of a wiped place
  }
  std::byte* at(uint64_t number) const { return memory_ + offsetOf(number); }
  std::size_t offsetOf(uint64_t number) const { return number % kPlaces * words_ * sizeof(uint64_t); }

  void put(uint64_t number, uint64_t epoch) const {
    for (std::size_t i = 0; i < words_; ++i)
      __atomic_store_n(wordsOf(number) + i, word(number, epoch, i), __ATOMIC_RELAXED);
  }
  void wipe(uint64_t number) const {
    for (std::size_t i = 0; i < words_; ++i) __atomic_store_n(wordsOf(number) + i, 0, __ATOMIC_RELAXED);
  }
  // Is the whole cell there? The last word is looked at first.
  bool holds(uint64_t number, uint64_t epoch) const {
    for (std::size_t i = words_; i-- > 0;) {
      if (load(number, i) != word(number, epoch, i)) return false;
    }
    return true;
  }
  // What is wrong at the place of a cell that may be on its way, in words; "": nothing.
  std::string problem(uint64_t number, uint64_t epoch) const {
    for (std::size_t i = 0; i < words_; ++i) {
      const uint64_t found = load(number, i);
      if (found == 0 || found == word(number, epoch, i)) continue;
      return "where cell " + std::to_string(number) + " of epoch " + std::to_string(epoch) +
             " is due, word " + std::to_string(i) + " is wrong; the place says cell " +
             std::to_string(load(number, 0)) + " of epoch " + std::to_string(load(number, 1));
    }
    return "";
  }
  bool empty(uint64_t number) const {
    for (std::size_t i = 0; i < words_; ++i) {
      if (load(number, i) != 0) return false;
    }
    return true;
  }

 private:
  uint64_t* wordsOf(uint64_t number) const { return reinterpret_cast<uint64_t*>(at(number)); }
  uint64_t load(uint64_t number, std::size_t i) const {
    return __atomic_load_n(wordsOf(number) + i, __ATOMIC_ACQUIRE);
  }

  std::byte* memory_ = nullptr;
  std::size_t words_ = 0;
};

}  // namespace railwise::net
