// What railwise top shows: a model as lines of a terminal, and as JSON. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/top/model.h"
#include "observe/top/text.h"

namespace railwise::observe::top {

enum class View : uint8_t { kMain, kRails, kConnections, kEvents, kHelp };
// The order of rails, processes and connections.
enum class Order : uint8_t { kTrouble, kTraffic, kName };

struct Style {
  int width = 80;
  int height = 0;  // 0: as many lines as it takes
  bool utf8 = false;
  bool bits = false;  // Gb/s instead of GB/s
  View view = View::kMain;
  Order order = Order::kTrouble;
  int scroll = 0;
  bool keys = false;  // the last line says which keys there are
  bool paused = false;
  int64_t utc_offset_s = 0;  // of the clock that is shown
};

struct Frame {
  std::vector<Line> lines;
  int most_scroll = 0;  // from here on nothing more comes into sight
};

Frame frameOf(const Model& model, const Style& style);

// The lines of a frame as they are printed.
std::string plainText(const Frame& frame, const Style& style, bool color = false);
// The lines of a frame for a terminal: escape sequences that draw all of `style.height` lines anew, from the
// upper left corner, without clearing the screen first.
std::string escapedText(const Frame& frame, const Style& style, bool color);

// Everything as one JSON document. docs/observability.md describes it.
std::string modelJson(const Model& model);

}  // namespace railwise::observe::top
