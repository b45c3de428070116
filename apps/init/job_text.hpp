// A job's file while it is made: keys with their values as YAML, each with its meaning as a comment. Knows no key by
// name; what is put is first_job.hpp's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/document/document.hpp"

namespace troupe::apps {

class job_text {
 public:
  /// A line above everything.
  void note(std::string line) { notes_.push_back(std::move(line)); }
  /// `key` is full and dotted, `value` YAML on one line; over an earlier value. Without `comment` the key's meaning.
  void put(std::string_view key, std::string value, std::string comment = {});
  void put_if_absent(std::string_view key, std::string value, std::string comment = {});
  /// Every key of a document that the table knows and whose value is not the default. Those that begin with one of
  /// `except` are left out.
  void put_all(const config::node& document, const std::vector<std::string_view>& except = {});
  void drop(std::string_view key_or_section);
  /// Whether the key was put, or a document gives it its default.
  [[nodiscard]] bool has(std::string_view key) const;
  /// The value that was put; empty: none was.
  [[nodiscard]] std::string value_of(std::string_view key) const;
  [[nodiscard]] bool has_below(std::string_view section) const;
  [[nodiscard]] std::string yaml() const;

 private:
  struct line {
    std::string key, value, comment;
  };
  void put_below(std::string_view section, const config::node& mapping, const std::vector<std::string_view>& except);

  std::vector<std::string> notes_;
  std::vector<std::string> said_;  ///< keys that a document gives their defaults: not written
  std::vector<line> lines_;        ///< keys of a section stand together
};

}  // namespace troupe::apps
