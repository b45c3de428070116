// Finds the cut rule of a parameter by the patterns that a universal checkpoint publishes.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "core/text.hpp"
#include "formats/megatron/rules.hpp"
#include "formats/names/name_pattern.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::formats {
namespace {

/// Returns the name that a pattern such as `^transformer\.wte\.weight$` matches; most published patterns have this
/// form. Nothing for any other pattern.
std::optional<std::string> plain_name(std::string_view pattern) {
  if (pattern.size() < 2 || pattern.front() != '^' || pattern.back() != '$') return std::nullopt;
  std::string out;
  for (size_t i = 1; i + 1 < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\') {
      if (i + 2 >= pattern.size()) return std::nullopt;
      c = pattern[++i];
      if (core::is_ascii_word(c)) return std::nullopt;
    } else if (std::string_view(".[]{}()*+?|^$").find(c) != std::string_view::npos) {
      return std::nullopt;
    }
    out += c;
  }
  return out;
}

/// Compiles the patterns of one list, and finds the patterns that match a parameter's name.
class pattern_list {
 public:
  core::result<void> fill(std::string_view key, const std::vector<std::string>& patterns) {
    key_ = key;
    if (patterns.size() > max_patterns)
      return fail(error_kind::limit,
                  fmt::format("{} patterns in '{}', at most {} are read", patterns.size(), key, max_patterns));
    for (const auto& p : patterns) {
      if (p.size() > max_pattern_bytes)
        return fail(error_kind::limit, fmt::format("a pattern of {} bytes in '{}', at most {} are read", p.size(), key,
                                                   max_pattern_bytes));
      const size_t number = texts_.size();
      texts_.push_back(p);
      if (const auto plain = plain_name(p)) {
        plain_.emplace(*plain, number);
        continue;
      }
      auto pattern = name_pattern::of(p);
      if (!pattern) return fail(pattern.error().in(fmt::format("'{}'", key)));
      others_.emplace_back(number, std::move(*pattern));
    }
    return {};
  }

  /// Returns the index of the only pattern that matches; nothing if none does. Refused: a name that two patterns match.
  core::result<std::optional<size_t>> match(std::string_view name) const {
    std::optional<size_t> out;
    const auto found = [&](size_t number) -> core::result<void> {
      if (out)
        return fail(error_kind::bad_input, fmt::format("parameter '{}' is matched by '{}' and by '{}' of '{}'",
                                                       shown(name), shown(texts_[*out]), shown(texts_[number]), key_));
      out = number;
      return {};
    };
    const auto [first, last] = plain_.equal_range(std::string(name));
    for (auto i = first; i != last; ++i) TROUPE_TRY(found(i->second));
    for (const auto& [number, pattern] : others_) {
      if (!pattern.matches(name)) continue;
      TROUPE_TRY(found(number));
    }
    return out;
  }

  [[nodiscard]] const std::string& text(size_t number) const { return texts_[number]; }

 private:
  std::string key_;
  std::vector<std::string> texts_;
  std::unordered_multimap<std::string, size_t> plain_;
  std::vector<std::pair<size_t, name_pattern>> others_;
};

}  // namespace

struct pattern_rules::parts {
  universal_patterns content;
  pattern_list vocabulary, replicated, averaged, row_parallel, two_parts, sub_parameters, unsupported;
  std::vector<size_t> group;  ///< [pattern of sub_parameters]: index of its entry in content.sub_parameters

  core::result<cut_rule> of_parts(std::string_view name, size_t number) const {
    const auto& one = content.sub_parameters[group[number]];
    cut_rule out{.kind = cut_kind::along, .dimension = one.dimension};
    out.view = one.view;
    if (const auto w = content.shard_widths.find(sub_parameters.text(number)); w != content.shard_widths.end()) {
      out.widths = w->second;
      if (!one.part_sizes.empty() && out.widths.size() != one.part_sizes.size())
        return fail(error_kind::bad_input, fmt::format("parameter '{}': {} parts, but widths of {}", shown(name),
                                                       one.part_sizes.size(), out.widths.size()));
    } else if (content.version >= 0.4) {
      return fail(error_kind::bad_input, fmt::format("parameter '{}': sub_param_shard_widths lacks '{}'", shown(name),
                                                     shown(sub_parameters.text(number))));
    }
    out.part_sizes = one.part_sizes;
    out.sub_parameters = one.parts;
    return out;
  }
};

pattern_rules::pattern_rules(std::unique_ptr<parts> p) : parts_(std::move(p)) {}
pattern_rules::pattern_rules(pattern_rules&&) noexcept = default;
pattern_rules& pattern_rules::operator=(pattern_rules&&) noexcept = default;
pattern_rules::~pattern_rules() = default;

core::result<pattern_rules> pattern_rules::create(universal_patterns patterns) {
  auto p = std::make_unique<parts>();
  p->content = std::move(patterns);
  const auto& c = p->content;
  std::vector<std::string> sub, unsupported;
  for (size_t i = 0; i < c.sub_parameters.size(); ++i)
    for (const auto& text : c.sub_parameters[i].patterns) {
      sub.push_back(text);
      p->group.push_back(i);
    }
  for (const auto& [text, reason] : c.unsupported) unsupported.push_back(text);
  const std::tuple<pattern_list*, std::string_view, const std::vector<std::string>*> all[] = {
      {&p->vocabulary, "vocabulary_parameter_patterns", &c.vocabulary},
      {&p->replicated, "tp_replicated_parameter_patterns", &c.replicated},
      {&p->averaged, "parameter_to_average_patterns", &c.averaged},
      {&p->row_parallel, "parameter_with_row_parallelism_patterns", &c.row_parallel},
      {&p->two_parts, "parameter_with_2_sub_params_cat_dim_0", &c.two_parts},
      {&p->sub_parameters, "parameter_with_sub_params", &sub},
      {&p->unsupported, "autotp_unsupported_parameter_patterns", &unsupported}};
  for (const auto& [list, key, texts] : all) TROUPE_TRY(list->fill(key, *texts));
  return pattern_rules(std::move(p));
}

core::result<cut_rule> pattern_rules::rule(std::string_view name) const {
  const auto& p = *parts_;
  std::array<std::optional<size_t>, 7> hit;
  const pattern_list* const lists[] = {&p.unsupported,    &p.replicated,   &p.averaged,  &p.two_parts,
                                       &p.sub_parameters, &p.row_parallel, &p.vocabulary};
  for (size_t i = 0; i < hit.size(); ++i) {
    TROUPE_ASSIGN(auto m, lists[i]->match(name));
    hit[i] = m;
  }
  const auto& [unsupported, replicated, averaged, two_parts, sub_parameters, row_parallel, vocabulary] = hit;
  if (unsupported) {
    const auto& text = p.unsupported.text(*unsupported);
    return fail(error_kind::bad_input,
                fmt::format("parameter '{}' cannot be merged; the checkpoint states the reason: {}", shown(name),
                            shown(p.content.unsupported.at(text))));
  }
  cut_rule out{.kind = cut_kind::along, .dimension = row_parallel ? size_t{1} : size_t{0}};
  if (replicated) {
    out = {};
  } else if (averaged) {
    out = {.kind = cut_kind::averaged};
  } else if (two_parts) {
    out = {.kind = cut_kind::along, .dimension = 0, .sub_parameters = 2};
  } else if (sub_parameters) {
    auto parts = p.of_parts(name, *sub_parameters);
    if (!parts) return parts;
    out = std::move(*parts);
  }
  if (vocabulary) out.original_rows = p.content.original_vocabulary;
  return out;
}

}  // namespace troupe::formats
