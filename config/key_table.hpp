// Every configuration key that Troupe knows: its type, default, range, spellings, meaning, effect, and the field of
// job_config that it sets. Reading, checks, `explain` and docs/configuration.md all come from this one table.
// Leaves rules between keys to resolve.cpp.
//
// A new key is one row in a keys_*.cpp file (and a field in job_config.hpp when something acts on it).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/document.hpp"
#include "config/job_config.hpp"

namespace troupe::config {

enum class value_type : uint8_t {
  boolean,
  integer,
  number,
  text,
  path,
  number_list,  ///< as many numbers as `choices` has names
  integers,     ///< a list of any length
  texts,        ///< a list of any length, or one text
  dtype,        ///< a floating type, as core::float_dtype_from reads it
  seconds,      ///< a number, or text such as 500ms, 5s, 2min, 1h
  bytes,        ///< an integer, or text such as 512MiB, 4GiB, 4GB
  any,          ///< of a key that nothing reads: whatever its type
  object,       ///< a mapping whose keys are not in this table
  section,      ///< a mapping whose keys are
};

enum class effect : uint8_t {
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
using field = std::variant<std::monostate, field_of<bool>, field_of<uint32_t>, field_of<uint64_t>, field_of<double>,
                           field_of<std::string>, field_of<std::filesystem::path>, field_of<std::optional<double>>,
                           field_of<std::optional<core::dtype>>, hand_made, model_key>;

/// Another name that a key may be written with, beside its own.
struct alias {
  std::string_view name;  ///< within the same section
  bool deprecated = false;
};

struct key_info {
  std::string key;  ///< full and dotted; a part `*` stands for any name, as of a group
  value_type type = value_type::text;
  std::string default_text = "none";  ///< as YAML; "none": nothing, and `null` may be given
  std::optional<double> least, most;  ///< both inclusive
  bool above_least = false;           ///< then `least` itself is excluded
  bool below_most = false;            ///< then `most` itself is excluded
  std::vector<std::string_view> choices;
  std::vector<alias> aliases;
  std::string_view deprecation;  ///< what to write instead; empty: not deprecated
  std::string_view meaning;
  effect acts = effect::acts;
  std::string_view reason;      ///< why no_effect
  std::string_view capability;  ///< what it takes for the key, or for values beyond `only` and `choices`, to act
  std::optional<std::string_view> only;  ///< the one value that does what it says so far; a job may not say others
  std::vector<std::string_view> later;   ///< choices that DeepSpeed has too and a job may not make yet
  std::string_view refusal;              ///< why the key is never accepted; empty: it is
  bool any_case = false;                 ///< `choices` are read in any letter case
  bool required = false;
  std::string_view family;  ///< of a model key: "gpt2", "llama"; empty: both
  field into_field;

  key_info& by_default(std::string text) {
    default_text = std::move(text);
    return *this;
  }
  key_info& at_least(double v) {
    least = v;
    return *this;
  }
  key_info& at_most(double v) {
    most = v;
    return *this;
  }
  key_info& above(double v) {
    least = v;
    above_least = true;
    return *this;
  }
  key_info& below(double v) {
    most = v;
    below_most = true;
    return *this;
  }
  key_info& one_of(std::vector<std::string_view> v) {
    choices = std::move(v);
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
    acts = effect::no_effect;
    reason = why;
    return *this;
  }
  /// Nothing acts on the key before that is there.
  key_info& when(std::string_view what) {
    acts = effect::when_there;
    capability = what;
    return *this;
  }
  /// Values beyond `only` and `choices` take that.
  key_info& needs(std::string_view what) {
    capability = what;
    return *this;
  }
  key_info& or_later(std::vector<std::string_view> v) {
    later = std::move(v);
    return *this;
  }
  key_info& just(std::string_view v) {
    only = v;
    return *this;
  }
  key_info& refused(std::string_view why) {
    refusal = why;
    return *this;
  }
  key_info& in_any_case() {
    any_case = true;
    return *this;
  }
  key_info& needed() {
    required = true;
    return *this;
  }
  key_info& of_family(std::string_view v) {
    family = v;
    return *this;
  }
  key_info& in_model() {
    into_field = model_key{};
    return *this;
  }
  key_info& by_hand(hand_made v) {
    into_field = v;
    return *this;
  }
  /// The field at the end of a path of members: `into<&job_config::fp16, &fp16_section::enabled>()`.
  template <auto... Path>
  key_info& into() {
    auto reach = +[](job_config& c) { return &(c.*....*Path); };
    into_field = reach;
    return *this;
  }

  [[nodiscard]] std::string_view name() const { return std::string_view(key).substr(key.rfind('.') + 1); }
  [[nodiscard]] std::string_view section() const {
    const size_t dot = key.rfind('.');
    return dot == std::string::npos ? std::string_view() : std::string_view(key).substr(0, dot);
  }
  [[nodiscard]] bool nullable() const { return default_text == "none" && !required; }
  [[nodiscard]] bool has_field() const { return into_field.index() != 0; }
  [[nodiscard]] bool any_name() const { return key.find('*') != std::string::npos; }
};

/// Collects rows; `row("zero_optimization.stage", value_type::integer)`.
class key_rows {
 public:
  key_info& row(std::string key, value_type type) {
    rows.emplace_back();
    rows.back().key = std::move(key);
    rows.back().type = type;
    return rows.back();
  }
  std::vector<key_info> rows;
};
/// Rows of one section, which all wait for the same capability unless they say otherwise.
class section_rows {
 public:
  section_rows(key_rows& t, std::string name, std::string_view meaning, std::string_view waits_for = {})
      : t_(t), name_(std::move(name)), waits_for_(waits_for) {
    t_.row(name_, value_type::section).means(meaning);
  }
  key_info& operator()(std::string_view name, value_type type, std::string by_default, std::string_view meaning) {
    key_info& made = t_.row(name_ + "." + std::string(name), type).by_default(std::move(by_default)).means(meaning);
    return waits_for_.empty() ? made : made.when(waits_for_);
  }
  /// The switch of a section whose being on would change results: a job may not turn it on yet.
  key_info& off(std::string_view meaning) {
    key_info& made = t_.row(name_ + ".enabled", value_type::boolean).by_default("false").means(meaning).just("false");
    return made.needs(waits_for_);
  }

 private:
  key_rows& t_;
  std::string name_;
  std::string_view waits_for_;
};

void add_job_keys(key_rows& t);
void add_model_keys(key_rows& t);
void add_batch_keys(key_rows& t);
void add_optimizer_keys(key_rows& t);
void add_zero_keys(key_rows& t);
void add_precision_keys(key_rows& t);
void add_offload_keys(key_rows& t);
void add_checkpoint_keys(key_rows& t);
void add_monitor_keys(key_rows& t);
void add_parallel_engine_keys(key_rows& t);
void add_compression_keys(key_rows& t);
void add_data_efficiency_keys(key_rows& t);
void add_deepspeed_keys(key_rows& t);

/// All rows, section by section.
const std::vector<key_info>& key_table();

/// A row by its full key, or null.
const key_info* key_named(std::string_view key);
/// A row by what was written in a section (canonical), aliases included, or null; `used` tells which alias.
const key_info* key_in(std::string_view section, std::string_view name, const alias** used = nullptr);
/// The full key most like `section.name`: of the same section first.
std::string nearest_key(std::string_view section, std::string_view name);

/// "an integer from 0 to 3": for messages and docs.
std::string wanted(const key_info& key);
/// "acts", "acts once there is offload", "no effect: ...": what a key does with a value; `beyond`: with one that
/// `only` and `choices` leave for later.
std::string effect_of(const key_info& key, bool beyond);

}  // namespace troupe::config
