#include "data/bare_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace troupe::data {
namespace {

/// Bytes of the header that llm.c writes: 256 numbers of 32 bits, of which three are used. Source: karpathy/llm.c,
/// dev/data/data_common.py.
constexpr uint64_t header_bytes = 1024;
constexpr uint32_t magic_of_gpt2 = 20240520, version_of_gpt2 = 1;
constexpr uint32_t magic_of_llama3 = 20240801, version_of_llama3 = 7;

/// Number of bytes that are examined at the file's beginning, middle and end; fewer than least_words words of 16 bits
/// prove nothing.
constexpr uint64_t looked_at_bytes = uint64_t{1} << 16;
constexpr size_t least_words = 32;
/// Largest upper half of a 32-bit token: a vocabulary has at most 2^24 tokens.
constexpr uint16_t most_upper = 255;
/// Numbers of 16-bit words that look like lower halves of 32-bit tokens: they are at even positions, and larger than
/// twice every word at an odd position. With at least open_lower such words the width of the tokens is undecided, with
/// at least proving_lower it is 32 bits. Among 16-bit tokens, 24 such words are at even positions by chance in one of
/// 2^24 files.
constexpr size_t open_lower = 8, proving_lower = 24;

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

/// Statistics of the 16-bit words of a file at even and at odd positions, from which look_at_tokens() derives the width
/// of the tokens. A word 0xFFFF, the upper half of a small negative number, is not counted.
struct seen_words {
  std::array<uint64_t, 65536> even{};  ///< [value]: number of words of this value at even positions
  uint16_t largest_odd = 0;
  bool is_fourth_zero = true;  ///< true: among every four words the third and the fourth are 0
  size_t count = 0;

  void look(std::span<const std::byte> bytes) {
    const size_t n = bytes.size() / sizeof(uint16_t);
    for (size_t i = 0; i < n; ++i) {
      uint16_t x;
      std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
      if (x == 0xFFFF) continue;
      if (i % 2 == 0) ++even[x];
      if (i % 2 == 1) largest_odd = std::max(largest_odd, x);
      if (i % 4 >= 2) is_fourth_zero = is_fourth_zero && x == 0;
    }
    count += n;
  }

  /// Returns the number of words at even positions that are larger than twice the largest word at an odd position.
  [[nodiscard]] uint64_t lower_beyond() const {
    const size_t from = largest_odd == 0 ? 1 : 2 * size_t{largest_odd} + 2;
    return std::accumulate(even.begin() + static_cast<ptrdiff_t>(from), even.end(), uint64_t{0});
  }
};

}  // namespace

core::result<bare_tokens> look_at_tokens(const core::source_file& file, bin_width wanted) {
  TROUPE_ASSIGN(auto headed, header_of(file));
  if (headed) return *headed;
  const auto seen = std::make_unique<seen_words>();
  std::vector<std::byte> block(std::min(looked_at_bytes, file.size() / 8 * 8));
  const uint64_t last = (file.size() - block.size()) / 8 * 8;
  for (const uint64_t at : last == 0 ? std::vector<uint64_t>{0} : std::vector<uint64_t>{0, last / 16 * 8, last}) {
    TROUPE_TRY(file.read(at, block));
    seen->look(block);
  }
  const bare_tokens as_wanted{0, wanted};
  const uint64_t beyond = seen->count < least_words || seen->largest_odd > most_upper ? 0 : seen->lower_beyond();
  const bool is_64 = seen->is_fourth_zero && file.size() % 8 == 0;
  if (beyond < (seen->largest_odd == 0 ? 1 : open_lower) || (wanted == bin_width::u32 && !is_64)) return as_wanted;
  const auto halves = is_64
                          ? std::string("32 bits is 0")
                          : fmt::format("16 bits is {}{}", seen->largest_odd == 0 ? "" : "at most ", seen->largest_odd);
  const auto look =
      fmt::format("look like numbers of {} bits, since every second number of {}", is_64 ? 64 : 32, halves);
  const auto mend = is_64 ? "write them as 32-bit ones, for example by `numpy.fromfile(FILE, "
                            "'int64').astype('uint32').tofile(NAME)`, and set data.bin_dtype: uint32"
                          : "set data.bin_dtype: uint32 (`troupe data inspect --dtype uint32`)";
  if (beyond >= proving_lower)
    return fail(error_kind::bad_input, fmt::format("'{}': its tokens {}: {}", file.name(), look, mend));
  return fail(
      error_kind::bad_input,
      fmt::format("'{}': the width of its tokens is undecided: they {}, but only {} are above all others: if they "
                  "have this width, {}; if they have 16 bits, put the description {} next to the file",
                  file.name(), look, beyond, mend, description_path(file.name()).filename().string()));
}

}  // namespace troupe::data
