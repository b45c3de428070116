// A piece is a unit of work; blocks of it go from the file into a thread's own memory, many of them at once, and from
// there to everybody who wants some of it.
#include "checkpoint/source/scatter_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "checkpoint/files/tensor_shares.hpp"
#include "checkpoint/source/element_cast.hpp"
#include "checkpoint/source/source_reader.hpp"
#include "checkpoint/source/verify.hpp"
#include "core/cores.hpp"
#include "core/math.hpp"
#include "core/stream_copy.hpp"
#include "core/tensor_view.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;

/// Below this a read through the page cache costs less than one past it.
constexpr uint64_t min_direct_bytes = uint64_t{256} << 10;
/// A block, and what a direct read of it may bring before and behind.
constexpr size_t slot_bytes = scatter_block_bytes + 2 * storage::file::alignment_bytes_max;
/// Small enough that a core keeps it while it is looked at twice.
constexpr size_t cached_bytes = size_t{128} << 10;

struct unit {  ///< elements [first, last) of a piece, as it counts them
  const scattered_tensor* of = nullptr;
  const piece* in = nullptr;
  const core::tp_slices* share = nullptr;  ///< whose elements it counts; null: the tensor's
  uint64_t first = 0, last = 0;
  bool whole = false;  ///< all of the piece
};

struct open_file {
  std::unique_ptr<input_file> file;
  std::optional<storage::file> direct;
};

/// The source's files, opened when they are needed; a file that is in use outlives its place here.
class open_files {
 public:
  open_files(file_system& files, const tensor_source& from) : files_(files), from_(from), open_(from.files.size()) {}

  core::result<std::shared_ptr<const open_file>> at(uint32_t number) {
    const std::lock_guard lock(mutex_);
    auto& slot = open_[number];
    if (slot != nullptr) return slot;
    if (count_ == max_open_source_files) {
      for (auto& other : open_) other.reset();
      count_ = 0;
    }
    auto file = open_source_file(files_, from_, number);
    if (!file) return fail(file.error());
    auto opened = std::make_shared<open_file>();
    opened->direct = (*file)->direct();
    opened->file = std::move(*file);
    slot = std::move(opened);
    ++count_;
    return slot;
  }

 private:
  file_system& files_;
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
      return fail(error_kind::mismatch, fmt::format("tensor {}: {} does not become {}", shown(t), core::name_of(t.type),
                                                    core::name_of(target.type)));
  }
  return {};
}

/// Elements [first, first + count) that `share` counts, as runs of the tensor; null: the tensor's own.
std::vector<core::tp_run> runs_of(const core::tp_slices* share, uint64_t first, uint64_t count) {
  return share != nullptr ? share->runs(first, count) : std::vector<core::tp_run>{{first, first, count}};
}

/// What a target takes of a piece's elements: places in the piece, and in what the target counts.
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

/// The pieces of a tensor that somebody wants some of.
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

/// What the threads of a load share.
class shared_load {
 public:
  shared_load(file_system& files, const tensor_source& from, std::vector<unit> units,
              const std::function<bool()>& wants_end)
      : files_(files, from), from_(from), units_(std::move(units)), wants_end_(wants_end) {}

  [[nodiscard]] const std::vector<unit>& units() const { return units_; }
  [[nodiscard]] const tensor_source& from() const { return from_; }
  [[nodiscard]] const std::filesystem::path& path_of(const unit& u) const { return from_.files[u.in->file].path; }

  /// The number of a unit that nobody has taken; none when all are taken or the load has failed before it.
  std::optional<size_t> take() {
    const size_t number = next_++;
    if (number < units_.size() && is_wanted(number)) return number;
    return std::nullopt;
  }
  core::result<std::shared_ptr<const open_file>> open(const unit& u) { return files_.at(u.in->file); }

  /// Whether unit `number` still counts: neither it nor one before it has failed. So the load ends with the error of
  /// the first unit that has one, however the threads run.
  [[nodiscard]] bool is_wanted(size_t number) const { return number < first_failed_.load(std::memory_order_relaxed); }
  void fail_unit(size_t number, core::error why) {
    const std::lock_guard lock(mutex_);
    if (number >= first_failed_) return;
    first_failed_ = number;
    failure_ = std::move(why);
  }
  /// False, once for all, when the caller wants the end.
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
  /// When all threads have ended.
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

/// One thread of a load. It keeps as many blocks in flight as it has memory for and looks at the oldest, so that the
/// blocks of a unit come in order: its digest is one thread's.
class block_reader {
 public:
  /// `memory` is a whole number of slots and begins at a multiple of a page.
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
    size_t number = 0;  ///< of the unit
    const unit* of = nullptr;
    std::shared_ptr<const open_file> file;
    uint64_t first = 0, count = 0;  ///< elements of the piece
    uint64_t offset_bytes = 0;      ///< of these in the file
    uint64_t window_bytes = 0;      ///< what a direct read brings before them; 0 where nothing is in flight
    bool in_flight = false, is_direct = false;
    storage::io_completion read;  ///< once it is over
  };

  [[nodiscard]] std::span<std::byte> memory_of(const slot& s) const {
    return memory_.subspan(static_cast<size_t>(&s - slots_.data()) * slot_bytes, slot_bytes);
  }

  /// The next block of the unit in hand, or of the next unit. False when there is none.
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
      auto queue = storage::make_queue(options);
      if (!queue) return fail(queue.error());
      queue_ = std::move(*queue);
    }
    const uint64_t grain = s.file->direct->alignment().offset_bytes;
    const uint64_t begin = s.offset_bytes / grain * grain, end = core::round_up(s.offset_bytes + bytes, grain);
    s.window_bytes = s.offset_bytes - begin;
    s.is_direct = s.in_flight = true;
    return queue_->submit(
        storage::read_request(*s.file->direct, begin, memory_of(s).first(end - begin), begun_ % slots_.size()));
  }

  /// Waits for a block and does with it what is to be done.
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
    if (s.first == u.first) digest_ = digest_stream();
    hand_out(s, *bytes, verify);
    const bool complete = verify && s.first + s.count == u.last;
    load_.count(bytes->size(), complete ? u.in->count * core::size_of(u.of->tensor->type) : 0);
    if (complete && digest_.value() != u.in->digest)
      load_.fail_unit(s.number, {error_kind::bad_input,
                                 fmt::format("'{}': the {} bytes at byte {}, of tensor {}, {}",
                                             load_.path_of(u).string(), u.in->count * core::size_of(u.of->tensor->type),
                                             u.in->offset_bytes, shown(*u.of->tensor), digest_differs)});
  }

  /// Where the block's bytes are. What was not read past the page cache, or not all of it, is read through it now.
  core::result<std::span<const std::byte>> bytes_of(const slot& s) {
    const uint64_t bytes = s.count * core::size_of(s.of->of->tensor->type);
    if (s.is_direct) {
      if (s.read.error) return fail(*s.read.error);
      if (s.read.bytes >= s.window_bytes + bytes) return memory_of(s).subspan(s.window_bytes, bytes);
    }
    const auto into = memory_of(s).first(bytes);
    if (auto ok = read_exactly(*s.file->file, load_.path_of(*s.of), s.offset_bytes, into); !ok) return fail(ok.error());
    return into;
  }

  /// To all who want some of it, in parts that stay in the cache from the digest to the copies.
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
                                                            target.type, "wanted a run that computes in a wider type"));
        }
    }
  }

  /// True if the run that wrote the checkpoint computed in fp16: what its masters overflow to is what it had.
  [[nodiscard]] bool computed_in_f16() const { return load_.from().run.loss_scale.has_value(); }

  /// Elements of type `from` to where element `at` of a target lies. Returns a value that its type does not hold.
  static std::optional<cast_overflow> copy(core::dtype from, std::span<const std::byte> in, const read_target& target,
                                           uint64_t at) {
    auto* const out = target.to + (at - target.first) * core::size_of(target.type);
    if (target.type != from) return cast_elements(from, in.data(), target.type, out, in.size() / core::size_of(from));
    core::stream_copy(out, in);
    return {};
  }

  shared_load& load_;
  std::span<std::byte> memory_;
  std::vector<slot> slots_;         // block n lies in slot n modulo their number
  uint64_t begun_ = 0, ended_ = 0;  // blocks
  size_t number_ = 0;               // of the unit in hand
  const unit* unit_ = nullptr;
  uint64_t at_ = 0;  // its next element
  std::shared_ptr<const open_file> file_;
  digest_stream digest_;  // of the unit whose blocks are being looked at
  std::vector<storage::io_completion> completions_;
  std::unique_ptr<storage::io_queue> queue_;  // ends first: no memory is touched afterwards
};

}  // namespace

core::result<read_report> read_scattered(file_system& files, const tensor_source& from,
                                         std::span<const scattered_tensor> wanted,
                                         const std::function<bool()>& wants_end) {
  std::vector<unit> units;
  std::deque<tensor_shares> shares;  // that units point to
  for (const auto& s : wanted) {
    if (s.targets.empty()) continue;
    if (auto ok = check(s); !ok) return fail(ok.error());
    add_units(units, s, shares.emplace_back(*s.tensor));
  }
  // one file after the other, as it lies there
  std::sort(units.begin(), units.end(), [](const unit& a, const unit& b) {
    return std::pair(a.in->file, a.in->offset_bytes) < std::pair(b.in->file, b.in->offset_bytes);
  });
  const size_t threads = std::min(std::clamp<size_t>(core::usable_cores(), 2, scatter_threads_max), units.size());
  if (threads == 0) return read_report{};
  uint64_t blocks = 0;
  for (const auto& u : units)
    blocks += core::div_up((u.last - u.first) * core::size_of(u.of->tensor->type), scatter_block_bytes);
  const size_t bytes = std::min<uint64_t>(scatter_blocks / threads, blocks) * slot_bytes;  // of a thread
  auto memory = storage::huge_memory::allocate(threads * bytes);
  if (!memory) return fail(memory.error());
  shared_load load(files, from, std::move(units), wants_end);
  const auto work = [&](size_t i) { block_reader(load, std::span(memory->data() + i * bytes, bytes)).run(); };
  {
    std::vector<std::jthread> others;
    try {
      for (size_t i = 1; i < threads; ++i) others.emplace_back(work, i);
    } catch (const std::system_error&) {  // refused: those that there are do all of it
    }
    work(0);
  }
  return load.outcome();
}

}  // namespace troupe::checkpoint
