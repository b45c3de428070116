#include "apps/launch/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/number.hpp"

namespace troupe::apps {
namespace {

/// Splits a text at the commas outside of brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    out.push_back(text.substr(from, i - from));
    from = i + 1;
  }
  return out;
}

tl::unexpected<core::error> no_list(std::string_view text) {
  return core::fail(error_kind::bad_input, fmt::format("wanted names such as n[1-3,5],m1, got `{}`", text));
}

/// Expands the text between brackets: "1-3,05" as 1, 2, 3, 05.
core::result<std::vector<std::string>> range(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view one : parts_of(text)) {
    const size_t dash = one.find('-');
    const auto low = one.substr(0, dash), high = dash == std::string_view::npos ? low : one.substr(dash + 1);
    const auto first = core::number_of<uint32_t>(low), last = core::number_of<uint32_t>(high);
    if (!first || !last || *last < *first || *last - *first >= listed_max) return no_list(text);
    for (uint64_t n = *first; n <= *last; ++n) out.push_back(fmt::format("{:0{}}", n, low.size()));
  }
  return out;
}

core::result<std::vector<std::string>> names_of(std::string_view part) {
  const size_t open = part.find('['), close = part.find(']', open);
  if (open == std::string_view::npos) {
    TROUPE_TRY(check_host_name(part));
    return std::vector<std::string>{std::string(part)};
  }
  if (close == std::string_view::npos) return no_list(part);
  TROUPE_ASSIGN(const auto middle, range(part.substr(open + 1, close - open - 1)));
  std::vector<std::string> out;
  for (const auto& m : middle) {
    const auto rest = names_of(fmt::format("{}{}{}", part.substr(0, open), m, part.substr(close + 1)));
    if (!rest) return rest;
    out.insert(out.end(), rest->begin(), rest->end());
    if (out.size() > listed_max) return no_list(part);
  }
  return out;
}

}  // namespace

core::result<void> check_host_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-:_").find(c) != std::string_view::npos;
  };
  if (!name.empty() && name.size() <= 253 && name.front() != '-' && std::ranges::all_of(name, fits)) return {};
  return core::fail(error_kind::bad_input,
                    fmt::format("wanted a host's name of letters, digits and .-:_ that does not begin with -, got `{}`",
                                name.substr(0, 253)));
}

core::result<std::vector<std::string>> expand_host_list(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view part : parts_of(text)) {
    const auto names = names_of(part);
    if (!names) return names;
    out.insert(out.end(), names->begin(), names->end());
    if (out.size() > listed_max) return no_list(text.substr(0, 200));
  }
  return out;
}

core::result<std::vector<uint32_t>> expand_counts(std::string_view text) {
  std::vector<uint32_t> out;
  for (const std::string_view part : parts_of(text)) {
    const size_t times = part.find("(x");
    const auto count = core::number_of<uint32_t>(part.substr(0, times));
    const auto often = times == std::string_view::npos ? std::optional<uint32_t>(1)
                       : part.ends_with(')')
                           ? core::number_of<uint32_t>(part.substr(times + 2, part.size() - times - 3))
                           : std::nullopt;
    if (!count || !often || out.size() + *often > listed_max)
      return core::fail(error_kind::bad_input, fmt::format("wanted numbers such as 2(x3),1, got `{}`", text));
    out.insert(out.end(), *often, *count);
  }
  return out;
}

}  // namespace troupe::apps
