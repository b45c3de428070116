#include "storage/files/streamed_file.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "storage/files/atomic_file.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/queue/file.hpp"

namespace troupe::storage {

struct streamed_file::parts {
  explicit parts(atomic_file f) : out(std::move(f)) {}

  /// Waits until the writer has written the other block, passes the full block to the writer, and switches to the
  /// other block.
  core::result<void> hand_over() {
    try {
      if (!writer.joinable()) writer = std::jthread([this](const std::stop_token& stop) { write_blocks(stop); });
    } catch (const std::system_error& e) {
      return fail(core::error_kind::limit, std::string("cannot start a thread to write a file: ") + e.what());
    }
    std::unique_lock hold(mutex);
    changed.wait(hold, [&] { return !is_handed; });
    if (error) return fail(*error);
    is_handed = true;
    handed = filling;
    filling = 1 - filling;
    used = 0;
    changed.notify_all();
    hold.unlock();
    if (blocks[filling].bytes() != 0) return {};
    TROUPE_ASSIGN(auto memory, huge_memory::allocate(stream_block_bytes));
    blocks[filling] = std::move(memory);
    return {};
  }

  void write_blocks(const std::stop_token& stop) {
    std::unique_lock hold(mutex);
    while (changed.wait(hold, stop, [&] { return is_handed; })) {
      hold.unlock();
      auto ok = file.write_at(written, {blocks[handed].data(), stream_block_bytes});
      hold.lock();
      written += stream_block_bytes;
      if (!ok && !error) error = ok.error();
      is_handed = false;
      changed.notify_all();
    }
  }

  atomic_file out;
  storage::file file;
  std::array<huge_memory, 2> blocks;
  size_t filling = 0, used = 0;  ///< index of the block that the caller fills; number of bytes in it

  std::mutex mutex;
  std::condition_variable_any changed;
  bool is_handed = false;
  size_t handed = 0;
  uint64_t written = 0;  ///< bytes of the whole blocks written so far
  std::optional<core::error> error;
  std::jthread writer;  ///< last member: the thread ends before the members that it uses are destroyed
};

streamed_file::streamed_file(std::unique_ptr<parts> p) : parts_(std::move(p)) {}
streamed_file::streamed_file(streamed_file&&) noexcept = default;
streamed_file::~streamed_file() = default;

core::result<streamed_file> streamed_file::create(const std::filesystem::path& target) {
  TROUPE_ASSIGN(auto out, atomic_file::create(target));
  auto p = std::make_unique<parts>(std::move(out));
  TROUPE_ASSIGN(auto file, file::open_best(p->out.working_path(), file_access::read_write));
  p->file = std::move(file);
  TROUPE_ASSIGN(auto memory, huge_memory::allocate(stream_block_bytes));
  p->blocks[0] = std::move(memory);
  return streamed_file(std::move(p));
}

core::result<void> streamed_file::write(std::span<const std::byte> bytes) {
  auto& p = *parts_;
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), stream_block_bytes - p.used);
    std::copy_n(bytes.begin(), n, p.blocks[p.filling].data() + p.used);
    p.used += n;
    bytes = bytes.subspan(n);
    if (p.used == stream_block_bytes) TROUPE_TRY(p.hand_over());
  }
  return {};
}

core::result<void> streamed_file::commit() {
  auto& p = *parts_;
  {
    std::unique_lock hold(p.mutex);
    p.changed.wait(hold, [&] { return !p.is_handed; });
    if (p.error) return fail(*p.error);
  }
  // if the file requires aligned transfers, the last block is padded to whole units and the file truncated at the end
  const uint64_t unit = p.file.alignment().offset_bytes, whole = (p.used + unit - 1) / unit * unit;
  std::fill(p.blocks[p.filling].data() + p.used, p.blocks[p.filling].data() + whole, std::byte{0});
  TROUPE_TRY(p.file.write_at(p.written, {p.blocks[p.filling].data(), static_cast<size_t>(whole)}));
  if (whole != p.used) TROUPE_TRY(p.file.truncate(p.written + p.used));
  return p.out.commit();
}

}  // namespace troupe::storage
