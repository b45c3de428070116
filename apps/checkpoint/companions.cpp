#include "apps/checkpoint/companions.hpp"

#include <array>
#include <span>
#include <vector>

#include "apps/checkpoint/model_description.hpp"
#include "core/system_error.hpp"
#include "models/table/model_folder.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 12> tokenizer_files{"tokenizer.json",     "tokenizer_config.json",
                                                      "tokenizer.model",    "special_tokens_map.json",
                                                      "added_tokens.json",  "vocab.json",
                                                      "merges.txt",         "chat_template.jinja",
                                                      "chat_template.json", "vocab.txt",
                                                      "spiece.model",       "tekken.json"};
constexpr std::array<const char*, 1> generation_files{"generation_config.json"};
constexpr const char* more_templates = "additional_chat_templates";
constexpr uint64_t max_companion_bytes = uint64_t{256} << 20;

/// Copies one file; returns false if it does not exist. A link without target is an error.
core::result<bool> copy_companion(const fs::path& from, const fs::path& to) {
  std::error_code e;
  const auto status = fs::symlink_status(from, e);
  if (status.type() == fs::file_type::not_found || e == std::errc::filename_too_long) return false;
  // Follows links, because caches of the Hugging Face hub consist of links
  const auto path = e ? fs::path() : fs::canonical(from, e);
  if (e) return core::fail(core::path_error(fs::is_symlink(status) ? "follow the link" : "read", from, e.value()));
  if (!fs::is_regular_file(path, e)) return false;
  TROUPE_ASSIGN(const auto text, storage::read_small_file(storage::real_files(), path, max_companion_bytes));
  TROUPE_TRY(storage::write_file_atomically(to, text));
  return true;
}

/// Copies all files called `names` from the first folder of `places` that has one of them, so that files of two
/// tokenizers are never mixed. Returns that folder; an empty path if no folder has such a file.
core::result<fs::path> copy_files(std::span<const char* const> names, std::span<const fs::path> places,
                                  const fs::path& to) {
  for (const auto& place : places) {
    bool any = false;
    for (const char* name : names) {
      TROUPE_ASSIGN(const auto copied,
                    place.empty() ? core::result<bool>(false) : copy_companion(place / name, to / name));
      any = any || copied;
    }
    if (any) return place;
  }
  return fs::path();
}

core::result<void> copy_templates(const fs::path& from, const fs::path& to) {
  std::error_code e;
  const auto unreadable = [&] {
    return core::fail(core::path_error("read the folder", from / more_templates, e.value()));
  };
  if (fs::symlink_status(from / more_templates, e).type() == fs::file_type::not_found) return {};
  fs::directory_iterator at(from / more_templates, e);
  if (e) return unreadable();
  for (; at != fs::directory_iterator(); at.increment(e)) {
    if (at->path().extension() != ".jinja") continue;
    std::error_code made;
    fs::create_directories(to / more_templates, made);
    if (made) return core::fail(core::path_error("make the folder", to / more_templates, made.value()));
    TROUPE_TRY(copy_companion(at->path(), to / more_templates / at->path().filename()));
  }
  if (e) return unreadable();
  return {};
}

core::result<void> copy_all(std::span<const fs::path> places, const fs::path& to) {
  TROUPE_ASSIGN(const auto tokenizer, copy_files(tokenizer_files, places, to));
  if (!tokenizer.empty()) TROUPE_TRY(copy_templates(tokenizer, to));
  const auto generation = copy_files(generation_files, places, to);
  return generation ? core::result<void>() : core::fail(generation.error());
}

/// Appends to `to` the folders in which the run's configuration names a tokenizer and a model.
void add_places(const config::job_config& run, std::vector<fs::path>& to) {
  if (!run.data.tokenizer_path.empty()) to.push_back(models::folder_of(run.data.tokenizer_path));
  if (!run.model.path.empty()) to.push_back(models::folder_of(run.model.path));
}

}  // namespace

core::result<void> copy_companions(const formats::tensor_source& from, const fs::path& to) {
  std::vector<fs::path> places{models::folder_of(from.folder)};
  if (const auto run = own_configuration(from)) add_places(*run, places);
  if (!from.run.model.empty() && !from.run.model.starts_with('{')) places.emplace_back(from.run.model);
  return copy_all(places, to);
}

core::result<void> copy_companions(const config::job_config& run, const fs::path& to) {
  std::vector<fs::path> places;
  add_places(run, places);
  return copy_all(places, to);
}

}  // namespace troupe::apps
