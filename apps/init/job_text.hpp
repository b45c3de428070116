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
  /// Adds a comment line at the top of the file.
  void note(std::string line) { notes_.push_back(std::move(line)); }
  /// Sets a key, such as `optimizer.params.lr`, to a value, which is YAML on one line and replaces an earlier value.
  /// Without a `comment`, the key's meaning is written next to the value.
  void put(std::string_view key, std::string value, std::string comment = {});
  void put_if_absent(std::string_view key, std::string value, std::string comment = {});
  /// Puts every key of a document that the table of keys has and whose value is not the default. Keys that begin with
  /// an entry of `except` are left out.
  void put_all(const config::node& document, const std::vector<std::string_view>& except = {});
  void drop(std::string_view key_or_section);
  /// True if the key was put, or if a document given to put_all() has the key with its default value.
  [[nodiscard]] bool has(std::string_view key) const;
  /// Returns the value that was put; empty if there is none.
  [[nodiscard]] std::string value_of(std::string_view key) const;
  [[nodiscard]] bool has_below(std::string_view section) const;
  [[nodiscard]] std::string yaml() const;

 private:
  struct line {
    std::string key, value, comment;
  };
  void put_below(std::string_view section, const config::node& mapping, const std::vector<std::string_view>& except);

  std::vector<std::string> notes_;
  std::vector<std::string> said_;  ///< keys that a document of put_all() sets to their defaults; not written
  std::vector<line> lines_;        ///< keys of a section are adjacent
};

}  // namespace troupe::apps
