// The given values by canonical key: each name of the input is matched with its row of the key table, and each value is
// checked by itself. Leaves rules between keys to resolve.hpp.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/document/diagnostic.hpp"
#include "config/keys/key_table.hpp"

namespace troupe::config {

/// One input of a load: a file, or the text of a `--set`.
struct source {
  std::string name;
  std::filesystem::path folder;                                        ///< folder at which relative paths start
  enum kind_of : uint8_t { job, imported, override_text } kind = job;  ///< imported: read as leniently as by DeepSpeed
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
  /// True if no more diagnostics are kept, so that callers need not compose further texts.
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
  std::string key;  ///< full dotted key: that of `row`, with actual names in place of each `*`
  node_ptr value;   ///< checked value; null: `auto`, or nothing was written
  bool is_auto = false;
  place at;                ///< position of the value in the input
  place name_at;           ///< position of the key's name in the input
  bool held_back = false;  ///< true: a known value that nothing can honour yet; it is never stored in job_config
  size_t item = 0;         ///< index of the item, for a key of a list
  bool made = false;       ///< true: not in the file, but derived from an older key there
  bool in_part = false;    ///< true: a mapping that is merged with the value below it; names that it lacks are kept
};

/// Given keys by canonical name. A key whose value was refused is not in `given`, but in `refused`.
struct settings {
  std::map<std::string, setting, std::less<>> given;
  std::set<std::string, std::less<>> refused;
  place root;  ///< position of the whole document

  /// Returns the setting if it has a value, else null.
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
  /// Returns the place for a report about a key: its value, or the nearest enclosing section that was given.
  [[nodiscard]] place where(std::string_view key) const;
  std::map<std::string, place, std::less<>> sections;  ///< [section]: position of its value in the input
  std::map<std::string, size_t, std::less<>> lists;    ///< number of items of each list
  std::set<std::string, std::less<>> nulls;            ///< sections that a `--set` sets to null
  std::set<std::string, std::less<>> mappings;         ///< sections that are present, empty ones too

  /// Replaces values by all values of `other`; a list is replaced as a whole, and a section that is null in `other` is
  /// cleared.
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
