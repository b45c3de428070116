// Sequential reads and writes of 1 MiB blocks through both queues of storage/, beside fio on the same file.
//   bench_storage [FOLDER [MIB]]
// The file is written once before; writes go over it. Direct writes are timed until the last completion, as fio does
// it; buffered ones until they are on the disk. Reads start with the file out of the page cache. All runs are listed:
// disks have good and bad minutes, so the contenders take turns and nothing is averaged away.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "storage/io_queue.hpp"
#include "storage/staging_pool.hpp"
#include "tests/bench/fio.hpp"

namespace {

using namespace troupe;
using namespace troupe::storage;

constexpr uint64_t block_bytes = uint64_t{1} << 20;
constexpr unsigned depth_max = 32;
constexpr unsigned rounds = 5;

// The scratch file and the set-aside pages are given back when somebody interrupts, or closes the output, too.
volatile std::sig_atomic_t interrupted = 0;

[[noreturn]] void give_up(const core::error& e) { throw std::runtime_error(e.text); }

template <class T>
T must(core::result<T> r) {
  if (!r) give_up(r.error());
  return std::move(*r);
}

struct scratch {
  std::filesystem::path path;
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

struct place {
  std::filesystem::path path;
  uint64_t bytes;
};

void drop_cache(const file& f) { ::posix_fadvise(f.descriptor(), 0, 0, POSIX_FADV_DONTNEED); }

/// GB/s of one pass over the file.
double pass(queue_engine engine, const place& where, io_kind kind, file_mode mode, unsigned depth, staging_pool& pool) {
  if (interrupted != 0) give_up({core::error_kind::stopped, "interrupted"});
  io_queue_options options;
  options.engine = engine;
  options.depth = depth;
  options.threads = depth;
  options.pools = {pool.memory()};
  const auto queue = must(make_queue(options));
  const file f = must(file::open(where.path, file_access::read_write, mode));
  queue->keep(f);
  if (kind == io_kind::read) drop_cache(f);
  std::vector<staging_pool::lease> blocks;
  std::vector<uint64_t> idle;
  for (uint64_t i = 0; i < depth; ++i) {
    blocks.push_back(pool.take());
    idle.push_back(i);
  }
  std::vector<io_completion> over;
  std::vector<io_request> batch;
  const int64_t start = core::now_ns();
  for (uint64_t next = 0; next < where.bytes || queue->in_flight() > 0;) {
    batch.clear();
    for (; next < where.bytes && !idle.empty(); next += block_bytes) {
      const auto memory = blocks[idle.back()].memory();
      batch.push_back(kind == io_kind::read ? read_request(f, next, memory, idle.back())
                                            : write_request(f, next, memory, idle.back()));
      idle.pop_back();
    }
    if (auto begun = queue->submit(batch); !begun) give_up(begun.error());
    over.clear();
    queue->wait(over);
    for (const auto& c : over) {
      if (c.error) give_up(*c.error);
      idle.push_back(c.token);
    }
  }
  if (kind == io_kind::write && mode == file_mode::buffered)
    if (auto synced = f.sync(); !synced) give_up(synced.error());
  const auto ns = static_cast<double>(core::now_ns() - start);
  if (kind == io_kind::write)
    if (auto synced = f.sync(); !synced) give_up(synced.error());
  return static_cast<double>(where.bytes) / ns;
}

const char* fio_kind(io_kind kind) { return kind == io_kind::read ? "read" : "write"; }

void print(const char* who, std::vector<double> runs) {
  if (runs.empty()) return;
  std::printf("    %-9s", who);
  for (const double r : runs) std::printf(" %6.2f", r);
  std::sort(runs.begin(), runs.end());
  std::printf("   median %.2f\n", runs[runs.size() / 2]);
}

int run(int argc, char** argv) {
  const bool given = argc > 1 && argv[1][0] != '-';
  const std::filesystem::path folder = given ? std::filesystem::path(argv[1]) : std::filesystem::temp_directory_path();
  const uint64_t mebibytes = given && argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512;
  std::string name = (folder / "troupe-bench-XXXXXX").string();
  const int made = ::mkstemp(name.data());
  if (made < 0 || mebibytes == 0) {
    std::fprintf(stderr, "bench_storage: wanted a folder to write to and a size in MiB, got %s\n", folder.c_str());
    return 2;
  }
  ::close(made);
  const scratch removed{name};
  const place where{name, mebibytes * block_bytes};
  auto pool = must(staging_pool::create(block_bytes, depth_max));
  std::fill(pool.memory().begin(), pool.memory().end(), std::byte{0x5a});

  std::string mode_text;
  {
    const file f = must(file::open_best(where.path, file_access::create));
    mode_text = describe(f.mode());
    must(f.preallocate(where.bytes));
  }
  const bool direct = mode_text == "direct";
  pass(queue_engine::best, where, io_kind::write, direct ? file_mode::direct : file_mode::buffered, depth_max, pool);

  io_queue_options probe;
  probe.pools = {pool.memory()};
  const auto best = must(make_queue(probe));
  const bool uring = best->name() == "io_uring";
  std::printf("storage: %llu MiB a run, 1 MiB blocks, %u rounds in turn, GB/s; %s allows %s\n",
              static_cast<unsigned long long>(mebibytes), rounds, folder.c_str(), mode_text.c_str());
  for (const auto& r : best->remarks()) std::printf("  %s\n", r.c_str());
  const tests::fio_room room;
  const bool peer = room.why_not().empty();
  if (!peer) std::printf("  fio is skipped: %s\n", room.why_not().c_str());
  for (const auto mode : {file_mode::direct, file_mode::buffered}) {
    if (mode == file_mode::direct && !direct) continue;
    for (const auto kind : {io_kind::write, io_kind::read})
      for (unsigned depth = 1; depth <= depth_max; depth *= 2) {
        std::vector<double> by_uring, by_threads, by_fio;
        for (unsigned round = 0; round < rounds; ++round) {
          if (uring) by_uring.push_back(pass(queue_engine::uring, where, kind, mode, depth, pool));
          by_threads.push_back(pass(queue_engine::threads, where, kind, mode, depth, pool));
          if (peer && mode == file_mode::direct)
            if (const auto rate = tests::fio_rate(where.path, fio_kind(kind), depth, where.bytes))
              by_fio.push_back(*rate);
        }
        std::printf("  %s, %s, depth %u\n", kind == io_kind::read ? "read" : "write", describe(mode).c_str(), depth);
        print("io_uring", by_uring);
        print("threads", by_threads);
        print("fio", by_fio);
        std::fflush(stdout);
      }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int which : {SIGINT, SIGTERM, SIGPIPE}) std::signal(which, [](int) { interrupted = 1; });
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_storage: %s\n", e.what());
    return 1;
  }
}
