// Every read of a plan is cut into blocks, numbered in the plan's order. One thread keeps blocks in flight and counts
// how many are there without a gap; the other follows that count with the digests.
#include "checkpoint/source/native_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/source/source_reader.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/math.hpp"
#include "storage/memory/huge_memory.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;

/// Which block of a plan holds which byte. A block is a window of `block_bytes` of its file, that begins at a multiple
/// of read_alignment_bytes; the first and the last of a read hold more than what is wanted.
class plan_blocks {
 public:
  plan_blocks(const load_plan& plan, uint64_t block_bytes) : plan_(plan), block_bytes_(block_bytes) {
    uint64_t next = 0;
    for (const auto& r : plan.reads) {
      first_block_.push_back(next);
      next += core::round_up(r.offset_bytes + r.bytes - begin_of(r), block_bytes) / block_bytes;
    }
    first_block_.push_back(next);
  }

  struct block {
    uint64_t window_begin, window_bytes;  // multiples of read_alignment_bytes
    uint64_t begin, bytes;                // what is wanted of it, in the file
    uint64_t destination;
  };

  [[nodiscard]] uint64_t count() const { return first_block_.back(); }
  [[nodiscard]] uint64_t first_of(size_t read) const { return first_block_[read]; }

  [[nodiscard]] block at(size_t read, uint64_t number) const {
    const auto& r = plan_.reads[read];
    const uint64_t window = begin_of(r) + (number - first_block_[read]) * block_bytes_;
    const uint64_t begin = std::max(window, r.offset_bytes);
    const uint64_t end = std::min(window + block_bytes_, r.offset_bytes + r.bytes);
    return {window, core::round_up(end, read_alignment_bytes) - window, begin, end - begin,
            r.destination_bytes + (begin - r.offset_bytes)};
  }

  /// The read that brings this range to its destination; plans have one.
  [[nodiscard]] size_t read_of(const range_read& range) const {
    auto r = std::upper_bound(plan_.reads.begin(), plan_.reads.end(), range, [](const auto& a, const auto& b) {
      return std::tie(a.file, a.offset_bytes) < std::tie(b.file, b.offset_bytes);
    });
    while (r != plan_.reads.begin()) {
      --r;
      if (r->file == range.file && r->offset_bytes + r->bytes >= range.offset_bytes + range.bytes &&
          range.destination_bytes - r->destination_bytes == range.offset_bytes - r->offset_bytes)
        break;
    }
    return static_cast<size_t>(r - plan_.reads.begin());
  }

  /// The block that holds byte `offset` of the file for that read.
  [[nodiscard]] uint64_t block_of(size_t read, uint64_t offset) const {
    return first_block_[read] + (offset - begin_of(plan_.reads[read])) / block_bytes_;
  }

 private:
  static uint64_t begin_of(const range_read& r) { return r.offset_bytes / read_alignment_bytes * read_alignment_bytes; }

  const load_plan& plan_;
  uint64_t block_bytes_;
  std::vector<uint64_t> first_block_;  // of each read, and one past the last
};

/// How far the bytes are there, between the thread that reads and the one that compares.
struct progress {
  std::atomic<uint64_t> here = 0;          // blocks, without a gap
  std::atomic<bool> reading_over = false;  // no more will come
  std::atomic<bool> broken = false;        // a digest was wrong: no more need come
  std::atomic<uint32_t> changes = 0;       // of the above, to sleep on

  void tell() {
    ++changes;
    changes.notify_all();
  }
  /// Waits for block `number`; false where it will not come.
  bool wait_for(uint64_t number) {
    for (;;) {
      const uint32_t seen = changes;
      if (here > number) return true;
      if (reading_over) return here > number;
      changes.wait(seen);
    }
  }
};

class loading {
 public:
  loading(file_system& files, const tensor_source& from, const load_plan& plan, std::span<std::byte> destination,
          const read_options& options)
      : files_(files),
        from_(from),
        plan_(plan),
        to_(destination),
        options_(options),
        blocks_(plan, options.request_bytes),
        direct_wanted_(plan.bytes >= options.direct_bytes_min &&
                       plan.bytes / plan.reads.size() >= options.direct_read_bytes_min) {}

  core::result<read_report> run() {
    const bool verify = options_.verify && from_.has_digests && !plan_.checks.empty();
    std::jthread beside;
    try {
      if (verify && options_.verify_beside && direct_wanted_) beside = std::jthread([this] { compare_all(); });
    } catch (const std::system_error&) {  // refused: behind the reads, then
    }
    auto read = read_all();
    progress_.reading_over = true;
    progress_.tell();
    if (beside.joinable())
      beside.join();
    else if (verify)
      compare_all();
    if (difference_) return fail(*difference_);
    if (!read) return fail(read.error());
    report_.bytes = plan_.bytes;
    return report_;
  }

 private:
  struct slot {  // of a read in flight
    plan_blocks::block block;
    uint64_t number = 0;
    uint32_t file = 0;
    std::byte* staged = nullptr;  // null: straight into the destination
  };

  core::result<void> read_all() {
    std::unique_ptr<input_file> file;
    std::optional<storage::file> direct;
    uint32_t open = 0;
    for (size_t r = 0; r < plan_.reads.size(); ++r) {
      const uint32_t number = plan_.reads[r].file;
      if (file == nullptr || open != number) {
        auto opened = open_source_file(files_, from_, number);
        if (!opened) return ended(opened.error());
        file = std::move(*opened);
        open = number;
        direct = direct_wanted_ ? file->direct() : std::nullopt;
        if (direct && (direct->alignment().offset_bytes > read_alignment_bytes ||
                       direct->alignment().memory_bytes > read_alignment_bytes))
          direct.reset();
      }
      for (uint64_t b = blocks_.first_of(r); b < blocks_.first_of(r + 1); ++b) {
        if (progress_.broken) return ended(core::error{error_kind::stopped, "a piece is broken"});
        const auto block = blocks_.at(r, b);
        if (direct) {
          if (auto ok = start(*direct, number, b, block); !ok) return ended(ok.error());
          continue;
        }
        const auto into = to_.subspan(static_cast<size_t>(block.destination), static_cast<size_t>(block.bytes));
        if (auto ok = read_exactly(*file, from_.files[number].path, block.begin, into); !ok) return ended(ok.error());
        done_.resize(std::max<size_t>(done_.size(), static_cast<size_t>(b + 1 - counted_)));
        note(b);
      }
    }
    return ended(std::nullopt);
  }

  /// Waits for what is in flight; the first error in the plan's order.
  core::result<void> ended(std::optional<core::error> e) {
    while (queue_ != nullptr && queue_->in_flight() > 0) take();
    if (error_) return fail(*error_);
    if (e) return fail(*e);
    return {};
  }

  core::result<void> start(const storage::file& on, uint32_t file, uint64_t number, const plan_blocks::block& block) {
    if (queue_ == nullptr) {
      auto memory = storage::huge_memory::allocate(options_.depth * options_.request_bytes);
      if (!memory) return fail(memory.error());
      staging_ = std::move(*memory);
      storage::io_queue_options options;
      options.engine = options_.engine;
      options.depth = options_.depth;
      options.pools = {std::span(staging_.data(), staging_.bytes())};
      auto queue = storage::make_queue(options);
      if (!queue) return fail(queue.error());
      queue_ = std::move(*queue);
      slots_.resize(options_.depth);
      for (size_t i = 0; i < slots_.size(); ++i) idle_.push_back(slots_.size() - 1 - i);
    }
    while (idle_.empty()) take();
    if (error_) return fail(*error_);
    const size_t place = idle_.back();
    auto* const into = to_.data() + block.destination;
    const bool straight = reinterpret_cast<uintptr_t>(into) % read_alignment_bytes == 0 &&
                          block.begin == block.window_begin && block.bytes == block.window_bytes;
    auto* const staged = straight ? nullptr : staging_.data() + place * options_.request_bytes;
    slots_[place] = {block, number, file, staged};
    const std::span memory(straight ? into : staged, static_cast<size_t>(block.window_bytes));
    if (auto ok = queue_->submit(storage::read_request(on, block.window_begin, memory, place)); !ok) return ok;
    idle_.pop_back();
    done_.resize(std::max<size_t>(done_.size(), static_cast<size_t>(number + 1 - counted_)));
    report_.direct_bytes += block.bytes;
    return {};
  }

  /// Takes what is over from the queue, at least one.
  void take() {
    completions_.clear();
    queue_->wait(completions_);
    for (auto& c : completions_) {
      const auto& s = slots_[static_cast<size_t>(c.token)];
      idle_.push_back(static_cast<size_t>(c.token));
      const uint64_t before = s.block.begin - s.block.window_begin;
      if (!c.error && c.bytes < before + s.block.bytes)
        c.error = core::error{error_kind::io,
                              fmt::format("'{}' gave {} of {} bytes at byte {}", from_.files[s.file].path.string(),
                                          c.bytes > before ? c.bytes - before : 0, s.block.bytes, s.block.begin)};
      if (c.error) {
        if (!error_ || s.number < failed_block_) error_ = std::move(*c.error), failed_block_ = s.number;
        continue;
      }
      if (s.staged != nullptr) std::memcpy(to_.data() + s.block.destination, s.staged + before, s.block.bytes);
      note(s.number);
    }
  }

  void note(uint64_t number) {
    done_[static_cast<size_t>(number - counted_)] = true;
    const uint64_t before = counted_;
    for (; !done_.empty() && done_.front(); ++counted_) done_.pop_front();
    if (counted_ == before) return;
    progress_.here = counted_;
    progress_.tell();
  }

  void compare_all() {
    for (const auto& check : plan_.checks) {
      const auto& r = check.range;
      const size_t read = blocks_.read_of(r);
      digest_stream digest;
      for (uint64_t at = r.offset_bytes, end = at + r.bytes; at < end;) {
        const uint64_t number = blocks_.block_of(read, at);
        if (!progress_.wait_for(number)) return;
        const auto block = blocks_.at(read, number);
        const uint64_t n = std::min(end, block.begin + block.bytes) - at;
        digest.add(
            to_.subspan(static_cast<size_t>(r.destination_bytes + (at - r.offset_bytes)), static_cast<size_t>(n)));
        at += n;
      }
      if (digest.value() != check.digest) {
        difference_ = core::error{error_kind::bad_input,
                                  fmt::format("'{}': the {} bytes at byte {}, of tensor {}, do not have their digest",
                                              from_.files[r.file].path.string(), r.bytes, r.offset_bytes,
                                              shown(from_.tensors[check.tensor]))};
        progress_.broken = true;
        return;
      }
      report_.verified_bytes += r.bytes;
    }
  }

  file_system& files_;
  const tensor_source& from_;
  const load_plan& plan_;
  std::span<std::byte> to_;
  const read_options& options_;
  plan_blocks blocks_;
  bool direct_wanted_;
  read_report report_;  // verified_bytes is the comparing thread's, the rest the reading one's

  storage::huge_memory staging_;  // outlives the queue
  std::unique_ptr<storage::io_queue> queue_;
  std::vector<storage::io_completion> completions_;
  std::vector<slot> slots_;
  std::vector<size_t> idle_;
  std::deque<bool> done_;  // of the blocks from `counted_` on that were begun
  uint64_t counted_ = 0;
  std::optional<core::error> error_;
  uint64_t failed_block_ = 0;

  progress progress_;
  std::optional<core::error> difference_;  // the comparing thread's until it ended
};

}  // namespace

core::result<read_report> read_pieces(file_system& files, const checkpoint_folder& from, const load_plan& plan,
                                      std::span<std::byte> destination, const read_options& options) {
  return read_pieces(files, source_of(from), plan, destination, options);
}

core::result<read_report> read_pieces(file_system& files, const tensor_source& from, const load_plan& plan,
                                      std::span<std::byte> destination, const read_options& options) {
  if (destination.size() < plan.destination_bytes)
    return fail(error_kind::bug,
                fmt::format("{} bytes are to be loaded into memory of {}", plan.destination_bytes, destination.size()));
  if (options.request_bytes == 0 || options.request_bytes % read_alignment_bytes != 0)
    return fail(error_kind::bug, fmt::format("wanted reads of multiples of {} bytes, got {}", read_alignment_bytes,
                                             options.request_bytes));
  if (plan.reads.empty()) return read_report{};
  return loading(files, from, plan, destination, options).run();
}

}  // namespace troupe::checkpoint
