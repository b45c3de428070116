// A run as MLflow and W&B show it: its name, its settings, how it ended. Owns the identifiers that such runs get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::telemetry {

enum class verdict : uint8_t { done, stopped, failed };  ///< how the run ended

/// A configuration key with its value.
struct tracked_setting {
  std::string key;          ///< such as `optimizer.params.lr`
  std::string value;        ///< the value as YAML on one line
  bool is_default = false;  ///< true: the key has its default value, which is not shown
};

/// Facts of a run that are known before it begins.
struct tracked_run {
  std::string name;
  std::vector<tracked_setting> settings;
};

inline constexpr std::string_view hex_digits = "0123456789abcdef", decimal_digits = "0123456789",
                                  lower_letters_and_digits = "abcdefghijklmnopqrstuvwxyz0123456789";

/// Returns `count` random characters of `alphabet`.
std::string random_text(size_t count, std::string_view alphabet);

/// Returns the name of the user that runs the program; its number if it has no name.
std::string user_name();

/// Returns the run's folder as a path relative to `from`, so that it stays valid if both are moved together; the
/// absolute path if there is none; empty for a run without a folder.
std::string run_seen_from(const std::filesystem::path& run, const std::filesystem::path& from);

/// Returns the text with U+FFFD for each byte that is not valid UTF-8, which MLflow and W&B refuse to read.
std::string valid_utf8(std::string_view text);

/// Creates the folder and those above it, unless they exist. Error (io): it cannot be created.
core::result<void> make_folder(const std::filesystem::path& folder);

/// Returns the content of a file of at most `bytes_max` bytes; empty if there is no such regular file.
std::string small_text(const std::filesystem::path& file, size_t bytes_max);

/// Writes a small file, which readers see with its old or with its new content. Errors: io, no_space.
core::result<void> put_text(const std::filesystem::path& file, std::string_view text);

}  // namespace troupe::telemetry
