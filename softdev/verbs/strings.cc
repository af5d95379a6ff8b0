// Names of completion statuses and events (softdev.h).
#include "softdev/softdev.h"

namespace railwise::softdev {

const char* wcStatusStr(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local QP operation error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
      return "work request flushed";
    case IBV_WC_LOC_ACCESS_ERR:
      return "local access error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retries exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "receiver-not-ready retries exceeded";
    case IBV_WC_FATAL_ERR:
      return "fatal error";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "response timeout";
    case IBV_WC_GENERAL_ERR:
      return "general error";
    default:
      return "unknown completion status";
  }
}

const char* eventTypeStr(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      return "CQ error";
    case IBV_EVENT_QP_FATAL:
      return "QP fatal error";
    case IBV_EVENT_QP_REQ_ERR:
      return "QP request error";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "QP access error";
    case IBV_EVENT_COMM_EST:
      return "communication established";
    case IBV_EVENT_SQ_DRAINED:
      return "send queue drained";
    case IBV_EVENT_PATH_MIG:
      return "path migrated";
    case IBV_EVENT_PATH_MIG_ERR:
      return "path migration failed";
    case IBV_EVENT_DEVICE_FATAL:
      return "device fatal error";
    case IBV_EVENT_PORT_ACTIVE:
      return "port active";
    case IBV_EVENT_PORT_ERR:
      return "port error";
    case IBV_EVENT_LID_CHANGE:
      return "LID changed";
    case IBV_EVENT_PKEY_CHANGE:
      return "P_Key table changed";
    case IBV_EVENT_SM_CHANGE:
      return "subnet manager changed";
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return "last work request reached";
    case IBV_EVENT_CLIENT_REREGISTER:
      return "client re-registration wanted";
    case IBV_EVENT_GID_CHANGE:
      return "GID table changed";
    default:
      return "unknown event";
  }
}

}  // namespace railwise::softdev
