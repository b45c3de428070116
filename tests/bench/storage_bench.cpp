// Measures sequential reads and writes past the page cache through storage/, compared with fio and DeepSpeed's handle
// on the same file: with the same blocks and the same number of requests in flight.
//   bench_storage [FOLDER [MIB [ROUNDS]]]
// The file is written once before; the measured writes overwrite it. Passes are timed until the last completion, as fio
// times them. All runs are listed and the contenders take turns, because the speed of disks varies; a round's two rates
// make a pair. DeepSpeed runs if `.peer/bin/python` exists (`make peer`); its extension needs libaio-dev.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "storage/handle/io_handle.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/queue/io_queue.hpp"
#include "tests/bench/coprocess.hpp"
#include "tests/bench/fio.hpp"

namespace {

using namespace troupe;
using namespace troupe::storage;

constexpr uint64_t block_bytes = uint64_t{1} << 20;
constexpr unsigned depth = 32;
// Least accepted ratios to fio, to DeepSpeed, and of registered to unregistered memory. Registered memory must not be
// slower; three hundredths are the spread of the disk's own medians.
constexpr double bound_fio = 0.95, bound_deepspeed = 1.0, bound_registered = 0.97;

// Set by a signal handler, so that the scratch file is removed and the huge pages are freed even if the program is
// interrupted or its output is closed.
volatile std::sig_atomic_t interrupted = 0;

[[noreturn]] void give_up(const core::error& e) { throw std::runtime_error(e.text); }

template <class T>
T must(core::result<T> r) {
  if (!r) give_up(r.error());
  return std::move(*r);
}
void must(const core::result<void>& r) {
  if (!r) give_up(r.error());
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

struct contender {
  std::string name;
  std::function<std::optional<double>(io_kind)> rate;  ///< runs one pass and returns its rate in GB/s
  std::vector<double> runs{};
};

/// Runs a pass that transfers data as a run's swap files do and returns its rate in GB/s: `depth` blocks of a pool,
/// each reused when its request has ended.
double queue_pass(queue_engine engine, const place& where, io_kind kind, std::span<std::byte> pool, bool registered) {
  io_queue_options options;
  options.engine = engine;
  options.depth = depth;
  options.threads = depth;
  if (registered) options.pools = {pool};
  const auto queue = must(make_queue(options));
  const file f = must(file::open_best(where.path, file_access::read_write));
  queue->keep(f);
  std::vector<uint64_t> idle(depth);
  std::iota(idle.begin(), idle.end(), uint64_t{0});
  std::vector<io_completion> over;
  std::vector<io_request> batch;
  const int64_t start = core::now_ns();
  for (uint64_t next = 0; next < where.bytes || queue->in_flight() > 0;) {
    batch.clear();
    for (; next < where.bytes && !idle.empty(); next += block_bytes) {
      const auto memory = pool.subspan(idle.back() * block_bytes, block_bytes);
      batch.push_back(kind == io_kind::read ? read_request(f, next, memory, idle.back())
                                            : write_request(f, next, memory, idle.back()));
      idle.pop_back();
    }
    must(queue->submit(batch));
    over.clear();
    queue->wait(over);
    for (const auto& c : over) {
      if (c.error) give_up(*c.error);
      idle.push_back(c.token);
    }
  }
  const auto ns = static_cast<double>(core::now_ns() - start);
  must(f.sync());
  return static_cast<double>(where.bytes) / ns;
}

/// Runs passes that transfer data as DeepSpeed's handle does: the whole file in one operation, from one pinned buffer.
class handle_pass {
 public:
  explicit handle_pass(place where) : where_(std::move(where)) {
    io_handle_options options;
    options.block_bytes = block_bytes;
    options.queue_depth = depth;
    handle_ = must(io_handle::open(options));
    buffer_ = must(handle_->new_pinned(where_.bytes));
    std::fill(buffer_.begin(), buffer_.end(), std::byte{0x5a});
    for (const auto& r : handle_->remarks()) std::printf("  io_handle: %s\n", r.c_str());
  }
  double operator()(io_kind kind) const {
    const int64_t start = core::now_ns();
    must(kind == io_kind::read ? handle_->sync_pread(buffer_, where_.path)
                               : handle_->sync_pwrite(buffer_, where_.path));
    return static_cast<double>(where_.bytes) / static_cast<double>(core::now_ns() - start);
  }

 private:
  place where_;
  std::unique_ptr<io_handle> handle_;
  std::span<std::byte> buffer_;
};

const char* word(io_kind kind) { return kind == io_kind::read ? "read" : "write"; }

double median(std::vector<double> runs) {
  std::sort(runs.begin(), runs.end());
  return runs[runs.size() / 2];
}

void print(const contender& c) {
  if (c.runs.empty()) return;
  std::printf("    %-22s", c.name.c_str());
  for (const double r : c.runs) std::printf(" %5.2f", r);
  std::printf("   median %.2f\n", median(c.runs));
}

/// Prints the ratio of the two medians, and the smallest and largest ratio of a round's two rates.
void compare(const contender& ours, const contender& theirs, double bound) {
  if (ours.runs.empty() || theirs.runs.size() != ours.runs.size()) return;
  std::vector<double> pairs;
  for (size_t i = 0; i < ours.runs.size(); ++i) pairs.push_back(ours.runs[i] / theirs.runs[i]);
  const auto [least, most] = std::minmax_element(pairs.begin(), pairs.end());
  const double ratio = median(ours.runs) / median(theirs.runs);
  std::printf("    %s / %s: %.3f (pairs %.3f to %.3f), bound %.2f %s\n", ours.name.c_str(), theirs.name.c_str(), ratio,
              *least, *most, bound, ratio >= bound ? "held" : "MISSED");
}

/// Starts DeepSpeed's handle; returns null and prints the reason if DeepSpeed cannot run.
std::unique_ptr<tests::coprocess> open_deepspeed(const place& where, const std::string& log) {
  const char* python = ".peer/bin/python";
  const char* script = "tests/bench/deepspeed_io.py";
  if (!std::filesystem::exists(python) || !std::filesystem::exists(script)) {
    std::printf("  DeepSpeed is skipped: no %s here (make peer)\n", python);
    return nullptr;
  }
  auto peer = std::make_unique<tests::coprocess>(
      std::vector<std::string>{python, script, where.path.string(), fmt::to_string(where.bytes),
                               fmt::to_string(block_bytes), fmt::to_string(depth)},
      log);
  if (const auto said = peer->hear(); said && *said == "ready") return peer;
  std::printf("  DeepSpeed is skipped: its async_io does not start or build (libaio-dev?); its words:\n");
  std::fflush(stdout);
  if (std::system(("tail -n 3 '" + log + "' | sed 's/^/    /'").c_str()) != 0) std::printf("    none\n");
  return nullptr;
}

int run(int argc, char** argv) {
  const bool given = argc > 1 && argv[1][0] != '-';
  const std::filesystem::path folder = given ? std::filesystem::path(argv[1]) : std::filesystem::temp_directory_path();
  const uint64_t mebibytes = given && argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2048;
  const uint64_t rounds = given && argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 5;
  std::string name = (folder / "troupe-bench-XXXXXX").string();
  const int made = ::mkstemp(name.data());
  if (made < 0 || mebibytes < depth || rounds == 0) {
    std::fprintf(stderr, "bench_storage: wanted a folder to write to, a size of at least %u MiB and rounds, got %s\n",
                 depth, folder.c_str());
    return 2;
  }
  ::close(made);
  const scratch removed{name}, log{name + ".log"};
  const place where{name, mebibytes * block_bytes};
  const auto memory = must(huge_memory::allocate(depth * block_bytes));
  const std::span pool(memory.data(), depth * block_bytes);
  std::ranges::fill(pool, std::byte{0x5a});
  {
    const file f = must(file::open_best(where.path, file_access::create));
    std::printf("storage: %llu MiB a run, 1 MiB blocks, depth %u, %llu rounds in turn, GB/s; %s allows %s I/O\n",
                static_cast<unsigned long long>(mebibytes), depth, static_cast<unsigned long long>(rounds),
                folder.c_str(), describe(f.mode()).c_str());
    must(f.preallocate(where.bytes));
  }
  queue_pass(queue_engine::best, where, io_kind::write, pool, true);
  io_queue_options probe;
  probe.pools = {pool};
  const auto best = must(make_queue(probe));
  const bool uring = best->name() == "io_uring";
  for (const auto& r : best->remarks()) std::printf("  %s\n", r.c_str());

  const tests::fio_room room;
  const bool fio = room.why_not().empty();
  if (!fio) std::printf("  fio is skipped: %s\n", room.why_not().c_str());
  const auto deepspeed = open_deepspeed(where, log.path.string());
  const handle_pass handle(where);
  const auto by_queue = [&](queue_engine engine, bool registered) {
    return [&, engine, registered](io_kind kind) {
      return std::optional(queue_pass(engine, where, kind, pool, registered));
    };
  };
  for (const auto kind : {io_kind::write, io_kind::read}) {
    contender registered{"io_uring, registered", by_queue(queue_engine::uring, true)};
    contender plain{"io_uring, unregistered", by_queue(queue_engine::uring, false)};
    contender threads{"threads", by_queue(queue_engine::threads, false)};
    contender ours{"io_handle", [&](io_kind k) { return std::optional(handle(k)); }};
    contender by_fio{"fio, mmaphuge",
                     [&](io_kind k) { return tests::fio_rate(where.path, word(k), depth, where.bytes); }};
    contender by_deepspeed{"DeepSpeed async_io", [&](io_kind k) -> std::optional<double> {
                             const auto said = deepspeed->ask(word(k));
                             return said ? std::optional(std::atof(said->c_str())) : std::nullopt;
                           }};
    std::vector<contender*> all;
    if (uring) all = {&registered, &plain};
    all.insert(all.end(), {&threads, &ours});
    if (fio) all.push_back(&by_fio);
    if (deepspeed) all.push_back(&by_deepspeed);
    for (uint64_t round = 0; round < rounds; ++round)
      for (auto* c : all) {
        if (interrupted != 0) give_up({core::error_kind::stopped, "interrupted"});
        if (const auto rate = c->rate(kind)) c->runs.push_back(*rate);
      }
    std::printf("  %s\n", word(kind));
    for (const auto* c : all) print(*c);
    const auto& queue = uring ? registered : threads;
    compare(queue, by_fio, bound_fio);
    compare(ours, by_fio, bound_fio);
    compare(registered, plain, bound_registered);
    compare(queue, by_deepspeed, bound_deepspeed);
    compare(ours, by_deepspeed, bound_deepspeed);
    std::fflush(stdout);
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
