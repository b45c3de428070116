// Writes and checks the header of a checkpoint's data file; writes padding and computes digests of pieces.
#include "checkpoint/native/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/math.hpp"
#include "core/stream_copy.hpp"

namespace troupe::checkpoint {
namespace {

constexpr std::string_view magic("troupe shard\n\0\0\0", 16);
constexpr size_t version_at = 16, length_at = 20, high_at = 24, low_at = 32;
constexpr size_t seal_at = shard_header_bytes - 16;
/// Number of bytes that are digested and then copied at a time, so that they are in the cache when they are copied.
constexpr size_t cached_bytes = size_t{128} << 10;

template <class T>
void put(std::span<std::byte> to, size_t at, T value) {
  std::memcpy(&to[at], &value, sizeof(value));  // little-endian, like every machine that Troupe builds for
}
template <class T>
T get(std::span<const std::byte> from, size_t at) {
  T value;
  std::memcpy(&value, &from[at], sizeof(value));
  return value;
}

std::array<std::byte, shard_header_bytes> make_shard_header(digest128 save_id) {
  std::array<std::byte, shard_header_bytes> out{};
  std::memcpy(out.data(), magic.data(), magic.size());
  put(out, version_at, shard_version);
  put(out, length_at, static_cast<uint32_t>(shard_header_bytes));
  put(out, high_at, save_id.high);
  put(out, low_at, save_id.low);
  const auto seal = digest_of(std::span<const std::byte>(out).first(seal_at));
  put(out, seal_at, seal.high);
  put(out, seal_at + 8, seal.low);
  return out;
}

/// Writes zeros after a piece of `bytes` bytes, up to the next multiple of piece_alignment_bytes.
void pad(std::byte* piece, size_t bytes) {
  std::memset(piece + bytes, 0, core::round_up(bytes, piece_alignment_bytes) - bytes);
}

}  // namespace

std::string shard_file_name(uint32_t number) { return fmt::format("shard-{:05}.bin", number); }

std::optional<uint32_t> shard_number_of(std::string_view name) {
  constexpr std::string_view head = "shard-";
  uint32_t number = 0;
  if (!name.starts_with(head)) return std::nullopt;
  std::from_chars(name.data() + head.size(), name.data() + name.size(), number);
  return shard_file_name(number) == name ? std::optional(number) : std::nullopt;
}

digest128 stage_piece(std::span<const std::byte> piece, std::byte* to) {
  digest_stream digest;
  for (size_t done = 0; done < piece.size(); done += cached_bytes) {
    const auto part = piece.subspan(done, std::min(cached_bytes, piece.size() - done));
    digest.add(part);
    core::stream_copy(to + done, part);
  }
  pad(to, piece.size());
  return digest.value();
}

digest128 stage_piece_in_place(std::span<std::byte> piece) {
  pad(piece.data(), piece.size());
  return digest_of(piece);
}

core::result<shard_writer> shard_writer::create(file_system& files, const std::filesystem::path& path,
                                                digest128 save_id, uint64_t file_bytes) {
  TROUPE_ASSIGN(auto file, files.create(path));
  TROUPE_TRY(file->expect(file_bytes));
  const auto header = make_shard_header(save_id);
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

core::result<shard_file> shard_writer::finish() {
  TROUPE_TRY(file_->sync());
  return shard_file{path_.filename().string(), written_bytes_};
}

core::result<void> check_shard(const input_file& file, const std::filesystem::path& path, const shard_file& expected,
                               digest128 save_id) {
  const auto bad = [&](std::string why) {
    return fail(error_kind::bad_input, fmt::format("'{}': {}", path.string(), why));
  };
  if (file.bytes() != expected.bytes)
    return bad(fmt::format("it has {} bytes, but its manifest states {}", file.bytes(), expected.bytes));
  std::array<std::byte, shard_header_bytes> header{};
  TROUPE_TRY(read_exactly(file, path, 0, header));
  if (std::memcmp(header.data(), magic.data(), magic.size()) != 0)
    return bad("it does not begin like a data file of a Troupe checkpoint (bytes 0 to 15)");
  if (const auto version = get<uint32_t>(header, version_at); version > shard_version)
    return fail(error_kind::mismatch, fmt::format("'{}': it has version {}, this program reads versions up to {}",
                                                  path.string(), version, shard_version));
  if (header != make_shard_header(digest128{get<uint64_t>(header, high_at), get<uint64_t>(header, low_at)}))
    return bad(fmt::format("its header (bytes 0 to {}) is damaged", shard_header_bytes - 1));
  if (header != make_shard_header(save_id)) return bad("it belongs to another save than its manifest");
  return {};
}

}  // namespace troupe::checkpoint
