// Derives from the names of a data set's files which split they belong to, and which of several shards they are.
#include "core/number.hpp"
#include "data/formats/folder_files.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace troupe::data {
namespace {

/// Largest number of digits of a shard's number.
constexpr size_t most_shard_digits = 9;

size_t digits_from(std::string_view text, size_t from) {
  size_t n = 0;
  while (from + n < text.size() && text[from + n] >= '0' && text[from + n] <= '9') ++n;
  return n;
}

uint64_t number_in(std::string_view digits) { return core::number_of<uint64_t>(digits).value_or(0); }

}  // namespace

named_split split_in(std::string_view text) {
  constexpr std::string_view training[] = {"train", "training"};
  constexpr std::string_view held_out[] = {"test", "testing",    "eval",  "evaluation",
                                           "val",  "validation", "valid", "dev"};
  named_split out;
  for (size_t at = 0; at < text.size();) {
    std::string word;
    while (at < text.size() && core::ascii_lower(text[at]) >= 'a' && core::ascii_lower(text[at]) <= 'z')
      word += core::ascii_lower(text[at++]);
    ++at;
    const bool trains = std::ranges::find(training, word) != std::end(training);
    const bool is_held_out = std::ranges::find(held_out, word) != std::end(held_out);
    if (!trains && !is_held_out) continue;
    // The text contains both the name of a training split and that of a held-out one.
    if (out.kind != split::none && (out.kind == split::training) != trains) return {};
    out = {trains ? split::training : split::held_out, trains ? "train" : word};
  }
  return out;
}

std::optional<shard_name> shard_in(std::string_view file_name) {
  constexpr std::string_view between = "-of-";
  const size_t of = file_name.find(between);
  if (of == std::string_view::npos) return std::nullopt;
  size_t begin = of;
  while (begin > 0 && file_name[begin - 1] >= '0' && file_name[begin - 1] <= '9') --begin;
  const size_t digits = of - begin, after = digits_from(file_name, of + between.size());
  if (begin < 2 || std::string_view("-._").find(file_name[begin - 1]) == std::string_view::npos) return std::nullopt;
  if (digits == 0 || digits > most_shard_digits || after == 0 || after > most_shard_digits) return std::nullopt;
  return shard_name{std::string(file_name.substr(0, begin - 1)), number_in(file_name.substr(begin, digits)),
                    number_in(file_name.substr(of + between.size(), after)), begin, digits};
}

named_split split_of(const std::filesystem::path& relative) {
  named_split out;
  for (const auto& part : relative.parent_path())
    if (auto found = split_in(part.string()); found.kind != split::none) out = found;
  if (out.kind != split::none) return out;
  const std::string name = relative.filename().string();
  out = split_in(name.substr(0, name.find('.') == 0 ? name.npos : name.rfind('.')));
  // The function push_to_hub of `datasets` names the files of a split NAME-00000-of-00001.
  const auto shard = shard_in(name);
  if (out.kind != split::none && shard && shard->digits == 5 && name[shard->digits_at - 1] == '-')
    out.name = shard->name;
  return out;
}

}  // namespace troupe::data
