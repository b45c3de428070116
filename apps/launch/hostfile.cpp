#include "apps/launch/hostfile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "apps/launch/host_list.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

constexpr std::string_view spaces = " \t\r";

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(at, from), text.size());
    out.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

/// The words of a line after the host.
struct line_words {
  std::vector<std::string_view> slots{};  ///< the text N of every `slots=N`
  std::string_view unknown{};             ///< the first word that is neither `slots=N` nor `max_slots=N`
};

/// Splits `rest`, the text of a line after the host, into its words. Open MPI's max_slots=N, a limit for programs that
/// share slots, has no meaning here and is ignored.
line_words words_in(std::string_view rest) {
  const auto is = [](std::string_view key, std::string_view name) {
    return std::ranges::equal(key, name, {}, core::ascii_lower);
  };
  line_words out;
  for (rest = core::trimmed(rest, spaces); !rest.empty();) {
    const auto word_on = rest;
    const auto key = rest.substr(0, rest.find_first_of(" \t\r="));
    std::string_view value;
    rest = core::trimmed(rest.substr(key.size()), spaces);
    const bool has_value = rest.starts_with('=');
    if (has_value) {
      rest = core::trimmed(rest.substr(1), spaces);
      value = rest.substr(0, rest.find_first_of(spaces));
      rest = core::trimmed(rest.substr(value.size()), spaces);
    }
    if (has_value && is(key, "slots"))
      out.slots.push_back(value);
    else if (out.unknown.empty() && (value.empty() || !(is(key, "max_slots") || is(key, "max-slots"))))
      out.unknown = core::trimmed(word_on.substr(0, word_on.size() - rest.size()), spaces);
  }
  return out;
}

/// Reads a host such as `n1`, `me@n1`, `[::1]`.
core::result<host_slots> read_host(std::string_view word) {
  host_slots out;
  const size_t at = word.find('@');
  if (at != std::string_view::npos) {
    out.user = word.substr(0, at);
    const bool is_user = check_host_name(out.user).has_value() && out.user.find(':') == std::string::npos;
    if (!is_user)
      return core::fail(error_kind::bad_input,
                        fmt::format("wanted a user's name of letters, digits and .-_ before @, got `{}`", out.user));
    word.remove_prefix(at + 1);
  }
  if (word.starts_with('[') && word.ends_with(']')) word = word.substr(1, word.size() - 2);
  out.name = word;
  TROUPE_TRY(check_host_name(word));
  return out;
}

core::result<host_slots> read_line(std::string_view line, const std::string& where) {
  const auto wrong = [&](const std::string& what) { return core::fail(error_kind::bad_input, where + ": " + what); };
  const size_t gap = std::min(line.find_first_of(spaces), line.size());
  auto out = read_host(line.substr(0, gap));
  if (!out) return core::fail(out.error().in(where));
  const auto words = words_in(line.substr(gap));
  if (words.slots.size() > 1)
    return wrong(
        fmt::format("wanted one host with one slots=N in a line, got `{}`: write each host on a line of its own",
                    line.substr(0, 200)));
  const auto slots = words.slots.empty() ? std::nullopt : core::number_of<uint32_t>(words.slots.front());
  if (!slots) return wrong(fmt::format("wanted `HOST slots=N`, got `{}`", line.substr(0, 200)));
  if (!words.unknown.empty())
    return wrong(
        fmt::format("wanted `HOST slots=N`, got the word `{}` as well: write each host on a line of its own, "
                    "and notes after a #",
                    words.unknown.substr(0, 200)));
  if (*slots == 0 || *slots > slots_max)
    return wrong(fmt::format("wanted 1 to {} slots for {}, got {}; leave the host out to use none", slots_max,
                             out->name, *slots));
  out->slots.resize(*slots);
  std::iota(out->slots.begin(), out->slots.end(), 0U);
  return out;
}

/// Returns the slots that a filter names, by host; an empty set means all slots.
core::result<std::map<std::string, std::set<uint32_t>>> read_filter(const std::string& text, const std::string& option,
                                                                    const std::vector<host_slots>& all) {
  const auto wrong = [&](const std::string& what) { return core::fail(error_kind::bad_input, option + ": " + what); };
  std::map<std::string, std::set<uint32_t>> out;
  for (const auto part : split(text, '@')) {
    const size_t colon = part.rfind(':');
    const auto host = core::trimmed(part.substr(0, colon), spaces);
    const auto at = std::ranges::find(all, host, &host_slots::name);
    if (at == all.end()) return wrong(fmt::format("wanted hosts of the hostfile, got `{}`", host));
    auto& slots = out[at->name];
    if (colon == std::string_view::npos) continue;
    for (const auto one : split(part.substr(colon + 1), ',')) {
      const auto n = core::number_of<uint32_t>(core::trimmed(one, spaces));
      if (!n || std::ranges::find(at->slots, *n) == at->slots.end())
        return wrong(fmt::format("wanted slots of {} from 0 to {}, got `{}`", host, at->slots.back(), one));
      slots.insert(*n);
    }
  }
  return out;
}

}  // namespace

core::result<std::vector<host_slots>> read_hostfile(std::string_view text, const std::string& name) {
  std::vector<host_slots> out;
  uint32_t number = 0;
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  for (const auto raw : split(text, '\n')) {
    ++number;
    const auto line = core::trimmed(raw.substr(0, raw.find('#')), spaces);
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    TROUPE_ASSIGN(auto one, read_line(line, where));
    if (std::ranges::find(out, one.name, &host_slots::name) != out.end())
      return core::fail(error_kind::bad_input, fmt::format("{}: wanted each host once, got {} again", where, one.name));
    out.push_back(std::move(one));
  }
  if (out.empty()) return core::fail(error_kind::bad_input, name + ": wanted lines `HOST slots=N`, got no host");
  return out;
}

core::result<std::vector<host_slots>> filter_hosts(std::vector<host_slots> all, const std::string& include,
                                                   const std::string& exclude) {
  if (!include.empty() && !exclude.empty())
    return core::fail(error_kind::bad_input, "--include and --exclude cannot be combined: leave out one of the two");
  if (include.empty() && exclude.empty()) return all;
  const bool keeps = !include.empty();
  TROUPE_ASSIGN(const auto named, read_filter(keeps ? include : exclude, keeps ? "--include" : "--exclude", all));
  std::vector<host_slots> out;
  for (auto& h : all) {
    const auto at = named.find(h.name);
    const bool is_named = at != named.end();
    if (!is_named && keeps) continue;
    if (is_named && at->second.empty() && !keeps) continue;
    if (is_named && !at->second.empty()) {
      const size_t before = h.slots.size();
      std::erase_if(h.slots, [&](uint32_t s) { return at->second.contains(s) != keeps; });
      h.is_whole = h.slots.size() == before;
    }
    if (!h.slots.empty()) out.push_back(std::move(h));
  }
  if (out.empty())
    return core::fail(error_kind::bad_input, std::string(keeps ? "--include" : "--exclude") +
                                                 ": wanted at least one remaining host, got none");
  return out;
}

}  // namespace troupe::apps
