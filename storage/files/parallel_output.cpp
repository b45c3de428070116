#include "storage/files/parallel_output.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "storage/memory/huge_memory.hpp"
#include "storage/queue/file.hpp"

namespace troupe::storage {
namespace {

/// Distributes the blocks of a file among threads: stores the offset of the next block, and the first error.
class block_queue {
 public:
  explicit block_queue(uint64_t bytes) : bytes_(bytes) {}

  /// Returns the offset of the next block; nothing after the last block or after an error.
  std::optional<uint64_t> next() {
    const std::lock_guard hold(mutex_);
    if (error_ || at_ >= bytes_) return std::nullopt;
    const uint64_t offset = at_;
    at_ += std::min<uint64_t>(output_block_bytes, bytes_ - at_);
    return offset;
  }

  void done(uint64_t bytes, const block_done& tell) {
    const std::lock_guard hold(mutex_);
    if (!error_ && tell && !tell(bytes)) error_ = core::error{error_kind::stopped, "the export was stopped"};
  }

  void failed(core::error why) {
    const std::lock_guard hold(mutex_);
    if (!error_) error_ = std::move(why);
  }

  [[nodiscard]] const std::optional<core::error>& error() const { return error_; }

 private:
  std::mutex mutex_;
  uint64_t bytes_, at_ = 0;
  std::optional<core::error> error_;
};

}  // namespace

core::result<atomic_file> write_in_blocks(const std::filesystem::path& target, uint64_t bytes, const block_source& fill,
                                          const block_done& done) {
  auto out = atomic_file::create(target);
  if (!out) return out;
  TROUPE_ASSIGN(const auto file, file::open_best(out->working_path(), file_access::read_write));
  // if the file requires aligned transfers, the last block is padded to whole units and the file truncated at the end
  const uint64_t unit = file.alignment().offset_bytes;
  TROUPE_TRY(file.preallocate((bytes + unit - 1) / unit * unit));

  block_queue queue(bytes);
  const auto work = [&](size_t worker) {
    auto memory = huge_memory::allocate(output_block_bytes);
    if (!memory) return queue.failed(memory.error());
    const std::span block(memory->data(), output_block_bytes);
    while (const auto offset = queue.next()) {
      const auto wanted = static_cast<size_t>(std::min<uint64_t>(output_block_bytes, bytes - *offset));
      if (auto ok = fill(worker, *offset, block.first(wanted)); !ok) return queue.failed(ok.error());
      const size_t whole = (wanted + unit - 1) / unit * unit;
      std::fill(block.begin() + static_cast<std::ptrdiff_t>(wanted), block.begin() + static_cast<std::ptrdiff_t>(whole),
                std::byte{0});
      if (auto ok = file.write_at(*offset, block.first(whole)); !ok) return queue.failed(ok.error());
      queue.done(wanted, done);
    }
  };
  {
    std::array<std::jthread, output_workers - 1> others;
    if (bytes > output_block_bytes) try {
        for (size_t i = 0; i < others.size(); ++i) others[i] = std::jthread(work, i + 1);
      } catch (const std::system_error&) {  // no more threads: the running ones do all of the work
      }
    work(0);
  }
  if (queue.error()) return fail(*queue.error());
  if (bytes % unit != 0) TROUPE_TRY(file.truncate(bytes));
  TROUPE_TRY(out->sync());
  return out;
}

}  // namespace troupe::storage
