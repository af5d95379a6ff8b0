#include "softdev/config/fault_names.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

namespace railwise::softdev {
namespace {

constexpr FaultName kOperations[] = {
    {"write", kFaultWrite},      {"write_imm", kFaultWriteImm}, {"read", kFaultRead},    {"send", kFaultSend},
    {"send_imm", kFaultSendImm}, {"atomic", kFaultAtomic},      {"recv", kFaultReceive},
};

constexpr FaultName named(const char* name, Verb verb) { return {name, static_cast<uint32_t>(verb)}; }

constexpr FaultName kVerbs[] = {
    named("open_device", Verb::kOpenDevice),    named("alloc_pd", Verb::kAllocPd),
    named("dealloc_pd", Verb::kDeallocPd),      named("reg_mr", Verb::kRegMr),
    named("reg_dmabuf_mr", Verb::kRegDmabufMr), named("rereg_mr", Verb::kReregMr),
    named("dereg_mr", Verb::kDeregMr),          named("create_cq", Verb::kCreateCq),
    named("resize_cq", Verb::kResizeCq),        named("destroy_cq", Verb::kDestroyCq),
    named("req_notify_cq", Verb::kReqNotifyCq), named("create_comp_channel", Verb::kCreateCompChannel),
    named("create_srq", Verb::kCreateSrq),      named("modify_srq", Verb::kModifySrq),
    named("query_srq", Verb::kQuerySrq),        named("destroy_srq", Verb::kDestroySrq),
    named("create_qp", Verb::kCreateQp),        named("modify_qp", Verb::kModifyQp),
    named("query_qp", Verb::kQueryQp),          named("destroy_qp", Verb::kDestroyQp),
    named("create_ah", Verb::kCreateAh),        named("destroy_ah", Verb::kDestroyAh),
    named("query_device", Verb::kQueryDevice),  named("query_port", Verb::kQueryPort),
    named("query_gid", Verb::kQueryGid),        named("query_pkey", Verb::kQueryPkey),
    named("post_send", Verb::kPostSend),        named("post_recv", Verb::kPostRecv),
    named("post_srq_recv", Verb::kPostSrqRecv), named("poll_cq", Verb::kPollCq),
    named("rdma_listen", Verb::kRdmaListen),    named("rdma_connect", Verb::kRdmaConnect),
};
static_assert(std::size(kVerbs) == static_cast<size_t>(Verb::kCount));

constexpr FaultName kStatuses[] = {
    {"loc_len_err", IBV_WC_LOC_LEN_ERR},
    {"loc_qp_op_err", IBV_WC_LOC_QP_OP_ERR},
    {"loc_eec_op_err", IBV_WC_LOC_EEC_OP_ERR},
    {"loc_prot_err", IBV_WC_LOC_PROT_ERR},
    {"wr_flush_err", IBV_WC_WR_FLUSH_ERR},
    {"mw_bind_err", IBV_WC_MW_BIND_ERR},
    {"bad_resp_err", IBV_WC_BAD_RESP_ERR},
    {"loc_access_err", IBV_WC_LOC_ACCESS_ERR},
    {"rem_inv_req_err", IBV_WC_REM_INV_REQ_ERR},
    {"rem_access_err", IBV_WC_REM_ACCESS_ERR},
    {"rem_op_err", IBV_WC_REM_OP_ERR},
    {"retry_exc_err", IBV_WC_RETRY_EXC_ERR},
    {"rnr_retry_exc_err", IBV_WC_RNR_RETRY_EXC_ERR},
    {"loc_rdd_viol_err", IBV_WC_LOC_RDD_VIOL_ERR},
    {"rem_inv_rd_req_err", IBV_WC_REM_INV_RD_REQ_ERR},
    {"rem_abort_err", IBV_WC_REM_ABORT_ERR},
    {"fatal_err", IBV_WC_FATAL_ERR},
    {"resp_timeout_err", IBV_WC_RESP_TIMEOUT_ERR},
    {"general_err", IBV_WC_GENERAL_ERR},
};

constexpr FaultName kErrnos[] = {
    {"EPERM", EPERM},           {"ENOENT", ENOENT},
    {"EINTR", EINTR},           {"EIO", EIO},
    {"ENXIO", ENXIO},           {"EBADF", EBADF},
    {"EAGAIN", EAGAIN},         {"ENOMEM", ENOMEM},
    {"EACCES", EACCES},         {"EFAULT", EFAULT},
    {"EBUSY", EBUSY},           {"EEXIST", EEXIST},
    {"ENODEV", ENODEV},         {"EINVAL", EINVAL},
    {"ENFILE", ENFILE},         {"EMFILE", EMFILE},
    {"ENOSPC", ENOSPC},         {"EROFS", EROFS},
    {"ERANGE", ERANGE},         {"ENOSYS", ENOSYS},
    {"EPROTO", EPROTO},         {"EOVERFLOW", EOVERFLOW},
    {"EMSGSIZE", EMSGSIZE},     {"EPROTONOSUPPORT", EPROTONOSUPPORT},
    {"EOPNOTSUPP", EOPNOTSUPP}, {"EADDRINUSE", EADDRINUSE},
    {"ENETDOWN", ENETDOWN},     {"ENETUNREACH", ENETUNREACH},
    {"ECONNRESET", ECONNRESET}, {"ENOBUFS", ENOBUFS},
    {"ETIMEDOUT", ETIMEDOUT},   {"ESTALE", ESTALE},
    {"EREMOTEIO", EREMOTEIO},   {"ECANCELED", ECANCELED},
};

constexpr FaultName kEvents[] = {
    {"cq_err", IBV_EVENT_CQ_ERR},
    {"qp_fatal", IBV_EVENT_QP_FATAL},
    {"qp_req_err", IBV_EVENT_QP_REQ_ERR},
    {"qp_access_err", IBV_EVENT_QP_ACCESS_ERR},
    {"comm_est", IBV_EVENT_COMM_EST},
    {"sq_drained", IBV_EVENT_SQ_DRAINED},
    {"path_mig", IBV_EVENT_PATH_MIG},
    {"path_mig_err", IBV_EVENT_PATH_MIG_ERR},
    {"device_fatal", IBV_EVENT_DEVICE_FATAL},
    {"port_active", IBV_EVENT_PORT_ACTIVE},
    {"port_err", IBV_EVENT_PORT_ERR},
    {"lid_change", IBV_EVENT_LID_CHANGE},
    {"pkey_change", IBV_EVENT_PKEY_CHANGE},
    {"sm_change", IBV_EVENT_SM_CHANGE},
    {"srq_err", IBV_EVENT_SRQ_ERR},
    {"srq_limit_reached", IBV_EVENT_SRQ_LIMIT_REACHED},
    {"qp_last_wqe_reached", IBV_EVENT_QP_LAST_WQE_REACHED},
    {"client_reregister", IBV_EVENT_CLIENT_REREGISTER},
    {"gid_change", IBV_EVENT_GID_CHANGE},
};

bool sameLetters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const FaultName> faultOperations() { return kOperations; }
std::span<const FaultName> faultVerbs() { return kVerbs; }
std::span<const FaultName> faultStatuses() { return kStatuses; }
std::span<const FaultName> faultErrnos() { return kErrnos; }
std::span<const FaultName> faultEvents() { return kEvents; }

bool findFaultName(std::span<const FaultName> names, std::string_view text, uint32_t* value) {
  for (const FaultName& name : names) {
    if (!sameLetters(name.name, text)) continue;
    *value = name.value;
    return true;
  }
  return false;
}

const char* nameOfFault(std::span<const FaultName> names, uint32_t value) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [value](const FaultName& name) { return name.value == value; });
  return found != names.end() ? found->name : "?";
}

bool matchesName(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return true;
  if (pattern.back() == '*') return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

std::string listOf(std::span<const FaultName> names) {
  std::string list;
  for (const FaultName& name : names) list += (list.empty() ? "" : ", ") + std::string(name.name);
  return list;
}

}  // namespace railwise::softdev
