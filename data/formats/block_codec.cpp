// Expands Snappy and LZ4 with code of this library, gzip and zstd with their libraries as streams, so that a wrong
// length costs no memory.
#include "data/formats/block_codec.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "data/formats/lz4.hpp"

namespace troupe::data {
namespace {

using core::error_kind;
using core::fail;

/// Bytes of the output that a library may write in one step.
constexpr size_t step_bytes = size_t{1} << 18;

core::result<void> wrong(const char* codec, const std::string& why) {
  return fail(error_kind::bad_input, fmt::format("broken {} block: {}", codec, why));
}

core::result<void> wrong_length(const char* codec, uint64_t wanted, uint64_t got) {
  return wrong(
      codec, fmt::format("wanted {} bytes, got {}{}", wanted, got < wanted ? "" : "more than ", std::min(got, wanted)));
}

/// Expands a Snappy block. Format: https://github.com/google/snappy/blob/main/format_description.txt
core::result<void> expand_snappy(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  size_t at = 0;
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(in[i]); };
  const auto number = [&](size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) value |= byte(at + i) << (8 * i);
    at += count;
    return value;
  };
  uint64_t said = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (at == in.size() || shift > 28) return wrong("snappy", "its length is cut off");
    const uint64_t b = byte(at++);
    said |= (b & 0x7F) << shift;
    if (b < 0x80) break;
  }
  if (said != bytes) return wrong_length("snappy", bytes, said);
  while (at < in.size()) {
    const uint64_t tag = byte(at++), kind = tag & 3;
    uint64_t length = 0, offset = 0;
    if (kind == 0) {
      length = (tag >> 2) + 1;
      if (length > 60) {
        const size_t more = length - 60;
        if (in.size() - at < more) return wrong("snappy", "it ends in the middle");
        length = number(more) + 1;
      }
      if (length > in.size() - at) return wrong("snappy", "it ends in the middle");
    } else {
      const size_t more = kind == 1 ? 1 : kind == 2 ? 2 : 4;
      if (in.size() - at < more) return wrong("snappy", "it ends in the middle");
      length = kind == 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
      offset = number(more) | (kind == 1 ? (tag >> 5) << 8 : 0);
      if (offset == 0 || offset > out.size()) return wrong("snappy", "a copy begins before the text");
    }
    if (length > bytes - out.size()) return wrong_length("snappy", bytes, bytes);
    if (kind == 0) {
      out.insert(out.end(), in.begin() + static_cast<ptrdiff_t>(at), in.begin() + static_cast<ptrdiff_t>(at + length));
      at += length;
    } else {
      const size_t to = out.size();
      out.resize(to + length);
      // Source and target may overlap; the format requires this order.
      for (size_t i = 0; i < length; ++i) out[to + i] = out[to + i - offset];
    }
  }
  return out.size() == bytes ? core::result<void>{} : wrong_length("snappy", bytes, out.size());
}

core::result<void> expand_gzip_block(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  z_stream z{};
  if (inflateInit2(&z, 15 + 32) != Z_OK) return wrong("gzip", "no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&z, inflateEnd);
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));  // zlib only reads
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

core::result<void> expand_lz4(block_codec codec, std::span<const std::byte> in, uint64_t bytes,
                              std::vector<std::byte>& out) {
  const std::string problem =
      codec == block_codec::lz4_frame ? expand_lz4_frames(in, bytes, out) : expand_lz4_block(in, bytes, 0, out);
  if (!problem.empty()) return wrong("LZ4", problem);
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
    case block_codec::lz4_frame:
      return expand_lz4(codec, packed, bytes, out);
  }
  return wrong("unknown", "no such codec");
}

}  // namespace troupe::data
