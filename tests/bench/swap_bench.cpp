// Measures the cost of digests in a swap queue: equal requests over two files, one with checksums and one without, in
// turn.
//   bench_swap [FOLDER [MIB [ROUNDS]]]
// Both files are written once before, so that all writes go to existing blocks. Four requests are in flight, as windows
// are in a step. All runs are listed; the ratio is that of the medians of write + read.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/swap/swap_queue.hpp"
#include "storage/swap/swap_space.hpp"

namespace {

using namespace troupe;
using namespace troupe::storage;

constexpr uint64_t windows = 4;

template <class T>
T must(core::result<T> r) {
  if (r) return std::move(*r);
  std::fprintf(stderr, "bench_swap: %s\n", r.error().text.c_str());
  std::exit(1);
}

std::shared_ptr<swap_space> space_of(const std::filesystem::path& folder, uint64_t bytes, bool checksums) {
  swap_options options;
  options.folder = folder;
  options.wanted = {{"the benchmark's file", bytes}};
  options.checksums = checksums;
  return must(swap_space::open(options));
}

// Transfers the whole file in requests of one window each and returns the duration in seconds.
double pass(swap_queue& queue, const std::shared_ptr<swap_file>& on, io_kind kind, std::span<std::byte> memory) {
  const uint64_t window = memory.size() / windows;
  std::vector<swap_completion> over;
  uint64_t next = 0;
  const int64_t from = core::now_ns();
  while (next < on->bytes() || queue.pending() > 0) {
    while (next < on->bytes() && queue.pending() < windows) {
      const uint64_t length = std::min(window, on->bytes() - next);
      const auto begun =
          queue.submit({kind, {{on, next, memory.subspan(next / window % windows * window, length)}}, 0});
      if (!begun) must<int>(core::fail(begun.error()));
      next += length;
    }
    queue.wait(over);
  }
  const int64_t ns = core::now_ns() - from;
  for (const auto& c : over)
    if (c.error) must<int>(core::fail(*c.error));
  return static_cast<double>(ns) / 1e9;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Returns the rate of computing digests without I/O, over memory larger than any cache.
double digest_rate(std::span<const std::byte> memory) {
  std::vector<uint64_t> into(memory.size() / swap_page_bytes);
  const int64_t from = core::now_ns();
  page_digests(memory, into);
  return static_cast<double>(memory.size()) / static_cast<double>(core::now_ns() - from);
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : std::filesystem::temp_directory_path();
  const uint64_t bytes = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024) << 20;
  const unsigned rounds = argc > 3 ? static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)) : 5;
  if (bytes == 0 || rounds == 0) {
    std::fprintf(stderr, "usage: bench_swap [FOLDER [MIB [ROUNDS]]]\n");
    return 2;
  }
  const std::string name = fmt::format("troupe-bench-{}", ::getpid());
  const auto plain_space = space_of(folder / (name + "-plain"), bytes, false);
  const auto digest_space = space_of(folder / (name + "-digests"), bytes, true);
  const std::shared_ptr<swap_file> files[2] = {must(plain_space->create("file", bytes)),
                                               must(digest_space->create("file", bytes))};
  for (const auto& r : digest_space->remarks()) std::printf("%s\n", r.c_str());
  const auto pool = must(huge_memory::allocate(std::min<uint64_t>(bytes, 256 << 20)));
  const std::span memory(pool.data(), pool.bytes());
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 131 + (i >> 9));
  swap_queue_options options;
  options.pools = {memory};
  const auto queue = must(swap_queue::open(options));
  for (const auto& r : queue->remarks()) std::printf("%s\n", r.c_str());
  const auto gigabytes = static_cast<double>(bytes) / 1e9;
  std::printf("%s, %llu MiB, blocks of %llu KiB, %u in flight; XXH3 of pages: %.1f GB/s\n", queue->name().c_str(),
              static_cast<unsigned long long>(bytes >> 20), static_cast<unsigned long long>(options.block_bytes >> 10),
              options.depth, digest_rate(memory));
  std::vector<double> both[2];
  for (unsigned round = 0; round <= rounds; ++round)
    for (const int digests : {0, 1}) {
      const int64_t before = queue->counters().digest_ns;
      const double write = pass(*queue, files[digests], io_kind::write, memory);
      const double read = pass(*queue, files[digests], io_kind::read, memory);
      const auto spent = static_cast<double>(queue->counters().digest_ns - before) / 1e9;
      if (round == 0) continue;
      both[digests].push_back(write + read);
      std::printf("%-8s write %5.2f GB/s  read %5.2f GB/s  digests %4.1f %% of the thread's time\n",
                  digests == 0 ? "plain" : "digests", gigabytes / write, gigabytes / read,
                  100 * spent / (write + read));
    }
  std::printf("with digests ÷ without, median of write + read: %.3f\n", median(both[1]) / median(both[0]));
  return 0;
}
