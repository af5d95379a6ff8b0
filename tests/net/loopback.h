// Writes and reads whose keys a test chooses, and a queue pair that is connected to itself.
#pragma once

#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/wait.h"
#include "verbs/queue_pair.h"

namespace railwise::test {

// Posts it behind the plugin's back, and takes the completion.
inline ibv_wc_status operate(ibv_qp* qp, ibv_wr_opcode opcode, ibv_sge own, uint64_t to, uint32_t key) {
  ibv_send_wr work = {};
  work.sg_list = &own;
  work.num_sge = 1;
  work.opcode = opcode;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma = {to, key};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &work, &bad), 0);
  ibv_wc completion = {};
  for (Patience patience; ibv_poll_cq(qp->send_cq, 1, &completion) == 0; patience.again()) {
  }
  return completion.status;
}

class Loopback {
 public:
  Loopback(ibv_context* context, ibv_pd* pd, const Config& config)
      : cq_(verbs::library().create_cq(context, 4, nullptr, nullptr, 0)) {
    const verbs::Port port = *verbs::queryPort(context, 1);
    const verbs::Gid gid = *verbs::chooseGid(context, port, config);
    qp_ = std::move(verbs::createQueuePair(pd, cq_.get(), port, config, {4, 4, 0})->qp);
    const verbs::PathAddress self{qp_->qp_num, port.lid, port.ethernet, port.mtu, gid.value};
    EXPECT_OK(verbs::readyToReceive(qp_.get(), port, self, {gid, 0, 0}));
    EXPECT_OK(verbs::readyToSend(qp_.get(), port, config));
  }

  // An RDMA write, waited for. After a failure the queue pair is of no more use.
  ibv_wc_status write(uint64_t from, uint32_t local_key, uint64_t to, uint32_t remote_key, uint32_t bytes) {
    return operate(qp_.get(), IBV_WR_RDMA_WRITE, {from, bytes, local_key}, to, remote_key);
  }

 private:
  verbs::Cq cq_;
  verbs::Qp qp_;
};

}  // namespace railwise::test
