// Expands every codec with its own library: gzip, zstd and LZ4 frames as streams, Snappy and LZ4 blocks at once, after
// a check that the packed bytes can hold the stated length. A wrong length therefore costs no memory.
#include "data/formats/columns/block_codec.hpp"

#include <fmt/format.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace troupe::data {
namespace {

/// Bytes of the output that a library may write in one step.
constexpr size_t step_bytes = size_t{1} << 18;

core::result<void> wrong(const char* codec, const std::string& why) {
  return fail(error_kind::bad_input, fmt::format("broken {} block: {}", codec, why));
}

core::result<void> wrong_length(const char* codec, uint64_t wanted, uint64_t got) {
  return wrong(
      codec, fmt::format("wanted {} bytes, got {}{}", wanted, got < wanted ? "" : "more than ", std::min(got, wanted)));
}

/// Resizes `out` to the stated length of a block that its library expands at once. Refuses a length that exceeds
/// `largest_ratio` bytes per packed byte, which the codec cannot reach.
core::result<void> make_room(const char* codec, uint64_t packed_bytes, uint64_t largest_ratio, uint64_t bytes,
                             std::vector<std::byte>& out) {
  if (bytes / largest_ratio > packed_bytes)
    return wrong(codec, fmt::format("{} packed bytes are too few for {} bytes", packed_bytes, bytes));
  out.resize(bytes);
  return {};
}

core::result<void> expand_snappy(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  constexpr uint64_t largest_ratio = 22;  // Snappy's best case: 3 packed bytes that copy 64 bytes
  const auto* const packed = reinterpret_cast<const char*>(in.data());
  size_t said = 0;
  if (!snappy::GetUncompressedLength(packed, in.size(), &said)) return wrong("snappy", "its length is cut off");
  if (said != bytes) return wrong_length("snappy", bytes, said);
  TROUPE_TRY(make_room("snappy", in.size(), largest_ratio, bytes, out));
  if (!snappy::RawUncompress(packed, in.size(), reinterpret_cast<char*>(out.data())))
    return wrong("snappy", "it is cut off or damaged");
  return {};
}

core::result<void> expand_gzip_block(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  z_stream z{};
  if (inflateInit2(&z, 15 + 32) != Z_OK) return wrong("gzip", "no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&z, inflateEnd);
  // Zlib requires a pointer that is not const, but only reads through it.
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
  z.avail_in = static_cast<uInt>(in.size());
  for (int rc = Z_OK; rc != Z_STREAM_END || z.avail_in > 0;) {
    if (rc == Z_STREAM_END && inflateReset(&z) != Z_OK) return wrong("gzip", "it ends in the middle");
    const size_t held = out.size();
    const size_t room = std::min<uint64_t>(step_bytes, bytes - held + 1);
    out.resize(held + room);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + held);
    z.avail_out = static_cast<uInt>(room);
    rc = inflate(&z, Z_NO_FLUSH);
    out.resize(held + room - z.avail_out);
    if (rc != Z_OK && rc != Z_STREAM_END) return wrong("gzip", z.msg != nullptr ? z.msg : "it ends in the middle");
    if (out.size() > bytes) return wrong_length("gzip", bytes, out.size());
  }
  return out.size() == bytes ? core::result<void>{} : wrong_length("gzip", bytes, out.size());
}

core::result<void> expand_zstd(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> stream(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (stream == nullptr) return wrong("zstd", "no memory");
  ZSTD_inBuffer from{in.data(), in.size(), 0};
  for (size_t left = 1; left != 0 || from.pos < from.size;) {
    const size_t held = out.size();
    const size_t room = std::min<uint64_t>(step_bytes, bytes - held + 1);
    out.resize(held + room);
    ZSTD_outBuffer to{out.data() + held, room, 0};
    const size_t taken = from.pos;
    left = ZSTD_decompressStream(stream.get(), &to, &from);
    out.resize(held + to.pos);
    if (ZSTD_isError(left)) return wrong("zstd", ZSTD_getErrorName(left));
    if (out.size() > bytes) return wrong_length("zstd", bytes, out.size());
    if (left != 0 && from.pos == taken && to.pos == 0) return wrong("zstd", "it ends in the middle");
  }
  return out.size() == bytes ? core::result<void>{} : wrong_length("zstd", bytes, out.size());
}

core::result<void> expand_lz4_block(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  // LZ4's best case: each further byte of a copy's length adds at most 255 bytes.
  constexpr uint64_t largest_ratio = 255;
  TROUPE_TRY(make_room("LZ4", in.size(), largest_ratio, bytes, out));
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
                                      static_cast<int>(in.size()), static_cast<int>(bytes));
  if (got < 0) return wrong("LZ4", fmt::format("it is cut off or damaged, or holds more than {} bytes", bytes));
  return static_cast<uint64_t>(got) == bytes ? core::result<void>{}
                                             : wrong_length("LZ4", bytes, static_cast<uint64_t>(got));
}

/// True if `frame` begins with an LZ4 frame whose blocks need a dictionary. liblz4 would expand them without one.
bool needs_dictionary(std::span<const std::byte> frame) {
  constexpr std::string_view magic{"\x04\x22\x4D\x18"};
  constexpr std::byte dictionary_flag{1};
  return frame.size() > magic.size() &&
         std::ranges::equal(std::as_bytes(std::span(magic)), frame.first(magic.size())) &&
         (frame[magic.size()] & dictionary_flag) != std::byte{};
}

core::result<void> expand_lz4_frames(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  LZ4F_dctx* made = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION)) != 0) return wrong("LZ4", "no memory");
  const std::unique_ptr<LZ4F_dctx, LZ4F_errorCode_t (*)(LZ4F_dctx*)> stream(made, LZ4F_freeDecompressionContext);
  bool begins = true;
  for (size_t left = 1; left != 0 || !in.empty(); begins = left == 0) {
    if (begins && needs_dictionary(in)) return wrong("LZ4", "it needs a dictionary, which is not supported");
    const size_t held = out.size();
    size_t wrote = std::min<uint64_t>(step_bytes, bytes - held + 1), taken = in.size();
    out.resize(held + wrote);
    left = LZ4F_decompress(stream.get(), out.data() + held, &wrote, in.data(), &taken, nullptr);
    if (LZ4F_isError(left) != 0) return wrong("LZ4", LZ4F_getErrorName(left));
    out.resize(held + wrote);
    if (out.size() > bytes) return wrong_length("LZ4", bytes, out.size());
    if (left != 0 && taken == 0 && wrote == 0) return wrong("LZ4", "it ends in the middle");
    in = in.subspan(taken);
  }
  return out.size() == bytes ? core::result<void>{} : wrong_length("LZ4", bytes, out.size());
}

}  // namespace

core::result<void> expand_block(block_codec codec, std::span<const std::byte> packed, uint64_t bytes,
                                std::vector<std::byte>& out) {
  out.clear();
  if (bytes > max_block_bytes || packed.size() > max_block_bytes)
    return fail(error_kind::limit, fmt::format("a block of {} bytes, packed {}: at most {} are read", bytes,
                                               packed.size(), max_block_bytes));
  switch (codec) {
    case block_codec::none:
      out.assign(packed.begin(), packed.end());
      return bytes == out.size() ? core::result<void>{} : wrong_length("stored", bytes, out.size());
    case block_codec::snappy:
      return expand_snappy(packed, bytes, out);
    case block_codec::gzip:
      return expand_gzip_block(packed, bytes, out);
    case block_codec::zstd:
      return expand_zstd(packed, bytes, out);
    case block_codec::lz4_block:
      return expand_lz4_block(packed, bytes, out);
    case block_codec::lz4_frame:
      return expand_lz4_frames(packed, bytes, out);
  }
  return wrong("unknown", "no such codec");
}

}  // namespace troupe::data
