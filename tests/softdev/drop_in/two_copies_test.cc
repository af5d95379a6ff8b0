// The drop-in, and the device that is linked into a program (the command's), in one process: two copies of
// the same code, each with its own attachment to one fabric. A process that has loaded the plugin's library
// and the drop-in is like this too. The copies must not take each other for themselves: data go from one to
// the other, and either may leave first.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "softdev/control/control.h"
#include "softdev/drop_in/fabric.h"
#include "softdev/drop_in/opened.h"
#include "softdev/faults/faults.h"
#include "softdev/queues/objects.h"
#include "softdev/softdev.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::drop_in::test {
namespace {

// The calls that differ between the copies.
struct Copy {
  decltype(&softdev::allocPd) alloc_pd;
  decltype(&softdev::deallocPd) dealloc_pd;
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, size_t length, int access);
  decltype(&softdev::deregMr) dereg_mr;
  decltype(&softdev::createCq) create_cq;
  decltype(&softdev::destroyCq) destroy_cq;
  decltype(&softdev::createQp) create_qp;
  decltype(&softdev::modifyQp) modify_qp;
  decltype(&softdev::destroyQp) destroy_qp;
};

const Copy kBuiltIn = {softdev::allocPd,  softdev::deallocPd, softdev::regMr,
                       softdev::deregMr,  softdev::createCq,  softdev::destroyCq,
                       softdev::createQp, softdev::modifyQp,  softdev::destroyQp};
const Copy kDropIn = {ibv_alloc_pd,   ibv_dealloc_pd, (ibv_reg_mr),  ibv_dereg_mr,  ibv_create_cq,
                      ibv_destroy_cq, ibv_create_qp,  ibv_modify_qp, ibv_destroy_qp};

struct End {
  End(const Copy& calls, ibv_context* context) : copy(calls), buffer(4096) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    lid = port.lid;
    pd = copy.alloc_pd(context);
    cq = copy.create_cq(context, 16, nullptr, nullptr, 0);
    mr = copy.reg_mr(pd, buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {8, 8, 1, 1, 0};
    qp = copy.create_qp(pd, &init);
    EXPECT_NE(qp, nullptr);
  }
  ~End() {
    EXPECT_EQ(copy.destroy_qp(qp), 0);
    EXPECT_EQ(copy.destroy_cq(cq), 0);
    EXPECT_EQ(copy.dereg_mr(mr), 0);
    EXPECT_EQ(copy.dealloc_pd(pd), 0);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void connect(const End& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    ASSERT_EQ(copy.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = 1;
    attr.max_dest_rd_atomic = 1;
    ASSERT_EQ(copy.modify_qp(qp, &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    ASSERT_EQ(copy.modify_qp(qp, &attr,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  void writeTo(const End& peer, char letter) {
    std::memset(buffer.data(), letter, buffer.size());
    ibv_sge sge{reinterpret_cast<uintptr_t>(buffer.data()), static_cast<uint32_t>(buffer.size()), mr->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(peer.buffer.data());
    wr.wr.rdma.rkey = peer.mr->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    ibv_wc wc{};
    for (railwise::test::Patience patience; ibv_poll_cq(cq, 1, &wc) == 0; patience.again()) {
    }
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(peer.buffer, buffer);
  }

  const Copy& copy;
  std::vector<char> buffer;
  uint16_t lid = 0;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_mr* mr;
  ibv_qp* qp;
};

ibv_context* openBuiltIn() {
  EXPECT_OK(softdev::configure(devicesText().c_str()));
  ibv_device** list = softdev::getDeviceList(nullptr);
  ibv_context* context = softdev::openDevice(list[0]);
  softdev::freeDeviceList(list);
  EXPECT_NE(context, nullptr);
  return context;
}

void exchange(ibv_context* dropped_in, ibv_context* built_in) {
  End mine(kDropIn, dropped_in);
  End theirs(kBuiltIn, built_in);
  mine.connect(theirs);
  theirs.connect(mine);
  mine.writeTo(theirs, 'a');
  theirs.writeTo(mine, 'b');
}

TEST(FrontTwoCopies, ExchangeDataInOneProcess) {
  ibv_context* built_in = openBuiltIn();
  {
    Opened dropped_in("soft0");
    exchange(dropped_in, built_in);
  }
  // One has left; the other goes on, and the first may come back.
  Opened again("soft0");
  exchange(again, built_in);
  EXPECT_EQ(softdev::closeDevice(built_in), 0);
  built_in = openBuiltIn();
  exchange(again, built_in);
  EXPECT_EQ(softdev::closeDevice(built_in), 0);
}

TEST(FrontTwoCopies, CloseWaitsForNoEventAndNoRule) {
  ibv_context* built_in = openBuiltIn();
  softdev::Fabric& fabric = *softdev::as<softdev::Context>(built_in).fabric;
  {
    Opened device("soft0");
    static ibv_pd* pd;  // reachable: the leak checker sees a leak otherwise, as it is
    pd = ibv_alloc_pd(device);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
    init.qp_type = IBV_QPT_RC;
    init.cap = {8, 8, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr);
    for (const char* text : {"verb=query_qp nth=1 event=qp_fatal", "verb=destroy_qp errno=EBUSY"}) {
      const auto rule = softdev::parseFaultRule(text);
      ASSERT_OK(rule);
      ASSERT_OK(softdev::addFault(fabric, *rule));
    }
    ibv_qp_attr attr{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(device, &event), 0);  // never acknowledged
    EXPECT_EQ(event.element.qp, qp);
    EXPECT_EQ(ibv_destroy_qp(qp), EBUSY);
    EXPECT_EQ(softdev::listCounts(fabric, softdev::CountsBy::kQp).size(), 1U);
  }
  EXPECT_TRUE(softdev::listCounts(fabric, softdev::CountsBy::kQp).empty());
  softdev::clearFaults(fabric);
  EXPECT_EQ(softdev::closeDevice(built_in), 0);
}

}  // namespace
}  // namespace railwise::drop_in::test
