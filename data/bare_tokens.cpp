#include "data/bare_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace troupe::data {
namespace {

using core::error_kind;
using core::fail;

/// Bytes of the header that llm.c writes: 256 numbers of 32 bits, of which three are used. Source: karpathy/llm.c,
/// dev/data/data_common.py.
constexpr uint64_t header_bytes = 1024;
constexpr uint32_t magic_of_gpt2 = 20240520, version_of_gpt2 = 1;
constexpr uint32_t magic_of_llama3 = 20240801, version_of_llama3 = 7;

/// Number of bytes that are examined at the file's beginning, middle and end; fewer than least_numbers numbers prove
/// nothing.
constexpr uint64_t looked_at_bytes = uint64_t{1} << 16;
constexpr size_t least_numbers = 32;
/// Largest vocabulary for which the upper halves of tokens are checked; with a larger one they may be any number.
constexpr uint64_t most_vocabulary = uint64_t{1} << 20;

core::result<std::optional<bare_tokens>> header_of(const core::source_file& file) {
  std::array<uint32_t, 3> head{};
  if (file.size() < header_bytes) return std::nullopt;
  TROUPE_TRY(file.read(0, std::as_writable_bytes(std::span(head))));
  const bool gpt2 = head[0] == magic_of_gpt2 && head[1] == version_of_gpt2;
  if (!gpt2 && (head[0] != magic_of_llama3 || head[1] != version_of_llama3)) return std::nullopt;
  const bare_tokens out{header_bytes, gpt2 ? bin_width::u16 : bin_width::u32};
  const uint64_t there = file.size() - header_bytes;
  if (there != uint64_t{head[2]} * static_cast<uint64_t>(out.width))
    return fail(
        error_kind::bad_input,
        fmt::format(
            "'{}': its llm.c header states {} tokens of {} bytes, but {} bytes follow it: wanted the whole file",
            file.name(), head[2], static_cast<int>(out.width), there));
  return out;
}

/// Properties of the numbers in a file that show the width of its tokens.
struct seen_numbers {
  /// True: every number with an odd index could be the upper half of a token within the vocabulary.
  bool upper_small = true;
  bool fourth_zero = true;  ///< true: of every four numbers the last three are 0
  bool any_lower = false;   ///< true: some number with an even index is not 0
  size_t count = 0;
};

template <class Number>
void look(const std::vector<std::byte>& bytes, uint64_t most_upper, seen_numbers& to) {
  const size_t n = bytes.size() / sizeof(Number);
  for (size_t i = 0; i < n; ++i) {
    Number x;
    std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
    if (i % 2 == 1) to.upper_small = to.upper_small && x <= most_upper;
    if (i % 4 != 0) to.fourth_zero = to.fourth_zero && x == 0;
    if (i % 2 == 0) to.any_lower = to.any_lower || x != 0;
  }
  to.count += n;
}

}  // namespace

core::result<bare_tokens> look_at_tokens(const core::source_file& file, bin_width wanted, uint64_t vocab_size) {
  TROUPE_ASSIGN(auto headed, header_of(file));
  if (headed) return *headed;
  const bool narrow = wanted == bin_width::u16;
  // the upper half of a 32-bit token is 0, or limited by the vocabulary if it has more than 2^16 tokens
  const uint64_t most_upper = narrow && vocab_size <= most_vocabulary ? (vocab_size - 1) >> 16 : 0;
  seen_numbers seen;
  std::vector<std::byte> block(std::min(looked_at_bytes, file.size() / 8 * 8));
  const uint64_t last = (file.size() - block.size()) / 8 * 8;
  for (const uint64_t at : last == 0 ? std::vector<uint64_t>{0} : std::vector<uint64_t>{0, last / 16 * 8, last}) {
    TROUPE_TRY(file.read(at, block));
    narrow ? look<uint16_t>(block, most_upper, seen) : look<uint32_t>(block, most_upper, seen);
  }
  const bare_tokens as_wanted{0, wanted};
  if (seen.count < least_numbers || !seen.upper_small || !seen.any_lower) return as_wanted;
  const bool is_64 = !narrow || (seen.fourth_zero && file.size() % 8 == 0);
  return fail(
      error_kind::bad_input,
      fmt::format("'{}': its tokens look like numbers of {} bits, since every second number of {} bits is {}: {}",
                  file.name(), is_64 ? 64 : 32, narrow ? 16 : 32,
                  most_upper == 0 ? "0" : fmt::format("at most {}", most_upper),
                  is_64 ? "write them as 32-bit ones, for example by `numpy.fromfile(FILE, "
                          "'int64').astype('uint32').tofile(NAME)`, and set data.bin_dtype: uint32"
                        : "set data.bin_dtype: uint32 (`troupe data inspect --dtype uint32`)"));
}

}  // namespace troupe::data
