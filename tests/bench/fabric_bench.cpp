// Collectives among threads of one process beside one thread's memcpy of the same bytes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/in_process.hpp"
#include "tests/fabric/mailbox.hpp"

namespace {

using namespace troupe;
using fabric::operation;

constexpr uint64_t start = ~uint64_t{0};
constexpr uint64_t stop = start - 1;

/// One rank with its own thread and mailbox; posts one operation per `start` message.
struct member {
  tests::mailbox box;
  std::unique_ptr<fabric::communicator> communicator;
  fabric::request request;
  uint64_t starts = 0;  ///< that came while an operation was unfinished
  bool posted = false;

  /// Returns false when told to stop.
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

void collective(benchmark::State& state, operation op) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const auto bytes = static_cast<uint64_t>(state.range(1));
  const uint64_t count = bytes / sizeof(float);
  std::vector<fabric::piece> pieces;
  for (uint32_t r = 0; r < ranks; ++r) {
    const uint64_t first = count * r / ranks;
    const uint64_t last = count * (r + 1) / ranks;
    pieces.push_back({r, first, op == operation::reduce_scatter ? 0 : first, last - first});
  }
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
  for (auto _ : state) {
    for (member& m : members) m.box.push(start);
    benchmark::DoNotOptimize(members[0].run_one());
  }
  for (uint32_t r = 1; r < ranks; ++r) members[r].box.push(stop);
  for (auto& t : threads) t.join();
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

/// The machine may be busy, so the least of many repetitions counts.
void many(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.05)->Repetitions(15)->ReportAggregatesOnly();
  b->ComputeStatistics("least", least);
}

constexpr int64_t big = 64 << 20;
constexpr int64_t tiny = 4 << 10;
BENCHMARK(copy)->Arg(big)->Apply(many);
BENCHMARK_CAPTURE(collective, all_reduce, operation::all_reduce)
    ->Args({2, big})
    ->Args({4, big})
    ->Args({2, tiny})
    ->Apply(many);
BENCHMARK_CAPTURE(collective, reduce_scatter, operation::reduce_scatter)->Args({2, big})->Apply(many);
BENCHMARK_CAPTURE(collective, all_gather, operation::all_gather)->Args({2, big})->Args({2, tiny})->Apply(many);

}  // namespace
