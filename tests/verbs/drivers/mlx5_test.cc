#include "verbs/drivers/mlx5.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "software_device.h"
#include "sysfs/file_tree.h"
#include "tests/ok.h"
#include "verbs/drivers/fake_mlx5.h"
#include "verbs/drivers/mlx5_library.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace railwise::verbs {
namespace {

constexpr uint32_t kOutOfOrderFlag = 1 << 7;  // MLX5DV_QP_CREATE_OOO_DP

ibv_qp* createOnSoftwareDevice(ibv_context*, ibv_qp_init_attr_ex* attributes) {
  ibv_qp_init_attr init = {};
  init.send_cq = attributes->send_cq;
  init.recv_cq = attributes->recv_cq;
  init.qp_type = attributes->qp_type;
  init.cap = attributes->cap;
  ibv_qp* qp = library().create_qp(attributes->pd, &init);
  attributes->cap = init.cap;
  return qp;
}

test::FakeMlx5& fake() { return test::fakeMlx5(RAILWISE_FAKE_MLX5_PATH); }

// A software device beside the fake libmlx5, whose answers each test chooses.
class Mlx5Test : public testing::Test {
 protected:
  explicit Mlx5Test(const std::string& file = RAILWISE_FAKE_MLX5_PATH) : device_("") {
    fake() = {};
    setMlx5Library(file);
    context_ = device_.open();
    pd_.reset(library().alloc_pd(context_.get()));
    cq_.reset(library().create_cq(context_.get(), 16, nullptr, nullptr, 0));
    config_ = device_.config();
    config_.ib_ooo_rq = 1;
  }
  Result<QueuePair> make(OutOfOrder wish) {
    return createQueuePair(pd_.get(), cq_.get(), *queryPort(context_.get(), 1), config_, {16, 16, 64}, wish);
  }

  test::SoftwareDevice device_;
  Context context_;
  Pd pd_;
  Cq cq_;
  Config config_;
};

class WithoutMlx5 : public Mlx5Test {
 protected:
  WithoutMlx5() : Mlx5Test("libno-such-mlx5.so.1") {}
};

TEST_F(WithoutMlx5, EveryAnswerIsNo) {
  EXPECT_FALSE(isMlx5(context_->device));
  EXPECT_EQ(dataDirectPath(context_.get(), pd_.get()), "");
  EXPECT_EQ(outOfOrderReceives(context_.get(), config_), 0U);
  EXPECT_EQ(registerDataDirect(pd_.get(), 0, 4096, 0, 0, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Mlx5Test, TheSettingNamesTheLibrary) {
  unload();
  Config config = device_.config();
  config.mlx5_library = RAILWISE_FAKE_MLX5_PATH;
  ASSERT_OK(load(config));
  EXPECT_TRUE(isMlx5(context_->device));
  unload();
  EXPECT_FALSE(isMlx5(context_->device));
  ASSERT_OK(load(config));  // for what is destroyed later
}

TEST_F(Mlx5Test, ADataDirectFunctionIsFound) {
  EXPECT_EQ(dataDirectPath(context_.get(), pd_.get()), "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0");
  fake().data_direct_error = ENODEV;
  EXPECT_EQ(dataDirectPath(context_.get(), pd_.get()), "") << "the NIC has none";
  fake().data_direct_error = EIO;
  EXPECT_EQ(dataDirectPath(context_.get(), pd_.get()), "");
  fake() = {};
  fake().supported = false;
  EXPECT_EQ(dataDirectPath(context_.get(), pd_.get()), "") << "another vendor's NIC";
}

TEST_F(Mlx5Test, DataDirectRegistrationsGoThroughIt) {
  fake().reg_dmabuf_mr = library().reg_dmabuf_mr;
  const int fd = memfd_create("dma-buf", 0);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  const Result<Mr> usual = registerDmaBuf(pd_.get(), 4096, 4096, 4096, fd, kDataAccess);
  ASSERT_OK(usual);
  EXPECT_EQ(fake().mlx5_access, -1) << "through ibv_reg_dmabuf_mr";
  const Result<Mr> direct = registerDmaBuf(pd_.get(), 4096, 4096, 4096, fd, kDataAccess, true);
  ASSERT_OK(direct);
  EXPECT_EQ(fake().mlx5_access, 1) << "MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT";
  close(fd);
}

TEST_F(Mlx5Test, OutOfOrderIsForThoseWhoAskAndHaveIt) {
  EXPECT_EQ(outOfOrderReceives(context_.get(), config_), 0U) << "not offered";
  fake().out_of_order_receives = 4096;
  EXPECT_EQ(outOfOrderReceives(context_.get(), config_), 4096U);
  config_.ib_ooo_rq = 0;
  EXPECT_EQ(outOfOrderReceives(context_.get(), config_), 0U) << "not asked for";
}

TEST_F(Mlx5Test, AnOutOfOrderQueuePairIsMade) {
  fake().create_qp = createOnSoftwareDevice;
  for (const OutOfOrder wish : {OutOfOrder::kIfPossible, OutOfOrder::kRequired}) {
    fake().qp_flags = 0;
    const Result<QueuePair> made = make(wish);
    ASSERT_OK(made);
    EXPECT_TRUE(made->out_of_order);
    EXPECT_GE(made->inline_bytes, 64U);
    EXPECT_EQ(fake().qp_flags, kOutOfOrderFlag);
    EXPECT_EQ(fake().qp_mask, 1U) << "MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS";
  }
  const Result<QueuePair> usual = make(OutOfOrder::kNo);
  ASSERT_OK(usual);
  EXPECT_FALSE(usual->out_of_order);
}

TEST_F(Mlx5Test, APortHasSeveralNetworkPortsWhereThereIsABond) {
  Port port = *queryPort(context_.get(), 1);
  const std::string ndev = std::string("/sys/class/infiniband/") + library().get_device_name(context_->device) +
                           "/ports/1/gid_attrs/ndevs/0";
  sysfs::MemoryTree bond;
  bond.file(ndev, "bond0\n").file("/sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
  sysfs::MemoryTree none;
  none.file(ndev, "eth0\n").file("/sys/class/net/eth0/mtu", "9000\n");
  port.ethernet = true;
  EXPECT_EQ(lagPorts(context_.get(), port, bond), 1) << "the driver does not tell";
  fake().lag_ports = 2;
  EXPECT_EQ(lagPorts(context_.get(), port, bond), 2);
  EXPECT_EQ(lagPorts(context_.get(), port, none), 1) << "two ports, each by itself";
  EXPECT_EQ(lagPorts(context_.get(), port, sysfs::MemoryTree()), 1);
  port.ethernet = false;
  EXPECT_EQ(lagPorts(context_.get(), port, bond), 1) << "InfiniBand";
}

TEST_F(Mlx5Test, ADeviceThatRefusesGetsTheUsualQueuePair) {
  const Result<QueuePair> usual = make(OutOfOrder::kIfPossible);
  ASSERT_OK(usual);
  EXPECT_FALSE(usual->out_of_order);
  EXPECT_EQ(make(OutOfOrder::kRequired).status().sys_errno, EOPNOTSUPP) << "the peer's is out of order";
}

}  // namespace
}  // namespace railwise::verbs
