// Measures collectives among threads of one process, and among processes, compared with one thread's memcpy of the same
// bytes.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/in_process.hpp"
#include "fabric/shared/group.hpp"
#include "tests/fabric/mailbox.hpp"
#include "tests/fabric/shared_vector.hpp"

namespace {

using namespace troupe;
using fabric::operation;

constexpr uint64_t start = ~uint64_t{0};
constexpr uint64_t stop = start - 1;

/// One rank with a thread and a mailbox of its own; posts one operation for each `start` message.
struct member {
  tests::mailbox box;
  std::unique_ptr<fabric::communicator> communicator;
  fabric::request request;
  uint64_t starts = 0;  ///< number of start messages that arrived during an operation
  bool posted = false;

  /// Runs one operation. Returns false if it receives a stop message instead.
  bool run_one() {
    while (true) {
      if (!posted && starts > 0) {
        --starts;
        posted = true;
        if (!communicator->post(request)) std::abort();
      } else {
        const uint64_t message = *box.pop();
        if (message == stop) return false;
        if (message == start) ++starts;
        if (message != request.id.sequence) continue;
      }
      if (posted && communicator->advance(request.id.sequence).value() == fabric::progress::done) {
        ++request.id.sequence;
        posted = false;
        return true;
      }
    }
  }
};

/// Returns the ranks' pieces of `count` elements for the operation, all of equal size.
std::vector<fabric::piece> even_pieces(operation op, uint32_t ranks, uint64_t count) {
  std::vector<fabric::piece> out;
  for (uint32_t r = 0; r < ranks; ++r) {
    const uint64_t first = count * r / ranks;
    const uint64_t last = count * (r + 1) / ranks;
    out.push_back({r, first, op == operation::reduce_scatter ? 0 : first, last - first});
  }
  return out;
}

void collective(benchmark::State& state, operation op) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const auto bytes = static_cast<uint64_t>(state.range(1));
  const uint64_t count = bytes / sizeof(float);
  const auto pieces = even_pieces(op, ranks, count);
  std::vector<std::vector<float>> inputs(ranks, std::vector<float>(count, 1e-30F));
  std::vector<std::vector<float>> outputs(ranks, std::vector<float>(count));
  auto group = fabric::in_process_group::make(ranks);
  std::vector<member> members(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    member& m = members[r];
    m.communicator = group->join(r, [&m](uint64_t sequence) { m.box.push(sequence); });
    m.request.op = op;
    m.request.pieces = pieces;
    m.request.input = reinterpret_cast<const std::byte*>(inputs[r].data());
    m.request.output = reinterpret_cast<std::byte*>(op == operation::all_reduce ? inputs[r].data() : outputs[r].data());
  }
  std::vector<std::thread> threads;
  for (uint32_t r = 1; r < ranks; ++r)
    threads.emplace_back([&m = members[r]] {
      while (m.run_one()) continue;
    });
  const auto all = [&] {
    for (member& m : members) m.box.push(start);
    return members[0].run_one();
  };
  all();  // one operation is run before the measurement
  for (auto _ : state) benchmark::DoNotOptimize(all());
  for (uint32_t r = 1; r < ranks; ++r) members[r].box.push(stop);
  for (auto& t : threads) t.join();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

/// One rank in a process of its own, which is woken through a descriptor.
struct process_member {
  std::shared_ptr<fabric::shared_group> group;
  std::unique_ptr<fabric::communicator> communicator;
  fabric::request request;
  int ring;

  /// Runs one operation. Returns false if the communicator has ended.
  bool run_one() {
    if (!communicator->post(request)) return false;
    while (true) {
      const auto now = communicator->advance(request.id.sequence);
      if (!now) return false;
      if (*now == fabric::progress::done) break;
      pollfd wait{ring, POLLIN, 0};
      ::poll(&wait, 1, -1);
      eventfd_t count = 0;
      ::eventfd_read(ring, &count);
    }
    ++request.id.sequence;
    return true;
  }
};

void between_processes(benchmark::State& state, operation op) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const auto bytes = static_cast<uint64_t>(state.range(1));
  const uint64_t count = bytes / sizeof(float);
  const auto pieces = even_pieces(op, ranks, count);
  const fabric::board_shape shape{ranks, 64};
  tests::shared_vector<std::byte> board(fabric::board::bytes_of(shape));
  std::vector<tests::shared_vector<float>> inputs(ranks, tests::shared_vector<float>(count, 1e-30F));
  std::vector<tests::shared_vector<float>> outputs(ranks, tests::shared_vector<float>(count));
  std::vector<int> rings;
  for (uint32_t r = 0; r < ranks; ++r) rings.push_back(::eventfd(0, EFD_NONBLOCK));
  const auto begin = [&](uint32_t r) {
    process_member m;
    m.group = fabric::shared_group::make(board, shape, tests::same_addresses(),
                                         [&rings](uint32_t other) { ::eventfd_write(rings[other], 1); });
    m.communicator = m.group->join(r, {});
    m.request.op = op;
    m.request.pieces = pieces;
    m.request.input = reinterpret_cast<const std::byte*>(inputs[r].data());
    m.request.output = reinterpret_cast<std::byte*>(op == operation::all_reduce ? inputs[r].data() : outputs[r].data());
    m.ring = rings[r];
    return m;
  };
  std::vector<pid_t> children;
  for (uint32_t r = 1; r < ranks; ++r) {
    const pid_t child = ::fork();
    if (child == 0) {
      process_member m = begin(r);
      while (m.run_one()) continue;
      ::_exit(0);
    }
    children.push_back(child);
  }
  {
    process_member first = begin(0);
    first.run_one();  // each process maps memory pages when it first touches them
    for (auto _ : state) benchmark::DoNotOptimize(first.run_one());
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (const int ring : rings) ::close(ring);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

double least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

/// Requests many repetitions, of which the fastest counts, because the machine may be busy.
void many(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.05)->Repetitions(15)->ReportAggregatesOnly();
  b->ComputeStatistics("least", least);
}

constexpr int64_t big = 64 << 20;
constexpr int64_t tiny = 4 << 10;
BENCHMARK(copy)->Arg(big)->Apply(many);
void sizes(benchmark::internal::Benchmark* b) {
  for (const int64_t ranks : {2, 4})
    for (const int64_t bytes : {tiny, int64_t{1} << 20, int64_t{16} << 20, big}) b->Args({ranks, bytes});
  many(b);
}
BENCHMARK_CAPTURE(collective, all_reduce, operation::all_reduce)->Apply(sizes);
BENCHMARK_CAPTURE(between_processes, all_reduce, operation::all_reduce)->Apply(sizes);
BENCHMARK_CAPTURE(collective, reduce_scatter, operation::reduce_scatter)->Apply(sizes);
BENCHMARK_CAPTURE(between_processes, reduce_scatter, operation::reduce_scatter)->Apply(sizes);
BENCHMARK_CAPTURE(collective, all_gather, operation::all_gather)->Apply(sizes);
BENCHMARK_CAPTURE(between_processes, all_gather, operation::all_gather)->Apply(sizes);

}  // namespace
