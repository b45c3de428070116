// Divides a load into units of work, one for each piece. A thread reads the blocks of a unit into its own memory, many
// blocks at once, and copies each block to all targets that need it.
#include "formats/source/scatter_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "core/math.hpp"
#include "core/system/cores.hpp"
#include "core/system/stream_copy.hpp"
#include "core/tensor_view.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/tensors/tensor_shares.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::formats {
namespace {

/// Smallest read that bypasses the page cache; for smaller ones the page cache is cheaper.
constexpr uint64_t min_direct_bytes = uint64_t{256} << 10;
/// Size of a slot in bytes: a block, and the bytes that the alignment of a direct read adds before and after.
constexpr size_t slot_bytes = scatter_block_bytes + 2 * storage::file::alignment_bytes_max;
/// Number of bytes that are digested and copied at a time, few enough to stay in a core's cache.
constexpr size_t cached_bytes = size_t{128} << 10;

struct unit {  ///< work item of one thread: read elements [first, last) of a piece of a tensor
  const scattered_tensor* of = nullptr;
  const piece* in = nullptr;
  /// Share of the tensor whose elements `first` and `last` count; null: they count elements of the whole tensor.
  const core::tp_slices* share = nullptr;
  uint64_t first = 0, last = 0;
  bool whole = false;  ///< true: the unit reads the whole piece, so that the piece's digest can be compared
};

struct open_file {
  std::unique_ptr<storage::input_file> file;
  std::optional<storage::file> direct;
};

/// Opens the source's files when they are first needed, and keeps at most max_open_source_files open. When one more is
/// needed, drops all of them; a dropped file is closed as soon as no thread uses it any more.
class open_files {
 public:
  open_files(storage::file_system& files, const tensor_source& from)
      : files_(files), from_(from), open_(from.files.size()) {}

  core::result<std::shared_ptr<const open_file>> at(uint32_t number) {
    const std::lock_guard lock(mutex_);
    auto& slot = open_[number];
    if (slot != nullptr) return slot;
    if (count_ == max_open_source_files) {
      for (auto& other : open_) other.reset();
      count_ = 0;
    }
    TROUPE_ASSIGN(auto file, open_checked_file(files_, from_, number));
    auto opened = std::make_shared<open_file>();
    opened->direct = file->direct();
    opened->file = std::move(file);
    slot = std::move(opened);
    ++count_;
    return slot;
  }

 private:
  storage::file_system& files_;
  const tensor_source& from_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const open_file>> open_;
  size_t count_ = 0;
};

core::result<void> check(const scattered_tensor& s) {
  const auto& t = *s.tensor;
  const uint64_t whole = core::numel_of(t.shape);
  for (const auto& target : s.targets) {
    const uint64_t elements = target.share != nullptr ? target.share->elements() : whole;
    if (target.first > elements || target.count > elements - target.first)
      return fail(error_kind::bug, fmt::format("tensor {}: {} elements from element {} on of {}", shown(t),
                                               target.count, target.first, elements));
    if (target.type != t.type && (!is_floating(target.type) || !is_floating(t.type)))
      return fail(error_kind::mismatch, fmt::format("tensor {}: {} cannot be converted to {}", shown(t),
                                                    core::name_of(t.type), core::name_of(target.type)));
  }
  return {};
}

/// Returns elements [first, first + count) of `share` as runs of the whole tensor's elements. If `share` is null,
/// `first` counts elements of the whole tensor.
std::vector<core::tp_run> runs_of(const core::tp_slices* share, uint64_t first, uint64_t count) {
  return share != nullptr ? share->runs(first, count) : std::vector<core::tp_run>{{first, first, count}};
}

/// Returns the elements of a piece that a target needs, as positions in the piece and in the target's tensor or share.
std::vector<core::tp_common> taken_of(const std::vector<core::tp_run>& of_piece, const read_target& target) {
  const auto own = [](const core::tp_run& r) { return !r.is_padding(); };
  const auto last = std::find_if(of_piece.rbegin(), of_piece.rend(), own);
  if (last == of_piece.rend()) return {};
  const uint64_t begin = std::ranges::find_if(of_piece, own)->whole, end = last->whole + last->count;
  const auto place = [&](uint64_t element) {
    return target.share != nullptr ? target.share->before(element) : element;
  };
  const uint64_t from = std::max(target.first, place(begin));
  const uint64_t to = std::min(target.first + target.count, place(end));
  if (from >= to) return {};
  return core::common_to(of_piece, runs_of(target.share, from, to - from));
}

/// Appends a unit for each piece of the tensor of which some target needs elements.
void add_units(std::vector<unit>& out, const scattered_tensor& s, const tensor_shares& shares) {
  const bool is_cut = s.tensor->cut.cuts();
  for (const auto& p : s.tensor->pieces) {
    const auto* const share = is_cut ? &shares.share_of(p) : nullptr;
    const auto runs = runs_of(share, p.first, p.count);
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    for (const auto& target : s.targets)
      for (const auto& x : taken_of(runs, target)) parts.emplace_back(x.first, x.first + x.count);
    if (parts.empty()) continue;
    std::sort(parts.begin(), parts.end());
    uint64_t reached = parts.front().first;
    bool gap = reached > p.first;
    for (const auto& [from, to] : parts) {
      gap = gap || from > reached;
      reached = std::max(reached, to);
    }
    out.push_back({&s, &p, share, parts.front().first, reached, !gap && reached == p.first + p.count});
  }
}

/// Holds the state that all threads of one load share: open files, units of work, and the first error.
class shared_load {
 public:
  shared_load(storage::file_system& files, const tensor_source& from, std::vector<unit> units,
              const std::function<bool()>& wants_end)
      : files_(files, from), from_(from), units_(std::move(units)), wants_end_(wants_end) {}

  [[nodiscard]] const std::vector<unit>& units() const { return units_; }
  [[nodiscard]] const tensor_source& from() const { return from_; }
  [[nodiscard]] const std::filesystem::path& path_of(const unit& u) const { return from_.files[u.in->file].path; }

  /// Assigns the next unit to the calling thread and returns its number; nothing if none is left or the load has
  /// failed.
  std::optional<size_t> take() {
    const size_t number = next_++;
    if (number < units_.size() && is_wanted(number)) return number;
    return std::nullopt;
  }
  core::result<std::shared_ptr<const open_file>> open(const unit& u) { return files_.at(u.in->file); }

  /// True unless unit `number` or an earlier one has failed. The load therefore fails with the error of the first
  /// failing unit, whatever the order of the threads.
  [[nodiscard]] bool is_wanted(size_t number) const { return number < first_failed_.load(std::memory_order_relaxed); }
  void fail_unit(size_t number, core::error why) {
    const std::lock_guard lock(mutex_);
    if (number >= first_failed_) return;
    first_failed_ = number;
    failure_ = std::move(why);
  }
  /// Returns false, and stops the load, if the caller's `wants_end` returns true.
  bool goes_on() {
    if (!wants_end_ || !wants_end_()) return true;
    const std::lock_guard lock(mutex_);
    first_failed_ = 0;
    failure_ = core::error{error_kind::stopped, "stopped while loading"};
    return false;
  }

  void count(uint64_t bytes, uint64_t verified_bytes) {
    bytes_ += bytes;
    verified_bytes_ += verified_bytes;
  }
  /// Returns the result of the load; to be called after all threads have ended.
  core::result<read_report> outcome() {
    if (failure_) return fail(std::move(*failure_));
    return read_report{bytes_, verified_bytes_};
  }

 private:
  open_files files_;
  const tensor_source& from_;
  std::vector<unit> units_;
  const std::function<bool()>& wants_end_;
  std::atomic<size_t> next_ = 0, first_failed_ = SIZE_MAX;
  std::atomic<uint64_t> bytes_ = 0, verified_bytes_ = 0;
  std::mutex mutex_;
  std::optional<core::error> failure_;
};

/// Runs one thread of a load. Keeps as many blocks in flight as its memory allows and processes the oldest one, so that
/// the blocks of a unit are processed in order: one thread computes its digest.
class block_reader {
 public:
  /// Constructs the state of one thread of `load`. `memory` is divided into slots: its size must be a multiple of
  /// slot_bytes, and it must begin at a page boundary.
  block_reader(shared_load& load, std::span<std::byte> memory)
      : load_(load), memory_(memory), slots_(memory.size() / slot_bytes) {}

  void run() {
    for (;;) {
      while (begun_ - ended_ < slots_.size() && begin_block()) continue;
      if (begun_ == ended_) return;
      end_block(slots_[ended_ % slots_.size()]);
      ++ended_;
    }
  }

 private:
  struct slot {
    size_t number = 0;  ///< number of the unit that the block belongs to
    const unit* of = nullptr;
    std::shared_ptr<const open_file> file;
    uint64_t first = 0, count = 0;  ///< the block's first element, counted as unit::first; its number of elements
    uint64_t offset_bytes = 0;      ///< offset in the file of the block's first element
    uint64_t window_bytes = 0;      ///< bytes in front of that element that a direct read includes for its alignment
    bool in_flight = false, is_direct = false;
    storage::io_completion read;  ///< result of the block's direct read, once the read has ended
  };

  [[nodiscard]] std::span<std::byte> memory_of(const slot& s) const {
    return memory_.subspan(static_cast<size_t>(&s - slots_.data()) * slot_bytes, slot_bytes);
  }

  /// Starts to read the next block of the current unit, or of the next unit. False if there is no unit left.
  bool begin_block() {
    if (unit_ == nullptr || at_ == unit_->last || !load_.is_wanted(number_)) {
      unit_ = nullptr;
      const auto number = load_.take();
      if (!number) return false;
      const unit& u = load_.units()[*number];
      auto file = load_.open(u);
      if (!file) {
        load_.fail_unit(*number, file.error());
        return false;
      }
      number_ = *number;
      unit_ = &u;
      at_ = u.first;
      file_ = std::move(*file);
    }
    const uint64_t element_bytes = core::size_of(unit_->of->tensor->type);
    auto& s = slots_[begun_ % slots_.size()];
    s = {.number = number_, .of = unit_, .file = file_, .first = at_, .read = {}};
    s.count = std::min(scatter_block_bytes / element_bytes, unit_->last - at_);
    s.offset_bytes = unit_->in->offset_bytes + (at_ - unit_->in->first) * element_bytes;
    if (file_->direct && s.count * element_bytes >= min_direct_bytes)
      if (auto ok = begin_read(s, s.count * element_bytes); !ok) {
        load_.fail_unit(number_, ok.error());
        return false;
      }
    at_ += s.count;
    ++begun_;
    return true;
  }

  core::result<void> begin_read(slot& s, uint64_t bytes) {
    if (queue_ == nullptr) {
      storage::io_queue_options options;
      options.depth = static_cast<unsigned>(slots_.size());
      options.pools = {memory_};
      TROUPE_ASSIGN(auto queue, storage::make_queue(options));
      queue_ = std::move(queue);
    }
    const uint64_t grain = s.file->direct->alignment().offset_bytes;
    const uint64_t begin = s.offset_bytes / grain * grain, end = core::round_up(s.offset_bytes + bytes, grain);
    s.window_bytes = s.offset_bytes - begin;
    s.is_direct = s.in_flight = true;
    return queue_->submit(
        storage::read_request(*s.file->direct, begin, memory_of(s).first(end - begin), begun_ % slots_.size()));
  }

  /// Waits until a block has been read, then converts its elements and stores them in all targets.
  void end_block(slot& s) {
    while (s.in_flight) {
      completions_.clear();
      queue_->wait(completions_);
      for (auto& c : completions_) {
        auto& over = slots_[c.token];
        over.in_flight = false;
        over.read = std::move(c);
      }
    }
    if (!load_.goes_on() || !load_.is_wanted(s.number)) return;
    auto bytes = bytes_of(s);
    if (!bytes) return load_.fail_unit(s.number, bytes.error());
    const unit& u = *s.of;
    const bool verify = load_.from().has_digests && u.whole;
    if (s.first == u.first) digest_ = storage::digest_stream();
    hand_out(s, *bytes, verify);
    const bool complete = verify && s.first + s.count == u.last;
    load_.count(bytes->size(), complete ? u.in->count * core::size_of(u.of->tensor->type) : 0);
    if (complete && digest_.value() != u.in->digest)
      load_.fail_unit(s.number, {error_kind::bad_input,
                                 fmt::format("'{}': the {} bytes at byte {}, of tensor {}, {}",
                                             load_.path_of(u).string(), u.in->count * core::size_of(u.of->tensor->type),
                                             u.in->offset_bytes, shown(*u.of->tensor), digest_differs)});
  }

  /// Returns the bytes of the block in slot `s`. If no direct read has delivered all of them, reads them through the
  /// page cache.
  core::result<std::span<const std::byte>> bytes_of(const slot& s) {
    const uint64_t bytes = s.count * core::size_of(s.of->of->tensor->type);
    if (s.is_direct) {
      if (s.read.error) return fail(*s.read.error);
      if (s.read.bytes >= s.window_bytes + bytes) return memory_of(s).subspan(s.window_bytes, bytes);
    }
    const auto into = memory_of(s).first(bytes);
    TROUPE_TRY(storage::read_exactly(*s.file->file, load_.path_of(*s.of), s.offset_bytes, into));
    return into;
  }

  /// Copies a block to all targets that need it, in parts that stay in the cache from the digest to the copies.
  void hand_out(const slot& s, std::span<const std::byte> bytes, bool verify) {
    const uint64_t element_bytes = core::size_of(s.of->of->tensor->type), part = cached_bytes / element_bytes;
    for (uint64_t done = 0; done < s.count; done += part) {
      const uint64_t first = s.first + done, last = first + std::min(part, s.count - done);
      const auto here = bytes.subspan(done * element_bytes, (last - first) * element_bytes);
      if (verify) digest_.add(here);
      const auto runs = runs_of(s.of->share, first, last - first);
      for (const auto& target : s.of->of->targets)
        for (const auto& x : taken_of(runs, target)) {
          const auto& tensor = *s.of->of->tensor;
          const auto lost = copy(tensor.type, here.subspan((x.first - first) * element_bytes, x.count * element_bytes),
                                 target, x.second);
          if (lost && !(target.type == core::dtype::f16 && computed_in_f16()))
            return load_.fail_unit(s.number, overflow_error(shown(tensor), {x.second + lost->element, lost->value},
                                                            target.type, "use a run that computes in a wider type"));
        }
    }
  }

  /// True if the run that wrote the checkpoint computed in fp16. That run itself used infinity for a master weight
  /// beyond fp16's range, so such a value is no error.
  [[nodiscard]] bool computed_in_f16() const { return load_.from().run.loss_scale.has_value(); }

  /// Copies elements of type `from` into a target, from its element `at` on. Returns a value that the target's type
  /// cannot hold.
  static std::optional<cast_overflow> copy(core::dtype from, std::span<const std::byte> in, const read_target& target,
                                           uint64_t at) {
    auto* const out = target.to + (at - target.first) * core::size_of(target.type);
    if (target.type != from) return cast_elements(from, in.data(), target.type, out, in.size() / core::size_of(from));
    core::stream_copy(out, in);
    return {};
  }

  shared_load& load_;
  std::span<std::byte> memory_;
  std::vector<slot> slots_;         // block n is in slot n modulo the number of slots
  uint64_t begun_ = 0, ended_ = 0;  // number of blocks whose reads have begun, and number of blocks that were processed
  size_t number_ = 0;               // number of the current unit
  const unit* unit_ = nullptr;
  uint64_t at_ = 0;  // index of the next element of the current unit
  std::shared_ptr<const open_file> file_;
  storage::digest_stream digest_;  // digest of the unit whose blocks are being processed
  std::vector<storage::io_completion> completions_;
  std::unique_ptr<storage::io_queue> queue_;  // destroyed first, so that no read writes to freed memory
};

}  // namespace

core::result<read_report> read_scattered(storage::file_system& files, const tensor_source& from,
                                         std::span<const scattered_tensor> wanted,
                                         const std::function<bool()>& wants_end) {
  std::vector<unit> units;
  std::deque<tensor_shares> shares;  // owns the shares to which units point
  for (const auto& s : wanted) {
    if (s.targets.empty()) continue;
    TROUPE_TRY(check(s));
    add_units(units, s, shares.emplace_back(*s.tensor));
  }
  // Sorts by file and byte offset, so that each file is read sequentially.
  std::sort(units.begin(), units.end(), [](const unit& a, const unit& b) {
    return std::pair(a.in->file, a.in->offset_bytes) < std::pair(b.in->file, b.in->offset_bytes);
  });
  const size_t threads = std::min(std::clamp<size_t>(core::usable_cores(), 2, scatter_threads_max), units.size());
  if (threads == 0) return read_report{};
  uint64_t blocks = 0;
  for (const auto& u : units)
    blocks += core::div_up((u.last - u.first) * core::size_of(u.of->tensor->type), scatter_block_bytes);
  // bytes of the buffers of one thread
  const size_t bytes = std::min<uint64_t>(scatter_blocks / threads, blocks) * slot_bytes;
  TROUPE_ASSIGN(auto memory, storage::huge_memory::allocate(threads * bytes));
  shared_load load(files, from, std::move(units), wants_end);
  const auto work = [&](size_t i) { block_reader(load, std::span(memory.data() + i * bytes, bytes)).run(); };
  {
    std::vector<std::jthread> others;
    try {
      for (size_t i = 1; i < threads; ++i) others.emplace_back(work, i);
    } catch (const std::system_error&) {  // the system refused more threads: the existing ones do all the work
    }
    work(0);
  }
  return load.outcome();
}

}  // namespace troupe::formats
