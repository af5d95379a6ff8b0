#include "net/rma/rma.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/log.h"
#include "base/take_out.h"

namespace railwise::net {

Result<RmaListener*> RmaNet::listen(int index, void* handle) {
  const Device* const device = net_.findDevice(index);
  if (device == nullptr) return Status{Code::kInvalidArgument, EINVAL};
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
  if (listener.listener_ == nullptr) {
    RAILWISE_WARN("connect: this listener has made a group already");
    return Status{Code::kInvalidUsage, EINVAL};
  }
  std::vector<ListenHandle> copies(handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) {
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
  if (made->attendant_ != nullptr) made->attendant_->attend(*made);  // last: it may take a caller at once
  const std::lock_guard lock(self.mutex_);
  return self.groups_.emplace_back(std::move(made)).get();
}

void RmaNet::close(RmaListener* listener) {
  RmaNet& self = listener->owner_;
  std::unique_lock lock(self.mutex_);
  const std::unique_ptr<RmaListener> taken = takeOut(self.listeners_, listener);
  lock.unlock();  // destroyed without the lock
}

void RmaGroup::close(RmaGroup* group) {
  RmaNet& owner = group->owner_;
  std::unique_lock lock(owner.mutex_);
  const std::unique_ptr<RmaGroup> taken = takeOut(owner.groups_, group);
  lock.unlock();
}

}  // namespace railwise::net
