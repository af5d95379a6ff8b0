#include "perf/job/bootstrap.h"

#include "perf/job/bootstrap_job.h"

namespace railwise::tools {

std::string Peer::text() const {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + " on host " + host + ")";
}

Result<std::unique_ptr<Bootstrap>> Bootstrap::join(BootstrapOptions options, std::string* error) {
  auto joined = joinJob(options, std::move(options.listener), error);
  if (!joined.ok()) return joined.status();
  return startJob(std::move(options), std::move(*joined), error);
}

Result<std::vector<Bytes>> Bootstrap::gather(const Bytes& mine) {
  if (rank() != 0) {
    RAILWISE_TRY(sendBlock(0, mine));
    return std::vector<Bytes>();
  }
  std::vector<Bytes> blocks = {mine};
  blocks.reserve(static_cast<std::size_t>(size()));
  for (int from = 1; from < size(); ++from) {
    auto block = receiveBlock(from);
    if (!block.ok()) return block.status();
    blocks.push_back(std::move(*block));
  }
  return blocks;
}

Result<Bytes> Bootstrap::scatter(const std::vector<Bytes>& blocks) {
  if (rank() != 0) return receiveBlock(0);
  for (int to = 1; to < size(); ++to) RAILWISE_TRY(sendBlock(to, blocks[static_cast<std::size_t>(to)]));
  return blocks[0];
}

Status Bootstrap::barrier() {
  auto gathered = gather({});
  if (!gathered.ok()) return gathered.status();
  return scatter(std::vector<Bytes>(static_cast<std::size_t>(size()))).status();
}

namespace {

Bytes pack(const std::vector<Bytes>& blocks) {
  ByteWriter writer;
  for (const Bytes& block : blocks) writer.text(toText(block));
  return writer.take();
}

Result<std::vector<Bytes>> unpack(const Bytes& packed, int count) {
  ByteReader reader(packed);
  std::vector<Bytes> blocks;
  blocks.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) blocks.push_back(toBytes(reader.text()));
  if (!reader.ok()) return Status{Code::kRemote};
  return blocks;
}

}  // namespace

Result<std::vector<Bytes>> Bootstrap::allGather(const Bytes& mine) {
  auto rows = gather(mine);
  if (!rows.ok()) return rows.status();
  const Bytes packed = rank() == 0 ? pack(*rows) : Bytes();
  auto all = scatter(std::vector<Bytes>(rank() == 0 ? rows->size() : 0, packed));
  if (!all.ok()) return all.status();
  return unpack(*all, size());
}

Result<std::vector<Bytes>> Bootstrap::exchange(const std::vector<Bytes>& blocks) {
  auto rows = gather(pack(blocks));
  if (!rows.ok()) return rows.status();
  std::vector<Bytes> columns;
  if (rank() == 0) {
    std::vector<std::vector<Bytes>> table;
    for (const Bytes& row : *rows) {
      auto unpacked = unpack(row, size());
      if (!unpacked.ok()) return unpacked.status();
      table.push_back(std::move(*unpacked));
    }
    for (std::size_t to = 0; to < table.size(); ++to) {
      std::vector<Bytes> column;
      column.reserve(table.size());
      for (auto& row : table) column.push_back(std::move(row[to]));
      columns.push_back(pack(column));
    }
  }
  auto mine = scatter(columns);
  if (!mine.ok()) return mine.status();
  return unpack(*mine, size());
}

Status Bootstrap::leave() { return sayGoodbye(); }

}  // namespace railwise::tools
