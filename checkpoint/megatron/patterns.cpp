// Universal patterns: from the pickle's values to lists, and from a name to the rule that they give.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "checkpoint/megatron/rules.hpp"
#include "checkpoint/safetensors/header.hpp"
#include "checkpoint/source/name_pattern.hpp"
#include "core/text.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;

bool is_sequence(const pickle_tree& t, pickle_ref v) {
  return t.kind(v) == pickle_kind::list || t.kind(v) == pickle_kind::tuple;
}

/// The keys of a universal_checkpoint_info, one kind of value after the other.
struct reader {
  const torch_archive& file;

  [[nodiscard]] tl::unexpected<core::error> bad(std::string_view key, std::string_view wanted) const {
    return fail(error_kind::bad_input,
                fmt::format("'{}': universal_checkpoint_info: wanted {} for '{}'", file.name(), wanted, key));
  }

  core::result<std::vector<std::string>> texts(std::string_view key, pickle_ref v) const {
    const auto& t = file.tree();
    if (!is_sequence(t, v)) return bad(key, "a list of patterns");
    std::vector<std::string> out;
    for (const auto i : t.items(v)) {
      if (t.kind(i) != pickle_kind::text) return bad(key, "a list of patterns");
      out.emplace_back(t.text(i));
    }
    return out;
  }

  core::result<std::vector<int64_t>> numbers(std::string_view key, pickle_ref v) const {
    const auto& t = file.tree();
    if (!is_sequence(t, v)) return bad(key, "a list of whole numbers");
    std::vector<int64_t> out;
    for (const auto i : t.items(v)) {
      if (t.kind(i) != pickle_kind::integer) return bad(key, "a list of whole numbers");
      out.push_back(t.integer(i));
    }
    return out;
  }

  core::result<sub_parameter_pattern> sub_parameter(pickle_ref v) const {
    static constexpr std::string_view key = "parameter_with_sub_params";
    const auto& t = file.tree();
    // a SubparamShape: its attributes are what a dict would have
    if (t.kind(v) == pickle_kind::object && t.state(v)) v = *t.state(v);
    const auto patterns = t.find(v, "patterns"), shape = t.find(v, "shape"), dimension = t.find(v, "partition_dim");
    if (!patterns || !shape || !is_sequence(t, *shape))
      return bad(key, "entries with 'patterns', 'shape' and 'partition_dim'");
    sub_parameter_pattern out;
    auto names = texts(key, *patterns);
    if (!names) return fail(names.error());
    out.patterns = std::move(*names);
    if (dimension) {
      const auto d = file.integer(*dimension);
      if (!d || *d < 0 || *d > 64) return bad(key, "a partition_dim from 0 on");
      out.dimension = static_cast<size_t>(*d);
    }
    const auto all = t.items(*shape);
    if (out.dimension >= all.size()) return bad(key, "a shape that has its partition_dim");
    for (size_t i = 0; i < all.size(); ++i) {
      out.view.push_back(0);
      if (i == out.dimension && is_sequence(t, all[i])) {
        auto sizes = numbers(key, all[i]);
        if (!sizes) return fail(sizes.error());
        if (sizes->empty() || sizes->size() > max_sub_parameters) return bad(key, "1 to 4096 parts");
        out.part_sizes = std::move(*sizes);
        continue;
      }
      if (t.kind(all[i]) != pickle_kind::integer) return bad(key, "whole numbers in the shape");
      const int64_t n = t.integer(all[i]);
      if (i == out.dimension && (n < 1 || n > static_cast<int64_t>(max_sub_parameters)))
        return bad(key, "1 to 4096 parts");
      if (i == out.dimension)
        out.parts = static_cast<uint32_t>(n);
      else
        out.view.back() = n;
    }
    return out;
  }
};

}  // namespace

core::result<universal_patterns> read_universal_patterns(const torch_archive& file, pickle_ref info) {
  const reader in{file};
  const auto& t = file.tree();
  universal_patterns out;
  if (t.kind(info) != pickle_kind::dict) return in.bad("", "a dict");
  if (const auto v = t.find(info, "universal_checkpoint_version")) {
    if (t.kind(*v) == pickle_kind::real)
      out.version = t.real(*v);
    else if (t.kind(*v) == pickle_kind::integer)
      out.version = static_cast<double>(t.integer(*v));
    else
      return in.bad("universal_checkpoint_version", "a number");
  }
  const auto sized = [&](std::string_view key, int64_t& into) -> core::result<void> {
    const auto v = t.find(info, key);
    if (!v || t.kind(*v) == pickle_kind::none) return {};
    const auto n = file.integer(*v);
    if (!n || *n < 0) return in.bad(key, "a whole number from 0 on");
    into = *n;
    return {};
  };
  if (auto ok = sized("original_vocab_size", out.original_vocabulary); !ok) return fail(ok.error());
  if (auto ok = sized("padded_vocab_size", out.padded_vocabulary); !ok) return fail(ok.error());
  const std::pair<std::string_view, std::vector<std::string>*> lists[] = {
      {"vocabulary_parameter_patterns", &out.vocabulary},
      {"pipeline_replicated_parameter_patterns", &out.pipeline_replicated},
      {"tp_replicated_parameter_patterns", &out.replicated},
      {"parameter_to_average_patterns", &out.averaged},
      {"parameter_with_row_parallelism_patterns", &out.row_parallel},
      {"parameter_with_2_sub_params_cat_dim_0", &out.two_parts}};
  for (const auto& [key, into] : lists)
    if (const auto v = t.find(info, key); v && t.kind(*v) != pickle_kind::none) {
      auto texts = in.texts(key, *v);
      if (!texts) return fail(texts.error());
      *into = std::move(*texts);
    }
  if (const auto v = t.find(info, "parameter_with_sub_params"); v && t.kind(*v) != pickle_kind::none) {
    if (!is_sequence(t, *v)) return in.bad("parameter_with_sub_params", "a list");
    for (const auto i : t.items(*v)) {
      auto one = in.sub_parameter(i);
      if (!one) return fail(one.error());
      out.sub_parameters.push_back(std::move(*one));
    }
  }
  const auto each = [&](std::string_view key, const auto& put) -> core::result<void> {
    const auto v = t.find(info, key);
    if (!v || t.kind(*v) == pickle_kind::none) return {};
    if (t.kind(*v) != pickle_kind::dict) return in.bad(key, "a dict by pattern");
    const auto all = t.items(*v);
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      if (t.kind(all[i]) != pickle_kind::text) return in.bad(key, "a dict by pattern");
      if (auto ok = put(key, std::string(t.text(all[i])), all[i + 1]); !ok) return ok;
    }
    return {};
  };
  const auto widths = [&](std::string_view key, std::string pattern, pickle_ref v) -> core::result<void> {
    if (!is_sequence(t, v)) return in.bad(key, "a list of lists of widths");
    std::vector<std::vector<int64_t>> table;
    for (const auto part : t.items(v)) {
      auto row = in.numbers(key, part);
      if (!row) return fail(row.error());
      table.push_back(std::move(*row));
    }
    out.shard_widths[std::move(pattern)] = std::move(table);
    return {};
  };
  if (auto ok = each("sub_param_shard_widths", widths); !ok) return fail(ok.error());
  const auto reason = [&](std::string_view, std::string pattern, pickle_ref v) -> core::result<void> {
    out.unsupported[std::move(pattern)] = t.kind(v) == pickle_kind::text ? std::string(t.text(v)) : "no reason given";
    return {};
  };
  if (auto ok = each("autotp_unsupported_parameter_patterns", reason); !ok) return fail(ok.error());
  return out;
}

namespace {

/// `^transformer\.wte\.weight$` is a plain name, and most published patterns are such; nothing for all others.
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

/// One list of patterns.
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

  /// The number of the one pattern that matches.
  core::result<std::optional<size_t>> match(std::string_view name) {
    std::optional<size_t> out;
    const auto found = [&](size_t number) -> core::result<void> {
      if (out)
        return fail(error_kind::bad_input, fmt::format("parameter '{}' is matched by '{}' and by '{}' of '{}'",
                                                       shown(name), shown(texts_[*out]), shown(texts_[number]), key_));
      out = number;
      matched_.insert(number);
      return {};
    };
    const auto [first, last] = plain_.equal_range(std::string(name));
    for (auto i = first; i != last; ++i)
      if (auto ok = found(i->second); !ok) return fail(ok.error());
    for (const auto& [number, pattern] : others_) {
      if (!pattern.matches(name)) continue;
      if (auto ok = found(number); !ok) return fail(ok.error());
    }
    return out;
  }

  [[nodiscard]] const std::string& text(size_t number) const { return texts_[number]; }
  void add_unmatched(std::vector<std::string>& to) const {
    for (size_t i = 0; i < texts_.size(); ++i)
      if (!matched_.contains(i)) to.push_back(fmt::format("{}: {}", key_, texts_[i]));
  }

 private:
  std::string key_;
  std::vector<std::string> texts_;
  std::unordered_multimap<std::string, size_t> plain_;
  std::vector<std::pair<size_t, name_pattern>> others_;
  std::set<size_t> matched_;
};

}  // namespace

struct pattern_rules::parts {
  universal_patterns content;
  pattern_list vocabulary, pipeline_replicated, replicated, averaged, row_parallel, two_parts, sub_parameters,
      unsupported;
  std::vector<size_t> group;  ///< by pattern of sub_parameters: its place in content.sub_parameters

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
      {&p->pipeline_replicated, "pipeline_replicated_parameter_patterns", &c.pipeline_replicated},
      {&p->replicated, "tp_replicated_parameter_patterns", &c.replicated},
      {&p->averaged, "parameter_to_average_patterns", &c.averaged},
      {&p->row_parallel, "parameter_with_row_parallelism_patterns", &c.row_parallel},
      {&p->two_parts, "parameter_with_2_sub_params_cat_dim_0", &c.two_parts},
      {&p->sub_parameters, "parameter_with_sub_params", &sub},
      {&p->unsupported, "autotp_unsupported_parameter_patterns", &unsupported}};
  for (const auto& [list, key, texts] : all)
    if (auto ok = list->fill(key, *texts); !ok) return fail(ok.error());
  return pattern_rules(std::move(p));
}

core::result<cut_rule> pattern_rules::rule(std::string_view name) {
  auto& p = *parts_;
  std::array<std::optional<size_t>, 7> hit;
  pattern_list* const lists[] = {&p.unsupported,    &p.replicated,   &p.averaged,  &p.two_parts,
                                 &p.sub_parameters, &p.row_parallel, &p.vocabulary};
  for (size_t i = 0; i < hit.size(); ++i) {
    auto m = lists[i]->match(name);
    if (!m) return fail(m.error());
    hit[i] = *m;
  }
  const auto& [unsupported, replicated, averaged, two_parts, sub_parameters, row_parallel, vocabulary] = hit;
  if (unsupported) {
    const auto& text = p.unsupported.text(*unsupported);
    return fail(error_kind::bad_input, fmt::format("parameter '{}' cannot be joined, its writer says: {}", shown(name),
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

core::result<bool> pattern_rules::is_pipeline_replicated(std::string_view name) {
  const auto m = parts_->pipeline_replicated.match(name);
  if (!m) return fail(m.error());
  return m->has_value();
}

std::vector<std::string> pattern_rules::unmatched() const {
  std::vector<std::string> out;
  const auto& p = *parts_;
  for (const auto* list : {&p.vocabulary, &p.pipeline_replicated, &p.replicated, &p.averaged, &p.row_parallel,
                           &p.two_parts, &p.sub_parameters})
    list->add_unmatched(out);
  return out;
}

const universal_patterns& pattern_rules::patterns() const { return parts_->content; }

}  // namespace troupe::checkpoint
