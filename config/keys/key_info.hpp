// One row of the key table, which describes a configuration key: its type, default, range, spellings, meaning, effect,
// and the field of job_config that it sets; and the functions with which rows are written. The rows are in keys_*.cpp,
// the table is in key_table.hpp.
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

enum class value_type : uint8_t {  ///< type of a key's value
  boolean,
  integer,
  number,
  text,
  path,
  number_list,       ///< a list with one number for each name in `choices`
  integers,          ///< a list of integers of any length
  texts,             ///< one text, or a list of texts of any length
  text_or_integers,  ///< one text, or a list of integers of any length
  dtype,             ///< a floating type, read by core::float_dtype_from
  seconds,           ///< a number, or text such as 500ms, 5s, 2min, 1h
  bytes,             ///< an integer, or text such as 512MiB, 4GiB, 4GB
  any,               ///< a value of any type, for a key that no code reads
  object,            ///< a mapping with keys of any name, which the key table does not list
  section,           ///< a mapping with keys that the key table lists
};

enum class effect : uint8_t {  ///< effect of a key on a run
  acts,
  when_there,  ///< Troupe lacks key_info::capability; the key will act when it exists
  no_effect,   ///< never acts; key_info::reason is the explanation
};

/// Accessors of a job_config field whose type is not among the alternatives of `field`. `set` returns nullopt, or a
/// description of the expected value if it refuses the given one.
struct hand_made {
  std::optional<std::string> (*set)(job_config&, const node&);
  std::string (*get)(const job_config&);  ///< returns the value of the field as YAML
};
/// Alternative of `field` for keys of the model, which are stored unchanged as JSON in
/// model_section::hugging_face_json.
struct model_key {};

template <class T>
using field_of = T* (*)(job_config&);
/// Function that returns a pointer to a field of item `item` of a list; null if the list has fewer items.
template <class T>
using item_field_of = T* (*)(job_config&, size_t item);
using field =
    std::variant<std::monostate, field_of<bool>, field_of<uint32_t>, field_of<uint64_t>, field_of<int64_t>,
                 field_of<double>, field_of<std::string>, field_of<std::filesystem::path>,
                 field_of<std::vector<std::string>>, field_of<std::optional<double>>, field_of<std::optional<uint64_t>>,
                 field_of<std::optional<core::dtype>>, field_of<core::optimizer_type>, field_of<core::schedule_type>,
                 field_of<core::warmup_shape>, field_of<core::decay_shape>, item_field_of<bool>, item_field_of<double>,
                 item_field_of<std::string>, item_field_of<std::filesystem::path>, item_field_of<std::optional<double>>,
                 item_field_of<uint64_t>, item_field_of<std::vector<std::string>>, hand_made, model_key>;

/// Another name of the key that the configuration accepts.
struct alias {
  std::string_view name;  ///< name that is accepted in place of the key's own, without the name of their common section
  bool deprecated = false;
};

/// A default value of a key that applies if the key `type` of the same section (optimizer, scheduler) has the value
/// `type`.
struct default_of_type {
  std::string_view type;
  std::string_view text;
};

/// The bounds of a number, both inclusive unless above_least or below_most is set.
struct value_range {
  std::optional<double> least, most;
  bool above_least = false;  ///< true: `least` itself is excluded
  bool below_most = false;   ///< true: `most` itself is excluded
};

/// A text that is no choice of a key, although other programs have it, and what to do instead of it.
struct refused_choice {
  std::string_view text;
  std::string_view why;
};

/// The texts that a key accepts as its value.
struct value_choices {
  /// Accepted texts; empty: any text; for number_list: names of the list's numbers, in order.
  std::vector<std::string_view> names;
  /// Texts that DeepSpeed accepts but Troupe does not support yet, so a job may not use them.
  std::vector<std::string_view> later;
  std::vector<refused_choice> never;  ///< texts whose refusal has a reason of its own
  /// The choice that DeepSpeed uses for a text that is no choice; empty: such a text is refused.
  std::string_view otherwise;
  bool any_case = false;   ///< true: the texts are accepted in any letter case
  bool or_number = false;  ///< true: an integer within the key's range is accepted, too
};

/// States if a key, or some of its values, have an effect in a run, and the reason if not.
struct key_support {
  effect acts = effect::acts;
  std::string_view reason;  ///< reason why the key has no effect, for effect::no_effect
  /// Name of the capability that Troupe lacks and that the key needs to have an effect; if `only` or `choices` list
  /// values, then only other values need it.
  std::string_view capability;
  /// Values that are supported so far; messages recommend the first of them, and a job may not use other values. Empty:
  /// all values are supported.
  std::vector<std::string_view> only;
  std::string_view refusal;  ///< reason why the key is never accepted; empty: it is accepted
};

/// Restricts a key to some families of models, or to some values of `type` in the section that contains its `params`.
struct key_types {
  std::vector<std::string_view> families;   ///< names of the model families that read the key; empty: all families
  std::vector<std::string_view> readers;    ///< values of `type` with which the key is read; empty: all
  std::vector<std::string_view> needed_by;  ///< values of `type` with which the key is required
  std::vector<default_of_type> defaults;
};

/// The key that switches another key on.
struct key_switch {
  std::string key;  ///< full name of the key whose default leaves the other key without effect; empty: none
  /// Value of the switched key that has the same effect as leaving the key switched off, so that this value causes no
  /// warning; empty: none.
  std::string_view same_without;
};

/// The member of job_config that receives the key's value.
struct key_target {
  config::field field;
  /// Flag in job_config that is set if the key is given; while it is false, the effective YAML omits the key.
  field_of<bool> told = nullptr;
  size_t (*items)(const job_config&) = nullptr;  ///< for a list key: returns the list's number of items in a job_config
  void (*resize)(job_config&, size_t) = nullptr;  ///< for a list key: sets the list's number of items
};

struct key_info {  ///< one row of the key table
  /// Full dotted name of the key. A part `*` stands for any name, such as a group's; a part that ends in `[]` is a list
  /// of mappings.
  std::string key;
  value_type type = value_type::text;
  std::string default_text = "none";  ///< default as YAML; "none": no value, and `null` may be given
  std::vector<alias> aliases;
  std::string_view deprecation;  ///< what to write instead of the deprecated key; empty: the key is not deprecated
  std::string_view meaning;
  bool required = false;
  bool null_too = false;     ///< true: `null` may be given although there is a default, and means that default
  bool by_presence = false;  ///< for a section: true if writing the section turns its feature on, even without keys
  bool per_group = false;    ///< true: DeepSpeed also accepts a list with a number for each parameter group
  value_range range;
  value_choices choices;
  key_support support;
  key_types types;
  key_switch switched;  ///< for a section: the key that switches on all keys of the section and of the sections in it
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
  /// Marks the key as having no effect until Troupe has the capability `what`.
  key_info& when(std::string_view what) {
    support.acts = effect::when_there;
    support.capability = what;
    return *this;
  }
  /// Sets the name of the missing capability that values beyond `only` and `choices` need; these values are then
  /// refused.
  key_info& needs(std::string_view what) {
    support.capability = what;
    return *this;
  }
  key_info& or_later(std::vector<std::string_view> v) {
    choices.later = std::move(v);
    return *this;
  }
  /// Gives the refusal of `v`, which is no choice, a reason.
  key_info& but_never(std::string_view v, std::string_view why) {
    choices.never.push_back({v, why});
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
  /// Permits an integer within the key's range in place of one of its texts.
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
  /// Restricts a key of a `params` section to the given values of `type` in the section above.
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
  /// Names the key that switches on this key, or the keys of this section. `same_without`: the value that has the
  /// same effect as leaving this key switched off.
  key_info& switched_by(std::string by, std::string_view same_without = {}) {
    switched = {std::move(by), same_without};
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
  /// Sets the target to the field at the end of a path of members: `into<&job_config::fp16, &fp16_section::enabled>()`.
  template <auto... Path>
  key_info& into() {
    auto reach = +[](job_config& c) { return &(c.*....*Path); };
    target.field = reach;
    return *this;
  }

  /// Sets the flag, at the end of a path of members, that records whether the key was given a value; a value that was
  /// not given is chosen later.
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
  /// Sets the target to a member of the items of a list: `into_item<&data_source::weight>(sources_of)`, where
  /// `sources_of` returns the list.
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
  /// True if the row describes any number of keys: its name contains `*` or a list.
  [[nodiscard]] bool any_name() const { return key.find_first_of("*[") != std::string::npos; }
  /// True if the key is read when the neighbouring key `type` has this value.
  [[nodiscard]] bool read_by(std::string_view type) const {
    return types.readers.empty() || std::ranges::find(types.readers, type) != types.readers.end();
  }
};

}  // namespace troupe::config
