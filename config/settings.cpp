#include "config/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "config/values.hpp"

namespace troupe::config {

void reporter::add(diagnostic::severity_kind severity, place at, std::string key, std::string text) {
  if (severity == diagnostic::error) ++errors_;
  if (items_.size() < most_diagnostics)
    items_.push_back({severity, at, std::move(key), std::move(text)});
  else
    ++left_out_;
}

void reporter::warn(place at, std::string key, std::string text) {
  add(strict ? diagnostic::error : diagnostic::warning, at, std::move(key), std::move(text));
}

std::vector<diagnostic> reporter::in_order(diagnostic::severity_kind severity) const {
  std::vector<item> sorted;
  for (const item& i : items_)
    if (i.severity == severity) sorted.push_back(i);
  std::stable_sort(sorted.begin(), sorted.end(), [](const item& a, const item& b) {
    return std::tie(a.at.source, a.at.line, a.at.column) < std::tie(b.at.source, b.at.line, b.at.column);
  });
  std::vector<diagnostic> out;
  for (item& i : sorted) {
    const source& from = sources.at(i.at.source);
    const bool placed = from.kind != source::override_text;
    out.push_back(
        {severity, from.name, placed ? i.at.line : 0, placed ? i.at.column : 0, std::move(i.key), std::move(i.text)});
  }
  if (left_out_ > 0 && !out.empty())
    out.push_back({severity, sources.at(0).name, 0, 0, "", fmt::format("{} more were left out", left_out_)});
  return out;
}

const setting* settings::value_of(std::string_view key) const {
  const auto it = given.find(key);
  return it == given.end() || it->second.value == nullptr ? nullptr : &it->second;
}

place settings::where(std::string_view key) const {
  if (const auto it = given.find(key); it != given.end()) return it->second.at;
  for (size_t dot = key.rfind('.'); dot != std::string_view::npos && dot > 0; dot = key.rfind('.', dot - 1))
    if (const auto it = sections.find(key.substr(0, dot)); it != sections.end()) return it->second;
  return root;
}

void settings::override_with(settings other) {
  for (auto& [key, s] : other.given) given[key] = std::move(s);
  for (auto& [key, at] : other.sections) sections[key] = at;
  refused.merge(other.refused);
}

namespace {

/// Sections whose unknown keys DeepSpeed refuses itself.
bool strict_in_deepspeed(std::string_view section) {
  return section.starts_with("zero_optimization") || section == "fp16" || section == "bf16";
}

class collector {
 public:
  explicit collector(reporter& report) : report_(report) {}

  settings take(const node& root) {
    out_.root = root.at;
    section("", root);
    return std::move(out_);
  }

 private:
  void section(const std::string& key, const node& mapping) {
    for (const entry& e : mapping.entries) {
      const alias* used = nullptr;
      const key_info* row = key_in(key, e.name, &used);
      if (row == nullptr) {
        unknown(key, e);
        continue;
      }
      if (used != nullptr && used->deprecated)
        report_.warn(e.at, row->key, fmt::format("{} is deprecated, write {}", e.name, row->name()));
      if (!row->deprecation.empty())
        report_.warn(e.at, row->key, fmt::format("deprecated, write {}", row->deprecation));
      if (row->type == value_type::section)
        nested(*row, e);
      else
        leaf(*row, e);
    }
  }

  void unknown(const std::string& section, const entry& e) {
    std::string full = section.empty() ? e.name : section + "." + e.name;
    if (full.size() > 120) full = full.substr(0, 117) + "...";
    const std::string text =
        report_.full() ? "unknown key" : "unknown key; the nearest known one is " + nearest_key(section, e.name);
    const bool lenient = report_.sources.at(e.at.source).kind == source::imported && !strict_in_deepspeed(section);
    if (lenient)
      report_.warn(e.at, std::move(full), text);
    else
      report_.error(e.at, std::move(full), text);
  }

  void nested(const key_info& row, const entry& e) {
    const auto [first, is_new] = out_.sections.try_emplace(row.key, place_of(e));
    if (!is_new) {
      report_.error(e.at, row.key, fmt::format("given twice, first at line {}", first->second.line));
      return;
    }
    if (e.value->kind == node_kind::null || is_auto(*e.value)) return;
    if (const auto on = boolean_in(*e.value); on && row.key == "zero_optimization") {
      legacy_zero(e, *on);
    } else if (e.value->kind == node_kind::mapping) {
      section(row.key, *e.value);
    } else {
      report_.error(e.value->at, row.key, fmt::format("wanted a mapping, got {}", shown(*e.value)));
      out_.refused.insert(row.key);
    }
  }

  /// `zero_optimization: true`, as old files have it: stage 1, with the bucket of `allgather_size`.
  void legacy_zero(const entry& e, bool on) {
    report_.warn(e.at, "zero_optimization",
                 fmt::format("deprecated, write zero_optimization: {{stage: {}}}", on ? 1 : 0));
    const key_info* stage = key_named("zero_optimization.stage");
    out_.given[stage->key] = {stage, make_scalar(node_kind::plain, on ? "1" : "0", e.value->at), false, e.value->at,
                              e.at};
    legacy_zero_ = on;
    if (const auto size = out_.given.find("allgather_size"); on && size != out_.given.end())
      use_legacy_bucket(size->second);
  }
  void use_legacy_bucket(const setting& size) {
    const key_info* bucket = key_named("zero_optimization.allgather_bucket_size");
    out_.given[bucket->key] = {bucket, size.value, size.is_auto, size.at, size.name_at};
  }

  void leaf(const key_info& row, const entry& e) {
    if (const auto earlier = out_.given.find(row.key); earlier != out_.given.end() || out_.was_refused(row.key)) {
      report_.error(e.at, row.key,
                    earlier == out_.given.end()
                        ? "given twice"
                        : fmt::format("given twice, first at line {}, column {}", earlier->second.name_at.line,
                                      earlier->second.name_at.column));
      return;
    }
    setting made{&row, nullptr, is_auto(*e.value), place_of(e), e.at};
    if (!row.refusal.empty()) {
      refuse(row, e.at, fmt::format("not accepted here: {}", row.refusal));
      return;
    }
    const bool nothing = e.value->kind == node_kind::null;
    if (!made.is_auto && !(nothing && row.nullable())) {
      made.value = checked(row, e.value);
      if (made.value == nullptr) {
        refuse(row, made.at, fmt::format("wanted {}, got {}", wanted(row), nothing ? "nothing" : shown(*e.value)));
        return;
      }
      if (row.only && !says(row, *made.value, *row.only)) {
        refuse(row, made.at, fmt::format("only {} is supported in this version, got {}", *row.only, shown(*e.value)));
        return;
      }
      if (row.refuse_enabled && enables(*made.value)) {
        refuse(row, made.at,
               "not supported in this version, and it would change results: remove it or set enabled: false");
        return;
      }
      if (row.acts == effect::no_effect && !is_default(row, *made.value))
        report_.warn(e.at, row.key, fmt::format("no effect: {}", row.reason));
    }
    out_.given[row.key] = made;
    if (row.key == "allgather_size" && legacy_zero_) use_legacy_bucket(made);
  }

  void refuse(const key_info& row, place at, std::string text) {
    report_.error(at, row.key, std::move(text));
    out_.refused.insert(row.key);
  }

  /// Whether a value is the text, or the same number.
  static bool says(const key_info& row, const node& value, std::string_view text) {
    key_info same = row;
    same.default_text = std::string(text);
    return is_default(same, value);
  }

  static bool enables(const node& value) {
    return std::any_of(value.entries.begin(), value.entries.end(), [](const entry& e) {
      return (e.name == "enabled" && boolean_in(*e.value) == true) || enables(*e.value);
    });
  }

  /// Of the value; of the name where there is no value to point at.
  static place place_of(const entry& e) { return e.value->kind == node_kind::null ? e.at : e.value->at; }

  reporter& report_;
  settings out_;
  bool legacy_zero_ = false;
};

}  // namespace

settings collect(const node& root, reporter& report) { return collector(report).take(root); }

}  // namespace troupe::config
