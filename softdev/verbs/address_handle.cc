// Address handles (softdev.h): the destination of a datagram.
#include <cerrno>

#include "softdev/fabric/ports.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

ibv_ah* createAh(ibv_pd* base, ibv_ah_attr* attr) {
  if (base != nullptr && verbFails(as<Context>(base->context), Verb::kCreateAh)) return nullptr;
  if (base == nullptr || !validAddress(as<Context>(base->context), *attr)) {
    errno = EINVAL;
    return nullptr;
  }
  auto* ah = new Ah{};
  ah->context = base->context;
  ah->pd = base;
  ah->attr = *attr;
  as<Pd>(base).users.fetch_add(1);
  return ah;
}

int destroyAh(ibv_ah* base) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kDestroyAh); injected != 0)
    return injected;
  Ah& ah = as<Ah>(base);
  as<Pd>(ah.pd).users.fetch_sub(1);
  delete &ah;
  return 0;
}

bool validAddress(const Context& context, const ibv_ah_attr& address) {
  if (address.port_num < 1 || address.port_num > context.record->port_count) return false;
  const PortRecord& port = context.fabric->segment->ports[context.record->ports[address.port_num - 1]];
  if (address.is_global != 0 && address.grh.sgid_index >= port.gid_count.load(std::memory_order_acquire))
    return false;
  return port.link_layer == IBV_LINK_LAYER_INFINIBAND ? address.dlid != 0 : address.is_global != 0;
}

}  // namespace railwise::softdev
