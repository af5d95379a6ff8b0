#include "topo/outputs/drawing/drawing.h"

#include <algorithm>
#include <utility>

namespace railwise::topo {

void addDrawing(Drawing& whole, Drawing part, double x, double y) {
  for (Frame& frame : part.frames) {
    frame.x += x, frame.y += y;
    whole.frames.push_back(std::move(frame));
  }
  for (Box& box : part.boxes) {
    box.x += x, box.y += y;
    whole.boxes.push_back(std::move(box));
  }
  for (Wire& wire : part.wires) {
    for (Point& point : wire.points) point.x += x, point.y += y;
    wire.label_x += x, wire.label_y += y;
    whole.wires.push_back(std::move(wire));
  }
  for (Caption& caption : part.captions) {
    caption.x += x, caption.y += y;
    whole.captions.push_back(std::move(caption));
  }
  whole.width = std::max(whole.width, x + part.width);
  whole.height = std::max(whole.height, y + part.height);
}

}  // namespace railwise::topo
