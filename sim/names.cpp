#include "sim/names.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "config/keys/key_table.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::sim {
namespace {

using parts_of_text = std::vector<std::string_view>;

/// Returns the texts between the separators, without blanks at their ends.
parts_of_text split(std::string_view text, char separator) {
  parts_of_text out;
  while (true) {
    const size_t end = text.find(separator);
    if (const auto part = core::trimmed(text.substr(0, end)); !part.empty()) out.push_back(part);
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

bool begins_with(std::span<const std::string_view> words, std::span<const std::string_view> wanted) {
  return words.size() >= wanted.size() && std::ranges::equal(words.first(wanted.size()), wanted);
}

/// True if the words are those of `name`, from its first one on, where the word before a number may be left out.
bool names_words(std::span<const std::string_view> name, std::span<const std::string_view> wanted) {
  if (begins_with(name, wanted)) return true;
  const bool is_short = wanted.size() > 1 && name.size() > 2 && name.front() == wanted.front() &&
                        core::number_of<uint64_t>(wanted[1]).has_value();
  return is_short && begins_with(name.subspan(2), wanted.subspan(1));
}

}  // namespace

bool is_named(std::string_view name, std::string_view wanted) {
  const auto parts = split(name, ','), wanted_parts = split(wanted, ',');
  if (parts.empty() || wanted_parts.empty()) return false;
  if (!names_words(split(parts.front(), ' '), split(wanted_parts.front(), ' '))) return false;
  const auto is_part = [&](std::string_view x) { return std::find(parts.begin() + 1, parts.end(), x) != parts.end(); };
  return std::all_of(wanted_parts.begin() + 1, wanted_parts.end(), is_part);
}

std::string nearest_name(const std::vector<std::string>& names, std::string_view wanted) {
  wanted = wanted.substr(0, 80);
  std::string_view best;
  size_t least = SIZE_MAX;
  for (const std::string& name : names) {
    const std::string_view whole = name;
    for (const auto candidate : {whole, whole.substr(0, whole.find(',')), whole.substr(0, whole.find(' '))})
      if (const size_t distance = config::edits(wanted, candidate.substr(0, 80)); distance < least) {
        least = distance;
        best = candidate;
      }
  }
  return std::string(best);
}

}  // namespace troupe::sim
