// Calls that are newer than ibv_create_qp: queue pairs with send operations, and ECE (softdev.h).
#include <cerrno>
#include <mutex>

#include "softdev/verbs/queue_pair.h"
#include "softdev/verbs/send_builder.h"
#include "softdev/verbs/transitions.h"

namespace railwise::softdev {
namespace {

constexpr uint32_t kEceVendor = 0x5257;  // "RW"

}  // namespace

ibv_qp* createQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  constexpr uint32_t kUnderstood =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const auto has = [attr](uint32_t field) { return (attr->comp_mask & field) != 0; };
  const uint64_t operations = has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ? attr->send_ops_flags : 0;
  const bool iwarp = as<Context>(context).config_device->config.iwarp();
  int error = 0;
  if ((attr->comp_mask & ~kUnderstood) != 0 ||
      (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags != 0) ||
      (operations & ~sendOperations(attr->qp_type, iwarp)) != 0) {
    error = EOPNOTSUPP;
  } else if (!has(IBV_QP_INIT_ATTR_PD) || attr->pd == nullptr || attr->pd->context != context) {
    error = EINVAL;
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  ibv_qp_init_attr init{attr->qp_context, attr->send_cq, attr->recv_cq,   attr->srq,
                        attr->cap,        attr->qp_type, attr->sq_sig_all};
  ibv_qp* qp = makeQp(attr->pd, init);
  if (qp == nullptr) return nullptr;
  attr->cap = init.cap;
  if (has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) setSendOperations(as<Qp>(qp), operations);
  return qp;
}

ibv_qp_ex* qpToQpEx(ibv_qp* base) {
  Qp& qp = as<Qp>(base);
  return qp.builder != nullptr ? &qp : nullptr;
}

void offerEce(Qp& qp) { qp.ece_wanted = qp.ece_agreed = qp.owner->config_device->config.ece_options; }

void agreeOnEce(Qp& qp) { qp.ece_agreed = qp.ece_wanted & qp.owner->config_device->config.ece_options; }

// As on mlx5: options that are set take effect at the next transition, and until then a query returns no
// options.
int setEce(ibv_qp* base, ibv_ece* ece) {
  Qp& qp = as<Qp>(base);
  if (!qp.owner->config_device->config.ece) return EOPNOTSUPP;
  const bool none = ece->vendor_id == 0 && ece->options == 0;
  if (ece->comp_mask != 0 || (ece->vendor_id != kEceVendor && !none)) return EINVAL;
  std::lock_guard lock(qp.sq_lock);
  qp.ece_wanted = ece->options;
  qp.ece_agreed = 0;
  return 0;
}

int queryEce(ibv_qp* base, ibv_ece* ece) {
  Qp& qp = as<Qp>(base);
  if (!qp.owner->config_device->config.ece) return EOPNOTSUPP;
  std::lock_guard lock(qp.sq_lock);
  *ece = {kEceVendor, qp.ece_agreed, 0};
  return 0;
}

}  // namespace railwise::softdev
