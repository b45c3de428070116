// Settings of a job from a program, without YAML text: values of C++ by the keys that a file has. Owns how such values
// become the tree that a file would be; load.hpp validates it as it validates a file, in the same words.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/document/document.hpp"
#include "config/load.hpp"

namespace troupe::config {

/// A value of a key: a boolean, a number, a text, nothing, or a list or mapping of values.
class job_value {
 public:
  job_value(bool value);  // NOLINT(google-explicit-constructor): a value is written where a job_value is wanted
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) job_value(T value)  // NOLINT(google-explicit-constructor)
      : job_value(std::cmp_less(value, 0), std::cmp_less(value, 0) ? uint64_t{0} - static_cast<uint64_t>(value)
                                                                   : static_cast<uint64_t>(value)) {}
  job_value(double value);                       // NOLINT(google-explicit-constructor)
  job_value(const char* text);                   // NOLINT(google-explicit-constructor)
  job_value(std::string_view text);              // NOLINT(google-explicit-constructor)
  job_value(const std::string& text);            // NOLINT(google-explicit-constructor)
  job_value(const std::filesystem::path& path);  // NOLINT(google-explicit-constructor)
  static job_value none();                       ///< returns the value that `null` is in YAML
  static job_value list(std::vector<job_value> items);
  /// Returns a mapping; a name that occurs twice is an error of the load.
  static job_value mapping(std::vector<std::pair<std::string, job_value>> entries);

  [[nodiscard]] const node_ptr& tree() const { return tree_; }  ///< returns the value as a file would contain it

 private:
  job_value(bool is_negative, uint64_t magnitude);
  explicit job_value(node_ptr tree) : tree_(std::move(tree)) {}
  node_ptr tree_;
};

/// Collects the settings of a job, key by key, and validates them.
class job_builder {
 public:
  /// `base_folder`: folder to which relative paths refer; empty: the current one. `name`: name of the job in messages,
  /// and of its default output folder, `runs/NAME`.
  explicit job_builder(std::filesystem::path base_folder = {}, std::string name = "job")
      : folder_(std::move(base_folder)), name_(std::move(name)) {}

  /// Sets a key, such as `optimizer.params.lr`, to a value, which replaces an earlier one; mappings are merged. The key
  /// and the value are checked by load().
  job_builder& set(std::string_view key, const job_value& value);

  /// Validates the keys as load() validates those of a file, and returns an equal configuration. Errors and warnings
  /// have the same texts and keys; their line is the number of the call of set() that gave the value.
  [[nodiscard]] load_result load(const load_options& options = {}) const;

 private:
  std::filesystem::path folder_;
  std::string name_;
  node_ptr root_;  ///< all keys as one mapping; null: there are none
  std::vector<problem> problems_;
  int calls_ = 0;  ///< number of calls of set()
};

}  // namespace troupe::config
