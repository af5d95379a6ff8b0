// The tables of one-sided communication: ncclRmaPlugin_v13 to _v16 and ncclGinPlugin_v11 to _v16. NCCL looks
// for them in the library of the net plugin and takes the newest, so the spy has exactly those that the
// plugin behind it has (indirect functions, as in tables.cc). All objects are the plugin's own. An RMA table
// is a copy of the plugin's in which puts and gets are counted; a GIN table is the plugin's own, and nothing
// of it is counted.
#include <tuple>
#include <type_traits>

#include "nccl/rma_v13.h"
#include "nccl/rma_v14.h"
#include "nccl/rma_v15.h"
#include "nccl/rma_v16.h"
#include "record/writer.h"
#include "spy/border.h"
#include "spy/spy.h"

namespace railwise::spy {
namespace {

template <typename Table>
const Table* g_its = nullptr;  // the plugin's own table
template <typename Table>
Table g_counting = {};

enum class Operation : uint8_t { kPut, kPutSignal, kGet };

void countOperation(Operation operation, std::size_t bytes, const Call& call) {
  constexpr Function kFunctionOf[] = {Function::kIput, Function::kIputSignal, Function::kIget};
  Registry::get().count(kFunctionOf[static_cast<std::size_t>(operation)], call);
  if (call.result != ncclSuccess) return;
  record::OneSidedTotals done = {};
  const bool gets = operation == Operation::kGet;
  (gets ? done.gets : done.puts) = 1;
  (gets ? done.get_bytes : done.put_bytes) = bytes;
  done.signals_sent = operation == Operation::kPutSignal ? 1 : 0;
  Registry::get().addOneSided(done);
  record::addOneSided(done);
}

// Calls member `kMember` of the plugin's table. All versions have the size in the same place.
template <typename Table, auto kMember, Operation kOperation,
          typename Signature = std::remove_cvref_t<decltype(std::declval<Table>().*kMember)>>
struct Counted;
template <typename Table, auto kMember, Operation kOperation, typename... Arguments>
struct Counted<Table, kMember, kOperation, ncclResult_t (*)(Arguments...)> {
  static ncclResult_t call(Arguments... arguments) {
    constexpr std::size_t kSize = 4;
    static_assert(std::is_same_v<std::tuple_element_t<kSize, std::tuple<Arguments...>>, std::size_t>);
    const Call made = timed([&] { return (g_its<Table>->*kMember)(arguments...); });
    const std::size_t bytes = std::get<kSize>(std::tie(arguments...));
    (void)guarded("one-sided", [&] { return countOperation(kOperation, bytes, made), ncclSuccess; });
    return made.result;
  }
};

// The network may be another one (NCCL_RMA_PLUGIN): then no other init tells the spy of the job.
template <typename Table, int kVersion>
ncclResult_t init(void** context, uint64_t communicator, ncclDebugLogger_t logger) {
  if (apiInUse() == 0)
    (void)guarded("init", [&] { return begin(logger, g_its<Table>->name, kVersion), ncclSuccess; });
  return counted(Function::kInit, [&] { return g_its<Table>->init(context, communicator, logger); });
}

template <typename Table, int kVersion>
void* rmaTableOf() {
  if (askedByItself()) return nullptr;
  const void* const its = inner().rma[kVersion];
  if (its == nullptr) return nullptr;
  if (g_its<Table> != nullptr) return &g_counting<Table>;
  Table& table = g_counting<Table>;
  table = *static_cast<const Table*>(its);
  g_its<Table> = static_cast<const Table*>(its);
  if (table.init != nullptr) table.init = init<Table, kVersion>;
  if (table.iput != nullptr) table.iput = Counted<Table, &Table::iput, Operation::kPut>::call;
  if (table.iputSignal != nullptr)
    table.iputSignal = Counted<Table, &Table::iputSignal, Operation::kPutSignal>::call;
  if (table.iget != nullptr) table.iget = Counted<Table, &Table::iget, Operation::kGet>::call;
  return &table;
}

void* ginTableOf(int version) {
  return askedByItself() ? nullptr : const_cast<void*>(inner().gin[static_cast<std::size_t>(version)]);
}

}  // namespace
}  // namespace railwise::spy

#define RAILWISE_SPY_ONE_SIDED(kind, version, ...)                                   \
  extern "C" {                                                                       \
  void (*railwiseSpy##kind##version())() {                                           \
    return reinterpret_cast<void (*)()>(railwise::spy::__VA_ARGS__);                 \
  }                                                                                  \
  [[gnu::visibility("default"),                                                      \
    gnu::ifunc("railwiseSpy" #kind #version)]] void nccl##kind##Plugin_v##version(); \
  }
RAILWISE_SPY_ONE_SIDED(Rma, 13, rmaTableOf<ncclRma_v13_t, 13>())
RAILWISE_SPY_ONE_SIDED(Rma, 14, rmaTableOf<ncclRma_v14_t, 14>())
RAILWISE_SPY_ONE_SIDED(Rma, 15, rmaTableOf<ncclRma_v15_t, 15>())
RAILWISE_SPY_ONE_SIDED(Rma, 16, rmaTableOf<ncclRma_v16_t, 16>())
RAILWISE_SPY_ONE_SIDED(Gin, 11, ginTableOf(11))
RAILWISE_SPY_ONE_SIDED(Gin, 12, ginTableOf(12))
RAILWISE_SPY_ONE_SIDED(Gin, 13, ginTableOf(13))
RAILWISE_SPY_ONE_SIDED(Gin, 14, ginTableOf(14))
RAILWISE_SPY_ONE_SIDED(Gin, 15, ginTableOf(15))
RAILWISE_SPY_ONE_SIDED(Gin, 16, ginTableOf(16))
