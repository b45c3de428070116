// One configuration key: its type, default, range, spellings, meaning, effect, and the field of job_config that it
// sets; with the words that a row of the table is written in. Leaves the rows to keys_*.cpp, the table to
// key_table.hpp.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/document/document.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::config {

enum class value_type : uint8_t {  ///< of a key
  boolean,
  integer,
  number,
  text,
  path,
  number_list,       ///< as many numbers as `choices` has names
  integers,          ///< a list of any length
  texts,             ///< a list of any length, or one text
  text_or_integers,  ///< one text, or a list of integers of any length
  dtype,             ///< a floating type, as core::float_dtype_from reads it
  seconds,           ///< a number, or text such as 500ms, 5s, 2min, 1h
  bytes,             ///< an integer, or text such as 512MiB, 4GiB, 4GB
  any,               ///< of a key that nothing reads: whatever its type
  object,            ///< a mapping whose keys are not in this table
  section,           ///< a mapping whose keys are
};

enum class effect : uint8_t {  ///< of a key on a run
  acts,
  when_there,  ///< acts when key_info::capability is there; not yet
  no_effect,   ///< and key_info::reason says why
};

/// Fields that no plain type holds. `set` returns what was wanted instead when the value will not do.
struct hand_made {
  std::optional<std::string> (*set)(job_config&, const node&);
  std::string (*get)(const job_config&);  ///< as YAML
};
/// Kept as given in model_section::hugging_face_json.
struct model_key {};

template <class T>
using field_of = T* (*)(job_config&);
/// Of one item of a list; null behind its end.
template <class T>
using item_field_of = T* (*)(job_config&, size_t item);
using field =
    std::variant<std::monostate, field_of<bool>, field_of<uint32_t>, field_of<uint64_t>, field_of<int64_t>,
                 field_of<double>, field_of<std::string>, field_of<std::filesystem::path>,
                 field_of<std::vector<std::string>>, field_of<std::optional<double>>, field_of<std::optional<uint64_t>>,
                 field_of<std::optional<core::dtype>>, field_of<core::optimizer_type>, field_of<core::schedule_type>,
                 field_of<core::warmup_shape>, item_field_of<bool>, item_field_of<double>, item_field_of<std::string>,
                 item_field_of<std::filesystem::path>, item_field_of<std::optional<double>>, item_field_of<uint64_t>,
                 item_field_of<std::vector<std::string>>, hand_made, model_key>;

/// Another name that a key may be written with, beside its own.
struct alias {
  std::string_view name;  ///< within the same section
  bool deprecated = false;
};

/// The default of a key where the `type` beside it is this one.
struct default_of_type {
  std::string_view type;
  std::string_view text;
};

/// The bounds of a number, both inclusive unless they say otherwise.
struct value_range {
  std::optional<double> least, most;
  bool above_least = false;  ///< then `least` itself is excluded
  bool below_most = false;   ///< then `most` itself is excluded
};

/// The texts that a value may be.
struct value_choices {
  std::vector<std::string_view> names;  ///< empty: any text; of number_list: what each number is
  std::vector<std::string_view> later;  ///< that DeepSpeed has too and a job may not say yet
  std::string_view otherwise;           ///< what DeepSpeed reads other texts as
  bool any_case = false;                ///< read in any letter case
  bool or_number = false;               ///< or an integer within the key's range
};

/// Whether a run does what a key says.
struct key_support {
  effect acts = effect::acts;
  std::string_view reason;      ///< why no_effect
  std::string_view capability;  ///< what it takes for the key, or for values beyond `only` and `choices`, to act
  /// The values that do what they say so far, the first one by name; a job may not say others. Empty: all do.
  std::vector<std::string_view> only;
  std::string_view refusal;  ///< why the key is never accepted; empty: it is
};

/// Of keys that belong to some values of another key only: the model's family, the `type` beside `params`.
struct key_types {
  std::string_view family;                  ///< of a model key: "gpt2", "llama"; empty: both
  std::vector<std::string_view> readers;    ///< the types that read it; empty: all
  std::vector<std::string_view> needed_by;  ///< those that cannot do without it
  std::vector<default_of_type> defaults;
};

/// Where a value goes.
struct key_target {
  config::field field;
  field_of<bool> told = nullptr;  ///< says whether a value was given; then a default is written as nothing
  size_t (*items)(const job_config&) = nullptr;   ///< of a list: how many a file would give
  void (*resize)(job_config&, size_t) = nullptr;  ///< of a list
};

struct key_info {  ///< a key as users know it
  /// Full and dotted; a part `*` stands for any name, as of a group; one that ends in `[]` is a list of mappings.
  std::string key;
  value_type type = value_type::text;
  std::string default_text = "none";  ///< as YAML; "none": nothing, and `null` may be given
  std::vector<alias> aliases;
  std::string_view deprecation;  ///< its replacement; empty: not deprecated
  std::string_view meaning;
  bool required = false;
  bool null_too = false;     ///< `null` may be given although there is a default: it means that
  bool by_presence = false;  ///< of a section: does something, or would, where it stands
  bool per_group = false;    ///< DeepSpeed takes a list with a number for each parameter group too
  value_range range;
  value_choices choices;
  key_support support;
  key_types types;
  key_target target;

  key_info& by_default(std::string text) {
    default_text = std::move(text);
    return *this;
  }
  key_info& at_least(double v) {
    range.least = v;
    return *this;
  }
  key_info& at_most(double v) {
    range.most = v;
    return *this;
  }
  key_info& above(double v) {
    range.least = v;
    range.above_least = true;
    return *this;
  }
  key_info& below(double v) {
    range.most = v;
    range.below_most = true;
    return *this;
  }
  key_info& one_of(std::vector<std::string_view> v) {
    choices.names = std::move(v);
    return *this;
  }
  key_info& also(std::string_view name, bool is_deprecated = false) {
    aliases.push_back({name, is_deprecated});
    return *this;
  }
  key_info& deprecated(std::string_view instead) {
    deprecation = instead;
    return *this;
  }
  key_info& means(std::string_view v) {
    meaning = v;
    return *this;
  }
  key_info& ignored(std::string_view why) {
    support.acts = effect::no_effect;
    support.reason = why;
    return *this;
  }
  /// Nothing acts on the key before that is there.
  key_info& when(std::string_view what) {
    support.acts = effect::when_there;
    support.capability = what;
    return *this;
  }
  /// Values beyond `only` and `choices` take that.
  key_info& needs(std::string_view what) {
    support.capability = what;
    return *this;
  }
  key_info& or_later(std::vector<std::string_view> v) {
    choices.later = std::move(v);
    return *this;
  }
  key_info& just(std::string_view v) {
    support.only.push_back(v);
    return *this;
  }
  key_info& or_null() {
    null_too = true;
    return *this;
  }
  key_info& where_it_stands() {
    by_presence = true;
    return *this;
  }
  key_info& refused(std::string_view why) {
    support.refusal = why;
    return *this;
  }
  /// A text, or an integer within the range.
  key_info& or_number() {
    choices.or_number = true;
    return *this;
  }
  key_info& in_any_case() {
    choices.any_case = true;
    return *this;
  }
  key_info& needed() {
    required = true;
    return *this;
  }
  key_info& of_family(std::string_view v) {
    types.family = v;
    return *this;
  }
  /// Only these values of the `type` beside `params` read the key.
  key_info& of(std::vector<std::string_view> names) {
    types.readers = std::move(names);
    return *this;
  }
  key_info& needed_with(std::vector<std::string_view> names) {
    types.needed_by = std::move(names);
    return *this;
  }
  key_info& by_default_of(std::string_view type, std::string_view text) {
    types.defaults.push_back({type, text});
    return *this;
  }
  key_info& for_each_group() {
    per_group = true;
    return *this;
  }
  key_info& others_as(std::string_view choice) {
    choices.otherwise = choice;
    return *this;
  }
  key_info& in_model() {
    target.field = model_key{};
    return *this;
  }
  key_info& by_hand(hand_made v) {
    target.field = v;
    return *this;
  }
  /// The field at the end of a path of members: `into<&job_config::fp16, &fp16_section::enabled>()`.
  template <auto... Path>
  key_info& into() {
    auto reach = +[](job_config& c) { return &(c.*....*Path); };
    target.field = reach;
    return *this;
  }

  /// The flag at the end of a path of members says whether the key was given a value: what is not is chosen later.
  template <auto... Path>
  key_info& tells() {
    target.told = +[](job_config& c) { return &(c.*....*Path); };
    return *this;
  }

  template <class List>
  key_info& list_of(List /*list_of*/, size_t (*count)(const job_config&)) {
    target.items = count;
    target.resize = +[](job_config& c, size_t size) { List()(c).resize(size); };
    return *this;
  }
  /// The same of the items of a list: `into_item<&data_source::weight>(sources_of)`, which returns the list.
  template <auto Member, class List>
  key_info& into_item(List /*list_of*/) {
    auto reach = +[](job_config& c, size_t item) {
      auto& list = List()(c);
      return item < list.size() ? &(list[item].*Member) : nullptr;
    };
    target.field = reach;
    return *this;
  }

  [[nodiscard]] std::string_view name() const { return std::string_view(key).substr(key.rfind('.') + 1); }
  [[nodiscard]] std::string_view section() const {
    const size_t dot = key.rfind('.');
    return dot == std::string::npos ? std::string_view() : std::string_view(key).substr(0, dot);
  }
  [[nodiscard]] bool nullable() const { return null_too || (default_text == "none" && !required); }
  [[nodiscard]] bool has_field() const { return target.field.index() != 0; }
  [[nodiscard]] bool is_list() const { return key.ends_with("[]"); }
  [[nodiscard]] std::string_view list_name() const { return std::string_view(key).substr(0, key.find('[')); }
  [[nodiscard]] bool in_list() const { return section().ends_with("[]"); }
  /// Stands for as many keys as a file gives.
  [[nodiscard]] bool any_name() const { return key.find_first_of("*[") != std::string::npos; }
  /// Whether the key has a meaning beside that `type`.
  [[nodiscard]] bool read_by(std::string_view type) const {
    return types.readers.empty() || std::ranges::find(types.readers, type) != types.readers.end();
  }
};

}  // namespace troupe::config
