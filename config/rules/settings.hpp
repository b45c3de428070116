// The values that files and `--set` texts give, by the canonical name of their key: each name of the input is matched
// with its row of the key table, and each value is checked by itself. Rules between keys are in resolve.hpp.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/document/diagnostic.hpp"
#include "config/keys/key_table.hpp"

namespace troupe::config {

/// One input of a configuration: a file, or the text of a `--set`.
struct source {
  std::string name;
  std::filesystem::path folder;  ///< folder to which relative paths in this input refer
  /// Kind of input; imported: a DeepSpeed file, which is read as leniently as DeepSpeed reads it.
  enum kind_of : uint8_t { job, imported, override_text } kind = job;
};

/// Collects the diagnostics of one load, at most `most_diagnostics` of them, and sorts them.
class reporter {
 public:
  std::vector<source> sources;

  void error(place at, std::string key, std::string text) {
    add(diagnostic::error, about::key, at, std::move(key), std::move(text));
  }
  void warn(place at, std::string key, std::string text);
  /// Reports an error about the value of a key; forget_values() drops it if a value of another file or a `--set`
  /// replaces this value.
  void refuse_value(place at, std::string key, std::string text) {
    add(diagnostic::error, about::value, at, std::move(key), std::move(text));
  }
  void remark_value(place at, std::string key, std::string text);
  /// Drops the diagnostics about values of a key, or of all keys of a section, in all sources except `except_source`.
  void forget_values(std::string_view key, uint32_t except_source);
  bool strict = false;

  [[nodiscard]] bool failed() const { return errors_ > 0; }
  /// True if further diagnostics would be dropped, so that callers need not compose their texts.
  [[nodiscard]] bool full() const { return items_.size() >= most_diagnostics; }
  /// Returns the diagnostics of one severity by source, line and column; sources are in the order of `sources`.
  [[nodiscard]] std::vector<diagnostic> in_order(diagnostic::severity_kind severity) const;

 private:
  enum class about : uint8_t { key, value };  // a diagnostic about a value is dropped if another value replaces it
  void add(diagnostic::severity_kind severity, about what, place at, std::string key, std::string text);
  struct item {
    diagnostic::severity_kind severity;
    about what;
    place at;
    std::string key, text;
  };
  std::vector<item> items_;
  size_t errors_ = 0, left_out_ = 0;
};

/// A key with a value, as a file or `--set` states it.
struct setting {
  const key_info* row = nullptr;
  std::string key;  ///< full dotted key: the key of `row` with an actual name in place of each `*`
  node_ptr value;   ///< value, checked by the key's row; null: `auto`, or no value was written
  bool is_auto = false;
  place at;       ///< position of the value in the input
  place name_at;  ///< position of the key's name in the input
  /// True: the value is valid, but Troupe cannot honour it yet; it is never stored in job_config.
  bool held_back = false;
  size_t item = 0;    ///< index of the list item to which the key belongs; 0 if it belongs to no list
  bool made = false;  ///< true: derived from an older key that the file has in place of `key`
  /// True: the value is a part of a mapping, from a `--set` that names a key of the mapping; the part is merged into
  /// the file's mapping.
  bool in_part = false;
};

/// Keys of a configuration by canonical name: keys with an accepted value are in `given`, keys with a refused value
/// in `refused`.
struct settings {
  std::map<std::string, setting, std::less<>> given;
  std::set<std::string, std::less<>> refused;
  place root;  ///< position of the document's root, for errors about a key that is not given

  /// Returns the setting of the key if it has a value; else null.
  [[nodiscard]] const setting* value_of(std::string_view key) const;
  /// Return the key's value as text, as a number, and whether it is `true`; the key's default if no value is given.
  [[nodiscard]] std::string text_of(std::string_view key) const;
  [[nodiscard]] double number_of(std::string_view key) const;
  [[nodiscard]] bool is_on(std::string_view key) const { return text_of(key) == "true"; }
  /// True if the section's key `enabled` is false.
  [[nodiscard]] bool is_off(std::string_view section) const;
  /// True if the key was given as `auto`.
  [[nodiscard]] bool is_auto(std::string_view key) const;
  [[nodiscard]] bool was_refused(std::string_view key) const { return refused.find(key) != refused.end(); }
  /// Returns the position for a message about a key: the position of its value, else of the nearest enclosing section
  /// that was given, else of the document.
  [[nodiscard]] place where(std::string_view key) const;
  std::map<std::string, place, std::less<>> sections;  ///< [section]: position of its value in the input
  std::map<std::string, size_t, std::less<>> lists;    ///< [list key]: number of its items
  std::set<std::string, std::less<>> nulls;            ///< names of the sections that a `--set` sets to null
  /// Names of the sections that are present as mappings, empty ones included.
  std::set<std::string, std::less<>> mappings;

  /// Replaces values by the values in `other`, such as a `--set`; a list is replaced as a whole, and a section that
  /// is null in `other` is cleared.
  void override_with(settings other, reporter& report);
};

/// The purpose for which a document is read; it decides whether values that cannot be honoured are refused.
enum class purpose : uint8_t {
  job,        ///< a run: values that cannot be honoured are refused
  host_job,   ///< a run of a host program with its own model and batches: values that cannot be honoured are refused
  deepspeed,  ///< inspection: values that cannot be honoured yet are reported
};

/// Reads the keys of one document's root.
settings collect(const node& root, reporter& report, purpose why);

}  // namespace troupe::config
