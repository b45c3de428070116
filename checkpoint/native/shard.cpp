// Header, padding, digests.
#include "checkpoint/native/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/clock.hpp"
#include "core/math.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;

constexpr std::string_view magic("troupe shard\n\0\0\0", 16);
constexpr size_t version_at = 16, length_at = 20, high_at = 24, low_at = 32;
constexpr size_t append_block_bytes = size_t{1} << 20;
constexpr size_t seal_at = shard_header_bytes - 16;

template <class T>
void put(std::span<std::byte> to, size_t at, T value) {
  std::memcpy(&to[at], &value, sizeof(value));  // little-endian, as every machine that this builds for
}
template <class T>
T get(std::span<const std::byte> from, size_t at) {
  T value;
  std::memcpy(&value, &from[at], sizeof(value));
  return value;
}

/// Adds the time of its life.
class stopwatch {
 public:
  explicit stopwatch(int64_t& to) : to_(to), began_(core::now_ns()) {}
  ~stopwatch() { to_ += core::now_ns() - began_; }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

 private:
  int64_t& to_;
  int64_t began_;
};

}  // namespace

std::string shard_file_name(uint32_t number) { return fmt::format("shard-{:05}.bin", number); }

double write_statistics::gigabytes_per_second() const {
  return seconds > 0 ? static_cast<double>(bytes) / 1e9 / seconds : 0;
}

uint64_t shard_bytes_for(std::span<const uint64_t> piece_bytes) {
  uint64_t out = shard_header_bytes;
  for (const uint64_t bytes : piece_bytes) out += core::round_up(bytes, piece_alignment_bytes);
  return out;
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

core::result<shard_writer> shard_writer::create(file_system& files, const std::filesystem::path& path,
                                                digest128 save_id, uint64_t expected_bytes) {
  const int64_t began = core::now_ns();
  auto file = files.create(path);
  if (!file) return fail(file.error());
  if (expected_bytes > 0)
    if (auto ok = (*file)->expect(expected_bytes); !ok) return fail(ok.error());
  shard_writer out(path, std::move(*file));
  out.began_ns_ = began;
  const auto header = make_shard_header(save_id);
  if (auto ok = out.write(header); !ok) return fail(ok.error());
  return out;
}

core::result<void> shard_writer::wait(uint64_t ticket) {
  const stopwatch waits(waited_ns_);
  return file_->wait(ticket);
}

core::result<void> shard_writer::write(std::span<const std::byte> bytes) {
  const stopwatch waits(waited_ns_);
  if (auto ok = file_->write(bytes); !ok) return ok;
  written_bytes_ += bytes.size();
  return {};
}

core::result<written_piece> shard_writer::append(std::span<const std::byte> bytes) {
  written_piece out{written_bytes_, bytes.size(), {}};
  digest_stream digest;
  // block by block: the disk writes one while the next is looked at
  for (auto rest = bytes; !rest.empty();) {
    const auto block = rest.first(std::min<size_t>(rest.size(), append_block_bytes));
    digest.add(block);
    if (auto ok = write(block); !ok) return fail(ok.error());
    rest = rest.subspan(block.size());
  }
  const std::array<std::byte, piece_alignment_bytes> zeros{};
  const auto padding = core::round_up(bytes.size(), piece_alignment_bytes) - bytes.size();
  if (auto ok = write(std::span(zeros).first(static_cast<size_t>(padding))); !ok) return fail(ok.error());
  out.digest = digest.value();
  return out;
}

core::result<written_piece> shard_writer::append(uint64_t bytes, const byte_source& source) {
  static_assert(write_block_bytes % piece_alignment_bytes == 0);
  written_piece out{written_bytes_, bytes, {}};
  digest_stream digest;
  for (uint64_t done = 0; done < bytes;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(bytes - done, write_block_bytes));
    const auto padded = static_cast<size_t>(core::round_up(n, piece_alignment_bytes));
    if (block_.size() < padded) block_.resize(padded);
    const std::span<std::byte> block(block_.data(), padded);
    if (auto ok = source(done, block.first(n)); !ok) return fail(ok.error());
    digest.add(block.first(n));
    std::fill(block.begin() + static_cast<ptrdiff_t>(n), block.end(), std::byte{0});
    if (auto ok = write(block); !ok) return fail(ok.error());
    done += n;
  }
  out.digest = digest.value();
  return out;
}

core::result<uint64_t> shard_writer::start_block(std::span<std::byte> block, uint64_t used_bytes) {
  if (used_bytes == 0 || used_bytes > block.size() || block.size() % piece_alignment_bytes != 0 ||
      open_.bytes % piece_alignment_bytes != 0)
    return fail(error_kind::bug, fmt::format("'{}': a block of {} bytes, {} of them used, behind {} bytes of its piece",
                                             path_.string(), block.size(), used_bytes, open_.bytes));
  if (open_.bytes == 0) open_.offset_bytes = written_bytes_;
  const auto used = static_cast<size_t>(used_bytes);
  const auto padded = static_cast<size_t>(core::round_up(used_bytes, piece_alignment_bytes));
  open_digest_.add(block.first(used));
  std::fill(block.begin() + static_cast<ptrdiff_t>(used), block.begin() + static_cast<ptrdiff_t>(padded), std::byte{0});
  const stopwatch waits(waited_ns_);
  auto ticket = file_->start_write(block.first(padded));
  if (!ticket) return ticket;
  written_bytes_ += padded;
  open_.bytes += used_bytes;
  return ticket;
}

written_piece shard_writer::end_piece() {
  written_piece out = std::exchange(open_, {});
  if (out.bytes == 0) out.offset_bytes = written_bytes_;
  out.digest = std::exchange(open_digest_, digest_stream()).value();
  return out;
}

core::result<shard_file> shard_writer::finish() {
  {
    const stopwatch waits(waited_ns_);
    if (auto ok = file_->sync(); !ok) return fail(ok.error());
  }
  ended_ns_ = core::now_ns();
  return shard_file{path_.filename().string(), written_bytes_};
}

write_statistics shard_writer::statistics() const {
  const int64_t end = ended_ns_ != 0 ? ended_ns_ : core::now_ns();
  return {path_, written_bytes_, static_cast<double>(end - began_ns_) / 1e9, static_cast<double>(waited_ns_) / 1e9};
}

core::result<void> check_shard(const input_file& file, const std::filesystem::path& path, const shard_file& expected,
                               digest128 save_id) {
  const auto bad = [&](std::string why) {
    return fail(error_kind::bad_input, fmt::format("'{}': {}", path.string(), why));
  };
  if (file.bytes() != expected.bytes)
    return bad(fmt::format("it has {} bytes, its manifest says {}", file.bytes(), expected.bytes));
  std::array<std::byte, shard_header_bytes> header{};
  if (auto ok = read_exactly(file, path, 0, header); !ok) return ok;
  if (std::memcmp(header.data(), magic.data(), magic.size()) != 0)
    return bad("it does not begin as a data file of a Troupe checkpoint (bytes 0 to 15)");
  if (const auto version = get<uint32_t>(header, version_at); version > shard_version)
    return fail(error_kind::mismatch, fmt::format("'{}': it has version {}, this program reads versions up to {}",
                                                  path.string(), version, shard_version));
  if (header != make_shard_header(digest128{get<uint64_t>(header, high_at), get<uint64_t>(header, low_at)}))
    return bad(fmt::format("its header (bytes 0 to {}) is damaged", shard_header_bytes - 1));
  if (header != make_shard_header(save_id)) return bad("it belongs to another save than its manifest");
  return {};
}

}  // namespace troupe::checkpoint
