// Damages valid files at random: flipped bits, bytes with a meaning in the format, truncation, duplicated and removed
// ranges.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>

namespace troupe::tests {

/// Returns the number of mutations of a test: the value of TROUPE_MUTATIONS, which longer runs set, but at least 1,000,
/// which is also the default.
inline size_t mutations() {
  const char* wanted = std::getenv("TROUPE_MUTATIONS");
  return wanted == nullptr ? 1000 : std::max<size_t>(1000, std::strtoull(wanted, nullptr, 10));
}

/// The bytes that matter most to a format's parser; mutated() inserts and damages them more often than others.
struct mutation_hints {
  std::string_view telling;  ///< bytes with a meaning in the format, which are inserted preferably
  /// Number of bytes at the beginning in which three of four damages are made.
  size_t hot_bytes = std::string_view::npos;
};

inline constexpr mutation_hints json_hints{"{}[]\",:0987654321eE-+.\\u nulltrefas\xFF\xEF", 520};
inline constexpr mutation_hints pickle_hints{
    "(.0123NJKMGXabcd}ehjl]qrRsut)QBC\x80\x81\x85\x86\x87\x8a\x8b\x8c\x93\x94\x95PK\1\2"};

/// Returns the text after one to four random kinds of damage.
inline std::string mutated(std::string text, std::mt19937_64& random, const mutation_hints& hints) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t damages = 1 + below(4); damages > 0 && !text.empty(); --damages) {
    const size_t at = below(below(4) == 0 ? text.size() : std::min(text.size(), hints.hot_bytes));
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = hints.telling[below(hints.telling.size())];
        break;
      case 2:
        text.insert(at, 1, hints.telling[below(hints.telling.size())]);
        break;
      case 3:  // writes a length or an offset whose bits are all ones
        for (size_t i = at; i < std::min(text.size(), at + 1 + below(8)); ++i) text[i] = '\xFF';
        break;
      case 4:
        text.insert(below(text.size()), text.substr(at, 1 + below(64)));
        break;
      case 5:
        text.erase(at, 1 + below(32));
        break;
      case 6:
        text.resize(at);
        break;
      default:
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text[digit] = static_cast<char>('0' + below(10));
    }
  }
  return text;
}

/// Calls `look` with `count` mutations of a valid text, together with the number of each.
inline void for_mutations(const std::string& valid, uint64_t seed, const mutation_hints& hints,
                          const std::function<void(size_t, const std::string&)>& look, size_t count = mutations()) {
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < count; ++i) look(i, mutated(valid, random, hints));
}

}  // namespace troupe::tests
