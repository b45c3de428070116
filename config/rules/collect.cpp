// Reads the keys of one document and checks them by the table: known names, types and ranges.
#include <fmt/format.h>

#include <algorithm>

#include "config/document/path_text.hpp"
#include "config/document/yaml_tree.hpp"
#include "config/keys/leniency.hpp"
#include "config/keys/values.hpp"
#include "config/rules/settings.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"

namespace troupe::config {
namespace {

/// Largest number of bytes of a name that a configuration chooses freely, such as the name of a group of modules.
constexpr size_t most_name = 120;
/// Largest number of items of a list of mappings.
constexpr size_t most_items = 1000;

class collector {
 public:
  collector(reporter& report, purpose why) : report_(report), why_(why) {}

  settings take(const node& root) {
    out_.root = root.at;
    root_ = &root;
    section("", "", root);
    return std::move(out_);
  }

 private:
  /// Reads the keys of a section. `key` is the section's name in the key table, `path` the section's full name in the
  /// document, with names in place of each `*`.
  void section(std::string_view key, const std::string& path, const node& mapping) {
    for (const entry& e : mapping.entries) {
      const alias* used = nullptr;
      const key_info* row = key_in(key, e.name, &used);
      if (row == nullptr) {
        unknown(key, path, e);
        continue;
      }
      std::string full = path.empty() ? std::string() : path + ".";
      if (row->name() == "*" && e.name.size() > most_name) {
        report_.error(e.at, short_name(full + e.name), fmt::format("wanted a name of at most {} bytes", most_name));
        continue;
      }
      full += row->name() == "*" ? part_of_key(e.name) : std::string(row->name().substr(0, row->name().find('[')));
      if (used != nullptr && used->deprecated)
        report_.warn(e.at, full, fmt::format("{} is deprecated, write {}", e.name, row->name()));
      const bool is_off =
          row->type == value_type::boolean && (e.value->kind == node_kind::null || boolean_in(*e.value) == false);
      if (!row->deprecation.empty())
        report_.warn(e.at, full,
                     is_off ? "deprecated, remove it" : fmt::format("deprecated, write {}", row->deprecation));
      if (row->is_list())
        list(*row, full, e);
      else if (row->type == value_type::section)
        nested(*row, full, e);
      else
        leaf(*row, std::move(full), e);
    }
  }

  /// Reads a list of mappings; each mapping may have the keys that the key table has below `row`.
  void list(const key_info& row, const std::string& path, const entry& e) {
    const auto [first, is_new] = out_.sections.try_emplace(path, place_of(e));
    if (!is_new) {
      report_.error(e.at, path, fmt::format("given twice, first at line {}", first->second.line));
      return;
    }
    if (e.value->kind == node_kind::null || is_auto(*e.value)) return;
    if (e.value->kind != node_kind::sequence || e.value->items.size() > most_items) {
      refuse(path, e.value->at, fmt::format("wanted {}, got {}", wanted(row), shown(*e.value)));
      return;
    }
    for (item_ = 0; item_ < e.value->items.size(); ++item_) {
      const node_ptr& one = e.value->items[item_];
      const std::string here = fmt::format("{}[{}]", path, item_);
      out_.sections[here] = one->at;
      if (one->kind == node_kind::mapping)
        section(row.key, here, *one);
      else
        refuse(here, one->at, fmt::format("wanted a mapping, got {}", shown(*one)));
    }
    out_.lists[path] = item_;
    item_ = 0;
  }

  static std::string short_name(const std::string& name) {
    std::string out = name.size() > 120 ? name.substr(0, 117) + "..." : name;
    for (char& c : out)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // a message is one line, so control characters become blanks
    return out;
  }

  void unknown(std::string_view section, const std::string& path, const entry& e) {
    const std::string full = short_name(path.empty() ? e.name : path + "." + e.name);
    const std::string text =
        report_.full() ? "unknown key" : "unknown key; the nearest known one is " + nearest_key(section, e.name);
    if (const size_t bracket = e.name.find('['); bracket != std::string::npos)
      if (const key_info* row = key_in(section, e.name.substr(0, bracket)); row != nullptr && row->is_list()) {
        report_.error(e.at, full, fmt::format("wanted the list as a whole: {}: [{{...}}, {{...}}]", row->list_name()));
        return;
      }
    // Recognises a missing space: inside braces YAML reads `key:value` as one word.
    if (const size_t colon = e.name.find(':'); colon != std::string::npos)
      if (const std::string key = e.name.substr(0, colon); key_in(section, key) != nullptr)
        return report_.error(
            e.at, full,
            fmt::format("wanted a space after the colon: {}: {}", key, short_name(e.name.substr(colon + 1))));
    const bool lenient = report_.sources.at(e.at.source).kind == source::imported && !strict_in_deepspeed(section) &&
                         !is_passed_on(section);
    if (lenient)
      report_.warn(e.at, full, text);
    else
      report_.error(e.at, full, text);
  }

  /// True for the section `params` of an optimizer or scheduler whose type Troupe supports: DeepSpeed passes all its
  /// keys to a constructor, which refuses unknown ones, so unknown keys are errors here, too. False for Muon, for which
  /// DeepSpeed passes on only the keys that it knows.
  [[nodiscard]] bool is_passed_on(std::string_view section) const {
    constexpr std::string_view params = ".params";
    if (section != "optimizer.params" && section != "scheduler.params") return false;
    const std::string outer(section.substr(0, section.size() - params.size()));
    const node* const mapping = root_->find(outer);
    const auto type = mapping == nullptr || mapping->find("type") == nullptr
                          ? nullptr
                          : checked(*key_named(outer + ".type"), std::make_shared<const node>(*mapping->find("type")));
    return type != nullptr && type->text != core::name_of(core::optimizer_type::muon);
  }

  void nested(const key_info& row, const std::string& path, const entry& e) {
    const auto [first, is_new] = out_.sections.try_emplace(path, place_of(e));
    if (!is_new) {
      report_.error(e.at, path, fmt::format("given twice, first at line {}", first->second.line));
      return;
    }
    if (e.value->kind == node_kind::null && report_.sources.at(e.at.source).kind == source::override_text)
      out_.nulls.insert(path);
    if (row.key == "compile" && is_auto(*e.value))
      put("compile.deepcompile", make_scalar(node_kind::plain, "true", e.value->at), e.value->at, e.at);
    if (e.value->kind == node_kind::null || is_auto(*e.value)) return;
    if (const auto on = boolean_in(*e.value); on && row.key == "zero_optimization") {
      legacy_zero(e, *on);
    } else if (e.value->kind == node_kind::mapping) {
      out_.mappings.insert(path);
      section(row.key, path, *e.value);
      if (row.key == "zero_optimization") legacy_offload();
      if (row.by_presence && !out_.is_off(path)) report_.remark_value(e.at, path, effect_of(row));
    } else {
      report_.error(e.value->at, path, fmt::format("wanted a mapping, got {}", shown(*e.value)));
      out_.refused.insert(path);
    }
  }

  /// Reads `zero_optimization: true`, the form of old files: stage 1, with the bucket of `allgather_size`.
  void legacy_zero(const entry& e, bool on) {
    report_.warn(e.at, "zero_optimization",
                 fmt::format("deprecated, write zero_optimization: {{stage: {}}}", on ? 1 : 0));
    put("zero_optimization.stage", make_scalar(node_kind::plain, on ? "1" : "0", e.value->at), e.value->at, e.at);
    legacy_zero_ = on;
    if (const auto size = out_.given.find("allgather_size"); on && size != out_.given.end())
      use_legacy_bucket(size->second);
  }
  void use_legacy_bucket(const setting& size) {
    setting& made = put("zero_optimization.allgather_bucket_size", size.value, size.at, size.name_at);
    made.is_auto = size.is_auto;
  }
  setting& put(const char* key, node_ptr value, place at, place name_at) {
    return out_.given[key] = {key_named(key), key, std::move(value), false, at, name_at};
  }

  /// Reads `cpu_offload: true`, the form of files before the offload sections; it cannot be combined with the new
  /// section.
  void legacy_offload() {
    for (const auto& [old_name, section] : {std::pair{"cpu_offload", "offload_optimizer"},
                                            {"cpu_offload_param", "offload_param"},
                                            {"cpu_offload_params", "offload_param"}}) {
      const std::string old_key = std::string("zero_optimization.") + old_name;
      const std::string new_section = std::string("zero_optimization.") + section;
      const setting* old = out_.value_of(old_key);
      if (old == nullptr || boolean_in(*old->value) != true) continue;
      if (out_.sections.contains(new_section)) {
        report_.error(old->name_at, old_key, fmt::format("cannot be combined with {}: remove one of the two", section));
        continue;
      }
      const node_ptr device = make_scalar(node_kind::quoted, "cpu", old->at);
      put((new_section + ".device").c_str(), device, old->at, old->name_at).made = true;
    }
  }

  void leaf(const key_info& row, std::string path, const entry& e) {
    if (const auto earlier = out_.given.find(path); earlier != out_.given.end() || out_.was_refused(path)) {
      report_.error(e.at, path,
                    earlier == out_.given.end()
                        ? "given twice"
                        : fmt::format("given twice, first at line {}, column {}", earlier->second.name_at.line,
                                      earlier->second.name_at.column));
      return;
    }
    setting made{&row, path, nullptr, is_auto(*e.value), place_of(e), e.at, false, item_};
    if (!row.support.refusal.empty()) {
      refuse(path, e.at, fmt::format("not accepted here: {}", row.support.refusal));
      return;
    }
    const bool nothing = e.value->kind == node_kind::null;
    if (!made.is_auto && !(nothing && row.nullable()) && !take_value(row, e, made)) return;
    const auto& taken = out_.given[path] = std::move(made);
    if (row.key == "allgather_size" && legacy_zero_) use_legacy_bucket(taken);
  }

  /// Converts a value that the key table refuses but DeepSpeed accepts to the value as which DeepSpeed reads it; null
  /// if there is no such conversion.
  node_ptr as_deepspeed_reads(const key_info& row, const entry& e) {
    const node& v = *e.value;
    // a list with an equal number for each group counts as one number for all groups
    if (row.per_group && v.kind == node_kind::sequence && !v.items.empty() &&
        std::ranges::all_of(v.items, [&](const node_ptr& i) { return number_in(*i) == number_in(*v.items[0]); }))
      return checked(row, v.items[0]);
    if (report_.sources.at(e.at.source).kind != source::imported || !v.is_scalar()) return nullptr;
    node_ptr read;
    if (!row.choices.otherwise.empty() && v.kind == node_kind::quoted)
      read = make_scalar(node_kind::quoted, std::string(row.choices.otherwise), v.at);
    else if (converts_texts(row.section()))
      read = checked(row, unquoted(row, v));
    if (read != nullptr) report_.remark_value(e.at, row.key, fmt::format("{} is read as {}", shown(v), shown(*read)));
    return read;
  }

  /// Converts like the classes of DeepSpeed's sections: `"5"` to 5, `"yes"` and 1 to true, and true to 1.
  static node_ptr unquoted(const key_info& row, const node& v) {
    std::string text = v.text;
    if (row.type == value_type::boolean) {
      text = core::lowered(text);
      for (const char* yes : {"1", "1.0", "t", "y", "on", "yes"})
        if (text == yes) text = "true";
      for (const char* no : {"0", "0.0", "f", "n", "off", "no"})
        if (text == no) text = "false";
    } else if (const auto flag = boolean_in(v); flag && row.type == value_type::integer) {
      text = *flag ? "1" : "0";
    }
    return make_scalar(node_kind::plain, std::move(text), v.at);
  }

  /// Checks a value by its row of the key table, and reports if it has no effect; returns false if it was refused.
  bool take_value(const key_info& row, const entry& e, setting& made) {
    if (is_bare_none(row, *e.value)) {
      refuse(made.key, made.at,
             fmt::format("wanted {}, got {}: write null for no value, or {} for this name", wanted(row), e.value->text,
                         quoted(e.value->text)));
      return false;
    }
    made.value = checked(row, e.value);
    if (made.value == nullptr) made.value = as_deepspeed_reads(row, e);
    if (made.value == nullptr && why_ == purpose::deepspeed) {
      made.value = later_choice(row, *e.value);
      made.held_back = made.value != nullptr;
    }
    if (made.value == nullptr) {
      const bool nothing = e.value->kind == node_kind::null;
      const bool later = !nothing && later_choice(row, *e.value) != nullptr;
      const auto& never = row.choices.never;
      const auto one = std::ranges::find(never, std::string_view(e.value->text), &refused_choice::text);
      refuse(made.key, made.at,
             fmt::format("wanted {}, got {}{}{}{}", wanted(row), nothing ? "nothing" : shown(*e.value),
                         later ? fmt::format(", which {}", effect_beyond(row)) : "",
                         row.key == "model.model_type" && !nothing ? families::nearest_note(e.value->text) : "",
                         one != never.end() ? fmt::format(": {}", one->why) : ""));
      return false;
    }
    const auto is_said = [&](std::string_view one) { return says(row, *made.value, one); };
    if (!row.support.only.empty() && std::ranges::none_of(row.support.only, is_said)) {
      if (why_ != purpose::deepspeed) {
        refuse(made.key, made.at,
               fmt::format("only {} is supported in this version, got {}{}", row.support.only.front(), shown(*e.value),
                           advice(row)));
        return false;
      }
      made.held_back = true;
    }
    if (names_a_file(row) && made.value->is_scalar() && !take_path(made)) return false;
    if (made.held_back || (row.support.acts != effect::acts && !is_default(row, *made.value)))
      report_.remark_value(e.at, made.key, made.held_back ? effect_beyond(row) : effect_of(row));
    return true;
  }

  /// True if the value is the word `none` without quotes, and the key may have a text or path, or no value.
  /// Documentation and `explain` print `none` for a missing value, so the word rarely means a text of that name.
  static bool is_bare_none(const key_info& row, const node& value) {
    const bool holds_text = row.type == value_type::text || row.type == value_type::path;
    return holds_text && row.choices.names.empty() && row.default_text == "none" && row.support.acts == effect::acts &&
           value.kind == node_kind::plain && core::lowered(value.text) == "none";
  }

  /// True for keys whose value is a path, or may be one.
  static bool names_a_file(const key_info& row) {
    return row.type == value_type::path || row.key == "data.tokenizer" || row.key == "pipeline.schedule";
  }

  /// Expands `~` and variables in a path; returns false if it was refused.
  bool take_path(setting& made) {
    const node& given = *made.value;
    if (given.text.ends_with('\n')) {
      refuse(
          made.key, made.at,
          fmt::format("wanted a path, got {}, which ends with the end of a line: write it in the line of its key, or "
                      "after >- or |-",
                      shown(given)));
      return false;
    }
    if (!given.text.starts_with('~') && given.text.find('$') == std::string::npos) return true;
    auto path = expanded_path(given.text, report_.sources.at(given.at.source).folder);
    if (path)
      made.value = make_scalar(node_kind::quoted, std::move(*path), place(given.at));
    else
      refuse(made.key, made.at, std::move(path.error()));
    return path.has_value();
  }

  /// Returns the table's advice for a refusal: the replacement, or the capability that the value needs.
  static std::string advice(const key_info& row) {
    if (!row.support.reason.empty()) return fmt::format(": {}", row.support.reason);
    return row.support.capability.empty() ? std::string() : fmt::format("; it {}", effect_beyond(row));
  }

  static node_ptr later_choice(const key_info& row, const node& value) {
    if (!value.is_scalar()) return nullptr;
    key_info known = row;
    known.choices.names = row.choices.later;
    return known.choices.names.empty() ? nullptr : checked(known, std::make_shared<const node>(value));
  }

  void refuse(const std::string& path, place at, std::string text) {
    report_.refuse_value(at, path, std::move(text));
    out_.refused.insert(path);
  }

  /// True if a value equals the text `text`, or is a number equal to it.
  static bool says(const key_info& row, const node& value, std::string_view text) {
    key_info same = row;
    same.default_text = std::string(text);
    return is_default(same, value);
  }

  /// Returns the position of the entry's value in the input; if there is no value, the position of its name.
  static place place_of(const entry& e) { return e.value->kind == node_kind::null ? e.at : e.value->at; }

  reporter& report_;
  purpose why_;
  const node* root_ = nullptr;  ///< root of the document that is read into `out_`
  settings out_;
  bool legacy_zero_ = false;
  size_t item_ = 0;  ///< index of the list item that is being read
};

}  // namespace

settings collect(const node& root, reporter& report, purpose why) { return collector(report, why).take(root); }

}  // namespace troupe::config
