#include "graph.h"

#include <algorithm>
#include <utility>

namespace softgpu {

void UserObject::release(unsigned count) {
  if (references_.fetch_sub(count) != count) return;
  destroy_(object_);
  userObjects().remove(reinterpret_cast<cudaUserObject_t>(this));
}

UserObjectReferences::~UserObjectReferences() {
  for (Entry& entry : entries_) entry.object->release(entry.count);
}

void UserObjectReferences::adopt(std::shared_ptr<UserObject> object, unsigned count) {
  for (Entry& entry : entries_) {
    if (entry.object == object) {
      entry.count += count;
      return;
    }
  }
  entries_.push_back({std::move(object), count});
}

bool UserObjectReferences::release(const std::shared_ptr<UserObject>& object, unsigned count) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& each) { return each.object == object; });
  if (entry == entries_.end() || entry->count < count) return false;
  entry->count -= count;
  if (entry->count == 0) entries_.erase(entry);
  object->release(count);
  return true;
}

void UserObjectReferences::retainAll(const UserObjectReferences& other) {
  for (const Entry& entry : other.entries_) {
    entry.object->retain(1);
    adopt(entry.object, 1);
  }
}

GraphNode* Graph::add(cudaGraphNodeType type, Work work, std::vector<GraphNode*> dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->type = type;
  node->work = std::move(work);
  node->dependencies = std::move(dependencies);
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

bool Graph::has(const GraphNode* node) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& own) { return own.get() == node; });
}

HandleTable<cudaGraph_t, Graph>& graphs() {
  static auto& table = *new HandleTable<cudaGraph_t, Graph>;
  return table;
}

HandleTable<cudaUserObject_t, UserObject>& userObjects() {
  static auto& table = *new HandleTable<cudaUserObject_t, UserObject>;
  return table;
}

}  // namespace softgpu
