// The given values by canonical key: a tree of names turned into rows of the key table with their values, checked
// one by one. Leaves rules between keys to resolve.hpp.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/document/diagnostic.hpp"
#include "config/keys/key_table.hpp"

namespace troupe::config {

/// A file or a `--set` text.
struct source {
  std::string name;
  std::filesystem::path folder;                                        ///< relative paths start here
  enum kind_of : uint8_t { job, imported, override_text } kind = job;  ///< imported: as lenient as DeepSpeed is
};

/// Collects diagnostics of one load, at most `most_diagnostics` of them, and puts them in order.
class reporter {
 public:
  std::vector<source> sources;

  void error(place at, std::string key, std::string text) {
    add(diagnostic::error, about::key, at, std::move(key), std::move(text));
  }
  void warn(place at, std::string key, std::string text);
  /// The same of the value of a key, which no longer counts once another file's or a `--set`'s value stands over it.
  void refuse_value(place at, std::string key, std::string text) {
    add(diagnostic::error, about::value, at, std::move(key), std::move(text));
  }
  void remark_value(place at, std::string key, std::string text);
  /// Drops what was said of the values of a key, or of all keys of a section, in other sources than this one.
  void forget_values(std::string_view key, uint32_t except_source);
  bool strict = false;

  [[nodiscard]] bool failed() const { return errors_ > 0; }
  /// No more is kept, so no more thought need go into texts.
  [[nodiscard]] bool full() const { return items_.size() >= most_diagnostics; }
  /// Those of one severity by source, line and column; the sources' order is that of `sources`.
  [[nodiscard]] std::vector<diagnostic> in_order(diagnostic::severity_kind severity) const;

 private:
  enum class about : uint8_t { key, value };  // a value's no longer counts where another stands over it
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

/// One given key.
struct setting {
  const key_info* row = nullptr;
  std::string key;  ///< full; the row's, with names in place of each `*`
  node_ptr value;   ///< checked; null: `auto`, or nothing was written
  bool is_auto = false;
  place at;  ///< of the value
  place name_at;
  bool held_back = false;  ///< known, but nothing here can honour it yet: never stored
  size_t item = 0;         ///< of a key of a list: which
  bool made = false;       ///< not in the file: an older key there stands for it
  bool in_part = false;    ///< names of a mapping that are put over those below; other names there stay
};

/// Given keys by canonical name. A key whose value was refused is not in `given`, but in `refused`.
struct settings {
  std::map<std::string, setting, std::less<>> given;
  std::set<std::string, std::less<>> refused;
  place root;  ///< of the whole document

  /// The setting when it has a value, else null.
  [[nodiscard]] const setting* value_of(std::string_view key) const;
  /// The value as text, as a number, and whether it is true; what the key's default says where it has none.
  [[nodiscard]] std::string text_of(std::string_view key) const;
  [[nodiscard]] double number_of(std::string_view key) const;
  [[nodiscard]] bool is_on(std::string_view key) const { return text_of(key) == "true"; }
  /// Whether a section says that it is switched off.
  [[nodiscard]] bool is_off(std::string_view section) const;
  /// Whether the key was given as `auto`.
  [[nodiscard]] bool is_auto(std::string_view key) const;
  [[nodiscard]] bool was_refused(std::string_view key) const { return refused.find(key) != refused.end(); }
  /// Where to report about a key: its value, or the nearest section around it that was given.
  [[nodiscard]] place where(std::string_view key) const;
  std::map<std::string, place, std::less<>> sections;
  std::map<std::string, size_t, std::less<>> lists;  ///< how many items each has
  std::set<std::string, std::less<>> nulls;          ///< sections that a `--set` says are nothing
  std::set<std::string, std::less<>> mappings;       ///< sections that are there, empty ones too

  /// Takes everything of `other` that is given there; a list as a whole, and of a section that is null nothing.
  void override_with(settings other, reporter& report);
};

/// The purpose of reading a document.
enum class purpose : uint8_t {
  job,        ///< to run it: what cannot be honoured is refused
  host_job,   ///< likewise, of a host program that brings its own model and batches
  deepspeed,  ///< to look at it: what cannot be honoured yet is said
};

/// Reads the keys of one document's root.
settings collect(const node& root, reporter& report, purpose why);

}  // namespace troupe::config
