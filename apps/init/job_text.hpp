// Owns the text of a job file while it is made: keys with their values as YAML, and their meanings as comments.
// Contains no key names; leaves the choice of keys to first_job.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/document/document.hpp"

namespace troupe::apps {

class job_text {
 public:
  /// Adds a comment line at the top of the configuration file.
  void note(std::string line) { notes_.push_back(std::move(line)); }
  /// Sets a key, such as `optimizer.params.lr`, to a value, which is YAML on one line and replaces an earlier value.
  /// Without a `comment`, the key's meaning is written next to the value.
  void put(std::string_view key, std::string value, std::string comment = {});
  /// Sets every key of `document` that the table of configuration keys contains and whose value is not the default.
  /// Keys that begin with an entry of `except` are omitted.
  void put_all(const config::node& document, const std::vector<std::string_view>& except = {});
  void drop(std::string_view key_or_section);
  /// True if put() or put_all() has set the key, or if a document given to put_all() contains the key with its default
  /// value.
  [[nodiscard]] bool has(std::string_view key) const;
  /// Returns the value of a key that has been set, as YAML; empty if the key has not been set.
  [[nodiscard]] std::string value_of(std::string_view key) const;
  [[nodiscard]] bool has_below(std::string_view section) const;
  [[nodiscard]] std::string yaml() const;

 private:
  struct line {
    std::string key, value, comment;
  };
  void put_below(std::string_view section, const config::node& mapping, const std::vector<std::string_view>& except);

  std::vector<std::string> notes_;
  /// Keys that a document given to put_all() sets to their default values; omitted from the file
  std::vector<std::string> said_;
  std::vector<line> lines_;  ///< lines of the file, one per key; keys of a section are adjacent
};

}  // namespace troupe::apps
