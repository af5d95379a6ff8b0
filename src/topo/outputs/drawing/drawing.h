// A machine as rectangles and lines, which the SVG and HTML outputs draw. Coordinates are in CSS pixels; y
// grows downwards. Internal to outputs/.
#pragma once

#include <string>
#include <vector>

#include "topo/graph/graph.h"

namespace railwise::topo {

struct Box {
  std::string kind;              // CSS class: "cpu", "pci", "gpu", "nic", "net", "nvs", "cxb"
  std::vector<NodeIndex> nodes;  // the nodes that the box stands for; the box is named after the first node
  double x = 0, y = 0, width = 0, height = 0;
  std::vector<std::string> lines;  // the first one is the name
  std::string tip;                 // shown when the pointer is over the box: everything known
  bool bad = false;                // something in this box costs speed
};

struct Point {
  double x = 0, y = 0;
};

struct Wire {
  std::string kind;  // "pci", "nvl", "c2c", "sys", "loc", "fabric"
  NodeIndex a = kNoNode;
  NodeIndex b = kNoNode;
  float bandwidth = 0;
  std::vector<Point> points;
  bool curved = false;  // true: the four points are the ends and control points of a Bezier curve
  std::string label;
  double label_x = 0, label_y = 0;
  bool slow = false;
};

struct Frame {
  std::string kind;  // "host", "numa", "part"
  std::string title;
  double x = 0, y = 0, width = 0, height = 0;
};

struct Caption {
  std::string text;
  double x = 0, y = 0;
};

struct Drawing {
  double width = 0, height = 0;
  std::vector<Frame> frames;
  std::vector<Wire> wires;
  std::vector<Box> boxes;
  std::vector<Caption> captions;
};

// Moves everything in `part` by (x, y) and adds it to `whole`.
void addDrawing(Drawing& whole, Drawing part, double x, double y);

}  // namespace railwise::topo
