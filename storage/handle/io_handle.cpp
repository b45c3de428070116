#include "storage/handle/io_handle.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/math.hpp"
#include "storage/handle/block_runner.hpp"
#include "storage/handle/handle_worker.hpp"

namespace troupe::storage {

namespace {

// An operation in progress. Its parts are jobs of the workers, which have the operation as token.
struct under_way {
  unsigned parts = 0;
  bool shared = true;  // true: `wait()` and `poll` return the outcome; false: only the call that started the operation
                       // does, because it blocks
  io_outcome outcome;
};

core::result<void> check(const io_handle_options& o) {
  if (o.intra_op_parallelism >= 1 && o.intra_op_parallelism <= handle_threads_max) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("io handle: wanted intra_op_parallelism from 1 to {}, got {}", handle_threads_max,
                                o.intra_op_parallelism));
}

block_runner_options runner_options(const io_handle_options& o) {
  block_runner_options out;
  out.queue.engine = o.engine;
  out.queue.depth = o.queue_depth;
  out.queue.pools = o.pools;
  out.block_bytes = o.block_bytes;
  out.single_submit = o.single_submit;
  out.overlap_events = o.overlap_events;
  return out;
}

/// Refuses a transfer that would end beyond the largest offset of a file.
core::result<void> check_range(const std::filesystem::path& path, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t largest = std::numeric_limits<int64_t>::max();
  if (bytes <= largest && offset <= largest - bytes) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("{}: wanted an offset that a file can have, got {}", path.string(), offset));
}

core::result<file> open_for(io_kind kind, const std::filesystem::path& path) {
  if (kind == io_kind::read) return file::open_best(path, file_access::read);
  auto there = file::open_best(path, file_access::read_write);
  std::error_code e;
  if (there || std::filesystem::exists(std::filesystem::symlink_status(path, e))) return there;
  auto made = file::open_best(path, file_access::create_new, 0600);
  if (made) return made;
  // `made` may have failed because another process created the file after the first attempt; then it can be opened now.
  // If it still cannot be opened, the error of creating it is returned.
  there = file::open_best(path, file_access::read_write);
  return there ? there : made;
}

std::span<std::byte> writable(std::span<const std::byte> from) {
  return {const_cast<std::byte*>(from.data()), from.size()};  // a write never modifies its memory
}

}  // namespace

struct io_handle::state {
  io_handle_options options;
  mutable std::mutex mutex;
  std::condition_variable ended;
  std::map<io_operation, under_way> under_way_;           // operations in progress, in the order of their start
  std::vector<io_outcome> outcomes;                       // outcomes of shared operations, in the order of their ends
  std::unordered_map<io_operation, io_outcome> withheld;  // outcomes of operations for which the starting call waits
  std::vector<std::string> remarks;
  io_operation last = 0;
  unsigned next_worker = 0;
  int event = -1;
  // last member: destroyed first, which ends the workers while the other members still exist
  std::vector<std::unique_ptr<handle_worker>> workers;

  ~state() {
    workers.clear();
    if (event >= 0) ::close(event);
  }

  void over(const block_job_end& part) {
    const std::lock_guard lock(mutex);
    const auto found = under_way_.find(part.token);
    auto& operation = found->second;
    operation.outcome.bytes += part.bytes;
    if (part.error && !operation.outcome.error) operation.outcome.error = part.error;
    if (--operation.parts > 0) return;
    finish(found);
  }

  void finish(std::map<io_operation, under_way>::iterator which) {
    auto& operation = which->second;
    if (operation.shared)
      outcomes.push_back(std::move(operation.outcome));
    else
      withheld.emplace(which->first, std::move(operation.outcome));
    const uint64_t one = 1;
    // If the write fails, the eventfd's counter is full, and the eventfd is readable anyway.
    if (operation.shared && event >= 0 && ::write(event, &one, sizeof one) != sizeof one) (void)0;
    under_way_.erase(which);
    ended.notify_all();
  }

  core::result<io_operation> begin(io_kind kind, std::span<std::byte> memory, const file& on, uint64_t offset,
                                   bool shared);
  core::result<io_operation> begin(io_kind kind, std::span<std::byte> memory, const std::filesystem::path& path,
                                   uint64_t offset, bool shared) {
    TROUPE_TRY(check_range(path, offset, memory.size()));
    TROUPE_ASSIGN(auto on, open_for(kind, path));
    return begin(kind, memory, on, offset, shared);
  }
  core::result<void> whole(io_kind kind, std::span<std::byte> memory, const std::filesystem::path& path,
                           uint64_t offset);
  core::result<void> here(io_kind kind, std::span<std::byte> memory, const std::filesystem::path& path,
                          uint64_t offset) const;
  std::vector<io_outcome> take();
};

core::result<io_operation> io_handle::state::begin(io_kind kind, std::span<std::byte> memory, const file& on,
                                                   uint64_t offset, bool shared) {
  if (!on.is_open()) return core::fail(core::error_kind::bad_input, "io handle: wanted an open file");
  TROUPE_TRY(check_range(on.path(), offset, memory.size()));
  // Each part consists of whole blocks, at least one, so that a small operation runs on one thread.
  const uint64_t blocks = core::div_up(memory.size(), options.block_bytes);
  const auto parts = static_cast<unsigned>(std::clamp<uint64_t>(blocks, 1, workers.size()));
  io_operation id = 0;
  unsigned first = 0;
  {
    const std::lock_guard lock(mutex);
    if (under_way_.size() + outcomes.size() + withheld.size() >= handle_operations_max)
      return core::fail(
          core::error_kind::limit,
          fmt::format(
              "io handle: cannot begin another operation: there are {} already: collect outcomes with wait or poll",
              handle_operations_max));
    if (on.mode() == file_mode::buffered) {
      const std::string sentence =
          "io handle: '" + on.path().parent_path().string() +
          "' does not support direct I/O; its files are read and written through the page cache";
      if (remarks.size() < workers.size() + 16 && std::find(remarks.begin(), remarks.end(), sentence) == remarks.end())
        remarks.push_back(sentence);
    }
    id = ++last;
    auto& operation = under_way_[id];
    operation.parts = parts;
    operation.shared = shared;
    operation.outcome.operation = id;
    first = next_worker;
    next_worker = (next_worker + parts) % static_cast<unsigned>(workers.size());
    if (memory.empty()) {
      finish(under_way_.find(id));
      return id;
    }
  }
  for (uint64_t i = 0; i < parts; ++i) {
    const uint64_t from = blocks * i / parts * options.block_bytes;
    const uint64_t to = std::min<uint64_t>(memory.size(), blocks * (i + 1) / parts * options.block_bytes);
    workers[(first + i) % workers.size()]->add({kind, on, offset + from, memory.subspan(from, to - from), id});
  }
  return id;
}

core::result<void> io_handle::state::whole(io_kind kind, std::span<std::byte> memory, const std::filesystem::path& path,
                                           uint64_t offset) {
  TROUPE_ASSIGN(const auto id, begin(kind, memory, path, offset, false));
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return withheld.contains(id); });
  const auto outcome = std::move(withheld.extract(id).mapped());
  if (outcome.error) return core::fail(*outcome.error);
  return {};
}

core::result<void> io_handle::state::here(io_kind kind, std::span<std::byte> memory, const std::filesystem::path& path,
                                          uint64_t offset) const {
  TROUPE_TRY(check_range(path, offset, memory.size()));
  TROUPE_ASSIGN(auto on, open_for(kind, path));
  if (memory.empty()) return {};
  TROUPE_ASSIGN(auto runner, block_runner::open(runner_options(options)));
  runner->add({kind, on, offset, memory, 0});
  std::vector<block_job_end> ends;
  while (ends.empty()) runner->advance(true, ends);
  if (ends[0].error) return core::fail(*ends[0].error);
  return {};
}

std::vector<io_outcome> io_handle::state::take() {
  uint64_t count = 0;
  if (::read(event, &count, sizeof count) < 0) count = 0;  // no new signal has come; outcomes are collected anyway
  return std::exchange(outcomes, {});
}

core::result<std::unique_ptr<io_handle>> io_handle::open(const io_handle_options& options) {
  TROUPE_TRY(check(options));
  auto s = std::make_unique<state>();
  s->options = options;
  if (!s->options.pinned) s->options.pinned = std::make_shared<pinned_memory>();
  s->event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (s->event < 0) return core::fail(core::error_kind::limit, "io handle: wanted an eventfd, got none");
  for (unsigned i = 0; i < options.intra_op_parallelism; ++i) {
    TROUPE_ASSIGN(auto worker,
                  handle_worker::start(runner_options(options), [s = s.get()](const auto& part) { s->over(part); }));
    for (const auto& r : worker->remarks())
      if (std::find(s->remarks.begin(), s->remarks.end(), r) == s->remarks.end()) s->remarks.push_back(r);
    s->workers.push_back(std::move(worker));
  }
  return std::unique_ptr<io_handle>(new io_handle(std::move(s)));
}

io_handle::io_handle(std::unique_ptr<state> s) : state_(std::move(s)) {}
io_handle::~io_handle() = default;

uint64_t io_handle::block_bytes() const { return state_->options.block_bytes; }
unsigned io_handle::queue_depth() const { return state_->options.queue_depth; }
bool io_handle::single_submit() const { return state_->options.single_submit; }
bool io_handle::overlap_events() const { return state_->options.overlap_events; }
unsigned io_handle::intra_op_parallelism() const { return state_->options.intra_op_parallelism; }
uint64_t io_handle::alignment_bytes() const { return direct_grain_bytes; }
std::string io_handle::engine() const { return state_->workers.front()->engine(); }
int io_handle::event_descriptor() const { return state_->event; }

std::vector<std::string> io_handle::remarks() const {
  auto out = state_->options.pinned->remarks();
  const std::lock_guard lock(state_->mutex);
  out.insert(out.begin(), state_->remarks.begin(), state_->remarks.end());
  return out;
}

core::result<void> io_handle::read(std::span<std::byte> into, const std::filesystem::path& path, uint64_t offset) {
  return state_->here(io_kind::read, into, path, offset);
}
core::result<void> io_handle::write(std::span<const std::byte> from, const std::filesystem::path& path,
                                    uint64_t offset) {
  return state_->here(io_kind::write, writable(from), path, offset);
}
core::result<void> io_handle::sync_pread(std::span<std::byte> into, const std::filesystem::path& path,
                                         uint64_t offset) {
  return state_->whole(io_kind::read, into, path, offset);
}
core::result<void> io_handle::sync_pwrite(std::span<const std::byte> from, const std::filesystem::path& path,
                                          uint64_t offset) {
  return state_->whole(io_kind::write, writable(from), path, offset);
}
core::result<io_operation> io_handle::async_pread(std::span<std::byte> into, const std::filesystem::path& path,
                                                  uint64_t offset) {
  return state_->begin(io_kind::read, into, path, offset, true);
}
core::result<io_operation> io_handle::async_pread(std::span<std::byte> into, const file& on, uint64_t offset) {
  return state_->begin(io_kind::read, into, on, offset, true);
}
core::result<io_operation> io_handle::async_pwrite(std::span<const std::byte> from, const std::filesystem::path& path,
                                                   uint64_t offset) {
  return state_->begin(io_kind::write, writable(from), path, offset, true);
}
core::result<io_operation> io_handle::async_pwrite(std::span<const std::byte> from, const file& on, uint64_t offset) {
  return state_->begin(io_kind::write, writable(from), on, offset, true);
}

std::vector<io_outcome> io_handle::wait() {
  std::unique_lock lock(state_->mutex);
  const auto none_before = [this, last = state_->last] {
    const auto& all = state_->under_way_;
    const auto oldest = std::find_if(all.begin(), all.end(), [](const auto& o) { return o.second.shared; });
    return oldest == all.end() || oldest->first > last;
  };
  state_->ended.wait(lock, none_before);
  return state_->take();
}

core::result<uint64_t> io_handle::wait(io_operation one) {
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return !state_->under_way_.contains(one); });
  const auto found = std::find_if(state_->outcomes.begin(), state_->outcomes.end(),
                                  [one](const io_outcome& o) { return o.operation == one; });
  if (found == state_->outcomes.end())
    return core::fail(core::error_kind::bad_input,
                      fmt::format("io handle: wanted an operation that was begun and not collected, got {}", one));
  const io_outcome outcome = std::move(*found);
  state_->outcomes.erase(found);
  if (state_->outcomes.empty()) (void)state_->take();  // resets the eventfd: no outcome is left to collect
  if (outcome.error) return core::fail(*outcome.error);
  return outcome.bytes;
}

std::vector<io_outcome> io_handle::poll() {
  const std::lock_guard lock(state_->mutex);
  return state_->take();
}

size_t io_handle::pending() const {
  const std::lock_guard lock(state_->mutex);
  return state_->under_way_.size();
}

core::result<std::span<std::byte>> io_handle::new_pinned(uint64_t bytes) {
  return state_->options.pinned->allocate(bytes);
}
bool io_handle::free_pinned(std::span<const std::byte> buffer) { return state_->options.pinned->free(buffer); }
bool io_handle::is_pinned(std::span<const std::byte> part) const { return state_->options.pinned->holds(part); }

}  // namespace troupe::storage
