#include "checkpoint/convert/checkpoint_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "formats/deepspeed/files.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t max_folder_name_bytes = 255;
/// Maximum bytes of latest_checkpointed_iteration.txt, which contains digits and a line end.
constexpr uint64_t max_iteration_bytes = 64;
/// Number of names in a folder that are examined to find out whether it is the folder of a DeepSpeed tag. Limited,
/// because a folder of another kind, such as one of data, may hold many more.
constexpr size_t max_names_of_tag = 4096;

using numbered_name = std::pair<std::optional<uint64_t>, std::string>;

/// Returns the folders in `root` for whose path `number_of` returns a pair of number and name.
template <class Number>
std::vector<numbered_name> folders_in(const fs::path& root, const Number& number_of) {
  std::vector<numbered_name> out;
  std::error_code ec;
  size_t seen = 0;
  for (fs::directory_iterator at(root, ec), end; !ec && at != end && seen < storage::max_folder_entries;
       at.increment(ec), ++seen) {
    std::error_code unknown;
    if (!at->is_directory(unknown)) continue;
    if (auto found = number_of(at->path())) out.push_back(std::move(*found));
  }
  return out;
}

std::vector<std::string> names_of(std::vector<numbered_name> found) {
  std::vector<std::string> out;
  for (auto& [number, name] : found) out.push_back(std::move(name));
  return out;
}

/// Returns the name in `latest` or `latest_universal`: the first line without blanks and a carriage return around it,
/// `./` in front and slashes at the end, which people and scripts leave there.
core::result<std::string> name_in(const fs::path& file) {
  TROUPE_ASSIGN(const auto text, storage::read_small_file(storage::real_files(), file, max_latest_bytes));
  auto name = core::trimmed(std::string_view(text).substr(0, text.find('\n')), " \t\r");
  while (name.starts_with("./")) name.remove_prefix(2);
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  return std::string(name);
}

/// Returns the folder's name for the text of `latest_checkpointed_iteration.txt`: iter_0000100 for the number 100, or
/// `release`, which Megatron's converters write. Refused: any other text.
core::result<std::string> numbered_name_in(const fs::path& file) {
  TROUPE_ASSIGN(const auto text, storage::read_small_file(storage::real_files(), file, max_iteration_bytes));
  constexpr std::string_view converted = "release";
  if (core::trimmed(text) == converted) return std::string(converted);
  std::string_view rest = text;
  const auto number = core::take_number<uint64_t>(rest);
  if (!number || rest.find_first_not_of(" \t\r\n") != rest.npos)
    return core::refused(fmt::format("'{}': the number of an iteration or '{}' was wanted, got '{}'", file.string(),
                                     converted, core::shown(text)));
  return fmt::format("iter_{:07}", *number);
}

struct latest_file {
  std::string_view name;
  latest_writer writer;
  core::result<std::string> (*read)(const fs::path& file);
};
constexpr std::array<latest_file, 3> latest_files{
    {{latest_file_name, latest_writer::any, name_in},
     {"latest_universal", latest_writer::deepspeed_universal, name_in},
     {"latest_checkpointed_iteration.txt", latest_writer::megatron, numbered_name_in}}};

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= max_folder_name_bytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

core::result<std::optional<newest_name>> newest_named_in(const fs::path& root) {
  for (const auto& latest : latest_files) {
    const auto file = root / latest.name;
    if (!storage::is_there(file)) continue;
    TROUPE_ASSIGN(auto name, latest.read(file));
    return newest_name{file, latest.writer, std::move(name)};
  }
  return std::nullopt;
}

std::optional<uint64_t> number_behind(std::string_view name, std::string_view stem) {
  return name.starts_with(stem) ? core::number_of<uint64_t>(name.substr(stem.size())) : std::nullopt;
}

std::optional<uint64_t> number_at_end(std::string_view name) {
  const auto digits = name.find_last_not_of("0123456789");
  return core::number_of<uint64_t>(digits == name.npos ? name : name.substr(digits + 1));
}

std::vector<std::string> numbered_in(const fs::path& root, std::string_view stem) {
  auto found = folders_in(root, [&](const fs::path& folder) -> std::optional<numbered_name> {
    auto name = folder.filename().string();
    const auto number = number_behind(name, stem);
    return number ? std::optional(numbered_name(number, std::move(name))) : std::nullopt;
  });
  std::ranges::sort(
      found, [](const auto& a, const auto& b) { return std::pair(b.first, a.second) < std::pair(a.first, b.second); });
  return names_of(std::move(found));
}

std::vector<std::string> tags_in(const fs::path& root) {
  auto found = folders_in(root, [](const fs::path& folder) -> std::optional<numbered_name> {
    if (!formats::holds_deepspeed_files(folder, max_names_of_tag) && !storage::is_folder(folder / "zero"))
      return std::nullopt;
    auto name = folder.filename().string();
    const auto number = number_at_end(name);
    return numbered_name(number, std::move(name));
  });
  std::ranges::sort(found, std::greater());
  return names_of(std::move(found));
}

}  // namespace troupe::checkpoint
