#include "checkpoint/native/shard.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/math.hpp"
#include "core/system/stream_copy.hpp"

namespace troupe::checkpoint {
namespace {

/// Number of bytes that are digested and then copied at a time, so that they are in the cache when they are copied.
constexpr size_t cached_bytes = size_t{128} << 10;

/// Writes zeros after a piece of `bytes` bytes, up to the next multiple of piece_alignment_bytes.
void pad(std::byte* piece, size_t bytes) {
  std::memset(piece + bytes, 0, core::round_up(bytes, formats::piece_alignment_bytes) - bytes);
}

}  // namespace

storage::digest128 stage_piece(std::span<const std::byte> piece, std::byte* to) {
  storage::digest_stream digest;
  for (size_t done = 0; done < piece.size(); done += cached_bytes) {
    const auto part = piece.subspan(done, std::min(cached_bytes, piece.size() - done));
    digest.add(part);
    core::stream_copy(to + done, part);
  }
  pad(to, piece.size());
  return digest.value();
}

storage::digest128 stage_piece_in_place(std::span<std::byte> piece) {
  pad(piece.data(), piece.size());
  return storage::digest_of(piece);
}

core::result<shard_writer> shard_writer::create(storage::file_system& files, const std::filesystem::path& path,
                                                storage::digest128 save_id, uint64_t file_bytes) {
  TROUPE_ASSIGN(auto file, files.create(path));
  TROUPE_TRY(file->expect(file_bytes));
  const auto header = formats::make_shard_header(save_id);
  TROUPE_TRY(file->write(header));
  shard_writer out(path, std::move(file));
  out.written_bytes_ = header.size();
  return out;
}

core::result<uint64_t> shard_writer::start_block(std::span<const std::byte> block) {
  auto ticket = file_->start_write(block);
  if (ticket) written_bytes_ += block.size();
  return ticket;
}

core::result<formats::shard_file> shard_writer::finish() {
  TROUPE_TRY(file_->sync());
  return formats::shard_file{path_.filename().string(), written_bytes_};
}

}  // namespace troupe::checkpoint
