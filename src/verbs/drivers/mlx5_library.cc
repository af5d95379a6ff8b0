#include "verbs/drivers/mlx5_library.h"

#include <mutex>
#include <optional>

#include "base/dynamic_library.h"
#include "base/log.h"

namespace railwise::verbs {
namespace {

struct Mlx5State {
  std::mutex mutex;
  std::string file;
  bool opened = false;
  std::optional<DynamicLibrary> library;
  Mlx5Library table = {};
};

// Never destroyed: NCCL's threads may still run at exit.
Mlx5State& mlx5State() {
  static Mlx5State& it = *new Mlx5State;
  return it;
}

template <typename Function>
void resolveMlx5(const DynamicLibrary& library, const char* symbol, const char* version, Function& function) {
  function = reinterpret_cast<Function>(library.symbol(symbol, version));
}

// The versions are those of rdma-core's libmlx5.map.
void openLocked(Mlx5State& it) {
  it.opened = true;
  if (it.file.empty()) return;
  Outcome<DynamicLibrary> library = DynamicLibrary::open({it.file.c_str()}, DynamicLibrary::Unload::kNever);
  if (!library.ok()) {
    RAILWISE_INFO(log::kInit | log::kNet, "no mlx5 extensions (data-direct, out-of-order receive): %s",
                  library.error().c_str());
    return;
  }
  Mlx5Library& table = it.table;
  resolveMlx5(*library, "mlx5dv_is_supported", "MLX5_1.8", table.is_supported);
  resolveMlx5(*library, "mlx5dv_query_device", "MLX5_1.0", table.query_device);
  resolveMlx5(*library, "mlx5dv_create_qp", "MLX5_1.3", table.create_qp);
  resolveMlx5(*library, "mlx5dv_modify_qp_lag_port", "MLX5_1.14", table.modify_qp_lag_port);
  resolveMlx5(*library, "mlx5dv_reg_dmabuf_mr", "MLX5_1.25", table.reg_dmabuf_mr);
  resolveMlx5(*library, "mlx5dv_get_data_direct_sysfs_path", "MLX5_1.25", table.get_data_direct_sysfs_path);
  it.library.emplace(std::move(*library));
}

}  // namespace

const Mlx5Library& mlx5Library() {
  Mlx5State& it = mlx5State();
  const std::lock_guard lock(it.mutex);
  if (!it.opened) openLocked(it);
  return it.table;
}

void setMlx5Library(const std::string& file) {
  Mlx5State& it = mlx5State();
  const std::lock_guard lock(it.mutex);
  // A thread that was left behind may be in it (keepLoaded()).
  if (file == it.file) return;
  it.table = {};
  it.library.reset();
  it.opened = false;
  it.file = file;
}

}  // namespace railwise::verbs
