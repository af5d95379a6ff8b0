// All ranks of one host in one process, a thread for each GPU: makes a communicator, and sends to all ranks
// of other hosts, so that NCCL connects every channel. What NCCL says of the machine meanwhile is in its log
// (topology_check.py). Starts faster than a process for each rank.
//
//   nccl_host_of_ranks --first RANK --gpus N --ranks N --id FILE [--gpu G] [--within 1]
//
// The host has the ranks from `first` on, one for each GPU; with --gpu the process plays only that GPU's.
// With --within 1 the ranks also send to the other ranks of their host.
// FILE: a path that all hosts see and that no earlier job has used. Exit status: 0 all right, 1 something was
// wrong, 2 a mistake on the command line, 3 it did not end.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "communicator.h"
#include "rank.h"

namespace {

// Every rank sends its number and the receiver's.
int wordOf(int sender, int receiver) { return sender * options.ranks + receiver + 1; }

// A word to and from all these ranks. Stops if something else arrives.
void sendTo(const std::vector<int>& peers, ncclComm_t comm, cudaStream_t stream, int rank) {
  if (peers.empty()) return;
  const DeviceMemory from(peers.size() * sizeof(int));
  const DeviceMemory to(peers.size() * sizeof(int));
  std::vector<int> words(peers.size());
  for (std::size_t i = 0; i < peers.size(); ++i) words[i] = wordOf(rank, peers[i]);
  MUST(cudaMemcpy(from.at(), words.data(), words.size() * sizeof(int), cudaMemcpyHostToDevice));
  MUST(ncclGroupStart());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    MUST(ncclSend(from.at(i * sizeof(int)), 1, ncclInt32, peers[i], comm, stream));
    MUST(ncclRecv(to.at(i * sizeof(int)), 1, ncclInt32, peers[i], comm, stream));
  }
  MUST(ncclGroupEnd());
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaMemcpy(words.data(), to.at(), words.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (words[i] != wordOf(peers[i], rank))
      stop(1, "rank " + std::to_string(rank) + " got a wrong word of rank " + std::to_string(peers[i]));
  }
}

struct Host {
  int first = -1;  // rank of its first GPU
  int gpus = 0;
  int only = -1;   // the GPU that this process plays; -1: all
  int within = 0;  // 1: ranks of this host send to each other too
};

std::vector<int> peersOf(int rank, const Host& host) {
  std::vector<int> peers;
  for (int peer = 0; peer < options.ranks; ++peer) {
    const bool here = peer >= host.first && peer < host.first + host.gpus;
    if (peer != rank && (!here || host.within != 0)) peers.push_back(peer);
  }
  return peers;
}

void play(const ncclUniqueId& id, const Host& host, int gpu) {
  MUST(cudaSetDevice(gpu));
  const int rank = host.first + gpu;
  ncclComm_t comm = nullptr;
  MUST(ncclCommInitRank(&comm, options.ranks, id, rank));
  beginCheck("sends");
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  sendTo(peersOf(rank, host), comm, stream, rank);
  beginCheck("the end");
  MUST(cudaStreamDestroy(stream));
  MUST(ncclCommDestroy(comm));
}

bool parse(int count, char** words, Host* host) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string word = words[i];
    const char* const value = words[i + 1];
    if (word == "--first") host->first = std::atoi(value);
    else if (word == "--gpus") host->gpus = std::atoi(value);
    else if (word == "--gpu") host->only = std::atoi(value);
    else if (word == "--within") host->within = std::atoi(value);
    else if (word == "--ranks") options.ranks = std::atoi(value);
    else if (word == "--id") options.id = value;
    else return false;
  }
  return count % 2 == 1 && host->first >= 0 && host->gpus > 0 && host->only < host->gpus &&
         host->first + host->gpus <= options.ranks && !options.id.empty();
}

}  // namespace

int main(int count, char** words) {
  Host host;
  if (!parse(count, words, &host)) {
    std::fputs("usage: nccl_host_of_ranks --first RANK --gpus N --ranks N --id FILE [--gpu G] [--within 1]\n",
               stderr);
    return 2;
  }
  beginCheck("the communicator");
  watchChecks();
  options.rank = host.first + std::max(host.only, 0);  // the process of rank 0 makes the unique id
  const ncclUniqueId id = meet("host");
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < host.gpus; ++gpu) {
    if (host.only < 0 || gpu == host.only) threads.emplace_back(play, id, host, gpu);
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("ok\n");
  return 0;
}
