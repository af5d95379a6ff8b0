#include "net/rma/rma.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/log.h"

namespace railwise::net {

Result<RmaListener*> RmaNet::listen(int index, void* handle) {
  const Device* const device = net_.device(index);
  if (device == nullptr) {
    RAILWISE_WARN("device %d does not exist: there are %d", index, net_.deviceCount());
    return Status{Code::kInvalidArgument, EINVAL};
  }
  ConnectionOptions options = net_.connectionOptions(*device, -1, 1);
  options.communicator = communicator_;
  std::unique_ptr<RmaListener> made(new RmaListener(*this, *device, options));
  const auto make = [group = made->group_](const EndInfo& request, std::string& refusal) {
    return (*group)->makeTarget(request, refusal);
  };
  auto listener = ManyListener<PutTarget>::create(*device, options, ListenerKind::kOneSided, make);
  if (!listener.ok()) return listener.status();
  made->listener_ = std::move(*listener);
  std::memcpy(handle, &made->listener_->handle(), sizeof(ListenHandle));
  const std::lock_guard lock(mutex_);
  return listeners_.emplace_back(std::move(made)).get();
}

Result<RmaGroup*> RmaNet::connect(RmaListener& listener, std::span<const void* const> handles, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= handles.size()) {
    RAILWISE_WARN("connect: rank %d of %zu", rank, handles.size());
    return Status{Code::kInvalidArgument, EINVAL};
  }
  if (listener.listener_ == nullptr) {
    RAILWISE_WARN("connect: this listener has made a group already");
    return Status{Code::kInvalidUsage, EINVAL};
  }
  std::vector<ListenHandle> copies(handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == nullptr) {
      RAILWISE_WARN("connect: the handle of rank %zu is null", i);
      return Status{Code::kInvalidArgument, EINVAL};
    }
    std::memcpy(&copies[i], handles[i], sizeof(ListenHandle));
    if (const std::string problem = checkHandle(copies[i], ListenerKind::kOneSided); !problem.empty()) {
      RAILWISE_WARN(
          "connect: rank %zu does not use Railwise for one-sided communication: %s. Every rank needs the "
          "same plugin (NCCL_NET_PLUGIN, NCCL_RMA_PLUGIN)",
          i, problem.c_str());
      return Status{Code::kInvalidUsage, EINVAL};
    }
  }
  RmaNet& self = listener.owner_;
  std::unique_ptr<RmaGroup> made(new RmaGroup(self, listener.device_, listener.options_,
                                              std::move(listener.listener_), std::move(copies), rank));
  *listener.group_ = made.get();
  const std::lock_guard lock(self.mutex_);
  return self.groups_.emplace_back(std::move(made)).get();
}

void RmaNet::close(RmaListener* listener) {
  RmaNet& self = listener->owner_;
  std::unique_lock lock(self.mutex_);
  const auto found =
      std::ranges::find_if(self.listeners_, [&](const auto& each) { return each.get() == listener; });
  if (found == self.listeners_.end()) return;
  const std::unique_ptr<RmaListener> taken = std::move(*found);
  self.listeners_.erase(found);
  lock.unlock();  // destroyed without the lock
}

void RmaGroup::close(RmaGroup* group) {
  RmaNet& owner = group->owner_;
  std::unique_lock lock(owner.mutex_);
  const auto found =
      std::ranges::find_if(owner.groups_, [&](const auto& each) { return each.get() == group; });
  if (found == owner.groups_.end()) return;
  const std::unique_ptr<RmaGroup> taken = std::move(*found);
  owner.groups_.erase(found);
  lock.unlock();
}

}  // namespace railwise::net
