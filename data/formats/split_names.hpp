// Derives from the names of a data set's files which split they belong to, and which of several shards they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::data {

enum class split : uint8_t { none, training, held_out };

/// A data set's split (train, test, ...) that a text such as a file's name contains.
struct named_split {
  split kind = split::none;
  std::string name{};  ///< name of the split as in the text, such as "train" or "train_sft"; empty: none
};

/// Returns the split that the words of `text` name; words are separated by anything but letters. A text that names a
/// split for training and another one names none.
named_split split_in(std::string_view text);

/// Returns the split that a path names; a folder's name is preferred to the file's.
named_split split_of(const std::filesystem::path& relative);

/// The parts of a file's name in the form NAME-00000-of-00003.
struct shard_name {
  std::string name;  ///< the part of the file's name that the form calls NAME
  uint64_t number = 0, total = 0;
  size_t digits_at = 0, digits = 0;  ///< position and number of the digits of `number` in the file's name, in bytes
};

/// Returns the parts of a file's name; nullopt if it has another form. A dot or an underscore may follow NAME, too.
std::optional<shard_name> shard_in(std::string_view file_name);

}  // namespace troupe::data
