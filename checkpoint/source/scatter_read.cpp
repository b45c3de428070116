// A piece is a unit of work, so that its digest is one thread's; blocks of it go from the file into a thread's own
// memory and from there to everybody who wants some of it.
#include "checkpoint/source/scatter_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "checkpoint/source/element_cast.hpp"
#include "checkpoint/source/source_reader.hpp"
#include "core/math.hpp"
#include "core/tensor_view.hpp"
#include "storage/memory/huge_memory.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;

/// Below this a read through the page cache costs less than one past it.
constexpr uint64_t min_direct_bytes = uint64_t{256} << 10;

struct unit {  ///< elements [first, last) of a tensor, in one piece
  const scattered_tensor* of = nullptr;
  const piece* in = nullptr;
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
  const uint64_t elements = core::numel_of(t.shape);
  for (const auto& target : s.targets) {
    if (target.first > elements || target.count > elements - target.first)
      return fail(error_kind::bug, fmt::format("tensor {}: {} elements from element {} on of {}", shown(t),
                                               target.count, target.first, elements));
    if (target.type != t.type && (!is_floating(target.type) || !is_floating(t.type)))
      return fail(error_kind::mismatch, fmt::format("tensor {}: {} does not become {}", shown(t), core::name_of(t.type),
                                                    core::name_of(target.type)));
  }
  return {};
}

/// The pieces of a tensor that somebody wants some of.
void add_units(std::vector<unit>& out, const scattered_tensor& s) {
  for (const auto& p : s.tensor->pieces) {
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    for (const auto& target : s.targets) {
      const uint64_t from = std::max(p.first, target.first);
      const uint64_t to = std::min(p.first + p.count, target.first + target.count);
      if (from < to) parts.emplace_back(from, to);
    }
    if (parts.empty()) continue;
    std::sort(parts.begin(), parts.end());
    uint64_t reached = parts.front().first;
    bool gap = reached > p.first;
    for (const auto& [from, to] : parts) {
      gap = gap || from > reached;
      reached = std::max(reached, to);
    }
    out.push_back({&s, &p, parts.front().first, reached, !gap && reached == p.first + p.count});
  }
}

/// One load: what all threads share.
class load {
 public:
  load(file_system& files, const tensor_source& from, std::vector<unit> units, const read_options& options)
      : files_(files, from), from_(from), units_(std::move(units)), options_(options) {}

  core::result<read_report> run() {
    const size_t threads = std::min(scatter_threads, units_.size());
    std::vector<storage::huge_memory> memory;
    for (size_t i = 0; i < threads; ++i) {
      // room for a block that begins and ends in the middle of what a direct read must be a multiple of
      auto block = storage::huge_memory::allocate(scatter_block_bytes + 2 * storage::file::alignment_bytes_max);
      if (!block) return fail(block.error());
      memory.push_back(std::move(*block));
    }
    {
      std::vector<std::jthread> others;
      try {
        for (size_t i = 1; i < threads; ++i)
          others.emplace_back([this, &m = memory[i]] { work({m.data(), m.bytes()}); });
      } catch (const std::system_error&) {  // refused: those that there are do all of it
      }
      if (threads > 0) work({memory[0].data(), memory[0].bytes()});
    }
    if (failure_) return fail(std::move(*failure_));
    return read_report{bytes_.load(), verified_.load()};
  }

 private:
  void work(std::span<std::byte> memory) {
    for (size_t i = next_++; i < units_.size() && !ended_; i = next_++)
      if (auto ok = read(units_[i], memory); !ok) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = ok.error();
        ended_ = true;
      }
  }

  core::result<void> read(const unit& u, std::span<std::byte> memory) {
    const auto& t = *u.of->tensor;
    const auto file = files_.at(u.in->file);
    if (!file) return fail(file.error());
    const uint64_t element_bytes = core::size_of(t.type), block = scatter_block_bytes / element_bytes;
    const bool verify = options_.verify && from_.has_digests && u.whole;
    digest_stream digest;
    for (uint64_t first = u.first; first < u.last; first += block) {
      if (options_.wants_end && options_.wants_end()) return fail(error_kind::stopped, "stopped while loading");
      const uint64_t n = std::min(block, u.last - first);
      const uint64_t offset_bytes = u.in->offset_bytes + (first - u.in->first) * element_bytes;
      auto bytes = fetch(**file, from_.files[u.in->file].path, offset_bytes, n * element_bytes, memory);
      if (!bytes) return fail(bytes.error());
      if (verify) digest.add(*bytes);
      for (const auto& target : u.of->targets) {
        const uint64_t from = std::max(first, target.first), to = std::min(first + n, target.first + target.count);
        if (from >= to) continue;
        cast_elements(t.type, bytes->data() + (from - first) * element_bytes, target.type,
                      target.to + (from - target.first) * core::size_of(target.type), to - from);
      }
      bytes_ += n * element_bytes;
    }
    if (!verify) return {};
    if (digest.value() != u.in->digest)
      return fail(error_kind::bad_input,
                  fmt::format("'{}': the {} bytes at byte {}, of tensor {}, do not have their digest",
                              from_.files[u.in->file].path.string(), u.in->count * element_bytes, u.in->offset_bytes,
                              shown(t)));
    verified_ += u.in->count * element_bytes;
    return {};
  }

  /// `bytes` of the file somewhere in `memory`.
  core::result<std::span<const std::byte>> fetch(const open_file& f, const std::filesystem::path& path,
                                                 uint64_t offset_bytes, uint64_t bytes, std::span<std::byte> memory) {
    if (f.direct && bytes >= min_direct_bytes) {
      const uint64_t grain = f.direct->alignment().offset_bytes;
      const uint64_t begin = offset_bytes / grain * grain, end = core::round_up(offset_bytes + bytes, grain);
      const auto got = f.direct->read_at(begin, memory.first(end - begin));
      if (!got) return fail(got.error());
      if (*got >= offset_bytes + bytes - begin) return memory.subspan(offset_bytes - begin, bytes);
    }
    const auto into = memory.first(bytes);
    if (auto ok = read_exactly(*f.file, path, offset_bytes, into); !ok) return fail(ok.error());
    return into;
  }

  open_files files_;
  const tensor_source& from_;
  std::vector<unit> units_;
  read_options options_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> bytes_ = 0, verified_ = 0;
  std::mutex mutex_;
  std::optional<core::error> failure_;
};

}  // namespace

core::result<read_report> read_scattered(file_system& files, const tensor_source& from,
                                         std::span<const scattered_tensor> wanted, const read_options& options) {
  std::vector<unit> units;
  for (const auto& s : wanted) {
    if (s.targets.empty()) continue;
    if (auto ok = check(s); !ok) return fail(ok.error());
    add_units(units, s);
  }
  // one file after the other, as it lies there
  std::sort(units.begin(), units.end(), [](const unit& a, const unit& b) {
    return std::pair(a.in->file, a.in->offset_bytes) < std::pair(b.in->file, b.in->offset_bytes);
  });
  return load(files, from, std::move(units), options).run();
}

}  // namespace troupe::checkpoint
