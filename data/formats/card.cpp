#include "data/formats/card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/source_file.hpp"
#include "core/text.hpp"
#include "data/formats/card_yaml.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

/// True for keys of metadata that only README.md files of data sets have: README.md files of other programs may begin
/// with metadata, too.
bool is_key_of_card(std::string_view key) {
  constexpr std::string_view keys[] = {
      "annotations_creators", "configs",         "dataset_info",    "extra_gated_prompt", "language",
      "language_creators",    "license",         "license_name",    "multilinguality",    "pretty_name",
      "size_categories",      "source_datasets", "task_categories", "task_ids",           "viewer"};
  return std::ranges::find(keys, key) != std::end(keys);
}

tl::unexpected<core::error> wrong_form(std::string_view what) { return fail(error_kind::bad_input, std::string(what)); }

core::result<std::string> card_text(const card_value& x, std::string_view key) {
  if (!x.items.empty() || !x.members.empty() || x.is_unread || x.scalar.empty())
    return wrong_form(fmt::format("wanted one line of text under {}", key));
  return x.scalar;
}

/// Returns a path in the form in which the files of a folder are named: `./a//b` becomes `a/b`.
std::string normal_path(const std::string& path) {
  std::string out = fs::path(path).lexically_normal().generic_string();
  while (out.ends_with('/')) out.pop_back();
  return out == "." ? "" : out;
}

core::result<std::vector<std::string>> card_paths(const card_value& x, std::string_view key) {
  std::vector<std::string> out;
  if (x.items.empty()) {
    TROUPE_ASSIGN(const auto path, card_text(x, key));
    return std::vector{normal_path(path)};
  }
  for (const auto& one : x.items) {
    TROUPE_ASSIGN(const auto path, card_text(one, key));
    out.push_back(normal_path(path));
  }
  return out;
}

core::result<card_configuration> configuration_in(const card_value& x) {
  card_configuration out;
  if (x.members.empty()) return wrong_form("wanted a list of configurations, each with its keys");
  if (const auto* name = x.member("config_name")) {
    TROUPE_ASSIGN(out.name, card_text(*name, "config_name"));
  }
  if (const auto* folder = x.member("data_dir")) {
    TROUPE_ASSIGN(const auto path, card_text(*folder, "data_dir"));
    out.folder = normal_path(path);
  }
  const auto* by_default = x.member("default");
  if (x.member("<<") != nullptr || (by_default != nullptr && by_default->is_unread))
    return wrong_form("aliases are not read");
  const std::string answer = by_default == nullptr ? "" : core::lowered(by_default->scalar);
  out.is_default = out.name == "default" || answer == "true" || answer == "yes" || answer == "on";
  const auto* files = x.member("data_files");
  if (files == nullptr) return out;
  if (files->items.empty() || files->items.front().members.empty()) {
    TROUPE_ASSIGN(auto paths, card_paths(*files, "data_files"));
    out.splits.push_back({"train", std::move(paths)});
    return out;
  }
  for (const auto& one : files->items) {
    const auto *name = one.member("split"), *path = one.member("path");
    if (name == nullptr || path == nullptr) return wrong_form("wanted a split and a path in each item of data_files");
    TROUPE_ASSIGN(auto split_name, card_text(*name, "split"));
    TROUPE_ASSIGN(auto paths, card_paths(*path, "path"));
    out.splits.push_back({std::move(split_name), std::move(paths)});
  }
  return out;
}

core::result<std::vector<card_configuration>> configurations_in(const card_outline& outline) {
  std::vector<card_configuration> out;
  if (outline.hides_configs) return wrong_form("wanted them under a key at the beginning of a line");
  TROUPE_ASSIGN(const auto configs, read_card_value(outline.configs));
  if (configs.items.empty() && (!configs.members.empty() || !configs.scalar.empty() || configs.is_unread))
    return wrong_form("wanted a list of configurations, each with its keys");
  for (const auto& x : configs.items) {
    TROUPE_ASSIGN(auto one, configuration_in(x));
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

core::result<data_card> read_card(const fs::path& folder) {
  data_card out;
  std::error_code ec;
  const auto path = folder / "README.md";
  if (!fs::is_regular_file(path, ec)) return out;
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  std::string text(std::min(file.size(), max_card_bytes), '\0');
  TROUPE_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  if (!text.starts_with("---\n") && !text.starts_with("---\r\n")) return out;
  const auto end = text.find("\n---", 3);
  if (end == std::string::npos && text.size() < file.size())
    return fail(error_kind::bad_input,
                fmt::format("'{}': its metadata, which may list the files to train on, have no end within {} bytes: "
                            "name one of its data files as data.text, or a folder of them",
                            path.string(), max_card_bytes));
  if (end == std::string::npos) return out;
  const auto outline = outline_of(std::string_view(text).substr(4, end - 3));
  out.is_there = std::ranges::any_of(outline.keys, is_key_of_card);
  if (!out.is_there && !outline.hides_configs) return out;
  auto configs = configurations_in(outline);
  if (!configs)
    return fail(error_kind::bad_input,
                fmt::format("'{}': its `configs`, which list the files to train on, cannot be read: {}: name one of "
                            "its data files as data.text, or a folder of them",
                            path.string(), configs.error().text));
  out.configurations = std::move(*configs);
  return out;
}

}  // namespace troupe::data
