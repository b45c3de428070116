#include "formats/names/name_rules.hpp"

#include <fmt/format.h>

#include <map>

#include "core/number.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::formats {
namespace {

using core::refused;

struct rule_text {
  std::string left, right;
};

// True for ASCII letters and digits, whatever the locale.
constexpr bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_punctuation(char c) { return c > ' ' && c <= '~' && !is_alphanumeric(c); }

/// Returns the rule that maps results of the rule (`pattern`, `to`) back to the original names. Returns nothing if
/// `pattern` is not plain text with unnested groups, each of which `to` uses exactly once.
std::optional<rule_text> turned_around(const std::string& pattern, const std::string& to) {
  constexpr std::string_view special = ".*+?[]{}|^$)";
  std::vector<std::string> groups;
  std::vector<std::pair<char, size_t>> pieces;  // parts of the pattern: a character, or the number of a group
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '(') {
      const size_t close = pattern.find(')', i);
      if (close == std::string::npos || pattern[close - 1] == '\\' || pattern[i + 1] == '?') return std::nullopt;
      groups.push_back(pattern.substr(i, close + 1 - i));
      if (groups.back().find('(', 1) != std::string::npos) return std::nullopt;
      pieces.emplace_back('(', groups.size());
      i = close;
    } else if (pattern[i] == '\\') {
      if (++i == pattern.size() || is_alphanumeric(pattern[i])) return std::nullopt;
      pieces.emplace_back(pattern[i], 0);
    } else {
      if (special.find(pattern[i]) != std::string_view::npos) return std::nullopt;
      pieces.emplace_back(pattern[i], 0);
    }
  }
  rule_text out;
  std::vector<size_t> place(groups.size());  // position of each group in `to`, counted from 1
  size_t seen = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == '\\' && ++i < to.size() && to[i] != '\\') {
      const auto group = static_cast<size_t>(to[i] - '0');  // check_rewrite() has made sure that a digit follows
      if (group == 0 || group > groups.size() || place[group - 1] != 0) return std::nullopt;
      place[group - 1] = ++seen;
      out.left += groups[group - 1];
    } else {
      if (is_punctuation(to[i])) out.left += '\\';
      out.left += to[i];
    }
  }
  if (seen != groups.size()) return std::nullopt;
  for (const auto& [letter, group] : pieces) {
    if (group > 0)
      out.right += fmt::format("\\{}", place[group - 1]);
    else
      out.right += letter == '\\' ? std::string("\\\\") : std::string(1, letter);
  }
  return out;
}

}  // namespace

/// Adds the rule for layers `3` or `3-14`, with a prefix that may contain `{layer}`, `{layer-2}` or `{layer+1}` once.
core::result<void> name_rules::add_layer(const std::string& numbers, const std::string& prefix) {
  const size_t dash = numbers.find('-');
  const auto first = core::number_of<uint32_t>(std::string_view(numbers).substr(0, dash));
  const auto last =
      dash == std::string::npos ? first : core::number_of<uint32_t>(std::string_view(numbers).substr(dash + 1));
  if (!first || !last || *last < *first)
    return refused(fmt::format("wanted a layer's number or a range such as 3-14, got '{}'", shown(numbers)));
  if (*last - *first >= core::max_name_lines)
    return refused(fmt::format("wanted at most {} layers, got '{}'", core::max_name_lines, shown(numbers)));
  layer_rule rule{*first, *last, prefix, "", std::nullopt};
  constexpr std::string_view mark = "{layer";
  if (const size_t open = prefix.find('{'); open != std::string::npos) {
    const size_t close = prefix.find('}', open);
    const auto inside = std::string_view(prefix).substr(open, close == std::string::npos ? close : close - open);
    const auto shift = inside.starts_with(mark) ? inside.substr(mark.size()) : std::string_view("?");
    const auto by = shift.empty() ? std::optional<uint32_t>(0) : core::number_of<uint32_t>(shift.substr(1));
    if (close == std::string::npos || !by || (!shift.empty() && shift[0] != '-' && shift[0] != '+') ||
        prefix.find('{', close) != std::string::npos)
      return refused(fmt::format("wanted a prefix with {{layer}}, {{layer-N}} or {{layer+N}} once at most, got '{}'",
                                 shown(prefix)));
    rule.and_layer = !shift.empty() && shift[0] == '-' ? -int64_t{*by} : int64_t{*by};
    if (int64_t{rule.first} + *rule.and_layer < 0)
      return refused(fmt::format("layer {} has no '{}': its number would be below 0", rule.first, shown(prefix)));
    rule.before = prefix.substr(0, open);
    rule.after = prefix.substr(close + 1);
  }
  layers_.push_back(std::move(rule));
  return {};
}

core::result<void> name_rules::add_name(const std::string& pattern, const std::string& to) {
  TROUPE_ASSIGN(auto compiled, name_pattern::of(pattern));
  TROUPE_TRY(compiled.check_rewrite(to));
  name_rule rule{std::move(compiled), to, std::nullopt, ""};
  if (const auto back = turned_around(pattern, to)) {
    auto back_pattern = name_pattern::of(back->left);
    if (back_pattern && back_pattern->check_rewrite(back->right)) {
      rule.back_pattern = std::move(*back_pattern);
      rule.back_to = back->right;
    }
  }
  names_.push_back(std::move(rule));
  return {};
}

std::string name_rules::prefix_of(const layer_rule& rule, uint32_t layer) {
  std::string prefix = rule.before;
  if (rule.and_layer) prefix += fmt::format("{}", int64_t{layer} + *rule.and_layer);
  prefix += rule.after;
  if (!prefix.empty() && !prefix.ends_with('.')) prefix += '.';
  return prefix;
}

core::result<name_rules> name_rules::of(const core::name_lines& all) {
  name_rules out;
  for (const auto& line : all.lines) {
    auto ok = line.is_layer ? out.add_layer(line.left, line.right) : out.add_name(line.left, line.right);
    if (!ok) return fail(ok.error().in(fmt::format("{}: line {}", all.where, line.line)));
  }
  return out;
}

std::optional<std::string> name_rules::find(std::string_view name) const {
  for (const auto& rule : names_)
    if (auto out = rule.pattern.rewritten(name, rule.to)) return out;
  const auto place = layer_place_of(name);
  if (!place) return std::nullopt;
  for (const auto& rule : layers_) {
    if (place->layer < rule.first || place->layer > rule.last) continue;
    return prefix_of(rule, place->layer) + place->key;
  }
  return std::nullopt;
}

std::optional<std::string> name_rules::find_in(const tensor_source& s, const std::string& name) const {
  if (auto out = find(name)) return out;
  const auto own = s.names_in_files.find(name);
  return own != s.names_in_files.end() && without_wrappers(own->second) == name ? find(own->second) : std::nullopt;
}

std::optional<std::string> name_rules::find_back(const std::string& name) const {
  for (const auto& rule : names_) {
    const auto out = rule.back_pattern ? rule.back_pattern->rewritten(name, rule.back_to) : std::nullopt;
    if (out && find(*out) == name) return out;
  }
  std::optional<std::string> best;  // result for the longest prefix that matches, as one prefix may begin with another
  size_t longest = 0;
  for (const auto& rule : layers_)
    for (uint64_t layer = rule.first; layer <= rule.last; ++layer) {
      const auto prefix = prefix_of(rule, static_cast<uint32_t>(layer));
      if ((best && prefix.size() <= longest) || !name.starts_with(prefix) || name.size() == prefix.size()) continue;
      const auto out = fmt::format("{}.{}", layer, name.substr(prefix.size()));
      if (find(out) != name) continue;
      best = out;
      longest = prefix.size();
    }
  return best;
}

core::result<tensor_source> name_rules::applied_to(tensor_source s) const {
  std::map<std::string, std::string> names;
  const auto add = [&](const std::string& name) {
    if (auto other = find_in(s, name)) names.emplace(name, std::move(*other));
  };
  for (const auto& t : s.tensors) add(t.name);
  for (const auto& t : s.tied) {
    add(t.name);
    add(t.of);
  }
  for (const auto& name : s.parameter_order) add(name);
  return renamed(std::move(s), [&](const std::string& name) {
    const auto at = names.find(name);
    return at == names.end() ? name : at->second;
  });
}

}  // namespace troupe::formats
