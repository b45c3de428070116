#include "storage/files/queued_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "storage/memory/huge_memory.hpp"

namespace troupe::storage {
namespace {

class queued_output : public output_file {
 public:
  queued_output(file on, const queued_output_options& options)
      : on_(std::move(on)), options_(options), block_tickets_(options.copy_blocks, 0) {}

  core::result<void> expect(uint64_t bytes) override {
    const auto reserved = on_.preallocate(bytes);
    if (!reserved) return failed(reserved.error());
    length_bytes_ = bytes;
    return {};
  }

  core::result<void> write(std::span<const std::byte> bytes) override {
    if (error_) return fail(*error_);
    while (!bytes.empty()) {
      TROUPE_ASSIGN(auto block, copy_block());
      const size_t n = std::min(bytes.size(), block.size() - filled_);
      std::memcpy(block.data() + filled_, bytes.data(), n);
      filled_ += n;
      bytes = bytes.subspan(n);
      if (filled_ == block.size()) TROUPE_TRY(flush_block());
    }
    return {};
  }

  core::result<uint64_t> start_write(std::span<const std::byte> bytes) override {
    if (error_) return fail(*error_);
    const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % write_alignment_bytes == 0 &&
                         bytes.size() % write_alignment_bytes == 0 && filled_ % write_alignment_bytes == 0;
    if (!aligned)
      return fail(error_kind::bug,
                  fmt::format("'{}': {} bytes cannot be written directly at byte {}: multiples of {} "
                              "were wanted",
                              on_.path().string(), bytes.size(), begun_bytes_ + filled_, write_alignment_bytes));
    if (filled_ > 0) TROUPE_TRY(write_head());
    return begin(bytes);
  }

  core::result<void> wait(uint64_t ticket) override {
    while (over_ < std::min(ticket, begun_)) take(when_none::wait);
    if (error_) return fail(*error_);
    return {};
  }

  bool is_over(uint64_t ticket) override {
    ticket = std::min(ticket, begun_);
    if (over_ < ticket) take(when_none::leave);
    return over_ >= ticket;
  }

  core::result<void> sync() override {
    if (error_) return fail(*error_);
    const uint64_t bytes = begun_bytes_ + filled_;
    if (filled_ > 0) TROUPE_TRY(write_last());
    TROUPE_TRY(wait(begun_));
    if (length_bytes_ != bytes)
      if (auto ok = on_.truncate(bytes); !ok) return failed(ok.error());
    if (auto ok = on_.sync(); !ok) return failed(ok.error());
    queue_.reset();
    on_ = {};
    return {};
  }

 private:
  core::result<void> failed(core::error e) {
    if (!error_) error_ = std::move(e);
    return fail(*error_);
  }

  /// Returns the block that plain writes are copied to; its bytes from `filled_` on are free.
  core::result<std::span<std::byte>> copy_block() {
    if (memory_.data() == nullptr) {
      TROUPE_ASSIGN(auto memory, huge_memory::allocate(options_.copy_block_bytes * options_.copy_blocks));
      memory_ = std::move(memory);
    }
    if (filled_ == 0) TROUPE_TRY(wait(block_tickets_[block_]));
    return std::span(memory_.data() + block_ * options_.copy_block_bytes, options_.copy_block_bytes);
  }

  core::result<void> flush_block() {
    TROUPE_ASSIGN(const auto ticket, begin(std::span(memory_.data() + block_ * options_.copy_block_bytes, filled_)));
    block_tickets_[block_] = ticket;
    block_ = (block_ + 1) % options_.copy_blocks;
    filled_ = 0;
    return {};
  }

  /// Writes the copied bytes that precede memory of the caller, usually a header. Writes them synchronously, because
  /// they are too few to justify registering the copy blocks with the queue.
  core::result<void> write_head() {
    const std::span block(memory_.data() + block_ * options_.copy_block_bytes, filled_);
    if (auto ok = on_.write_at(begun_bytes_, block); !ok) return failed(ok.error());
    begun_bytes_ += filled_;
    length_bytes_ = std::max(length_bytes_, begun_bytes_);
    filled_ = 0;
    return {};
  }

  /// Writes the copied bytes at the end of the file, padded with zeros that sync() cuts off.
  core::result<void> write_last() {
    const std::span block(memory_.data() + block_ * options_.copy_block_bytes, options_.copy_block_bytes);
    const auto padded = static_cast<size_t>(core::round_up(filled_, write_alignment_bytes));
    std::fill(block.begin() + static_cast<ptrdiff_t>(filled_), block.begin() + static_cast<ptrdiff_t>(padded),
              std::byte{0});
    // Written synchronously: most files are so small that this is their only write, and need no queue.
    if (auto ok = on_.write_at(begun_bytes_, block.first(padded)); !ok) return failed(ok.error());
    length_bytes_ = std::max(length_bytes_, begun_bytes_ + padded);
    begun_bytes_ += padded;
    filled_ = 0;
    return {};
  }

  core::result<uint64_t> begin(std::span<const std::byte> bytes) {
    if (queue_ == nullptr) {
      io_queue_options options;
      options.engine = options_.engine;
      options.depth = options_.depth;
      if (filled_ > 0) options.pools = {std::span(memory_.data(), memory_.bytes())};
      auto queue = make_queue(options);
      if (!queue) return fail(failed(queue.error()).error());
      queue_ = std::move(*queue);
      queue_->keep(on_);
    }
    while (!bytes.empty()) {
      while (queue_->in_flight() == queue_->depth()) take(when_none::wait);
      if (error_) return fail(*error_);
      const auto part = bytes.first(std::min<size_t>(bytes.size(), options_.request_bytes));
      if (auto ok = queue_->submit(write_request(on_, begun_bytes_, part, begun_)); !ok)
        return fail(failed(ok.error()).error());
      ++begun_;
      done_.push_back(false);
      begun_bytes_ += part.size();
      length_bytes_ = std::max(length_bytes_, begun_bytes_);
      bytes = bytes.subspan(part.size());
    }
    return begun_;
  }

  enum class when_none : uint8_t { wait, leave };

  /// Removes finished requests from the queue. If none has finished, waits for one or returns at once, as `is_over`
  /// selects.
  void take(when_none is_over) {
    completions_.clear();
    if (is_over == when_none::wait)
      queue_->wait(completions_);
    else
      queue_->poll(completions_);
    for (auto& c : completions_) {
      if (c.error && !error_) error_ = std::move(*c.error);
      done_[static_cast<size_t>(c.token - over_)] = true;
    }
    for (; !done_.empty() && done_.front(); ++over_) done_.pop_front();
  }

  file on_;
  queued_output_options options_;
  huge_memory memory_;  // copy blocks; outlive the queue, which writes from them
  std::unique_ptr<io_queue> queue_;
  std::vector<io_completion> completions_;
  std::vector<uint64_t> block_tickets_;  // ticket of the last write from each copy block
  unsigned block_ = 0;
  size_t filled_ = 0;              // number of bytes of block `block_` that are filled
  uint64_t begun_ = 0, over_ = 0;  // number of requests started; number of requests before the first unfinished one
  std::deque<bool> done_;          // at index request - over_: true if the request has finished
  uint64_t begun_bytes_ = 0;       // length of the file up to the last started request
  uint64_t length_bytes_ = 0;      // length of the file on the disk when all requests have finished
  std::optional<core::error> error_;
};

}  // namespace

core::result<std::unique_ptr<output_file>> create_queued_output(const std::filesystem::path& path,
                                                                const queued_output_options& options) {
  if (options.request_bytes == 0 || options.request_bytes % write_alignment_bytes != 0 ||
      options.copy_block_bytes == 0 || options.copy_block_bytes % write_alignment_bytes != 0 || options.copy_blocks < 2)
    return fail(error_kind::bug,
                fmt::format("'{}': wanted requests and copy blocks of multiples of {} bytes and 2 blocks at least, got "
                            "{}, {} and {} blocks",
                            path.string(), write_alignment_bytes, options.request_bytes, options.copy_block_bytes,
                            options.copy_blocks));
  constexpr auto how = file_access::create_new;
  TROUPE_ASSIGN(auto on, options.direct ? file::open_best(path, how) : file::open(path, how, file_mode::buffered));
  const auto wants = on.alignment();
  if (wants.memory_bytes > write_alignment_bytes || wants.offset_bytes > write_alignment_bytes) {
    TROUPE_ASSIGN(on, on.reopened(file_access::read_write, file_mode::buffered));
  }
  return std::make_unique<queued_output>(std::move(on), options);
}

}  // namespace troupe::storage
