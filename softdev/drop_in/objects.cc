// Protection domains, memory regions, queues and address handles: the calls are forwarded unchanged.
#include <cerrno>

#include "softdev/drop_in/front.h"

using namespace railwise;
using softdev::guarded;

namespace {

template <typename Object>
Object* unsupported() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

RAILWISE_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return guarded([&] { return softdev::allocPd(context); });
}
RAILWISE_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  return guarded([&] { return softdev::deallocPd(pd); });
}

RAILWISE_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return guarded([&] { return softdev::regMr(pd, address, length, access); });
}
RAILWISE_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return guarded(
      [&] { return softdev::regMrIova2(pd, address, length, iova, static_cast<unsigned>(access)); });
}
// NCCL calls this with a null PD to test whether the function exists.
RAILWISE_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                         unsigned int access) {
  return guarded([&] { return softdev::regMrIova2(pd, address, length, iova, access); });
}
RAILWISE_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                          int access) {
  return guarded([&] { return softdev::regDmabufMr(pd, offset, length, iova, fd, access); });
}
RAILWISE_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length,
                                 int access) {
  return guarded([&] { return softdev::reregMr(mr, flags, pd, address, length, access); });
}
RAILWISE_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  return guarded([&] { return softdev::deregMr(mr); });
}

RAILWISE_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user,
                                      ibv_comp_channel* channel, int vector) {
  return guarded([&] { return softdev::createCq(context, entries, user, channel, vector); });
}
RAILWISE_EXPORT int ibv_resize_cq(ibv_cq* cq, int entries) {
  return guarded([&] { return softdev::resizeCq(cq, entries); });
}
RAILWISE_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  return guarded([&] { return softdev::destroyCq(cq); });
}

RAILWISE_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return guarded([&] { return softdev::createSrq(pd, attr); });
}
RAILWISE_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return guarded([&] { return softdev::modifySrq(srq, attr, mask); });
}
RAILWISE_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  return guarded([&] { return softdev::querySrq(srq, attr); });
}
RAILWISE_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  return guarded([&] { return softdev::destroySrq(srq); });
}

RAILWISE_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return guarded([&] { return softdev::createQp(pd, attr); });
}
RAILWISE_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return guarded([&] { return softdev::modifyQp(qp, attr, mask); });
}
RAILWISE_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  return guarded([&] { return softdev::queryQp(qp, attr, mask, init); });
}
RAILWISE_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  return guarded([&] { return softdev::destroyQp(qp); });
}
RAILWISE_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return softdev::qpToQpEx(qp); }
// The result means "no guarantee" (ibv_query_qp_data_in_order(3)): a program that wants to poll memory needs
// a setting of its own for that.
RAILWISE_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }
RAILWISE_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  return guarded([&] { return softdev::queryEce(qp, ece); });
}
RAILWISE_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  return guarded([&] { return softdev::setEce(qp, ece); });
}
RAILWISE_EXPORT int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
RAILWISE_EXPORT int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }

RAILWISE_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  return guarded([&] { return softdev::createAh(pd, attr); });
}
RAILWISE_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  return guarded([&] { return softdev::destroyAh(ah); });
}

// Functions that share objects between processes by handle.
RAILWISE_EXPORT ibv_context* ibv_import_device(int) { return unsupported<ibv_context>(); }
RAILWISE_EXPORT ibv_pd* ibv_import_pd(ibv_context*, uint32_t) { return unsupported<ibv_pd>(); }
RAILWISE_EXPORT void ibv_unimport_pd(ibv_pd*) {}
RAILWISE_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) { return unsupported<ibv_mr>(); }
RAILWISE_EXPORT void ibv_unimport_mr(ibv_mr*) {}
