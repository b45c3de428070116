#include "data/formats/lz4.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace troupe::data {
namespace {

constexpr const char* cut_off = "it ends in the middle";
constexpr uint32_t frame_magic = 0x184D2204, end_mark = 0, stored_bit = 0x80000000;
/// Magic number of skippable frames, which contain no data; the last four bits may have any value.
constexpr uint32_t skippable_magic = 0x184D2A50;

uint32_t checksum_of(std::span<const std::byte> bytes) { return XXH32(bytes.data(), bytes.size(), 0); }

/// Reader of little-endian numbers, one after the other; `ok` becomes false when the bytes run out.
struct number_reader {
  std::span<const std::byte> rest;
  bool ok = true;

  std::span<const std::byte> take(uint64_t bytes) {
    if (bytes > rest.size()) ok = false;
    const auto out = rest.first(ok ? bytes : 0);
    rest = rest.subspan(out.size());
    return out;
  }
  uint64_t number(size_t bytes) {
    uint64_t out = 0;
    const auto from = take(bytes);
    std::memcpy(&out, from.data(), from.size());
    return out;
  }
};

struct frame_header {
  bool linked = false, block_checksums = false, content_checksum = false;
  uint64_t content_bytes = 0;  ///< bytes of the content; 0: the frame does not state them
};

/// Reads the header of a frame after its magic; returns the error, empty if there is none.
std::string read_header(number_reader& in, frame_header& out) {
  const auto begin = in.rest;
  const uint64_t flags = in.number(1);
  in.number(1);  // largest block size, unused: the requested length limits it too
  if (flags >> 6 != 1) return "it has an unknown version of frames";
  if ((flags & 1) != 0) return "it needs a dictionary, which is not supported";
  out.linked = (flags & 0x20) == 0;
  out.block_checksums = (flags & 0x10) != 0;
  out.content_checksum = (flags & 0x04) != 0;
  if ((flags & 0x08) != 0) out.content_bytes = in.number(8);
  const auto covered = begin.first(begin.size() - in.rest.size());
  const uint64_t said = in.number(1);
  if (!in.ok) return cut_off;
  return said == (checksum_of(covered) >> 8 & 0xFF) ? "" : "its header does not match its checksum";
}

std::string read_frame(number_reader& in, uint64_t bytes, std::vector<std::byte>& out) {
  frame_header h;
  if (auto wrong = read_header(in, h); !wrong.empty()) return wrong;
  const size_t begin = out.size();
  for (;;) {
    const auto size = static_cast<uint32_t>(in.number(4));
    if (!in.ok) return cut_off;
    if (size == end_mark) break;
    const auto block = in.take(size & ~stored_bit);
    if (h.block_checksums && in.number(4) != checksum_of(block) && in.ok) return "a block does not match its checksum";
    if (!in.ok) return cut_off;
    if ((size & stored_bit) != 0) {
      if (block.size() > bytes - out.size()) return "it holds more than it states";
      out.insert(out.end(), block.begin(), block.end());
    } else if (auto wrong = expand_lz4_block(block, bytes, h.linked ? begin : out.size(), out); !wrong.empty()) {
      return wrong;
    }
  }
  const auto content = std::span<const std::byte>(out).subspan(begin);
  if (h.content_bytes != 0 && h.content_bytes != content.size()) return "its length differs from its header";
  if (h.content_checksum && in.number(4) != checksum_of(content) && in.ok)
    return "its content does not match its checksum";
  return in.ok ? "" : cut_off;
}

}  // namespace

std::string expand_lz4_block(std::span<const std::byte> in, uint64_t bytes, size_t window,
                             std::vector<std::byte>& out) {
  size_t at = 0;
  // A length of 15 continues in further bytes, up to the first one that is not 255.
  const auto length_of = [&](uint64_t nibble, uint64_t& length) {
    length = nibble;
    if (nibble != 15) return true;
    for (;;) {
      if (at == in.size()) return false;
      const auto more = static_cast<uint64_t>(in[at++]);
      length += more;
      if (more != 255) return true;
    }
  };
  while (at < in.size()) {
    const auto token = static_cast<uint64_t>(in[at++]);
    uint64_t literals = 0, copied = 0;
    if (!length_of(token >> 4, literals) || literals > in.size() - at) return cut_off;
    if (literals > bytes - out.size()) return "it holds more than it states";
    out.insert(out.end(), in.begin() + static_cast<ptrdiff_t>(at), in.begin() + static_cast<ptrdiff_t>(at + literals));
    at += literals;
    if (at == in.size()) return "";  // the last sequence has only literals
    if (in.size() - at < 2) return cut_off;
    const uint64_t offset = static_cast<uint64_t>(in[at]) | static_cast<uint64_t>(in[at + 1]) << 8;
    at += 2;
    if (offset == 0 || offset > out.size() - window) return "a copy begins before the text";
    if (!length_of(token & 15, copied)) return cut_off;
    copied += 4;
    if (copied > bytes - out.size()) return "it holds more than it states";
    const size_t to = out.size();
    out.resize(to + copied);
    // Source and target may overlap; the format requires this order.
    for (size_t i = 0; i < copied; ++i) out[to + i] = out[to + i - offset];
  }
  return cut_off;
}

std::string expand_lz4_frames(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out) {
  number_reader rest{in};
  do {
    const auto magic = static_cast<uint32_t>(rest.number(4));
    if (!rest.ok) return cut_off;
    if ((magic & ~uint32_t{15}) == skippable_magic) {
      rest.take(rest.number(4));
      if (!rest.ok) return cut_off;
    } else if (magic != frame_magic) {
      return "it does not begin like a frame";
    } else if (auto wrong = read_frame(rest, bytes, out); !wrong.empty()) {
      return wrong;
    }
  } while (!rest.rest.empty());
  return "";
}

}  // namespace troupe::data
