#include "data/formats/path_pattern.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::data {
namespace {

/// Returns the length of the character class, such as `[a-z]`, at the beginning of `pattern`, with its brackets; 0 if
/// there is none.
size_t class_length(std::string_view pattern) {
  if (!pattern.starts_with('[')) return 0;
  const size_t first = pattern.substr(1).starts_with('!') ? 2 : 1;
  const size_t end = pattern.find(']', first + 1);  // a `]` directly after `[` is a member of the class
  return end == std::string_view::npos ? 0 : end + 1;
}

/// True if character `c` is in the character class `whole`, which includes its brackets.
bool is_in_class(std::string_view whole, char c) {
  auto members = whole.substr(1, whole.size() - 2);
  const bool is_negated = members.starts_with('!');
  if (is_negated) members.remove_prefix(1);
  const auto byte = [](char x) { return static_cast<unsigned char>(x); };
  bool found = false;
  while (!members.empty()) {
    const bool is_range = members.size() >= 3 && members[1] == '-';
    const char last = is_range ? members[2] : members[0];
    found = found || (byte(members[0]) <= byte(c) && byte(c) <= byte(last));
    members.remove_prefix(is_range ? 3 : 1);
  }
  return found != is_negated;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view path) {
  // [position in path]: 1 if the part of the pattern that has been processed matches the path up to this position.
  std::vector<char> reached(path.size() + 1);
  reached[0] = 1;
  while (!pattern.empty()) {
    std::vector<char> next(path.size() + 1);
    const bool folders = pattern.starts_with("**/"), anything = pattern.starts_with("**"),
               name = pattern.starts_with('*');
    const size_t of_class = class_length(pattern);
    const auto fits = [&](char c) {
      if (of_class > 0) return c != '/' && is_in_class(pattern.substr(0, of_class), c);
      return pattern.front() == '?' ? c != '/' : c == pattern.front();
    };
    for (size_t at = 0; at <= path.size(); ++at) {
      const char before = at > 0 ? path[at - 1] : '\0';
      if (name)
        next[at] = reached[at] != 0 || (at > 0 && next[at - 1] != 0 && (anything || before != '/'));
      else
        next[at] = at > 0 && reached[at - 1] != 0 && fits(before);
    }
    if (folders)  // `**/` matches only whole names of folders
      for (size_t at = 0; at <= path.size(); ++at)
        if (reached[at] == 0 && (at == 0 || path[at - 1] != '/')) next[at] = 0;
    pattern.remove_prefix(folders ? 3 : anything ? 2 : std::max<size_t>(of_class, 1));
    reached = std::move(next);
  }
  return reached.back() != 0;
}

}  // namespace troupe::data
